"""A waiter looks `tries` times for a lock to go away, and then breaks it.

It must be violated for every number of tries, also above the number of rounds after which a loop is held
back.
"""

from fencepost.impl.store import ANYTHING

BROKE = "broke a lock whose holder lives"


def waiter(world, store, tries):
    for _ in range(tries):
        if not store.head("lock").done:
            return
    world.note(BROKE)


def holder(store):
    store.put("work", b"", when=ANYTHING)
    store.delete("lock", when=ANYTHING)


def broken(world, tries=10):
    store = world.store()
    store.put("lock", b"holder", when=ANYTHING)
    world.spawn(waiter, world, store, tries, name="waiter", restart=False)
    world.spawn(holder, store, name="holder", restart=False)
    world.always("no lock is broken", lambda view: not view.notes(BROKE))
