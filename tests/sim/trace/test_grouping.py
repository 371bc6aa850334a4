"""Runs by catalog or identity: every event in one run, or counted as left out."""

import pytest

from fencepost.impl.store.events import Event
from fencepost.sim.trace import TraceError, events_of, grouped, table_of
from fencepost.sim.trace.grouping import find_grouping


def table(*keys: str) -> object:
    return table_of(
        Event("service", n, n, f"p{n % 2}", 0, n, "request", "put", key) for n, key in enumerate(keys)
    )


KEYS = ("team/a/x", "team/b/y", "team/a/z/w", "team", "agent=1/boot=2/3", "v1/agent=1/boot=9/4")


@pytest.mark.parametrize(
    ("by", "runs", "left_out"),
    [
        ("run", ["service"] * 6, 0),
        ("process", ["service/p0", "service/p1"] * 3, 0),
        ("prefix:1", ["team"] * 4 + ["agent=1", "v1"], 0),
        ("prefix:2", ["team/a", "team/b", "team/a", "agent=1/boot=2", "v1/agent=1"], 1),
        ("agent=([^/]+)/boot=([^/]+)/", ["1/2", "1/9"], 4),
        (r"team/(?:\()?(?P<which>[ab])", ["a", "b", "a"], 3),
    ],
)
def test_runs_are_named_by_the_key(by: str, runs: list[str], left_out: int) -> None:
    found, rest = grouped(table(*KEYS), by)
    assert [event.run for event in events_of(found)] == runs
    assert rest == left_out


@pytest.mark.parametrize("by", ["prefix:0", "prefix:x", "team", "team/("])
def test_a_senseless_grouping_is_refused(by: str) -> None:
    with pytest.raises(TraceError, match="grouping"):
        find_grouping(by, "run")
