"""A lock with a lease, which protects an account book.

Broken: trust the lease. The holder is paused just before it writes, its lease runs out, another takes the
lock and writes, and then the first one wakes up and writes over it.
Fixed: a fencing token. Every new lease has a higher number; the book remembers the highest number that
wrote it, and is written only if it is still what the writer has read and no higher number was there.

A process tries for the lock once, so that the example stays small; it may leave empty-handed.
"""

import json

from fencepost.sim.world import View, World
from fencepost.store import ABSENT, ANYTHING, Matches, Outcome, Store

LEASE_NS = 10_000_000_000


def acquire(store: Store, name: str) -> int:
    """The number of our lease; 0 when somebody else holds the lock."""
    found = store.get("lock")
    if found.outcome is Outcome.UNKNOWN:
        return 0
    lease = json.loads(found.body) if found.done else {"number": 0, "until": 0}
    now = store.env.now_ns()
    if lease["until"] > now:
        return 0
    mine = {"number": lease["number"] + 1, "until": now + LEASE_NS, "holder": name}
    when = Matches(found.info.etag) if found.info else ABSENT
    return mine["number"] if store.put("lock", json.dumps(mine).encode(), when=when).done else 0


def enter(world: World, store: Store, name: str, fenced: bool) -> None:
    number = acquire(store, name)
    book = store.get("book") if number else None
    if book is None or book.outcome is Outcome.UNKNOWN:
        return
    old = json.loads(book.body) if book.done else {"number": 0, "entries": []}
    if fenced and old["number"] > number:
        return
    body = json.dumps({"number": number, "entries": [*old["entries"], name]}).encode()
    unchanged = Matches(book.info.etag) if book.info else ABSENT
    if store.put("book", body, when=unchanged if fenced else ANYTHING).done:
        world.note("entered", name)


def nothing_lost(view: View) -> str | None:
    book = json.loads(view.get("book") or b'{"entries": []}')
    lost = sorted(set(view.notes("entered")) - set(book["entries"]))
    return f"the entry of {' and '.join(lost)} was acknowledged and is gone" if lost else None


def entering(world: World, fenced: bool) -> None:
    for name in ("ann", "bob", "cid"):
        world.spawn(enter, world, world.store(), name, fenced, name=name)
    world.always("no entry is lost", nothing_lost)


def mutant_lease_without_fence(world: World) -> None:
    entering(world, fenced=False)


def fixed(world: World) -> None:
    entering(world, fenced=True)
