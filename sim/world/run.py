"""One run as it stands: what exists, who waits for what, what the properties know.

This is the part that schedulers save, compare and take up again; the steps that change it are in `steps`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from fencepost.impl.store.events import TraceFields
from fencepost.impl.store.requests import Request
from fencepost.sim.world import budget as fault
from fencepost.sim.world.budget import Budget
from fencepost.sim.world.costs import AtMost, judge
from fencepost.sim.world.landing import WorldBucket
from fencepost.sim.world.objects import EVERY_STEP, Objects
from fencepost.sim.world.process import Flight, Process
from fencepost.sim.world.recall import Recall
from fencepost.sim.world.store import WorldEnvironment, WorldStore
from fencepost.sim.world.view import FINALLY, Property, View, Violation


class Follower(Protocol):
    """Reads a run while it goes on, and says at once when it is wrong.

    Unlike a property it sees every step and is nobody's reason to try another order: of runs that differ only
    by swapping steps that nobody can tell apart, it reads one. Only runs that it will read alike are merged.
    """

    def landed(self, process: str, incarnation: int, request: Any, reply: Any) -> str | None:
        """A request took effect, or was refused by the store; what is wrong with that."""

    def noted(self, process: str, incarnation: int, topic: str, value: Any) -> str | None:
        """A process noted something; what is wrong with that."""

    def state(self) -> Any:
        """Everything that what comes next is judged by."""


Step = tuple[int, str, Process | None, int, int, Any, Any, int]
"""Actor, alternative, process, incarnation, number of the operation, operation, answer, clock."""

CLOCK_ACTOR = 900
_LANDED = frozenset({"ok", "reply_lost", "duplicated", "land"})
START_NS = 1_700_000_000_000_000_000


class Run:
    """Everything a run consists of."""

    def __init__(
        self,
        objects: Objects | None = None,
        budget: Budget = fault.NO_FAULTS,
        *,
        seed: int = 0,
        timed: bool = True,
        recall: Recall | None = None,
    ) -> None:
        self.objects = objects or Objects()
        self.seed = seed
        self.timed = timed
        """Whether clock readings are steps. They need not be as long as nobody ever sleeps."""
        self.bucket = WorldBucket()
        self.start_ns = START_NS
        self.clock_ns = 0
        self.left = budget.left()
        self.skew_ns = 30_000_000_000
        self.pause_ns = 60_000_000_000
        self.streams: dict[Any, Any] = {}
        self.noted: dict[str, list[tuple[str, Any]]] = {}
        self.channels: dict[str, tuple[Any, ...]] = {}
        """The messages that have arrived and were not received yet."""
        self.processes: list[Process] = []
        self.flights: dict[int, Flight] = {}
        self.properties: list[Property] = []
        self.trace: list[Step] = []
        self.followers: list[tuple[str, Follower]] = []
        self.measures: list[Callable[[Any], Mapping[str, int]]] = []
        """Asked at the end of a run; the search keeps the largest of each number."""
        self.bounds: list[AtMost] = []
        """What operations may cost."""
        self.reports: list[Callable[[], Mapping[str, Any]]] = []
        """Asked when the search is over: what its result says besides."""
        self.untold: dict[int, Any] = {}
        """By step, the replies that the store gave and nobody received."""
        self.running: Process | None = None
        self.violation: Violation | None = None
        self.findings: list[str] = []
        self.held_back = False
        """Whether somebody who asked in vain had to wait while others could go on."""
        self.time_mattered = False
        """Whether anybody slept, or read a clock that could have moved on."""
        self.judging = True
        """Off while the beginning of a run is repeated, whose judgements are known."""
        self.r = EVERY_STEP
        self.w = 0
        self.before = 0
        self.told: tuple[int, Any] | None = None
        """Which process was told what by the last step: what its memory is made of."""
        self.env = WorldEnvironment(self)
        self._store = WorldStore(self)
        self._view = View(self)
        self._watched = 0
        self._ticks = 0
        self._alone = False
        """Whether the next step is a spinning process's, because nobody else can step."""
        self._setup: Process | None = None
        self._recall = recall
        self._shares_nothing = False
        self._setup_told: tuple[Any, ...] = ()
        """What the program picked while it set the world up."""
        self._tickets = 0
        self._stamped = True
        self.trace_fields: TraceFields | None = None
        """What the run's events tell of bodies, see `impl.store.events`."""
        self.boto3_lost = "closed"
        """How a lost reply shows to the SDK, see `sim.boto`."""
        self.closing: list[Callable[[], None]] = []
        """Called when the run is over."""

    def _judge(self) -> None:
        written = self.w
        for promise in self.properties:
            if written & promise.reads and promise.kind != FINALLY:
                self.w |= promise.bit
                self.r |= promise.bit
                self._look(promise)
        self._watch()

    def _look(self, promise: Property) -> None:
        if promise.met:
            # The good thing has happened; it stays so for the rest of the run.
            promise.reads = 0
            return
        wrong = promise.judge(self._view)
        self.r |= promise.reads
        if wrong is not None and self.violation is None:
            self.violation = Violation(promise.name, wrong)

    def _watch(self) -> None:
        self._watched = 0
        for promise in self.properties:
            if promise.kind != FINALLY:
                self._watched |= promise.reads

    def _follow(self) -> None:
        """Show the last step to the followers."""
        _, alternative, process, incarnation, _, op, answer, _ = self.trace[-1]
        if process is None or not process.index:
            return
        if isinstance(op, Request):
            if alternative not in _LANDED:
                return
            answer = self.untold.get(len(self.trace) - 1, answer)
        elif op.kind != "note" or alternative == "crash":
            return  # a crash is shown with what it kept the process from
        for name, follower in self.followers:
            if isinstance(op, Request):
                wrong = follower.landed(process.name, incarnation, op, answer)
            else:
                wrong = follower.noted(process.name, incarnation, op.subject, op.value)
            if wrong is not None and self.violation is None:
                self.violation = Violation(name, wrong)

    def _hold_to_bounds(self) -> None:
        """Judge what the last step may have made too dear."""
        wrong = judge(self, self.bounds)
        if wrong is not None and self.violation is None:
            self.violation = wrong

    def _wake_spinners(self) -> None:
        """Something changed: whoever asked about it in vain may ask again."""
        for process in self.processes:
            if process.spins and self.w & process.asked[2] and not self._alone:
                process.spins = 0
        self._alone = False

    def state(self, memories: tuple[Any, ...]) -> Any:
        """Everything the future depends on. `memories` stands for what each running process knows."""
        crashes = self.left[fault.CRASH]
        processes = [
            (
                process.state,
                memories[process.index] if process.pending is not None else ending(process),
                crashes and process.effective,
                process.retried,
                process.spins,
                process.skew_ns,
                None if process.group is None else tuple(process.group.replies),
            )
            for process in self.processes
        ]
        flights = [
            (f.actor, f.retried, plain(f.request.message) if f.request.kind == "post" else f.request)
            for f in self.flights.values()
        ]
        return (
            self.bucket.state(),
            self.left,
            self.clock_ns,
            tuple(processes),
            tuple(sorted(flights)) if len(flights) > 1 else tuple(flights),
            tuple([(topic, plain(notes)) for topic, notes in sorted(self.noted.items())]),
            plain(self.channels) if self.channels else None,
            self.judgement(),
            tuple([follower.state() for _, follower in self.followers]),
        )

    def past(self, actor: int) -> int:
        """The steps that come before the actor's next one for certain, as far as they are known."""
        if actor == CLOCK_ACTOR:
            return self._ticks
        flight = self.flights.get(actor)
        if flight is not None:
            return flight.born
        owner = actor if actor <= len(self.processes) else self.objects.owner(actor)
        if not owner:
            return 0
        process = self.processes[owner - 1]
        return process.last | (process.group.steps if process.group is not None else 0)

    def judgement(self) -> tuple[Any, ...]:
        """What the properties know."""
        return tuple([(p.reads, p.met) for p in self.properties])

    def restore(self, judgement: tuple[Any, ...]) -> None:
        """Take up judging where an earlier run with the same beginning left it."""
        for promise, (reads, met) in zip(self.properties, judgement, strict=True):
            promise.reads = reads
            promise.met = met
        self._watch()

    def _log(
        self,
        actor: int,
        alternative: str,
        process: Process | None,
        number: int,
        op: Any,
        answer: Any,
        incarnation: int = -1,
    ) -> None:
        if incarnation < 0 and process is not None:
            incarnation = process.incarnation
        self.trace.append(
            (actor, alternative, process, max(incarnation, 0), number, op, answer, self.clock_ns)
        )

    def _kill(self, process: Process, *, crash: bool = False) -> None:
        self.running = process
        if not (process.crash() if crash else process.kill()):
            self.findings.append(
                f"process {process.name!r} does not let itself be crashed: it swallows the exception that "
                "unwinds it (look for a bare `except:` or `except BaseException:`)"
            )
        self.running = None


def ending(process: Process) -> Any:
    """What is left of a process that ended."""
    if process.error is None:
        return plain(process.result)
    return (type(process.error), str(process.error))


def plain(value: Any) -> Any:
    """A hashable value that is equal only for equal values. Objects nobody can compare equal themselves."""
    if isinstance(value, list | tuple):
        return (type(value), tuple([plain(item) for item in value]))
    if isinstance(value, dict):
        return (dict, tuple([(plain(key), plain(item)) for key, item in value.items()]))
    if isinstance(value, set):
        return (set, frozenset(plain(item) for item in value))
    try:
        hash(value)
    except TypeError:
        return object()
    return (type(value), value)
