"""From a run that fails to the counterexample with the fewest switches and faults that we find in a stated
time.

First what was found is thinned out: a target of its token that is not needed goes, a fault that is not
needed goes or becomes a plain switch, data goes back to the first option. Then, with the time that is left,
all schedules with no switch or fault are tried, then all with one, and so on, up to one less than we have.
The first that fails in the same property has the fewest there are. Then those with as many and fewer faults:
a switch is easier to follow than a fault. At last, among those with as many, runs of fewer steps are tried
until none fails. The search ends when its time is over.
"""

from collections.abc import Sequence
from dataclasses import replace

from fencepost.sim.explore.endless import judge_endless, waits_for_ever
from fencepost.sim.explore.runs import Choice, Setting, name_of
from fencepost.sim.explore.states import Memory
from fencepost.sim.explore.tokens import HARMLESS, Replay, Target, follow, name_choices, shorten, switches_of
from fencepost.sim.explore.watchdog import Limit
from fencepost.sim.world import CLOCK_ACTOR, POWER_ACTOR, Footprints, World
from fencepost.sim.world.located import AuditError
from fencepost.sim.world.process import Recall
from fencepost.sim.world.stamps import STAMPED


def cost(steps: Sequence[Target]) -> tuple[int, int, int]:
    """Return the difficulty of a counterexample: switches and faults, then faults, then length."""
    faults = sum(1 for step in steps if step.alternative not in HARMLESS)
    return (switches_of(list(steps)) + faults, faults, len(steps))


def minimise(setting: Setting, found: Replay, limit: Limit) -> tuple[Replay, list[Target], bool]:
    """Return a shorter run that violates the same property, its targets, and whether time sufficed."""
    best = found
    targets = shorten(setting, found.steps)
    best, targets = _thin(setting, best, targets, limit)
    longest = 2 * len(best.steps) + 10
    for allowed in range(cost(best.steps)[0]):
        simpler = _search(setting, best, (allowed, allowed), longest, limit)
        if simpler is not None:
            best, targets = simpler
            break
    allowed, faults, _ = cost(best.steps)
    for fewer in range(faults):
        plainer = _search(setting, best, (allowed, fewer), longest, limit)
        if plainer is not None:
            best, targets = plainer
            break
    while True:
        shorter = _search(setting, best, cost(best.steps)[:2], len(best.steps) - 1, limit)
        if shorter is None:
            return best, targets, not limit.is_over()
        best, targets = shorter


def _search(
    setting: Setting, best: Replay, allowed: tuple[int, int], steps_max: int, limit: Limit
) -> tuple[Replay, list[Target]] | None:
    """Return a better run with so many switches and faults, and so many faults.

    Returns None when there is none, or time ran out.
    """
    steps = _Bounded(setting, best, allowed, steps_max, limit).search()
    if steps is None:
        return None
    replay = follow(setting, steps)
    if not _same_failure(replay, best) or cost(replay.steps) >= cost(best.steps):
        return None
    return replay, shorten(setting, replay.steps)


def _same_failure(replay: Replay, found: Replay) -> bool:
    return (
        replay.violation is not None
        and found.violation is not None
        and replay.violation.name == found.violation.name
    )


def _thin(setting: Setting, best: Replay, targets: list[Target], limit: Limit) -> tuple[Replay, list[Target]]:
    """Leave out every target without which the failure is still there, or is cheaper."""
    changed = True
    while changed and not limit.is_over():
        changed = False
        for at in range(len(targets) - 1, -1, -1):
            if limit.is_over():
                break
            for instead in _simpler(targets[at]):
                shorter = [*targets[:at], *instead, *targets[at + 1 :]]
                replay = follow(setting, shorter)
                fails = not replay.misfit and _same_failure(replay, best)
                if fails and (cost(replay.steps), len(shorter)) < (cost(best.steps), len(targets)):
                    best, targets, changed = replay, shorter, True
                    break
    return best, targets


