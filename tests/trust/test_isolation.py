"""Audited code gets time, randomness and identity from the world, wherever it keeps the functions."""

import _socket
import _thread
import asyncio
import contextlib
import datetime as dt
import functools
import os
import random
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from greenlet import greenlet

from fencepost.impl.store import ABSENT
from fencepost.sim.explore import Diverged, audit, replay
from fencepost.sim.world import NO_FAULTS, World
from fencepost.sim.world.finalizers import PROPERTY

START = World().start_ns / 1e9


def by_default(clock: Callable[[], float] = time.time) -> float:
    return clock()


def by_keyword(*, clock: Callable[[], float] = time.time) -> float:
    return clock()


class Lease:
    clock = time.time
    static = staticmethod(time.time)
    clocks: ClassVar = {"wall": time.time}

    def __init__(self, clock: Callable[[], float]) -> None:
        self.mine = clock


class Slotted:
    __slots__ = ("clock",)

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock


@dataclass(frozen=True)
class Record:
    clock: Callable[[], float] = time.time
    made: float = field(default_factory=time.time)


def closure(clock: Callable[[], float]) -> Callable[[], float]:
    return lambda: clock()


CLOCKS = {"wall": time.time, "nested": [{"deeper": (time.time,)}]}
LISTED = [time.time]
QUEUED = deque([time.time])
TUPLE = (("wall", time.time),)
PARTIAL = functools.partial(time.time)
CLOSED = closure(time.time)
LEASE = Lease(time.time)
SLOTTED = Slotted(time.time)
RECORD = Record()
NOW = dt.datetime.now
WRAPPED = functools.lru_cache(maxsize=0)(closure(time.time))

KEPT: dict[str, Callable[[], float]] = {
    "time.time": lambda: time.time(),
    "a default argument": lambda: by_default(),
    "a keyword's default": lambda: by_keyword(),
    "a class": lambda: Lease.clock(),
    "a class, through its object": lambda: LEASE.clock(),
    "a static method": lambda: Lease.static(),
    "a dictionary of a class": lambda: Lease.clocks["wall"](),
    "an object": lambda: LEASE.mine(),
    "an object with slots": lambda: SLOTTED.clock(),
    "a field of a dataclass": lambda: RECORD.clock(),
    "a factory of a dataclass": lambda: Record().made,
    "a dictionary": lambda: CLOCKS["wall"](),  # type: ignore[operator]  # a clock
    "a tuple in a dictionary in a list": lambda: CLOCKS["nested"][0]["deeper"][0](),  # type: ignore[index]  # a list
    "a list": lambda: LISTED[0](),
    "a deque": lambda: QUEUED[0](),
    "a tuple": lambda: dict(TUPLE)["wall"](),
    "a partial": lambda: PARTIAL(),
    "a closure": lambda: CLOSED(),
    "a wrapped function": lambda: WRAPPED(),
    "datetime.now": lambda: NOW().timestamp(),
}


def result_of(work: Callable[[], Any]) -> Any:
    """What a process on the native interface returns."""

    def program(world: World) -> None:
        world.spawn(work, name="ann")

    return replay(program, "default").world.processes[0].result


@pytest.mark.parametrize("where", KEPT)
def test_a_clock_is_the_worlds_wherever_it_is_kept(where: str) -> None:
    real = time.time
    assert result_of(KEPT[where]) == START
    assert abs(KEPT[where]() - real()) < 3600
    assert Lease.clock is real
    assert TUPLE[0][1] is real


DRAWN: dict[str, Callable[[], Any]] = {
    "random.random": lambda: random.random(),
    "an object that draws": lambda: random.Random().random(),
    "os.urandom": lambda: os.urandom(8),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "uuid.uuid1": lambda: uuid.uuid1(),
}


@pytest.mark.parametrize("what", DRAWN)
def test_randomness_is_the_worlds(what: str) -> None:
    first, second = (result_of(lambda: (DRAWN[what](), DRAWN[what]())) for _ in range(2))
    assert first == second
    assert first[0] != first[1]


def test_a_lease_by_the_real_clock_is_found() -> None:
    """A pause between two readings of the clock: ann works on under a lease that has expired."""

    def program(world: World) -> None:
        store = world.store()

        def hold() -> None:
            until = time.time() + 10
            store.put("lease", str(until).encode(), when=ABSENT)
            store.get("job")
            if time.time() < until:
                world.note("valid")
            else:
                world.note("expired")

        world.spawn(hold, name="ann")
        world.always("valid", lambda view: not view.notes("expired"))

    assert audit(program).verdict == "violated"


POOL = ThreadPoolExecutor(1)


