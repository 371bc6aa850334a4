"""What is durable of a lifecycle besides its cursors, each in one object moved by compare-and-swap.

    lifecycle/v1/buckets/BUCKET.json            modes of the actions, the walk under way, the last one
    lifecycle/v1/blockers/STREAM.json           the item at which a stream waits for an operator
    lifecycle/v1/retries/STREAM.json            how often the item at its front has failed
    lifecycle/v1/quarantine/STREAM/ITEM.json    an item that an operator gave up, and why
    lifecycle/v1/pending/ACTION/ID.json         a version that began to match and is not due yet

A stream is what has a position of its own: a cursor, the walk of a bucket, the pending list of an action.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from fencepost.impl.context import Context
from fencepost.impl.lifecycle.policy import ActionKey, Degraded, Mode
from fencepost.impl.store.requests import ABSENT, ANYTHING, Delete, Get, List, Matches, Outcome, Put

FOLDER = "lifecycle/v1/"
SWAPS_MAX = 10
"""Our own limit on swaps that another worker wins."""


@dataclass(frozen=True, slots=True)
class ActionState:
    mode: Mode
    reason: Degraded = Degraded.NONE
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class WalkState:
    began_ns: int
    beginning: frozenset[str]
    """The actions that are complete when it ends."""
    after: str = ""
    """The last key that is done."""


@dataclass(slots=True)
class BucketState:
    actions: dict[str, ActionState] = field(default_factory=dict)
    walk: WalkState | None = None
    walked_ns: int | None = None
    """When the last walk that ended began."""

    def mode(self, key: ActionKey) -> Mode | None:
        found = self.actions.get(str(key))
        return found.mode if found else None


class Records:
    def __init__(self, context: Context) -> None:
        self._context = context

    # Buckets.

    def bucket(self, name: str) -> BucketState:
        return _decode(self._read(_bucket_key(name))[0])

    def change_bucket(self, name: str, change: Callable[[BucketState], bool]) -> BucketState:
        """Apply a change to the state as it is; `change` returns False to leave it."""
        for attempt in range(SWAPS_MAX):
            fields, etag = self._read(_bucket_key(name))
            state = _decode(fields)
            if not change(state):
                return state
            if self._swap(_bucket_key(name), _encode(state), fields, etag):
                return state
            self._context.back_off(attempt)
        raise self._context.retry.unavailable(f"the state of {name} keeps changing; try again")

    # Pending versions.

    def pending(self) -> Iterator[tuple[str, str, str]]:
        """The action, the key of the record, and the key of the object, of each entry."""
        for record in self._keys(f"{FOLDER}pending/"):
            fields, _ = self._read(record)
            if fields is not None:
                yield unquote(record.split("/")[3]), record, fields["key"]

    def pending_count(self, action: str) -> int:
        return len(self._keys(f"{FOLDER}pending/{quote(action, safe='')}/"))

    def add_pending(self, action: str, key: str, version_id: str) -> bool:
        """Returns whether it is new."""
        name = hashlib.sha256(f"{len(key)} {key}{version_id}".encode()).hexdigest()[:32]
        record = f"{FOLDER}pending/{quote(action, safe='')}/{name}.json"
        if self._context.read(Get(record)).info is not None:
            return False
        return self._create(record, {"key": key, "version": version_id})

    def remove(self, key: str) -> None:
        """A removal that is not answered is made again, or left for the next pass."""
        self._context.store.send(Delete(key, ANYTHING))

    # Blockers and retries.

    def is_blocked(self, stream: str) -> bool:
        return self._context.read(Get(_named("blockers", stream))).info is not None

    def blockers(self) -> list[dict[str, Any]]:
        found = [self._read(key)[0] for key in self._keys(f"{FOLDER}blockers/")]
        return [fields for fields in found if fields is not None]

    def block(self, stream: str, item: str, reason: str, now_ns: int) -> None:
        """Durable when it returns."""
        fields = {"stream": stream, "item": item, "reason": reason, "at_ns": now_ns}
        self._create(_named("blockers", stream), fields)

    def unblock(self, stream: str) -> None:
        self.clear_failures(stream)
        self.remove(_named("blockers", stream))

    def quarantine(self, stream: str, reason: str, now_ns: int) -> None:
        """Give up the item at which the stream is blocked: the only way past it."""
        fields, _ = self._read(_named("blockers", stream))
        if fields is not None:
            record = _named("quarantine", stream, fields["item"])
            self._create(record, {**fields, "quarantined_for": reason, "quarantined_ns": now_ns})
            self.unblock(stream)

    def is_quarantined(self, stream: str, item: str) -> bool:
        return self._context.read(Get(_named("quarantine", stream, item))).info is not None

    def count_failure(self, stream: str, item: str, now_ns: int) -> tuple[int, int]:
        """Returns how often this item has failed, and since when."""
        key = _named("retries", stream)
        for attempt in range(SWAPS_MAX):
            fields, etag = self._read(key)
            known = fields if fields is not None and fields["item"] == item else {}
            tries, since_ns = known.get("tries", 0) + 1, known.get("since_ns", now_ns)
            if self._swap(key, {"item": item, "tries": tries, "since_ns": since_ns}, fields, etag):
                return tries, since_ns
            self._context.back_off(attempt)
        raise self._context.retry.unavailable(f"the retries of {stream} cannot be counted; try again")

    def failing(self, stream: str) -> str | None:
        """The item that failed last."""
        fields, _ = self._read(_named("retries", stream))
        return None if fields is None else fields["item"]

    def clear_failures(self, stream: str) -> None:
        self.remove(_named("retries", stream))

    # Objects.

    def _keys(self, prefix: str) -> list[str]:
        pages = self._context.pages(lambda token: List(prefix, token=token))
        return [info.key for page in pages for info in page.objects]

    def _read(self, key: str) -> tuple[dict[str, Any] | None, str]:
        reply = self._context.read(Get(key))
        return (None, "") if reply.info is None else (json.loads(reply.body), reply.info.etag)

    def _create(self, key: str, fields: dict[str, Any]) -> bool:
        made = self._context.create_all([Put(key, json.dumps(fields, sort_keys=True).encode(), ABSENT)])[0]
        if made.body is None and not made.created:
            raise self._context.retry.unavailable(f"nobody knows whether {key} was written; try again")
        return made.created

    def _swap(self, key: str, fields: dict[str, Any], before: dict[str, Any] | None, etag: str) -> bool:
        # The revision makes every body different: an ETag is a fingerprint of the content, no version.
        revision = (before or {}).get("revision", 0) + 1
        body = json.dumps({**fields, "revision": revision}, sort_keys=True).encode()
        reply = self._context.store.put(key, body, when=Matches(etag) if etag else ABSENT)
        return reply.outcome is Outcome.DONE


def cursors_in(context: Context, folder: str) -> Iterable[str]:
    for page in context.pages(lambda token: List(folder, token=token)):
        yield from (info.key for info in page.objects)


def _named(folder: str, *names: str) -> str:
    return f"{FOLDER}{folder}/{'/'.join(quote(name, safe='') for name in names)}.json"


def _bucket_key(name: str) -> str:
    return _named("buckets", name)


def _encode(state: BucketState) -> dict[str, Any]:
    actions = {key: [one.mode.value, one.reason.value, one.is_complete] for key, one in state.actions.items()}
    walk = state.walk
    walked = None if walk is None else [walk.began_ns, sorted(walk.beginning), walk.after]
    return {"actions": actions, "walk": walked, "walked_ns": state.walked_ns}


def _decode(fields: dict[str, Any] | None) -> BucketState:
    if fields is None:
        return BucketState()
    actions = {
        key: ActionState(Mode(mode), Degraded(reason), complete)
        for key, (mode, reason, complete) in fields["actions"].items()
    }
    began = fields["walk"]
    walk = None if began is None else WalkState(began[0], frozenset(began[1]), began[2])
    return BucketState(actions, walk, fields["walked_ns"])
