"""Configuration of one run, and nothing that changes during it."""

from dataclasses import dataclass

from fencepost.impl.store.events import TraceFields
from fencepost.sim.world.budget import NO_FAULTS, Budget
from fencepost.sim.world.loops import WAIT_ROUNDS
from fencepost.sim.world.stamps import STAMPED

START_NS = 1_700_000_000_000_000_000
"""Time of the true clock when a run starts, in nanoseconds since 1970."""
DAEMON_STEPS = 8
"""Steps that a daemon may take while other processes can step."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run. The program replaces them while it sets the world up, and never later."""

    budget: Budget = NO_FAULTS
    faults_max: int | None = None
    """Faults of the run, of any kind; None: the budget alone limits them."""
    seed: int = 0
    timed: int = STAMPED
    """Level of time that the search explores, see `stamps`."""
    muted: frozenset[str] = frozenset()
    """Properties that are known to be violated and are not judged."""
    lines: frozenset[str] = frozenset()
    """Names of shared memory: threads pause before each line of code that has one, see `threads.lines`."""
    pauses: tuple[str, ...] = ()
    """Alternatives of a pause besides the usual one."""
    start_ns: int = START_NS
    stamped: bool = True
    """Give objects their times of modification."""
    skew_ns: int = 30_000_000_000
    """Error of a skewed clock, in nanoseconds."""
    skews: tuple[str, ...] = ()
    """Alternatives of a skewed clock besides the usual ones."""
    pause_fixed: bool = False
    """True if the program sets the length of every pause."""
    pause_ns: int = 60_000_000_000
    """Length of the usual pause, in nanoseconds."""
    tick_ns: int = 1_000_000_000
    """Length of a tick, in nanoseconds."""
    ticks: int = 1
    """Number of ticks in a run, at most."""
    daemon_steps: int = DAEMON_STEPS
    wait_rounds: int = WAIT_ROUNDS
    """Rounds in vain after which a process is held back, see `loops`."""
    shares_nothing: bool = False
    """The program's promise that its processes share no variables."""
    lost_reply: str = "closed"
    """Form in which an SDK receives a lost reply, see `sim.boto`."""
    s3_endpoints: tuple[str, ...] = ()
    """Hosts that the program declared to be S3, see `sim.boto.wire`."""
    trace_fields: TraceFields | None = None
    """Fields of bodies that events show, see `impl.store.events`."""
    promises_only: bool = False
    """Judge promises, and none of the program's own properties."""
