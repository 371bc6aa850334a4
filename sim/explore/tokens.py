"""Replay tokens: a schedule in one line that a person can read, and that outlives unrelated edits.

    owner-1:put:lock:1,owner-2:put:lock:1=reply_lost

A token is a list of targets: process, kind of operation, key, occurrence, and the alternative when it is not
the harmless one. Each means: let this process run until it has done this. The steps between targets follow
one rule: the actor that stepped last goes on; when it cannot, the first process that can. So a token only
holds the places where a schedule leaves that rule. Requests to other keys that an edit adds or removes on the
way do not disturb it; when a target is never reached, the replay says which.

Endless loops that starve other actors change the rule, and a new session has not learnt them. So marks before
the targets name them, as they name muted properties and shared memory.
"""

import itertools
import urllib.parse
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fencepost.impl.store.events import Event
from fencepost.sim.explore.endless import judge_endless, learn_waiting, waits_for_ever
from fencepost.sim.explore.runs import Choice, Setting, name_of
from fencepost.sim.faults import ALTERNATIVES, WORLD, names, pause_ns, skew_ns
from fencepost.sim.world import CLOCK_ACTOR, POWER_ACTOR, Budget, Violation, World
from fencepost.sim.world.located import AuditError
from fencepost.sim.world.loops import Loops
from fencepost.sim.world.operations import Delivery, Parallel
from fencepost.sim.world.stamps import WATCHED
from fencepost.sim.world.trace import events

UNLIMITED = Budget(**dict.fromkeys(names(WORLD), 1_000_000))
"""A token names its faults, so a replay needs no limit."""


class BadToken(ValueError):
    """The text is no token."""


@dataclass(frozen=True)
class Target:
    """Run `process` until it has done this."""

    process: str
    kind: str
    subject: str
    occurrence: int
    alternative: str

    def __str__(self) -> str:
        quoted = [_quote(part) for part in (self.process, self.kind, self.subject)]
        text = ":".join([*quoted, str(self.occurrence)])
        return text if self.alternative in HARMLESS else f"{text}={self.alternative}"


HARMLESS = tuple(name for name, found in ALTERNATIVES.items() if found.harmless)
"""Alternatives that no token names."""
_OF_LATE = {*HARMLESS, *(name for name, found in ALTERNATIVES.items() if found.late)}


LINES = "@"
"""Before a name of shared memory: threads pause before each line of code that has it."""
MUTED = "~"
"""Before the name of a property that the run violates too, and which is not judged in it."""
STARVING = "+"
"""Before a process and the first operation of its endless loop, which takes a few rounds beside others."""
_MARKS = (LINES, MUTED, STARVING)


def write(
    targets: Sequence[Target],
    muted: Collection[str] = (),
    lines: Collection[str] = (),
    loops: Loops | None = None,
) -> str:
    names = [MUTED + _quote(name) for name in sorted(muted)]
    names += [LINES + _quote(name) for name in sorted(lines)]
    starving = loops.starving if loops is not None else ()
    names += [f"{STARVING}{_quote(process)}:{_quote(begins)}" for process, begins in sorted(starving)]
    return ",".join([*names, *map(str, targets)]) or "default"


def muted_for(setting: Setting, token: str) -> Setting:
    """Return the setting in which a token is to be followed.

    Its loops with effects are those that the token names: they limit the choices of the common rule.
    """
    muted, lines = _named(token, MUTED), _named(token, LINES)
    loops = setting.loops.beside(_starving(token))
    return replace(setting, muted=setting.muted | muted, lines=setting.lines | lines, loops=loops)


def _starving(token: str) -> set[tuple[str, str]]:
    parts = (part[1:].partition(":") for part in token.strip().split(",") if part.startswith(STARVING))
    return {(_unquote(process), _unquote(begins)) for process, _, begins in parts}


def _named(token: str, mark: str) -> frozenset[str]:
    names = (part[1:] for part in token.strip().split(",") if part.startswith(mark))
    return frozenset(_unquote(name) for name in names)


def read(token: str) -> list[Target]:
    """Return the targets of a token, or `BadToken` with the part that cannot be read."""
    if token.strip() in ("", "default"):
        return []
    return [_read_one(part) for part in token.strip().split(",") if not part.startswith(_MARKS)]


def _read_one(part: str) -> Target:
    step, _, alternative = part.partition("=")
    fields = step.split(":")
    if len(fields) != 4 or not fields[3].isdecimal():
        raise BadToken(
            f"{part!r} in the token is not process:operation:key:occurrence[=fault]; "
            "paste the whole token as it was printed"
        )
    process, kind, subject = map(_unquote, fields[:3])
    if not alternative:
        alternative = {"advance": "advance"}.get(kind, "ok")
    return Target(process, kind, subject, int(fields[3]), alternative)


