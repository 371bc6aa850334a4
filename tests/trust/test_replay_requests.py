"""Replay judges what the model cannot see: conditions, data objects, and what readers found.

If this fails, a trace of a store that loses data, or of a writer that skips a check, is accepted. Each test
takes a run of the real library and changes one request; `test_replay_mutations` does so at random.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest

from bench.million_runs import INGEST
from bench.traces import driven
from fencepost.impl.publish import Mode
from fencepost.impl.store.events import Event
from fencepost.properties.ingest import IngestRefinement
from fencepost.properties.publish import PublishRefinement
from fencepost.properties.refinement import Automaton, follow, not_judged
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.parts import in_order
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import events as columns
from tests.properties.publish.test_refinement import Traces, write

Run = list[Event]
FULL, PLAIN = "with landings", "with requests and responses only"


@lru_cache
def judge(system: str) -> Judge:
    if system == "publish":
        return Judge(Automaton(PublishRefinement(2, 2), slots=4))
    return Judge(Automaton(IngestRefinement(), slots=8))


@lru_cache
def runs(system: str, recorded: str = FULL) -> tuple[tuple[Event, ...], ...]:
    made = driven(6, ("skew", "two-tables")) if system == "publish" else driven(6, ("conflict",), INGEST)
    if recorded == PLAIN:
        made = [[event for event in run if event.phase != "landed"] for run in made]
    return tuple(map(tuple, made))


def verdict(system: str, run: Run) -> tuple[str, str]:
    rows = [replace(event, run="run", seq=seq) for seq, event in enumerate(run)]
    (row,) = judge(system).verdicts(columns(in_order(table_of(rows)))).to_pylist()
    return row["verdict"], row["reason"]


def where(run: Run, kind: str, key: str, outcome: str = "done") -> list[tuple[int, str]]:
    """Requests of a kind whose response was `outcome`: the number and process of each."""
    return [
        (event.op, event.process)
        for event in run
        if event.phase == "response" and (event.kind, event.outcome) == (kind, outcome) and key in event.key
    ]


def changed(run: Run, op: int, **columns_: str) -> Run:
    """One request with other columns, in every phase that has them."""
    return [
        replace(
            event,
            **{
                name: value
                for name, value in columns_.items()
                if event.op == op and (name == "condition" or event.phase != "request")
            },  # type: ignore[arg-type]  # names of columns of text
        )
        for event in run
    ]


def without(run: Run, *ops: int) -> Run:
    return [event for event in run if event.op not in ops]


def then(run: Run, at: int, kind: str, key: str, outcome: str, process: str = "stranger") -> Run:
    """One more request, complete before the event at a place."""
    op = 1 + max(event.op for event in run)
    base = replace(run[0], process=process, incarnation=0, op=op, kind=kind, key=key, trace_fields="")
    base = replace(base, etag="", hash="", size=-1, condition="anything" if kind == "delete" else "")
    exact = any(event.phase == "landed" for event in run)
    phases = ("request", "landed", "response") if exact else ("request", "response")
    made = [
        replace(base, phase=phase, outcome="" if phase == "request" else outcome, t_ns=run[at - 1].t_ns)
        for phase in phases
    ]
    return [*run[:at], *made, *run[at:]]


def offers(system: str, recorded: str, fits: Callable[[Run], bool]) -> Run:
    return next(list(run) for run in runs(system, recorded) if fits(list(run)))


def committed(run: Run) -> bool:
    """Some writer commits a plan with a fragment, is answered, and retires the sidecar itself."""
    return bool(commits(run))


def commits(run: Run) -> list[tuple[str, str, int]]:
    """Plan, process and operation of manifests whose creator was answered `done` and deleted the sidecar."""
    found = []
    for op, process in where(run, "put", "/manifest/"):
        request = next(event for event in run if event.op == op)
        plan = _field(request, "plan") if _field(request, "kind") == "publish" else ""
        gone = where(run, "delete", f"recovery/{plan}") if plan else []
        staged = where(run, "put", f"/{plan}-") if plan else []
        if staged and any(who == process for _, who in gone):
            found.append((plan, process, op))
    return found


def _field(event: Event, name: str) -> str:
    words = (word.partition("=") for word in event.trace_fields.split())
    return next((value for found, _, value in words if found == name), "")


def end_of(run: Run, op: int) -> int:
    return 1 + max(at for at, event in enumerate(run) if event.op == op)


both = pytest.mark.parametrize("recorded", [FULL, PLAIN])


@both
@pytest.mark.parametrize("system", ["publish", "ingest"])
def test_unchanged_runs_are_accepted(system: str, recorded: str) -> None:
    for run in runs(system, recorded):
        assert verdict(system, list(run)) == ("accepted", "")


@both
def test_a_fragment_that_was_never_written_is_rejected(recorded: str) -> None:
    run = offers("publish", recorded, committed)
    plan, _, _ = commits(run)[0]
    ops = {event.op for event in run if f"/{plan}-" in event.key}
    found, reason = verdict("publish", without(run, *ops))
    assert found == "rejected"
    assert "not every fragment that its sidecar counts was stored before" in reason


@both
def test_a_fragment_whose_only_write_was_throttled_is_rejected(recorded: str) -> None:
    run = offers("publish", recorded, committed)
    plan, _, _ = commits(run)[0]
    for op in {event.op for event in run if event.kind == "put" and f"/{plan}-" in event.key}:
        run = changed(run, op, outcome="throttled")
    found, reason = verdict("publish", run)
    assert found == "rejected"
    assert "fragment" in reason


@both
def test_a_fragment_deleted_by_a_stranger_is_rejected(recorded: str) -> None:
    run = offers("publish", recorded, committed)
    plan, _, _ = commits(run)[0]
    op, _ = where(run, "put", f"/{plan}-")[0]
    key = next(event.key for event in run if event.op == op)
    found, reason = verdict("publish", then(run, len(run), "delete", key, "done"))
    assert found == "rejected"
    assert "no manifest of kind sweep came before" in reason


def test_the_deletion_of_a_fragment_from_before_the_run_is_not_accepted() -> None:
    """A sweep before the run may have allowed it."""
    run = list(runs("publish")[0])
    gone = then(run, len(run), "delete", "data/person/01HF7Y0000000000000000000-rows.parquet", "done")
    assert verdict("publish", gone)[0] == "undecided"


@both
@pytest.mark.parametrize("key", ["/manifest/", "/version/", "recovery/", "data/"])
def test_an_unconditional_write_is_rejected(key: str, recorded: str) -> None:
    run = offers("publish", recorded, lambda run: bool(where(run, "put", key)))
    found, reason = verdict("publish", changed(run, where(run, "put", key)[0][0], condition="anything"))
    assert found == "rejected"
    assert "is written with condition anything, not absent" in reason


@both
def test_an_unconditional_write_whose_reply_was_lost_is_rejected(recorded: str) -> None:
    """What counts is what the process sent, not what became of it."""
    run = offers("publish", recorded, lambda run: bool(where(run, "put", "/manifest/", "exists")))
    op = where(run, "put", "/manifest/", "exists")[0][0]
    lost = [event for event in run if event.op != op or event.phase == "request"]
    assert verdict("publish", changed(lost, op, condition="anything"))[0] == "rejected"


@both
def test_a_later_404_for_an_acknowledged_manifest_is_rejected(recorded: str) -> None:
    run = offers("publish", recorded, committed)
    _, process, op = commits(run)[0]
    key = next(event.key for event in run if event.op == op)
    found, reason = verdict("publish", then(run, len(run), "get", key, "missing", process))
    assert (found, reason) == ("rejected", f"{key} was there before, and nothing deleted it")


def test_a_404_of_another_process_counts_where_the_order_is_recorded() -> None:
    """From clocks alone nobody knows which of two processes was first."""
    for recorded, expected in ((FULL, "rejected"), (PLAIN, "accepted")):
        run = offers("publish", recorded, committed)
        key = next(event.key for event in run if event.op == commits(run)[0][2])
        assert verdict("publish", then(run, len(run), "get", key, "missing"))[0] == expected


@both
def test_an_object_that_nobody_wrote_is_not_found(recorded: str) -> None:
    run = offers("publish", recorded, lambda run: bool(where(run, "get", "/manifest/", "missing")))
    op, process = where(run, "get", "/manifest/", "missing")[-1]
    key = next(event.key for event in run if event.op == op)
    again = then(run, end_of(run, op), "get", key, "done", process)
    found, reason = verdict("publish", again)
    assert found == "rejected"
    # The run may look at the key once more later: then it is that look that cannot be.
    assert reason in {
        f"{key} was missing before, and nothing wrote it",
        f"{key} was there before, and nothing deleted it",
    }


@both
def test_a_missing_boundary_check_is_rejected(recorded: str) -> None:
    run = offers("publish", recorded, committed)
    plan, process, op = commits(run)[0]
    start, stop = end_of(run, op), end_of(run, where(run, "delete", f"recovery/{plan}")[0][0])
    reads = {
        event.op
        for event in run[start:stop]
        if (event.kind, event.process) == ("get", process) and event.key.endswith("/boundary.json")
    }
    assert reads
    found, reason = verdict("publish", without(run, *reads))
    assert found == "rejected"
    assert "has not read the boundary since" in reason


def test_a_boundary_read_between_sidecar_and_manifest_is_a_check() -> None:
    """Without it, and with a read before the sidecar in its place, the run is rejected."""
    traces = Traces()
    with traces.open("ann", Mode.JOIN) as ann:
        write(ann, "one")
    run = traces.events
    assert verdict("publish", run) == ("accepted", "")
    (staged,) = [op for op, _ in where(run, "put", "recovery/")]
    (read,) = [op for op, _ in where(run, "get", "/boundary.json", "missing") if op > staged]
    found, reason = verdict("publish", without(run, read))
    assert found == "rejected"
    assert "nor between the sidecar and that" in reason
    others = without(run, read)
    at = next(number for number, event in enumerate(others) if event.op == staged)
    moved = [event for event in run if event.op == read]
    assert verdict("publish", [*others[:at], *moved, *others[at:]])[0] == "rejected"


def test_a_missing_boundary_check_is_rejected_where_the_outcome_is_noted() -> None:
    run = offers("publish", FULL, committed)
    plan, _, op = commits(run)[0]
    at = end_of(run, op)
    note = replace(run[at - 1], op=-1, phase="note", kind="note", key="outcome", condition="")
    note = replace(note, outcome="acked", trace_fields=f"plan={plan}", etag="", hash="", size=-1)
    assert "has not read the boundary since" in verdict("publish", [*run[:at], note, *run[at:]])[1]


@both
def test_a_sidecar_deleted_by_a_process_that_never_saw_it_is_rejected(recorded: str) -> None:
    """Also where its plan has lost and any process may retire it: who retires a plan has read it."""
    for run in map(list, runs("publish", recorded)):
        for op, _ in where(run, "put", "recovery/"):
            key = next(event.key for event in run if event.op == op)
            gone = then(run, end_of(run, op), "delete", key, "done")
            assert verdict("publish", gone)[0] == "rejected", (run[0].run, op)


def test_a_boundary_is_never_deleted() -> None:
    run = list(runs("publish")[0])
    found, reason = verdict("publish", then(run, len(run), "delete", "branch/main/boundary.json", "done"))
    assert (found, reason) == ("rejected", "a boundary is never deleted")


# The same for ingest.


@both
@pytest.mark.parametrize("key", ["raw-blobs/", "accepted/", "quarantine/", "accepted-by-blob/"])
def test_unconditional_writes_of_ingest_are_rejected(key: str, recorded: str) -> None:
    run = offers("ingest", recorded, lambda run: bool(where(run, "put", key)))
    found, reason = verdict("ingest", changed(run, where(run, "put", key)[0][0], condition="anything"))
    assert found == "rejected"
    assert "is written with condition anything, not absent" in reason


@both
@pytest.mark.parametrize("key", ["accepted/", "quarantine/", "accepted-by-blob/", "accepted-by-time/"])
def test_only_blobs_are_deleted(key: str, recorded: str) -> None:
    run = offers("ingest", recorded, lambda run: bool(where(run, "put", key)))
    name = next(event.key for event in run if event.op == where(run, "put", key)[0][0])
    assert verdict("ingest", then(run, len(run), "delete", name, "done"))[0] == "rejected"


@both
def test_a_blob_that_was_never_stored_is_rejected(recorded: str) -> None:
    """By the model: a manifest relies on its blob."""
    run = offers("ingest", recorded, lambda run: bool(where(run, "put", "accepted/")))
    gone = {event.op for event in run if event.kind != "get" and "raw-blobs/" in event.key}
    assert verdict("ingest", without(run, *gone))[0] == "rejected"


@both
def test_a_later_404_for_an_accepted_batch_is_rejected(recorded: str) -> None:
    run = offers("ingest", recorded, lambda run: bool(where(run, "put", "accepted/")))
    op, process = where(run, "put", "accepted/")[0]
    key = next(event.key for event in run if event.op == op)
    assert verdict("ingest", then(run, len(run), "get", key, "missing", process))[0] == "rejected"


@both
def test_a_conflict_that_was_never_read_is_rejected(recorded: str) -> None:
    """A 412 alone proves another manifest, not another batch."""
    run = offers("ingest", recorded, lambda run: bool(where(run, "put", "quarantine/v1/identity")))
    reads = {event.op for event in run if event.kind == "get" and "accepted/" in event.key}
    found, reason = verdict("ingest", without(run, *reads))
    assert (found, reason) == ("rejected", "its process has not read a manifest before")


# What is not judged is named.


def test_a_map_without_rules_says_that_it_judges_no_requests() -> None:
    assert not_judged(None) == ("conditions, data objects and reads, for which this map declares no rules",)


def test_what_is_not_judged_is_named() -> None:
    for system in ("publish", "ingest"):
        names = not_judged(judge(system).automaton.refinement.request_rules)
        assert set(names) >= {
            "listings",
            "the bytes of objects whose hash the trace does not show",
            "requests whose condition is not recorded",
        }
    assert any(name.startswith("objects of no batch") for name in names)


def test_a_single_run_is_judged_by_the_same_rules() -> None:
    run = offers("publish", FULL, committed)
    automaton = judge("publish").automaton
    assert follow(automaton, run).verdict == "holds"
    bad = changed(run, where(run, "put", "/manifest/")[0][0], condition="anything")
    found = follow(automaton, bad)
    assert found.verdict == "violated"
    assert "condition anything" in found.reason
