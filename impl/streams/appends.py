"""Appends of one node: accept, seal, upload, list.

A node appends to a stream only as its owner, under an epoch that it took by swapping the manifest. Records
are buffered, sealed into a segment, uploaded, and listed by the next swap: see `Appends.flush`.

Threads: appends of one stream queue at its flush, so that many of them share a segment. An append is answered
when a manifest lists what it accepted, by whichever flush; see `Accepted`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Outcome, Put
from fencepost.impl.streams.context import StreamContext
from fencepost.impl.streams.errors import Fenced, Refusal, Refused, StoreUnavailable, other_type
from fencepost.impl.streams.manifest import Manifest, Segment, write_index
from fencepost.impl.streams.settings import Durability
from fencepost.impl.streams.state import Record
from fencepost.impl.streams.stream import Accepted, Appended, Stream


class Appends:
    def __init__(self, context: StreamContext) -> None:
        self._context = context

    def own(self, stream: Stream) -> Manifest:
        """Become the owner, unless this node is it."""
        with stream.lock:
            return self._own(stream)

    def _own(self, stream: Stream) -> Manifest:
        manifest = stream.manifest
        if stream.owner and manifest is not None and (manifest.incarnation, manifest.owner) == stream.held:
            return self._context.check_visible(stream)
        stream.let_go()
        if stream.manifest is None:
            self._context.load(stream)
        number = 0

        def take(found: Manifest | None) -> Manifest | None:
            nonlocal number
            self._context.check_visible(stream)
            assert found is not None
            if found.writer == self._context.writer and number and found.owner == number:
                return None
            number = found.owner + 1
            return replace(found, owner=number)

        owned = self._context.update(stream, take)
        assert owned is not None
        stream.owner, stream.incarnation = number, owned.incarnation
        self._recover(stream, owned)
        return owned

    def _recover(self, stream: Stream, manifest: Manifest) -> None:
        """Take up the records that this node has committed, unless a later owner has published since."""
        state = self._context.state
        before, records = state.records(stream.name, manifest.incarnation)
        left = [one for one in records if one.start >= manifest.tail]
        overtaken = bool(manifest.segments) and manifest.segments[-1].owner > before
        over = overtaken or manifest.closed
        stream.committed = bool(left) and left[0].start == manifest.tail and not over
        if stream.committed:
            stream.records, stream.since_ns = left, self._context.env.monotonic_ns()
            state.add(stream.name, manifest.incarnation, stream.owner, left)
        elif records:
            state.trim(stream.name, manifest.incarnation, records[-1].end)

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
        stream = self._context.stream(name)
        for attempt in range(self._context.retry.attempts):
            if self._context.safeguards.recreate_lock(name in self._context.busy):
                raise Fenced(f"this node works on {name!r} just now")
            with stream.lock:
                manifest = self._own(stream)
                repeated = self.accept(stream, body, content_type, producer, stream_seq, close=close)
                end = stream.tail
                buffered = any(one.body for one in stream.records)
                accepted = Accepted(*stream.held, end if buffered else 0, stream.closing)
            epoch, seq = (producer[1], producer[2]) if producer else (0, 0)
            answer = repeated or Appended(manifest.offset(end), closed=close, epoch=epoch, seq=seq)
            if self._context.settings.durability is Durability.LOCAL and accepted.closing is None:
                self._context.on_change(name)
                return answer
            if not accepted.end and accepted.closing is None:
                return answer  # what it repeats was listed before
            try:
                self.flush(stream, accepted)
                return answer
            except Fenced:
                self._let_go(stream, accepted)
                self._context.load(stream)
                if attempt:
                    self._context.back_off(attempt - 1)
        raise Fenced(f"other nodes took {name!r} over {self._context.retry.attempts} times; send it again")

    def accept(
        self,
        stream: Stream,
        body: bytes,
        content_type: str,
        producer: tuple[str, int, int] | None,
        stream_seq: str | None,
        *,
        close: bool,
    ) -> Appended | None:
        """Buffer the append; the answer if it repeats another, which may be in flight. Under the lock."""
        if not body and not close:
            raise Refused(Refusal.INVALID, "an append without bytes appends nothing")
        manifest = self._context.check_visible(stream)
        self._check_unflagged(stream, manifest.incarnation)
        offset = manifest.offset(stream.tail)
        if manifest.closed or stream.closing is not None:
            by = stream.closing or manifest.closed_by
            if (producer is not None and by == producer) or (close and not body and producer is None):
                epoch, seq = (producer[1], producer[2]) if producer else (0, 0)
                return Appended(offset, duplicate=True, closed=True, epoch=epoch, seq=seq)
            raise Refused(Refusal.CLOSED, "the stream is closed", offset=offset)
        if body and content_type.lower() != manifest.content_type.lower():
            raise other_type(manifest.content_type, content_type)
        if producer is not None and (known := self._duplicate(stream, manifest, producer, offset)):
            return known
        last = next(
            (one.stream_seq for one in reversed(stream.records) if one.stream_seq), manifest.stream_seq
        )
        if stream_seq is not None and last is not None and stream_seq.encode() <= last.encode():
            raise Refused(Refusal.SEQUENCE, f"the sequence {stream_seq!r} is not after {last!r}")
        name, epoch, seq = producer or ("", 0, 0)
        record = Record(stream.tail, body, name, epoch, seq, stream_seq)
        if self._context.settings.durability is Durability.LOCAL and not close:
            self._context.state.add(stream.name, manifest.incarnation, stream.owner, [record])
            stream.committed = True
        if not stream.records:
            stream.since_ns = self._context.env.monotonic_ns()
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
        verdict = self._context.safeguards.producer_fence(last, epoch, seq)
        known = last or (epoch, -1)
        if verdict == "duplicate":
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

    def flush(self, stream: Stream, accepted: Accepted | None = None) -> None:
        """Seal what is buffered, upload it, list it. Returns when what was `accepted` is durable."""
        with stream.flushing:
            if accepted is not None and self._is_durable(accepted, stream.manifest):
                return
            with stream.lock:
                held, records, closing = stream.held, stream.records, stream.closing
            if accepted is not None and held != (accepted.incarnation, accepted.owner):
                if self._is_durable(accepted, self._context.load(stream)):
                    return
                raise Fenced(f"this node no longer owns {stream.name!r}")
            if not records and closing is None:
                if accepted is None:
                    return
                raise Fenced(f"what {stream.name!r} had accepted was dropped")
            changes = {} if closing is None else {"closed": True, "closed_by": closing}
            try:
                after = self.publish(stream, held, records, changes)
            except Fenced:
                raise
            except Exception:
                self._let_go(stream, Accepted(*held))  # what was in flight may have taken the key
                raise
            if accepted is not None and not self._is_durable(accepted, after):
                raise Fenced(f"what {stream.name!r} had accepted was dropped")

    def _is_durable(self, accepted: Accepted, manifest: Manifest | None) -> bool:
        return accepted.is_durable(manifest, self._context.segments_after)

    def _let_go(self, stream: Stream, accepted: Accepted) -> None:
        """Of this epoch: another thread may have taken the stream anew."""
        with stream.lock:
            if stream.held == (accepted.incarnation, accepted.owner):
                stream.let_go()

    def publish(
        self, stream: Stream, held: tuple[str, int], records: Sequence[Record], changes: dict[str, Any]
    ) -> Manifest:
        (incarnation, owner), manifest = held, stream.manifest
        if manifest is None or manifest.incarnation != incarnation or not owner:
            raise Fenced(f"this node does not own {stream.name!r}")
        body = b"".join(one.body for one in records)
        segment = None
        if body:
            start = records[0].start
            segment = Segment(owner, start, start + len(body), hashlib.sha256(body).hexdigest())
            self._check_unflagged(stream, incarnation)
            self._upload(manifest.segment_key(owner, start), body)
        parts = manifest.full(self._context.settings.index_width) if body else ()
        index = self._index(manifest, owner, parts) if parts else None
        producers = {one.producer: (one.epoch, one.seq) for one in records if one.producer}
        seqs = [one.stream_seq for one in records if one.stream_seq is not None]

        def move(found: Manifest | None) -> Manifest | None:
            if found is None or found.incarnation != incarnation:
                raise Fenced(f"the stream {stream.name!r} was deleted")
            if segment and segment == next(self._context.segments_after(found, segment.start), None):
                return None  # even if another node has taken the stream over since
            if found.owner != owner:
                raise Fenced(f"another node has taken {stream.name!r} over")
            if segment is None and found.closed:
                return None
            if segment is not None and found.tail != segment.start:
                raise Fenced(f"the segment does not follow the tail of {stream.name!r}")
            self._check_unflagged(stream, incarnation, buried=found.is_tombstone)
            now_ns = self._context.now_ns()
            before = found.indexed(parts, index) if index else found.segments
            return replace(
                found,
                segments=(*before, segment) if segment else before,
                tail=segment.end if segment else found.tail,
                producers={**found.producers, **producers},
                stream_seq=seqs[-1] if seqs else found.stream_seq,
                deadline_ns=now_ns + found.ttl_s * 10**9 if found.ttl_s is not None else found.deadline_ns,
                tombstone_ns=None,  # what an owner publishes is live
                **changes,
            )

        after = self._context.update(stream, move, self._context.safeguards.owner_fence)
        assert after is not None
        if segment is not None:
            self._context.remember(after.segment_key(owner, segment.start), body)
        with stream.lock:
            if stream.held == held:
                stream.records = [one for one in stream.records if one.end > after.tail]
                stream.closing = None if after.closed else stream.closing
            if stream.committed:
                self._context.state.trim(stream.name, incarnation, after.tail)
                stream.committed = bool(stream.records)
        self._context.on_change(stream.name)
        return after

    def _index(self, manifest: Manifest, owner: int, parts: Sequence[Segment]) -> Segment:
        """Upload the index of these entries. One epoch always writes the same bytes to its key."""
        body, count = write_index(parts), sum(one.count for one in parts)
        index = Segment(owner, parts[0].start, parts[-1].end, hashlib.sha256(body).hexdigest(), count)
        self._upload(manifest.key_of(index), body)
        self._context.remember(manifest.key_of(index), body)
        return index

    def _check_unflagged(self, stream: Stream, incarnation: str, *, buried: bool = False) -> None:
        flagged = buried or self._context.state.is_flagged(stream.name, incarnation)
        if not self._context.safeguards.uploader_filter(flagged):
            raise Refused(Refusal.MISSING, f"the stream {stream.name!r} was deleted")

    def _upload(self, key: str, body: bytes) -> None:
        """Create the segment. An existing object is an earlier attempt of this epoch, or foreign."""
        for attempt in range(self._context.retry.attempts):
            reply = self._context.store.send(Put(key, body, ABSENT))
            stored = reply.outcome is Outcome.DONE
            if reply.outcome is Outcome.EXISTS:
                stored = True  # only this epoch writes this key, and always these bytes
            if self._context.safeguards.segment_before_manifest(stored):
                return
            self._context.back_off(attempt)
        raise StoreUnavailable(f"the store did not take {key!r} in {self._context.retry.attempts} attempts")
