"""A bucket with its policy, its log and its clock, in one object of a store, for workers and their audits.

Each request to it is one request to the store: reads read the object, and a change swaps it against what was
read, so that a deletion and its guard are one step, as they are on a server. The object keeps what happened
(`past`), with the facts of each deletion as they were at that moment, computed by the oracle.

Times are in seconds since `START_NS`; a process knows the time that its last request returned.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.lifecycle.cursors import before, position
from fencepost.impl.lifecycle.engine import Change, Seen
from fencepost.impl.lifecycle.log import Event
from fencepost.impl.lifecycle.policy import Rule, Timing, Version, What, rules_of
from fencepost.impl.lifecycle.target import (
    WHOLE,
    Guard,
    Listed,
    Live,
    Needs,
    Result,
    Standing,
    Unavailable,
    Unworkable,
    Wanted,
)
from fencepost.impl.store import ABSENT
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Get, Matches, Outcome
from fencepost.properties.lifecycle.oracle import Stored, due_now

S = 10**9
START_NS = 1_700_000_000 * S
TIMING = Timing(day_ns=4 * S, small_delay_ns=S, lookback_ns=3 * S)
BUCKET, KEY = "b", "bucket.json"
ATTEMPTS = 6


def ns(seconds: int) -> int:
    return START_NS + seconds * S


@dataclass
class Row:
    """An object and its last change."""

    number: int
    """Of its last change: its identity."""
    mtime_s: int
    tags: dict[str, str]
    shard: str
    offset: int
    """With the shard the event of its content."""
    event_s: int
    locked: bool = False
    tagged: list[list[Any]] = field(default_factory=list)
    """Shard, time and offset of the changes of its tags."""

    @property
    def content(self) -> str:
        """Named by the event of its write, which a change of tags keeps."""
        return f"{self.shard}-{self.offset}-{self.event_s}"

    @property
    def stored(self) -> Stored:
        return Stored("", ns(self.mtime_s), 1, self.tags)


@dataclass
class Contents:
    now_s: int = 0
    rules: list[dict[str, Any]] = field(default_factory=list)
    objects: dict[str, Row] = field(default_factory=dict)
    events: dict[str, list[list[Any]]] = field(default_factory=dict)
    """By shard: time, offset, key, old and new."""
    begins: dict[str, int] = field(default_factory=dict)
    hidden: dict[str, int] = field(default_factory=dict)
    """By shard, the time of the first event that is not visible yet."""
    closed: list[str] = field(default_factory=list)
    """Shards that get no more events."""
    gone: list[str] = field(default_factory=list)
    """Shards that have vanished."""
    poisoned: list[str] = field(default_factory=list)
    """Keys at which nothing can be worked on."""
    silent: list[str] = field(default_factory=list)
    """Keys at which the bucket does not answer now."""
    past: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0
    retention_s: int = 0
    """For how long the log keeps events; 0 without end."""

    @classmethod
    def read(cls, body: bytes) -> "Contents":
        found = cls(**json.loads(body))
        found.objects = {key: Row(**fields) for key, fields in found.objects.items()}  # type: ignore[arg-type]  # as read
        return found

    @property
    def body(self) -> bytes:
        objects = {key: vars(row) for key, row in self.objects.items()}
        return json.dumps({**vars(self), "objects": objects}, sort_keys=True).encode()

    # Users, and time.

    def write(self, key: str, shard: str, tags: dict[str, str] | None = None, *, later_s: int = 0) -> None:
        """`later_s`: by how much the object's own time is later than its event's."""
        self.count += 1
        old = self.objects.get(key)
        offset = len(self.events.get(shard, []))
        row = Row(self.count, self.now_s + later_s, dict(tags or {}), shard, offset, self.now_s)
        self.log(shard, key, old, row)
        self.objects[key] = row

    def tag(self, key: str, shard: str, tags: dict[str, str]) -> None:
        row = self.objects.get(key)
        if row is not None:
            self.count += 1
            old = replace(row)
            row.number, row.tags = self.count, tags
            row.tagged.append([shard, self.now_s, self.log(shard, key, old, row)])

    def log(self, shard: str, key: str, old: Row | None, new: Row | None) -> int:
        known = self.events.setdefault(shard, [])
        known.append([self.now_s, len(known), key, _fields(old), _fields(new)])
        return len(known) - 1

    def lock(self, key: str) -> None:
        if key in self.objects:
            self.objects[key].locked = True

    def lose(self, shard: str, until_s: int) -> None:
        """The log loses its events before this time."""
        self.begins[shard] = until_s

    def due(self, now_s: int, rules: Sequence[dict[str, Any]] | None = None) -> set[str]:
        """By the oracle."""
        stored = {key: [row.stored] for key, row in self.objects.items()}
        wanted = self.rules if rules is None else rules
        return {key for _, key, _ in due_now(wanted, stored, {}, ns(now_s), TIMING.day_ns)}

    def rules_ever(self) -> list[dict[str, Any]]:
        return [*self.rules, *(rule for entry in self.past for rule in entry.get("rules", []))]

    def edit(self, rules: list[dict[str, Any]]) -> None:
        self.past.append({"what": "edit", "rules": self.rules})
        self.rules = rules

    # The settled part of the log.

    def settled_s(self, shard: str) -> int:
        return min(self.hidden.get(shard, self.now_s + 1) - 1, self.now_s)


def _fields(row: Row | None) -> list[Any] | None:
    return None if row is None else [row.mtime_s, row.content, row.tags]


def _seen(fields: list[Any] | None) -> Seen | None:
    return None if fields is None else Seen(ns(fields[0]), 1, fields[1], tuple(sorted(fields[2].items())))


class StoredBucket:
    """Target, log and clock of one process."""

    has_uploads = True

    def __init__(self, store: Store, shards: Sequence[str] = ("x", "y"), *, fresh_log: bool = False) -> None:
        """`fresh_log`: where the log begins is a request, as it is where it may lose events meanwhile."""
        self._store = store
        self._shards = shards
        self._fresh_log = fresh_log
        self._etag = ""
        self.known = Contents()
        self._moment: Contents | None = None
        """The contents in the moment of a deletion, for its guard."""
        self.looked: dict[str, int] = {}
        self.took: Callable[[str, str], None] = lambda _shard, _place: None
        self.failed: Callable[[str, str], None] = lambda _key, _what: None

    def refresh(self) -> Contents:
        for _ in range(ATTEMPTS):
            reply = self._store.send(Get(KEY))
            if reply.outcome is Outcome.DONE and reply.info is not None:
                self.known, self._etag = Contents.read(reply.body), reply.info.etag
                return self.known
        raise Unavailable("the bucket does not answer")

    def act(self, change: Callable[[Contents], None]) -> None:
        """Make a change that has its effect once."""

        def changed(contents: Contents) -> bool:
            change(contents)
            return True

        self.swap(changed)

    def swap(self, change: Callable[[Contents], bool]) -> bool:
        """Against what this process knows; a change that returns False is not made."""
        known = bool(self._etag)
        for _ in range(ATTEMPTS):
            contents = Contents.read(self.known.body) if known else self.refresh()
            if not change(contents):
                return False
            body = contents.body
            reply = self._store.put(KEY, body, when=Matches(self._etag))
            if reply.outcome is Outcome.DONE:
                self.known, self._etag = contents, reply.etag
                return True
            known = False
            if reply.outcome is Outcome.UNKNOWN and self.refresh().body == body:
                return True  # it landed, and the reply was lost
        raise Unavailable("the bucket keeps changing")

    # The target.

    def buckets(self) -> Sequence[str]:
        return [BUCKET]

    def rules(self, bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        assert bucket == BUCKET
        return rules_of((self._moment or self.refresh()).rules)

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        return self._standing(self.refresh(), key)

    def _standing(self, contents: Contents, key: str) -> Standing:
        if key in contents.poisoned or key in contents.silent:
            self.failed(key, "fails")
            raise (Unworkable if key in contents.poisoned else Unavailable)(f"{key} fails")
        row = contents.objects.get(key)
        if row is None:
            return Standing()
        self.looked[key] = row.number
        self.failed(key, "works")
        return Standing((live(key, row),))

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        found = self.first(bucket, after, prefix)
        if found is None:
            return ()
        row = self.known.objects[found]
        tagless = live(found, replace(row, tags={}, locked=False))
        # Keys that fail are looked at, so that they fail.
        fails = found in self.known.poisoned or found in self.known.silent
        return (Listed(found, None if fails else Standing((tagless,)), is_look=False),)

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        keys = (key for key in self.refresh().objects if key > after and key.startswith(prefix))
        return min(keys, default=None)

    def delete_versions(
        self, bucket: str, wanted: Sequence[Wanted], after: str, prefix: str = ""
    ) -> Sequence[Result | None]:
        return [None] * len(wanted)  # it keeps no versions

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        refused: list[Result] = []
        looked = self.looked.get(key, 0)

        def change(contents: Contents) -> bool:
            known, self.known, self._moment = self.known, contents, contents
            try:
                row = contents.objects.get(key)
                found = guard(Standing(() if row is None else (live(key, row),)))
            finally:
                self.known, self._moment = known, None
            if found is not None or row is None:
                refused.append(found or Result.NOT_FOUND)
                return False
            contents.past.append(
                {
                    "what": "deleted",
                    "key": key,
                    "number": row.number,
                    "looked": looked,
                    "at_s": contents.now_s,
                    "locked": row.locked,
                    "due": key in contents.due(contents.now_s),
                    "was_due": key in contents.due(contents.now_s, contents.rules_ever()),
                }
            )
            del contents.objects[key]
            return True

        return Result.DONE if self.swap(change) else refused[-1]

    # The log.

    @property
    def retention_ns(self) -> int | None:
        return self.known.retention_s * S or None

    def shards(self) -> Sequence[str]:
        return [shard for shard in self._shards if shard not in self.known.gone]

    def begins_ns(self, shard: str) -> int:
        contents = self.refresh() if self._fresh_log else self.known
        return ns(contents.begins[shard]) if shard in contents.begins else 0

    def ends(self, shard: str) -> str | None:
        if shard not in self.known.closed:
            return None
        events = self.known.events.get(shard)
        return position(ns(events[-1][0]), events[-1][1]) if events else before(0)

    def hold(self, needed: Mapping[str, int]) -> None:
        """It is cut by users, whatever its reader needs."""

    def settled_ns(self, shard: str) -> int:
        return ns(self.known.settled_s(shard))

    def events(self, shard: str, after: str, until_ns: int) -> Iterator[Event]:
        contents = self.refresh()
        limit = before(until_ns + 1)
        for time_s, offset, key, old, new in contents.events.get(shard, []):
            visible = time_s < contents.hidden.get(shard, time_s + 1)
            kept, place = time_s >= contents.begins.get(shard, time_s), position(ns(time_s), offset)
            if kept and visible and after < place < limit:
                self.took(shard, place)
                yield Event(ns(time_s), offset, Change(BUCKET, key, _seen(old), _seen(new)))


def live(key: str, row: Row) -> Live:
    tags = tuple(sorted(row.tags.items()))
    return Live(Version(key, "", ns(row.mtime_s), 1, tags), row.content, is_locked=row.locked)


class BucketEnvironment(Environment):
    """The clock of a process is what its bucket showed last."""

    def __init__(self, inner: Environment, bucket: StoredBucket) -> None:
        self._inner = inner
        self._bucket = bucket

    def now_ns(self) -> int:
        return ns(self._bucket.known.now_s)

    def monotonic_ns(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None: ...

    def stream(self, actor: str) -> Any:
        return self._inner.stream(actor)

    def new_id(self) -> str:
        return self._inner.new_id()


def found_in(store: Store, contents: Contents) -> None:
    store.put(KEY, contents.body, when=ABSENT)
