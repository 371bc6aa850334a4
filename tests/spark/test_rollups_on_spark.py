"""The rollups of a bucket as a DataFrame: the sums that `totals` and queries show."""

import math
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest import Accepted, Authority, Identity, Point, encode, roll_up, totals
from fencepost.impl.ingest.keys import hour_path
from fencepost.impl.store import open_store

pytestmark = pytest.mark.spark

NOW = 1_760_000_000_000_000_000
HOUR = 3600 * 10**9
ENV = SystemEnvironment()


def test_a_dataframe_of_all_rollups(session: Any, tmp_path: Path) -> None:
    """Several entries, late points, strange names, NaN and infinities; more chunks than one task reads."""
    from fencepost.impl.ingest.spark import RollupSource

    url = f"file://{tmp_path}/store"
    (tmp_path / "store").mkdir()
    with open_store(url) as store:
        for number in range(6):
            points = [
                Point("cpu/load:1m", {"host": "a", "ü": "x y"}, NOW - number % 3 * HOUR, float(number)),
                Point("disk", {}, NOW, math.inf if number == 2 else math.nan if number == 3 else 1.0),
            ]
            identity = Identity("agent-a", "boot-1", number, number)
            ann = Authority(store, ENV, "ann")
            answer = ann.accept(identity, encode(identity, points))
            assert isinstance(answer, Accepted)
            ann.follow_up(answer.manifest)
            if number % 2:
                roll_up(store, ENV)
        expected = totals(store, ENV)
    session.dataSource.register(RollupSource)
    frame = session.read.format("fencepost-rollups").options(store=url, chunks="3").load()
    assert frame.rdd.getNumPartitions() > 1
    found: dict[Any, tuple[int, float, int]] = {}
    for row in frame.collect():
        place = row.metric, hour_path(int(row.hour.timestamp()) * 10**9), tuple(sorted(row.labels.items()))
        count, total, nan = found.get(place, (0, 0.0, 0))
        found[place] = count + row["count"], total + row["sum"], nan + row["nan"]
    assert found == {
        (metric, hour, labels): (one.count, one.sum, one.nan)
        for (metric, hour), series in expected.items()
        for labels, one in series.items()
    }


def test_an_unknown_option_is_refused(session: Any) -> None:
    from fencepost.impl.ingest.spark import RollupSource

    session.dataSource.register(RollupSource)
    known = {"store": "file:///x"}
    for options, message in (
        ({}, "needs option 'store'"),
        ({**known, "n": "1"}, "option 'n'"),
        ({**known, "chunks": "0"}, "'chunks' is '0'"),
    ):
        with pytest.raises(Exception, match=message):
            session.read.format("fencepost-rollups").options(**options).load()
