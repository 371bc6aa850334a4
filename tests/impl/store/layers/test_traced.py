"""The trace says what was asked, what was learned, and nothing that must stay secret."""

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import ABSENT, ANYTHING, Matches, Misuse
from fencepost.impl.store.events import Event
from fencepost.impl.store.layers import Effect, Fault, Faulty, Traced
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Get, Put


def traced(*faults: Fault) -> tuple[Traced, list[Event]]:
    events: list[Event] = []
    inner = Faulty(MemoryStore(env=SeededEnvironment()), faults)
    return Traced(inner, events.append, process="p", run="r"), events


def brief(events: list[Event]) -> list[str]:
    return [f"{e.seq} {e.op} {e.phase} {e.kind} {e.key} {e.condition} {e.outcome}".strip() for e in events]


def test_a_request_and_its_response_share_a_number() -> None:
    store, events = traced()
    store.put("k", b"body", when=ABSENT)
    store.get("k", unless=events[1].etag)
    assert brief(events) == [
        "0 0 request put k absent",
        "1 0 response put k  done",
        "2 1 request get k unless",
        "3 1 response get k  unchanged",
    ]
    assert {(e.run, e.process, e.incarnation) for e in events} == {("r", "p", 0)}
    assert events[1].etag == events[2].etag != ""


def test_bodies_leave_only_length_and_hash() -> None:
    store, events = traced()
    store.put("k", b"very secret", when=ANYTHING)
    store.get("k")
    assert b"very secret".decode() not in repr(events)
    assert (events[0].size, events[0].hash) == (events[3].size, events[3].hash) == (11, events[0].hash)
    assert len(events[0].hash) == 16


def test_a_step_is_issued_before_anything_is_answered() -> None:
    store, events = traced()
    store.send_all([Put("a", b"", ABSENT), Get("b")])
    assert [e.phase for e in events] == ["request", "request", "response", "response"]
    assert [e.op for e in events] == [0, 1, 0, 1]


def test_unknown_is_written_as_unknown() -> None:
    store, events = traced(Fault(Effect.REPLY_LOST, kinds={"put"}))
    store.put("k", b"", when=Matches("e"))
    assert (events[0].condition, events[0].etag, events[1].outcome) == ("matches", "e", "unknown")


def test_a_refused_request_says_so_and_still_raises() -> None:
    store, events = traced()
    with pytest.raises(Misuse):
        store.get("..")
    assert (events[1].outcome, events[1].phase) == ("refused", "response")
    with pytest.raises(Misuse):
        store.send_all([Get("..")])
    assert (events[-1].phase, events[-1].kind) == ("note", "send-all")


def test_notes_take_their_place_in_the_order() -> None:
    store, events = traced()
    store.note("accepted", key="batch/7")
    store.head("k")
    first = events[0]
    assert (first.seq, first.phase, first.key, first.note) == (0, "note", "batch/7", "accepted")
    assert events[1].seq == 1


def test_trace_fields_are_what_the_extractor_reads_from_a_body() -> None:
    events: list[Event] = []
    inner = MemoryStore(env=SeededEnvironment())
    store = Traced(
        inner, events.append, process="p", trace_fields=lambda key, body: f"length={len(body)} of={key}"
    )
    store.put("k", b"very secret", when=ANYTHING)
    store.get("k")
    store.get("k", start=1)
    store.delete("k", when=ANYTHING)
    assert [e.trace_fields for e in events] == ["length=11 of=k", "", "", "length=11 of=k", "", "", "", ""]
