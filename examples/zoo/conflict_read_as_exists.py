"""Every contender believes that another one holds the lock, and none does.

Counterexample (arrow-rs-object-store#852, opendal#6741): a create-only write is answered 409 when another
request at the same key is under way. It means that nothing was written, try again. Mapped to the same error
as 412 it reads "already exists", and every contender leaves the work to a holder that does not exist.

Fixed: 409 proves nothing, so the write is repeated. Only the content of the key names the holder, and it also
identifies one's own write after a lost reply. Why that is enough: the key is created once and never deleted.

Tempting, but incorrect: after a 409 look at the key, and when it is not there, write it. The contenders all
look before any of them writes, and the last one takes the lock from those who have begun.
"""

from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Conflict, Unknown, on_both
from fencepost.sim.world import View, World
from fencepost.testing import audit

LOCK = "jobs/nightly.lock"


def holder(storage: AnyStorage) -> str | None:
    found = storage.get(LOCK)
    return None if found is None else found[0].decode()


def claim(storage: AnyStorage, who: str) -> bool:
    """Return True if the job is ours to run."""
    try:
        created = storage.create(LOCK, who.encode())
    except Conflict:
        created = False
    return created or holder(storage) == who


def claim_by_looking(storage: AnyStorage, who: str) -> bool:
    while True:
        try:
            return storage.create(LOCK, who.encode()) or holder(storage) == who
        except Conflict:
            if holder(storage) is None:
                storage.put(LOCK, who.encode())
                return True


def claim_until_known(storage: AnyStorage, who: str) -> bool:
    while True:
        try:
            if storage.create(LOCK, who.encode()):
                return True
        except Conflict:
            pass
        name = holder(storage)
        if name is not None:
            return name == who


Claim = Callable[[AnyStorage, str], bool]


def run(world: World, storage: AnyStorage, claim: Claim, who: str) -> None:
    while True:
        try:
            mine = claim(storage, who)
        except Unknown:
            continue
        if mine:
            world.note("runs the job", who)
        return


# Properties.


def one_runs(view: View) -> bool:
    return len(set(view.notes("runs the job"))) <= 1


def somebody_runs(view: View) -> str | None:
    if view.notes("runs the job"):
        return None
    return f"the lock names {view.get(f'zoo/{LOCK}')!r}, and everybody has left the job to somebody else"


def _program(world: World, storage: AnyStorage, claim: Claim) -> None:
    for who in ("ann", "bob"):
        world.spawn(run, world, storage, claim, who, name=who)
    world.always("at most one runs the job", one_runs)
    world.finally_("somebody runs the job", somebody_runs)


conflicting = audit(conflict=2)
broken, broken_boto3 = map(conflicting, on_both(_program, claim))
fixed, fixed_boto3 = map(conflicting, on_both(_program, claim_until_known))
tempting_look_and_write, _ = map(conflicting, on_both(_program, claim_by_looking))
