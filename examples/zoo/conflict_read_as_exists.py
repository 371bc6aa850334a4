"""Everybody believes that somebody holds the lock, and nobody does.

Counterexample (arrow-rs-object-store#852, opendal#6741): a create-only write is answered 409 when another
request at the same key is under way. It means that nothing was written, try again. Mapped to the same error
as 412 it reads "already exists", and every contender leaves the work to a holder that does not exist.

Fixed: 409 proves nothing and is asked again; only what stands at the key says who holds it, and that also
tells one's own write after a lost reply. Why that is enough: the key is created once and never deleted.

Tempting, but incorrect: after a 409 look at the key, and when it is not there, write it. The contenders all
look before any of them writes, and the last one takes the lock from those who have begun.
"""

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError, HTTPClientError

from fencepost.examples.storage import ONCE, with_boto3, with_store
from fencepost.impl.store import ABSENT, ANYTHING, Outcome, Store
from fencepost.sim.world import View, World
from fencepost.testing import audit

BUCKET, LOCK = "zoo", "jobs/nightly.lock"
KEY = f"{BUCKET}/{LOCK}"


# On the store interface.


def holder(store: Store) -> str | None:
    while (found := store.get(KEY)).outcome is Outcome.UNKNOWN:
        pass
    return found.body.decode() if found.done else None


def claim(store: Store, who: str) -> bool:
    """Whether the job is ours to run."""
    while True:
        outcome = store.put(KEY, who.encode(), when=ABSENT).outcome
        if outcome in (Outcome.EXISTS, Outcome.CONFLICT):
            return holder(store) == who
        if outcome is Outcome.DONE:
            return True


def claim_by_looking(store: Store, who: str) -> bool:
    while True:
        outcome = store.put(KEY, who.encode(), when=ABSENT).outcome
        if outcome is Outcome.CONFLICT and holder(store) is None:
            outcome = store.put(KEY, who.encode(), when=ANYTHING).outcome
        if outcome is Outcome.EXISTS:
            return holder(store) == who
        if outcome is Outcome.DONE:
            return True


def claim_until_known(store: Store, who: str) -> bool:
    while True:
        if store.put(KEY, who.encode(), when=ABSENT).done:
            return True
        name = holder(store)
        if name is not None:
            return name == who


# On boto3.


def holder_s3(s3: Any) -> str | None:
    try:
        body: bytes = s3.get_object(Bucket=BUCKET, Key=LOCK)["Body"].read()
    except s3.exceptions.NoSuchKey:
        return None
    return body.decode()


def claim_s3(s3: Any, who: str) -> bool:
    try:
        s3.put_object(Bucket=BUCKET, Key=LOCK, Body=who, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict"):
            return holder_s3(s3) == who
        raise
    return True


def claim_s3_until_known(s3: Any, who: str) -> bool:
    while True:
        try:
            s3.put_object(Bucket=BUCKET, Key=LOCK, Body=who, IfNoneMatch="*")
            return True
        except HTTPClientError:
            pass
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise
        try:
            name = holder_s3(s3)
        except HTTPClientError:
            continue
        if name is not None:
            return name == who


# What must hold.


def run(world: World, store: Any, claim: Callable[[Any, str], bool], who: str) -> None:
    if claim(store, who):
        world.note("runs the job", who)


def one_runs(view: View) -> bool:
    return len(set(view.notes("runs the job"))) <= 1


def somebody_runs(view: View) -> str | None:
    if view.notes("runs the job"):
        return None
    return f"the lock names {view.get(KEY)!r}, and everybody has left the job to somebody else"


def _program(world: World, store: Any, claim: Callable[[Any, str], bool]) -> None:
    for who in ("ann", "bob"):
        world.spawn(run, world, store, claim, who, name=who)
    world.always("at most one runs the job", one_runs)
    world.finally_("somebody runs the job", somebody_runs)


refused = audit(conflict=2)
broken = refused(with_store(_program, claim))
fixed = refused(with_store(_program, claim_until_known))
tempting_look_and_write = refused(with_store(_program, claim_by_looking))
broken_boto3 = refused(with_boto3(_program, claim_s3))
fixed_boto3 = refused(with_boto3(_program, claim_s3_until_known, config=ONCE))
