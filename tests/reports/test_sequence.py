"""A run as a picture: who asked what of which key, when it landed, and what never came back."""

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fencepost.reports.page.sequence import KEYS_MAX, OTHERS, ROWS_MAX, diagram, rows_of


def request(op: int, process: str, key: str, kind: str = "put", **more: Any) -> dict[str, Any]:
    return {"phase": "request", "op": op, "process": process, "kind": kind, "key": key, **more}


def landed(op: int, process: str, key: str, outcome: str, kind: str = "put", **more: Any) -> dict[str, Any]:
    return {
        "phase": "landed",
        "op": op,
        "process": process,
        "kind": kind,
        "key": key,
        "outcome": outcome,
        **more,
    }


def response(op: int, process: str, key: str, outcome: str, kind: str = "put") -> dict[str, Any]:
    return {"phase": "response", "op": op, "process": process, "kind": kind, "key": key, "outcome": outcome}


RUN = [
    request(1, "a", "lock", condition="absent", trace_fields="epoch=3"),
    request(2, "b", "lock", condition="absent"),
    landed(1, "a", "lock", "done", etag="abcdef0123", trace_fields="epoch=3"),
    response(1, "a", "lock", "done"),
    landed(2, "b", "lock", "exists"),
    response(2, "b", "lock", "unknown"),
    {"phase": "note", "process": "b", "op": -1, "kind": "crash", "note": "crash"},
    {"phase": "note", "process": "a", "op": -1, "kind": "note", "key": "leads", "note": "'a'"},
]


def texts(markup: str) -> list[str]:
    return ["".join(found.itertext()) for found in ET.fromstring(markup).iter("text")]


def test_the_moments_of_a_run() -> None:
    rows = rows_of(RUN)
    assert [(row.kind, row.process, row.text, row.outcome, row.lost) for row in rows] == [
        ("request", "a", "put if absent", "done", False),
        ("request", "b", "put if absent", "exists", True),
        ("fault", "b", "CRASH", "", False),
        ("note", "a", "leads: 'a'", "", False),
    ]
    assert rows[0].holds == "abcdef epoch=3"
    assert rows[1].holds == ""


def test_the_arrow_has_the_condition_and_the_key_what_changed() -> None:
    first = {"etag": "9f9d51aa", "size": 3, "trace_fields": "epoch=3 plan=a"}
    second = {"etag": "7e0d7faa", "size": 5, "trace_fields": "epoch=4 plan=a"}
    rows = rows_of(
        [
            landed(1, "a", "k", "done", **first),
            request(2, "b", "k", condition="matches", etag="9f9d51aa"),
            landed(2, "b", "k", "done", **second),
            landed(3, "b", "k", "done", kind="delete"),
        ]
    )
    assert rows[1].text == "put if 9f9d51"
    assert [row.difference for row in rows] == [
        "new",
        "epoch 3 → 4, was 9f9d51",
        "was 7e0d7f",
    ]


def test_a_request_that_was_overtaken_starts_above_what_overtook_it() -> None:
    """Beside its rail stand those that overtook it: that is what the eye is to see."""
    first, second, *_ = rows_of(RUN)
    assert second.issued < 0.5
    assert first.issued < second.issued + 1


def test_the_picture_names_lanes_and_what_was_lost() -> None:
    output = texts(diagram(RUN, "a <title>", number="n"))
    assert output[:3] == ["a", "b", "lock"]
    assert "put if absent → done" in output
    assert "put if absent → exists, reply lost" in output
    assert "epoch=3 (new)" in output
    assert "CRASH" in output


def test_a_reply_without_a_landing_never_reaches_a_key() -> None:
    rows = rows_of([request(1, "a", "k"), response(1, "a", "k", "unknown")])
    assert [(row.kind, row.outcome, row.lost) for row in rows] == [("answer", "unknown", True)]
    assert 'class="sent lost"' in diagram(
        [request(1, "a", "k"), response(1, "a", "k", "unknown")], "t", number="n"
    )


def many(count: int) -> Iterator[dict[str, Any]]:
    for op in range(count):
        yield request(op, "a", f"key-{op}")
        yield landed(op, "a", f"key-{op}", "done")
        yield response(op, "a", f"key-{op}", "done")


@pytest.mark.parametrize("count", [1, KEYS_MAX + 1, KEYS_MAX + 2, ROWS_MAX, ROWS_MAX + 1, 5000])
def test_a_picture_is_bounded_however_long_the_run(count: int) -> None:
    """And still shows how it ends, which is where it failed."""
    markup = diagram(list(many(count)), "t", number="n")
    assert len(markup) < 120_000
    output = texts(markup)
    assert (OTHERS in output) == (count > KEYS_MAX + 1)
    assert any("left out" in text for text in output) == (count > ROWS_MAX)
    rows = [g for g in ET.fromstring(markup).iter("g") if "row" in g.get("class", "").split()]
    assert len(rows) == min(count, ROWS_MAX + 1)


def test_a_deleted_key_holds_nothing() -> None:
    assert rows_of([landed(1, "a", "k", "done", kind="delete")])[0].holds == "(deleted)"
    assert rows_of([landed(1, "a", "k", "done", kind="get")])[0].holds == ""
