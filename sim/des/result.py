"""The result of one simulated run: numbers that depend on its set-up alone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

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
    """The mean share of places taken, of each cap; how long its queue was at the most; and of a client's cap,
    the most requests in flight at one moment, and their mean number while there are any."""
    counters: dict[str, float] = field(default_factory=dict)
    """Counters of a described path at the end of the run."""
    parts: dict[str, float] = field(default_factory=dict)
    """Requests of an operation by the part of the described path that sent them."""
    latencies_ms: dict[str, list[float]] = field(default_factory=dict, repr=False)
    """Every operation's latency, in the order in which they ended."""


class Measured:
    """The samples of one operation, and what several measures of it share."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.count = len(samples.latency_ns)

    @cached_property
    def percentiles_ns(self) -> dict[str, float]:
        return percentiles(self.samples.latency_ns)

    def mean(self, total: float, digits: int = 4) -> float:
        return round(total / self.count, digits)


class Measure(NamedTuple):
    of: Callable[[Measured], float]
    unit: str = ""


MEASURES: dict[str, Measure] = {
    "count": Measure(lambda found: found.count),
    "p50": Measure(lambda found: _ms(found.percentiles_ns["p50"]), "ms"),
    "p90": Measure(lambda found: _ms(found.percentiles_ns["p90"]), "ms"),
    "p99": Measure(lambda found: _ms(found.percentiles_ns["p99"]), "ms"),
    "max": Measure(lambda found: _ms(max(found.samples.latency_ns)), "ms"),
    "mean": Measure(lambda found: _ms(sum(found.samples.latency_ns) / found.count), "ms"),
    "requests": Measure(lambda found: found.mean(sum(found.samples.requests))),
    "serial_hops": Measure(lambda found: found.mean(sum(found.samples.hops))),
    "requests_max": Measure(lambda found: max(found.samples.requests)),
    "serial_hops_max": Measure(lambda found: max(found.samples.hops)),
    "retries": Measure(lambda found: found.mean(found.samples.retries)),
    "bytes_sent": Measure(lambda found: found.mean(found.samples.bytes_sent, 1)),
    "bytes_received": Measure(lambda found: found.mean(found.samples.bytes_received, 1)),
}
"""The value of each field of `OperationStats`. Checks and objectives of a scenario can name every measure."""


def statistics(meter: Meter) -> dict[str, OperationStats]:
    """Return the statistics of every operation, by name."""
    return {name: _stats(Measured(samples)) for name, samples in sorted(meter.samples.items())}


def _stats(found: Measured) -> OperationStats:
    values: dict[str, Any] = {name: measure.of(found) for name, measure in MEASURES.items()}
    return OperationStats(**values)


def _ms(ns: float) -> float:
    return round(ns / MS, 6)
