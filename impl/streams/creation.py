"""Creations and forks.

A creation of a name whose last incarnation is over deletes its data and replaces its tombstone in one swap.
Reaps and creations of one node exclude each other by `busy`, which refuses and never blocks.
"""

from dataclasses import replace

from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Outcome
from fencepost.impl.streams.appends import Appends
from fencepost.impl.streams.context import JSON, RIVALS_MAX, StreamContext
from fencepost.impl.streams.errors import Fenced, Refusal, Refused, StoreUnavailable, other_type
from fencepost.impl.streams.framing import base_type, inherited, to_stored
from fencepost.impl.streams.manifest import Manifest
from fencepost.impl.streams.reads import Reads
from fencepost.impl.streams.retention import Reaper
from fencepost.impl.streams.state import Record
from fencepost.impl.streams.stream import Configuration, Known, Stream


class Creation:
    def __init__(self, context: StreamContext, appends: Appends, reads: Reads) -> None:
        self._context = context
        self._appends = appends
        self._reads = reads

    def create(
        self, name: str, wanted: Configuration, body: bytes = b"", *, source: Manifest | None = None
    ) -> tuple[Manifest, bool]:
        """The stream, and whether it was created now. `source`: of a fork, whose bytes are `body`."""
        stream = self._context.stream(name)
        with self._context.exclusively(name, Fenced(f"this node works on {name!r} just now")):
            made = self._new(name, wanted, pending=bool(body), source=source)
            for attempt in range(RIVALS_MAX):
                found = self._context.load(stream)
                if found is not None and not self._context.is_over(found):
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
                    self._context.back_off(min(attempt, self._context.retry.attempts))
            else:
                raise StoreUnavailable(f"{name!r} could not be created in {RIVALS_MAX} attempts")
        with stream.lock:
            if stream.incarnation != made.incarnation:
                stream.let_go()
                stream.owner, stream.incarnation = 1, made.incarnation
        stream.touched_ns = self._context.now_ns()
        if body:
            changes = {"pending": False, "closed": wanted.closed}
            made = self._appends.publish(stream, (made.incarnation, 1), [Record(0, body)], changes)
        self._context.on_change(name)
        return made, True

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
            source = self._context.check_visible(self._context.visible(source_name, fresh=True))
        except Refused as error:
            if error.kind is Refusal.GONE:
                raise Refused(Refusal.EXISTS, f"the source {source_name!r} was deleted") from None
            raise
        if content_type and base_type(content_type) != base_type(source.content_type):
            raise other_type(source.content_type, content_type)
        bytes_ = self._reads.everything(source_name)
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

        existing = self._context.load(self._context.stream(name))
        if existing is None or self._context.is_over(existing):
            self._context.update(self._context.stream(source_name), refer)
        own = to_stored(body, source.content_type, empty_allowed=True)
        return self.create(name, wanted, bytes_[:end] + own, source=source)

    def _new(self, name: str, wanted: Configuration, *, pending: bool, source: Manifest | None) -> Manifest:
        now_ns = self._context.now_ns()
        return Manifest(
            name,
            self._context.safeguards.fresh_epoch(self._context.env.new_id()),
            source.lineage if source is not None else now_ns // 1000 % 10**16,
            wanted.content_type,
            now_ns,
            writer=self._context.writer,
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
            began = stream.known
            reply = self._context.store.put(made.key, made.body(), when=ABSENT, content_type=JSON)
            if reply.outcome is Outcome.DONE and not stream.learn(began, Known(made, reply.etag)):
                self._context.load(stream)
            return reply.outcome is Outcome.DONE
        Reaper(self._context).clear(stream, found.incarnation)

        def swap(now: Manifest | None) -> Manifest | None:
            if now is None or now.incarnation != found.incarnation or not now.is_tombstone:
                raise _Overtaken
            return replace(made, revision=now.revision)

        try:
            self._context.update(stream, swap)
        except _Overtaken:
            return False
        self._context.state.drop(stream.name, found.incarnation)
        return True


class _Overtaken(Exception):
    """Another node has changed what was to be replaced."""