def _quote(text: str) -> str:
    return urllib.parse.quote(text, safe="/._-", errors="surrogatepass")


def _unquote(text: str) -> str:
    try:
        return urllib.parse.unquote(text, errors="surrogatepass")
    except UnicodeDecodeError:
        raise BadToken(
            f"{text!r} in the token is not UTF-8; paste the whole token as it was printed"
        ) from None


class Namer:
    """Gives every operation its name: process, kind, key, and the how-manieth of those it is."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}
        self._known: dict[tuple[int, int, bool], tuple[str, str, str, int]] = {}
        self._ticks = 0

    def look(self, world: World) -> None:
        """Name what is newly waiting. To be called before every step."""
        for process in world.strands:
            if process.group is not None:
                for slot, request in enumerate(process.pending.requests):
                    self._name(process, process.group.first + slot, request)
            elif process.pending is not None and type(process.pending) is not Parallel:
                self._name(process, process.ops, process.pending)

    def name(self, world: World, actor: int) -> tuple[str, str, str, int]:
        """Return the name of the actor's next step."""
        if actor == CLOCK_ACTOR:
            ticks = sum(1 for step in world.trace if step[0] == CLOCK_ACTOR)
            return ("clock", "advance", "", ticks + 1)
        if actor == POWER_ACTOR:
            op = world.pending(actor)
            before = sum(1 for step in world.trace if step[0] == POWER_ACTOR and step[5].kind == op.kind)
            return ("power", op.kind, op.subject, before + 1)
        if actor == 0:
            op = world.pending(0)
            picks = sum(1 for step in world.trace if step[5].kind == "pick" and step[5].subject == op.subject)
            return ("setup", op.kind, op.subject, picks + 1)
        flight = world.flights.get(actor)
        if flight is not None:
            return self._known[flight.process.index, flight.number, False]
        process = world.run.strand(actor)
        return self._known[process.index, process.ops, type(process.pending) is Delivery]

    def _name(self, process: Any, number: int, op: Any) -> None:
        key = (process.index, number, type(op) is Delivery)
        if key not in self._known:
            what = (process.name, op.kind, op.subject)
            self._counts[what] = self._counts.get(what, 0) + 1
            self._known[key] = (*what, self._counts[what])


@dataclass
class Replay:
    """The run of a token."""

    world: World
    steps: list[Target]
    violation: Violation | None
    misfit: str
    """Why the token no longer fits the program; empty when it does."""

    def events(self, run: str = "") -> list[Event]:
        return events(self.world, run)


def follow(
    setting: Setting,
    targets: Sequence[Target],
    *,
    timed: int = WATCHED,
    watch: Callable[[World], None] | None = None,
    locate: bool = False,
    watched: bool = False,
) -> Replay:
    """Run the program along the targets, and on to the end by the common rule. `watch` sees the world before
    and after every step. With `locate` it keeps the line of every operation.
    """
    if watch is None:
        return _walk_until_loops_are_known(setting, targets, timed, locate, watched)
    _walk_until_loops_are_known(setting, targets, timed, locate, watched)
    return _walk(setting, targets, timed, locate, watched, watch)


def _walk_until_loops_are_known(
    setting: Setting, targets: Sequence[Target], timed: int, locate: bool, watched: bool
) -> Replay:
    """Walk again while a run shows endless loops: a held process has other choices then."""
    while True:
        replay = _walk(setting, targets, timed, locate, watched)
        if not setting.loops.adopt():
            return replay


def _walk(
    setting: Setting,
    targets: Sequence[Target],
    timed: int,
    locate: bool,
    watched: bool,
    watch: Callable[[World], None] | None = None,
) -> Replay:
    world = setting.world(timed=timed, budget=UNLIMITED.but(restart=setting.budget.restart), watched=watched)
    if locate:
        world.run.keep_lines()
    named = [target.alternative for target in targets]
    pauses, skews = ([one for one in named if length(one)] for length in (pause_ns, skew_ns))
    world.allow_lengths(pauses, skews)
    run = _Following(world, list(targets), watch)
    try:
        world.start(setting.program)
        try:
            run.go(setting.steps_max)
        except AuditError as error:
            run.misfit = str(error)
        return Replay(world, run.steps, world.violation, run.misfit)
    finally:
        world.close()


