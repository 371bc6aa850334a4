"""Accepting a batch: it is accepted at the create of its identity manifest, and at no other moment.

    authority = Authority(store, env, "collector-1")
    frame = check_batch(agent, identity, body, content_encoding)     # may raise Refused
    match authority.accept(identity, body):
        case Accepted(duplicate=False, manifest=m): ...              # 200; afterwards authority.follow_up(m)
        case Accepted(duplicate=True): ...                           # 200, and nothing more to do
        case Conflict(): ...                                         # 409: the agent parks it
        case Unavailable(): ...                                      # 503: the agent tries again

The steps, each one round trip:

    1  create the blob                        exists: its name is its hash, continue
    2  create the manifest                    done: accepted
    3  exists: read it                        same hash: a duplicate; another: a conflict
    4  duplicate: check that its blob exists  missing: write it again, from the bytes in memory
       conflict: write the record of it

In a versioned bucket a blob that existed before is checked after the manifest was created, see `blobs`: with
the third step, or as a third step of an acceptance.

A request without an answer, with a 409 or a 503 is sent again, a few times with pauses between. After a
create with a lost reply the manifest is read back: it carries the attempt that wrote it. If the outcome stays
unknown, the answer is `Unavailable`: the batch may be accepted, which its next attempt will find out.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from fencepost.impl.environment import Environment
from fencepost.impl.ingest.blobs import Blob, Blobs
from fencepost.impl.ingest.documents import JSON, ConflictRecord, Manifest
from fencepost.impl.ingest.errors import Damaged, FrameError, Refusal, Refused, StoreUnavailable
from fencepost.impl.ingest.frames import FRAME_VERSION, LIMITS, WIRE_VERSION, Frame, Limits, read
from fencepost.impl.ingest.indexes import derive
from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.safeguards import STANDARD, Meaning, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.store import ABSENT, Outcome
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Get, Head, ObjectInfo, Put


@dataclass(frozen=True, slots=True)
class Accepted:
    """The batch is in the bucket, permanently. `duplicate`: since an earlier attempt."""

    duplicate: bool
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another batch has this identity. Nothing of this one is accepted; it is in quarantine."""

    existing: Manifest
    offered: Manifest
    record_key: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The outcome is unknown; try again."""

    reason: str
    retry_after_s: float


Answer = Accepted | Conflict | Unavailable


def check_batch(
    authenticated_agent: str,
    identity: Identity,
    body: bytes,
    content_encoding: str | None = None,
    *,
    limits: Limits = LIMITS,
    safeguards: Safeguards = STANDARD,
    turn: Callable[[], None] = lambda: None,
) -> Frame:
    """The frame in `body`, if this sender may send it under this identity; otherwise raises `Refused`.

    `turn` is called between the pieces of the work, see `frames.read`.
    """
    if not safeguards.identity_bound_to_agent(authenticated_agent, identity.agent):
        raise Refused(
            Refusal.FOREIGN_AGENT,
            f"the sender is agent {authenticated_agent!a}, the batch belongs to agent {identity.agent!a}",
        )
    if content_encoding not in (None, "", "identity"):
        raise Refused(
            Refusal.ENCODED,
            f"Content-Encoding {content_encoding[:40]!a} is not supported: "
            "the hash is over the bytes as sent, compress inside the frame",
        )
    if len(body) > limits.frame_bytes:
        raise Refused(
            Refusal.TOO_LARGE, f"the frame has {len(body)} bytes, the limit is {limits.frame_bytes}"
        )
    try:
        frame = read(body, limits, turn)
    except FrameError as error:
        raise Refused(Refusal.BAD_FRAME, str(error)) from None
    if frame.identity != identity:
        raise Refused(
            Refusal.MISMATCH, f"the frame names batch {frame.identity}, it was sent as batch {identity}"
        )
    return frame


@dataclass(frozen=True, slots=True)
class _Offer:
    """One attempt to have a batch accepted."""

    identity: Identity
    body: bytes = field(repr=False)
    sha256: str
    attempt: str


@dataclass(frozen=True, slots=True)
class _Found:
    """The accepted batch of this identity."""

    manifest: Manifest
    made_ns: int
    """When, by the store's clock."""
    blob: ObjectInfo | None
    """This attempt's own blob, where that had to be checked too."""


