"""A writer dies between its fragment and the manifest, and the compactor finds the collection dirty for ever.

This is chroma#5476. `broken` must be violated by a lasso: a crash, after which the compactor's loop goes
round without an end. `fixed` adds the fragment to the manifest itself.
"""

from storing import Lost, drop, dump, keys, known, load, put

from fencepost.impl.store import ABSENT, ANYTHING, Matches


def write(store):
    known(store.put, "fragment/1", b"", when=ANYTHING)
    manifest, etag = load(store, "manifest")
    put(store, "manifest", [*manifest, "fragment/1"], Matches(etag))


def compact(store, repair):
    while keys(store, "dirty/"):
        manifest, etag = load(store, "manifest")
        if "fragment/1" in manifest:
            drop(store, "dirty/1")
        elif repair:
            if known(store.head, "fragment/1").done:
                store.put("manifest", dump([*manifest, "fragment/1"]), when=Matches(etag))
            else:
                drop(store, "dirty/1")


def program(world, repair):
    store = world.store()
    put(store, "manifest", [], ABSENT)
    known(store.put, "dirty/1", b"", when=ABSENT)  # a writer marks the collection first; here it has
    world.spawn(write, store, name="writer", restart=False, may_raise=(Lost,))
    world.spawn(compact, store, repair, name="compactor")
    world.eventually("the collection is clean", lambda view: not view.keys("dirty/"))


def broken(world):
    program(world, False)


def fixed(world):
    program(world, True)
