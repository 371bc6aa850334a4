"""Items that cannot be worked on: how often each has failed, and the one at which its stream waits.

    lifecycle/v1/retries/STREAM.json            how often the item at the front of a stream has failed
    lifecycle/v1/blockers/STREAM.json           the item at which a stream waits for an operator
    lifecycle/v1/quarantine/STREAM/ITEM.json    an item that an operator gave up, and why

A stream has a position of its own: a cursor, the walk of a bucket, the pending list of an action. An item for
which the store does not answer is tried again in later passes, up to 30 times or for 4 hours. An item that
cannot be worked on at all is tried 5 times. Then it becomes a blocker. The count begins anew with every
success, with the blocker, and with everything that an operator does.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from fencepost.impl.lifecycle.documents import CURSORS, DAMAGED, FOLDER, Documents, Fields, named

WHOLE = ""
"""The name of an item that is everything in its stream: a bucket that cannot be listed, a damaged cursor."""
WALK = "walk/"
PENDING = "pending/"


class StreamKind(Enum):
    ORIGINAL = "original"
    """The events of a shard, behind the clock by a delay."""
    PREDICATE = "predicate"
    """The changes of tags and the removals of a shard, close behind the clock."""
    BOOTSTRAP = "bootstrap"
    """The walk of a bucket."""
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Stream:
    """By its key: that of a cursor, `walk/BUCKET` or `pending/ACTION`."""

    key: str

    @property
    def kind(self) -> StreamKind:
        if self.key.startswith(CURSORS):
            return StreamKind.PREDICATE if self.delay_ns is None else StreamKind.ORIGINAL
        return StreamKind.BOOTSTRAP if self.key.startswith(WALK) else StreamKind.PENDING

    @property
    def delay_ns(self) -> int | None:
        """Of a cursor; None close behind the clock."""
        parts = self.key.removeprefix(CURSORS).split("/")
        return int(parts[1]) if self.key.startswith(CURSORS) and parts[0] == "ages" else None

    @property
    def shard(self) -> str:
        """Of a cursor."""
        if not self.key.startswith(CURSORS):
            return ""
        return unquote(self.key.rpartition("/")[2].removesuffix(".json"))


@dataclass(frozen=True, slots=True)
class Item:
    """An event, key or record that a stream could not work on."""

    name: str
    """Its position in the stream: of an event, a key of the bucket, a record."""
    bucket: str
    key: str


@dataclass(frozen=True, slots=True)
class Blocker:
    stream: Stream
    item: Item
    reason: str
    tries: int
    first_ns: int
    last_ns: int

    @property
    def id(self) -> str:
        """A short name for commands."""
        return hashlib.sha256(f"{self.stream.key} {self.item.name}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Count:
    """The failures of an item without a success in between, and the time of the first."""

    tries: int
    fatal: int
    """Of these, how often it could not be worked on at all."""
    since_ns: int


class Blockers(Documents):
    # Failures.

    def count(self, stream: str, item: Item, now_ns: int, *, fatal: bool, reason: str = "") -> Count:
        """Count a failure, durably; returns the count of this item."""

        def counted(found: Fields | None) -> Fields:
            known = found if found is not None and found["item"] == item.name else {}
            return {
                "stream": stream,
                "item": item.name,
                "bucket": item.bucket,
                "key": item.key,
                "reason": reason,
                "tries": known.get("tries", 0) + 1,
                "fatal": known.get("fatal", 0) + fatal,
                "since_ns": known.get("since_ns", now_ns),
                "last_ns": now_ns,
            }

        fields = self.change(named("retries", stream), counted)
        assert fields is not None
        return Count(fields["tries"], fields["fatal"], fields["since_ns"])

    def block(self, stream: str, item: Item, reason: str, count: Count, now_ns: int) -> None:
        """The blocker is durable when it returns."""
        blocker = Blocker(Stream(stream), item, reason, count.tries, count.since_ns, now_ns)
        self.create(named("blockers", stream), _encode(blocker))
        # If the count outlives its blocker, the next blocker comes sooner; nothing else changes.
        self.succeeded(stream)

    def failing(self, stream: str) -> str | None:
        """The item that failed last, and has not succeeded since."""
        fields = self.read(named("retries", stream))
        return None if fields is None else fields["item"]

    def retried(self) -> list[Blocker]:
        """The items that have failed and are tried again: each may become a blocker."""
        found = self._every("retries")
        return [_decode({**fields, "first_ns": fields["since_ns"]}) for fields in found if "reason" in fields]

    def succeeded(self, stream: str) -> None:
        self.remove(named("retries", stream))

    # Blockers.

    def of(self, stream: str) -> Blocker | None:
        fields = self.read(named("blockers", stream))
        return None if fields is None else _decode(fields)

    def every(self) -> list[Blocker]:
        return [_decode(fields) for fields in self._every("blockers")]

    def _every(self, folder: str) -> Iterator[Fields]:
        """The documents in a folder. One that is damaged is shown as what it is."""
        for key in self.keys(f"{FOLDER}{folder}/"):
            try:
                fields = self.read(key)
            except DAMAGED as error:
                stream = unquote(key.removeprefix(f"{FOLDER}{folder}/").removesuffix(".json"))
                numbers = dict.fromkeys(("tries", "since_ns", "first_ns", "last_ns"), 0)
                about = {"item": WHOLE, "bucket": "", "key": key, "reason": str(error)}
                fields = {"stream": stream, **about, **numbers}
            if fields is not None:
                yield fields

    def failed_again(self, blocker: Blocker, reason: str, now_ns: int) -> None:
        """An operator tried it, in vain."""

        def change(found: Fields | None) -> Fields | None:
            if found is None or found["item"] != blocker.item.name:
                return None
            return {**found, "reason": reason, "tries": found["tries"] + 1, "last_ns": now_ns}

        self.change(named("blockers", blocker.stream.key), change)

    def clear(self, blocker: Blocker) -> None:
        """Have the stream go on with the item, and its count begin anew."""
        self.succeeded(blocker.stream.key)
        key = named("blockers", blocker.stream.key)
        found, etag = self.read_with_etag(key)
        if found is not None and found["item"] == blocker.item.name:
            self.remove_as_read(key, etag)

    # Quarantine.

    def quarantine(self, blocker: Blocker, reason: str, author: str, now_ns: int) -> None:
        """Give up the item: the only way past it. The record stays."""
        decision = {"quarantined_for": reason, "author": author, "quarantined_ns": now_ns}
        key = named("quarantine", blocker.stream.key, blocker.item.name)
        self.change(key, lambda _: {**_encode(blocker), **decision})
        self.clear(blocker)

    def quarantined_ns(self, stream: str, item: str) -> int | None:
        """When an operator gave it up."""
        fields = self.read(named("quarantine", stream, item))
        return None if fields is None else fields["quarantined_ns"]

    def quarantined(self) -> list[Fields]:
        found = [self.read(key) for key in self.keys(f"{FOLDER}quarantine/")]
        return [fields for fields in found if fields is not None]


def _encode(one: Blocker) -> Fields:
    return {
        "stream": one.stream.key,
        "item": one.item.name,
        "bucket": one.item.bucket,
        "key": one.item.key,
        "reason": one.reason,
        "tries": one.tries,
        "first_ns": one.first_ns,
        "last_ns": one.last_ns,
    }


def _decode(fields: Fields) -> Blocker:
    item = Item(fields["item"], fields["bucket"], fields["key"])
    numbers = fields["tries"], fields["first_ns"], fields["last_ns"]
    return Blocker(Stream(fields["stream"]), item, fields["reason"], *numbers)
