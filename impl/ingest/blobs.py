"""The frames as objects, named by their hash, and who may rely on a blob that another attempt stored.

The danger is one counterexample, *gc-stalled-writer*. A collector finds the orphan blob of a batch that was
never accepted, relies on it and is slow. Garbage collection finds the blob old and unreferenced and deletes
it. The collector creates its manifest: accepted, and the data gone. A second look before the answer does not
help, since the delete may itself be slow. The remedy is that a delete can never hit a blob that an attempt
may still rely on. There are two ways to that, chosen by what the bucket offers:

    plain bucket: no name is ever used again
        A blob's name carries its generation, the clock divided by the horizon H. A collector stores under
        the current generation, and sends a manifest only while that name is younger than 2 H. Garbage
        collection deletes a name older than 2 H + margin. So every reference to a name was written before
        the name may be deleted, and a delete, however slow, hits a name that no process writes again.
        Assumes bounded-landing and bounded-skew: they are the margin.

    versioned bucket: garbage collection deletes one version, the one it judged
        The name is the hash alone. A collector looks once more, after the manifest exists, at a blob that
        existed before, or that took longer than H from the blob to the manifest. If that version was younger
        than H when the manifest was created, by the store's own stamps of the two, then any later judgement
        sees the manifest. Otherwise it may have been judged before, and its delete be in flight: then the
        collector writes a new version, which no earlier judgement can hit, and answers only afterwards. The
        same rule holds for a duplicate. Assumes neither: ages are differences between two stamps of one
        clock, the store's, or two readings of the collector's. (The record of a conflict compares with the
        collector's clock.)

Large blobs go up in parts: nothing exists at the key until the last call, which alone carries the condition.
They differ from a put in the 409. On completing an upload it is final: the store compares the key with the
object that was there when the upload *began*, so the same completion gets 409 again, for ever, and only a new
upload can succeed. And a repeated completion whose first one was applied is answered "no such upload": so one
reads the key.
"""

from dataclasses import dataclass, field

from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.store import ABSENT, Matches
from fencepost.impl.store.requests import Absent, Condition, Head, ObjectInfo, Outcome, PutReply, UploadPart

