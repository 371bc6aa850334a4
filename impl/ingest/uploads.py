"""Large blobs, in parts: nothing stands at the key until the last call, which alone carries the condition.

What differs from a put is the 409. On completing an upload it is for good: the store compares the key with
what stood there when the upload *began*, so asking again is answered 409 again, for ever, and only a new
upload can succeed. And a repeated completion whose first one landed is told that there is no such upload:
so one looks at the key.
"""

from dataclasses import dataclass, field

from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.store.requests import Absent, Condition, Head, Outcome, PutReply, UploadPart


@dataclass
class _Upload:
    """One upload, and which of its parts the store has."""

    id: str
    etags: dict[int, str] = field(default_factory=dict)
    gone: bool = False
    """Somebody aborted it: an operator, a lifecycle rule, garbage collection."""


class Uploads(IngestContext):
    """Writes one object in parts."""

    def write(self, key: str, body: bytes, when: Condition) -> PutReply:
        """Like a put that was answered."""
        pieces = self._cut(body)
        upload: _Upload | None = None
        reply = PutReply(Outcome.THROTTLED)
        for attempt in range(self.settings.attempts_max):
            if attempt:
                self.retry.back_off(self.env, attempt - 1)
            if upload is None or upload.gone:
                upload = self._begin(key)
            if upload is None or not self._send(key, upload, pieces):
                continue
            reply = self.store.complete_upload(key, upload.id, sorted(upload.etags.items()), when=when)
            if reply.outcome not in (Outcome.CONFLICT, Outcome.UNKNOWN, Outcome.THROTTLED, Outcome.GONE):
                return self._settled(key, upload, reply)
            if reply.outcome is Outcome.CONFLICT:
                upload = self._after_409(key, upload)
            elif reply.outcome is Outcome.GONE:
                upload = None
            unclear = reply.outcome in (Outcome.GONE, Outcome.UNKNOWN)
            if unclear and isinstance(when, Absent) and self._stands(key, len(body)):
                return PutReply(Outcome.EXISTS)
        raise StoreUnavailable(
            f"the store did not take the blob {key} in parts: {reply.outcome} {reply.detail}".strip()
        )

    def _cut(self, body: bytes) -> list[bytes]:
        size = self.settings.part_bytes
        return [body[at : at + size] for at in range(0, len(body), size)]

    def _begin(self, key: str) -> _Upload | None:
        reply = self.store.create_upload(key)
        return _Upload(reply.upload) if reply.done else None

    def _send(self, key: str, upload: _Upload, pieces: list[bytes]) -> bool:
        """Send the parts the store does not have yet; whether it has them all now."""
        missing = [number for number in range(1, len(pieces) + 1) if number not in upload.etags]
        replies = self.store.send_all(
            [UploadPart(key, upload.id, number, pieces[number - 1]) for number in missing]
        )
        for number, reply in zip(missing, replies, strict=True):
            if reply.done:
                upload.etags[number] = reply.etag
            upload.gone |= reply.outcome is Outcome.GONE
        return len(upload.etags) == len(pieces)

    def _after_409(self, key: str, upload: _Upload) -> _Upload | None:
        if self.safeguards.new_upload_on_multipart_409(upload.id) == upload.id:
            return upload
        self.store.abort_upload(key, upload.id)
        return None

    def _settled(self, key: str, upload: _Upload, reply: PutReply) -> PutReply:
        if not reply.done:
            self.store.abort_upload(key, upload.id)
        return reply

    def _stands(self, key: str, size: int) -> bool:
        info = self.retry.read(self.store, self.env, Head(key)).info
        return info is not None and info.size == size
