"""Exhaustive exploration with dynamic partial-order reduction, sleep sets and merging of equal states.

Theory. Two runs that differ only by swapping neighbouring steps that do not conflict (see
`sim.world.footprints`) are one run for every process. The search runs the program again and
again from the start, each time with another beginning, and aims at one run of every such class.

*Power* may be lost anywhere. The future after a loss is a function of the durable or possibly durable state,
and not of the memory of processes, so it is explored once for every such state (`World.endured`). To reach
all of them, every node is treated as if an observer of everything came next: its races with the writes before
it are reversed.

*Races and sleep sets* are in `reduction`, *merging* of states met before is in `states`. All *alternatives*
of an actor's step, that is its faults, are tried whenever the actor is; budgets cannot prevent a swap,
because both orders spend the same. Two kinds of steps that no race requires are required by rule: time
passing just before a process reads the clock, and the other requests of a parallel step whose sender may
still crash.

Limits: a state is compared by what its processes hold, or the answers that they got, so a process that keeps
state in a variable shared with another is not covered (write notes instead). Waiting loops: see
`sim.world.scheduler`. A run is cut at `steps_max`, and then the verdict is undecided.
"""

from collections.abc import Callable
from typing import Any

from fencepost.sim.explore.endless import judge_endless, learn_starving, learn_waiting, waits_for_ever
from fencepost.sim.explore.reduction import Node, RaceTracker, SleepSets
from fencepost.sim.explore.runs import Choice, Coverage, Failure, Setting, divergence
from fencepost.sim.explore.states import Memory, StateCache
from fencepost.sim.world import CLOCK_ACTOR, POWER_ACTOR, Footprints, World, places
from fencepost.sim.world.footprints import CLOCK, EVERYTHING
from fencepost.sim.world.operations import Sync, same
from fencepost.sim.world.process import Diverged, Recall
from fencepost.sim.world.record import StepRecord
from fencepost.sim.world.stamps import CLOCKED, UNTIMED, WATCHED

TRIAL_RUNS = 4_000
"""After so many runs merging must have shown that it pays."""


