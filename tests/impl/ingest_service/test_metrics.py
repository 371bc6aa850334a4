"""The page for Prometheus: its format to the letter, and numbers that stay numbers."""

import re
import threading
import time
from typing import Any

from fencepost.impl.ingest.service.metrics import BUCKETS_S, Metrics

LINE = re.compile(
    r"# HELP [a-z_]+ \S.*|# TYPE [a-z_]+ (counter|gauge|histogram)|"
    r'[a-z_]+(\{[a-z]+="([^"\\\n]|\\["\\n])*"\})? \S+'
)


def made() -> Metrics:
    metrics = Metrics()
    metrics.counter("some_total", "Some.", [{"kind": "a"}])
    metrics.gauge("depth", "Now.", lambda: 2.5)
    metrics.histogram("took_seconds", "Time.")
    return metrics


def test_the_page() -> None:
    metrics = made()
    metrics.count("some_total", 12_345_678, kind='b"\\\n')
    metrics.time("took_seconds", 0.005)
    metrics.time("took_seconds", 99)
    lines = metrics.text().splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert 'some_total{kind="a"} 0' in lines, "what never happened is shown"
    assert 'some_total{kind="b\\"\\\\\\n"} 12345678' in lines
    assert "depth 2.5" in lines
    buckets = [line for line in lines if line.startswith("took_seconds_bucket")]
    assert [line.rpartition(" ")[2] for line in buckets] == ["1"] * len(BUCKETS_S) + ["2"]
    assert lines[-1] == "took_seconds_count 2"
    assert metrics.text().endswith("\n")


class Slow(dict[Any, float]):
    """Between its answer and what is done with it another thread has its turn."""

    def get(self, key: Any, default: float = 0) -> float:
        found = super().get(key, default)
        time.sleep(0.0005)
        return found


def test_threads_lose_no_count() -> None:
    metrics = made()
    metrics._values["some_total"] = Slow()

    def count() -> None:
        for _ in range(10):
            metrics.count("some_total", kind="a")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 'some_total{kind="a"} 40\n' in metrics.text()
