"""Every schedule, one after another, with nothing left out: what reduced exploration is compared with.

It shares no cleverness with `reduced`, so that a mistake there shows. Only for small programs: the
number of schedules grows like the number of ways to shuffle the processes' steps.
"""

from collections.abc import Callable

from fencepost.sim.explore.endless import judge_endless, waits_for_ever
from fencepost.sim.explore.runs import Choice, Coverage, Failure, Setting
from fencepost.sim.world import Footprints, World, places
from fencepost.sim.world.stamps import STAMPED


class Plain:
    """Depth-first over all choices."""

    def __init__(
        self,
        setting: Setting,
        *,
        first_only: bool = True,
        observe: Callable[[World], None] | None = None,
    ) -> None:
        self.setting = setting
        self._first_only = first_only
        self._observe = observe
        self.footprints = Footprints()
        self.coverage = Coverage()
        self.failures: list[Failure] = []
        self.findings: list[str] = []
        self.schedules = 0
        self.cut = 0
        self.exhausted = False
        self._timed = STAMPED
        self._path: list[tuple[list[Choice], int]] = []

    def explore(self, stop: Callable[["Plain"], bool] = lambda _: False) -> None:
        with places.held(self.setting.program):
            self._explore(stop)

    def _explore(self, stop: Callable[["Plain"], bool]) -> None:
        while not self.exhausted and not stop(self):
            world = self.setting.world(self.footprints, timed=self._timed)
            try:
                self._run(world)
            finally:
                world.close()
            setting = self.setting
            if setting.deadlines.adopt() | setting.loops.adopt() or world.run.time_mattered > self._timed:
                self._start_over(max(self._timed, world.run.time_mattered))
                continue
            self.coverage.judge(world)
            if world.violation is not None:
                choices = tuple(options[at] for options, at in self._path)
                self.failures.append(Failure(world.violation, choices, timed=self._timed))
                if self._first_only:
                    return
            self.exhausted = not self._next()

    def _start_over(self, timed: int) -> None:
        """Time matters more than was thought."""
        self._timed = timed
        self.coverage, self.failures = Coverage(), []
        self.schedules = self.cut = 0
        self._path.clear()

    def _run(self, world: World) -> None:
        world.judge.go_on(not self._first_only)
        world.start(self.setting.program)
        depth, known = 0, len(self._path) - 1
        run, scheduler, executor = world.run, world.scheduler, world.executor
        while run.violation is None or not self._first_only:
            new = depth == len(self._path)
            if new:
                options = [
                    (actor, alternative)
                    for actor in scheduler.enabled()
                    for alternative in scheduler.alternatives(actor)
                ]
                if not options:
                    world.complete()
                    self.coverage.end(world)
                    if self._observe is not None and run.time_mattered <= self._timed:
                        self._observe(world)
                    break
                actors = scheduler.enabled()
                over = depth - run.rushed >= self.setting.steps_max and run.rushing is None
                if over or waits_for_ever(world, actors):
                    self.cut += 1
                    self.coverage.leave_off(world)
                    judge_endless(world, actors)
                    return
                self._path.append((options, 0))
            options, at = self._path[depth]
            self.coverage.meet(run, executor.step(*options[at]))
            if depth >= known:
                self.coverage.step(world)
            if run.overran:
                return
            depth += 1
        self.schedules += 1

    def _next(self) -> bool:
        while self._path:
            options, at = self._path.pop()
            if at + 1 < len(options):
                self._path.append((options, at + 1))
                return True
        return False
