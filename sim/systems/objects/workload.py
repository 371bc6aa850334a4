"""The object server in simulated time: the code of `fencepost.impl.objects` as it ships, on a disk whose
flushes take the time of the scenario.

    put, delete, get    an operation is a request of one connection, which belongs to one worker
    list                the first `keys` (1,000) keys of another bucket, from the index

The store of the scenario is the disk: every flush of a file or directory is one of its requests. So
`store.latency` is the time of a flush, `store.in_flight` the number of flushes at once, and `requests` the
flushes of an operation. A failed one is EIO. Flushes are shared, transactions of the index take several
changes, and both locks of the index are held, by the code that ships; SQLite runs, its commits are charged.

The first `deleters` of the writers delete, the next `getters` get, the next `listers` list, the others put
objects of `bytes`. They are spread over `workers` (1). A worker computes for one request at a time, and has a
core of its own: give no more than there are. Microseconds of it, by parameters:

    request_us 540          HTTP of a request with 4 KiB, measured with h11: with httptools, which ships,
                            it is less (docs/decisions/0018)
    put_us 600, delete_us 400, get_us 170, list_us 26000 (of 1,000 keys)
                            the operation, as bench/objects_costs.py measured it on a virtual machine
    transaction_us 50, change_us 50
                            of the index, also there

That benchmark prints all but the first for another machine, with the time of a flush.

Left out: the change log's own flush once a second, checkpoints of SQLite, bytes (see `store.bandwidth`).
"""

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.index import Change, Index
from fencepost.impl.objects.surface import act
from fencepost.impl.objects.tables import Entry, Rows
from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.files import Disk
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.files.disk import Waiting
from fencepost.impl.store.requests import Outcome
from fencepost.sim.des.drive import Failed
from fencepost.sim.des.engine import Engine, Signal, Tick
from fencepost.sim.des.meter import Operation
from fencepost.sim.des.paths import nominal
from fencepost.sim.des.simulation import Simulation

BUCKET, LISTED, KEY = "bucket", "listed", "key"
REMOVABLE = 2000
"""Objects to delete in a run that a duration bounds."""
_CONNECTIONS = {"delete": "deleters", "get": "getters", "list": "listers"}
DEFAULTS = {
    "workers": 1, "deleters": 0, "getters": 0, "listers": 0, "keys": 1000, "request_us": 540, "put_us": 600,
    "get_us": 170, "delete_us": 400, "list_us": 26_000, "transaction_us": 50, "change_us": 50,
}  # fmt: skip
SWITCH_NS = 5_000_000
"""Python's own switch interval, after which a thread gives way to one that waits."""
LOCK_PAUSE_NS = 10_000
"""Between two attempts to get the lock of a key, which a waiting process gets when it is released."""


class Turns:
    """A lock of actors, in the order in which they came; free while the run is set up."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held = False
        self._waiting: deque[Signal] = deque()

    def __enter__(self) -> None:
        if self._engine.current is None:
            return
        if self._held:
            turn = Signal(self._engine)
            self._waiting.append(turn)
            turn.wait()
        self._held = True

    def __exit__(self, *_: object) -> None:
        if self._waiting:
            self._waiting.popleft().set()  # it is held for the next one
        else:
            self._held = False


class SimulatedEvent:
    """`threading.Event` for actors."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_set = False
        self._waiting: list[tuple[Any, object]] = []

    def set(self) -> None:
        self._is_set = True
        for actor, mark in self._waiting:
            self._wake(actor, mark, 0)
        self._waiting.clear()

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            mark, actor = object(), self._engine.current
            assert actor is not None
            self._waiting.append((actor, mark))
            if timeout is not None:
                self._wake(actor, mark, round(timeout * 1e9))
            self._engine.wait(mark)
        return self._is_set

    def _wake(self, actor: Any, mark: object, after_ns: int) -> None:
        Tick(self._engine, lambda _: self._engine.wake(actor, mark)).after(after_ns)


class SimulatedWaiting(Waiting):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def now_s(self) -> float:
        return self._engine.now_ns / 1e9

    def event(self) -> Any:
        return SimulatedEvent(self._engine)


class SimulatedDisk(Disk):
    """The disk as one worker sees it. Names and contents are real; a flush is a request to the store of the
    scenario. Attributes are kept here, because not every file system of a temporary folder has them."""

    one_call = False

    def __init__(self, simulation: Simulation, worker: str, attributes: dict[int, bytes]) -> None:
        self._client = simulation.client(worker)
        self._engine = simulation.engine
        self._attributes = attributes
        self.waiting = SimulatedWaiting(simulation.engine)

    def fsync(self, fd: int) -> None:
        del fd
        self._flush("file")

    def fsync_folder(self, fd: int) -> None:
        del fd
        self._flush("directory")

    def _flush(self, what: str) -> None:
        if self._engine.current is None:
            return
        request: Any = nominal("put", what)
        if self._client.send(request).outcome is not Outcome.DONE:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def set_attribute(self, fd: int, value: bytes) -> None:
        self._attributes[os.fstat(fd).st_ino] = value

    def get_attribute(self, fd: int) -> bytes | None:
        return self._attributes.get(os.fstat(fd).st_ino)

    def lock(self, fd: int) -> None:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._engine.sleep_ns(LOCK_PAUSE_NS)
            else:
                return


