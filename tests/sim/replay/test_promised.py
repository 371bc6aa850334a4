"""Ready promises over traces: broken only where every order that the trace allows breaks them."""

from pathlib import Path

import pytest

from fencepost.impl.store.events import Event
from fencepost.sim.replay.promised import judge_promises
from fencepost.sim.trace import table_of, write_parquet


def judged(tmp_path: Path, *lines: str, promise: str = "queue=jobs/") -> tuple[str, str]:
    """Lines read `process op phase kind key outcome hash etag`, of requests `condition:etag` in the end.

    Each process counts its own events.

    `a@1` is the second life of the process `a`.
    """
    counts: dict[str, int] = {}
    events = []
    for t_ns, line in enumerate(lines, start=1):
        name, op, phase, kind, key, outcome, digest, *etag = line.split()
        process, _, life = name.partition("@")
        counts[process] = counts.get(process, -1) + 1
        columns = {"outcome": outcome.strip("-"), "hash": digest.strip("-")}
        condition, _, named = "".join(etag).rpartition(":") if phase == "request" else ("", "", "".join(etag))
        columns |= {"condition": condition, "etag": named}
        named = ("r", counts[process], t_ns, process, int(life or 0), int(op))
        events.append(Event(*named, phase, kind, key, **columns))
    path = tmp_path / "trace.parquet"
    write_parquet(path, table_of(events))
    (found,) = judge_promises([path], [promise], print)
    return found.verdict, found.reason


def put(process: str, op: int, key: str, digest: str = "h") -> list[str]:
    return [
        f"{process} {op} request put {key} - {digest}",
        f"{process} {op} response put {key} done -",
    ]


def test_a_job_with_both_records_breaks_the_promise(tmp_path: Path) -> None:
    kept = [*put("a", 0, "jobs/1"), *put("b", 0, "done/1")]
    assert judged(tmp_path, *kept)[0] == "holds"
    verdict, reason = judged(tmp_path, *kept, *put("c", 0, "dead/1"))
    assert verdict == "violated"
    assert "opposite" in reason


def test_a_record_that_an_order_may_explain_is_not_decided(tmp_path: Path) -> None:
    """The record and the deletion overlap: in one order the record was written again after it."""
    lines = [
        *put("a", 0, "jobs/1"),
        *put("a", 1, "done/1"),
        "b 0 request delete done/1 - -",
        "c 0 request put done/1 - h",
        "b 0 response delete done/1 done -",
        "c 0 response put done/1 done -",
    ]
    assert judged(tmp_path, *lines)[0] == "undecided"


def test_a_write_without_an_answer_counts_where_somebody_read_it(tmp_path: Path) -> None:
    lost = ["b 0 request put dead/1 - x"]
    read = ["c 0 request get dead/1 - -", "c 0 response get dead/1 done x"]
    base = [*put("a", 0, "jobs/1"), *put("a", 1, "done/1")]
    assert judged(tmp_path, *base, *lost)[0] == "holds"
    assert judged(tmp_path, *base, *lost, *read)[0] == "violated"


def get(process: str, op: int, key: str, digest: str = "h") -> list[str]:
    return [
        f"{process} {op} request get {key} - -",
        f"{process} {op} response get {key} done {digest}",
    ]


@pytest.mark.parametrize(("process", "verdict"), [("a", "violated"), ("a@1", "holds")])
def test_another_life_has_forgotten_what_was_read(process: str, verdict: str, tmp_path: Path) -> None:
    lines = [
        *put("c", 0, "k", "x"),
        *get("a", 0, "k", "x"),
        *put("b", 0, "k", "y"),
        *put(process, 1, "k", "z"),
    ]
    assert judged(tmp_path, *lines, promise="register")[0] == verdict


def test_a_read_that_shows_an_etag_comes_after_the_write_that_made_it(tmp_path: Path) -> None:
    """It was answered before the write was, and the writer after it had seen what it replaced."""
    lines = [
        *get("b", 0, "k", "x"),
        "a 0 request put k - y",
        "b 1 request get k - -",
        "b 1 response get k done y e1",
        "a 0 response put k done - e1",
        *put("b", 2, "k", "z"),
    ]
    assert judged(tmp_path, *lines, promise="register")[0] == "holds"


@pytest.mark.parametrize("answer", [[], ["a 0 response put k done - e1"]])
def test_a_write_took_effect_before_somebody_saw_it(answer: list[str], tmp_path: Path) -> None:
    """The lock was there when it was deleted, although its holder got the answer later, or none."""
    lines = [
        "a 0 request put k - x",
        "b 0 request get k - -",
        "b 0 response get k done x e1",
        *("b 1 request delete k - -", "b 1 response delete k done -"),
        *answer,
        *get("a", 1, "other"),
    ]
    assert judged(tmp_path, *lines, promise="lock=k")[0] == "violated"


def test_a_write_took_effect_before_somebody_named_it(tmp_path: Path) -> None:
    """Its sender knew the ETag, also where no read was recorded."""
    lines = [
        "a 0 request put k - x",
        *("b 0 request delete k - - matches:e1", "b 0 response delete k done -"),
        "a 0 response put k done - e1",
        *get("a", 1, "other"),
    ]
    assert judged(tmp_path, *lines, promise="lock=k")[0] == "violated"


