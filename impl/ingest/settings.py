"""The times and sizes of ingest, and how they depend on each other.

accepted, acknowledged                                orphans may be deleted
├──────────────── horizon_s ────────────────┤── margin ──┤──────────────────────→  age of a blob
  an acceptance may rely on the blob            a request may still be in flight
"""

import enum
from dataclasses import dataclass, field

from fencepost.impl.context import RetryPolicy
from fencepost.impl.ingest.errors import SettingsError, StoreUnavailable
from fencepost.impl.ingest.frames import LIMITS, Limits


class Mode(enum.StrEnum):
    LOCAL_SPOOL = "local_spool"
    """A single collector: its own durable disk; the bucket follows."""
    S3_MANIFEST = "s3_manifest"
    """Any number of collectors: the create in the bucket. No bucket, no acceptance."""


@dataclass(frozen=True, slots=True)
class SpoolBound:
    """What may wait on the disk of a collector in `local_spool` mode, and how many batches land at once."""

    batches: int = 100_000
    """The bytes of a frame are counted while its batch waits; conflicts stay on the disk uncounted."""
    bytes: int = 4 * 1024**3
    landing: int = 8


SPOOL_BOUND = SpoolBound()


@dataclass(frozen=True)
class Settings:
    """All of one deployment must agree on `horizon_s` and the two bounds."""

    acceptance: Mode = Mode.S3_MANIFEST
    horizon_s: float = 24 * 3600.0
    """Seconds for which an acceptance may rely on a stored blob."""
    landing_bound_s: float = 3600.0
    """Seconds after its sending within which a request may still be applied (`bounded-landing`)."""
    skew_bound_s: float = 300.0
    """Largest difference of two clocks, the store's included, in seconds (`bounded-skew`)."""
    attempts_max: int = 5
    """Number of times that one request of an acceptance is sent before the agent gets a 503."""
    pause_s: float = 0.05
    """The first pause between attempts; they double, each shortened by a random share."""
    retry_after_s: float = 1.0
    """The `Retry-After` of a 503."""
    multipart_bytes: int = 16 * 1024 * 1024
    """Larger blobs go up in parts."""
    part_bytes: int = 8 * 1024 * 1024
    overlap_s: float = 900.0
    """Seconds behind its cursor at which a reconciler starts, for late, skewed and lost batches."""
    checkpoint_items: int = 500
    checkpoint_s: float = 10.0
    limits: Limits = field(default=LIMITS)

    def __post_init__(self) -> None:
        for name in ("horizon_s", "landing_bound_s", "skew_bound_s", "overlap_s", "pause_s"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it cannot be negative")
        if self.horizon_s <= 0 or self.attempts_max < 1 or self.checkpoint_items < 1:
            raise SettingsError("horizon_s, attempts_max and checkpoint_items must be positive")

    @property
    def retry_policy(self) -> RetryPolicy:
        return RetryPolicy("ingest", StoreUnavailable, self.attempts_max, self.pause_s)

    @property
    def horizon_ns(self) -> int:
        return round(self.horizon_s * 1e9)

    @property
    def margin_ns(self) -> int:
        """Between the last moment an attempt may rely on a blob and the first it may be deleted."""
        return round((self.landing_bound_s + 2 * self.skew_bound_s) * 1e9)

    @property
    def overlap_ns(self) -> int:
        return round(self.overlap_s * 1e9)

    @property
    def late_ns(self) -> int:
        """Nanoseconds after its acceptance from which a batch's place in time may be behind every cursor."""
        return max(0, round((self.overlap_s - self.skew_bound_s) * 1e9))


STANDARD_SETTINGS = Settings()