class Processor:
    """The processor of one worker: it computes for one request at a time, and switches as Python's threads
    do."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turns = Turns(engine)

    def spend(self, microseconds: float) -> None:
        left_ns = 0 if self._engine.current is None else round(microseconds * 1000)
        while left_ns > 0:
            with self._turns:
                self._engine.sleep_ns(min(left_ns, SWITCH_NS))
            left_ns -= SWITCH_NS


class ChargedIndex(Index):
    """The index of one worker, whose transactions take time; `between_workers` is held in each."""

    def __init__(self, system: "Serving", processor: Processor, root: str) -> None:
        self._system = system
        self._processor = processor
        self._changes = 0
        super().__init__(root, system.simulation.env)

    def _start(self) -> None:
        super()._start()
        self._lock: Any = Turns(self._system.simulation.engine)

    def _record_all(self, batch: list[Change]) -> None:
        self._changes = len(batch)
        super()._record_all(batch)
        self._system.count(len(batch))

    @contextmanager
    def writing(self) -> Iterator[Rows]:
        with self._system.between_workers, super().writing() as rows:
            yield rows
            parameter = self._system.parameter
            self._processor.spend(
                parameter("transaction_us") + self._changes * parameter("change_us"),
            )
            self._changes = 0


class Serving:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.between_workers = Turns(simulation.engine)
        self._root = tempfile.mkdtemp(prefix="fencepost-objects-")
        attributes: dict[int, bytes] = {}
        self.removable: list[str] = []
        """Keys that no connection has deleted yet."""
        self._workers = [
            Worker(self, f"worker-{number + 1}", self._root, attributes)
            for number in range(max(1, int(self.parameter("workers"))))
        ]
        self._found()
        simulation.counters.update(transactions=0.0, changes=0.0, changes_per_transaction=0.0)

    def parameter(self, name: str) -> float:
        return self.simulation.setup.workload.parameters.get(name, DEFAULTS[name])

    def _found(self) -> None:
        """Two buckets, of which one has keys to list; and every worker has opened the other one."""
        first = self._workers[0].buckets
        for name in (BUCKET, LISTED):
            first.create(name)
        text = Attributes("0" * 32).encode().decode()
        with first.index.writing() as rows:
            for number in range(int(self.parameter("keys"))):
                rows.put((LISTED, f"{number:08}", ""), Entry("0" * 32, 4096, 0, text))
        first.index.trust(1)
        for worker in self._workers:
            worker.put(KEY, b"")
        if self.parameter("deleters"):
            workload = self.simulation.setup.workload
            self.removable = [f"old/{number}" for number in range(workload.operations or REMOVABLE)]
            for key in self.removable:
                self._workers[0].put(key, b"")

    def count(self, changes: int) -> None:
        if self.simulation.engine.current is None:
            return
        counters = self.simulation.counters
        counters["transactions"] += 1
        counters["changes"] += changes
        counters["changes_per_transaction"] = round(counters["changes"] / counters["transactions"], 4)

    def open(self, number: int) -> "_Connection":
        worker = self._workers[number % len(self._workers)]
        for kind, parameter in _CONNECTIONS.items():
            number -= int(self.parameter(parameter))
            if number < 0:
                return _Connection(self, worker, kind)
        return _Connection(self, worker, "put")

    def close(self) -> None:
        for worker in self._workers:
            worker.buckets.close()
        shutil.rmtree(self._root, ignore_errors=True)


class Worker:
    """A process of the server."""

    def __init__(self, system: Serving, name: str, root: str, attributes: dict[int, bytes]) -> None:
        simulation = system.simulation
        self.processor = Processor(simulation.engine)
        self.buckets = Buckets(root, simulation.env, SimulatedDisk(simulation, name, attributes))
        self.buckets.index = ChargedIndex(system, self.processor, root)

    def put(self, key: str, body: bytes) -> None:
        p = {"Bucket": BUCKET, "Key": key}
        with act("PutObject", self.buckets, Caller(ROOT))(p) as receiving:
            receiving.write(body)
            receiving.finish(hashlib.md5(body, usedforsecurity=False).hexdigest(), {})

    def get(self, key: str) -> None:
        with act("GetObject", self.buckets, Caller(ROOT))({"Bucket": BUCKET, "Key": key}):
            pass

    def delete(self, key: str) -> None:
        act("DeleteObject", self.buckets, Caller(ROOT))({"Bucket": BUCKET, "Key": key})

    def list(self, keys: int) -> None:
        page = act("ListObjectsV2", self.buckets, Caller(ROOT))({"Bucket": LISTED, "MaxKeys": keys})
        if page["KeyCount"] != keys:
            raise Failed("IncompleteListing")


class _Connection:
    def __init__(self, system: Serving, worker: Worker, name: str) -> None:
        self.name = name
        self._system = system
        self._worker = worker
        self._body = b"x" * system.simulation.setup.workload.size if name == "put" else b""

    def act(self, operation: Operation) -> None:
        del operation
        system, worker = self._system, self._worker
        keys = int(system.parameter("keys"))
        share = keys / 1000 if self.name == "list" else 1
        worker.processor.spend(system.parameter("request_us") + share * system.parameter(f"{self.name}_us"))
        try:
            match self.name:
                case "put":
                    worker.put(f"{system.simulation.take(1)[0]:08}", self._body)
                case "get":
                    worker.get(KEY)
                case "delete":
                    if not system.removable:
                        raise Failed("NothingLeft")
                    worker.delete(system.removable.pop())
                case "list":
                    worker.list(keys)
        except (S3Error, StoreError) as error:
            raise Failed(getattr(error, "code", type(error).__name__)) from None