@pytest.mark.parametrize("answer", [["a 0 response put k done - e1"], []])
def test_what_another_write_may_have_made_orders_nothing(answer: list[str], tmp_path: Path) -> None:
    """The lock that was read may have been the first one, which was released."""
    lines = [
        *("a 0 request put k - x", *answer, "c 0 request put k - x"),
        *("b 0 request head k - -", "b 0 response head k done - e1"),
        *("a 1 request delete k - -", "a 1 response delete k done -"),
        "c 0 response put k done - e1",
        *(*get("a", 2, "other"), *get("c", 1, "other")),
    ]
    assert judged(tmp_path, *lines, promise="lock=k")[0] == "holds"


def test_what_was_seen_before_a_write_was_not_made_by_it(tmp_path: Path) -> None:
    lines = [
        *("b 0 request head k - -", "b 0 response head k done - e1"),
        *("c 0 request put k - y", "c 0 response put k done - e2"),
        *("c 1 request delete k - -", "c 1 response delete k done -"),
        *("a 0 request put k - x", "a 0 response put k done - e1"),
        *get("a", 1, "other"),
    ]
    assert judged(tmp_path, *lines, promise="lock=k")[0] == "holds"


def test_threads_of_one_process_take_effect_in_any_order(tmp_path: Path) -> None:
    """The lock may have been written before it was deleted."""
    lines = [
        "b 0 request delete k - -",
        "b 1 request put k - h",
        "b 1 response put k done -",
        "b 0 response delete k done -",
        *put("a", 0, "k"),
        *get("b", 2, "other"),
    ]
    assert judged(tmp_path, *lines, promise="lock=k")[0] == "holds"


def test_what_was_not_acknowledged_may_be_overwritten(tmp_path: Path) -> None:
    """In the order of the requests; if it landed last, it would have destroyed what was acknowledged."""
    lines = [
        *put("s", 0, "k", "x"),
        *get("a", 0, "k", "x"),
        *get("b", 0, "k", "x"),
        "a 1 request put k - y",
        *put("b", 1, "k", "z"),
        *get("a", 2, "k", "z"),
    ]
    assert judged(tmp_path, *lines, promise="register")[0] == "holds"
    assert judged(tmp_path, *lines[:-2], *get("a", 2, "k", "y"), promise="register")[0] == "undecided"


@pytest.mark.parametrize(("then", "verdict"), [("response", "violated"), ("landed", "holds")])
def test_what_landed_is_acknowledged_by_its_answer_alone(then: str, verdict: str, tmp_path: Path) -> None:
    lines = [
        *put("s", 0, "k", "x"),
        *get("b", 0, "k", "x"),
        "a 1 request put k - y",
        "a 1 landed put k done -",
        *([] if then == "landed" else ["a 1 response put k done -"]),
        *put("b", 1, "k", "z"),
    ]
    assert judged(tmp_path, *lines, promise="register")[0] == verdict


@pytest.mark.parametrize(("phase", "verdict"), [("landed", "violated"), ("response", "undecided")])
def test_a_request_took_effect_where_it_landed(phase: str, verdict: str, tmp_path: Path) -> None:
    """The lock was taken before it was deleted, or the deletion found nothing."""
    lines = [
        "a 0 request put k - x",
        "b 0 request delete k - -",
        f"a 0 {phase} put k done -",
        f"b 0 {phase} delete k done -",
        *get("a", 1, "other"),
    ]
    assert judged(tmp_path, *lines, promise="lock=k")[0] == verdict


def test_a_request_may_land_after_its_sender_gave_up(tmp_path: Path) -> None:
    """The deletion came before the lock was taken, or after its holder came to its end."""
    lines = [
        *put("a", 0, "k"),
        "b 0 request put k - x",
        "b 0 response put k unknown -",
        *get("a", 1, "other"),
        *get("b", 1, "k", "x"),
    ]
    assert judged(tmp_path, *lines, promise="lock=k")[0] == "undecided"


def test_a_lock_that_was_never_free_is_asked_for_in_vain_only_at_the_end(tmp_path: Path) -> None:
    """Nothing is claimed of the end of a trace: somebody may have had the lock later."""
    lines = ["a 0 request put k - x absent:", "a 0 response put k throttled -"]
    assert judged(tmp_path, *lines, promise="lock=k")[0] == "holds"


def test_a_deletion_without_an_answer_may_explain_a_run(tmp_path: Path) -> None:
    """The holder released its lock, or another robbed it."""
    lines = [*put("a", 0, "k"), "a 1 request delete k - -", *put("b", 0, "k"), *get("a", 2, "other")]
    assert judged(tmp_path, *lines, promise="lock=k")[0] == "undecided"


def test_what_the_recorder_dropped_decides_nothing(tmp_path: Path) -> None:
    base = [*put("a", 0, "jobs/1"), *put("b", 0, "done/1"), *put("c", 0, "dead/1")]
    gap = "a -1 note gap jobs/1 - -"
    assert judged(tmp_path, *base, gap)[0] == "undecided"


def test_of_two_writes_without_an_answer_one_may_have_landed(tmp_path: Path) -> None:
    """Only the second one did: else the second record is missing, or the first is written over."""
    lines = [
        *put("a", 0, "log/1", "x"),
        "b 0 request put log/1 - y",
        "c 0 request put log/2 - x2",
        *put("a", 1, "log/3", "x3"),
    ]
    assert judged(tmp_path, *lines, promise="log=log/")[0] == "undecided"
    neither = [line for line in lines if not line.startswith("c ")]
    assert judged(tmp_path, *neither, promise="log=log/")[0] == "violated"
