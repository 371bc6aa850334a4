"""Described write paths whose writers contend for one key: refused, counted, begun again."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.results import to_json
from fencepost.sim.scenarios import BadScenario, Order, perform, read
from fencepost.sim.trace.schema import Problem

PATH = """operation = "append"
{top}
[[step]]
name = "read"
key = "head"

[[step]]
name = "write"
kind = "put"
key = "head"
{when}
"""
SCENARIO = """[store]
latency = "10 ms"
[workload]
system = "described"
path = "p.toml"
operations = 60
[sweep]
writers = [1, 20]
"""


def runs(folder: Path, when: str, top: str = "") -> list[dict[str, Any]]:
    (folder / "p.toml").write_text(PATH.format(when=when, top=top))
    (folder / "s.toml").write_text(SCENARIO)
    found = to_json(perform(Order(read(folder / "s.toml"), jobs=1)))
    json.dumps(found, allow_nan=False)
    made: list[dict[str, Any]] = found["runs"]
    return made


@pytest.mark.parametrize(("when", "outcome"), [("absent", "exists"), ("match", "changed")])
def test_writers_of_one_key_conflict_and_begin_again(tmp_path: Path, when: str, outcome: str) -> None:
    """Twenty writers of one key without a single conflict would be a silently optimistic answer."""
    alone, many = runs(tmp_path, f'when = "{when}"')
    assert alone["counters"]["conflicts"] == 0
    assert alone["operations"]["append"]["retries"] == 0
    conflicts = many["counters"]["conflicts"]
    assert conflicts > 60
    assert sum(many["outcomes"].values()) == conflicts
    assert any(outcome in name for name in many["outcomes"])
    stats = many["operations"]["append"]
    assert stats["count"] == 60
    assert stats["retries"] == pytest.approx(conflicts / 60, abs=1e-3)
    assert stats["requests"] == pytest.approx(2 + 2 * conflicts / 60, abs=1e-3)


def test_every_success_is_one_version(tmp_path: Path) -> None:
    """At most one writer wins each round trip: sixty appends take sixty of them, however many writers."""
    _, many = runs(tmp_path, 'when = "match"')
    assert many["throughput"] < 1 / 0.010


def test_without_a_condition_nobody_conflicts(tmp_path: Path) -> None:
    _, many = runs(tmp_path, "")
    assert "conflicts" not in many["counters"]
    assert many["operations"]["append"]["requests"] == 2


def test_an_operation_that_is_refused_too_often_fails(tmp_path: Path) -> None:
    _, many = runs(tmp_path, 'when = "match"', "attempts = 1")
    assert sum(many["failed"].values()) == many["counters"]["conflicts"] > 0


@pytest.mark.parametrize(
    "line", ['when = "absent"\nkind = "get"', 'when = "soon"', 'key = ""', 'when = "match"\nkind = "delete"']
)
def test_a_condition_belongs_to_a_put_of_a_key(line: str, tmp_path: Path) -> None:
    kind = "" if "kind" in line else 'kind = "put"'
    (tmp_path / "p.toml").write_text(f'[[step]]\nname = "w"\n{kind}\n{line}\n')
    (tmp_path / "s.toml").write_text(SCENARIO)
    with pytest.raises(BadScenario):
        to_json(perform(Order(read(tmp_path / "s.toml"), jobs=1)))


def test_a_problem_counts_its_lines() -> None:
    assert Problem("f", "has 3 more lines that are no events", 3).lines == 3
