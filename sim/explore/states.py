"""States met again are not explored again.

Theory. A state is the bucket, the budget left, the clock, the requests in flight, the memory of every running
process, and what the properties know. The memory of a process is what its frames hold (see
`sim.world.frames`). Where they cannot be read, it is what they held when they could be, and the answers since
then: deterministic code that got the same answers is in the same state. Memories are kept once and numbered;
no hash is trusted. Merging equal states loses runs unless two conditions hold:

- Choices that were left out below a state because they slept must sleep now as well: the sleep set kept with
  it is a subset of the present one. Otherwise the state is explored again.
- Steps below it may race with steps that came *before* it on the present path. Every node therefore sums up
  the steps taken below it (actor, footprint, and the first step among those on which it depends), and their
  races are looked up as if they had just been taken. The summary forgets in which runs they occurred, so a
  few actors too many may be tried: more work, never less.
"""

from typing import Any

from fencepost.impl.store.requests import Request
from fencepost.sim.explore.reduction import Entry, Node, RaceTracker
from fencepost.sim.explore.runs import Choice
from fencepost.sim.world import Footprints, World, frames
from fencepost.sim.world.footprints import EVERYTHING
from fencepost.sim.world.record import StepRecord

KNOWN_MAX = 200_000
"""States kept for merging: bounds the memory, about 2 kB each."""

Memories = tuple[Any, ...]
"""By the number of the process; 0 is the program that sets up."""


class Memory:
    """The histories met so far."""

    def __init__(self, program: Any, *, reads_frames: bool) -> None:
        self._numbers: dict[Any, int] = {}
        self._reads_frames = reads_frames and frames.IS_SUPPORTED
        self._frames = frames.Reader(program)
        self._spent: dict[int, int] = {}
        """By memory: requests that the process has sent in this life."""
        self._parted: set[int] = set()
        """Memories of processes that gave a part of their life a name."""
        self.costs_differ = False
        """True if a process came to the same memory at different costs."""
        self._next: dict[Any, int] = {}
        """By process, memory and answer: the memory after it."""

    def start(self, world: World) -> Memories:
        """Return the memories before the first step."""
        return self._fill(world, (0,))

    def remember(self, world: World, record: StepRecord, memories: Memories) -> Memories:
        """Return the memories after a step."""
        learnt = record.learnt
        if learnt is not None:
            for index, answer in learnt if isinstance(learnt, list) else (learnt,):
                number = self._after(world, index, memories[index], answer)
                memories = (*memories[:index], number, *memories[index + 1 :])
        return self._fill(world, memories)

    def _after(self, world: World, index: int, memory: int, answer: Any) -> int:
        """Return the memory of a process after an answer, which is read once for every memory before it."""
        history = (index, memory, tuple(answer) if type(answer) is list else answer)
        try:
            known = self._next.get(history)
        except TypeError:
            return self._number(self._held(world, index) or history)  # an answer that cannot be compared
        if known is None:
            held = self._held(world, index)
            known = self._next[history] = self._number(history if held is None else held)
            self._count(world, index, memory, answer, known)
        return known

    def _count(self, world: World, index: int, memory: int, answer: Any, after: int) -> None:
        """Add the last step to what a process has spent; note if it came to the same memory for another cost.

        A part of its life that has a name may have cost more although the whole did not.
        """
        op, alternative = world.trace[-1][5], world.trace[-1][1]
        requests = 0 if alternative == "crash" else self._spent.get(memory, 0)
        if isinstance(op, Request) and alternative != "crash":
            requests += len(answer) if type(answer) is list else 1
        known = self._spent.setdefault(after, requests)
        processes = world.run.processes
        has_parts = 0 < index <= len(processes) and bool(processes[index - 1].spans)
        if known != requests or (has_parts and after in self._parted):
            self.costs_differ = True
        if has_parts:
            self._parted.add(after)

    def _held(self, world: World, index: int) -> Any:
        """Return the value of a process's frames; None where its history is compared instead."""
        run = world.run
        elsewhere = run.has_threads or run.has_loops or run.files is not None or run.variables is not None
        if not index or elsewhere or not self._reads_frames or world.judge.bounds:
            return None
        process = run.processes[index - 1]
        if process.pending is None or process.group is not None or process.behind:
            return None  # it has ended, waits for several answers, or its code rests
        return self._frames.value(process)

    def _fill(self, world: World, memories: Memories) -> Memories:
        processes = world.run.processes
        if len(memories) > len(processes):
            return memories
        # The program has just been set up; what it picked decides what the processes start with.
        return (memories[0],) + (memories[0],) * len(processes)

    def _number(self, history: Any) -> int:
        try:
            return self._numbers.setdefault(history, len(self._numbers) + 1)
        except TypeError:
            # An answer that cannot be compared: like no other.
            number = self._numbers[object()] = len(self._numbers) + 1
            return number


