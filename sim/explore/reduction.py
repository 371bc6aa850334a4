"""Races, which a search must reverse, and sleep sets, which it may leave out.

*Races.* A step *happened before* another when they belong to one actor, when one made the other possible,
when they conflict (see `sim.world.footprints`) and came in this order, or by way of a third. For every step
this is kept as one integer: a bit for each earlier place on the path. Two steps *race* when they conflict,
belong to different actors, and nothing else orders them. The other order of a race is a run that may differ;
it begins, at the node of the earlier step, with a step that did not need the earlier one. One such actor must
be tried there: if none is in the node's `backtrack` yet, one is added (source sets). A thread that waits for
a lock races with the one that took it before, but cannot step while that has it. So where a step waited,
its order with every earlier step that used the lock is reversed, and not only with the last.

*Sleep sets.* Two branches of a node begin with steps of two actors, a then b or b then a. Where the two do
not conflict, both orders lead to the same state, and the branch that is explored second can leave one out:
there, a *sleeps* from the start. It sleeps on through all steps that do not conflict with it, since it could
be swapped back before each of them, and wakes at the first that does. Sleepers are (actor, alternative) with
the footprint they had, because each fault of a step is a branch of its own. A run in which every possible
actor sleeps could only repeat another, and is given up. So a node must begin with an actor that is wide
awake: if one alternative of the first actor slept, a run that takes it later would only be found by a race
with that very alternative. Where no actor is wide awake, all are tried.
"""

from collections.abc import Callable
from typing import Any

from fencepost.sim.explore.runs import Choice
from fencepost.sim.faults import ALTERNATIVES
from fencepost.sim.world import CLOCK_ACTOR, POWER_ACTOR, Budget
from fencepost.sim.world.footprints import Footprint, conflict
from fencepost.sim.world.loops import IN_VAIN
from fencepost.sim.world.record import StepRecord

Entry = tuple[int, int, int, int, int, int]
"""Of a summary: actor, what it read, what it wrote; the same of the first step on which it depends."""


class Node:
    """A state on the present path, and the step taken from it."""

    __slots__ = (
        "actor",
        "alternative",
        "alternatives",
        "backtrack",
        "done",
        "endured",
        "forced",
        "handed",
        "happened",
        "is_barrier",
        "is_tail",
        "is_visible",
        "judgement",
        "key",
        "memories",
        "op",
        "r",
        "runs_before",
        "sleep",
        "summary",
        "todo",
        "tried",
        "w",
    )

    def __init__(
        self,
        alternatives: dict[int, tuple[str, ...]],
        sleep: dict[Choice, Footprint],
        memories: tuple[Any, ...],
        judgement: tuple[Any, ...],
    ) -> None:
        self.alternatives = alternatives
        self.sleep = sleep
        self.memories = memories
        self.judgement = judgement
        self.backtrack: set[int] = set()
        self.tried: set[int] = set()
        self.done: dict[Choice, Footprint] = {}
        self.todo: list[str] = []
        self.summary: set[Entry] = set()
        self.handed: set[tuple[Entry, int]] = set()
        """The summary's entries with the part of the path they depend on."""
        self.key: Any = None
        self.runs_before = 0
        self.actor = -1
        self.alternative = ""
        self.op: Any = None
        self.r = 0
        self.w = 0
        self.happened = 0
        """The steps that happened before the one taken here, as a bit set of their places."""
        self.is_barrier = False
        """True if everything after the step taken here comes after everything before it."""
        self.is_tail = False
        """True if a barrier is above."""
        self.forced = False
        """True if nothing can be chosen here or at the node above, and both are below a barrier."""
        self.endured: Any = None
        """State that decides the future after a power loss here; None where it is unknown."""
        self.is_visible = True
        """True if the step taken here may change that."""

    def enter(self, record: StepRecord) -> None:
        """Keep the footprint of the step taken here."""
        self.r, self.w = record.read, record.written
        self.is_barrier, self.is_visible = record.is_barrier, True

    def widen(self, widen: Callable[[int], int]) -> None:
        """Bring what was written up to date with the listings met since, see `footprints`."""
        self.w = widen(self.w)
        for marks in (self.sleep, self.done):
            for choice, (r, w) in marks.items():
                marks[choice] = (r, widen(w))


