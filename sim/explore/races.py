"""The present path of a search, and the races on it.

Theory. A step *happened before* another when they belong to one actor, when one made the other possible,
when they conflict (see `sim.world.footprints`) and came in this order, or by way of a third. For every step
this is kept as one integer: a bit for each earlier place on the path. Two steps *race* when they conflict,
belong to different actors, and nothing else orders them. The other order of a race is a run that may differ;
it begins, at the node of the earlier step, with some step of those that did not need the earlier one. One
such actor must be tried there: if none is in the node's `backtrack` yet, one is added (source sets).
"""

from typing import Any

from fencepost.sim.explore.runs import Choice

Footprint = tuple[int, int]
Entry = tuple[int, int, int, int, int, int]
"""Of a summary: actor, what it read, what it wrote; the same of the first step it depends on."""


class Node:
    """A state on the present path, and the step taken from it."""

    __slots__ = (
        "actor",
        "alternative",
        "alternatives",
        "backtrack",
        "done",
        "handed",
        "happened",
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


class Races:
    """A path, and what must be tried because of it."""

    stack: list[Node]

    def _closure(self, steps: int) -> int:
        """The steps and all that happened before them."""
        found = steps
        while steps:
            place = steps.bit_length() - 1
            found |= self.stack[place].happened
            steps &= ~(1 << place)
        return found

    def _conflicts(self, actor: int, r: int, w: int, before: int, place: int) -> tuple[int, list[int]]:
        """What happened before a step at `place`, and the earlier steps it races with."""
        stack = self.stack
        races = []
        for earlier in range(place - 1, -1, -1):
            if before >> earlier & 1:
                continue
            node = stack[earlier]
            if w & node.r or r & node.w:
                before |= node.happened | 1 << earlier
                if node.actor != actor:
                    races.append(earlier)
        return before, races

    def _reverse(self, earlier: int, place: int, actor: int, alternative: str, happened: int) -> None:
        """See to it that the steps after `earlier` are also tried without it."""
        stack = self.stack
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
            starters.append((actor, alternative))
        self._schedule(node, starters)

    def _schedule(self, node: Node, starters: list[Choice]) -> None:
        """Let one of `starters` be tried at `node`, unless one is or need not be."""
        for choice in starters:
            if choice[0] in node.backtrack or choice in node.sleep:
                return
        for actor, _ in starters:
            if actor in node.alternatives:
                node.backtrack.add(actor)
                return