def _in_a_thread(send: Callable[[], Any]) -> None:
    threading.Thread(target=send).start()


def _in_a_thread_of_the_code(send: Callable[[], Any]) -> None:
    POOL.submit(send)
    while not POOL._work_queue.empty():
        pass


def _in_a_greenlet(send: Callable[[], Any]) -> None:
    greenlet(send).switch()


def _in_a_new_thread(send: Callable[[], Any]) -> None:
    _thread.start_new_thread(send, ())


start = threading.Thread.start
"""Kept before any world runs."""


def _in_a_thread_by_another_name(send: Callable[[], Any]) -> None:
    start(threading.Thread(target=send))


THREADS = [
    _in_a_greenlet,
    _in_a_new_thread,
    _in_a_thread_by_another_name,
]


@pytest.mark.parametrize("send", THREADS)
@pytest.mark.parametrize("act", ["put", "note"])
def test_a_thread_on_the_native_interface_is_found(send: Any, act: str) -> None:
    """Else what it does happens outside of every schedule, and "holds" is reported."""
    POOL.submit(int).result()

    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            send(lambda: store.put("k", b"", when=ABSENT) if act == "put" else world.note("k"))
            store.get("other")

        world.spawn(work, name="ann")

    try:
        result = audit(program, budget=NO_FAULTS)
    except Diverged:
        return  # when the thread acts is not up to the schedule
    assert result.verdict == "error"
    assert result.counterexamples[0].property == PROPERTY


@pytest.mark.parametrize("send", [_in_a_thread, _in_a_thread_of_the_code])
@pytest.mark.parametrize("act", ["put", "note"])
def test_a_thread_of_the_process_takes_steps_in_every_order(send: Any, act: str) -> None:
    POOL.submit(int).result()  # the pool has a thread of the system before the run begins
    orders = set()

    def program(world: World) -> None:
        store = world.store()
        steps: list[str] = []

        def other() -> None:
            store.put("k", b"", when=ABSENT) if act == "put" else world.note("k")
            steps.append("thread")

        def work() -> None:
            send(other)
            store.get("other")
            steps.append("ann")

        world.spawn(work, name="ann")
        world.finally_("both", lambda _: orders.add(tuple(steps)) or True)

    assert audit(program, budget=NO_FAULTS).verdict == "holds"
    assert orders == {("thread", "ann"), ("ann", "thread")}


def loop() -> None:
    running = asyncio.SelectorEventLoop()
    try:
        running.run_forever()
    finally:
        running.close()


def connect() -> None:
    with contextlib.closing(_socket.socket()) as plain:
        plain.connect(("127.0.0.1", 9))


CALLS: dict[str, Callable[[], Any]] = {
    "socket": lambda: socket.create_connection(("127.0.0.1", 9)),
    "a socket by its class in C": connect,
    "os.system": lambda: os.system("true"),
    "subprocess": lambda: subprocess.run(["true"], check=True),
    "a program by a kept function": lambda: run_kept(["true"], check=True),
    "asyncio": lambda: loop(),
}
run_kept = subprocess.run


@pytest.mark.parametrize("call", CALLS)
def test_calls_out_of_the_world_are_refused_on_the_native_interface(call: str) -> None:
    def program(world: World) -> None:
        world.spawn(CALLS[call], name="ann")

    found = audit(program, budget=NO_FAULTS).counterexamples
    assert found[0].property == PROPERTY


class Proxy:
    """As of werkzeug: every look at it runs code, which fails here."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    __class__ = property(lambda self: 1 / 0)  # type: ignore[assignment]  # as a proxy does


LAZY = Proxy()
"""In a module that is searched, as Django's storage is."""


def test_the_search_for_clocks_runs_no_code_of_the_program() -> None:
    proxy = Proxy()
    assert result_of(lambda: (time.time(), proxy)[0]) == START


def test_a_library_that_is_loaded_during_a_run_gets_the_real_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Extension modules (pandas, pyarrow) cannot be loaded with others. Its names are replaced once it is."""
    libraries = tmp_path / "site-packages"
    libraries.mkdir()
    (libraries / "loaded_late.py").write_text(
        "import datetime\nfrom time import time\nclass Day(datetime.date): pass\nLOADED_AT = time()\n"
    )
    monkeypatch.syspath_prepend(libraries)
    real = time.time

    def late() -> Any:
        import loaded_late

        return loaded_late.Day.__bases__, loaded_late.time()

    assert result_of(late) == ((dt.date,), START)
    loaded = sys.modules["loaded_late"]
    assert abs(loaded.LOADED_AT - real()) < 3600
    assert loaded.time is real
    assert result_of(lambda: loaded.time()) == START
