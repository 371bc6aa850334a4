"""Reads by offset: what the manifest lists, and under durability `local` what this node accepted."""

from fencepost.impl.streams.context import StreamContext
from fencepost.impl.streams.errors import Damaged, Refusal, Refused
from fencepost.impl.streams.manifest import Manifest
from fencepost.impl.streams.settings import Durability
from fencepost.impl.streams.state import Record
from fencepost.impl.streams.stream import Chunk, Stream


class Reads:
    def __init__(self, context: StreamContext) -> None:
        self._context = context

    def read_from(self, name: str, offset: str = "-1") -> Chunk:
        """Return the bytes after the offset, up to about `chunk_bytes`."""
        stream = self._context.visible(name)
        self._context.touch(stream)
        manifest = self._context.check_visible(stream)
        local, tail = self._local(stream, manifest), self.tail_of(stream, manifest)
        start = tail if offset == "now" else manifest.position(offset)
        if start > tail:
            raise Refused(Refusal.INVALID, f"the offset {offset} is behind the end of the stream")
        try:
            return self._chunk(manifest, start, local)
        except Damaged:
            now = self._context.load(stream)
            self._context.check_visible(stream)
            if now is None or now.incarnation != manifest.incarnation:
                raise Refused(Refusal.GONE, f"the stream {name!r} was replaced while it was read") from None
            raise  # the manifest is live, and what it lists is not there

    def _chunk(self, manifest: Manifest, start: int, local: list[Record]) -> Chunk:
        pieces: list[bytes] = []
        at = start
        for segment in self._context.segments_after(manifest, start):
            if pieces and at - start >= self._context.settings.chunk_bytes:
                return Chunk(manifest, b"".join(pieces), start, at, up_to_date=False)
            pieces.append(self._context.segment(manifest, segment)[at - segment.start :])
            at = segment.end
        for record in local:
            if record.end > at:
                pieces.append(record.body[at - record.start :])
                at = record.end
        return Chunk(manifest, b"".join(pieces), start, at, up_to_date=True)

    def tail_of(self, stream: Stream, manifest: Manifest) -> int:
        """Where the stream ends for a reader."""
        local = self._local(stream, manifest)
        return local[-1].end if local else manifest.tail

    def _local(self, stream: Stream, manifest: Manifest) -> list[Record]:
        """Records that only this node has: readers get them under durability `local` alone."""
        if (
            self._context.settings.durability is Durability.STORE
            or stream.incarnation != manifest.incarnation
        ):
            return []
        return [one for one in stream.records if one.end > manifest.tail]

    def everything(self, name: str) -> bytes:
        found, offset = b"", "-1"
        while True:
            chunk = self.read_from(name, offset)
            found, offset = found + chunk.body, chunk.manifest.offset(chunk.end)
            if chunk.up_to_date:
                return found
