"""Prometheus metrics of one application, in a registry of its own, so that two in one process do not mix.

metrics = Metrics()
refused = metrics.counter("fencepost_ingest_refused_total", "Refused requests, by kind.", "kind")
refused.labels("busy").inc()
metrics.exposition()
"""

from collections.abc import Callable, Iterable

from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["BUCKETS_S", "CONTENT_TYPE", "Counter", "Histogram", "Metrics"]

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()

    def counter(self, name: str, text: str, label: str = "", values: Iterable[str] = ()) -> Counter:
        """A counter with at most one label. The `values` known in advance appear as 0 from the start."""
        counter = Counter(name, text, [label] if label else (), registry=self._registry)
        for value in values:
            counter.labels(value)
        return counter

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A gauge whose value `read` returns whenever the metrics are read."""
        Gauge(name, text, registry=self._registry).set_function(read)

    def histogram(self, name: str, text: str) -> Histogram:
        """A histogram of durations in seconds."""
        return Histogram(name, text, buckets=BUCKETS_S, registry=self._registry)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)
