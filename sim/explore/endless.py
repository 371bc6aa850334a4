"""Runs without an end: which loops starve other processes, and which promises a run never keeps.

Theory. A run that goes on for ever is judged if it is *fair*: every actor that can step does step, again and
again, time passes, and no fault happens any more. A run that is cut may be unfair: a loop with effects took
every step. Such a loop is learnt (see `sim.world.loops`), and from then on the others get their turn. A
depth-first search meets such a run late: each run lets the loop take one round more. So every process, and
the threads, are first tried as favourites in one run each.

*Waiting for ever.* A run has come to such an end when every process that has not ended repeats rounds in
vain, or waits for a lock, and none of these loops is bounded. Nothing will change any more, whatever the
order of the steps, so the rest of the run is fair if all of them go on. An `eventually` that has not happened
by then never happens. To tell a bounded loop from an endless one, and a promise that only takes time from one
that is not kept, the run is followed for `FOLLOWED` steps and far into the future.

A process that crashed and does not start again has ended: it owes nothing, but a promise of the program is
owed by the others all the same. Faults that are left in the budget do not excuse: a run without them exists.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fencepost.sim.explore.runs import Choice, Setting, run
from fencepost.sim.world import CLOCK_ACTOR, POWER_ACTOR, World, places
from fencepost.sim.world.footprints import FLIGHTS_FROM
from fencepost.sim.world.loops import BETWEEN, head
from fencepost.sim.world.operations import Sync, Wake
from fencepost.sim.world.process import Process

FOLLOWED = 4_000
"""Steps for which a run is followed before its loops count as endless."""
SHOWN_MAX = 100
"""Steps of the loop that are shown, at most."""
FAR_NS = 10 * 365 * 86_400 * 10**9
"""Time by which the clock moves then."""
TAIL_MIN = 60
"""Steps at the end of a run that was cut, at least, in which an actor that could step did not."""


def learn_starving(world: World, enabled: Sequence[int]) -> None:
    """Learn the loops that took all steps at the end of a run that was cut although others could step."""
    run = world.run
    tail = run.trace[len(run.trace) // 2 :]
    if run.loops is None or len(tail) < TAIL_MIN:
        return
    steps: dict[int, tuple[Process, list[Any]]] = {}
    for _, _, process, _, _, op, _, _ in tail:
        if process is not None and type(op) not in BETWEEN:
            steps.setdefault(process.index, (process, []))[1].append(op)
    waiting = [
        actor
        for actor in enabled
        if actor not in (CLOCK_ACTOR, POWER_ACTOR) and (actor < FLIGHTS_FROM or actor in run.threads)
    ]
    if steps.keys() >= set(waiting):
        return
    for process, taken in steps.values():
        counts = Counter(map(head, taken))
        most = max(counts.values())
        if not process.daemon and most >= 2 * run.settings.wait_rounds:
            begins = next(op for op in taken if counts[head(op)] == most)
            run.loops.learn_starving(process.name, begins)


def learn_waiting(world: World, enabled: Sequence[int]) -> None:
    """Learn the loops in which all wait for ever where a run was cut."""
    run = world.run
    waiting = _waiting(world, enabled)
    if run.loops is not None and len(run.trace) >= 2 * TAIL_MIN:
        for process in waiting:
            if process.rounds.repeated > TAIL_MIN:
                run.loops.learn(process.rounds.key)


def waits_for_ever(world: World, enabled: Sequence[int]) -> bool:
    """Return True if all processes that have not ended are in loops that are known to be endless."""
    run = world.run
    if not (run.alone or enabled[0] == CLOCK_ACTOR) or run.loops is None:
        return False  # the usual case, at every step
    loops = run.loops
    waiting = _waiting(world, enabled)
    return bool(waiting) and all(not one.spins or loops.is_endless(one.rounds.key) for one in waiting)


def _waiting(world: World, enabled: Sequence[int]) -> list[Process]:
    """Return the processes and threads that wait, if all that have not ended do; else none."""
    run = world.run
    able = [actor for actor in enabled if actor != POWER_ACTOR]
    if len(able) != 1 or run.rushing is not None or run.flights or run.setup is not None:
        return []
    if able[0] != CLOCK_ACTOR and not run.alone:
        return []
    going = [one for one in run.strands if one.pending is not None]
    return going if all(map(_is_waiting, going)) and any(one.spins for one in going) else []


def _is_waiting(process: Process) -> bool:
    if process.spins or process.blocked:
        return True
    op = process.pending
    return type(op) is Sync and op.ready is not None and op.until_ns < 0 and not op.ready()


def judge_endless(world: World, enabled: Sequence[int], steps: int = FOLLOWED) -> None:
    """Report a promise that this run never keeps; `enabled`: the actors that may step where it is left.

    The run is followed for `steps` more steps, which its trace does not show.
    """
    run = world.run
    rounds = run.settings.wait_rounds
    waiting = _waiting(world, enabled)
    if run.violation is not None or not waiting or any(0 < one.spins < rounds for one in waiting):
        return
    if not _missed(world):
        return
    begin = end = len(run.trace)
    ahead = True
    for _ in range(steps):
        if world.violation is not None or not enabled or not _waiting(world, enabled):
            return
        actor = next(actor for actor in enabled if actor != POWER_ACTOR)
        world.step(actor, world.alternatives(actor)[0])
        long = len(run.trace) >= begin + SHOWN_MAX
        if end == begin and (long or _took_a_round(world, waiting, begin)):
            end = len(run.trace)
        if ahead and end > begin:
            run.advance_to(run.clock_ns + FAR_NS)
            ahead = False
        enabled = world.enabled()
    missed = _missed(world)
    if missed:
        del run.trace[end:]
        names = " and ".join(sorted(one.name for one in waiting))
        reason = f"it never happens: {names} {'wait' if len(waiting) > 1 else 'waits'} for ever"
        run.report_violation(missed[0], reason, loop_at=begin)


def _missed(world: World) -> list[str]:
    """Return the names of the promises that this run has not kept yet."""
    return [one.name for one in world.properties if one.is_missed and one.name not in world.muted]


def _took_a_round(world: World, waiting: Sequence[Process], begin: int) -> bool:
    """Return True if every process in a loop took a whole round of it since this place."""
    taken = Counter(id(step[2]) for step in world.trace[begin:] if type(step[5]) not in BETWEEN)
    return all(taken[id(one)] >= one.rounds.period for one in waiting if one.spins)


def try_favourites(setting: Setting) -> None:
    """Learn the loops that starve others, from runs in which one process, or the threads, take every turn."""
    with places.held(setting.program):
        _try_favourites(setting)


def _try_favourites(setting: Setting) -> None:
    favourite, last = 1, 1
    while favourite <= last:
        world = setting.world()
        choose = _Favouring(0 if favourite == last > 1 else favourite)
        try:
            if not run(world, setting.program, choose, setting.steps_max) and world.violation is None:
                learn_starving(world, world.enabled())
            last = len(world.processes) + 1
        finally:
            world.close()
        favourite += 1
    setting.loops.adopt()


class _Favouring:
    """The choices of a run in which one process takes every turn that it can; 0: the threads do."""

    def __init__(self, favourite: int) -> None:
        self._favourite = favourite

    def __call__(self, world: World, enabled: Sequence[int]) -> Choice:
        able = [actor for actor in enabled if actor != POWER_ACTOR and not world.scheduler.gives_up(actor)]
        actor = self._next(world, able) if able else enabled[0]
        return actor, world.alternatives(actor)[0]

    def _next(self, world: World, able: Sequence[int]) -> int:
        threads = world.run.threads
        mine = [one for one in able if one == self._favourite or (not self._favourite and one in threads)]
        if mine:
            return mine[0]
        if CLOCK_ACTOR in able and world.alternatives(CLOCK_ACTOR)[0] == "advance":
            strands = threads.values() if not self._favourite else world.processes[self._favourite - 1 :][:1]
            if any(type(strand.pending) is Wake for strand in strands):
                return CLOCK_ACTOR
        return next((actor for actor in able if actor != CLOCK_ACTOR), able[0])