class _Following:
    def __init__(
        self, world: World, targets: list[Target], watch: Callable[[World], None] | None = None
    ) -> None:
        self._watch = watch
        self.world = world
        self.targets = targets
        self.steps: list[Target] = []
        self.misfit = ""
        self._namer = Namer()
        self._last = -1

    def go(self, steps_max: int) -> None:
        world = self.world
        while world.violation is None and not world.run.overran:
            if self.targets:
                world.expect(self.targets[0].process)
            enabled = world.enabled()
            if not enabled:
                world.complete()
                break
            over = len(world.trace) - world.run.rushed >= steps_max and world.run.rushing is None
            if over or (not self.targets and waits_for_ever(world, enabled)):
                learn_waiting(world, enabled)
                judge_endless(world, enabled)
                break
            self._namer.look(world)
            actor, alternative = self._choose(enabled)
            self.steps.append(Target(*self._namer.name(world, actor), alternative))
            if self._watch is not None and not self.steps[1:]:
                self._watch(world)  # as it was before the first step
            world.step(actor, alternative)
            if self._watch is not None:
                self._watch(world)
            self._last = actor
        if self.targets and not self.misfit:
            self.misfit = f"the run ended before {self.targets[0]} (of the token) came about"

    def _choose(self, enabled: list[int]) -> Choice:
        world = self.world
        if self.targets and not self.misfit:
            target = self.targets[0]
            for actor in enabled:
                if self._is(actor, target):
                    if target.alternative in world.alternatives(actor) or target.alternative in HARMLESS:
                        self.targets.pop(0)
                        offered = world.alternatives(actor)
                        return actor, target.alternative if target.alternative in offered else offered[0]
                    self.misfit = f"{target}: this fault is not possible there any more"
            for actor in enabled:
                if not self.misfit and actor != CLOCK_ACTOR and name_of(world, actor) == target.process:
                    return actor, world.alternatives(actor)[0]
        return self._by_rule(enabled)

    def _is(self, actor: int, target: Target) -> bool:
        name = self._namer.name(self.world, actor)
        if name != (target.process, target.kind, target.subject, target.occurrence):
            return False
        flight = self.world.flights.get(actor)
        zombie = flight is not None and flight.zombie
        return not zombie or target.alternative in _OF_LATE

    def _by_rule(self, enabled: list[int]) -> Choice:
        return by_rule(self.world, enabled, self._last)


def by_rule(world: World, enabled: Sequence[int], last: int) -> Choice:
    """The actor that stepped last goes on, else the first that can; without a fault.

    Daemons come last, and so do processes that are held back.
    """
    scheduler = world.scheduler
    goes_on = last in enabled and last not in (CLOCK_ACTOR, POWER_ACTOR) and not scheduler.gives_up(last)
    if goes_on and not (world.run.has_daemons and scheduler.is_of_a_daemon(last)):
        return last, scheduler.alternatives(last)[0]
    return enabled[0], scheduler.alternatives(enabled[0])[0]


def name_choices(setting: Setting, choices: Sequence[Choice], footprints: Any, *, timed: int) -> list[Target]:
    """Return the names of the steps of a schedule, by running it."""
    world = setting.world(footprints, timed=timed)
    namer = Namer()
    steps = []
    try:
        world.start(setting.program)
        for actor, alternative in choices:
            namer.look(world)
            steps.append(Target(*namer.name(world, actor), alternative))
            world.step(actor, alternative)
    finally:
        world.close()
    return steps


def shorten(setting: Setting, steps: list[Target], *, timed: int = WATCHED) -> list[Target]:
    """Return the fewest targets we find that still lead along exactly these steps."""
    targets = turns(steps)
    if not _leads_along(setting, targets, steps, timed):
        targets = list(steps)
    at = len(targets) - 1
    while at >= 0:
        shorter = targets[:at] + targets[at + 1 :]
        if _leads_along(setting, shorter, steps, timed):
            targets = shorter
        at -= 1
    return targets


def turns(steps: list[Target]) -> list[Target]:
    """Return the last step of every stretch of one process, and every fault."""
    following: list[Target | None] = [*steps[1:], None]
    # A run can fail before its first step.
    return [
        step
        for step, after in zip(steps, following[: len(steps)], strict=True)
        if after is None or step.process != after.process or step.alternative not in HARMLESS
    ]


def _leads_along(setting: Setting, targets: list[Target], steps: list[Target], timed: int) -> bool:
    replay = follow(setting, targets, timed=timed)
    return not replay.misfit and replay.steps[: len(steps)] == steps


def switches_of(steps: list[Target]) -> int:
    """Return the number of times that another process goes on. Time passing is no process."""
    people = [step.process for step in steps if step.process not in ("clock", "power", "setup")]
    return sum(1 for one, other in itertools.pairwise(people) if one != other)
