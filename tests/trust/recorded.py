"""Runs of the five systems as traces: with landings, as a tracer writes them, and one tracer a process."""

import importlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial

from bench.traces import Kept, random_choice
from fencepost.impl.store.events import Event
from fencepost.sim.explore import Setting
from fencepost.sim.systems import SYSTEMS
from fencepost.sim.systems.system import load
from fencepost.sim.world import Budget, World
from fencepost.sim.world.trace import events

Run = list[Event]
FORMS = {"landed": "with landings", "answered": "with requests and responses only", "apart": "a tracer each"}
"""Forms of a trace."""


class Whole(Kept):
    """Random runs, whose events are kept, those of the setup too."""

    def _after(self, world: World, ended: bool) -> None:
        super(Kept, self)._after(world, ended)
        if ended:
            world.show_bodies(self.trace_fields)
            run = f"{self.name}-{len(self.runs):04d}"
            self.runs.append([replace(event, run=run) for event in events(world, run)])


def scenarios(system: str) -> tuple[str, ...]:
    module = importlib.import_module(SYSTEMS[system].program.partition(":")[0])
    names: Mapping[str, object] = module.SCENARIOS
    return tuple(names)


@lru_cache
def runs(system: str, scenario: str, count: int, seed: int = 0) -> tuple[tuple[Event, ...], ...]:
    """So many runs of a scenario with all faults of requests; the same every time."""
    found = SYSTEMS[system]
    budget = Budget(
        crash=1, reply_lost=1, request_lost=1, late=1, conflict=1, throttled=1, duplicated=1, skew=1
    )
    program = partial(load(found.program), scenario=scenario, lockstep="off")
    search = Whole(Setting(program, budget, seed=seed), f"{system}-{scenario}", load(found.trace_fields))
    search.explore(lambda done: done.schedules >= count)
    return tuple(map(tuple, search.runs))


def as_recorded(run: tuple[Event, ...] | Run, form: str) -> Run:
    """The run in a form of `FORMS`."""
    if form == "landed":
        return list(run)
    kept = [event for event in run if event.phase != "landed"]
    if form == "answered":
        return [replace(event, seq=seq) for seq, event in enumerate(kept)]
    counters: dict[tuple[str, int], int] = {}
    made = []
    for event in kept:
        life = event.process, event.incarnation
        counters[life] = counters.get(life, -1) + 1
        made.append(replace(event, seq=counters[life]))
    return made


def some(system: str, wanted: int, seed: int = 0) -> list[tuple[Event, ...]]:
    """Runs of scenarios that are drawn."""
    names = random_choice(seed).sample(list(scenarios(system)), min(wanted, len(scenarios(system))))
    return [run for name in names for run in runs(system, name, 1, seed)]