class StateCache:
    """The states explored so far, and the path that may meet them."""

    def __init__(
        self, stack: list[Node], races: RaceTracker, footprints: Footprints, *, reversing: bool
    ) -> None:
        self._stack = stack
        self._races = races
        self._reversing = reversing
        self._footprints = footprints
        self._known: dict[Any, tuple[frozenset[Choice], set[Entry], int]] = {}
        self.generation = footprints.generation
        """Of the footprints, up to which those on the path were widened."""

    def clear(self) -> None:
        """Forget every state."""
        self._known.clear()

    def seen(self, world: World, node: Node, runs: int) -> bool:
        """Return True if this state was explored before, and look up its races with the present path."""
        node.runs_before = runs
        node.key = world.state(node.memories) if self._stack and len(node.memories) > 1 else None
        known = self._known.get(node.key) if node.key is not None else None
        if known is None:
            return False
        slept, summary, generation = known
        if not slept <= node.sleep.keys():
            return False
        if generation != self.generation:
            widen = self._footprints.widen
            summary = {(a, r, widen(w), f, fr, widen(fw)) for a, r, w, f, fr, fw in summary}
            self._known[node.key] = (slept, summary, self.generation)
        self._race_below(world, summary)
        return True

    def _race_below(self, world: World, summary: set[Entry]) -> None:
        """Look up the races of the steps in `summary` with the present path, as if they came next."""
        place = len(self._stack)
        firsts: dict[tuple[int, int, int], int] = {}
        for actor, r, w, first, first_r, first_w in summary:
            key = (first, first_r, first_w)
            happened = firsts.get(key, -1)
            if happened < 0:
                past = self._races.closure(world.executor.past(first))
                happened = firsts[key] = self._races.conflicts(first, first_r, first_w, past, place)[0]
            before = (
                happened if actor == first else happened | self._races.closure(world.executor.past(actor))
            )
            if (actor, r, w) == key:
                before = self._races.closure(world.executor.past(actor))
            _, races = self._races.conflicts(actor, r, w, before, place)
            if self._reversing:
                for earlier in races:
                    self._races.reverse(earlier, place, (first, ""), happened)
            if r & self._footprints.waits and self._reversing:
                past = self._races.closure(world.executor.past(first) | world.executor.past(actor))
                self._races.reverse_waits(place, (first, ""), past, (r, w))
            self._hand_up((actor, r, w, first, first_r, first_w), happened)

    def _hand_up(self, entry: Entry, happened: int, own: int = -1) -> None:
        """Enter a step at or below the end of the path into the summaries of all nodes above it.

        `own` is its place, if it is on the path.
        """
        stack = self._stack
        actor, r, w = entry[:3]
        first: Node | None = None
        for place in range(len(stack) - 1, -1, -1):
            node = stack[place]
            if node.is_barrier and place != own:
                return  # nothing below it races with anything above
            if happened >> place & 1:
                first = node
            if node.forced:
                continue  # no state is kept here
            if first is not None:
                entry = (actor, r, w, first.actor, first.r, first.w)
            # The nodes above do not change while this one is on the path: what was handed up from here with
            # the same past reached them all.
            mark = (entry, happened & ((1 << place) - 1))
            if mark in node.handed:
                return
            node.handed.add(mark)
            node.summary.add(entry)

    def sum_up(self, place: int) -> None:
        """Enter the step at `place` into the summaries of the path above it."""
        node = self._stack[place]
        mine = (node.actor, node.r, node.w)
        self._hand_up((*mine, *mine), node.happened | 1 << place, place)

    def sum_up_observer(self, actor: int, happened: int) -> None:
        """Enter a step that reads everything, which may come next, into the summaries of the path."""
        self._hand_up((actor, EVERYTHING, 0, actor, EVERYTHING, 0), happened)

    def store(self, node: Node, runs: int) -> None:
        """Keep what was explored, if meeting it again would save more than looking up its races costs."""
        if node.key is None or len(self._known) >= KNOWN_MAX:
            return
        if self.worth_keeping(node, runs):
            self._known[node.key] = (frozenset(node.sleep), node.summary, self.generation)

    def worth_keeping(self, node: Node, runs: int) -> bool:
        return runs - node.runs_before > 1 + len(node.summary) // 16

    def widen(self) -> None:
        """A prefix was listed for the first time: writes below it made earlier write that listing too."""
        widen = self._footprints.widen
        self.generation = self._footprints.generation
        for node in self._stack:
            node.widen(widen)
            node.summary = {(a, r, widen(w), f, fr, widen(fw)) for a, r, w, f, fr, fw in node.summary}
            node.handed = set()
