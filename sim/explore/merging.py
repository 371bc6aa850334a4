"""States met again are not explored again.

Theory. A state is the bucket, the budget left, the clock, the requests in flight, what every running process
was told since it started, and what the properties know. Merging equal ones loses runs unless two things are
seen to:

- What was left out below a state because it slept must sleep now as well: the sleep set kept with it is a
  subset of the present one. Else it is explored again.
- Steps below it may race with steps that came *before* it on the present path. Every node therefore sums up
  the steps taken below it (who, what it touched, and which step comes first among those it depends on), and
  their races are looked up as if they had just been taken. The summary forgets in which runs they occurred,
  so a few actors too many may be tried: more work, never less.
"""

from typing import Any

from fencepost.sim.explore.races import Entry, Node, Races
from fencepost.sim.explore.runs import Choice
from fencepost.sim.world import Footprints, World

KNOWN_MAX = 200_000
"""States kept for merging: bounds the memory, about 2 kB each."""


class Merging(Races):
    """A path, and the states explored so far."""

    _merge: bool
    _races: bool

    def clear(self) -> None:
        """Nothing is known yet."""
        self.footprints = Footprints()
        self.stack: list[Node] = []
        self._known: dict[Any, tuple[frozenset[Choice], set[Entry], int]] = {}
        self._generation = 0
        self.schedules = 0
        """Runs to their end."""
        self.pruned = 0
        """Runs given up because they could only repeat another: asleep."""
        self.merged = 0
        """Runs given up at a state met before."""
        self.cut = 0

    @property
    def runs(self) -> int:
        """Runs so far, however they ended."""
        return self.schedules + self.pruned + self.merged + self.cut

    def _seen(self, world: World, node: Node) -> bool:
        """Whether this state was explored before; then its races with the present path are looked up."""
        node.runs_before = self.runs
        node.key = world.state(node.memories) if self.stack and len(node.memories) > 1 else None
        known = self._known.get(node.key) if node.key is not None else None
        if known is None:
            return False
        slept, summary, generation = known
        if not slept <= node.sleep.keys():
            return False
        if generation != self._generation:
            widen = self.footprints.widen
            summary = {(a, r, widen(w), f, fr, widen(fw)) for a, r, w, f, fr, fw in summary}
            self._known[node.key] = (slept, summary, self._generation)
        self._race_below(world, summary)
        return True

    def _race_below(self, world: World, summary: set[Entry]) -> None:
        """Look up the races of the steps in `summary` with the present path, as if they came next."""
        place = len(self.stack)
        firsts: dict[tuple[int, int, int], int] = {}
        for actor, r, w, first, first_r, first_w in summary:
            key = (first, first_r, first_w)
            happened = firsts.get(key, -1)
            if happened < 0:
                past = self._closure(world.past(first))
                happened = firsts[key] = self._conflicts(first, first_r, first_w, past, place)[0]
            before = happened if actor == first else happened | self._closure(world.past(actor))
            if (actor, r, w) == key:
                before = self._closure(world.past(actor))
            _, races = self._conflicts(actor, r, w, before, place)
            if self._races:
                for earlier in races:
                    self._reverse(earlier, place, first, "", happened)
            self._hand_up((actor, r, w, first, first_r, first_w), happened)

    def _hand_up(self, entry: Entry, happened: int) -> None:
        """Enter a step at or below the end of the path into the summaries of all nodes above it."""
        stack = self.stack
        actor, r, w = entry[:3]
        for place in range(len(stack) - 1, -1, -1):
            node = stack[place]
            if happened >> place & 1:
                entry = (actor, r, w, node.actor, node.r, node.w)
            # The nodes above stay as they are while this one is on the path: what was handed up from here
            # with the same past reached them all.
            mark = (entry, happened & ((1 << place) - 1))
            if mark in node.handed:
                return
            node.handed.add(mark)
            node.summary.add(entry)

    def _sum_up(self, place: int) -> None:
        """Enter the step at `place` into the summaries of the path above it."""
        node = self.stack[place]
        mine = (node.actor, node.r, node.w)
        self._hand_up((*mine, *mine), node.happened | 1 << place)

    def _store(self, node: Node) -> None:
        """Keep what was explored, if meeting it again would save more than looking up its races costs."""
        if not self._merge or node.key is None or len(self._known) >= KNOWN_MAX:
            return
        if self._worth_keeping(node):
            self._known[node.key] = (frozenset(node.sleep), node.summary, self._generation)

    def _worth_keeping(self, node: Node) -> bool:
        return self.runs - node.runs_before > 1 + len(node.summary) // 16

    def _widen_all(self) -> None:
        """A prefix was listed for the first time: writes below it made earlier write that listing too."""
        widen = self.footprints.widen
        self._generation = self.footprints.generation
        for node in self.stack:
            node.w = widen(node.w)
            for marks in (node.sleep, node.done):
                for choice, (r, w) in marks.items():
                    marks[choice] = (r, widen(w))
            node.summary = {(a, r, widen(w), f, fr, widen(fw)) for a, r, w, f, fr, fw in node.summary}
            node.handed = set()
