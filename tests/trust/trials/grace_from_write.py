"""A collector's grace period begins when an object was written, not when it became garbage.

This is loonfs#529 and baerly-storage#79. `broken` must be violated: an old segment is replaced and collected
at once, and a reader that was quick fails. One pause lets the segment grow old. `broken_mark` counts from a
mark that the collector writes when it first lists the garbage. It must be violated too: a segment that the
head does not name yet is marked, and deleted when the head names it. In `fixed` a deletion first changes the
head, so that the write of a slow folder is refused.
"""

from storing import Lost, drop, dump, keys, known, load, put

from fencepost.impl.store import ABSENT, ANYTHING, Matches

GRACE = 60 * 10**9


def read(world, store):
    began = store.env.monotonic_ns()
    head, _ = load(store, "head")[0]
    found = known(store.get, head).done
    if not found and store.env.monotonic_ns() - began < GRACE:
        world.note("failed", head)


def fold(store):
    (_, deletions), etag = load(store, "head")
    known(store.put, "segment/2", b"", when=ANYTHING)
    put(store, "head", ["segment/2", deletions], Matches(etag))


def collect_by_age(store):
    now = store.env.now_ns()
    head, _ = load(store, "head")[0]
    for found in known(store.list, "segment/").objects:
        if found.key != head and now - found.modified_ns > GRACE:
            drop(store, found.key)


def collect_by_mark(store, fences=False):
    for _ in range(2):
        (head, deletions), etag = load(store, "head")
        for key in keys(store, "segment/"):
            if key == head:
                continue
            mark, _ = load(store, f"mark/{key}")
            now = store.env.now_ns()
            if mark is None:
                known(store.put, f"mark/{key}", dump(now), when=ABSENT)
            elif now - mark > 2 * GRACE and (
                not fences or put(store, "head", [head, deletions + 1], Matches(etag))
            ):
                drop(store, key)
        store.env.sleep(3 * GRACE / 10**9)


def program(world, collect, *options):
    store = world.store()
    known(store.put, "segment/1", b"", when=ABSENT)
    put(store, "head", ["segment/1", 0], ABSENT)
    world.spawn(read, world, store, name="reader", restart=False)
    world.spawn(fold, store, name="folder", restart=False, may_raise=(Lost,))
    world.spawn(collect, store, *options, name="collector", restart=False, may_raise=(Lost,))
    world.always("a quick reader does not fail", lambda view: not view.notes("failed"))


def broken(world):
    program(world, collect_by_age)


def broken_mark(world):
    program(world, collect_by_mark)


def fixed(world):
    program(world, collect_by_mark, True)
