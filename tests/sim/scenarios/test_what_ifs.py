"""What the paragraphs of the shipped scenarios say is what their runs show; sweeps cut to what it takes."""

import json
from typing import Any

import pytest

from fencepost.results import to_json
from fencepost.sim.scenarios import Order, load, perform, shipped

Runs = dict[Any, dict[str, Any]]


def runs(name: str, *sweeps: str) -> Runs:
    """By the value of the first swept key."""
    found = to_json(perform(Order(load(name), sweeps=sweeps, jobs=1)))
    return {next(iter(run["parameters"].values())): run for run in found["runs"]}


def stat(found: Runs, operation: str, name: str) -> list[float]:
    return [run["operations"][operation][name] for run in found.values()]


def test_writers_that_race_get_hardly_more_done_together() -> None:
    found = runs("publish-writers", "writers=1,4", "operations=100")
    assert found[1]["operations"]["publish"]["retries"] == 0 < found[4]["operations"]["publish"]["retries"]
    assert found[4]["throughput"] < 1.5 * found[1]["throughput"]
    assert found[4]["throughput_per_writer"] < 0.5 * found[1]["throughput_per_writer"]
    assert found[4]["operations"]["publish"]["requests"] > 1.5 * found[1]["operations"]["publish"]["requests"]


def test_group_commit_grows_with_its_writers() -> None:
    found = runs("group-writers", "writers=1,4,16", "operations=200")
    assert found[16]["throughput"] > 2 * found[4]["throughput"] > 2 * found[1]["throughput"]
    assert found[16]["operations"]["publish"]["requests"] < found[4]["operations"]["publish"]["requests"]
    assert found[16]["failed"] == {}


def test_a_long_window_trades_time_for_money_not_for_throughput() -> None:
    found = runs("group-window", "window=0 ms,10 ms,500 ms", "duration=5 s")
    none, short, long = stat(found, "publish", "p50")
    assert short == pytest.approx(none, rel=0.15)
    assert long > 1.5 * none
    assert found["500 ms"]["dollars_month"] < 0.7 * found["0 ms"]["dollars_month"]
    assert found["500 ms"]["throughput"] == pytest.approx(found["0 ms"]["throughput"], rel=0.15)


def test_near_saturation_the_tail_multiplies_before_the_median_tells() -> None:
    found = runs("cap-tail", "store.in_flight=unlimited,16,10,9,7")
    median, tail = (
        {
            cap: run["operations"]["accept"][name] / found["unlimited"]["operations"]["accept"][name]
            for cap, run in found.items()
        }
        for name in ("p50", "p99")
    )
    taken = {cap: run["saturation"]["store"] for cap, run in found.items() if cap != "unlimited"}
    assert median[16] == pytest.approx(1, rel=0.05), "a wide cap costs nothing"
    assert tail[16] == pytest.approx(1, rel=0.05)
    assert 0.7 < taken[10] < 0.9
    assert median[10] < 1.2 < 1.8 < tail[10]
    assert taken[9] > 0.9
    assert tail[9] > 2.5
    assert found[7]["throughput"] < 0.95 * found["unlimited"]["throughput"], "arrivals exceed capacity"
    assert median[7] > 10


def test_an_uncompacted_catalog_is_a_straight_line_over_history() -> None:
    found = runs("history-depth", "depth=8,200,400,600")
    at = {depth: run["operations"]["commit"]["p50"] for depth, run in found.items()}
    assert at[400] - at[200] == pytest.approx(at[600] - at[400], rel=0.15)
    assert at[8] < 250 < 500 < at[200]


def test_compaction_bounds_latency_and_costs_its_own_requests() -> None:
    found = runs("history-compaction", "maintenance.compaction=never,100,20", "operations=300")
    never, seldom, often = stat(found, "commit", "p99")
    assert never > 2 * seldom > 2 * often
    assert found[20]["operations"]["compaction"]["count"] == 15


