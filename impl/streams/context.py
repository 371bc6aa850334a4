"""The state that the parts of a node share: the manifests that it has read, and the bytes of segments.

A swap that another node has overtaken is made again on the newer manifest if it still applies: see `update`.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.store import ANYTHING, Matches
from fencepost.impl.store.requests import NOT_NOW, Condition, Delete, Get, Outcome
from fencepost.impl.streams.errors import Damaged, Fenced, Refusal, Refused, StoreUnavailable
from fencepost.impl.streams.manifest import Manifest, Segment, manifest_key, read_index
from fencepost.impl.streams.safeguards import STANDARD, Safeguards
from fencepost.impl.streams.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.streams.state import MemoryState, State
from fencepost.impl.streams.stream import Known, Stream

JSON = "application/json"
RIVALS_MAX = 20
"""Swaps of one manifest that others win before a request gives up."""

Change = Callable[[Manifest | None], Manifest | None]
"""The manifest to write in place of the one found; None when nothing is to be done (any more)."""


@dataclass(eq=False)
class StreamContext(Context):
    settings: Settings = STANDARD_SETTINGS
    state: State = field(default_factory=MemoryState)
    retry: RetryPolicy = field(init=False)
    safeguards: Safeguards = field(default=STANDARD, kw_only=True)
    on_change: Callable[[str], None] = field(default=lambda _: None, kw_only=True)
    """Called with the name of a stream that this node has changed."""
    busy: set[str] = field(default_factory=set, init=False)
    """The names that are being reaped or created by this node."""

    def __post_init__(self) -> None:
        self.retry = self.settings.retry_policy
        self.writer = self.env.new_id()
        self._streams: dict[str, Stream] = {}
        self._guard = threading.Lock()
        self._segments: OrderedDict[str, bytes] = OrderedDict()
        self._cached = 0

    # Manifests.

    def stream(self, name: str) -> Stream:
        with self._guard:
            return self._streams.setdefault(name, Stream(name))

    def known(self) -> list[Stream]:
        with self._guard:
            return list(self._streams.values())

    def forget(self, name: str) -> None:
        """Drop what is cached of a name, and wake the requests that wait for it."""
        with self._guard:
            self._streams.pop(name, None)
        self.on_change(name)

    @contextmanager
    def exclusively(self, name: str, refused: Exception) -> Iterator[None]:
        """One thread of this node reaps or creates a name; raises `refused` to any other, at once."""
        with self._guard:
            held = name in self.busy
            self.busy.add(name)
        if self.safeguards.recreate_lock(held):
            raise refused
        try:
            yield
        finally:
            self.busy.discard(name)

    def load(self, stream: Stream) -> Manifest | None:
        return self.fetch(stream).manifest

    def fetch(self, stream: Stream) -> Known:
        """The manifest as the store has it now."""
        key = manifest_key(stream.name)
        for _ in range(RIVALS_MAX):
            began = found = stream.known
            reply = self.read(Get(key, unless=began.etag or None))
            if reply.outcome is Outcome.DONE and reply.info is not None:
                found = Known(Manifest.read(reply.body, key), reply.info.etag)
            elif reply.outcome is not Outcome.UNCHANGED:
                found = Known()
            if stream.learn(began, found):
                stream.checked_ns = self.env.monotonic_ns()
                return stream.known
        raise StoreUnavailable(f"the manifest of {stream.name!r} changed during {RIVALS_MAX} reads")

    def update(
        self, stream: Stream, change: Change, condition: Callable[[str], Condition] = Matches
    ) -> Manifest | None:
        """Swap the manifest. After a refusal or an unknown outcome it is read again, and so is the change
        decided: it must recognise its own effect."""
        if stream.manifest is None:
            self.load(stream)
        for attempt in range(RIVALS_MAX):
            before = stream.known
            after = change(before.manifest)
            if after is None:
                return before.manifest
            after = after.next(self.writer)
            reply = self.store.put(after.key, after.body(), when=condition(before.etag), content_type=JSON)
            if reply.outcome is Outcome.DONE:
                if stream.learn(before, Known(after, reply.etag)):
                    stream.checked_ns = self.env.monotonic_ns()
                else:
                    self.load(stream)
                return after
            if reply.outcome in NOT_NOW:
                self.back_off(min(attempt, self.retry.attempts))
            else:
                self.load(stream)
        raise StoreUnavailable(f"the manifest of {stream.name!r} could not be moved in {RIVALS_MAX} attempts")

    def now_ns(self) -> int:
        return self.env.now_ns()

    def visible(self, name: str, *, fresh: bool = False) -> Stream:
        """The stream, if clients may use it. Raises `Refused`; `Fenced` while this node reaps the name."""
        if self.safeguards.recreate_lock(name in self.busy):
            beside = Stream(name)  # what is reaped may be an earlier incarnation of a stream that exists
            self.load(beside)
            self.check_visible(beside)
            raise Fenced(f"this node works on {name!r} just now")
        with self._guard:
            stream = self._streams.get(name, Stream(name))
        age_ns = self.env.monotonic_ns() - (stream.checked_ns or 0)
        if fresh or stream.checked_ns is None or age_ns >= self.settings.revalidate_s * 1e9:
            self.load(stream)
        self.check_visible(stream)
        with self._guard:  # a name that does not exist is not kept: clients may ask for any
            kept = self._streams.setdefault(name, stream)
        if kept is not stream:  # another thread's, which may not have read the manifest yet
            self.load(kept)
            self.check_visible(kept)
        return kept

    def check_visible(self, stream: Stream) -> Manifest:
        manifest = stream.manifest
        if manifest is None or manifest.is_tombstone or manifest.pending:
            raise Refused(Refusal.MISSING, f"there is no stream {stream.name!r}")
        if manifest.hidden:
            raise Refused(Refusal.GONE, f"the stream {stream.name!r} was deleted")
        if manifest.is_expired(self.now_ns()) and not self._touched(stream, manifest):
            raise Refused(Refusal.MISSING, f"the stream {stream.name!r} has expired")
        return manifest

    def _touched(self, stream: Stream, manifest: Manifest) -> bool:
        """Return True if this node has served the stream within its TTL and not published that."""
        return manifest.ttl_s is not None and self.now_ns() < stream.touched_ns + manifest.ttl_s * 10**9

    def touch(self, stream: Stream) -> None:
        """Move the deadline of a stream with a TTL, because it is read."""
        manifest = self.check_visible(stream)
        if manifest.ttl_s is None or manifest.deadline_ns is None:
            return
        now_ns = self.now_ns()
        stream.touched_ns = now_ns
        if now_ns + manifest.ttl_s * 10**9 - manifest.deadline_ns < manifest.ttl_s * 10**8:
            return  # a tenth of the TTL: the margin of expiry includes it

        def extend(found: Manifest | None) -> Manifest | None:
            if found is None or found.incarnation != manifest.incarnation or found.is_tombstone:
                return None
            assert found.ttl_s is not None
            return replace(found, deadline_ns=max(found.deadline_ns or 0, now_ns + found.ttl_s * 10**9))

        self.update(stream, extend)

    def is_over(self, manifest: Manifest) -> bool:
        """Return True if the name may be created anew: it is deleted, expired, or not completely created."""
        return (
            manifest.is_tombstone
            or manifest.pending
            or (manifest.is_expired(self.now_ns()) and not manifest.hidden)
        )

    # Segments.

    def segments_after(self, manifest: Manifest, start: int) -> Iterator[Segment]:
        """The segments with bytes behind the position, in order: of the manifest and its indexes."""
        return self._segments_in(manifest, manifest.segments, start)

    def _segments_in(self, manifest: Manifest, entries: Sequence[Segment], start: int) -> Iterator[Segment]:
        for entry in entries:
            if entry.end > start and entry.count > 1:
                yield from self._segments_in(manifest, self.parts(manifest, entry), start)
            elif entry.end > start:
                yield entry

    def parts(self, manifest: Manifest, index: Segment) -> tuple[Segment, ...]:
        return read_index(self.segment(manifest, index))

    def segment(self, manifest: Manifest, segment: Segment) -> bytes:
        """The body of a segment, or of an index."""
        key = manifest.key_of(segment)
        with self._guard:
            if key in self._segments:
                self._segments.move_to_end(key)
                return self._segments[key]
        reply = self.read(Get(key))
        if reply.outcome is not Outcome.DONE:
            raise Damaged(f"{key} is listed by its manifest and is missing")
        if hashlib.sha256(reply.body).hexdigest() != segment.sha256:
            raise Damaged(f"{key} is not the segment that its manifest lists")
        self.remember(key, reply.body)
        return reply.body

    def remember(self, key: str, body: bytes) -> None:
        """Keys are never used again, so that a cache by key is never an old one."""
        with self._guard:
            if key not in self._segments:
                self._segments[key] = body
                self._cached += len(body)
            while self._cached > self.settings.cache_bytes:
                self._cached -= len(self._segments.popitem(last=False)[1])

    def drop_cached(self, prefix: str) -> None:
        with self._guard:
            for key in [key for key in self._segments if key.startswith(prefix)]:
                self._cached -= len(self._segments.pop(key))

    def ensure_deleted(self, keys: Sequence[str]) -> None:
        """Delete the objects at these keys, all at once and unconditionally."""
        self.read_all([Delete(key, ANYTHING) for key in keys])
