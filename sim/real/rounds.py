"""Run a program against a real store in rounds, below a prefix that is removed afterwards."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store
from fencepost.sim.explore.runs import run
from fencepost.sim.probe.scratch import Footprint, ScratchPrefix
from fencepost.sim.real.prefixed import Prefixed
from fencepost.sim.real.world import RealWorld

ROOT = "fencepost-audit/"


@dataclass(frozen=True)
class Plain:
    """Options of a run against a real store."""

    rounds: int = 100
    seconds: float | None = None
    """Time limit of all rounds together."""
    round_seconds: float = 60.0
    seed: int = 0
    """Seed of the values that programs pick."""


@dataclass
class Found:
    """Totals of all rounds."""

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
    """Errors and keys of the final removal."""


def run_rounds(
    program: Callable[[Any], Any],
    store: Store,
    wanted: Plain,
    watch: Callable[[Found], object] = lambda _: None,
) -> Found:
    """Run until a violation, the last round, or the time limit; always remove all written objects."""
    env = SystemEnvironment()
    scratch, footprint = ScratchPrefix(store, env, root=ROOT), Footprint(store)
    found = Found(scratch.prefix)
    never: set[str] = set()
    begun_ns = env.monotonic_ns()
    try:
        store.verify()
        for number in range(1, wanted.rounds + 1):
            found.seconds = (env.monotonic_ns() - begun_ns) / 1e9
            if wanted.seconds is not None and found.seconds >= wanted.seconds:
                found.findings.append(f"the time was over after {number - 1} of {wanted.rounds} rounds")
                break
            never = _round(program, store, wanted, scratch, found, number, never)
            watch(found)
            if found.violation is not None:
                break
    except KeyboardInterrupt:
        found.interrupted = True
        found.findings.append("interrupted: these are the results so far")
    finally:
        _sweep(scratch, footprint, found)
    found.seconds = (env.monotonic_ns() - begun_ns) / 1e9
    _conclude(found, never)
    return found


def _round(
    program: Callable[[Any], Any],
    store: Store,
    wanted: Plain,
    scratch: ScratchPrefix,
    found: Found,
    number: int,
    never: set[str],
) -> set[str]:
    """One round; returns the `sometimes` that no round has met yet."""
    left = wanted.round_seconds
    if wanted.seconds is not None:
        left = min(left, max(0.1, wanted.seconds - found.seconds))
    prefixed = Prefixed(store, f"{scratch.prefix}{number:05d}/", scratch)
    world = RealWorld(prefixed, seed=wanted.seed, number=number, seconds=left)
    try:
        run(world, program, lambda world, enabled: (enabled[0], world.alternatives(enabled[0])[0]))
    finally:
        world.close()
        _add(found, world)
        scratch.tidy()
    if world.unusable is not None:
        raise world.unusable
    found.rounds = number
    if world.violation is not None:
        found.violation = (world.violation.name, world.violation.reason)
        found.counterexample = [*world.lines, f"  => {world.violation.name}: {world.violation.reason}"]
    unmet = {promise.name for promise in world.properties if promise.is_wanted and not promise.met}
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


def _sweep(scratch: ScratchPrefix, footprint: Footprint, found: Found) -> None:
    try:
        found.left = scratch.sweep() if scratch.touched else []
    except StoreError as error:
        found.left = [str(error)]
    footprint.remove()


def _conclude(found: Found, never: set[str]) -> None:
    if found.rounds and found.violation is None:
        found.findings += [f"{name}: never happened in any round" for name in sorted(never)]
        if found.at_once < 2:
            found.findings.append("no two requests were ever in flight at once: no order was tested")
    if found.unconfirmed:
        found.findings.append(
            f"{found.unconfirmed} times a check found a violation that was gone without concurrent writes: "
            "either it was short, or the check read half of a change"
        )
    if found.left:
        found.findings.append(f"could not remove everything below {found.prefix}: {found.left[0]}")
