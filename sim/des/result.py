"""What a run came to, in numbers that depend on the set-up alone."""

from dataclasses import dataclass, field

from fencepost.sim.des.meter import Meter, Samples
from fencepost.sim.quantiles import percentiles

MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStats:
    """The successful operations of one name: latencies in milliseconds, the rest are means.

    The fields are the keys of the JSON, in this order.
    """

    count: int
    p50: float
    p99: float
    requests: float
    serial_hops: float
    p90: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    requests_max: int = 0
    serial_hops_max: int = 0
    retries: float = 0.0
    """Repetitions of an operation because another client was first."""
    bytes_sent: float = 0.0
    bytes_received: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    operations: dict[str, OperationStats]
    failed: dict[str, int]
    """Operations that did not succeed, by name and why."""
    throughput: float
    """Operations of the workload a second, over the window."""
    window_s: float
    """From when the first operation began until the last ended, or as long as the workload says."""
    requests: dict[str, int]
    """Requests that a bill would count, by kind: of operations and maintenance, but not of getting ready."""
    outcomes: dict[str, int]
    """Answers other than `done`, by kind and outcome."""
    faults: dict[str, int]
    saturation: dict[str, float]
    """The mean share of places taken, of each cap; and how long its queue was at the most."""
    counters: dict[str, float] = field(default_factory=dict)
    """Where the counters of a described path stood in the end."""
    parts: dict[str, float] = field(default_factory=dict)
    """Requests of an operation by the part of the described path that sent them."""
    latencies_ms: dict[str, list[float]] = field(default_factory=dict, repr=False)
    """Every operation's latency, in the order in which they ended."""


def statistics(meter: Meter) -> dict[str, OperationStats]:
    return {name: _stats(samples) for name, samples in sorted(meter.samples.items())}


def _stats(samples: Samples) -> OperationStats:
    count = len(samples.latency_ns)
    return OperationStats(
        count=count,
        **{name: _ms(value) for name, value in percentiles(samples.latency_ns).items()},
        max=_ms(max(samples.latency_ns)),
        mean=_ms(sum(samples.latency_ns) / count),
        requests=round(sum(samples.requests) / count, 4),
        serial_hops=round(sum(samples.hops) / count, 4),
        requests_max=max(samples.requests),
        serial_hops_max=max(samples.hops),
        retries=round(samples.retries / count, 4),
        bytes_sent=round(samples.bytes_sent / count, 1),
        bytes_received=round(samples.bytes_received / count, 1),
    )


def _ms(ns: float) -> float:
    return round(ns / MS, 6)
