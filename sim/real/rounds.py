"""Round after round of a program against a real store, below a prefix of our own that goes afterwards."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store
from fencepost.sim.probe.footprint import Footprint
from fencepost.sim.probe.ground import Ground
from fencepost.sim.real.prefixed import Prefixed
from fencepost.sim.real.world import RealWorld
from fencepost.sim.world.monitor import SOMETIMES

ROOT = "fencepost-audit/"


@dataclass(frozen=True)
class Plain:
    """What is wanted of a plain run."""

    rounds: int = 100
    seconds: float | None = None
    """At most, for all rounds."""
    round_seconds: float = 60.0
    seed: int = 0
    """Of what programs pick."""


@dataclass
class Found:
    """What was seen in all rounds together."""

    prefix: str
    rounds: int = 0
    processes: int = 0
    requests: int = 0
    at_once: int = 0
    looks: int = 0
    unconfirmed: int = 0
    seconds: float = 0.0
    violation: tuple[str, str] | None = None
    counterexample: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    interrupted: bool = False
    left: list[str] = field(default_factory=list)
    """What could not be removed."""


def run_rounds(
    program: Callable[[Any], Any],
    store: Store,
    wanted: Plain,
    watch: Callable[[Found], object] = lambda _: None,
) -> Found:
    """Run until something breaks, or the rounds or the time are used up. Always removes what it wrote."""
    env = SystemEnvironment()
    ground, footprint = Ground(store, env, root=ROOT), Footprint(store)
    found = Found(ground.prefix)
    never: set[str] = set()
    begun_ns = env.monotonic_ns()
    try:
        store.verify()
        for number in range(1, wanted.rounds + 1):
            found.seconds = (env.monotonic_ns() - begun_ns) / 1e9
            if wanted.seconds is not None and found.seconds >= wanted.seconds:
                found.findings.append(f"the time was up after {number - 1} of {wanted.rounds} rounds")
                break
            never = _round(program, store, wanted, ground, found, number, never)
            watch(found)
            if found.violation is not None:
                break
    except KeyboardInterrupt:
        found.interrupted = True
        found.findings.append("interrupted: this is what was found so far")
    finally:
        _sweep(ground, footprint, found)
    found.seconds = (env.monotonic_ns() - begun_ns) / 1e9
    _conclude(found, never)
    return found


def _round(
    program: Callable[[Any], Any],
    store: Store,
    wanted: Plain,
    ground: Ground,
    found: Found,
    number: int,
    never: set[str],
) -> set[str]:
    """One round; returns the `sometimes` that no round has met yet."""
    world = RealWorld(
        Prefixed(store, f"{ground.prefix}{number:05d}/", ground), seed=wanted.seed, number=number
    )
    left = wanted.round_seconds
    if wanted.seconds is not None:
        left = min(left, max(0.1, wanted.seconds - found.seconds))
    try:
        program(world)
        world.run(left)
    finally:
        for close in world.closing:
            close()
        _add(found, world)
        ground.tidy()
    if world.unusable is not None:
        raise world.unusable
    found.rounds = number
    if world.violation is not None:
        found.violation = (world.violation.name, world.violation.reason)
        found.counterexample = [*world.lines, f"  => {world.violation.name}: {world.violation.reason}"]
    unmet = {promise.name for promise in world.properties if promise.kind == SOMETIMES and not promise.met}
    return unmet if number == 1 else never & unmet


def _add(found: Found, world: RealWorld) -> None:
    found.processes = len(world.processes)
    found.requests += world.requests
    found.at_once = max(found.at_once, world.at_once)
    found.looks += world.looks
    found.unconfirmed += world.unconfirmed
    found.outcomes += world.outcomes
    found.steps += world.steps
    found.findings += [finding for finding in world.findings if finding not in found.findings]


def _sweep(ground: Ground, footprint: Footprint, found: Found) -> None:
    try:
        found.left = ground.sweep() if ground.touched else []
    except StoreError as error:
        found.left = [str(error)]
    footprint.remove()


def _conclude(found: Found, never: set[str]) -> None:
    if found.rounds and found.violation is None:
        found.findings += [f"{name}: never happened in any round" for name in sorted(never)]
        if found.at_once < 2:
            found.findings.append("no two requests were ever under way at once: no order was put to the test")
    if found.unconfirmed:
        found.findings.append(
            f"{found.unconfirmed} times a check found a violation that was gone when nobody wrote: "
            "either it lasted for an instant, or the check saw half of a change"
        )
    if found.left:
        found.findings.append(f"could not remove everything below {found.prefix}: {found.left[0]}")
