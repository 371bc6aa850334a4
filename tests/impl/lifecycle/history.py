"""A bucket with a change log, users who change it, and a worker that may crash; time in seconds, a day is 4.

Every request of the worker, to the store of its state and to the bucket, is a place where it may crash before
or after it, where the store may answer badly, and where a user may act. What the oracle of
`properties/lifecycle` finds due is compared with what is deleted, at each deletion and after each second.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.cursor import Cursor
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle import cursors, walk
from fencepost.impl.lifecycle.engine import Change, Seen
from fencepost.impl.lifecycle.log import MemoryLog
from fencepost.impl.lifecycle.policy import Kind, Rule, Timing, Version, What, due_at, in_order, rules_of
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards
from fencepost.impl.lifecycle.target import (
    WHOLE,
    Guard,
    Listed,
    Live,
    Needs,
    Result,
    Standing,
    Unavailable,
    Wanted,
)
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import R, Request
from fencepost.properties.lifecycle.oracle import Stored, due_now

S = 10**9
DAY = 4 * S
TIMING = Timing(day_ns=DAY, small_delay_ns=S, lookback_ns=3 * S)
START = 1_700_000_000 * S
SCAN = 7 * DAY
BUCKET = "b"
KEYS = ("a/1", "a/2", "a/3", "b", "c", "d")
TAG = {"t": "1"}


class Crash(BaseException):
    """The worker is gone; nothing in it may handle this."""


class Violation(AssertionError):
    pass


@dataclass(frozen=True)
class Row:
    stored: Stored
    number: int
    locked: bool = False
    was_locked: bool = False
    place: tuple[str, str] = ("", "")
    """The shard and the position of the event since which it is current, or noncurrent."""
    is_original: bool = True
    """It has been current since it was written."""


@dataclass
class Faults:
    crash: float = 0.0
    fail: float = 0.0
    """Requests to the bucket that get no answer."""
    act: float = 0.0
    """Requests of the worker before which a user acts."""
    race: float = 0.0
    """Deletions before which a user changes the same object, or the rules."""
    crash_at: int | None = None


class Requests(Layer):
    def __init__(self, inner: Store, before: Callable[[], Callable[[], None]]) -> None:
        super().__init__(inner)
        self._before = before

    def send(self, request: Request[R]) -> R:
        after = self._before()
        reply: R = self.inner.send(request)
        after()
        return reply

    def send_all(self, requests: Sequence[Request[Any]]) -> list[Any]:
        return [self.send(request) for request in requests]


@dataclass
class Bucket:
    """The target: versions as S3 keeps them, each change an event of the log."""

    env: SeededEnvironment
    random: random.Random
    log: MemoryLog
    is_versioned: bool
    rows: dict[str, list[Row]] = field(default_factory=dict)
    uploads: dict[tuple[str, str], int] = field(default_factory=dict)
    structures: list[dict[str, Any]] = field(default_factory=list)
    before: Callable[[], Callable[[], None]] = lambda: lambda: None
    on_delete: Callable[[str, str, str], None] = lambda what, key, version: None
    race: Callable[[str], None] = lambda key: None
    count: int = 0
    lists_looks: bool = True
    """What a page lists is as good as a look."""
    name: str = BUCKET

    # What the worker uses.

    def buckets(self) -> Sequence[str]:
        return [self.name]

    def rules(self, bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        return rules_of(self.structures)

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        after = self.before()
        found = _needed(self.now_at(key), needs)
        after()
        return found

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        self.before()
        found = [key for key in self._keys() if key > after and key.startswith(prefix)][:3]
        return [Listed(key, _shown(self.now_at(key)), self.lists_looks) for key in found]

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        self.before()
        return next((key for key in self._keys() if key > after and key.startswith(prefix)), None)

    def _keys(self) -> list[str]:
        return sorted({key for key, rows in self.rows.items() if rows} | {key for key, _ in self.uploads})

    def delete_versions(
        self, bucket: str, wanted: Sequence[Wanted], after: str, prefix: str = ""
    ) -> Sequence[Result | None]:
        """As S3 would: after one more listing; of each third deletion nothing is known."""
        after_all = self.before()
        found: list[Result | None] = []
        for place, one in enumerate(wanted):
            is_locked = any(
                row.locked and row.stored.version_id == one.version_id for row in self.rows.get(one.key, ())
            )
            is_refused = one.guard(_shown(self.now_at(one.key))) is not None or not self.is_versioned
            is_refused = is_refused or is_locked  # by the store, as nothing bypasses a lock
            if not is_refused and place % 3 != 2:
                self.on_delete(What.DELETE_VERSION.value, one.key, one.version_id)
                self.remove_version(one.key, one.version_id)
            found.append(None if is_refused or place % 3 == 2 else Result.DONE)
        after_all()
        return found

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        after = self.before()
        self.race(key)
        refused = guard(_needed(self.now_at(key), needs))
        if refused is not None:
            return refused
        self.on_delete(what.value, key, version_id)
        if what is What.EXPIRE:
            self.remove(key)
        elif what is What.ABORT:
            del self.uploads[key, version_id]
        else:
            self.remove_version(key, version_id)
        after()
        return Result.DONE

    def now_at(self, key: str) -> Standing:
        rows = {row.stored.version_id: row for row in self.rows.get(key, ())}
        versions = in_order([version_of(key, row.stored) for row in reversed(rows.values())])
        live = [
            Live(one, str(rows[one.version_id].number), is_locked=rows[one.version_id].locked)
            for one in versions
        ]
        uploads = [
            Live(Version(key, upload, began_ns, is_upload=True), upload)
            for (other, upload), began_ns in self.uploads.items()
            if other == key
        ]
        return Standing(tuple(live), tuple(uploads), self.is_versioned)

    # What users do.

    def write(self, key: str, size: int, tags: dict[str, str], *, marker: bool = False) -> None:
        self.count += 1
        version_id = f"v{self.count}" if self.is_versioned else ""
        row = Row(Stored(version_id, self.env.now_ns(), size, tags, marker), self.count)
        known = self.rows.get(key, []) if self.is_versioned else []
        self.change(key, [*known, row])

    def remove(self, key: str) -> None:
        if self.is_versioned:
            self.write(key, 0, {}, marker=True)
        else:
            self.change(key, [])

    def remove_version(self, key: str, version_id: str) -> None:
        self.change(key, [row for row in self.rows[key] if row.stored.version_id != version_id])

    def begin_upload(self, key: str) -> None:
        self.count += 1
        upload = f"u{self.count}"
        self.uploads[key, upload] = self.env.now_ns()
        self.add(key, None, Seen(self.env.now_ns(), 0, upload), is_upload=True)

    def change(self, key: str, rows: list[Row]) -> None:
        """Replace what stands at a key, with the events of all that became of it."""
        old, self.rows[key] = self.rows.get(key, []), rows
        before, after = _seen_by_version(old), _seen_by_version(rows)
        for version in sorted(before.keys() | after.keys()):
            if before.get(version) != after.get(version):
                place = self.add(key, before.get(version), after.get(version))
                self.rows[key] = [
                    replace(row, place=place, is_original=row.place == ("", ""))
                    if (version == "") == (row is self.rows[key][-1])
                    and version in ("", row.stored.version_id)
                    and _is_age(before.get(version), after.get(version))
                    else row
                    for row in self.rows[key]
                ]

    def add(
        self, key: str, old: Seen | None, new: Seen | None, *, is_upload: bool = False
    ) -> tuple[str, str]:
        shard = self.random.choice(self.log.writers())
        event = self.log.add(shard, self.env.now_ns(), Change(self.name, key, old, new, is_upload=is_upload))
        return shard, event.position


def _needed(now: Standing, needs: Needs) -> Standing:
    """Without what the look does not depend on, as an endpoint leaves it out."""
    if needs.tags:
        return now
    return replace(
        now, versions=tuple(replace(one, version=replace(one.version, tags=())) for one in now.versions)
    )


def _shown(now: Standing) -> Standing:
    """Of what there is, what a listing shows."""
    versions = [replace(one, version=replace(one.version, tags=()), is_locked=False) for one in now.versions]
    return replace(now, versions=tuple(versions))


def _is_age(old: Seen | None, new: Seen | None) -> bool:
    return new is not None and (old is None or old.content != new.content)


def _seen_by_version(rows: list[Row]) -> dict[str, Seen]:
    """As the change log of objects has it: the current one by no name, unless it is a marker."""
    found = {row.stored.version_id: _seen(row) for row in rows[:-1]}
    if rows and not rows[-1].stored.marker:
        found[""] = _seen(rows[-1])
    elif rows:
        found[rows[-1].stored.version_id] = _seen(rows[-1])
    return found


def _seen(row: Row) -> Seen:
    one = row.stored
    return Seen(one.mtime_ns, one.size, str(row.number), tuple(sorted((one.tags or {}).items())))


def version_of(key: str, one: Stored) -> Version:
    tags = tuple(sorted((one.tags or {}).items()))
    return Version(key, one.version_id, one.mtime_ns, one.size, tags, one.marker)


class History:
    timing = TIMING
    keys = KEYS

    def __init__(
        self,
        seed: int,
        faults: Faults,
        *,
        pending_max: int = 50_000,
        losses: bool = False,
        safeguards: Safeguards = STANDARD,
    ) -> None:
        self.safeguards = safeguards
        self.random = random.Random(seed)
        self.faults = faults
        self.env = SeededEnvironment(seed, START)
        self.log = MemoryLog(("x", "y"))
        self.lag = self.random.choice((0, 2))
        """In seconds, until a shard is flushed at the latest."""
        self.bucket = Bucket(self.env, self.random, self.log, self.random.random() < 0.5)
        self.bucket.before = self.request
        self.bucket.on_delete = self.deleted
        self.bucket.race = self.race
        self.store = MemoryStore(env=self.env)
        self.pending_max = pending_max
        self.losses = losses
        self.requests = 0
        self.crashes = 0
        self.is_whole = False
        """The last run came to its end."""
        self.runs = 0
        """Those that came to their end."""
        self.deletions = 0
        self.due_since: dict[tuple[tuple[str, str, str], int], tuple[int, int]] = {}
        """The time, and the runs until then, by what is due and the number of the object: what is written
        under the same key later is another object."""
        self.phase = ""
        self.by: Counter[tuple[str, str]] = Counter()
        """Deletions by the part of the worker that made them."""
        self.is_calm = False

    # The worker.

    def request(self) -> Callable[[], None]:
        """Before a request of the worker; returns what comes after it."""
        self.requests += 1
        if not self.is_calm and self.random.random() < self.faults.act:
            self.act()
        if self.requests == self.faults.crash_at or self.random.random() < self.faults.crash:
            self.crashes += 1
            if self.random.random() < 0.5:
                raise Crash
            return self.crash
        return lambda: None

    def crash(self) -> None:
        raise Crash

    def bucket_request(self) -> Callable[[], None]:
        if self.random.random() < self.faults.fail:
            raise Unavailable("the bucket does not answer")
        return self.request()

    def work(self) -> None:
        """The worker runs until a run of it ends."""
        self.bucket.before = self.bucket_request
        while True:
            # A clock that stands still while the worker works: how long it takes is not the question.
            for shard in self.log.shards():
                self.log.flush(shard, self.env.now_ns() - self.random.randint(0, self.lag) * S - 1)
            store = Requests(self.store, self.request)
            retry = RetryPolicy("worker", RuntimeError, attempts=3, backoff_s=0.0)
            context = Context(store, self.env, retry=retry)
            worker = Worker(context, self.bucket, self.log, TIMING, self.safeguards)
            worker.pending_max = self.pending_max
            try:
                self.phase = "walk"
                walk.Walks(worker).run()
                self.phase = "sweep"
                worker.sweep_all()
                self.phase = "drain"
                worker.drain()
            except (Crash, Unavailable):
                self.is_whole = False
                self.check_cursors()
                if self.random.random() < 0.3 and not self.is_calm:
                    return  # down until the next second
                continue
            self.is_whole = True
            self.check_cursors()
            self.runs += 1
            return

    # Users.

    def race(self, key: str) -> None:
        if not self.is_calm and self.random.random() < self.faults.race:
            self.act(key)

    def act(self, key: str = "") -> None:
        bucket, pick = self.bucket, self.random
        is_race = bool(key)
        key = key or pick.choice(self.keys)
        rows = bucket.rows.get(key, [])
        kind = pick.choice(
            ("write", "write", "write", "tag", "tag", "remove", "version", "upload", "lock", "rules")
        )
        if kind == "write":
            bucket.write(key, pick.choice((0, 10, 100)), pick.choice(({}, TAG)))
        elif kind == "upload":
            bucket.begin_upload(key)
        elif kind == "rules":
            if is_race or pick.random() < 0.2:
                bucket.structures = self.new_rules()
        elif not rows:
            return
        elif kind == "tag" and not rows[-1].stored.marker:
            tags = {} if rows[-1].stored.tags else TAG
            bucket.change(key, [*rows[:-1], replace(rows[-1], stored=replace(rows[-1].stored, tags=tags))])
        elif kind == "remove":
            bucket.remove(key)
        elif kind == "version" and bucket.is_versioned:
            bucket.remove_version(key, pick.choice(rows).stored.version_id)
        elif kind == "lock" and (is_race or pick.random() < 0.3):
            place = pick.randrange(len(rows))
            row = replace(rows[place], locked=not rows[place].locked, was_locked=True)
            bucket.rows[key] = [*rows[:place], row, *rows[place + 1 :]]

    def new_rules(self) -> list[dict[str, Any]]:
        return some_rules(self.random, self.env.now_ns())

    def run(self, seconds: int) -> None:
        self.bucket.structures = [some_rule(self.random, self.env.now_ns()) for _ in range(2)]
        for _ in range(seconds):
            for _ in range(self.random.choice((0, 0, 0, 1, 2))):
                self.act()
            if self.losses and self.random.random() < 0.01:
                for shard in self.log.shards():
                    self.log.lose_before(shard, self.env.now_ns() - self.random.randrange(10) * S)
            self.second()
        self.is_calm = True
        for rows in self.bucket.rows.values():
            rows[:] = [replace(row, locked=False) for row in rows]
        was_locked = any(row.was_locked for rows in self.bucket.rows.values() for row in rows)
        is_scanned = self.losses or self.pending_max == 0 or was_locked
        for _ in range(SCAN * is_scanned // S + 20):
            self.second()

    def second(self) -> None:
        self.work()
        self.check_due()
        self.env.sleep(1)

    # Checks.

    def due(self, keys: Collection[str] | None = None, in_ns: int = 0) -> set[tuple[str, str, str]]:
        """Return what is due, of all keys or of these; now, or after a time in which nothing is changed."""
        rows = self.bucket.rows
        known = rows if keys is None else rows.keys() & keys
        objects = {key: [row.stored for row in rows[key]] for key in known}
        uploads = {one: since for one, since in self.bucket.uploads.items() if keys is None or one[0] in keys}
        day_ns = self.timing.day_ns
        found = due_now(self.bucket.structures, objects, uploads, self.env.now_ns() + in_ns, day_ns)
        return {one for one in found if not self.is_held(*one)}

    def row(self, key: str, version_id: str) -> Row | None:
        rows = self.bucket.rows.get(key, [])
        return next((row for row in rows if row.stored.version_id == version_id), None)

    def number(self, key: str, version_id: str) -> int:
        """Return the number of a version; 0 for an upload, which has a name of its own."""
        row = self.row(key, version_id)
        return 0 if row is None else row.number

    def is_held(self, what: str, key: str, version_id: str) -> bool:
        row = self.row(key, version_id)
        return row is not None and row.locked and (what != "expire" or not self.bucket.is_versioned)

    def deleted(self, what: str, key: str, version_id: str) -> None:
        self.deletions += 1
        self.by[self.phase, what] += 1
        if (what, key, version_id) not in self.due({key}):
            raise Violation(f"{what} {key} {version_id} is not due")

    def check_due(self) -> None:
        """What stays due for longer than its bound was forgotten."""
        now_ns = self.env.now_ns()
        objects = [(one, self.number(one[1], one[2])) for one in self.due()]
        self.due_since = {one: self.due_since.get(one, (now_ns, self.runs)) for one in objects}
        for (one, _), (since_ns, runs) in self.due_since.items():
            if now_ns - since_ns > self.bound_ns(*one) and self.runs >= runs + self.lag + 3:
                raise Violation(f"{one} has been due for {(now_ns - since_ns) / S} s")

    def bound_ns(self, what: str, key: str, version_id: str) -> int:
        """The documented delay: events near the clock, a date within a day, a scan after a lock or a loss."""
        row = self.row(key, version_id)
        if self.losses or self.pending_max == 0 or (row is not None and row.was_locked):
            return SCAN + 2 * S
        if what == "expire" and any("Date" in rule.get("Expiration", {}) for rule in self.bucket.structures):
            return DAY + 2 * S
        return TIMING.small_delay_ns + (self.lag + 2) * S

    def check_cursors(self) -> None:
        """No cursor is past the event of an object that its action still has to delete."""
        retry = RetryPolicy("check", RuntimeError)
        context = Context(self.store, self.env, retry=retry)
        pending = [body for key, body in self.store.contents().items() if "/pending/" in key]
        for key in self.store.contents():
            if not key.startswith(f"{cursors.FOLDER}ages/"):
                continue
            cursor = Cursor(context, key)
            cursor.start()
            for rule in rules_of(self.bucket.structures):
                self._check_cursor(cursor, rule, bool(pending))

    def _check_cursor(self, cursor: Cursor, rule: Rule, is_pending: bool) -> None:
        # Of plain ages only: a tag, a removal or a newer version is what the near cursor is for.
        if rule.tags or Kind.EXPIRATION_DAYS not in rule.kinds() or is_pending:
            return
        action = f"{self.bucket.name}/{rule.hash.hex()}/{Kind.EXPIRATION_DAYS.value}"
        for key, rows in self.bucket.rows.items():
            row = rows[-1] if rows else None
            if row is None or row.stored.marker or not row.is_original or row.was_locked:
                continue
            delay_ns = (rule.expiration_days or 0) * self.timing.day_ns
            version = version_of(key, row.stored)
            applies = due_at(rule, Kind.EXPIRATION_DAYS, version, self.timing) is not None
            is_its = cursor.key == cursors.ages_key(delay_ns, row.place[0])
            if not (applies and is_its and action in cursor.serves):
                continue
            if self.is_whole and row.place[1] < cursors.before(self.log.begins_ns(row.place[0])):
                raise Violation(f"the log lost {key}, and {action} is still driven by events")
            if cursor.saved >= row.place[1]:
                raise Violation(f"{cursor.key} is past {key}, which {action} has to delete")


def some_rules(pick: random.Random, now_ns: int) -> list[dict[str, Any]]:
    return [some_rule(pick, now_ns) for _ in range(pick.choice((0, 1, 2, 2, 3, 3)))]


def some_rule(pick: random.Random, now_ns: int) -> dict[str, Any]:
    status = pick.choice(("Enabled", "Enabled", "Enabled", "Disabled"))
    plain: list[dict[str, Any]] = [{}, {"Prefix": "a/"}]
    sized: list[dict[str, Any]] = [
        {"Tag": {"Key": "t", "Value": "1"}},
        {"ObjectSizeGreaterThan": 5},
        {"And": {"Prefix": "a/", "ObjectSizeLessThan": 50, "Tags": [{"Key": "t", "Value": "1"}]}},
    ]
    days = pick.choice((1, 2, 3))
    noncurrent = {"NoncurrentVersionExpiration": {"NoncurrentDays": pick.choice((1, 2))}}
    newer = {"NoncurrentDays": 1, "NewerNoncurrentVersions": pick.choice((1, 2))}
    kinds: list[dict[str, Any]] = [
        {"Expiration": {"Days": days}},
        {"Expiration": {"Days": days}, **noncurrent},
        {"NoncurrentVersionExpiration": newer},
    ]
    if pick.random() < 0.15:
        moment = (now_ns // S + pick.randrange(30)) // 4 * 4
        kinds = [{"Expiration": {"Date": datetime.fromtimestamp(moment, UTC)}}]
    if pick.random() < 0.5:
        return {"Status": status, "Filter": pick.choice(sized), **pick.choice(kinds)}
    extra: list[dict[str, Any]] = [
        {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": days}},
        {"Expiration": {"ExpiredObjectDeleteMarker": True}},
    ]
    return {"Status": status, "Filter": pick.choice(plain), **pick.choice([*kinds, *extra])}