UNSETTLED = frozenset({Outcome.CONFLICT, Outcome.THROTTLED, Outcome.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored blob, as far as one attempt knows."""

    key: str
    existed: bool
    """It existed before: from an earlier attempt, another collector, or another batch."""
    relied_ns: int
    """When its age begins; see `Blobs.reliable`."""


@dataclass(eq=False)
class Blobs(IngestContext):
    """The blobs of one bucket, as one collector sees them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.versioned = self.store.versioned()
        self._uploads = Uploads(self.store, self.env, self.settings, self.safeguards)

    def keep(self, sha256: str, body: bytes, *, wait: bool = True) -> Blob:
        """Store the blob, under a name that this attempt may rely on from now."""
        blob = self._blob(sha256)
        if not wait:
            self.store.put(blob.key, body, when=ABSENT)
            return blob
        reply = self._write(blob.key, body, ABSENT)
        return Blob(blob.key, reply.outcome is Outcome.EXISTS, blob.relied_ns)

    def reliable(self, blob: Blob) -> bool:
        """Return True if no delete of it can be in flight yet."""
        now_ns = self.env.monotonic_ns() if self.versioned else self.env.now_ns()
        return self.safeguards.gc_stalled_writer(blob.relied_ns, now_ns, self.settings.horizon_ns)

    def needs_check(self, blob: Blob) -> bool:
        """Return True if it must be checked once the manifest exists: a delete may already be in flight."""
        return self.versioned and blob.existed

    def look(self, key: str) -> ObjectInfo | None:
        return self.read(Head(key)).info

    def fresh(self, blob: Blob, sha256: str, body: bytes, seen: ObjectInfo | None) -> Blob:
        """A blob for a reference that is about to be written; `seen` is the object at its key."""
        if self.needs_check(blob):
            relied_ns, now_ns = self.env.monotonic_ns(), self.env.now_ns()
            if seen is not None and self._young(seen, now_ns):
                return Blob(blob.key, False, relied_ns - max(0, now_ns - seen.modified_ns))
            self._overwrite(blob.key, body, seen)
            return Blob(blob.key, False, relied_ns)
        if self.versioned:
            return blob
        return blob if self.reliable(blob) else self.keep(sha256, body)

    def restore(self, key: str, body: bytes, seen: ObjectInfo | None, made_ns: int | None) -> None:
        """Make the blob of an accepted batch permanent, by writing it again where necessary.

        `seen` was at the key after the manifest was created, at `made_ns` by the store's clock.
        """
        if not self.safeguards.duplicate_with_data(seen is not None):
            self._overwrite(key, body, None)
        elif seen is not None and self.versioned and not self._young(seen, made_ns):
            self._overwrite(key, body, seen)

    def _young(self, seen: ObjectInfo | None, at_ns: int | None) -> bool:
        """Return True if garbage collection could not have judged this object by then."""
        if seen is None or at_ns is None:
            return False
        return self.safeguards.gc_stalled_writer(seen.modified_ns, at_ns, self.settings.horizon_ns)

    def _blob(self, sha256: str) -> Blob:
        if self.versioned:
            return Blob(keys.raw_key(sha256), False, self.env.monotonic_ns())
        horizon_ns = self.settings.horizon_ns
        present = self.env.now_ns() // horizon_ns
        key = keys.raw_key(sha256, self.safeguards.gc_new_generation(present))
        return Blob(key, False, (present + 1) * horizon_ns)

    def _overwrite(self, key: str, body: bytes, seen: ObjectInfo | None) -> None:
        """Replace what was seen, which others may meanwhile have deleted or written again."""
        for attempt in range(self.settings.attempts_max):
            reply = self._write(key, body, ABSENT if seen is None else Matches(seen.etag))
            # Nothing was seen and an object exists now: it is younger than the look, so as good as ours.
            if reply.outcome in (Outcome.DONE, Outcome.EXISTS):
                return
            self.back_off(attempt)
            seen = self.look(key)
        raise StoreUnavailable(f"other writers keep changing {key}; try again later")

    def _write(self, key: str, body: bytes, when: Condition) -> PutReply:
        """Write it until the outcome is known."""
        if len(body) > self.settings.multipart_bytes:
            return self._uploads.write(key, body, when)
        for attempt in range(self.settings.attempts_max):
            reply = self.store.put(key, body, when=when)
            # Unknown, or not yet. Sending the same bytes again under the name they determine is harmless.
            if reply.outcome not in UNSETTLED:
                return reply
            if attempt + 1 < self.settings.attempts_max:
                self.back_off(attempt)
        raise StoreUnavailable(
            f"the store did not take the blob {key}: {reply.outcome} {reply.detail}".strip()
        )


@dataclass
class _Upload:
    """One upload, and the parts that the store has."""

    id: str
    etags: dict[int, str] = field(default_factory=dict)
    gone: bool = False
    """It was aborted: by an operator, a lifecycle rule, garbage collection."""


class Uploads(IngestContext):
    def write(self, key: str, body: bytes, when: Condition) -> PutReply:
        """Like a put with a known outcome."""
        size = self.settings.part_bytes
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        upload: _Upload | None = None
        reply = PutReply(Outcome.THROTTLED)
        for attempt in range(self.settings.attempts_max):
            if attempt:
                self.back_off(attempt - 1)
            if upload is None or upload.gone:
                begun = self.store.create_upload(key)
                upload = _Upload(begun.upload) if begun.done else None
            if upload is None or not self._send(key, upload, pieces):
                continue
            reply = self.store.complete_upload(key, upload.id, sorted(upload.etags.items()), when=when)
            if reply.outcome not in (*UNSETTLED, Outcome.GONE):
                if not reply.done:
                    self.store.abort_upload(key, upload.id)
                return reply
            if reply.outcome is Outcome.CONFLICT:
                upload = self._after_409(key, upload)
            elif reply.outcome is Outcome.GONE:
                upload = None
            if reply.outcome in (Outcome.GONE, Outcome.UNKNOWN) and isinstance(when, Absent):
                info = self.read(Head(key)).info
                if info is not None and info.size == len(body):
                    return PutReply(Outcome.EXISTS)
        raise StoreUnavailable(
            f"the store did not take the blob {key} in parts: {reply.outcome} {reply.detail}".strip()
        )

    def _send(self, key: str, upload: _Upload, pieces: list[bytes]) -> bool:
        """Send the parts that the store lacks; returns whether it has them all now."""
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
