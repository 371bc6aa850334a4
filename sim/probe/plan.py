"""Amounts of work of a probe: the more, the stronger the evidence."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """The bounds of one probe."""

    rounds: int = 100
    """Seconds for each race, at most."""
    seconds: float = 60.0
    """For everything but the sweep; shared out among the features, the races get what the rest leaves."""
    seed: int = 0
    """Chooses what the mixed workload does."""
    threads: int = 8
    processes: int = 4
    body_bytes: int = 65_536
    """Of racing puts: a body that takes a while to read keeps a store's check and write apart."""
    large_bytes: tuple[int, ...] = (MIB + 1, 8 * MIB + 1)
    """Sizes on which each condition is tried once more: servers write large bodies on another path, and the
    SDK's transfer manager turns bodies from 8 MiB on into uploads in parts."""
    keys: int = 1_100
    """For paging: more than S3 lists on one page."""
    page: int = 1_000
    samples: int = 100
    """Samples of each latency."""
    operations: int = 1_600
    """Of the mixed workload that is checked for linearizability."""


QUICK = Plan(rounds=20, seconds=15, large_bytes=(), keys=250, page=100, samples=20, operations=400)
THOROUGH = Plan(rounds=1_000, seconds=900, keys=3_300, samples=400, operations=8_000)