class ReducedSearch:
    """The search. `explore` runs until everything is explored, a property is violated, or `stop` returns
    True.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        races: bool = True,
        sleep: bool = True,
        merge: bool = True,
        first_only: bool = True,
        observe: Callable[[World], None] | None = None,
        timed: int = UNTIMED,
    ) -> None:
        self.setting = setting
        self._reversing = races
        self._sleeping = sleep
        self._merge = merge
        self._first_only = first_only
        self._observe = observe
        """Called at the end of every complete run whose times are those of the search."""
        self.timed = max(int(timed), CLOCKED if setting.budget.skew else UNTIMED)
        self.failures: list[Failure] = []
        self.findings: list[str] = []
        self.clear()

    def clear(self) -> None:
        """Forget everything that was explored."""
        self.reset(Footprints())
        self.coverage = Coverage()
        self.schedules = 0
        """Runs to their end."""
        self.pruned = 0
        """Runs given up because they could only repeat another: asleep."""
        self.merged = 0
        """Runs given up at a state met before."""
        self.cut = 0
        self.steps = 0
        self.exhausted = False
        self.stale = False
        """True if the whole search must start over, of which this is a piece."""
        self.base = 0
        """The first so many nodes belong to other pieces of the search and do not vary."""
        self.left: list[Any] = []
        """Pieces that are left, of a search in pieces, see `pieces`; it has no path of its own."""
        self.part = 0.0
        """Part of the tree that its pieces explored."""
        self._memory = Memory(self.setting.program, reads_frames=not self.setting.exact_costs)
        self._recall = Recall()
        self.rests_on = self.setting.learnt()
        """The findings that were known when the nodes of the path were made."""

    def reset(self, footprints: Footprints) -> None:
        """Start with an empty path and these names for what steps touch."""
        self.footprints = footprints
        self.stack: list[Node] = []
        self._endured: set[Any] = set()
        """The states in which a power loss is explored already."""
        self._races = RaceTracker(self.stack)
        self._sleep = SleepSets(self.stack, self.setting.budget, on=self._sleeping)
        self._states = StateCache(self.stack, self._races, footprints, reversing=self._reversing)

    @property
    def runs(self) -> int:
        """Runs so far, however they ended."""
        return self.schedules + self.pruned + self.merged + self.cut

    @property
    def is_behind(self) -> bool:
        """True if more is known than when the path was made: its nodes may lack alternatives."""
        return self.rests_on != self.setting.learnt()

    def explore(self, stop: Callable[["ReducedSearch"], bool] = lambda _: False) -> None:
        """Run after run, until nothing is left to try."""
        with places.held(self.setting.program):
            self._explore(stop)

    def _explore(self, stop: Callable[["ReducedSearch"], bool]) -> None:
        setting = self.setting
        setting.adopt()
        if not self.stack:
            self.rests_on = setting.learnt()
        elif self.is_behind and not self.exhausted:
            # Another search of this program learnt more meanwhile, or the run that made the path did, and
            # what was explored here was without it.
            if self.base:
                self.stale = True
                return
            self.clear()
        while not self.exhausted:
            world = self._run()
            if setting.adopt() or world.run.time_mattered > self.timed:
                # Time matters more than was thought, or threads share more: more steps conflict. Or a loop is
                # endless: it is held back. Start over.
                self.timed = max(self.timed, world.run.time_mattered)
                if self.base:
                    self.stale = True
                    return  # a piece of a search cannot start over by itself
                self.clear()
                continue
            self.coverage.judge(world)
            for finding in world.findings:
                if finding not in self.findings:
                    self.findings.append(finding)
            if world.violation is not None:
                choices = tuple((node.actor, node.alternative) for node in self.stack)
                self.failures.append(Failure(world.violation, choices, self.timed))
                if self._first_only:
                    return
            self.exhausted = not self._next()
            if self.runs == TRIAL_RUNS and self.merged * 50 < TRIAL_RUNS:
                # Histories hardly ever meet again in this program: comparing them does not pay.
                self._merge = False
                self._states.clear()
            if stop(self):
                return

    def explored(self) -> float:
        """Return the part of the known tree that is done: every branch counts alike."""
        if self.exhausted:
            return 1.0
        part, share = self.part, 1.0
        for node in self.stack:
            width = len(node.done) + 1 + len(node.todo)
            width += sum(len(node.alternatives[actor]) for actor in node.backtrack - node.tried)
            part += share * len(node.done) / width
            share /= width
        return part

    def _node(self, world: World, enabled: list[int], record: StepRecord | None) -> Node:
        """Return the node after the last step of the path."""
        offered = world.scheduler.alternatives
        alternatives = {actor: offered(actor) for actor in enabled}
        if world.run.has_daemons:
            self._sleep.daemons = frozenset(
                actor for actor in enabled if world.scheduler.is_of_a_daemon(actor)
            )
        if self.stack:
            assert record is not None
            memories = self._memory.remember(world, record, self.stack[-1].memories)
        else:
            memories = self._memory.start(world)
        return Node(alternatives, self._sleep.sleepers(), memories, world.judge.judgement())

    def _next(self) -> bool:
        """Set the deepest node that has something left to its next step. False when none has."""
        while len(self.stack) > self.base:
            node = self.stack[-1]
            node.done[node.actor, node.alternative] = (node.r, node.w)
            if self._sleep.choose_next(node):
                return True
            if self._merge:
                self._states.store(node, self.runs)
            self.stack.pop()
        return False

    def _run(self) -> World:
        """Repeat the path up to its last node, take the step chosen there, and go on to an end."""
        world = self.setting.world(self.footprints, timed=self.timed, recall=self._recall, sharing=True)
        world.judge.go_on(not self._first_only)
        stack = self.stack
        try:
            if stack:
                world.judge.pause()
                world.start(self.setting.program)
                self._repeat(world)
                world.judge.go_back_to(stack[-1].judgement)
                self._extend(world, self._take(world))
            else:
                world.start(self.setting.program)
                self._extend(world, None)
        finally:
            world.close()
        return world

    def _repeat(self, world: World) -> None:
        stack = self.stack
        pending, step = world.scheduler.pending, world.executor.step
        for node in stack[:-1]:
            if not same(node.op, pending(node.actor)):
                raise Diverged(divergence(world, node.actor, node.op))
            step(node.actor, node.alternative)
        last = stack[-1]
        if last.op is not None and not same(last.op, world.pending(last.actor)):
            raise Diverged(divergence(world, last.actor, last.op))

    def _extend(self, world: World, record: StepRecord | None) -> None:
        """Take steps to an end of the run; `record`: the last step so far."""
        steps_max = self.setting.steps_max
        run, scheduler = world.run, world.scheduler
        new = max(0, len(self.stack) - 1)
        while run.violation is None or not self._first_only:
            # Beyond a violation only when all are wanted: later steps may race with earlier ones.
            enabled = scheduler.enabled()
            if not enabled:
                world.complete()
                if world.run.threads and self._reversing:
                    self._take_in(world, [one.index for one in world.strands if one.pending is not None])
                    self._take_in_waiting(world)
                if world.run.has_daemons:
                    self._try_all_at_the_end()
                self.schedules += 1
                self.coverage.end(world)
                if self._observe is not None and run.time_mattered <= self.timed:
                    self._observe(world)
                return
            over = len(self.stack) - run.rushed >= steps_max and run.rushing is None
            if over or waits_for_ever(world, enabled):
                self.cut += 1
                self._leave_off(world, enabled)
                return
            node = self._node(world, enabled, record)
            self._place_behind_barrier(node)
            if self._merge and not node.forced and self._states.seen(world, node, self.runs):
                self.merged += 1
                self.coverage.costs.look_since(world, new)
                self.coverage.costs.is_exact &= not self._memory.costs_differ
                return
            if POWER_ACTOR in enabled and run.survivors is None:
                self._prepare_power_loss(world, node)
            if self.timed == WATCHED and CLOCK_ACTOR in enabled:
                node.backtrack.add(CLOCK_ACTOR)
            if not self._sleep.choose_first(node):
                self.pruned += 1
                return
            if not self._reversing:
                node.backtrack.update(node.alternatives)
            self.stack.append(node)
            record = self._take(world)
            if run.overran:
                return
        self.schedules += 1

    def _place_behind_barrier(self, node: Node) -> None:
        """Where nothing can be chosen here or above, since a barrier, no state is looked up."""
        if self.stack:
            above = self.stack[-1]
            node.is_tail = above.is_tail or above.is_barrier
            node.forced = above.is_tail and _is_alone(above) and _is_alone(node)

    def _prepare_power_loss(self, world: World, node: Node) -> None:
        """Have power lost at this node, unless that is explored, and reach the states that differ from it."""
        place = len(self.stack)
        key = world.endured(node.memories) if self._merge and len(node.memories) > 1 else None
        node.endured = key
        if self.stack and key is not None:
            self.stack[-1].is_visible = key != self.stack[-1].endured
        happened, races = self._races.conflicts(POWER_ACTOR, EVERYTHING, 0, 0, place)
        if self._reversing:
            for earlier in races:
                self._races.reverse(earlier, place, (POWER_ACTOR, "power_loss"), happened)
        if self._merge:
            self._states.sum_up_observer(POWER_ACTOR, happened)
        if key is None or key not in self._endured:
            self._endured.add(key)
            node.backtrack.add(POWER_ACTOR)
        elif len(node.alternatives) > 1:
            del node.alternatives[POWER_ACTOR]
        else:
            node.alternatives[POWER_ACTOR] = ("ok",)

    def _try_all_at_the_end(self) -> None:
        """The last step of the processes ended the run, and so it conflicts with all that could have come."""
        last = next((node for node in reversed(self.stack) if node.actor != POWER_ACTOR), None)
        if last is not None:
            last.backtrack.update(last.alternatives.keys() - {POWER_ACTOR})

    def _leave_off(self, world: World, enabled: list[int]) -> None:
        """The run is too long: have tried what the others would have done, and keep no state above."""
        self.coverage.leave_off(world)
        learn_starving(world, enabled)
        learn_waiting(world, enabled)
        for node in self.stack:
            node.key = None
        if self._reversing:
            self._take_in(world, enabled)
            self._take_in_waiting(world)
        judge_endless(world, enabled)

    def _take_in(self, world: World, actors: list[int]) -> None:
        """Have tried what these actors would do next, which the run does not show."""
        for actor in actors:
            if actor not in (CLOCK_ACTOR, POWER_ACTOR):
                r, w = self.footprints.expected(world.pending(actor))
                memory = world.run.memory_of(actor)
                r, w = r | memory, w | memory
                self._races.take_in(actor, r, w, world.executor.past(actor))

    def _take_in_waiting(self, world: World) -> None:
        """Have threads that still wait for one another tried before all that used what they wait for."""
        for one in world.strands:
            op = one.pending
            if type(op) is Sync and op.ready is not None and not op.ready():
                touched = self.footprints.bit("sync", f"{one.machine.name}/{op.subject}")
                before = self._races.closure(world.executor.past(one.index))
                choice = (one.index, "ok")
                self._races.reverse_waits(len(self.stack), choice, before, (touched, touched))

    def _take(self, world: World) -> StepRecord:
        """Take the step of the last node, and look for its races."""
        node = self.stack[-1]
        place = len(self.stack) - 1
        run, scheduler = world.run, world.scheduler
        node.op = scheduler.pending(node.actor)
        if node.actor in run.flights or run.threads:
            node.backtrack.update(
                actor for actor in scheduler.rivals(node.actor) if actor in node.alternatives
            )
        record = world.executor.step(node.actor, node.alternative)
        self.steps += 1
        node.enter(record)
        if self._states.generation != self.footprints.generation:
            self._states.widen()
        if node.r & CLOCK and CLOCK_ACTOR in node.alternatives:
            # No run needs time to pass when no process sleeps, so no race would ever require it. It can be
            # put off until a process reads the clock: that is where it is tried.
            node.backtrack.add(CLOCK_ACTOR)
        self.coverage.step(world)
        if node.actor == POWER_ACTOR:
            # Its races were found when it was prepared; everything comes before it.
            node.happened = (1 << place) - 1 if node.w else 0
            if self._merge and not node.w:
                self._states.sum_up(place)
            return record
        before = self._races.closure(record.before)
        happened, races = self._races.conflicts(node.actor, node.r, node.w, before, place)
        node.happened = happened
        if races:
            self.coverage.conflicts += len(races)
            if self._reversing:
                for earlier in races:
                    self._races.reverse(earlier, place, (node.actor, node.alternative), happened)
        if node.r & self.footprints.waits and self._reversing:
            self._races.reverse_waits(place, (node.actor, node.alternative), before, (node.r, node.w))
        if self._merge:
            self._states.sum_up(place)
        return record

    def relive(self) -> None:
        """Run the path once, to compute again what a checkpoint leaves out. Its last step is not taken."""
        world = self.setting.world(self.footprints, timed=self.timed, sharing=True)
        try:
            world.start(self.setting.program)
            memories = self._memory.start(world)
            for place, node in enumerate(self.stack):
                node.memories, node.judgement = memories, world.judge.judgement()
                if node.actor not in world.enabled():
                    raise Diverged(divergence(world, node.actor, world.pending(node.actor)))
                if place == len(self.stack) - 1:
                    break
                node.op = world.pending(node.actor)
                record = world.step(node.actor, node.alternative)
                self._look_back(record, place)
                memories = self._memory.remember(world, record, memories)
        finally:
            world.close()

    def _look_back(self, record: StepRecord, place: int) -> int:
        """Enter what the step at `place`, which was just taken again, touched; with how many it races."""
        node = self.stack[place]
        node.enter(record)
        node.happened, races = self._races.conflicts(
            node.actor, node.r, node.w, self._races.closure(record.before), place
        )
        return len(races)

    def children(self, path: list[Node], since: Node | None = None) -> list[list[Node]]:
        """Return all ways to extend `path` by one step, as paths of their own; empty when the run is over.

        `since`: the node after the path, at which some ways are tried already: only the others are returned.
        The order is that in which a search tries them first.
        """
        found: list[list[Node]] = []
        self.widen(path)
        node: Node | None = None
        ways: list[Choice] = []
        shown = Coverage()
        while True:
            world = self.setting.world(self.footprints, timed=self.timed, sharing=True)
            try:
                world.start(self.setting.program)
                self.stack[:] = path
                tested, races = [0 for _ in world.properties], 0
                record: StepRecord | None = None
                for place, earlier in enumerate(path):
                    tested = [promise.tested for promise in world.properties]
                    record = world.step(earlier.actor, earlier.alternative)
                    races = self._look_back(record, place)
                if world.violation is not None:
                    return []
                fresh = self._node(world, world.enabled(), record)
                if node is None:
                    node = fresh
                    if since is None:
                        if path:
                            shown.step(world)
                            shown.conflicts = races
                        shown.judge(world, tested)
                    else:
                        node.alternatives, node.sleep = since.alternatives, dict(since.sleep)
                        node.done = dict(since.done)
                    ways = self._sleep.ways(node)
                while ways and ways[0] in node.done:
                    ways.pop(0)
                if not ways:
                    if found:
                        self.coverage.add(shown)  # no piece takes this step: each begins after it
                    return found
                child = Node(node.alternatives, dict(node.sleep), fresh.memories, fresh.judgement)
                child.done = dict(node.done)
                child.actor, child.alternative = ways.pop(0)
                child.enter(world.step(child.actor, child.alternative))
                node.done[child.actor, child.alternative] = (child.r, child.w)
                if not child.w and (useless := self._sleep.useless_beside(child.alternative)):
                    node.done[child.actor, useless] = (child.r, child.w)
                found.append([*path, child])
            finally:
                self.stack.clear()
                world.close()

    def widen(self, path: list[Node]) -> None:
        """Bring the footprints on a path up to date with the listings that other paths met first."""
        for node in path:
            node.widen(self.footprints.widen)

    def forget_counts(self) -> None:
        """Start counting anew; what was counted has been reported."""
        self.schedules = self.pruned = self.merged = self.cut = self.steps = 0
        self.coverage = Coverage()
        self.failures = []
        for node in self.stack:
            node.runs_before = 0


def _is_alone(node: Node) -> bool:
    """Return True if one actor may step here, in one way."""
    return len(node.alternatives) == 1 and all(len(ways) == 1 for ways in node.alternatives.values())
