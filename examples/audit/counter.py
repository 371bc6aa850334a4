"""A counter that several writers increment, each exactly once.

Broken: read, add one, write back. Two writers read the same value, and one increment is lost.
Fixed: write only if no other write came since (compare and swap), and keep in the body who has been counted.
The name makes a lost reply harmless: a process that cannot know whether its write landed looks for its name
before it tries again, and so does a process that crashed and starts anew.
"""

import json

from fencepost.sim.world import View, World
from fencepost.store import ABSENT, ANYTHING, Matches, Outcome, Store


def add_one_blindly(store: Store, name: str) -> None:
    reply = store.get("counter")
    if reply.outcome is Outcome.UNKNOWN:
        reply = store.get("counter")
    counted = json.loads(reply.body) if reply.done else []
    store.put("counter", json.dumps([*counted, name]).encode(), when=ANYTHING)


def add_one(store: Store, name: str) -> None:
    while True:
        reply = store.get("counter")
        if reply.outcome is Outcome.UNKNOWN:
            continue
        counted = json.loads(reply.body) if reply.done else []
        if name in counted:
            return
        when = Matches(reply.info.etag) if reply.info else ABSENT
        if store.put("counter", json.dumps([*counted, name]).encode(), when=when).done:
            return


def everybody_counted_once(view: View) -> str | None:
    counted = json.loads(view.get("counter") or b"[]")
    names = sorted(view.states())
    return None if sorted(counted) == names else f"counted {counted}, expected each of {names} once"


def mutant_read_modify_write(world: World) -> None:
    for name in ("ann", "bob", "cid"):
        world.spawn(add_one_blindly, world.store(), name, name=name)
    world.finally_("everybody is counted once", everybody_counted_once)


def fixed(world: World) -> None:
    for name in ("ann", "bob", "cid"):
        world.spawn(add_one, world.store(), name, name=name)
    world.finally_("everybody is counted once", everybody_counted_once)
