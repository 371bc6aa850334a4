"""The example pipeline: what Spark reports is what the agents measured, however often a step is repeated."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.examples.pipeline.__main__ import HOURS, START, measure, publish, report
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest.query import HOUR_NS
from fencepost.impl.publish import Catalog
from fencepost.impl.store import open_store

pytestmark = pytest.mark.spark


def test_the_report_counts_every_point_once(session: Any, tmp_path: Path) -> None:
    env = SystemEnvironment()
    url = f"file://{tmp_path}/catalog"
    (tmp_path / "metrics").mkdir()
    with open_store(f"file://{tmp_path}/metrics") as store, Catalog.open(url, create=True) as catalog:
        for _ in range(2):
            measure(store, env)
            assert publish(store, env, catalog, START, START + HOURS * HOUR_NS) == 2 * HOURS
    found = {row.host: (row["mean"], row.points) for row in report(session, url)}
    mean = sum(0.5 * hour + at for hour in range(HOURS) for at in range(10)) / (10 * HOURS)
    assert found == {agent: (pytest.approx(mean), 10 * HOURS) for agent in ("agent-a", "agent-b")}
