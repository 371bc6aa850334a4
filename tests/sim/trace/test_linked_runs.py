"""Linked runs by columns against linked runs event by event, on the events of collectors."""

from fencepost.impl.store.events import Event
from fencepost.properties.ingest import IngestRefinement
from fencepost.sim.trace import events_of, table_of
from fencepost.sim.trace.grouping import learn_links, named
from tests.properties.refinement.reference import by_run

LINKED = IngestRefinement.runs
SHAS = ["ab" * 32, "cd" * 32, "ef" * 32]


def batch(number: int) -> str:
    return f"agent=0{number}/boot=ff/{number:020d}-{number + 9:020d}"


def trace() -> list[Event]:
    keys = [
        (f"raw-blobs/v1/sha256/ab/ab/{SHAS[0]}~0000000001.lmbatch", ""),
        (f"accepted/v1/{batch(1)}.json", f"collector=c identity={batch(1)} sha={SHAS[0]}"),
        (f"raw-blobs/v1/sha256/cd/cd/{SHAS[1]}.lmbatch", f"identity={batch(2)}"),
        (f"raw-blobs/v1/sha256/cd/cd/{SHAS[1]}.lmbatch", ""),
        (f"raw-blobs/v1/sha256/ef/ef/{SHAS[2]}.lmbatch", ""),
        (f"v/accepted-by-blob/v1/sha256/cd/cd/{SHAS[1]}/{batch(2)}.json", ""),
        ("accepted-by-time/v1/date=2026-11-18/hour=10/x.json", f"identity={batch(1)} sha={SHAS[0]}"),
        ("cursors/v1/x.json", ""),
        (f"outcome {batch(2)}", f"sha={SHAS[1]}"),
    ]
    return [
        Event("service", n, n, "c", 0, n, "landed", "put", key, trace_fields=trace_fields)
        for n, (key, trace_fields) in enumerate(keys)
    ]


def test_columns_name_linked_runs_as_single_events_do() -> None:
    events = trace()
    table = table_of(events)
    found, left_out = named(LINKED, table, learn_links(LINKED, [table]))
    expected, rest = by_run(LINKED, events)
    runs: dict[str, list[int]] = {}
    for event in events_of(found):
        runs.setdefault(event.run, []).append(event.seq)
    assert runs == {run: [event.seq for event in own] for run, own in expected.items()}
    assert left_out == rest == 2
    assert runs[batch(2)] == [2, 3, 5, 8]
