"""The publish library in lockstep with its model: real runs are accepted, altered ones are not."""

from dataclasses import replace

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog, Mode
from fencepost.impl.publish.trace_fields import trace_fields
from fencepost.impl.store.events import Event
from fencepost.impl.store.layers import Traced
from fencepost.impl.store.memory import MemoryStore
from fencepost.properties.publish import PublishRefinement
from fencepost.properties.refinement import Automaton, Verdict, follow

PERSON = {"id": "int64", "name": "string"}
KNOWS = {"id": "int64", "a": "int64"}

_automaton: list[Automaton] = []


def judged(events: list[Event], *, slots: int = 0) -> Verdict:
    if slots:
        return follow(Automaton(PublishRefinement(3, 3), slots=slots), events)
    if not _automaton:
        _automaton.append(Automaton(PublishRefinement(3, 3)))
    return follow(_automaton[0], events)


class Traces:
    """A catalog of two tables, and what handles on it do, as events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.store = MemoryStore(env=SeededEnvironment(3))
        with Catalog.open(self.store, create=True) as catalog, catalog.transaction("found") as txn:
            txn.create_table("person", PERSON, key="id")
            txn.create_table("knows", KNOWS, key="id", edges={"a": "person"})
            txn.append("person", [{"id": 1, "name": "a"}])

    def open(self, who: str, mode: Mode = Mode.CLAIM) -> Catalog:
        traced = Traced(self.store, self.events.append, process=who, run="r", trace_fields=trace_fields)
        return Catalog.open(traced, env=SeededEnvironment(len(self.events)), author=who, mode=mode)

    def landed(self) -> list[Event]:
        """As if the landing had been seen: right before its response."""
        requests = {(event.process, event.op): event for event in self.events if event.phase == "request"}
        made = []
        for number, event in enumerate(self.events):
            if event.phase == "response":
                request = requests[event.process, event.op]
                columns = {
                    "trace_fields": request.trace_fields,
                    "condition": request.condition,
                    "outcome": event.outcome,
                }
                made.append(replace(request, seq=number, phase="landed", **columns))
        return made


def write(catalog: Catalog, name: str) -> None:
    with catalog.transaction(name) as txn:
        txn.upsert("person", [{"id": len(name), "name": name}])


def history() -> list[Event]:
    """Ann writes; Bob takes over and writes both tables; everybody closes."""
    traces = Traces()
    ann = traces.open("ann", Mode.JOIN)
    write(ann, "one")
    ann.close()
    with traces.open("bob") as bob, bob.transaction("both") as txn:
        txn.append("person", [{"id": 9, "name": "z"}])
        txn.append("knows", [{"id": 1, "a": 9}])
    return traces.landed()


def shown(events: list[Event]) -> list[str]:
    return [f"{e.kind} {e.key.split('/')[0]} {e.outcome}" for e in events if e.kind in ("put", "delete")]


def test_a_run_of_the_library_is_a_run_of_the_model() -> None:
    events = history()
    verdict = judged(events)
    assert (verdict.verdict, verdict.symbols) == ("holds", 10), verdict


def test_requests_and_responses_alone_are_enough() -> None:
    traces = Traces()
    with traces.open("ann") as ann:
        write(ann, "one")
    verdict = judged(traces.events, slots=4)
    assert (verdict.verdict, verdict.symbols) == ("holds", 10), verdict
    lost = [event for event in traces.events if event.phase == "request" or "recovery" not in event.key]
    assert judged(lost, slots=4).verdict == "holds", "a sidecar without a reply may have landed"


MEANS = [
    number
    for number, event in enumerate(history())
    if event.kind in ("put", "delete") and "data/" not in event.key
]


@pytest.mark.parametrize("at", MEANS)
def test_an_event_that_is_missing_is_noticed(at: int) -> None:
    events = history()
    gone = events.pop(at)
    verdict = judged(events)
    harmless = gone.kind == "delete" or at == MEANS[-1]
    assert verdict.verdict == ("holds" if harmless else "violated"), (gone, str(verdict))


def test_a_head_before_its_sidecar_is_noticed() -> None:
    events = history()
    sidecar = next(at for at, event in enumerate(events) if event.kind == "put" and "recovery" in event.key)
    head = next(at for at, event in enumerate(events) if event.kind == "put" and "table/" in event.key)
    events[sidecar], events[head] = events[head], events[sidecar]
    verdict = judged(events)
    assert (verdict.verdict, verdict.at) == ("violated", sidecar)
    assert 's.writer[w].at == "heads"' in verdict.reason


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("manifest/", "epoch=3", "epoch=2"),
        ("manifest/", "epoch=2", "epoch=1"),
        ("version/", "epoch=2", "epoch=3"),
        ("manifest/", "nodes_number=3", "nodes_number=2"),
        ("recovery/", "base=5", "base=4"),
        ("recovery/", "nodes_base=2", "nodes_base=1"),
    ],
)
def test_an_altered_trace_field_is_rejected(key: str, old: str, new: str) -> None:
    events = history()
    at = next(
        at
        for at, event in enumerate(events)
        if key in event.key and old in event.trace_fields.split() and event.outcome == "done"
    )
    events[at] = replace(events[at], trace_fields=events[at].trace_fields.replace(old, new))
    verdict = judged(events)
    assert verdict.verdict == "violated", verdict
    assert verdict.at >= at


def test_what_the_model_has_no_room_for_is_undecided() -> None:
    traces = Traces()
    with traces.open("ann") as ann, ann.transaction("third") as txn:
        txn.create_table("place", PERSON, key="id")
    verdict = judged(traces.landed())
    assert verdict.verdict == "undecided", verdict


def test_trace_fields_hold_no_rows_and_are_empty_for_other_objects() -> None:
    fields = {event.key.split("/")[0]: event.trace_fields for event in history() if event.kind == "put"}
    assert set(fields) == {"data", "recovery", "table", "branch"}
    assert fields["data"] == ""
    words = {word.split("=")[0] for text in fields.values() for word in text.split()}
    assert words <= {
        "plan",
        "kind",
        "epoch",
        "base",
        "parent",
        "before",
        "moves",
        "reads",
        "undo",
        "fragments",
    } | {sort + of for sort in ("nodes", "edges") for of in ("", "_number", "_base")}
    assert trace_fields("recovery/x.json", b"no JSON") == trace_fields("recovery/x.json", b"[1]") == ""
    assert trace_fields("elsewhere/x.json", b"{}") == trace_fields("recovery/x.txt", b"{}") == ""
    assert trace_fields("branch/main/boundary.json", b'{"format":1,"boundary":7}') == "boundary=7"
