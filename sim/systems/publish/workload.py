"""Publish in simulated time: the code of `fencepost.impl.publish` as it ships.

    publish     each writer joins the branch and publishes through a handle of its own; the loser of a race
                begins again from a fresh snapshot, by `Catalog.write`
    group       all writers of a host share one handle through `GroupCommit`

An operation appends `rows` rows to one table, drawn from the writer's own stream.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog, Draft, GroupCommit, Mode, Published, PublishError, Unknown
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ANYTHING, Put
from fencepost.sim.des.drive import Failed
from fencepost.sim.des.engine import Engine, Signal
from fencepost.sim.des.meter import Operation
from fencepost.sim.des.simulation import Simulation

COLUMNS = {"id": "int64", "n": "int64"}


@functools.cache
def founding(tables: int, depth: int) -> dict[str, bytes]:
    """The objects of a catalog with so many tables and earlier commits. Made once for a process."""
    store = MemoryStore(env=SeededEnvironment(1))
    with Catalog.open(store, author="founder", create=True) as catalog:
        with catalog.transaction("found") as txn:
            for number in range(tables):
                txn.create_table(f"t{number}", COLUMNS, key="id")
                txn.append(f"t{number}", [{"id": -1, "n": 0}])
        for number in range(depth):
            with catalog.transaction() as txn:
                txn.append(f"t{number % tables}", [{"id": -2 - number, "n": 0}])
    return dict(store.contents())


def found(simulation: Simulation) -> None:
    workload = simulation.setup.workload
    for key, body in founding(workload.tables, workload.depth).items():
        simulation.server.bucket.answer(Put(key, body, ANYTHING), 0)


@contextmanager
def failing() -> Iterator[None]:
    """Counts an error of publish as a failed operation, by its name."""
    try:
        yield
    except PublishError as error:
        raise Failed(type(error).__name__) from None


def opened(simulation: Simulation, author: str) -> Catalog:
    """A handle that joined the branch."""
    with failing():
        return Catalog.open(simulation.store(author), env=simulation.env, author=author, mode=Mode.JOIN)


class Publishing:
    """Writers of their own, side by side on one branch."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        found(simulation)

    def open(self, number: int) -> "_Publisher":
        return _Publisher(self._simulation, number, opened(self._simulation, f"writer-{number + 1}"))


class _Publisher:
    name = "publish"

    def __init__(self, simulation: Simulation, number: int, catalog: Catalog) -> None:
        self._rows = Rows(simulation, number)
        self._attempts = simulation.setup.workload.attempts
        self._catalog = catalog

    def act(self, operation: Operation) -> None:
        table, rows = self._rows.next()
        tries = 0

        def change(transaction: Any) -> None:
            nonlocal tries
            tries += 1
            transaction.append(table, rows)

        try:
            with failing():
                ended = self._catalog.write(change, attempts=self._attempts)
        finally:
            operation.retries += max(0, tries - 1)
        if isinstance(ended, Unknown):
            raise Failed("Unknown")


class Grouping:
    """Writers that share one handle."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        found(simulation)
        self._group: GroupCommit | Windowed | None = None
        self._opening: Signal | None = None

    def open(self, number: int) -> "_Member":
        while self._group is None:
            if self._opening is not None:
                self._opening.wait()
                continue
            opening = self._opening = Signal(self._simulation.engine)
            try:
                self._group = self._grouped(opened(self._simulation, "host"))
            finally:
                self._opening = None
                opening.set()
        return _Member(self._simulation, number, self._group)

    def _grouped(self, catalog: Catalog) -> "GroupCommit | Windowed":
        window_ns = self._simulation.setup.workload.window_ns
        if window_ns:
            return Windowed(self._simulation.engine, catalog, window_ns)
        # Actors switch only where they wait, so no lock is needed.
        return GroupCommit(catalog, lock=nullcontext, signal=lambda: Signal(self._simulation.engine))


class Windowed:
    """Group commit with a timer: the first draft of a group waits so long for others.

    The catalog's own `publish_all` publishes the group, as in `GroupCommit`. The time that the last group
    took counts: a draft that has waited that long waits no more.
    """

    def __init__(self, engine: Engine, catalog: Catalog, window_ns: int) -> None:
        self._engine = engine
        self._catalog = catalog
        self._window_ns = window_ns
        self._queue: list[_Waiter] = []
        self._led = False

    def publish(self, draft: Draft) -> Published | Unknown:
        waiter = _Waiter(draft, self._engine)
        self._queue.append(waiter)
        if self._led:
            waiter.woken.wait()
        if waiter.result is None:
            self._lead()
        if isinstance(waiter.result, BaseException):
            raise waiter.result
        assert waiter.result is not None
        published: Published | Unknown = waiter.result
        return published

    def _lead(self) -> None:
        self._led = True
        self._engine.sleep_ns(max(0, self._queue[0].came_ns + self._window_ns - self._engine.now_ns))
        batch, self._queue = self._queue, []
        try:
            results: Sequence[Any] = self._catalog.publish_all([waiter.draft for waiter in batch])
        except PublishError as error:
            results = [error] * len(batch)
        self._led = bool(self._queue)
        for waiter, result in zip(batch, results, strict=True):
            waiter.result = result
            waiter.woken.set()
        if self._queue:
            self._queue[0].woken.set()


class _Waiter:
    def __init__(self, draft: Draft, engine: Engine) -> None:
        self.draft = draft
        self.came_ns = engine.now_ns
        self.woken = Signal(engine)
        self.result: Any = None


class _Member:
    name = "publish"

    def __init__(self, simulation: Simulation, number: int, group: GroupCommit | Windowed) -> None:
        self._rows = Rows(simulation, number)
        self._group = group

    def act(self, operation: Operation) -> None:
        table, rows = self._rows.next()
        draft = Draft()
        draft.append(table, rows)
        with failing():
            ended = self._group.publish(draft)
        if isinstance(ended, Unknown):
            raise Failed("Unknown")


class Rows:
    """The rows of one writer, with keys of its own, into a table drawn from its own stream."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self._workload = simulation.setup.workload
        self._dice = SeededEnvironment(0).stream(f"{simulation.setup.seed}/tables/{number}")
        self._simulation = simulation
        self._number = number

    def next(self) -> tuple[str, list[dict[str, int]]]:
        table = f"t{self._dice.randrange(self._workload.tables)}"
        ids = self._simulation.take(self._workload.rows)
        return table, [{"id": id_, "n": self._number} for id_ in ids]
