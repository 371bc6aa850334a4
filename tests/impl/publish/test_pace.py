"""Writers that lose races begin again until their time is over, and then say what helps."""

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog, Published, StaleView, Unknown
from fencepost.impl.publish.pace import ATTEMPT_S_MIN, DOUBLINGS_MAX, Pace
from fencepost.sim.des import Setup, Workload, simulate
from fencepost.sim.des.drive import Failed
from fencepost.sim.des.meter import Operation
from fencepost.sim.systems.publish import workload

from .scripted import Scripted, graph

MANIFEST = "branch/main/manifest/"


def pauses(wait_s: float, attempt_s: float = 0.0) -> list[float]:
    """The pauses of a writer all of whose attempts fail, each of which takes so long."""
    env = SeededEnvironment(1)
    pace, found = Pace(env, wait_s), []
    while True:
        env.sleep(attempt_s)
        before = env.monotonic_ns()
        if not pace.pause():
            return found
        found.append((env.monotonic_ns() - before) / 1e9)


def test_a_writer_has_its_whole_time_and_no_more() -> None:
    for wait_s in (1.0, 60.0):
        found = pauses(wait_s)
        assert sum(found) == pytest.approx(wait_s)
    assert pauses(0.0) == []
    assert len(pauses(10.0, attempt_s=3.0)) >= 2


def test_windows_grow_with_lost_races_are_measured_in_attempts_and_shrink_at_the_end() -> None:
    widest = ATTEMPT_S_MIN * 2**DOUBLINGS_MAX
    found = pauses(600.0)
    assert found[0] <= 2 * ATTEMPT_S_MIN
    assert widest / 2 < max(found) <= widest
    assert max(found[-20:]) < widest / 2
    assert max(pauses(600.0, attempt_s=0.1)) > 5 * widest


def test_the_error_at_the_end_names_what_helps() -> None:
    """Each attempt finds that a rival was first."""
    store = graph()
    script = Scripted(store)
    catalog = Catalog.open(script, author="late", mode="join", wait_s=2.0)
    rival = Catalog.open(store, author="first", mode="join")
    tries = 0

    def change(txn: object) -> None:
        nonlocal tries
        tries += 1
        rival.write(lambda other: other.upsert("place", [{"id": 1, "name": str(tries)}]))
        txn.upsert("place", [{"id": 2, "name": "late"}])  # type: ignore[attr-defined]  # a transaction

    with pytest.raises(StaleView, match="fencepost catalog serve memory:") as caught:
        catalog.write(change)
    assert tries > 3
    assert f"others were first {tries} times" in str(caught.value)
    with pytest.raises(StaleView, match="others were first once"):
        catalog.write(change, wait_s=0.0)


@pytest.mark.parametrize("attempts", [5, None])
def test_forty_writers_of_one_table_all_commit(monkeypatch: pytest.MonkeyPatch, attempts: int | None) -> None:
    """In simulated time, 20 ms away. With a limit of attempts most of them fail."""
    waits: list[float] = []

    def act(self: workload._Publisher, operation: Operation) -> None:
        table, rows = self._rows.next()
        env = self._catalog.context.env
        began = env.monotonic_ns()
        with workload.failing():
            ended = self._catalog.write(lambda txn: txn.append(table, rows), attempts=attempts)
        if isinstance(ended, Unknown):
            raise Failed("Unknown")
        assert isinstance(ended, Published)
        waits.append((env.monotonic_ns() - began) / 1e9)

    monkeypatch.setattr(workload._Publisher, "act", act)
    result = simulate(Setup(Workload("publish", writers=40, tables=1, operations=40)))
    if attempts is None:
        assert not result.failed
        assert len(waits) == 40
        assert max(waits) < 60.0
    else:
        assert sum(result.failed.values()) > 20
