"""The counter in simulated time: every writer adds, and claims again when it is fenced."""

from fencepost.examples.fenced_counter.counter import Counter, Fenced, Unknown
from fencepost.sim.des import Simulation
from fencepost.sim.des.drive import Failed
from fencepost.sim.des.meter import Operation


class Counting:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def open(self, number: int) -> "_Writer":
        store = self._simulation.store(f"writer-{number + 1}")
        return _Writer(Counter(store), self._simulation.setup.workload.attempts)


class _Writer:
    name = "add"

    def __init__(self, counter: Counter, attempts: int) -> None:
        self._counter = counter
        self._attempts = attempts

    def act(self, operation: Operation) -> None:
        for attempt in range(self._attempts):
            operation.retries += attempt > 0
            try:
                if not self._counter.epoch or attempt:
                    self._counter.claim()
                self._counter.add()
            except (Fenced, Unknown) as error:
                if attempt + 1 == self._attempts:
                    raise Failed(type(error).__name__) from None
            else:
                return
