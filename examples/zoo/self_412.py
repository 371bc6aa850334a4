"""A lock file that its own creator takes for somebody else's.

Counterexample (opentofu#4405, git-remote-s3#66, aws-sdk-java-v2#6580): create the lock if it is absent. The
request is applied and the reply lost; it is sent again and meets the lock that it has just made. "Exists",
so the lock is somebody else's: the run gives up, and no process is left to release it.

Fixed: the lock carries a token that only this attempt knows. On "exists" the writer reads the lock, and the
token says whose it is. The release names the ETag, so it can be repeated without hurting the next one. Why
that is enough: a lock with our token was created by us, and no process deletes a lock of another ETag.
A lock that we have read to be ours stays ours until we release it.

Tempting, but incorrect: a token that says which machine it is, so that a second run can take over what the
first left behind. Two runs on one machine are then inside at the same time.
"""

import json
import uuid
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from fencepost.sim.world import View, World
from fencepost.store import ABSENT, Matches, Outcome, Store

BUCKET, LOCK = "zoo", "state.tflock"
KEY = f"{BUCKET}/{LOCK}"


# On the store interface.


def info(token: str, who: str) -> bytes:
    return json.dumps({"ID": token, "Who": who}).encode()


def lock(store: Store, token: str, who: str) -> str | None:
    """The ETag of our lock; None when it is held."""
    while True:
        reply = store.put(KEY, info(token, who), when=ABSENT)
        if reply.outcome is Outcome.EXISTS:
            return None
        if reply.done:
            return reply.etag


def lock_knowing_oneself(store: Store, token: str, who: str) -> str | None:
    while True:
        reply = store.put(KEY, info(token, who), when=ABSENT)
        if reply.done:
            return reply.etag
        if reply.outcome is Outcome.EXISTS:
            held = store.get(KEY)
            if held.info is not None:
                return held.info.etag if json.loads(held.body)["ID"] == token else None


def unlock(store: Store, etag: str) -> None:
    while store.delete(KEY, when=Matches(etag)).outcome is Outcome.UNKNOWN:
        pass


# On boto3.


def lock_s3(s3: Any, token: str, who: str) -> str | None:
    try:
        put = s3.put_object(Bucket=BUCKET, Key=LOCK, Body=info(token, who), IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] == "PreconditionFailed":
            return None
        raise
    return str(put["ETag"])


def lock_s3_knowing_oneself(s3: Any, token: str, who: str) -> str | None:
    while True:
        try:
            put = s3.put_object(Bucket=BUCKET, Key=LOCK, Body=info(token, who), IfNoneMatch="*")
            return str(put["ETag"])
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise
        try:
            held = s3.get_object(Bucket=BUCKET, Key=LOCK)
        except s3.exceptions.NoSuchKey:
            continue
        return str(held["ETag"]) if json.load(held["Body"])["ID"] == token else None


def unlock_s3(s3: Any, etag: str) -> None:
    try:
        s3.delete_object(Bucket=BUCKET, Key=LOCK, IfMatch=etag)
    except ClientError as error:
        # The SDK has repeated the request after a lost reply: it is gone, or another's by now.
        if error.response["Error"]["Code"] not in ("NoSuchKey", "PreconditionFailed"):
            raise


# The runs, on either.

Take = Callable[[Any, str, str], str | None]
Unlock = Callable[[Any, str], None]


def apply(world: World, store: Any, token: str, take: Take, unlock: Unlock) -> str:
    """A run, with a token of its own unless one is given."""
    etag = take(store, token or str(uuid.uuid4()), world.me)
    if etag is None:
        return "Error acquiring the state lock"
    world.note("inside", +1)
    world.note("inside", -1)
    unlock(store, etag)
    return "Apply complete!"


# Properties.


def one_at_a_time(view: View) -> bool:
    return sum(view.notes("inside")) <= 1


def nothing_left(view: View) -> str | None:
    """A run that crashed leaves its lock to a person with `force-unlock`; no other may."""
    left = view.get(KEY)
    who = json.loads(left)["Who"] if left is not None else None
    if who is None or view.state(who) == "down":
        return None
    return f"the lock of {who} is there, and {who} has ended"


def _program(
    world: World, open_store: Callable[[], Any], take: Take, unlock: Unlock, tokens: tuple[str, str]
) -> None:
    for name, token in zip(("ann", "bob"), tokens, strict=True):
        world.spawn(apply, world, open_store(), token, take, unlock, name=name, restart=False)
    world.always("one run at a time", one_at_a_time)
    world.finally_("no lock is left behind", nothing_left)


def _on_store(world: World, take: Take, tokens: tuple[str, str] = ("run 1", "run 2")) -> None:
    _program(world, world.store, take, unlock, tokens)


def _on_boto3(world: World, take: Take) -> None:
    world.boto3_bucket(BUCKET)
    _program(world, world.boto3_client, take, unlock_s3, ("", ""))


def broken(world: World) -> None:
    _on_store(world, lock)


def fixed(world: World) -> None:
    _on_store(world, lock_knowing_oneself)


def tempting_token_of_the_machine(world: World) -> None:
    _on_store(world, lock_knowing_oneself, ("build-7", "build-7"))


def broken_boto3(world: World) -> None:
    _on_boto3(world, lock_s3)


def fixed_boto3(world: World) -> None:
    _on_boto3(world, lock_s3_knowing_oneself)
