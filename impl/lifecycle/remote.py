"""A bucket of an object server on another machine: driven by its log, deleted from under its guard.

The server answers each request as it would a worker on its own machine. So times are exact, an event is seen
once it is settled, and no deletion can hit what was not looked at. The rules are those of the bucket.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fencepost.impl.lifecycle import wire
from fencepost.impl.lifecycle.expiration import DueGuard
from fencepost.impl.lifecycle.log import Event
from fencepost.impl.lifecycle.policies import Structures
from fencepost.impl.lifecycle.policy import Rule, What, rules_of
from fencepost.impl.lifecycle.target import (
    WHOLE,
    Guard,
    Listed,
    Needs,
    Result,
    Standing,
    Unavailable,
    Unworkable,
    Wanted,
)
from fencepost.impl.objects.lifecycle_rules import read_rules
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.s3.details import Details, NoAnswer
from fencepost.impl.store.s3.extension import NoReply, NotOffered, call
from fencepost.impl.store.s3.store import S3Store

SERVER = "Fencepost"
"""In the header `Server` of an object server."""


class Server:
    """The calls about one bucket, each through the first of several addresses that answers."""

    def __init__(self, stores: Sequence[S3Store], bucket: str) -> None:
        self._stores = list(stores)
        self._bucket = bucket

    def offers_log(self) -> bool:
        """Return True if it is an object server of ours, which lets the caller read its log.

        No other server gets a request that it does not know.
        """
        try:
            if SERVER not in Details(self._stores[0], self._bucket).server():
                return False
            self._call("log", {"after": "", "limit": 0})
        except NotOffered:
            return False
        except NoAnswer as error:
            raise Unavailable(str(error)) from None
        return True

    def ask(self, operation: str, **fields: Any) -> wire.Fields:
        try:
            found = self._call(operation, fields)
        except NotOffered as error:
            raise Unavailable(str(error)) from None
        if "unworkable" in found:
            raise Unworkable(str(found["unworkable"]))
        if "unavailable" in found:
            raise Unavailable(str(found["unavailable"]))
        return found

    def _call(self, operation: str, fields: wire.Fields) -> wire.Fields:
        failed: NoReply | None = None
        for store in list(self._stores):
            try:
                return call(store, wire.path_of(self._bucket, operation), fields)
            except NoReply as error:
                failed = error
                # The next call begins with another address. Threads share the list: it is replaced whole.
                self._stores = [*(one for one in self._stores if one is not store), store]
        raise Unavailable(str(failed))


class RemoteTarget:
    def __init__(self, server: Server, bucket: str) -> None:
        self._server = server
        self._bucket = bucket

    def buckets(self) -> Sequence[str]:
        return [self._bucket]

    def rules(self, bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        return rules_of(self.structures())

    def structures(self) -> Structures:
        text = str(self._server.ask("rules")["text"])
        try:
            return read_rules(text) if text else []
        except (ValueError, KeyError, TypeError) as error:
            raise Unworkable(f"the rules of {self._bucket} cannot be read: {error!r}") from None

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        return wire.standing_of(self._server.ask("standing", key=key, needs=asdict(needs)))

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        found = self._server.ask("page", after=after, prefix=prefix, uploads=uploads)
        return [wire.listed_of(row) for row in found["listed"]]

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        key = self._server.ask("first", after=after, prefix=prefix)["key"]
        return None if key is None else str(key)

    def delete_versions(
        self, bucket: str, wanted: Sequence[Wanted], after: str, prefix: str = ""
    ) -> Sequence[Result | None]:
        return [None] * len(wanted)  # each under the lock of its key

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        """The guard's conditions travel with the request; the server evaluates them under the key's lock."""
        assert isinstance(guard, DueGuard), "a deletion for a rule has its guard"
        asked = self._server.ask(
            "expire",
            key=key,
            what=what.value,
            action=str(guard.action.key),
            looked_at=wire.live_to(guard.looked_at),
            day_ns=guard.day_ns,
        )
        return Result(asked["result"])


class RemoteLog:
    """The server's log, reduced to one bucket."""

    has_uploads = True
    SHARD = "changes"

    def __init__(self, server: Server, bucket: str, reader: Callable[[], str]) -> None:
        """`reader` returns the name under which the server keeps events for this lifecycle."""
        self._server = server
        self._bucket = bucket
        self._reader = reader
        self._held: int | None = -1
        self._retention_ns: int | None = None
        self._is_given = False

    @property
    def retention_ns(self) -> int | None:
        if self._is_given:
            return self._retention_ns
        found = self._state()["retention_ns"]
        return None if found is None else int(found)

    @retention_ns.setter
    def retention_ns(self, ns: int | None) -> None:
        self._retention_ns, self._is_given = ns, True

    def _state(self) -> wire.Fields:
        return self._server.ask("log", after="", limit=0)

    def shards(self) -> Sequence[str]:
        return [self.SHARD]

    def begins_ns(self, shard: str) -> int:
        return int(self._state()["begins_ns"])

    def ends(self, shard: str) -> str | None:
        return None

    def settled_ns(self, shard: str) -> int:
        return int(self._state()["settled_ns"])

    def events(self, shard: str, after: str, until_ns: int) -> Iterator[Event]:
        while True:
            found = self._server.ask("log", after=after, limit=wire.EVENTS_MAX)
            for row in found["events"]:
                event = wire.event_of(self._bucket, row)
                if event.ts_ns > until_ns:
                    return
                yield event
            if found["is_whole"] or found["next"] <= after:
                return
            after = str(found["next"])

    def hold(self, needed: Mapping[str, int]) -> None:
        after_ns = min(needed.values(), default=None)
        if after_ns != self._held:
            self._server.ask("hold", reader=self._reader(), after_ns=after_ns)
            self._held = after_ns


class RemotePolicies:
    """The rules of the bucket, read through the server, put as any client puts them."""

    def __init__(self, target: RemoteTarget, details: Details, bucket: str) -> None:
        self._target = target
        self._details = details
        self._bucket = bucket

    def get(self, bucket: str) -> Structures:
        self._require(bucket)
        return self._target.structures()

    def put(self, bucket: str, rules: Structures) -> None:
        self._require(bucket)
        self._details.put_lifecycle(rules)

    def revision(self) -> object:
        try:
            return str(self._target.structures())
        except (Unavailable, Unworkable):
            return None

    def _require(self, bucket: str) -> None:
        if bucket != self._bucket:
            raise Unusable(f"this is the bucket {self._bucket}, not {bucket}")
