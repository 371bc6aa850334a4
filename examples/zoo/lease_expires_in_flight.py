"""A commit that somebody else has finished is committed a second time.

Counterexample (delta-rs#268, found by a model in #540): a writer takes a lock with a lease and puts into
the lock what it is about to do. Its write is slow, the lease runs out, and the next holder finishes what
the lock says, as it must. The first one's write then finds that the version exists; "exists" is a lost
race, so it takes the next version and commits the same rows again.

Fixed: read the version that exists; if it holds our own commit, we are done. Why that is enough: versions
are created only if absent, by their owner or by the process that finishes its work, and a commit carries
the name of its owner. So each commit looks at every version below its own before it takes a new one.

Tempting, but incorrect: look whether the lease still holds just before the write.
"""

import json
import time
from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Storage, Unknown, on_both
from fencepost.sim.world import View, World

LOCK = "lock"
LEASE_S = 10


class NoLock(Exception):
    """Another process holds the lock; try again later."""


def version_name(version: int) -> str:
    return f"_delta_log/{version:04}.json"


def acquire(storage: AnyStorage, who: str, now: float) -> tuple[int, float]:
    """The version to write and the end of our lease; what the last holder left undone is finished first."""
    found = storage.get(LOCK)
    assert found is not None
    lock, etag = json.loads(found[0]), found[1]
    if lock["until"] > now:
        raise NoLock
    if lock["who"]:
        storage.create(version_name(lock["version"]), lock["who"].encode())
    mine = {"who": who, "version": lock["version"] + 1, "until": now + LEASE_S}
    if not storage.replace(LOCK, json.dumps(mine).encode(), etag):
        raise NoLock
    return mine["version"], mine["until"]


Clock = Callable[[], float]


def write(storage: AnyStorage, who: str, version: int, _until: float, _now: Clock) -> None:
    while not storage.create(version_name(version), who.encode()):
        version += 1


def write_within_lease(storage: AnyStorage, who: str, version: int, until: float, now: Clock) -> None:
    if now() >= until:
        raise NoLock
    write(storage, who, version, until, now)


def write_unless_there(storage: AnyStorage, who: str, version: int, _until: float, _now: Clock) -> None:
    while not storage.create(version_name(version), who.encode()):
        standing = storage.get(version_name(version))
        if standing is not None and standing[0] == who.encode():
            return
        version += 1


def commit(world: World, storage: AnyStorage, write: Callable[..., None], now: Clock) -> None:
    version, until = acquire(storage, world.me, now())
    write(storage, world.me, version, until, now)


# Properties.


def once_each(view: View) -> str | None:
    commits = [body.decode() for body in view.contents("zoo/_delta_log/").values()]
    twice = sorted({who for who in commits if commits.count(who) > 1})
    return f"the log holds {commits}: {' and '.join(twice)} twice" if twice else None


def _program(world: World, storage: AnyStorage, write: Callable[..., None]) -> None:
    env = world.env
    now: Clock = (lambda: env.now_ns() / 1e9) if isinstance(storage, Storage) else (lambda: time.time())
    storage.put(LOCK, json.dumps({"who": "", "version": 0, "until": 0}).encode())
    failures = (NoLock, Unknown)
    for name in ("ann", "bob"):
        world.spawn(commit, world, storage, write, now, name=name, restart=False, may_raise=failures)
    world.always("no commit is in the log twice", once_each)
    world.sometimes("both commit", lambda view: len(view.contents("zoo/_delta_log/")) == 2)


broken, broken_boto3 = on_both(_program, write)
fixed, fixed_boto3 = on_both(_program, write_unless_there)
tempting_check_lease, _ = on_both(_program, write_within_lease)