def test_our_publish_does_not_depend_on_history_once_it_is_warm() -> None:
    found = runs("history-publish", "depth=0,200", "operations=40")
    none, deep = stat(found, "publish", "p50")
    assert deep == pytest.approx(none, rel=0.1)
    assert deep < 500


def test_our_publish_reads_few_fragments_when_it_is_opened() -> None:
    found = runs("history-publish", "depth=0,1000", "operations=40")
    none, deep = (run["operations"]["publish"]["requests_max"] for run in found.values())
    assert none < deep < none + 30


def test_writers_that_share_tables_do_not_pay_for_depth() -> None:
    """Once 14 requests a publish grew to 51 over 400 commits: each read the changed table again."""
    found = runs("history-shared", "depth=0,400", "operations=40")
    shallow, deep = stat(found, "publish", "requests")
    assert deep < 1.25 * shallow
    assert found[400]["dollars_million"] < 1.25 * found[0]["dollars_million"]


def test_the_tail_of_lost_responses_is_the_time_out() -> None:
    found = runs("lost-publish", "reply_lost=0 %,1 %", "operations=200")
    none, lost = stat(found, "publish", "p50")
    assert lost == pytest.approx(none, rel=0.2), "the median hides it"
    _, tail = stat(found, "publish", "p99")
    assert 2000 < tail < 3000


def test_a_shorter_time_out_is_a_shorter_tail_until_it_pays_twice() -> None:
    found = runs("lost-ingest", "client.timeout=50 ms,250 ms,5 s", "duration=20 s", "reply_lost=3 %")
    eager, short, long = stat(found, "accept", "p99")
    assert max(eager, short) < 0.2 * long
    assert long > 5000
    eager_requests, short_requests, _ = stat(found, "accept", "requests")
    assert eager_requests > 1.05 * short_requests


def test_a_publish_is_round_trips_times_distance() -> None:
    found = runs("regions", "operations=150")
    near, middle, far = stat(found, "publish", "p50")
    assert near < middle < far
    assert far / near == pytest.approx(160 / 15, rel=0.35)


def test_the_reconciler_pays_for_what_arrived() -> None:
    found = runs("ingest-maintenance", "rate=5/s,50/s", "duration=20 s")
    few, many = stat(found, "reconcile", "requests")
    assert many == pytest.approx(10 * few, rel=0.4)


def test_the_bill_of_ingest_is_a_straight_line_and_that_of_groups_is_not() -> None:
    alone = runs("dollars-ingest", "rate=10/s,100/s", "duration=5 s")
    a_write = [run["dollars_million"] for run in alone.values()]
    assert a_write[1] == pytest.approx(a_write[0], rel=0.1)
    grouped = runs("dollars-group", "rate=10/s,100/s,300/s", "duration=5 s")
    a_write = [run["dollars_million"] for run in grouped.values()]
    assert a_write[0] > 3 * a_write[1] > 6 * a_write[2]


def test_beyond_a_prefix_rate_latency_jumps() -> None:
    found = runs("prefix-rates", "rate=200/s,450/s", "duration=6 s")
    below, beyond = stat(found, "accept", "p99")
    assert beyond > 4 * below
    assert found["450/s"]["outcomes"]["put throttled"] > 100
    assert "put throttled" not in found["200/s"]["outcomes"]


def test_crashes_cost_requests_and_throughput() -> None:
    found = runs("crashes", "crash=1/h,600/h", "duration=15 s")
    assert found["600/h"]["faults"]["crash"] > 3
    assert found["600/h"]["throughput"] < found["1/h"]["throughput"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_shipped_scenario_runs_as_it_is_shipped(name: str) -> None:
    found = to_json(perform(Order(load(name), jobs=1)))
    json.dumps(found, allow_nan=False)
    assert all(check["ok"] or check["misses"] for check in found["checks"])
    assert found["verdict"] == ("violated" if any(o["broken_runs"] for o in found["objectives"]) else "holds")
    assert all(run["operations"] for run in found["runs"])
