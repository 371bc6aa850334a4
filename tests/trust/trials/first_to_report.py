"""Two threads race for a key, and each reports its outcome; the first to report counts as winner.

A thread may stop between the reply to its request and its report, so the loser may report first: all programs
must be violated without faults. They report through a queue, a list, a lock, an event, a pool and asyncio.
"""

import asyncio
import queue
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

from fencepost.impl.store import ABSENT


def wins(store, name):
    return store.put("leader", name.encode(), when=ABSENT).done


def both(report):
    threads = [threading.Thread(target=report, args=(name,)) for name in ("x", "y")]
    for thread in threads:
        thread.start()
    return threads


def by_queue(store):
    reports = queue.Queue()
    threads = both(lambda name: reports.put((name, wins(store, name))))
    first = reports.get()
    for thread in threads:
        thread.join()
    return first[1]


def by_list(store):
    reports = []
    for thread in both(lambda name: reports.append((name, wins(store, name)))):
        thread.join()
    return reports[0][1]


def by_lock(store):
    reports, lock = [], threading.Lock()

    def report(name):
        won = wins(store, name)
        with lock:
            reports.append((name, won))

    for thread in both(report):
        thread.join()
    return reports[0][1]


def by_event(store):
    reported, first = threading.Event(), []

    def report(name):
        won = wins(store, name)
        if not reported.is_set():
            first[:] = [won]
        reported.set()

    threads = both(report)
    reported.wait()
    for thread in threads:
        thread.join()
    return first[0]


def by_pool(store):
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(wins, store, name) for name in ("x", "y")]
        return next(iter(as_completed(futures))).result()


def by_asyncio(store):
    async def race():
        reports = []

        async def report(name):
            reports.append(await asyncio.to_thread(wins, store, name))

        await asyncio.gather(report("x"), report("y"))
        return reports[0]

    return asyncio.run(race())


def program(world, node):
    world.spawn(node, world.store(), name="node")
    world.finally_("the first to report won", lambda view: view.result("node") is True)


def broken_queue(world):
    program(world, by_queue)


def broken_list(world):
    program(world, by_list)


def broken_lock(world):
    program(world, by_lock)


def broken_event(world):
    program(world, by_event)


def broken_pool(world):
    program(world, by_pool)


def broken_asyncio(world):
    program(world, by_asyncio)
