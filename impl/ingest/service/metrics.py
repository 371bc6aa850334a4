"""Counters and gauges in Prometheus' text format.

Written out by hand because all that is needed is one format of one page of text.

    metrics = Metrics()
    metrics.count("fencepost_ingest_requests_total", status="200")
    metrics.text()
"""

import threading
from collections.abc import Callable, Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Named at the start, so that what never happened is shown as 0 and not missing."""

    def __init__(self) -> None:
        self._help: dict[str, tuple[str, str]] = {}
        self._values: dict[str, dict[_Labels, float]] = {}
        self._gauges: dict[str, Callable[[], float]] = {}
        self._times: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._lock = threading.Lock()

    def counter(self, name: str, text: str, labels: Iterable[Mapping[str, str]] = ({},)) -> None:
        self._help[name] = ("counter", text)
        self._values[name] = {_sorted(some): 0 for some in labels}

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._help[name] = ("gauge", text)
        self._gauges[name] = read

    def histogram(self, name: str, text: str) -> None:
        self._help[name] = ("histogram", text)
        self._times[name] = [0] * (len(BUCKETS_S) + 1)
        self._sums[name] = 0.0

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        values = self._values[name]
        at = _sorted(labels)
        with self._lock:
            values[at] = values.get(at, 0) + by

    def time(self, name: str, seconds: float) -> None:
        at = next((at for at, limit in enumerate(BUCKETS_S) if seconds <= limit), len(BUCKETS_S))
        with self._lock:
            self._times[name][at] += 1
            self._sums[name] += seconds

    def value(self, name: str, **labels: str) -> float:
        """Of a counter."""
        return self._values[name].get(_sorted(labels), 0)

    def text(self) -> str:
        lines: list[str] = []
        for name, (kind, text) in self._help.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += {"counter": self._counted, "gauge": self._gauged, "histogram": self._timed}[kind](name)
        return "".join(f"{line}\n" for line in lines)

    def _counted(self, name: str) -> list[str]:
        return [
            f"{name}{_shown(labels)} {_number(value)}" for labels, value in list(self._values[name].items())
        ]

    def _gauged(self, name: str) -> list[str]:
        return [f"{name} {_number(self._gauges[name]())}"]

    def _timed(self, name: str) -> list[str]:
        lines: list[str] = []
        total = 0
        for limit, count in zip([*map(str, BUCKETS_S), "+Inf"], self._times[name], strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{limit}"}} {total}')
        return [*lines, f"{name}_sum {self._sums[name]:.6f}", f"{name}_count {total}"]


def _sorted(labels: Mapping[str, str]) -> _Labels:
    return tuple(sorted(labels.items()))


def _shown(labels: _Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
