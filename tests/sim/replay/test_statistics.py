"""Operational statistics by columns: exact where documented, and the same however the trace is cut."""

import json
from typing import Any

from fencepost.impl.store.events import Event
from fencepost.sim.replay.parts import in_order
from fencepost.sim.replay.statistics import Statistics, statistics
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import events

MS = 1_000_000


def request(
    run: str, op: int, t_ms: float, took_ms: float, kind: str, key: str, outcome: str, body: str = ""
) -> list[Event]:
    start = round(t_ms * MS)
    request = Event(run, 0, start, "p", 0, op, "request", kind, key, hash=body)
    if not outcome:
        return [request]
    return [
        request,
        Event(run, 0, start + round(took_ms * MS), "p", 0, op, "response", kind, key, outcome=outcome),
    ]


def trace() -> list[Event]:
    made = [
        *request("a", 1, 0, 10, "put", "t/x/1", "done", "h1"),
        *request("a", 2, 1, 5, "put", "t/x/2", "done", "h2"),
        *request("a", 3, 20, 10, "put", "t/x/1", "exists", "h1"),
        *request("a", 4, 5000, 10, "get", "t/y", "done"),
        *request("b", 1, 0, 40, "put", "t/x/1", "conflict", "h1"),
        *request("b", 2, 50, 10, "put", "t/x/1", "throttled", "h1"),
        *request("b", 3, 70, 0, "put", "t/x/9", ""),
    ]
    made.sort(key=lambda event: (event.run, event.t_ns))
    return [
        Event(**{**{n: getattr(e, n) for n in e.__dataclass_fields__}, "seq": k}) for k, e in enumerate(made)
    ]


def counted(made: list[Event]) -> Statistics:
    table = in_order(table_of(made))
    return statistics(events(table), table)


def test_counts_and_rates() -> None:
    found: dict[str, Any] = counted(trace()).as_json()
    assert found["operations"]["put"]["outcomes"] == {"conflict": 1, "done": 2, "exists": 1, "throttled": 1}
    assert found["rates"] == {"409": round(1 / 6, 6), "412": round(1 / 6, 6), "503": round(1 / 6, 6)}
    assert found["unanswered"] == 1
    assert found["duplicates"] == 2  # a's second h1 at t/x/1, and b's
    assert found["conflicts"] == [{"key": "t/x/1", "refused": 3, "answered": 4, "rate": 0.75}]
    assert found["hot_prefixes"] == [{"prefix": "t/x/", "requests": 6}, {"prefix": "t/", "requests": 1}]
    assert found["stalls"][0] == {"run": "a", "seq": 6, "seconds": 4.97}


def test_latencies_are_within_their_buckets() -> None:
    put = counted(trace()).as_json()["operations"]["put"]
    assert put["max"] == 40
    assert abs(put["p50"] / 10 - 1) < 0.05
    assert put["p99"] <= put["max"]


def test_hops_are_waits_and_not_requests() -> None:
    """Two requests that are under way at once are one hop."""
    assert counted(trace()).as_json()["serial_hops"] == {"p50": 3, "p90": 3, "p99": 3, "max": 3}
    assert counted([e for e in trace() if e.run == "a"]).hops == {3: 1}


def test_parts_add_up_and_travel() -> None:
    whole = counted(trace())
    total = Statistics()
    for run in ("a", "b"):
        part = counted([event for event in trace() if event.run == run])
        total.add(Statistics.from_row(json.loads(json.dumps(part.as_row()))))
    assert total.as_json() == whole.as_json()
