"""Object Lock for accepted batches: their manifests and blobs cannot be destroyed until a time, by anybody.

    Locking(store, env, settings, retain=retain, keep_s=365 * 86400).once()

Retention is set on the versions themselves, because a default retention of the bucket would hold garbage,
cursors and leases too. A lock adds to the bucket policy and does not replace it: a delete without a version
is allowed on a locked object, hides it behind a marker, and frees its name for another batch. So a pass also
reports each manifest that has a marker or a second version. The locked version still has what was accepted.

Batches are found by their places in time, from a durable cursor; `everything` locks all accepted batches, for
those whose places came late.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import AT_ONCE, Findings, IngestContext, Stop, never, portions
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.reconcile import by_time_cursor, time_of
from fencepost.impl.store.requests import ListVersions, VersionInfo

Retain = Callable[[str, str, int], bool]
"""Sets the retention of a version: its key, its version, and until when, in nanoseconds since 1970. A longer
one stays. Returns False when the version is not there."""


@dataclass
class Locked(Findings):
    batches: int = 0
    """Batches whose manifest and blob are locked now."""
    reopened: list[str] = field(default_factory=list)
    """Accepted manifests with a delete marker or a second version: something deleted what must stay."""


@dataclass(eq=False)
class Locking(IngestContext):
    """Locks what was accepted, in a bucket with versions and Object Lock."""

    retain: Retain = field(kw_only=True)
    keep_s: float = field(kw_only=True)
    """Seconds after its acceptance for which a batch is kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cursor = by_time_cursor(self, "lock")

    def once(self, stop: Stop = never) -> Locked:
        """Lock the batches behind the cursor, to the last one or until `stop`."""
        result = Locked()
        began_ns = self.env.now_ns()
        for some in portions(self.list_keys(keys.BY_TIME, self.cursor.start()), AT_ONCE):
            tracked = [key for key in some if time_of(key) <= began_ns]  # see `reconcile`
            for key in tracked:
                self.cursor.take(key)
            self._lock(self.read_manifests(some, result.damaged).values(), result)
            for key in tracked:
                self.cursor.done(key)
            if stop():
                break
        self.cursor.save()
        return result

    def everything(self) -> Locked:
        """Lock all accepted batches."""
        result = Locked()
        for some in portions(self.list_keys(keys.ACCEPTED), AT_ONCE):
            self._lock(self.read_manifests(some, result.damaged).values(), result)
        return result

    def _lock(self, found: Iterable[Manifest], result: Locked) -> None:
        for manifest in found:
            until_ns = manifest.accepted_at_unix_ns + round(self.keep_s * 1e9)
            accepted = list(self._versions(manifest.key))
            if len(accepted) > 1 or any(one.marker for one in accepted):
                result.reopened.append(manifest.key)
            blobs = [one for one in self._versions(manifest.raw_blob_key) if not one.marker]
            if not blobs:
                result.missing.append(manifest.key)
                continue
            versions = [one for one in (*accepted, *blobs) if not one.marker]
            kept = [self.retain(one.key, one.version, until_ns) for one in versions]
            if all(kept):
                result.batches += 1
            else:
                result.missing.append(manifest.key)

    def _versions(self, key: str) -> Iterator[VersionInfo]:
        for page in self.pages(lambda token: ListVersions(key, token=token)):
            yield from (one for one in page.versions if one.key == key)
