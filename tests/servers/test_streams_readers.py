"""Thousands of readers of one stream, as `nox -s bench -- streams-readers` measures them."""

from pathlib import Path

import pytest

from bench.streams import ours
from bench.streams_readers import allow_files, reading, silent

pytestmark = [pytest.mark.server, pytest.mark.slow]
READERS = 2000


def test_readers_that_do_not_read_cost_neither_memory_nor_time(tmp_path: Path) -> None:
    """1,900 of them and two appends took 18.9 GB; with 150 the server did not answer for nine seconds."""
    allow_files(READERS)
    with ours(tmp_path / "store", "store", "--connections", str(READERS + 100)) as target:
        found = silent(target, READERS, appends=3, size=4_000_000)
    assert found["memory_worst_mib"] < 400
    assert found["healthz_p50_ms"] < max(200, 20 * found["healthz_before_ms"])
    assert found["healthz_worst_ms"] < 3000, "on a machine that has more to do"


def test_readers_that_read_all_get_everything(tmp_path: Path) -> None:
    allow_files(READERS)
    with ours(tmp_path / "store", "store", "--connections", str(READERS + 100)) as target:
        found = reading(target, READERS, messages=5)
    assert found["server_cpu_us_a_delivery"] < 100, "137 when each reader read and encoded for itself"
