"""A failing run as a value: its steps, the token that repeats it, and its length in moves.

Moves make a counterexample of code comparable with one of a model. A step of a model is one of the protocol
("stage", "create the manifest", "find the owner"), a step of a run is a request. One move is:

- a look: reads and vain writes of one process, until a step has an effect or another process steps.
- a write that takes effect.
- a parallel step that has an effect.
- a crash, and time that passes by the adversary's choice
- a message

No move is: a lost reply (it belongs to its request), a note, the end of a process, what the program picks.

Properties that are judged at the end of a run let it run to its end, long after the harm was done. A model
stops there. So moves are counted up to where the violation was settled: the last fault or switch that the run
needs to fail has happened, and the property, judged at once, never holds again. A property that never held
waits for something that did not happen, and then the whole run counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fencepost.impl.store.events import Event
from fencepost.impl.store.requests import Outcome, Request
from fencepost.sim.explore import tokens
from fencepost.sim.explore.minimise import minimise
from fencepost.sim.explore.result import NearestPass, Violation
from fencepost.sim.explore.runs import Failure, Setting
from fencepost.sim.explore.steps import Line, Objects, folded_text, lines_of
from fencepost.sim.explore.tokens import HARMLESS, Replay, Target, follow, read, switches_of
from fencepost.sim.explore.watchdog import Limit, watching
from fencepost.sim.faults import ALTERNATIVES
from fencepost.sim.world import World
from fencepost.sim.world.footprints import FLIGHTS_FROM
from fencepost.sim.world.process import Diverged, Stuck
from fencepost.sim.world.trace import events
from fencepost.sim.world.view import View

EVENTS_MAX = 600
"""Events of one run in a result: keeps the counterexample of a long run readable, and a report small."""


@dataclass(frozen=True)
class Counterexample:
    """A violated property, the run that violates it, and the token that repeats it."""

    property: str
    reason: str
    lines: tuple[Line, ...]
    token: str
    switches: int
    faults: int
    processes: int
    events: tuple[Event, ...]
    raised_at: tuple[str, ...] | None = None
    """Lines of the user's code where the exception that ended a process was raised."""
    moves: int | None = None
    nearest_pass: NearestPass | None = None
    """The run that goes along with this one for as long as a run can that violates nothing."""
    minimised: bool = True
    """True if time sufficed to look for a shorter one."""
    back_to: int | None = None
    """The number of the step from which a run without end goes round again."""

    @classmethod
    def of(cls, replay: Replay, token: str, objects: Objects | None = None) -> "Counterexample":
        """Return the counterexample of a run that violated a property."""
        violation = replay.violation
        assert violation is not None, "only a violation has a counterexample"
        lines = tuple(lines_of(replay.world.run, objects))
        reason, back_to = violation.reason, None
        if violation.loop_at >= 0:
            back_to = len(lines_of(replay.world.run, steps=violation.loop_at)) + 1
            reason += f", and steps {back_to} to {len(lines)} repeat for ever"
        return cls(
            violation.name,
            reason,
            lines,
            token,
            switches_of(replay.steps),
            sum(1 for step in replay.steps if step.alternative not in HARMLESS and step.kind != "pick"),
            len(replay.world.processes),
            tuple(events(replay.world)),
            back_to=back_to,
        )

    def text(self) -> list[str]:
        """For people: the steps, and what they lead to."""
        again = [] if self.back_to is None else [f"      ... and again from step {self.back_to}"]
        return [*folded_text(self.lines), *again, f"  => {self.property}: {self.reason}"]

    def as_violation(self) -> Violation:
        """Return the counterexample as a result has it."""
        explained = self.back_to is not None or self.moves is not None
        return Violation(
            property=self.property,
            reason=self.reason,
            counterexample=tuple(self.text()),
            token=self.token,
            raised_at=self.raised_at or (),
            moves=self.moves,
            events=event_rows(self.events) if explained else (),
            nearest_pass=self.nearest_pass,
            steps=tuple(line.as_data() for line in self.lines),
            back_to=self.back_to,
        )


def counterexample_of(setting: Setting, failure: Failure, footprints: Any, limit: Limit) -> Counterexample:
    """Return the shortest counterexample of a failure that can be found in this time."""
    steps = list(failure.steps) or tokens.name_choices(
        setting, failure.choices, footprints, timed=failure.timed
    )
    found = follow(setting, steps)
    if found.violation is None:
        raise Diverged(
            f"{failure.violation} was found in a run, and not in another with the same choices. Something "
            "outside the world decides: a clock, randomness, an identifier, a variable that outlives a run"
        )
    try:
        with watching(limit.is_over):
            _, targets, in_time = minimise(setting, found, limit)
    except Stuck:
        # In a schedule that the search did not come to.
        targets, in_time = list(found.steps), False
    best, objects = follow_located(setting, targets)
    unmuted = follow(replace(setting, muted=frozenset()), targets) if setting.muted else best
    known = setting.muted if str(unmuted.violation) != str(best.violation) else ()
    token = tokens.write(targets, known, setting.lines, setting.loops)
    return replace(Counterexample.of(best, token, objects), minimised=in_time)


def follow_located(setting: Setting, targets: Sequence[Target]) -> tuple[Replay, Objects]:
    """Return the run of a token with everything that is shown of it."""
    objects = Objects()
    return follow(setting, targets, watch=objects.look, locate=True), objects


def event_rows(found: Sequence[Event]) -> tuple[Mapping[str, Any], ...]:
    """Events as plain data, without the columns that do not apply; the first few, however long the run."""
    return tuple(
        {name: value for name, value in asdict(event).items() if value not in ("", -1) and name != "run"}
        for event in found[:EVENTS_MAX]
    )


_LANDED = frozenset(name for name, found in ALTERNATIVES.items() if found.lands)


def moves_of(setting: Setting, found: Replay, token: str) -> int:
    """Return the moves of a run that violates a property, up to the step that settled it."""
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
        if promise is None or promise.compares_steps:
            # A monitor or a step property is violated by the last step.
            well = len(found.world.trace) - 1
        elif promise.judge(View(world.run)) is None:
            well = len(world.trace)

    follow(setting, found.steps, watch=look)
    return well


def _turned_at(setting: Setting, found: Replay, token: str, name: str) -> int:
    """Return the place of the last step without which the run would have ended well; -1 if there is none."""
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
    """Return the moves in the first `until` steps of a run."""
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
    """Return the parallel step that a request belongs to, if any."""
    actor, alternative, process, incarnation, *_ = world.trace[at]
    if actor < FLIGHTS_FROM or alternative == "land" or process is None:
        return None
    return (process.index, incarnation, world.footprints.group(actor))


def has_effect(world: World, at: int) -> bool:
    """Return True if a request changed what is stored."""
    _, alternative, _, _, _, op, answer, _ = world.trace[at]
    if not isinstance(op, Request) or op.reads or alternative not in _LANDED:
        return False
    return getattr(world.run.unreceived.get(at, answer), "outcome", None) is Outcome.DONE
