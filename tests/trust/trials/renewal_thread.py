"""A renewal thread that ends when its lock is released writes the lock back.

It must be violated. No fault is needed: the thread reads, the process deletes, the thread writes.
"""

import threading
import time

from fencepost.impl.store import ANYTHING


def serve(store, pause):
    held = [True]

    def renew():
        while held[0]:
            if store.get("lock").done:
                store.put("lock", b"renewed", when=ANYTHING)
            time.sleep(pause)

    store.put("lock", b"mine", when=ANYTHING)
    thread = threading.Thread(target=renew)
    thread.start()
    store.put("work", b"done", when=ANYTHING)
    held[0] = False
    store.delete("lock", when=ANYTHING)
    thread.join()
    return "released"


def no_zombie(view):
    return view.result("server") != "released" or view.get("lock") is None


def broken(world, pause=10):
    world.spawn(serve, world.store(), pause, name="server", restart=False)
    world.finally_("no zombie lock", no_zombie)
