"""Where operations come from: requests with their replies, and the events of a trace."""

import pytest

from fencepost.impl.store import requests
from fencepost.impl.store.events import Event, arguments, results
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome
from fencepost.properties.linearizability import Judgement, Operation, check_history, operation, operations_of


def trace(store: MemoryStore, *issued: requests.Request[requests.Reply], lose: int = -1) -> list[Event]:
    """Sends the requests one after another and writes down what happens; one reply can be lost."""
    events: list[Event] = []

    def write(op: int, phase: str, columns: dict[str, object]) -> None:
        row = {"run": "r1", "t_ns": 0, "process": "p", "incarnation": 0, "op": op, "phase": phase, **columns}
        events.append(Event(seq=len(events), **row))  # type: ignore[arg-type]

    for op, request in enumerate(issued):
        write(op, "request", arguments(request))
        reply = store.send(request)
        write(op, "landed", {"kind": request.kind, "key": request.subject})
        if op != lose:
            write(op, "response", results(request, reply))
    return events


def test_a_trace_becomes_operations() -> None:
    etag = MemoryStore().put("k", b"a", when=ANYTHING).etag
    events = trace(
        MemoryStore(),
        requests.Put("k", b"a", ABSENT),
        requests.Put("k", b"b", ABSENT),
        requests.Get("k"),
        requests.List(),
        requests.Delete("k", Matches(etag)),
        requests.Head("k"),
        lose=4,
    )
    found = operations_of(events)
    assert [(each.kind, each.condition, each.outcome.value) for each in found] == [
        ("put", "absent", "done"),
        ("put", "absent", "exists"),
        ("get", "", "done"),
        ("delete", "matches", "unknown"),
        ("head", "", "missing"),
    ]
    assert found[0].value == found[2].value
    assert found[0].etag == found[2].etag == found[3].named
    assert check_history(found).judgement is Judgement.LINEARIZABLE


def test_reading_a_part_is_not_taken_for_the_whole() -> None:
    """A part has another hash; taken for the whole it would look like two contents under one ETag."""
    events = trace(
        MemoryStore(),
        requests.Put("k", b"abc", ANYTHING),
        requests.Get("k", start=1),
        requests.Get("k", stop=2),
    )
    found = operations_of(events)
    assert [each.value is None for each in found] == [False, True, True]
    assert check_history(found).judgement is Judgement.LINEARIZABLE


def test_a_read_with_both_conditions_is_judged_by_the_one_that_decided() -> None:
    store = MemoryStore()
    etag = store.put("k", b"a", when=ANYTHING).etag
    events = trace(
        MemoryStore(), requests.Put("k", b"a", ANYTHING), requests.Get("k", only_if=etag, unless=etag)
    )
    assert check_history(operations_of(events)).judgement is Judgement.LINEARIZABLE
    request = requests.Get("k", only_if=etag, unless=etag)
    made = operation("p", request, store.send(request), called=0, returned=1)
    assert made is not None
    assert (made.condition, made.named, made.outcome) == ("unless", etag, Outcome.UNCHANGED)


def test_reads_of_a_version_are_left_out_and_removing_one_is_kept() -> None:
    store = MemoryStore(versioned=True)
    version = store.put("k", b"a", when=ANYTHING).version
    events = trace(store, requests.Get("k", version=version), requests.Delete("k", ANYTHING, version=version))
    assert [each.kind for each in operations_of(events)] == ["delete-version"]


def test_a_request_and_its_reply_become_an_operation() -> None:
    store = MemoryStore()
    put = requests.Put("k", b"a", ABSENT)
    assert operation("p", put, store.send(put), called=3, returned=4) == Operation(
        "p", "k", "put", 3, 4, Outcome.DONE, "absent", value=b"a", etag="0cc175b9c0f1b6a831c399e269772661"
    )
    assert operation("p", put, None, called=3, returned=None) == Operation(
        "p", "k", "put", 3, condition="absent", value=b"a"
    )
    ranged = requests.Get("k", stop=1)
    made = operation("p", ranged, store.send(ranged), called=5, returned=6)
    assert made is not None
    assert made.value is None
    listing = requests.List()
    assert operation("p", listing, store.send(listing), called=7, returned=8) is None


def test_events_of_two_runs_are_refused() -> None:
    events = [Event(run, 0, 0, "p", 0, 0, "request", "get", "k") for run in ("a", "b")]
    with pytest.raises(ValueError, match=r"events of 2 runs were given \(a, b\.\.\.\); check one at a time"):
        operations_of(events)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ({"kind": "copy"}, "operation of kind 'copy'"),
        ({"condition": "unless"}, "a put cannot have the condition 'unless'"),
        ({"condition": "matches"}, "do not belong together"),
        ({"returned": None, "outcome": Outcome.DONE}, "without a return time"),
        ({"called": 5}, "returned at 1, before it was called at 5"),
    ],
)
def test_an_operation_that_contradicts_itself_is_refused(error: dict[str, object], why: str) -> None:
    sound: dict[str, object] = {"kind": "put", "called": 0, "returned": 1, "outcome": Outcome.DONE}
    with pytest.raises(ValueError, match=why):
        Operation("p", "k", **(sound | error))  # type: ignore[arg-type]
