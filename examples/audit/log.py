"""A log of numbered slots; every writer appends one record by creating the next free slot.

Broken: "exists" always means that somebody else has the slot, so go on to the next. After a lost reply the
slot may hold one's own record, and it is written twice.
Fixed: look who is in the slot before going on.
"""

from fencepost.sim.world import View, World
from fencepost.store import ABSENT, Outcome, Store


def append_blindly(store: Store, name: str) -> None:
    slot = 0
    while True:
        outcome = store.put(f"log/{slot}", name.encode(), when=ABSENT).outcome
        if outcome is Outcome.DONE:
            return
        if outcome is Outcome.EXISTS:
            slot += 1


def append(store: Store, name: str) -> None:
    slot = 0
    while True:
        reply = store.put(f"log/{slot}", name.encode(), when=ABSENT)
        if reply.done:
            return
        if reply.outcome is Outcome.EXISTS:
            standing = store.get(f"log/{slot}")
            if standing.done and standing.body == name.encode():
                return
            if standing.done:
                slot += 1


def each_once(view: View) -> str | None:
    records = [body.decode() for body in view.contents("log/").values()]
    twice = sorted({record for record in records if records.count(record) > 1})
    missing = sorted(set(view.states()) - set(records))
    if twice:
        return f"the log is {records}: {' and '.join(twice)} twice"
    return f"the log is {records}: {' and '.join(missing)} missing" if missing else None


def mutant_own_record_taken_for_anothers(world: World) -> None:
    for name in ("ann", "bob", "cid"):
        world.spawn(append_blindly, world.store(), name, name=name)
    world.finally_("every record is there once", each_once)


def fixed(world: World) -> None:
    for name in ("ann", "bob", "cid"):
        world.spawn(append, world.store(), name, name=name)
    world.finally_("every record is there once", each_once)