def _simpler(target: Target) -> list[list[Target]]:
    """Return what to try in the place of a target: a fault may only be where another process must go on."""
    harmless = target.alternative in HARMLESS
    return [[]] if harmless else [[replace(target, alternative="ok")], []]


Spent = tuple[int, int]
"""Switches and faults, and faults."""


class _Bounded:
    """Every schedule of at most so many switches and faults, states met before left out."""

    def __init__(
        self, setting: Setting, model: Replay, allowed: tuple[int, int], steps_max: int, limit: Limit
    ) -> None:
        self.setting = setting
        self._wanted = model.violation.name if model.violation else ""
        self._steps_max = steps_max
        self._allowed = allowed
        self._limit = limit
        self._footprints = Footprints()
        self._memory = Memory(setting.program, reads_frames=False)
        self._recall = Recall()
        self._met: dict[object, tuple[int, int, int]] = {}
        self._path: list[tuple[list[tuple[Choice, Spent]], int]] = []

    def search(self) -> list[Target] | None:
        """Return the names of the steps of a run that fails in the same property."""
        while not self._limit.is_over():
            world = self.setting.world(self._footprints, recall=self._recall, sharing=True)
            try:
                if self._run(world):
                    return self._names()
            except AuditError:
                pass  # no violation, so not what is looked for
            finally:
                world.close()
            if not self._next():
                return None
        return None

    def _run(self, world: World) -> bool:
        world.start(self.setting.program)
        memories = self._memory.start(world)
        depth, last = 0, ""
        spent: Spent = (0, 0)
        while world.violation is None:
            enabled = world.enabled()
            if not enabled:
                world.complete()
                break
            if waits_for_ever(world, enabled):
                judge_endless(world, enabled, steps=0)
                break
            if depth == len(self._path):
                if depth >= self._steps_max or not self._fresh(world, memories, last, (*spent, depth)):
                    return False
                options = self._options(world, enabled, last, spent)
                if not options:
                    return False
                self._path.append((options, 0))
            options, at = self._path[depth]
            (actor, alternative), spent = options[at]
            last = self._owner(world, actor) or last
            record = world.step(actor, alternative)
            memories = self._memory.remember(world, record, memories)
            depth += 1
        return world.violation is not None and world.violation.name == self._wanted

    def _fresh(
        self, world: World, memories: tuple[object, ...], last: str, now: tuple[int, int, int]
    ) -> bool:
        """Return True if this state was not met before at no more cost and after no more steps."""
        key = (world.state(memories), last)
        before = self._met.get(key)
        if before is not None and all(one <= other for one, other in zip(before, now, strict=True)):
            return False
        self._met[key] = now
        return True

    def _options(
        self, world: World, enabled: list[int], last: str, spent: Spent
    ) -> list[tuple[Choice, Spent]]:
        found = []
        for actor in enabled:
            owner = self._owner(world, actor)
            turned = spent[0] + (1 if last and owner and owner != last else 0)
            for alternative in world.alternatives(actor):
                fault = alternative not in HARMLESS
                total = (turned + fault, spent[1] + fault)
                if total[0] <= self._allowed[0] and total[1] <= self._allowed[1]:
                    found.append(((actor, alternative), total))
        found.sort(key=lambda option: option[1])
        return found

    def _owner(self, world: World, actor: int) -> str:
        """Whose counterexample line a step belongs to; the clock and the set-up have none."""
        if actor in (0, CLOCK_ACTOR, POWER_ACTOR):
            return ""
        return name_of(world, actor)

    def _names(self) -> list[Target]:
        choices = [options[at][0] for options, at in self._path]
        return name_choices(self.setting, choices, self._footprints, timed=STAMPED)

    def _next(self) -> bool:
        while self._path:
            options, at = self._path.pop()
            if at + 1 < len(options):
                self._path.append((options, at + 1))
                return True
        return False
