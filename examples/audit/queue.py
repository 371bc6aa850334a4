"""Workers share a queue of jobs; a cursor object says which job is next.

Broken: take the job by moving the cursor, then do the work. A crash in between, and the job is never done.
Fixed: do the work first, in a way that can be done twice (create-only result), then move the cursor from
what it was to the next. Several workers may do the same job; its result exists once.
"""

from fencepost.sim.world import View, World
from fencepost.store import ABSENT, Matches, Outcome, Store

JOBS = 1
"""Enough to show it. With two the proof takes minutes: three workers meet at every job."""


def read_cursor(store: Store) -> tuple[int, Matches]:
    while True:
        reply = store.get("cursor")
        if reply.info is not None:
            return int(reply.body), Matches(reply.info.etag)


def work(store: Store, job: int) -> None:
    """Leave the result of a job; come back when it is there."""
    while store.put(f"result/{job}", b"done", when=ABSENT).outcome is Outcome.UNKNOWN:
        pass


def take_then_work(store: Store) -> None:
    while True:
        job, unmoved = read_cursor(store)
        if job == JOBS:
            return
        if store.put("cursor", b"%d" % (job + 1), when=unmoved).done:
            work(store, job)


def work_then_move(store: Store) -> None:
    while True:
        job, unmoved = read_cursor(store)
        if job == JOBS:
            return
        work(store, job)
        store.put("cursor", b"%d" % (job + 1), when=unmoved)


def all_done(view: View) -> str | None:
    missing = [job for job in range(JOBS) if view.get(f"result/{job}") is None]
    return f"the cursor is at {view.get('cursor')!r} and jobs {missing} were never done" if missing else None


def mutant_cursor_before_work(world: World) -> None:
    world.store().put("cursor", b"0", when=ABSENT)
    for name in ("ann", "bob", "cid"):
        world.spawn(take_then_work, world.store(), name=name)
    world.finally_("every job is done", all_done)


def fixed(world: World) -> None:
    world.store().put("cursor", b"0", when=ABSENT)
    for name in ("ann", "bob", "cid"):
        world.spawn(work_then_move, world.store(), name=name)
    world.finally_("every job is done", all_done)
