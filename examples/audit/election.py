"""Elect a leader: the creator of the key leads.

Broken, check then create: look whether the key is there, and write it when it is not. Two processes look
before either writes, and both lead.
Broken, own write taken as a rival's: the reply to the create is lost, the second try is answered "exists",
and the winner believes that somebody else won. There is no leader.
Fixed: create only if absent; whatever the reply, the key says who leads.
"""

from fencepost.sim.world import View, World
from fencepost.store import ABSENT, ANYTHING, Outcome, Store


def elect_by_looking_first(world: World, store: Store, name: str) -> None:
    if (
        store.head("leader").outcome is Outcome.MISSING
        and store.put("leader", name.encode(), when=ANYTHING).done
    ):
        world.note("leads", name)


def elect_by_retrying(world: World, store: Store, name: str) -> None:
    while True:
        outcome = store.put("leader", name.encode(), when=ABSENT).outcome
        if outcome is Outcome.DONE:
            world.note("leads", name)
        if outcome in (Outcome.DONE, Outcome.EXISTS):
            return


def elect(world: World, store: Store, name: str) -> None:
    store.put("leader", name.encode(), when=ABSENT)
    while True:
        leader = store.get("leader")
        if leader.outcome is Outcome.MISSING:
            store.put("leader", name.encode(), when=ABSENT)
        elif leader.done:
            break
    if leader.body == name.encode():
        world.note("leads", name)


def at_most_one(view: View) -> str | None:
    leaders = set(view.notes("leads"))
    return None if len(leaders) <= 1 else f"{' and '.join(sorted(leaders))} both lead"


def somebody(view: View) -> str | None:
    return None if view.notes("leads") else "nobody leads, and the key is taken"


def promises(world: World) -> None:
    world.always("at most one leads", at_most_one)
    world.finally_("somebody leads", somebody)


def mutant_check_then_create(world: World) -> None:
    for name in ("ann", "bob", "cid"):
        world.spawn(elect_by_looking_first, world, world.store(), name, name=name)
    world.always("at most one leads", at_most_one)


def mutant_own_write_taken_as_a_loss(world: World) -> None:
    for name in ("ann", "bob", "cid"):
        world.spawn(elect_by_retrying, world, world.store(), name, name=name)
    promises(world)


def fixed(world: World) -> None:
    for name in ("ann", "bob", "cid"):
        world.spawn(elect, world, world.store(), name, name=name)
    promises(world)