class RaceTracker:
    """Finds the races on a path, and what must be tried because of them."""

    def __init__(self, stack: list[Node]) -> None:
        self._stack = stack

    def closure(self, steps: int) -> int:
        """Return the steps and everything that happened before them."""
        found = steps
        while steps:
            place = steps.bit_length() - 1
            found |= self._stack[place].happened
            steps &= ~(1 << place)
        return found

    def conflicts(self, actor: int, r: int, w: int, before: int, place: int) -> tuple[int, list[int]]:
        """Return the steps that happened before a step at `place`, and the earlier steps it races with.

        Of the steps before a power loss those count that changed what it leaves.
        """
        stack = self._stack
        races: list[int] = []
        if before == (1 << place) - 1:
            return before, races
        observes = actor == POWER_ACTOR
        for earlier in range(place - 1, -1, -1):
            if before >> earlier & 1:
                continue
            node = stack[earlier]
            if (w & node.r or r & node.w) and (node.is_visible or not observes):
                before |= node.happened | 1 << earlier
                if node.actor != actor:
                    races.append(earlier)
        return before, races

    def reverse(self, earlier: int, place: int, choice: Choice, happened: int) -> None:
        """Have the steps after `earlier` tried without it as well, up to `choice`."""
        stack = self._stack
        node = stack[earlier]
        independent = 0
        starters: list[Choice] = []
        for between in range(earlier + 1, place):
            other = stack[between]
            if other.happened >> earlier & 1:
                continue
            if not other.happened & independent:
                starters.append((other.actor, other.alternative))
            independent |= 1 << between
        if not happened & independent:
            starters.append(choice)
        self._schedule(node, starters)

    def reverse_waits(self, place: int, choice: Choice, before: int, touched: Footprint) -> None:
        """Have a step that waited tried before each step that may have taken what it waited for, or released
        it.

        A bounded wait needs no more to give up there. Time is let pass just before it, and the race of the
        wait with a step of the holder has that step of the clock tried before the holder's.
        """
        for earlier in range(place - 1, -1, -1):
            node = self._stack[earlier]
            if before >> earlier & 1 or node.actor == choice[0] or not conflict(touched, (node.r, node.w)):
                continue
            self.reverse(earlier, place, choice, before)

    def take_in(self, actor: int, r: int, w: int, past: int) -> None:
        """Have the step tried that `actor` would take after the end of a run that was cut."""
        place = len(self._stack)
        past = self.closure(past)
        happened, races = self.conflicts(actor, r, w, past, place)
        for earlier in races:
            self.reverse(earlier, place, (actor, "ok"), happened)
        possible = past.bit_length()
        if possible < place:
            # Where it became possible; if nothing conflicts with it, one place is as good as another.
            self._schedule(self._stack[possible], [(actor, "ok")])

    def _schedule(self, node: Node, starters: list[Choice]) -> None:
        """Add one of `starters` to what is tried at `node`, unless one is there already or sleeps.

        Where time must pass first, a sleeper that is held back may also go on by itself.
        """
        if any(actor == CLOCK_ACTOR for actor, _ in starters):
            node.backtrack.update(actor for actor, offered in node.alternatives.items() if offered == HELD)
        for choice in starters:
            if choice[0] in node.backtrack or choice in node.sleep:
                return
        for actor, _ in starters:
            if actor in node.alternatives:
                node.backtrack.add(actor)
                return


