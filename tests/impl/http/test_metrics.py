"""The metrics page has the exact format of Prometheus, and counts are exact."""

import os
import re
import threading
from pathlib import Path

import pytest

from fencepost.impl.http.metrics import BUCKETS_S, Family, Metrics
from fencepost.impl.http.shared_metrics import VARIABLE

LINE = re.compile(
    r"# HELP [a-z_]+ \S.*|# TYPE [a-z_]+ (counter|gauge|histogram)|"
    r'[a-z_]+(\{[a-z]+="([^"\\\n]|\\["\\n])*"\})? \S+'
)


def test_the_page() -> None:
    metrics = Metrics()
    some = metrics.counter("some_total", "Some.", "kind", ["a"])
    metrics.gauge("depth", "Now.", lambda: 2.5)
    took = metrics.histogram("took_seconds", "Time.")
    some.labels('b"\\\n').inc(12_345_678)
    took.observe(0.005)
    took.observe(99)
    page = metrics.exposition().decode()
    lines = page.splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert 'some_total{kind="a"} 0.0' in lines, "a value that never occurred is shown"
    assert 'some_total{kind="b\\"\\\\\\n"} 1.2345678e+07' in lines
    assert "depth 2.5" in lines
    buckets = [line for line in lines if line.startswith("took_seconds_bucket")]
    assert [line.rpartition(" ")[2] for line in buckets] == ["1.0"] * len(BUCKETS_S) + ["2.0"]
    assert "took_seconds_count 2.0" in lines
    assert page.endswith("\n")


def test_threads_lose_no_count() -> None:
    metrics = Metrics()
    some = metrics.counter("some_total", "Some.", "kind")

    def count() -> None:
        for _ in range(1000):
            some.labels("a").inc()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 'some_total{kind="a"} 4000.0\n' in metrics.exposition().decode()


def test_two_applications_of_one_process_count_separately() -> None:
    one, other = Metrics(), Metrics()
    one.counter("some_total", "Some.").inc()
    other.counter("some_total", "Some.")
    assert "some_total 1.0\n" in one.exposition().decode()
    assert "some_total 0.0\n" in other.exposition().decode()


def test_a_worker_that_starts_breaks_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is empty for a moment; what reads it would fail, and with it a scrape."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    metrics = Metrics()
    metrics.families(lambda: [Family("of_the_directory", "The same everywhere.", (), {(): 3.0})])
    starting = tmp_path / "counter_1.db"
    starting.touch()
    tries: list[None] = []

    def go_on() -> None:
        tries.append(None)
        if len(tries) == 3:
            starting.unlink()

    monkeypatch.setattr(os, "sched_yield", go_on)
    assert "of_the_directory 3.0\n" in metrics.exposition().decode()
    assert len(tries) == 3
