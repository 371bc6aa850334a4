"""One node: creates, appends to, reads, closes, forks and deletes the streams of a prefix.

    node = Node(open_store(url), env, Settings(node="a"), SqliteState(folder))
    node.create("/builds/1", Configuration("text/plain"))
    node.append("/builds/1", b"started\n", content_type="text/plain").offset

A node appends to a stream only as its owner, under an epoch that it took by swapping the manifest. Records
are buffered, sealed into a segment, uploaded, and listed by the next swap: see `Node.flush`. A swap that
somebody else has overtaken is made again on the newer manifest if it still applies: see `Node.update`.

Threads: appends of one stream queue at its flush, so that many of them share a segment. Reaps and creations
exclude each other by `busy`, which refuses and never blocks.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.context import Context
from fencepost.impl.environment import Environment
from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import NOT_NOW, Condition, Delete, Get, Outcome, Put
from fencepost.impl.streams.errors import Damaged, Fenced, Refusal, Refused, StoreUnavailable
from fencepost.impl.streams.framing import base_type, inherited, to_stored
from fencepost.impl.streams.manifest import Manifest, Segment, manifest_key
from fencepost.impl.streams.safeguards import STANDARD, Safeguards
from fencepost.impl.streams.settings import STANDARD_SETTINGS, Durability, Settings
from fencepost.impl.streams.state import MemoryState, Record, State

JSON = "application/json"
RIVALS_MAX = 20
"""Swaps of one manifest that others win before a request gives up."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a creation asks for, and what an existing stream is compared with."""

    content_type: str = "application/octet-stream"
    ttl_s: int | None = None
    expires_at: str = ""
    expires_ns: int | None = None
    closed: bool = False
    forked_from: tuple[str, int, int] | None = None

    def deadline_ns(self, now_ns: int) -> int | None:
        return now_ns + self.ttl_s * 10**9 if self.ttl_s is not None else self.expires_ns

    def is_of(self, manifest: Manifest) -> bool:
        return (
            self.content_type.lower() == manifest.content_type.lower()
            and (self.ttl_s, self.expires_at) == (manifest.ttl_s, manifest.expires_at)
            and self.closed == manifest.closed
            and self.forked_from == manifest.forked_from
        )


@dataclass(frozen=True, slots=True)
class Appended:
    offset: str
    duplicate: bool = False
    closed: bool = False
    epoch: int = 0
    seq: int = 0
    """The producer's latest, if the append named one."""


@dataclass(frozen=True, slots=True)
class Chunk:
    manifest: Manifest
    body: bytes
    start: int
    end: int
    up_to_date: bool

    @property
    def closed(self) -> bool:
        """Whether the reader has everything that will ever be."""
        return self.manifest.closed and self.up_to_date


@dataclass(eq=False)
class Stream:
    """What this node knows of one name."""

    name: str
    manifest: Manifest | None = None
    etag: str = ""
    checked_ns: int | None = None
    """When the manifest was last compared with the store's."""
    owner: int = 0
    """The owner number that this node holds; 0 for none."""
    incarnation: str = ""
    records: list[Record] = field(default_factory=list)
    """Accepted, and not listed by the manifest."""
    closing: tuple[str, int, int] | None = None
    since_ns: int = 0
    """When the oldest record was accepted."""
    touched_ns: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    flushing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def tail(self) -> int:
        if self.records:
            return self.records[-1].end
        return self.manifest.tail if self.manifest is not None else 0

    def let_go(self) -> None:
        self.owner, self.incarnation, self.records, self.closing = 0, "", [], None


Change = Callable[[Manifest | None], Manifest | None]
"""The manifest to write in place of the one found; None when nothing is to be done (any more)."""