def _repetitions(budget: Budget) -> dict[str, str]:
    """Return the alternatives that repeat another one if the request changed nothing.

    The other one must not cost more: where fewer replies than requests may be lost, a lost request leaves
    faults for later that a lost reply does not.
    """

    def affords(one: str, other: str) -> bool:
        return not one or getattr(budget, one) >= getattr(budget, other)

    return {
        found.repeats: name
        for name, found in ALTERNATIVES.items()
        if found.repeats and affords(ALTERNATIVES[found.repeats].kind, found.kind)
    }


HELD = (IN_VAIN,)
"""Alternatives of a process that is held back: its turn comes when a race requires it."""
_BY_RULE = frozenset({CLOCK_ACTOR, POWER_ACTOR})


class SleepSets:
    """Decides which choice a node tries next, and which it may leave out."""

    def __init__(self, stack: list[Node], budget: Budget, *, on: bool) -> None:
        self._stack = stack
        self._on = on
        self._repetitions = _repetitions(budget)
        self.daemons: frozenset[int] = frozenset()
        """Their turn comes when no other actor is awake: what they could go on with never ends."""

    def sleepers(self) -> dict[Choice, Footprint]:
        """Return the choices that sleep after the last step of the path."""
        if not self._stack or not self._on:
            return {}
        parent = self._stack[-1]
        if not parent.sleep and not parent.done:
            return {}
        actor, r, w = parent.actor, parent.r, parent.w
        return {
            choice: mark
            for asleep in (parent.sleep, parent.done)
            for choice, mark in asleep.items()
            if choice[0] != actor and not (w & mark[0] or r & mark[1])
        }

    def choose_first(self, node: Node) -> bool:
        """Choose the first step here: the last actor's, if it may step and is wide awake."""
        last = self._stack[-1].actor if self._stack else -1
        if last in self.daemons:
            last = -1
        asleep = node.sleep and {
            choice[0] for choice in node.sleep if choice[1] in node.alternatives.get(choice[0], ())
        }
        for actor in [last, *node.alternatives]:
            # No race may ever require the clock to move as it could here, so it does not count as awake; nor
            # does power, which is tried at every state, nor a process that waits for what others may do.
            held = node.alternatives.get(actor) == HELD
            if actor in node.alternatives and actor not in asleep and actor not in _BY_RULE and not held:
                node.backtrack.add(actor)
                return self._enter(node, actor)
        node.backtrack.update(node.alternatives)
        return any(self._enter(node, actor) for actor in node.alternatives)

    def useless_beside(self, alternative: str) -> str | None:
        """Return the alternative that repeats this one if the step changed nothing, if there is one."""
        return self._repetitions.get(alternative)

    def ways(self, node: Node) -> list[Choice]:
        """Return everything that can be tried at a node, the actor first that a search tries first."""
        last = self._stack[-1].actor if self._stack else -1
        actors = sorted(node.alternatives, key=lambda actor: (actor in _BY_RULE, actor != last))
        return [
            (actor, alternative)
            for actor in actors
            for alternative in node.alternatives[actor]
            if (actor, alternative) not in node.sleep
        ]

    def _enter(self, node: Node, actor: int) -> bool:
        """Make the first alternative of `actor` that does not sleep the step of this node."""
        node.tried.add(actor)
        todo = node.alternatives[actor]
        if node.sleep:
            todo = tuple([a for a in todo if (actor, a) not in node.sleep])
            if not todo:
                return False
        node.actor = actor
        node.alternative = todo[0]
        node.todo = list(todo[1:])
        return True

    def choose_next(self, node: Node) -> bool:
        """Make the next choice that is left at `node` its step. False when none is left."""
        if not node.w:
            # The request changed nothing: losing it is losing the reply, and sending it twice is sending it
            # once.
            useless = self.useless_beside(node.alternative)
            if useless in node.todo:
                node.todo.remove(useless)
                # It sleeps as long as what it equals.
                node.done[node.actor, useless] = (node.r, node.w)
        if node.todo:
            node.alternative = node.todo.pop(0)
            return True
        node.op = None
        left = node.backtrack - node.tried
        return bool(left) and any(self._enter(node, actor) for actor in sorted(left))
