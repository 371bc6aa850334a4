"""Processes with threads: the classic mistakes and their fixes, and small programs with each kind of lock.

Each is a function of a store that runs as one process.
"""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from typing import Any

from fencepost.impl.store import ABSENT, ANYTHING


class Counter:
    def __init__(self, store: Any) -> None:
        self.store = store
        self.count = 0

    def add(self, name: str) -> None:
        count = self.count
        self.store.put(name, b"", when=ANYTHING)
        self.count = count + 1


class LockedCounter(Counter):
    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.lock = threading.Lock()

    def add(self, name: str) -> None:
        with self.lock:
            super().add(name)


def _counted(counter: Any) -> int:
    with ThreadPoolExecutor(2) as pool:
        for name in "ab":
            pool.submit(counter.add, name)
    return int(counter.count)


def lost_update(store: Any) -> int:
    return _counted(Counter(store))


def no_lost_update(store: Any) -> int:
    return _counted(LockedCounter(store))


class Cache:
    """Reads a value once, and counts how often it was read."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.lock = threading.Lock()
        self.value: Any = None
        self.loads = 0

    def get(self) -> Any:
        if self.value is None:
            with self.lock:
                self.load()
        return self.value

    def load(self) -> None:
        self.loads += 1
        self.value = self.store.get("value")


class CheckedTwice(Cache):
    def load(self) -> None:
        if self.value is None:
            super().load()


def _loaded(cache: Cache) -> int:
    threads = [threading.Thread(target=cache.get) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return cache.loads


def loaded_twice(store: Any) -> int:
    return _loaded(Cache(store))


def loaded_once(store: Any) -> int:
    return _loaded(CheckedTwice(store))


def cancelled_too_late(store: Any) -> bool:
    """Takes a future that it cancelled for one that has no effect."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(store.put, "key", b"new", when=ANYTHING)
        future.cancel()
        store.put("key", b"old", when=ANYTHING)
    return bool(store.get("key").body == b"old")


def cancelled_and_checked(store: Any) -> bool:
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(store.put, "key", b"new", when=ANYTHING)
        if not future.cancel():
            future.result()
        store.put("key", b"old", when=ANYTHING)
    return bool(store.get("key").body == b"old")


def deadlock(store: Any) -> None:
    first, second = threading.Lock(), threading.Lock()

    def other() -> None:
        with second, first:
            pass

    thread = threading.Thread(target=other, name="other")
    thread.start()
    with first, second:
        pass
    thread.join()


# One of each kind, for the comparison with plain enumeration.


def condition(store: Any) -> bool:
    ready, items = threading.Condition(), []

    def work() -> None:
        with ready:
            items.append(1)
            ready.notify()

    threading.Thread(target=work).start()
    with ready:
        return bool(ready.wait_for(lambda: items, timeout=2))


def notified_too_early(store: Any) -> None:
    ready, items = threading.Condition(), []

    def work() -> None:
        items.append(1)
        with ready:
            ready.notify()

    threading.Thread(target=work).start()
    if not items:
        with ready:
            ready.wait()


def event(store: Any) -> Any:
    done = threading.Event()

    def work() -> None:
        store.put("a", b"", when=ANYTHING)
        done.set()
        store.put("b", b"", when=ANYTHING)

    threading.Thread(target=work, daemon=True).start()
    return done.wait(1), time.monotonic() > 0.5


def bounded_queue(store: Any) -> int:
    items: Any = queue.Queue(1)

    def work() -> None:
        while (item := items.get()) is not None:
            store.put(item, b"", when=ANYTHING)

    thread = threading.Thread(target=work)
    thread.start()
    for item in ("a", None):
        items.put(item)
    thread.join()
    return len(store.list("").objects)


def handed_over(store: Any) -> bytes:
    """What the giver changes late is reached by the taker through the queue, and not otherwise."""
    boxes: Any = queue.Queue()

    def give() -> None:
        box = [0]
        boxes.put(box)
        more = threading.Thread(target=take)
        more.start()
        store.put("a", b"", when=ANYTHING)
        box[0] = 1
        store.put("b", b"", when=ANYTHING)
        more.join()

    def take() -> None:
        store.put("seen", b"%d" % boxes.get()[0], when=ANYTHING)

    giver = threading.Thread(target=give)
    giver.start()
    giver.join()
    return bytes(store.get("seen").body)


def barrier(store: Any) -> list[int]:
    meet, seen = threading.Barrier(2), []

    def work() -> None:
        seen.append(1)
        meet.wait()
        seen.append(2)

    thread = threading.Thread(target=work)
    thread.start()
    meet.wait()
    seen.append(3)
    thread.join()
    return seen


def semaphore(store: Any) -> int:
    permit, inside = threading.Semaphore(1), [0, 0]

    def enter() -> None:
        if permit.acquire(timeout=3):
            inside[0] += 1
            inside[1] = max(inside)
            store.put("a", b"", when=ANYTHING)
            inside[0] -= 1
            permit.release()

    thread = threading.Thread(target=enter)
    thread.start()
    enter()
    thread.join()
    return inside[1]


def timer(store: Any) -> int:
    late = threading.Timer(5, lambda: store.put("late", b"", when=ANYTHING))
    late.start()
    store.put("a", b"", when=ANYTHING)
    late.cancel()
    late.join()
    return len(store.list("").objects)


def two_writers(store: Any) -> None:
    threading.Thread(target=store.put, args=("a", b""), kwargs={"when": ANYTHING}).start()
    store.put("b", b"", when=ANYTHING)


def two_locks(store: Any) -> None:
    """Two threads that have nothing in common."""

    def work(name: str) -> None:
        mine = threading.Lock()
        for number in range(2):
            with mine:
                store.put(f"{name}{number}", b"", when=ANYTHING)

    thread = threading.Thread(target=work, args=("a",))
    thread.start()
    work("b")
    thread.join()


def first_of_two(store: Any) -> Any:
    pool = ThreadPoolExecutor(1)
    futures = [pool.submit(store.put, name, b"", when=ABSENT) for name in "ab"]
    done, _ = wait(futures, return_when="FIRST_COMPLETED")
    return len(done), [futures.index(one) for one in as_completed(futures)]


def attempts(store: Any) -> tuple[bool, bool]:
    lock, own = threading.Lock(), threading.local()

    def work() -> None:
        own.value = 1
        with lock:
            pass

    thread = threading.Thread(target=work)
    thread.start()
    got = lock.acquire(blocking=False)
    if got:
        lock.release()
    return got, hasattr(own, "value")


ALL: tuple[Callable[[Any], Any], ...] = (
    condition,
    notified_too_early,
    event,
    bounded_queue,
    handed_over,
    barrier,
    timer,
    attempts,
)
