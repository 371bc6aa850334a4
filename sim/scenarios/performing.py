"""From a scenario to its outcome: every run, checked before the first begins."""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.sim.des.result import Result
from fencepost.sim.des.simulate import WORKLOADS
from fencepost.sim.scenarios.building import build
from fencepost.sim.scenarios.errors import BadScenario
from fencepost.sim.scenarios.judging import check_places
from fencepost.sim.scenarios.outcome import outcome, run_name
from fencepost.sim.scenarios.points import points
from fencepost.sim.scenarios.running import Task, cores, run_all
from fencepost.sim.scenarios.scenario import Point, Scenario

Show = Callable[[int, int], None]
"""Called with the number of runs that are done, and of all runs."""


@dataclass(frozen=True, slots=True)
class Order:
    """A scenario, and how it is to be run."""

    scenario: Scenario
    sweeps: Sequence[str] = ()
    seed: int | None = None
    jobs: int | None = None
    folder: Path | None = None
    traces: bool = False
    points: list[Point] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", points(self.scenario, self.sweeps))
        system = self.scenario.settings["workload.system"]
        needed = WORKLOADS[system].requires
        if needed and importlib.util.find_spec(needed) is None:
            raise BadScenario(f"the system {system!r} needs {needed}: pip install 'fencepost[catalog]'")
        if not self.sweeps:
            check_places(self.scenario, self.points)

    @property
    def used_seed(self) -> int:
        return self.scenario.seed if self.seed is None else self.seed

    def tasks(self) -> list[Task]:
        return [
            Task(
                point.number,
                build(self.scenario, point, seed=self.seed),
                self.name(point.number),
                str(self.folder / "traces" / f"{self.name(point.number)}.parquet")
                if self.folder is not None and self.traces
                else None,
            )
            for point in self.points
        ]

    def name(self, number: int) -> str:
        return run_name(self.scenario.name, number)

    def outcome(self, results: dict[int, Result]) -> dict[str, Any]:
        return outcome(self.scenario, self.points, results, seed=self.used_seed, checked=not self.sweeps)


def _sweep_up(order: Order) -> None:
    """Workers that were stopped while they wrote a trace leave the part they had beside its name."""
    if order.folder is not None:
        for part in (order.folder / "traces").glob(f".{order.scenario.name}-*.parquet.*"):
            part.unlink(missing_ok=True)


def _silent(_done: int, _total: int) -> None:
    """Nobody watches."""


def perform(order: Order, show: Show = _silent) -> dict[str, Any]:
    """Run it here, on every core. Ctrl-C stops it, and keeps the runs that were finished."""
    tasks = order.tasks()
    results: dict[int, Result] = {}
    show(0, len(tasks))

    def done(number: int, result: Result) -> None:
        results[number] = result
        show(len(results), len(tasks))

    try:
        run_all(tasks, order.jobs or cores(), done)
    except KeyboardInterrupt:
        _sweep_up(order)
    return order.outcome(results)
