"""How long a counterexample is in *moves*, so that it can be held against the counterexample of a model.

A model's step is one of the protocol ("stage", "create the manifest", "look whose it is"), a line of a
counterexample
is a request. So requests are taken together as a model takes them:

- a look: what one process reads, and what it writes in vain, until somebody's step has an effect or another
  process steps
- a write that takes effect
- a parallel step that has an effect, whatever it reads and writes, and wherever that lands
- a crash, and time that passes by the adversary's choice
- a message

No move are: a lost reply (it goes with its request), a note, the end of a process, what the program picks.

Properties that are judged at the end of a run have it run to its end, long after the harm was done. A model
stops there. So moves are counted up to where it was settled: the last fault or switch that the run needs to
go wrong has happened, and the property, judged at once, holds never again. A property that never held waits
for something that did not come, and then the whole run counts.
"""

from dataclasses import replace
from typing import Any

from fencepost.impl.store.requests import Outcome, Request
from fencepost.sim.explore.runs import Setting
from fencepost.sim.explore.tokens import HARMLESS, Replay, Target, follow, read
from fencepost.sim.world import World
from fencepost.sim.world.objects import FLIGHTS_FROM
from fencepost.sim.world.view import View

_IN_VAIN = frozenset({"request_lost", "late", "never", "conflict", "throttled"})


def moves_of(setting: Setting, found: Replay, token: str) -> int:
    """The moves of a run that violates a property, up to where that was settled."""
    violation = found.violation
    assert violation is not None, "only a violation has a counterexample"
    seen = [_well_until(setting, found, violation.name), _turned_at(setting, found, token, violation.name)]
    return count(found.world, until=max(seen) + 1 if max(seen) >= 0 else None)


def _well_until(setting: Setting, found: Replay, name: str) -> int:
    """After so many steps the property held for the last time; -1 when it never did."""
    well = -1

    def look(world: World) -> None:
        nonlocal well
        promise = next((promise for promise in world.properties if promise.name == name), None)
        if promise is not None and promise.judge(View(world)) is None:
            well = len(world.trace)

    follow(setting, found.steps, watch=look)
    return well


def _turned_at(setting: Setting, found: Replay, token: str, name: str) -> int:
    """The place of the last step without which the run would have ended well; -1 when it needs none."""
    targets = read(token)
    while targets:
        without = follow(setting, targets[:-1])
        if without.violation is None or without.violation.name != name:
            return _place(found, targets[-1])
        targets.pop()
    return -1


def _place(found: Replay, target: Target) -> int:
    """Which step a target of a token is; a token does not say in which harmless way something was done."""
    for place, step in enumerate(found.steps):
        harmless = step.alternative in HARMLESS and target.alternative in HARMLESS
        if replace(step, alternative=target.alternative) == target and (
            harmless or step.alternative == target.alternative
        ):
            return place
    return len(found.steps) - 1


def count(world: World, until: int | None = None) -> int:
    """The moves in the first `until` steps of a run."""
    moves = 0
    looking: Any = None
    """Whose look goes on."""
    effective = {_group(world, at) for at in range(len(world.trace)) if has_effect(world, at)} - {None}
    """The parallel steps that write something; the others are looks."""
    counted: set[Any] = set()
    for at, (_, alternative, process, incarnation, _, op, _, _) in enumerate(world.trace[:until]):
        if process is None:
            moves, looking = moves + (alternative not in HARMLESS), None
            continue
        if not process.index or not (alternative == "crash" or isinstance(op, Request) or op.kind == "post"):
            continue
        who = (process.index, incarnation)
        group = _group(world, at)
        if alternative == "crash" or op.kind == "post":
            moves, looking = moves + 1, None
        elif group in effective:
            moves, looking = moves + (group not in counted), None
            counted.add(group)
        elif has_effect(world, at):
            moves, looking = moves + 1, None
        elif looking != who:
            moves, looking = moves + 1, who
    return moves


def _group(world: World, at: int) -> Any:
    """The parallel step that a request belongs to, if any."""
    actor, alternative, process, incarnation, *_ = world.trace[at]
    if actor < FLIGHTS_FROM or alternative == "land" or process is None:
        return None
    return (process.index, incarnation, world.objects.group(actor))


def has_effect(world: World, at: int) -> bool:
    """Whether a request changed what is stored."""
    _, alternative, _, _, _, op, answer, _ = world.trace[at]
    if not isinstance(op, Request) or op.reads or alternative in _IN_VAIN:
        return False
    return getattr(world.untold.get(at, answer), "outcome", None) is Outcome.DONE