class Node(Context):
    def __init__(
        self,
        store: Store,
        env: Environment,
        settings: Settings = STANDARD_SETTINGS,
        state: State | None = None,
        *,
        safeguards: Safeguards = STANDARD,
        on_change: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(store, env, retry=settings.retry_policy)
        self.settings = settings
        self.state = state or MemoryState()
        self.safeguards = safeguards
        self.on_change = on_change
        self.writer = env.new_id()
        self.busy: set[str] = set()
        """The names that are being reaped or created by this node."""
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

    def load(self, stream: Stream) -> Manifest | None:
        """The manifest as the store has it now."""
        key = manifest_key(stream.name)
        reply = self.read(Get(key, unless=stream.etag or None))
        if reply.outcome is Outcome.DONE and reply.info is not None:
            stream.manifest, stream.etag = Manifest.read(reply.body, key), reply.info.etag
        elif reply.outcome is not Outcome.UNCHANGED:
            stream.manifest, stream.etag = None, ""
        stream.checked_ns = self.env.monotonic_ns()
        return stream.manifest

    def update(
        self, stream: Stream, change: Change, condition: Callable[[str], Condition] = Matches
    ) -> Manifest | None:
        """Swap the manifest. After a refusal or an unknown outcome it is read again, and so is the change
        decided: it must recognise its own effect."""
        if stream.manifest is None:
            self.load(stream)
        for attempt in range(RIVALS_MAX):
            before = stream.manifest
            after = change(before)
            if after is None:
                return before
            after = after.next(self.writer)
            reply = self.store.put(after.key, after.body(), when=condition(stream.etag), content_type=JSON)
            if reply.outcome is Outcome.DONE:
                stream.manifest, stream.etag = after, reply.etag
                stream.checked_ns = self.env.monotonic_ns()
                return after
            if reply.outcome in NOT_NOW:
                self.back_off(min(attempt, self.retry.attempts))
            else:
                self.load(stream)
        raise StoreUnavailable(f"the manifest of {stream.name!r} could not be moved in {RIVALS_MAX} attempts")

    def now_ns(self) -> int:
        return self.env.now_ns()

    def visible(self, name: str, *, fresh: bool = False) -> Stream:
        """The stream, if clients may use it. Raises `Refused`."""
        if self.safeguards.recreate_lock(name in self.busy):
            raise Refused(Refusal.MISSING, f"there is no stream {name!r}")
        stream = self.stream(name)
        age_ns = self.env.monotonic_ns() - (stream.checked_ns or 0)
        if fresh or stream.checked_ns is None or age_ns >= self.settings.revalidate_s * 1e9:
            self.load(stream)
        self.check_visible(stream)
        return stream

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
        """Whether this node has served the stream within its TTL and not published that."""
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

    # Creation.

    def create(
        self, name: str, wanted: Configuration, body: bytes = b"", *, source: Manifest | None = None
    ) -> tuple[Manifest, bool]:
        """The stream, and whether it was created now. `source`: of a fork, whose bytes are `body`."""
        stream = self.stream(name)
        if self.safeguards.recreate_lock(name in self.busy):
            raise Fenced(f"this node works on {name!r} just now")
        made = self._new(name, wanted, pending=bool(body), source=source)
        self.busy.add(name)
        try:
            for attempt in range(RIVALS_MAX):
                found = self.load(stream)
                if found is not None and not self.is_over(found):
                    if found.incarnation == made.incarnation:
                        break
                    if found.hidden or not wanted.is_of(found):
                        raise Refused(Refusal.EXISTS, f"a stream {name!r} exists with another configuration")
                    return found, False
                if found is not None and found.pending and found.incarnation == made.incarnation:
                    break  # ours
                if self._begin(stream, made, found):
                    break
                if attempt:
                    self.back_off(min(attempt, self.retry.attempts))
            else:
                raise StoreUnavailable(f"{name!r} could not be created in {RIVALS_MAX} attempts")
        finally:
            self.busy.discard(name)
        stream.owner, stream.incarnation, stream.records, stream.closing = 1, made.incarnation, [], None
        stream.touched_ns = self.now_ns()
        if body:
            record = Record(0, body)
            self._publish(stream, [record], {"pending": False, "closed": wanted.closed})
        manifest = stream.manifest
        assert manifest is not None
        self.on_change(name)
        return manifest, True

    def fork(
        self,
        name: str,
        source_name: str,
        offset: str | None,
        sub_offset: int,
        wanted: Configuration,
        content_type: str,
        body: bytes,
    ) -> tuple[Manifest, bool]:
        """A stream that begins with a copy of its source's bytes, at the source's offsets."""
        try:
            source = self.check_visible(self.visible(source_name, fresh=True))
        except Refused as error:
            if error.kind is Refusal.GONE:
                raise Refused(Refusal.EXISTS, f"the source {source_name!r} was deleted") from None
            raise
        if content_type and base_type(content_type) != base_type(source.content_type):
            raise Refused(Refusal.CONTENT_TYPE, f"the source holds {source.content_type}, not {content_type}")
        bytes_ = self._everything(source_name)
        try:
            position = len(bytes_) if offset is None else source.position(offset)
        except Refused as error:
            raise Refused(Refusal.INVALID, str(error)) from None
        if position > len(bytes_):
            raise Refused(Refusal.INVALID, f"the offset {offset} is behind the end of the source")
        end = position + inherited(bytes_[position:], source.content_type, sub_offset)
        no_expiry = wanted.ttl_s is None and not wanted.expires_at
        wanted = replace(
            wanted,
            content_type=source.content_type,
            ttl_s=source.ttl_s if no_expiry else wanted.ttl_s,
            expires_at=source.expires_at if no_expiry else wanted.expires_at,
            expires_ns=source.deadline_ns if no_expiry else wanted.expires_ns,
            forked_from=(source_name, position, sub_offset),
        )

        def refer(found: Manifest | None) -> Manifest | None:
            if found is None or found.incarnation != source.incarnation or found.is_tombstone or found.hidden:
                raise Refused(Refusal.EXISTS, f"the source {source_name!r} was deleted")
            return None if name in found.forks else replace(found, forks=(*found.forks, name))

        existing = self.load(self.stream(name))
        if existing is None or self.is_over(existing):
            self.update(self.stream(source_name), refer)
        own = to_stored(body, source.content_type, empty_allowed=True)
        return self.create(name, wanted, bytes_[:end] + own, source=source)

    def _everything(self, name: str) -> bytes:
        found, offset = b"", "-1"
        while True:
            chunk = self.read_from(name, offset)
            found, offset = found + chunk.body, chunk.manifest.offset(chunk.end)
            if chunk.up_to_date:
                return found

    def is_over(self, manifest: Manifest) -> bool:
        """Whether the name may be created anew: deleted, expired, or a creation that was not completed."""
        return (
            manifest.is_tombstone
            or manifest.pending
            or (manifest.is_expired(self.now_ns()) and not manifest.hidden)
        )

    def _new(self, name: str, wanted: Configuration, *, pending: bool, source: Manifest | None) -> Manifest:
        now_ns = self.now_ns()
        return Manifest(
            name,
            self.safeguards.fresh_epoch(self.env.new_id()),
            source.lineage if source is not None else now_ns // 1000 % 10**16,
            wanted.content_type,
            now_ns,
            writer=self.writer,
            ttl_s=wanted.ttl_s,
            expires_at=wanted.expires_at,
            deadline_ns=wanted.deadline_ns(now_ns),
            closed=wanted.closed and not pending,
            pending=pending,
            forked_from=wanted.forked_from,
        )

    def _begin(self, stream: Stream, made: Manifest, found: Manifest | None) -> bool:
        """Write the first manifest of an incarnation: create it, or swap it for the tombstone of the last."""
        if found is None:
            reply = self.store.put(made.key, made.body(), when=ABSENT, content_type=JSON)
            if reply.outcome is Outcome.DONE:
                stream.manifest, stream.etag = made, reply.etag
                stream.checked_ns = self.env.monotonic_ns()
                return True
            return False
        from fencepost.impl.streams.retention import Reaper  # the reaper needs nodes, and a creation a reaper

        Reaper(self).clear(stream, found.incarnation)

        def swap(now: Manifest | None) -> Manifest | None:
            if now is None or now.incarnation != found.incarnation or not now.is_tombstone:
                raise _Overtaken
            return replace(made, revision=now.revision)

        try:
            self.update(stream, swap)
        except _Overtaken:
            return False
        self.state.drop(stream.name, found.incarnation)
        return True

    # Appends.

    def own(self, stream: Stream) -> Manifest:
        """Become the owner, unless this node is it."""
        with stream.lock:
            manifest = stream.manifest
            held = (stream.incarnation, stream.owner)
            if stream.owner and manifest is not None and (manifest.incarnation, manifest.owner) == held:
                return self.check_visible(stream)
            stream.let_go()
            if stream.manifest is None:
                self.load(stream)
            number = 0

            def take(found: Manifest | None) -> Manifest | None:
                nonlocal number
                self.check_visible(stream)
                assert found is not None
                if found.writer == self.writer and number and found.owner == number:
                    return None
                number = found.owner + 1
                return replace(found, owner=number)

            owned = self.update(stream, take)
            assert owned is not None
            stream.owner, stream.incarnation = number, owned.incarnation
            self._recover(stream, owned)
            return owned

    def _recover(self, stream: Stream, manifest: Manifest) -> None:
        """Take up the records that this node accepted under its last epoch, if nobody came after it."""
        if self.settings.durability is Durability.STORE:
            return
        before, records = self.state.records(stream.name, manifest.incarnation)
        records = [one for one in records if one.start >= manifest.tail]
        if records and records[0].start == manifest.tail and before == stream.owner - 1:
            stream.records, stream.since_ns = records, self.env.monotonic_ns()
            self.state.add(stream.name, manifest.incarnation, stream.owner, records)

    def append(
        self,
        name: str,
        body: bytes,
        *,
        content_type: str = "",
        producer: tuple[str, int, int] | None = None,
        stream_seq: str | None = None,
        close: bool = False,
    ) -> Appended:
        """Append, close, or both. Raises `Refused`; `Fenced` only when other nodes win again and again."""
        stream = self.stream(name)
        for attempt in range(self.retry.attempts):
            if self.safeguards.recreate_lock(name in self.busy):
                raise Fenced(f"this node works on {name!r} just now")
            try:
                self.own(stream)
                with stream.lock:
                    done = self._accept(stream, body, content_type, producer, stream_seq, close=close)
                    end, accepted = stream.tail, (stream.incarnation, stream.owner)
                if done is not None:
                    return done
                if self.settings.durability is Durability.STORE or close:
                    self.flush(stream, end, accepted)
                else:
                    self.on_change(name)
                manifest = stream.manifest
                assert manifest is not None
                epoch, seq = (producer[1], producer[2]) if producer else (0, 0)
                return Appended(manifest.offset(end), closed=close, epoch=epoch, seq=seq)
            except Fenced:
                stream.let_go()
                stream.manifest, stream.etag = None, ""
                if attempt:
                    self.back_off(attempt - 1)
        raise Fenced(f"other nodes took {name!r} over {self.retry.attempts} times; send it again")

    def _accept(
        self,
        stream: Stream,
        body: bytes,
        content_type: str,
        producer: tuple[str, int, int] | None,
        stream_seq: str | None,
        *,
        close: bool,
    ) -> Appended | None:
        """Buffer the append; the answer, if there is nothing to do. Under the stream's lock."""
        manifest = self.check_visible(stream)
        if not self.safeguards.uploader_filter(stream.name in self.state.flagged()):
            raise Refused(Refusal.MISSING, f"there is no stream {stream.name!r}")
        offset = manifest.offset(stream.tail)
        if manifest.closed or stream.closing is not None:
            by = stream.closing or manifest.closed_by
            if (producer is not None and by == producer) or (close and not body and producer is None):
                epoch, seq = (producer[1], producer[2]) if producer else (0, 0)
                return Appended(offset, duplicate=True, closed=True, epoch=epoch, seq=seq)
            raise Refused(Refusal.CLOSED, "the stream is closed", offset=offset)
        if body and content_type.lower() != manifest.content_type.lower():
            raise Refused(
                Refusal.CONTENT_TYPE, f"the stream holds {manifest.content_type}, not {content_type}"
            )
        if producer is not None and (known := self._duplicate(stream, manifest, producer, offset)):
            return known
        last = next(
            (one.stream_seq for one in reversed(stream.records) if one.stream_seq), manifest.stream_seq
        )
        if stream_seq is not None and last is not None and stream_seq.encode() <= last.encode():
            raise Refused(Refusal.SEQUENCE, f"the sequence {stream_seq!r} is not after {last!r}")
        name, epoch, seq = producer or ("", 0, 0)
        record = Record(stream.tail, body, name, epoch, seq, stream_seq)
        if self.settings.durability is Durability.LOCAL and not close:
            self.state.add(stream.name, manifest.incarnation, stream.owner, [record])
        if not stream.records:
            stream.since_ns = self.env.monotonic_ns()
        stream.records = [*stream.records, record]
        stream.closing = (producer or ("", 0, 0)) if close else None
        return None

    def _duplicate(
        self, stream: Stream, manifest: Manifest, producer: tuple[str, int, int], offset: str
    ) -> Appended | None:
        """The answer to what was accepted before. Raises `Refused` for what may not be accepted."""
        name, epoch, seq = producer
        buffered = ((one.epoch, one.seq) for one in reversed(stream.records) if one.producer == name)
        last = next(buffered, manifest.producers.get(name))
        verdict = self.safeguards.producer_fence(last, epoch, seq)
        known = last or (epoch, -1)
        if verdict == "duplicate":
            if stream.records and self.settings.durability is Durability.STORE:
                # What it repeats may be in flight.
                self.flush(stream, stream.tail, (stream.incarnation, stream.owner))
            return Appended(offset, duplicate=True, epoch=known[0], seq=known[1])
        if verdict == "stale":
            raise Refused(
                Refusal.STALE_EPOCH, f"the producer {name!r} is in epoch {known[0]}", epoch=str(known[0])
            )
        if verdict == "invalid":
            raise Refused(Refusal.INVALID, "a new epoch of a producer begins with sequence 0")
        if verdict == "gap":
            raise Refused(
                Refusal.GAP,
                f"a sequence is missing before {seq}",
                expected=str(known[1] + 1),
                received=str(seq),
            )
        return None

    def flush(self, stream: Stream, position: int = 0, accepted: tuple[str, int] | None = None) -> None:
        """Seal what is buffered, upload it, list it.

        Returns when the record that was `accepted`, as this incarnation and owner, before `position` is
        listed. Another append may have found that this node was overtaken, and have dropped it: the bytes at
        its position are then another node's, so the length of the stream says nothing.
        """
        with stream.flushing:
            if accepted is not None:
                if stream.closing is None and _lists(stream.manifest, accepted, position):
                    return
                if (stream.incarnation, stream.owner) != accepted:
                    if _lists(self.load(stream), accepted, position):
                        return
                    raise Fenced(f"this node no longer owns {stream.name!r}")
            try:
                self._publish(stream, list(stream.records), self._closing(stream))
            except Fenced:
                raise
            except Exception:
                stream.let_go()  # the key of this epoch may be taken by what was in flight
                raise

    def _closing(self, stream: Stream) -> dict[str, Any]:
        return {} if stream.closing is None else {"closed": True, "closed_by": stream.closing}

    def _publish(self, stream: Stream, records: Sequence[Record], changes: dict[str, Any]) -> None:
        owner, incarnation, manifest = stream.owner, stream.incarnation, stream.manifest
        if manifest is None or not owner:
            raise Fenced(f"this node does not own {stream.name!r}")
        body = b"".join(one.body for one in records)
        segment = None
        if body:
            start = records[0].start
            segment = Segment(owner, start, start + len(body), hashlib.sha256(body).hexdigest())
            self._check_unflagged(stream)
            self._upload(manifest.segment_key(owner, start), body)
        producers = {one.producer: (one.epoch, one.seq) for one in records if one.producer}
        seqs = [one.stream_seq for one in records if one.stream_seq is not None]

        def move(found: Manifest | None) -> Manifest | None:
            if found is None or found.incarnation != incarnation:
                raise Fenced(f"the stream {stream.name!r} was deleted")
            if segment in found.segments or (segment is None and found.closed):
                return None  # even if another node has taken the stream over since
            if found.owner != owner:
                raise Fenced(f"another node has taken {stream.name!r} over")
            self._check_unflagged(stream, flagged=found.is_tombstone)
            now_ns = self.now_ns()
            return replace(
                found,
                segments=(*found.segments, segment) if segment else found.segments,
                tail=segment.end if segment else found.tail,
                producers={**found.producers, **producers},
                stream_seq=seqs[-1] if seqs else found.stream_seq,
                deadline_ns=now_ns + found.ttl_s * 10**9 if found.ttl_s is not None else found.deadline_ns,
                tombstone_ns=None,  # what an owner publishes is live
                **changes,
            )

        after = self.update(stream, move, self.safeguards.owner_fence)
        assert after is not None
        if segment is not None:
            self._remember(after.segment_key(owner, segment.start), body)
        stream.records = [one for one in stream.records if one.end > after.tail]
        stream.closing = None if after.closed else stream.closing
        if self.settings.durability is Durability.LOCAL:
            self.state.trim(stream.name, incarnation, after.tail)
        self.on_change(stream.name)

    def _check_unflagged(self, stream: Stream, *, flagged: bool = False) -> None:
        if not self.safeguards.uploader_filter(flagged or stream.name in self.state.flagged()):
            raise Refused(Refusal.MISSING, f"the stream {stream.name!r} was deleted")

    def _upload(self, key: str, body: bytes) -> None:
        """Create the segment. What stands there already is an earlier attempt of this epoch, or foreign."""
        for attempt in range(self.retry.attempts):
            reply = self.store.send(Put(key, body, ABSENT))
            stored = reply.outcome is Outcome.DONE
            if reply.outcome is Outcome.EXISTS:
                stored = True  # only this epoch writes this key, and always these bytes
            if self.safeguards.segment_before_manifest(stored):
                return
            self.back_off(attempt)
        raise StoreUnavailable(f"the store did not take {key!r} in {self.retry.attempts} attempts")

    # Reads.

    def read_from(self, name: str, offset: str = "-1") -> Chunk:
        """What follows the offset, up to about `chunk_bytes`."""
        stream = self.visible(name)
        self.touch(stream)
        manifest = self.check_visible(stream)
        local = self._local(stream, manifest)
        tail = local[-1].end if local else manifest.tail
        start = tail if offset == "now" else manifest.position(offset)
        if start > tail:
            raise Refused(Refusal.INVALID, f"the offset {offset} is behind the end of the stream")
        pieces: list[bytes] = []
        at = start
        for segment in self._after(manifest, start):
            if pieces and at - start >= self.settings.chunk_bytes:
                return Chunk(manifest, b"".join(pieces), start, at, up_to_date=False)
            pieces.append(self.segment(manifest, segment)[at - segment.start :])
            at = segment.end
        for record in local:
            if record.end > at:
                pieces.append(record.body[at - record.start :])
                at = record.end
        return Chunk(manifest, b"".join(pieces), start, at, up_to_date=True)

    def _local(self, stream: Stream, manifest: Manifest) -> list[Record]:
        """Records that only this node has: readers get them under durability `local` alone."""
        if self.settings.durability is Durability.STORE or stream.incarnation != manifest.incarnation:
            return []
        return [one for one in stream.records if one.end > manifest.tail]

    @staticmethod
    def _after(manifest: Manifest, start: int) -> Iterator[Segment]:
        return (segment for segment in manifest.segments if segment.end > start)

    def segment(self, manifest: Manifest, segment: Segment) -> bytes:
        key = manifest.segment_key(segment.owner, segment.start)
        with self._guard:
            if key in self._segments:
                self._segments.move_to_end(key)
                return self._segments[key]
        reply = self.read(Get(key))
        if reply.outcome is not Outcome.DONE:
            raise Damaged(f"{key} is listed by its manifest and is missing")
        if hashlib.sha256(reply.body).hexdigest() != segment.sha256:
            raise Damaged(f"{key} is not the segment that its manifest lists")
        self._remember(key, reply.body)
        return reply.body

    def _remember(self, key: str, body: bytes) -> None:
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

    # Deletion.

    def delete(self, name: str) -> None:
        """Flag the row, publish the tombstone. With forks the stream is hidden, and its data stays."""
        stream = self.visible(name, fresh=True)
        manifest = self.check_visible(stream)
        if not manifest.forks:
            self.state.flag(name, manifest.incarnation)

        def bury(found: Manifest | None) -> Manifest | None:
            if (
                found is None
                or found.incarnation != manifest.incarnation
                or found.is_tombstone
                or found.hidden
            ):
                return None
            return replace(found, hidden=True) if found.forks else replace(found, tombstone_ns=self.now_ns())

        after = self.update(stream, bury)
        if after is not None and after.hidden:
            self.state.drop(name, manifest.incarnation)
        stream.let_go()
        self.on_change(name)

    def ensure_deleted(self, keys: Sequence[str]) -> None:
        """Delete segments, all at once; whatever stands there."""
        self.read_all([Delete(key, ANYTHING) for key in keys])

    def close(self) -> None:
        self.state.close()


def _lists(manifest: Manifest | None, accepted: tuple[str, int], position: int) -> bool:
    """Whether the manifest lists the segment of that incarnation and owner that ends there or goes on."""
    if manifest is None or manifest.incarnation != accepted[0]:
        return False
    return any(one.owner == accepted[1] and one.start < position <= one.end for one in manifest.segments)


class _Overtaken(Exception):
    """Another node has changed what was to be replaced."""
