"""Sampling schedules of real processes, replaying one, and finding a shorter one; or following a trace.

A run takes tens of milliseconds, and processes are not a function of their choices: they read clocks, draw
numbers and have threads of their own. So schedules are only sampled (PCT or at random), and the verdict is
`violated` or `undecided`. A violation needs no repetition to be one: it is recorded with its steps and what
the objects were, so it is shown even if no other run repeats it; then a finding says where they parted.

Minimising follows shorter tokens: first without each fault, then without each switch. A token counts if its
run breaks the same property and costs less; the run of the best one is shown.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.sim.explore.audit import AuditOutcome, AuditRequest
from fencepost.sim.explore.counterexample import Counterexample
from fencepost.sim.explore.like import Like
from fencepost.sim.explore.minimise import cost
from fencepost.sim.explore.reporting import interruptible, replayed, silence
from fencepost.sim.explore.result import AuditVerdict
from fencepost.sim.explore.runs import Choice, Coverage, Setting
from fencepost.sim.explore.sampling import Pct, Random, stop_after
from fencepost.sim.explore.steps import Objects
from fencepost.sim.explore.tokens import HARMLESS, Namer, Replay, Target, follow, read, turns, write
from fencepost.sim.faults import HTTP, WORLD, names
from fencepost.sim.over_http.fleet import Fleet, Hung, Interrupted
from fencepost.sim.over_http.world import HttpWorld
from fencepost.sim.world import Violation, World, places
from fencepost.sim.world.finalizers import PROPERTY
from fencepost.sim.world.located import AuditError

STRATEGIES = ("pct", "random")
UNCONTROLLED = sorted({*names(WORLD)} - {*names(HTTP)})
"""Faults of clocks, messages and disks, which real processes have of their own."""
SECONDS = 60.0
"""The time limit, where none is given."""
MINIMISE_SECONDS = 20.0
MINIMISE_RUNS = 60
HUNG_MAX = 5
"""Number of runs in which no process went on, after which no more are tried."""


@dataclass(frozen=True)
class HttpSetting(Setting):
    """A setting whose worlds have real processes."""

    fleet: Fleet = field(kw_only=True, compare=False, repr=False)

    def world(self, footprints: Any = None, *, budget: Any = None, **_: Any) -> World:
        return HttpWorld(self.fleet, footprints, budget or self.budget, seed=self.seed, muted=self.muted)


class _Recording:
    """A sampler that keeps the whole of a run that fails: another may not be had again."""

    setting: Setting
    schedules: int
    cut: int
    findings: list[str]
    failed: tuple[Replay, Objects] | None = None
    hung = 0

    def one(self, choose: Callable[[World, Sequence[int]], Choice]) -> Violation | None:
        namer, steps, objects = Namer(), list[Target](), Objects()
        seen: list[World] = []

        def chosen(world: World, enabled: Sequence[int]) -> Choice:
            objects.look(world)
            seen[:] = [world]
            namer.look(world)
            choice = choose(world, enabled)
            steps.append(Target(*namer.name(world, choice[0]), choice[1]))
            return choice

        try:
            found: Violation | None = super().one(chosen)  # type: ignore[misc]  # of the sampler beside it
        except Hung as error:
            self.schedules += 1
            self.cut += 1
            self.hung += 1
            if str(error) not in self.findings:
                self.findings.append(str(error))
            return None
        if found is not None and seen:
            objects.look(seen[0])
            self.failed = (Replay(seen[0], steps, found, ""), objects)
        return found


class _Pct(_Recording, Pct):
    pass


class _Random(_Recording, Random):
    pass


class _Like(_Recording, Like):
    pass


SEARCHES: dict[str, Callable[[HttpSetting, AuditRequest], Any]] = {
    "pct": lambda setting, request: _Pct(setting, request.depth),
    "random": lambda setting, _: _Random(setting),
    "like": lambda setting, request: _Like(setting, request.like),
}


def run_over_http(request: AuditRequest, progress: Callable[[Any], object] | None = None) -> AuditOutcome:
    """Sample schedules of the program's real processes, and judge."""
    started = time.perf_counter()
    seconds = _seconds(request)
    deadline = started + seconds if seconds is not None else math.inf

    def over() -> bool:
        return bool(stopped) or (searched.failed is None and time.perf_counter() > deadline)

    with interruptible() as stopped, Fleet(request.seed, over) as fleet:
        setting = _setting(request, fleet)
        searched: Any = SEARCHES[request.strategy](setting, request)
        limit = stop_after(seconds, request.schedules)

        def stop(at: Any) -> bool:
            if progress is not None:
                progress(at)
            return bool(stopped) or at.hung >= HUNG_MAX or limit(at)

        found: list[Counterexample] = []
        try:
            with silence(), places.held(request.program):
                searched.explore(stop)
            elapsed = time.perf_counter() - started
            if searched.failed is not None:
                found.append(_shortest(setting, searched, request.minimise_seconds))
        except AuditError as error:
            return _error(request, searched, error, time.perf_counter() - started)
        except Interrupted:
            elapsed = time.perf_counter() - started
            if not stopped:
                searched.findings.append("the time was over in the middle of a run, which was given up")
            if searched.failed is not None:
                replay, objects = searched.failed
                found.append(_counterexample(replay, replay.steps, objects))
        return _judge(request, searched, elapsed, tuple(found), interrupted=bool(stopped))


