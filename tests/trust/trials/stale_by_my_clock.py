"""A lock is stale when the reader's clock is 30 minutes past the writer's stamp.

This is borg#10077. `broken` must be violated with `skew=1`: a fast clock kills a healthy lock, and compaction
deletes chunks that are in use. The skew is learnt from the comparison; `broken_far` states an hour. `fixed`
looks at the store's clock too: the age of the lock is measured between two objects of the store.
"""

from storing import Lost, drop, known, load, put

from fencepost.impl.store import ABSENT

STALE = 30 * 60 * 10**9


def backup(world, store):
    put(store, "lock/ann", {"at": store.env.now_ns()}, ABSENT)
    world.note("holds", True)
    known(store.head, "chunk/1")
    if known(store.head, "lock/ann").done:
        world.note("holds", False)


def compact(world, store, both):
    put(store, "lock/bob", {"at": store.env.now_ns()}, ABSENT)
    for found in known(store.list, "lock/").objects:
        if found.key == "lock/bob":
            mine = found.modified_ns
    for found in known(store.list, "lock/").objects:
        if found.key == "lock/bob":
            continue
        stamp, _ = load(store, found.key, {"at": 0})
        stale = store.env.now_ns() - stamp["at"] > STALE
        if both:
            stale = stale and mine - found.modified_ns > STALE
        if stale:
            drop(store, found.key)
            world.note("killed", found.key)


def program(world, both, skew_s=None):
    if skew_s:
        world.configure(skew_s=skew_s)
    store = world.store()
    world.spawn(backup, world, store, name="ann", restart=False, may_raise=(Lost,))
    world.spawn(compact, world, store, both, name="bob", restart=False, may_raise=(Lost,))
    world.always("a fresh lock is not killed", lambda view: not view.notes("killed"))


def broken(world):
    program(world, False)


def broken_far(world):
    program(world, False, 3600)


def fixed(world):
    program(world, True, 3600)