class Authority:
    """The acceptance authority, a bucket and prefix, as one collector uses it."""

    def __init__(
        self,
        store: Store,
        env: Environment,
        collector_id: str,
        settings: Settings = STANDARD_SETTINGS,
        *,
        safeguards: Safeguards = STANDARD,
        on_accepted: Callable[[Manifest], object] | None = None,
    ) -> None:
        """`on_accepted` updates live state: once per batch accepted by this collector, before the answer."""
        self.store = store
        self.env = env
        self.collector_id = collector_id
        self.settings = settings
        self.safeguards = safeguards
        self.blobs = Blobs(store, env, settings, safeguards)
        self._on_accepted = on_accepted or (lambda _: None)

    def accept(self, identity: Identity, body: bytes) -> Answer:
        """Accept the batch, if possible; the caller has checked `body` by `check_batch`."""
        offer = _Offer(identity, body, hashlib.sha256(body).hexdigest(), self.env.new_id())
        try:
            for _ in range(self.settings.attempts_max):
                blob = self.blobs.keep(offer.sha256, offer.body, wait=self.safeguards.blob_before_manifest())
                ended = self._create(offer, blob)
                if ended is not None:
                    return ended
            reason = "this collector was too slow for its own blobs; try again later"
        except (StoreUnavailable, Damaged) as error:
            reason = str(error)
        return Unavailable(reason, self.settings.retry_after_s)

    def follow_up(self, manifest: Manifest) -> None:
        """Write the index objects of an accepted batch, after the answer. Otherwise the reconciler does."""
        derive(self.blobs, [manifest])

    def _create(self, offer: _Offer, blob: Blob) -> Answer | None:
        """Create the manifest, or read the existing one; None when the blob became too old meanwhile."""
        manifest = self._manifest(offer, blob)
        put = Put(manifest.key, manifest.body(), self.safeguards.create_only_manifest(), JSON)
        for attempt in range(self.settings.attempts_max):
            if not self.blobs.versioned and not self.blobs.reliable(blob):
                return None
            reply = self.store.send(put)
            meaning = self._meaning(reply.outcome)
            if meaning is Meaning.CREATED:
                return self._created(offer, blob, manifest)
            if meaning is Meaning.DUPLICATE:
                return Accepted(True, manifest)
            if meaning is Meaning.LOOK:
                found = self._look(manifest.key, blob)
                if found is not None:
                    return self._answer(offer, blob, found)
            if attempt + 1 < self.settings.attempts_max:
                self.blobs.back_off(attempt)
        raise StoreUnavailable(f"it is unknown whether {manifest.key} exists: {reply.outcome}")

    def _meaning(self, outcome: Outcome) -> Meaning:
        if outcome is Outcome.CONFLICT:
            return self.safeguards.conflict_proves_nothing()
        if outcome is Outcome.UNKNOWN:
            return self.safeguards.read_back_on_unknown()
        return _MEANINGS[outcome]

    def _look(self, key: str, blob: Blob) -> _Found | None:
        """The accepted batch of the identity, and our own blob where that needs a check."""
        wanted = [Get(key), Head(blob.key)] if self.blobs.needs_check(blob) else [Get(key)]
        manifest, *seen = self.blobs.read_all(wanted)
        if manifest.info is None:
            return None
        return _Found(
            Manifest.read(manifest.body, key), manifest.info.modified_ns, seen[0].info if seen else None
        )

    def _created(self, offer: _Offer, blob: Blob, manifest: Manifest) -> Answer:
        if self.blobs.needs_check(blob) or not self.blobs.reliable(blob):
            wanted = [Head(manifest.key), Head(manifest.raw_blob_key)]
            made, seen = self.blobs.read_all(wanted)
            made_ns = made.info.modified_ns if made.info is not None else None
            self.blobs.restore(manifest.raw_blob_key, offer.body, seen.info, made_ns)
        self._update_live_state(manifest, created=True)
        return Accepted(False, manifest)

    def _answer(self, offer: _Offer, blob: Blob, found: _Found) -> Answer:
        """Answer by the accepted batch of the identity."""
        existing = found.manifest
        if existing.attempt == offer.attempt:
            return self._created(offer, blob, existing)
        self._update_live_state(existing, created=False)
        if not self.safeguards.compare_after_412(existing.frame_sha256, offer.sha256):
            return self._conflict(offer, blob, found)
        seen = found.blob if existing.raw_blob_key == blob.key else None
        seen = seen or self.blobs.look(existing.raw_blob_key)
        self.blobs.restore(existing.raw_blob_key, offer.body, seen, found.made_ns)
        return Accepted(True, existing)

    def _update_live_state(self, manifest: Manifest, *, created: bool) -> None:
        if self.safeguards.effects_after_create(created):
            self._on_accepted(manifest)

    def _conflict(self, offer: _Offer, blob: Blob, found: _Found) -> Conflict:
        """Record that two batches claim one identity, and keep the second one's bytes."""
        blob = self.blobs.fresh(blob, offer.sha256, offer.body, found.blob)
        offered = self._manifest(offer, blob)
        record = _record(offered, found.manifest)
        puts = [Put(record.key, record.body(), ABSENT, JSON)]
        if found.blob is None:
            # Otherwise an earlier attempt wrote it, or the audit will, which must precede any delete.
            puts.append(Put(record.by_blob_key, record.body(), ABSENT, JSON))
        # Another attempt's record differs by the time only: either will do.
        self.blobs.ensure_all(puts)
        if not self.blobs.reliable(blob):
            # This process stalled for hours: the blob in the record may be deleted, or about to be.
            self.blobs.restore(blob.key, offer.body, self.blobs.look(blob.key), None)
        return Conflict(found.manifest, offered, record.key)

    def _manifest(self, offer: _Offer, blob: Blob) -> Manifest:
        return Manifest(
            **offer.identity.fields,
            frame_sha256=offer.sha256,
            frame_bytes=len(offer.body),
            raw_blob_key=blob.key,
            accepted_at_unix_ns=self.env.now_ns(),
            collector_id=self.collector_id,
            wire_version=WIRE_VERSION,
            frame_version=FRAME_VERSION,
            attempt=offer.attempt,
        )


def _record(offered: Manifest, existing: Manifest) -> ConflictRecord:
    return ConflictRecord(
        **offered.identity.fields,
        accepted_manifest_key=existing.key,
        accepted_raw_blob_key=existing.raw_blob_key,
        accepted_frame_sha256=existing.frame_sha256,
        submitted_raw_blob_key=offered.raw_blob_key,
        submitted_frame_sha256=offered.frame_sha256,
        observed_at_unix_ns=offered.accepted_at_unix_ns,
        collector_id=offered.collector_id,
    )


_MEANINGS = {
    Outcome.DONE: Meaning.CREATED,
    Outcome.EXISTS: Meaning.LOOK,
    Outcome.THROTTLED: Meaning.AGAIN,
}