def follow_over_http(request: AuditRequest, token: str) -> AuditOutcome:
    """Follow the one run that a token names, and print the output of its processes."""
    started = time.perf_counter()
    with interruptible() as stopped, Fleet(request.seed, lambda: bool(stopped)) as fleet:
        fleet.show = print
        replay, objects = _follow(_setting(request, fleet), read(token))
    found = () if replay.violation is None or replay.misfit else (_counterexample(replay, token, objects),)
    verdict: AuditVerdict = "violated" if found else "undecided"
    bound = "this one schedule, and nothing is claimed about any other"
    if found:
        bound = "this schedule breaks a property"
        if found[0].property == PROPERTY:
            verdict, bound = "error", found[0].reason
    elif replay.misfit:
        bound = "the schedule the token stands for could not be run"
    return replayed(request, replay, objects, token, verdict, bound, started, found)


def _setting(request: AuditRequest, fleet: Fleet) -> HttpSetting:
    budget = request.budget.but(**dict.fromkeys(UNCONTROLLED, 0))
    return HttpSetting(request.program, budget, request.seed, request.steps_max, fleet=fleet)


def _seconds(request: AuditRequest) -> float | None:
    return SECONDS if request.seconds is None and request.schedules is None else request.seconds


# A shorter counterexample.


def _follow(setting: Setting, targets: Sequence[Target]) -> tuple[Replay, Objects]:
    objects = Objects()
    with places.held(setting.program):
        return follow(setting, targets, watch=objects.look), objects


def _counterexample(replay: Replay, token: Any, objects: Objects) -> Counterexample:
    text = token if isinstance(token, str) else write(token)
    return replace(Counterexample.of(replay, text, objects), raised_at=None)


def _shortest(setting: Setting, searched: Any, seconds: float) -> Counterexample:
    """Return the best run that is found in the time, and in so many runs."""
    best, objects = searched.failed
    deadline = time.perf_counter() + max(seconds, MINIMISE_SECONDS)
    with silence():
        targets = turns(best.steps)
        again = _repeats(setting, best, targets) or _repeats(setting, best, list(best.steps))
        if again is None:
            searched.findings.append(_parted(setting, best))
            return _counterexample(best, best.steps, objects)
        best, targets, objects = again
        best, targets, objects, in_time = _thin(setting, best, targets, objects, deadline)
    return replace(_counterexample(best, targets, objects), minimised=in_time)


Run = tuple[Replay, list[Target], Objects]


