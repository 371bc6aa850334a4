"""Sampling schedules: at random, by priorities (PCT), and with Hypothesis as the source of choices.

PCT (probabilistic concurrency testing): every process gets a random priority and the highest that can
step does; at d - 1 places, drawn among the k steps of a run, the one about to step falls to the lowest
priority. A failure that needs d ordered steps of n processes ("depth d") is then met with a chance of at
least 1 / (n * k^(d-1)) in every single run, whatever the program. The same for a fault that has to strike
at one of k steps as one of m alternatives: each multiplies the chance by 1 / (k * m).

Hypothesis draws where a run leaves the common rule (the actor that stepped last goes on, without a fault),
and for what. The plainest choice is number 0, so what it shrinks to has few switches and few faults, and
failures are remembered in its example database.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.sim.explore.endless import judge_endless
from fencepost.sim.explore.runs import Choice, Coverage, Failure, Setting, run
from fencepost.sim.explore.tokens import HARMLESS, by_rule
from fencepost.sim.explore.watchdog import Limit
from fencepost.sim.world import CLOCK_ACTOR, POWER_ACTOR, Footprints, Violation, World
from fencepost.sim.world.stamps import STAMPED

Stop = Callable[[Any], bool]

TURNS_MAX = 16
"""Places where one example may leave the common rule."""
_TURN = ((0, 7), (0, 23))
"""Ranges of a turn: the number of steps by the rule, then the number of the choice after them. Even choices
let an actor go on, odd ones inject a fault. There are many more faults than ways to go on; drawn from all of
them alike, two processes would hardly ever take turns unharmed, and most failures need that.
"""
BATCH = 250
"""Examples Hypothesis draws before the time is looked at."""


class Sampled:
    """Runs with choices from somewhere; what all samplers share."""

    exhausted = False

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.footprints = Footprints()
        self.coverage = Coverage()
        self.failures: list[Failure] = []
        self.findings: list[str] = []
        self.schedules = 0
        self.cut = 0

    def one(self, choose: Callable[[World, Sequence[int]], Choice]) -> Violation | None:
        """One run; its violation."""
        self.setting.deadlines.adopt()
        world = self.setting.world(self.footprints)
        choices: list[Choice] = []

        def choose_and_count(world: World, enabled: Sequence[int]) -> Choice:
            if world.trace:
                self._count(world)
            choices.append(choose(world, enabled))
            return choices[-1]

        try:
            ended = run(world, self.setting.program, choose_and_count, self.setting.steps_max)
            if world.trace:
                self._count(world)
            self._after(world, ended)
            if not ended and world.violation is None:
                judge_endless(world, world.enabled())
        finally:
            world.close()
        if self.setting.loops.adopt():
            return None  # a held process had choices that it has no longer
        if world.violation is not None:
            self.failures.append(Failure(world.violation, tuple(choices), timed=STAMPED))
        return world.violation

    def _count(self, world: World) -> None:
        self.coverage.step(world)
        self.coverage.meet(world.run, world.run.record)

    def _after(self, world: World, ended: bool) -> None:
        self.schedules += 1
        self.coverage.judge(world)
        self.cut += not ended
        if ended:
            self.coverage.end(world)
        else:
            self.coverage.leave_off(world)
        self.findings.extend(found for found in world.findings if found not in self.findings)


class Random(Sampled):
    """Any process, any alternative; faults kept as rare as steps are many."""

    def explore(self, stop: Stop) -> None:
        draw = SeededEnvironment(self.setting.seed).stream("schedules")
        while not self.failures and not stop(self):
            self.one(lambda world, enabled: any_choice(draw, world, enabled))


def any_choice(draw: Any, world: World, enabled: Sequence[int]) -> Choice:
    plain, worse = _options(world, enabled, -1)
    options = plain + worse
    actor = draw.choice([one for one in enabled if one != POWER_ACTOR] or enabled)
    harmless = [choice for choice in options if choice[0] == actor and choice[1] in HARMLESS]
    chosen: Choice = draw.choice(options if draw.random() < 0.2 or not harmless else harmless)
    return chosen


class Pct(Sampled):
    """Random priorities with `depth - 1` changes."""

    def __init__(self, setting: Setting, depth: int = 3) -> None:
        super().__init__(setting)
        self.depth = depth
        self.length = 1
        self.width = 1

    def explore(self, stop: Stop) -> None:
        draw = SeededEnvironment(self.setting.seed).stream("schedules")
        self.one(lambda world, enabled: by_rule(world, enabled, -1))
        while not self.failures and not stop(self):
            self.one(_Priorities(draw, self))

    def _after(self, world: World, ended: bool) -> None:
        super()._after(world, ended)
        self.length = max(self.length, len(world.trace))
        self.width = max(self.width, len(world.processes))

    def chance(self) -> float:
        """Return the least chance of one run to meet a failure of this depth that needs no fault."""
        return float(1.0 / (self.width * self.length ** (self.depth - 1)))

    def guarantee(self) -> str:
        """Return the guarantee that the runs so far give."""
        missed = (1 - self.chance()) ** self.schedules if self.chance() < 1 else 0.0
        return (
            f"a failure of depth {self.depth} that needs no fault ({self.width} processes, at most "
            f"{self.length} steps) is met with a chance of at least {self.chance():.2g} in a run, "
            f"{1 - missed:.2g} in {self.schedules} runs"
        )


class _Priorities:
    """The choices of one run of PCT."""

    def __init__(self, draw: Any, search: Pct) -> None:
        self._draw = draw
        self._priorities: dict[int, float] = {}
        length = max(1, search.length)
        self._changes = {draw.randrange(length) for _ in range(search.depth - 1)}
        faults = search.setting.budget.most()
        self._faults = {draw.randrange(length) for _ in range(draw.randint(0, faults))}
        self._lowest = 0.0

    def __call__(self, world: World, enabled: Sequence[int]) -> Choice:
        place = len(world.trace)
        for actor in enabled:
            if actor not in self._priorities:
                # The clock starts last: time passes when others wait, or at a change.
                self._priorities[actor] = self._draw.random() - (actor in (CLOCK_ACTOR, POWER_ACTOR))
        actor = max(enabled, key=self._priorities.__getitem__)
        if place in self._changes:
            self._lowest -= 1.0
            self._priorities[actor] = self._lowest
            actor = max(enabled, key=self._priorities.__getitem__)
        offered = world.alternatives(actor)
        picks = world.pending(actor).kind == "pick"
        if picks or (place in self._faults and len(offered) > 1):
            return actor, self._draw.choice(offered if picks else offered[1:])
        return actor, offered[0]


class _Broken(Exception):
    """Reports to Hypothesis that a run failed."""


class ByHypothesis(Sampled):
    """Hypothesis draws the choices, shrinks what fails, and remembers it."""

    def __init__(self, setting: Setting, database: Any = None) -> None:
        super().__init__(setting)
        self._database = database

    def explore(self, stop: Stop) -> None:
        batch = 0
        while not self.failures and not stop(self):
            before = self.schedules
            self._batch(batch)
            batch += 1
            if self.schedules - before < BATCH // 2 and not self.failures:
                # Hypothesis found no more that it had not tried.
                return

    def _batch(self, number: int) -> None:
        """Some examples. Hypothesis wants to end by itself, so time is looked at between batches."""
        # Importing it takes as long as a small audit, and the other strategies do without.
        from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
        from hypothesis import strategies as st

        @seed(f"{self.setting.seed}/{number}")
        @settings(
            max_examples=BATCH,
            deadline=None,
            database=self._database,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.reuse, Phase.generate, Phase.shrink],
            verbosity=Verbosity.quiet,
            print_blob=False,
        )
        @given(st.lists(st.tuples(*(st.integers(*ends) for ends in _TURN)), max_size=TURNS_MAX))
        def attempt(turns: list[tuple[int, int]]) -> None:
            broken = self.one(_Turns(turns))
            if broken is not None:
                raise _Broken(broken.name)

        try:
            attempt()
        except _Broken:
            # The last run that failed is the one it shrank to.
            self.failures = self.failures[-1:]


class _Turns:
    """The choices of one run: go on by the common rule, but for a few turns."""

    def __init__(self, turns: Sequence[tuple[int, int]]) -> None:
        self._turns = list(reversed(turns))
        self._wait = self._turns[-1][0] if turns else -1
        self._last = -1

    def __call__(self, world: World, enabled: Sequence[int]) -> Choice:
        plain, worse = _options(world, enabled, self._last)
        choice = plain[0]
        if self._wait == 0:
            _, number = self._turns.pop()
            offered = worse if number % 2 and worse else plain
            choice = offered[number // 2 % len(offered)]
            self._wait = self._turns[-1][0] if self._turns else -1
        elif self._wait > 0:
            self._wait -= 1
        self._last = choice[0]
        return choice


def _options(world: World, enabled: Sequence[int], last: int) -> tuple[list[Choice], list[Choice]]:
    """Return every choice, the plainest first: without a fault; and with one."""
    order = sorted(enabled, key=lambda actor: actor != last)
    plain = [(actor, world.alternatives(actor)[0]) for actor in order]
    plain.sort(key=lambda choice: choice[1] not in HARMLESS)
    worse = [(actor, other) for actor in order for other in world.alternatives(actor)[1:]]
    return plain, worse


def stop_after(seconds: float | None, schedules: int | None, clock: Limit | None = None) -> Stop:
    """Return a stopping rule: after so many seconds from now on or schedules, whichever comes first."""
    clock = clock or Limit(seconds)
    end = math.inf if seconds is None else clock.elapsed() + seconds

    def stop(search: Any) -> bool:
        done = getattr(search, "runs", search.schedules)
        return (schedules is not None and done >= schedules) or clock.elapsed() >= end

    return stop
