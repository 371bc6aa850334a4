"""Writers slow down, and stop, while cleanup lags behind them; they send no request more for it."""

from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog, GroupCommit, Invalid, Overdue, Pressure, Published
from fencepost.impl.publish.pressure import OFF, Debt
from fencepost.impl.store.layers import Metered
from fencepost.impl.store.memory import MemoryStore

from .scripted import Crashed, Scripted

LIMITS = Pressure(slow_after=10, refuse_after=30, slowest_s=1.0)


def add(number: int) -> Any:
    return lambda txn: txn.upsert("t", [{"id": number, "n": number}])


def opened(commits: int, pressure: Pressure = LIMITS) -> tuple[Catalog, Metered]:
    """A catalog with so many manifests, and a handle that has just opened it."""
    metered = Metered(MemoryStore(env=SeededEnvironment(1)))
    with Catalog.open(metered, author="meter", create=True, pressure=OFF) as catalog:
        catalog.write(lambda txn: txn.create_table("t", {"id": "int64", "n": "int64"}, key="id"))
        while catalog.manifest.id < commits:
            catalog.write(add(catalog.manifest.id))
    return Catalog.open(metered, author="ann", mode="join", pressure=pressure), metered


def test_the_debt_is_what_waits_for_cleanup() -> None:
    catalog, metered = opened(12)
    assert catalog.debt == Debt(manifests=12, plans=0)
    catalog.cleanup(keep=3)
    assert Catalog.open(metered, mode="join").debt == Debt(manifests=3, plans=0)
    assert Catalog.open(metered, mode="claim").debt.manifests == 4, "the claim is one more"
    assert Catalog.open(metered, mode="read").debt.manifests == 4


def test_a_plan_that_nobody_has_ended_is_a_part_of_the_debt() -> None:
    catalog, metered = opened(5)
    catalog.close()
    dying = Scripted(metered)
    dying.crash_before("put", "branch/main/manifest/")
    with pytest.raises(Crashed):
        Catalog.open(dying, mode="join").write(add(1))
    assert Catalog.open(metered, mode="join", grace_s=60).debt == Debt(manifests=5, plans=1)
    assert Catalog.open(metered, mode="join", grace_s=0).debt.plans == 0, "it is over"


@pytest.mark.parametrize(("debt", "pause_s"), [(0, 0), (9, 0), (10, 0.1), (14, 0.5), (19, 1), (10**9, 1)])
def test_the_pause_grows_with_the_debt(debt: int, pause_s: float) -> None:
    assert Pressure(10, 0, 1.0).pause_s(Debt(debt, 0)) == pytest.approx(pause_s)


def test_a_commit_is_slowed_and_succeeds() -> None:
    catalog, metered = opened(14)
    before_ns = metered.env.monotonic_ns()
    assert isinstance(catalog.write(add(1)), Published)
    assert metered.env.monotonic_ns() - before_ns == pytest.approx(0.5e9)
    assert catalog.slowed_s == pytest.approx(0.5)


def commit(catalog: Catalog, how: str) -> object:
    if how == "write":
        return catalog.write(add(1))
    if how == "merge":
        catalog.on("dev").write(add(2))
        return catalog.merge("dev")
    draft = catalog.draft()
    add(1)(draft)
    return catalog.publish(draft) if how == "publish" else GroupCommit(catalog).publish(draft)


@pytest.mark.parametrize("how", ["write", "publish", "group", "merge"])
def test_a_commit_is_refused_in_one_line_and_leaves_no_trace(how: str) -> None:
    catalog, metered = opened(30)
    catalog.create_branch("dev")
    with metered.operation("refused") as cost, pytest.raises(Overdue) as refused:
        commit(catalog, how)
    text = str(refused.value)
    assert "\n" not in text
    assert "30 manifests of branch main" in text
    assert "fencepost catalog cleanup" in text
    assert "--refuse-after" in text
    assert not [s for s in cost.sent if s.kind == "put" and s.key.startswith("branch/main")]
    assert catalog.refresh().id == 30


def test_the_refusal_ends_when_another_process_has_cleaned_up() -> None:
    """A refusal is never by a stale count: the writer would be refused for ever."""
    catalog, metered = opened(30)
    with pytest.raises(Overdue):
        catalog.write(add(1))
    Catalog.open(metered, mode="join").cleanup(keep=1)
    before_ns = metered.env.monotonic_ns()
    assert isinstance(catalog.write(add(1)), Published)
    assert metered.env.monotonic_ns() == before_ns, "nor is it slowed"


def test_what_reduces_the_debt_is_never_refused() -> None:
    catalog, _ = opened(40)
    catalog.create_branch("dev")
    assert catalog.compact("t").done
    assert isinstance(catalog.delete_branch("dev"), Published)
    assert catalog.cleanup(keep=5).manifests > 0
    assert [notice.done for notice in catalog.repair()] == ["retired"], "its own sidecar"
    assert catalog.slowed_s == 0


@pytest.mark.parametrize("pressure", [OFF, Pressure(0, 0), Pressure(1000, 0)])
def test_the_limits_can_be_switched_off(pressure: Pressure) -> None:
    catalog, _ = opened(40, pressure)
    assert isinstance(catalog.write(add(1)), Published)
    assert catalog.slowed_s == 0


@pytest.mark.parametrize("senseless", [{"slow_after": -1}, {"refuse_after": -1}, {"slowest_s": float("nan")}])
def test_limits_that_make_no_sense_are_refused(senseless: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=f"{next(iter(senseless))} is"):
        Pressure(**senseless)


def test_a_commit_learns_of_a_cleanup_without_a_request_more() -> None:
    """The boundary beside its heads is the count of the next commit."""
    catalog, metered = opened(8)
    Catalog.open(metered, mode="join").cleanup(keep=2)
    assert catalog.debt.manifests == 8, "as it was when it was opened"
    catalog.snapshot().rows("t")
    for requests, debt in ((6, 3), (7, 4)):  # the second retires the sidecar of the first
        with metered.operation("warm") as cost:
            catalog.write(add(debt))
        assert (cost.serial_hops, cost.requests) == (3, requests)
        assert catalog.debt.manifests == debt