def _repeats(setting: Setting, wanted: Replay, targets: list[Target]) -> Run | None:
    """Return the run of these targets, if it breaks the same property."""
    replay, objects = _follow(setting, targets)
    same = replay.violation is not None and wanted.violation is not None
    if not same or replay.misfit or replay.violation.name != wanted.violation.name:  # type: ignore[union-attr]  # just looked at
        return None
    return replay, targets, objects


def _thin(
    setting: Setting, best: Replay, targets: list[Target], objects: Objects, deadline: float
) -> tuple[Replay, list[Target], Objects, bool]:
    """Leave out every fault, and then every switch, without which the property is still broken."""
    runs = 0
    for of_faults in (True, False):
        changed = True
        while changed:
            changed = False
            for place in range(len(targets) - 1, -1, -1):
                harmless = targets[place].alternative in HARMLESS
                if harmless is of_faults:
                    continue
                for instead in [[]] if harmless else [[replace(targets[place], alternative="ok")], []]:
                    if time.perf_counter() > deadline or runs >= MINIMISE_RUNS:
                        return best, targets, objects, False
                    runs += 1
                    shorter = [*targets[:place], *instead, *targets[place + 1 :]]
                    found = _repeats(setting, best, shorter)
                    if found and (cost(found[0].steps), len(shorter)) < (cost(best.steps), len(targets)):
                        (best, targets, objects), changed = found, True
                        break
    return best, targets, objects, True


def _parted(setting: Setting, failed: Replay) -> str:
    """Where another run with the same choices takes another way."""
    again, _ = _follow(setting, failed.steps)
    for number, (one, other) in enumerate(zip(failed.steps, again.steps, strict=False), 1):
        if one != other:
            return (
                f"this run did not repeat itself: step {number} was {one}, and {other} in another run with "
                "the same choices; a clock, a random number or a thread of a process decides"
            )
    why = f" ({again.misfit})" if again.misfit else ""
    return f"this run did not repeat itself: another with the same choices broke no property{why}"


# Judging.


def _error(request: AuditRequest, searched: Any, error: AuditError, elapsed: float) -> AuditOutcome:
    return AuditOutcome(
        request,
        request.strategy,
        "error",
        str(error),
        searched.schedules,
        0,
        elapsed,
        (),
        (),
        Coverage(),
        error_at=error.at[-1] if error.at else None,
    )


def _judge(
    request: AuditRequest,
    searched: Any,
    elapsed: float,
    found: tuple[Counterexample, ...],
    *,
    interrupted: bool,
) -> AuditOutcome:
    coverage = searched.coverage
    processes = found[0].processes if found else coverage.processes or len(coverage.steps)
    scope = f"{processes} process{'' if processes == 1 else 'es'} over HTTP with "
    scope += searched.setting.budget.sentence()
    verdict: AuditVerdict = "violated"
    bound = f"a schedule of {scope} breaks a property"
    if found and found[0].property == PROPERTY:
        verdict, bound = "error", found[0].reason
    elif not found:
        schedules = f"{searched.schedules} schedule{'' if searched.schedules == 1 else 's'}"
        verdict, bound = "undecided", f"{schedules} of {scope} sampled, which proves nothing about others"
    findings = [*searched.findings]
    if isinstance(searched, Pct) and not found:
        findings.append(f"if the processes repeat themselves, {searched.guarantee()}")
    elif isinstance(searched, Like):
        findings.append(searched.guarantee())
    if interrupted:
        findings.insert(0, "interrupted: this is what was found so far")
    if searched.cut:
        findings.append(f"{searched.cut} runs were given up, and not judged to their end")
    findings += [
        f"{one.property} may have a shorter counterexample: minimising it ran out of time"
        for one in found
        if not one.minimised
    ]
    return AuditOutcome(
        request,
        request.strategy,
        verdict,
        bound,
        searched.schedules,
        0,
        elapsed,
        found,
        (*findings, *(() if found else coverage.findings())),
        coverage,
        interrupted=interrupted,
        events=found[0].events if found else (),
    )
