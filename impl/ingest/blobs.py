"""The frames as objects, named by their hash, and who may rely on one that somebody else stored.

The danger is one counterexample, *gc-stalled-writer*: a collector meets the orphan blob of a batch that was
never
accepted, relies on it and is slow; garbage collection finds it old and unreferenced and deletes it; the
collector creates its manifest: accepted, and the data gone. Looking again before answering is no help,
since the delete may itself be slow. What helps is that a delete can never hit what somebody
may still rely on, and there are two ways to that, chosen by what the bucket offers:

    plain bucket: names are never used again
        A blob's name carries its generation, the clock divided by the horizon H. A collector stores under
        the generation of now, and sends a manifest only while that name is younger than 2 H. Garbage
        collection deletes a name older than 2 H + margin. So whatever refers to a name came before
        anybody may delete it, and a delete, however slow, hits a name that nobody will write again.
        Asks for bounded-landing and bounded-skew: they are the margin.

    versioned bucket: garbage collection deletes one version, the one it judged
        The name is the hash alone. What stood before, or took longer than H from the blob to the manifest,
        is looked at when the manifest stands: was that version younger than H as the manifest was made, by
        the store's own stamps of the two, then whoever judges it later sees the manifest. Else it may have
        been judged before, and its delete be under way: then a new version is written, which no judgement
        from before can hit, and only then comes the answer. A duplicate is answered by the same rule.
        Asks for neither: ages are differences between two stamps of one clock, the store's, or two readings
        of one's own. (The record of a conflict compares with the collector's clock.)
"""

from dataclasses import dataclass

from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.ingest.uploads import Uploads
from fencepost.impl.store import ABSENT, Matches
from fencepost.impl.store.requests import Condition, Head, ObjectInfo, Outcome, PutReply


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob that stands, as far as one attempt knows."""

    key: str
    stood: bool
    """It was there before: an earlier attempt's, another collector's, or another batch's."""
    relied_ns: int
    """From when on its age is counted; see `Blobs.reliable`."""


@dataclass(eq=False)
class Blobs(IngestContext):
    """The blobs of one bucket, as one collector sees them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.versioned = self.store.versioned()
        self._uploads = Uploads(self.store, self.env, self.settings, self.safeguards)

    def keep(self, sha256: str, body: bytes, *, wait: bool = True) -> Blob:
        """Have the blob stand, under a name that may be relied on from now."""
        blob = self._blob(sha256)
        if not wait:
            self.store.put(blob.key, body, when=ABSENT)
            return blob
        reply = self._write(blob.key, body, ABSENT)
        return Blob(blob.key, reply.outcome is Outcome.EXISTS, blob.relied_ns)

    def reliable(self, blob: Blob) -> bool:
        """Whether nobody can be deleting it yet."""
        now_ns = self.env.monotonic_ns() if self.versioned else self.env.now_ns()
        return self.safeguards.gc_stalled_writer(blob.relied_ns, now_ns, self.settings.horizon_ns)

    def doubtful(self, blob: Blob) -> bool:
        """Whether it must be looked at once the manifest stands: somebody may be deleting it already."""
        return self.versioned and blob.stood

    def look(self, key: str) -> ObjectInfo | None:
        """What stands at a blob's key."""
        return self.retry.read(self.store, self.env, Head(key)).info

    def fresh(self, blob: Blob, sha256: str, body: bytes, seen: ObjectInfo | None) -> Blob:
        """A blob that a record may refer to which is about to be written; `seen`: what stands there."""
        if self.doubtful(blob):
            relied_ns, now_ns = self.env.monotonic_ns(), self.env.now_ns()
            if seen is not None and self._young(seen, now_ns):
                return Blob(blob.key, False, relied_ns - max(0, now_ns - seen.modified_ns))
            self._overwrite(blob.key, body, seen)
            return Blob(blob.key, False, relied_ns)
        if self.versioned:
            return blob
        return blob if self.reliable(blob) else self.keep(sha256, body)

    def mend(self, key: str, body: bytes, seen: ObjectInfo | None, made_ns: int | None) -> None:
        """Have the blob of an accepted batch stand for good.

        `seen` stood at the key after the manifest was made, and `made_ns` says when by the store's clock.
        """
        if not self.safeguards.duplicate_with_data(seen is not None):
            self._overwrite(key, body, None)
        elif seen is not None and self.versioned and not self._young(seen, made_ns):
            self._overwrite(key, body, seen)

    def _young(self, seen: ObjectInfo | None, at_ns: int | None) -> bool:
        """Whether what was seen could not have been judged by then."""
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
        """Write it, over what was seen; what was seen may be gone meanwhile, and be made again by another."""
        for attempt in range(self.settings.attempts_max):
            reply = self._write(key, body, ABSENT if seen is None else Matches(seen.etag))
            # Nothing was seen and something stands: it is younger than the look, so as good as ours.
            if reply.outcome in (Outcome.DONE, Outcome.EXISTS):
                return
            self.retry.back_off(self.env, attempt)
            seen = self.look(key)
        raise StoreUnavailable(f"{key} keeps changing under us; ask again later")

    def _write(self, key: str, body: bytes, when: Condition) -> PutReply:
        """Write it, and know what became of that."""
        if len(body) > self.settings.multipart_bytes:
            return self._uploads.write(key, body, when)
        for attempt in range(self.settings.attempts_max):
            reply = self.store.put(key, body, when=when)
            # Not known, or not yet. Sending the same bytes to the name they give once more is harmless.
            if reply.outcome not in UNSETTLED:
                return reply
            if attempt + 1 < self.settings.attempts_max:
                self.retry.back_off(self.env, attempt)
        raise StoreUnavailable(
            f"the store did not take the blob {key}: {reply.outcome} {reply.detail}".strip()
        )


UNSETTLED = frozenset({Outcome.CONFLICT, Outcome.THROTTLED, Outcome.UNKNOWN})
