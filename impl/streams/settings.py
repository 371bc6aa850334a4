"""The settings of one node; nodes of one prefix must agree on `landing_bound_s` and `skew_bound_s`."""

import enum
from dataclasses import dataclass

from fencepost.impl.context import RetryPolicy
from fencepost.impl.streams.errors import StoreUnavailable


class Durability(enum.StrEnum):
    LOCAL = "local"
    """An append is answered after the local commit. Losing the disk loses what was not uploaded."""
    STORE = "store"
    """An append is answered after the object store has it. Losing the disk loses nothing."""


@dataclass(frozen=True)
class Settings:
    durability: Durability = Durability.STORE
    node: str = "node"
    segment_bytes: int = 4 * 1024 * 1024
    """A segment is sealed at this size."""
    segment_age_s: float = 1.0
    """Under `local`, records are uploaded when the oldest is this old."""
    index_width: int = 64
    """Segments, or indexes of one size, that one index lists; at least 2. A manifest itself lists less than
    twice as many of each size."""
    chunk_bytes: int = 1024 * 1024
    """A read returns about so much at most."""
    cache_bytes: int = 64 * 1024 * 1024
    revalidate_s: float = 0.0
    """Seconds for which a node that does not own a stream serves reads by the manifest that it read last."""
    landing_bound_s: float = 60.0
    """Seconds after its sending within which a create may still be applied."""
    skew_bound_s: float = 1.0
    """Largest difference of two clocks, in seconds."""
    sweep_s: float = 5.0
    """Seconds between two ticks of the sweeper; 0 disables it."""
    reap_limit: int = 20
    """Streams reaped in one tick; the next follows at once if more are due."""
    reap_concurrency: int = 1
    """Streams reaped at once."""
    delete_concurrency: int = 4
    """Objects that a reap deletes at once."""
    list_passes: int = 5
    scan_s: float = 6 * 3600.0
    """Between two scans; 0 disables them."""
    attempts: int = 6
    backoff_s: float = 0.05

    @property
    def retry_policy(self) -> RetryPolicy:
        return RetryPolicy("streams", StoreUnavailable, self.attempts, self.backoff_s)

    @property
    def landing_bound_ns(self) -> int:
        return round(self.landing_bound_s * 1e9)

    @property
    def skew_bound_ns(self) -> int:
        return round(self.skew_bound_s * 1e9)


STANDARD_SETTINGS = Settings()
