"""Objectives, prices and measures, on results made by hand: what is counted, and in which direction."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.results import to_json
from fencepost.sim.des import Setup, Workload, simulate
from fencepost.sim.des.result import Result
from fencepost.sim.quantiles import percentiles
from fencepost.sim.scenarios import BadScenario, Order, outcome, perform, read
from fencepost.sim.scenarios.judging import measure, numeric
from fencepost.sim.scenarios.keys import PRICES
from fencepost.sim.scenarios.outcome import dollars_million, dollars_month
from fencepost.sim.scenarios.result import SimulatedRun

SCENARIO = """[store]
latency = "10 ms"
[workload]
system = "described"
path = "p.toml"
operations = 10
[sweep]
depth = [0, 1, 2, 3, 4]
"""
PATH = """[counters]
old = { grows = 0 }
[[step]]
name = "chain"
count = "1 + old"
"""


def result(**given: Any) -> Result:
    fields: dict[str, Any] = {
        "operations": {},
        "failed": {},
        "throughput": 10.0,
        "window_s": 100.0,
        "requests": {},
        "outcomes": {},
        "faults": {},
        "saturation": {},
    }
    return Result(**{**fields, **given})


def test_a_month_has_thirty_days_of_the_same() -> None:
    """$0.005 a thousand puts: one put a second is 2,592 thousand a month."""
    one_a_second = result(requests={"put": 100})
    assert dollars_month(one_a_second, PRICES) == 12.96
    assert dollars_month(result(requests={"get": 100, "delete": 10**6}), PRICES) == 1.04
    assert dollars_month(result(requests={"get": 100}), {**PRICES, "get": 1.0}) == 2_592_000.0


def test_a_million_operations_cost_their_requests() -> None:
    """1,000 operations with 7 puts each: $0.035 a thousand of them."""
    assert dollars_million(result(requests={"put": 7000}), PRICES) == 35.0
    assert dollars_million(result(throughput=0.0), PRICES) == 0.0


def objectives(tmp_path: Path, text: str) -> list[dict[str, Any]]:
    (tmp_path / "p.toml").write_text(PATH)
    file = tmp_path / "s.toml"
    file.write_text(f"{SCENARIO}[objectives]\n{text}\n")
    found: list[dict[str, Any]] = to_json(perform(Order(read(file), jobs=1)))["objectives"]
    return found


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('"write.p99" = "< 31 ms"', 3),
        ('"write.p99" = "< 30 ms"', 2),
        ('"write.p99" = "< 51 ms"', None),
        ('throughput = "> 24/s"', 4),
        ('throughput = "> 40 % of first"', 2),
        ('"write.requests" = "< 2"', 1),
        ('"part.chain" = "< 4"', 3),
        ('"counter.old" = "< 4"', 4),
        ('failed = "< 1"', None),
        ('dollars_million = "< 1"', 2),
        ('dollars_month = "> 1"', None),
    ],
)
def test_the_first_value_that_breaks_an_objective(tmp_path: Path, text: str, first: int | None) -> None:
    """At depth d a write takes (1 + d) times ten milliseconds: 10, 20, 30, 40, 50."""
    (row,) = objectives(tmp_path, text)
    assert row.get("first_broken") == (None if first is None else {"workload.depth": first})
    assert row["broken_runs"] == (0 if first is None else 5 - first)


def test_results_are_json_whatever_is_swept(tmp_path: Path) -> None:
    """No limit and never are no numbers, and JSON knows no infinity."""
    (tmp_path / "p.toml").write_text(f'{PATH}[maintenance.merge]\n[[maintenance.merge.step]]\nname = "one"\n')
    file = tmp_path / "s.toml"
    file.write_text(
        SCENARIO.replace("depth = [0, 1, 2, 3, 4]", '"client.in_flight" = ["unlimited", 4]')
        + '"maintenance.merge" = ["never", 5, "1 s"]\n'
        + '"store.latency" = ["1 ms", { p50 = "2 ms", p99 = "3 ms" }]\n'
    )
    found = to_json(perform(Order(read(file), jobs=1)))
    json.dumps(found, allow_nan=False)
    assert found["runs"][0]["values"] == {"store.latency": 1.0}
    assert found["runs"][-1]["values"] == {
        "client.in_flight": 4.0,
        "workload.maintenance.merge": 1000.0,
        "store.latency": 2.0,
    }
    assert found["units"] == {"store.latency": "ms"}


def test_what_never_succeeded_reaches_nothing() -> None:
    run = SimulatedRun(
        parameters={}, operations={}, failed={"write: gone": 3}, throughput=0.0, dollars_month=0.0
    )
    assert measure(run, "write.p99") is None
    assert measure(run, "part.x") is None
    assert measure(run, "failed") == 3.0


def test_settings_as_numbers() -> None:
    assert numeric("store.latency", {"default": 5_000_000}) == 5.0
    assert numeric("store.latency", {"default": {"p50": 7_000_000, "p99": 9_000_000}}) == 7.0
    assert numeric("workload.window", 3_000_000) == 3.0
    assert numeric("workload.writers", 4) == 4.0
    assert numeric("client.in_flight", None) == float("inf")
    assert numeric("workload.maintenance.x", (50, None)) == 50.0
    assert numeric("workload.maintenance.x", (None, 2_000_000_000)) == 2000.0


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([5], "p50", 5),
        ([2, 1], "p50", 1),
        ([1, 2, 3], "p50", 2),
        (list(range(1, 101)), "p99", 99),
        (list(range(1, 102)), "p99", 100),
    ],
)
def test_percentiles_are_values_by_nearest_rank(values: list[int], share: str, expected: int) -> None:
    assert percentiles(values)[share] == expected
    assert percentiles([0, *values], [0] + [1] * len(values))[share] == expected, "values with counts"


def test_getting_ready_is_not_billed() -> None:
    """A thousand writers that open handles would otherwise outweigh what they do."""
    found = simulate(Setup(Workload("publish", writers=1, operations=10)))
    asked = found.operations["publish"].requests * 10
    assert sum(found.requests.values()) == pytest.approx(asked)


def test_a_file_that_cannot_be_finished_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads results.json reads a whole one, or the one before."""
    target = tmp_path / "results.json"
    outcome.replace_file(target, b"the one before")

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BadScenario, match="No space left on device"):
        outcome.replace_file(target, b"another")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"the one before"]


@pytest.mark.parametrize(
    ("measured", "misses", "verdict"),
    [
        ("22 ms", "", "holds"),
        ("30 ms", "", "violated"),
        ("30 ms", 'misses = "it was measured elsewhere"', "holds"),
        ("22 ms", 'misses = "it was measured elsewhere"', "violated"),
    ],
)
def test_a_reason_to_miss_is_needed_while_the_number_is_missed(
    tmp_path: Path, measured: str, misses: str, verdict: str
) -> None:
    """At depth 1 a write takes 20 ms. A reason that is no longer needed would hide the next error."""
    (tmp_path / "p.toml").write_text(PATH)
    file = tmp_path / "s.toml"
    file.write_text(
        f'{SCENARIO}[[check]]\nname = "wall"\nmeasure = "write.p50"\nat = {{ depth = 1 }}\n'
        f'measured = "{measured}"\ntolerance = "15 %"\n{misses}\n'
    )
    assert perform(Order(read(file), jobs=1)).verdict == verdict
