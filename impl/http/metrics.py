"""Prometheus metrics of one application, in a registry of its own, so that two in one process do not mix.

metrics = Metrics()
refused = metrics.counter("fencepost_ingest_refused_total", "Refused requests, by kind.", "kind")
refused.labels("busy").inc()
metrics.exposition()
"""

import contextlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

from fencepost.impl.http.shared_metrics import VARIABLE, forget_ended

__all__ = ["BUCKETS_S", "CONTENT_TYPE", "Counter", "Family", "Histogram", "Metrics"]

_TRIES = 100
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class Family:
    """A metric whose values are read together, each under the values of its labels."""

    name: str
    text: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]

    def metric(self) -> GaugeMetricFamily | CounterMetricFamily:
        kind = CounterMetricFamily if self.name.endswith("_total") else GaugeMetricFamily
        metric = kind(self.name, self.text, labels=self.labels)
        for labels, value in self.values.items():
            metric.add_metric(labels, value)
        return metric


class _Families:
    def __init__(self, read: Callable[[], Iterable[Family]]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        for family in self._read():
            yield family.metric()

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing, so that nothing is read before the metrics are."""
        return []


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._shared = os.environ.get(VARIABLE, "")
        self._gauges: list[tuple[Gauge, Callable[[], float]]] = []
        self._families: list[_Families] = []

    def counter(self, name: str, text: str, label: str = "", values: Iterable[str] = ()) -> Counter:
        """A counter with at most one label. The `values` known in advance appear as 0 from the start."""
        counter = Counter(name, text, [label] if label else (), registry=self._registry)
        for value in values:
            counter.labels(value)
        return counter

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A gauge whose value `read` returns whenever the metrics are read, or at the last `refresh`."""
        if self._shared:
            gauge = Gauge(name, text, registry=self._registry, multiprocess_mode="livesum")
            self._gauges.append((gauge, read))
        else:
            Gauge(name, text, registry=self._registry).set_function(read)

    def families(self, read: Callable[[], Iterable[Family]]) -> None:
        """Metrics that `read` returns whenever they are read, the same in every process of a server."""
        self._families.append(_Families(read))
        self._registry.register(self._families[-1])

    def refresh(self) -> None:
        """Show the gauges of this process to the others that share their metrics."""
        for gauge, read in self._gauges:
            gauge.set(read())

    def histogram(self, name: str, text: str) -> Histogram:
        """A histogram of durations in seconds."""
        return Histogram(name, text, buckets=BUCKETS_S, registry=self._registry)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format, summed over the processes that share them."""
        if self._shared:
            self.refresh()
            forget_ended(self._shared)
            registry = CollectorRegistry()
            MultiProcessCollector(registry, self._shared)  # type: ignore[no-untyped-call]  # of the library
            for families in self._families:
                registry.register(families)
            for _ in range(_TRIES):
                with contextlib.suppress(struct.error):  # a worker that starts has an empty file for a moment
                    return generate_latest(registry)
                os.sched_yield()
            return generate_latest(registry)
        return generate_latest(self._registry)
