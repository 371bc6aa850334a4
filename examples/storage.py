"""The thin layer over a bucket that most projects write first, once on our interface and once on boto3.

The larger programs of `fencepost.examples.zoo` use it. It hides nothing that matters: what is not known is
raised as `Unknown`, and the SDK does not retry by itself, because the code that retries must know what a
second answer means.
"""

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from botocore.config import Config  # noqa: TID251 - the SDK, as users use it
from botocore.exceptions import ClientError, HTTPClientError  # noqa: TID251 - the same

from fencepost.sim.world import World
from fencepost.store import ABSENT, ANYTHING, Matches, Outcome, Reply, Store

BUCKET = "zoo"


class Unknown(Exception):
    """The reply was lost: a write may have happened, or may still."""


class Conflict(Exception):
    """Another request at this key was under way (409): nothing was written."""


class Storage:
    """A bucket through the store interface."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, key: str) -> tuple[bytes, str] | None:
        """Body and ETag; None when there is no such object."""
        reply = _known(self._store.get(f"{BUCKET}/{key}"))
        return (reply.body, reply.info.etag) if reply.info is not None else None

    def create(self, key: str, body: bytes, put_id: str = "") -> bool:
        """False if an object exists there. An identifier of the write goes beside the body."""
        metadata = {"put-id": put_id} if put_id else {}
        return bool(_known(self._store.put(f"{BUCKET}/{key}", body, when=ABSENT, metadata=metadata)).done)

    def put_id(self, key: str) -> str | None:
        info = _known(self._store.head(f"{BUCKET}/{key}")).info
        return None if info is None else info.metadata.get("put-id")

    def new_id(self) -> str:
        return self._store.env.new_id()

    def replace(self, key: str, body: bytes, etag: str) -> bool:
        """False when it is another object by now, or gone."""
        return bool(_known(self._store.put(f"{BUCKET}/{key}", body, when=Matches(etag))).done)

    def put(self, key: str, body: bytes) -> None:
        _known(self._store.put(f"{BUCKET}/{key}", body, when=ANYTHING))

    def delete(self, key: str) -> None:
        _known(self._store.delete(f"{BUCKET}/{key}", when=ANYTHING))

    def delete_if(self, key: str, etag: str) -> bool:
        return bool(_known(self._store.delete(f"{BUCKET}/{key}", when=Matches(etag))).done)

    def keys(self, prefix: str) -> list[str]:
        listed = _known(self._store.list(f"{BUCKET}/{prefix}"))
        return [found.key.removeprefix(f"{BUCKET}/") for found in listed.objects]


def _known(reply: Reply) -> Any:
    if reply.outcome is Outcome.UNKNOWN:
        raise Unknown(reply.detail)
    if reply.outcome is Outcome.CONFLICT:
        raise Conflict(reply.detail)
    return reply


class StorageS3:
    """The same on boto3."""

    def __init__(self, s3: Any) -> None:
        self._s3 = s3

    def _ask(self, operation: str, **parameters: Any) -> dict[str, Any] | None:
        """The answer; None when a condition does not hold or there is no such object."""
        try:
            answer: dict[str, Any] = getattr(self._s3, operation)(Bucket=BUCKET, **parameters)
        except HTTPClientError as lost:
            raise Unknown from lost
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "ConditionalRequestConflict":
                raise Conflict from error
            if code in ("PreconditionFailed", "NoSuchKey", "404"):
                return None
            raise
        return answer

    def get(self, key: str) -> tuple[bytes, str] | None:
        found = self._ask("get_object", Key=key)
        return None if found is None else (found["Body"].read(), found["ETag"])

    def create(self, key: str, body: bytes, put_id: str = "") -> bool:
        metadata = {"Metadata": {"put-id": put_id}} if put_id else {}
        return self._ask("put_object", Key=key, Body=body, IfNoneMatch="*", **metadata) is not None

    def put_id(self, key: str) -> str | None:
        found = self._ask("head_object", Key=key)
        return None if found is None else found["Metadata"].get("put-id")

    def new_id(self) -> str:
        return uuid.uuid4().hex  # noqa: TID251 - as users make one

    def replace(self, key: str, body: bytes, etag: str) -> bool:
        return self._ask("put_object", Key=key, Body=body, IfMatch=etag) is not None

    def put(self, key: str, body: bytes) -> None:
        self._ask("put_object", Key=key, Body=body)

    def delete(self, key: str) -> None:
        self._ask("delete_object", Key=key)

    def delete_if(self, key: str, etag: str) -> bool:
        return self._ask("delete_object", Key=key, IfMatch=etag) is not None

    def keys(self, prefix: str) -> list[str]:
        listed = self._ask("list_objects_v2", Prefix=prefix) or {}
        return [found["Key"] for found in listed.get("Contents", [])]


AnyStorage = Storage | StorageS3
Program = Callable[[World], None]
ONCE = Config(retries={"total_max_attempts": 1})
"""One attempt: the programs retry by themselves where a second answer has a clear meaning."""


def with_store(program: Callable[..., None], *calls: Any) -> Program:
    """`program` with these functions, on the store interface itself."""
    return _bound(program, lambda world: world.store(), calls)


def with_boto3(program: Callable[..., None], *calls: Any, **client: Any) -> Program:
    """The same on a client of boto3."""
    return _bound(program, partial(_client, client), calls)


def on_both(program: Callable[..., None], *calls: Any) -> tuple[Program, Program]:
    """The same on `Storage` and on `StorageS3`."""
    return (
        _bound(program, lambda world: Storage(world.store()), calls),
        _bound(program, lambda world: StorageS3(_client({"config": ONCE}, world)), calls),
    )


def _bound(program: Callable[..., None], opened: Callable[[World], Any], calls: tuple[Any, ...]) -> Program:
    def bound(world: World) -> None:
        program(world, opened(world), *calls)

    bound.__module__ = program.__module__
    return bound


def _client(options: dict[str, Any], world: World) -> Any:
    world.boto3_bucket(BUCKET)
    return world.boto3_client("s3", **options)
