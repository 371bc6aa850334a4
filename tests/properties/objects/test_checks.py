"""The checks of the object server: each refuses what it must, and is named like a model's property."""

from typing import Any

import pytest

from fencepost.impl.objects.change_log import Event
from fencepost.model import Model
from fencepost.model.handoff import Handoff
from fencepost.model.objects import Objects
from fencepost.model.uploads import Uploads
from fencepost.properties.objects.checks import (
    CHECKS,
    DONE,
    NOTHING,
    REFUSED,
    Directory,
    Outcomes,
    Request,
)

PLACE = ("bucket", "key")
NOT_CHECKED = {
    "served": "the audit reports every lock that a process waits for without end",
    "one_serves": "one_owner implies it: workers serve while their server has the directory",
    "nothing_lost": "a server keeps its state in the directory, which ack_durable judges",
    "no_connection_refused": "tests replace real servers under load (tests/servers)",
    "whole_object": "untorn and ack_durable judge the bytes of an upload",
    "success_is_true": "ack_durable judges the object of a completed upload",
    "refusal_is_true": "the server does not have it, see docs/decisions/0015",
    "aborted_for_good": "no scenario aborts an upload",
    "collected": "a property of all futures",
}
NOT_MODELLED = {"handed_over": "the model has it as reachable"}


def test_the_checks_are_named_like_the_properties_of_the_models() -> None:
    modelled = {
        one.name
        for machine in (Objects, Uploads, Handoff)
        for one in Model(machine).properties
        if one.kind.name not in ("reachable", "refinement")
    }
    assert modelled - CHECKS.keys() == NOT_CHECKED.keys()
    assert CHECKS.keys() - modelled == NOT_MODELLED.keys()


def wrote(name: str, kind: str, answer: str = DONE, **more: Any) -> Request:
    return Request(name, PLACE, kind, "" if kind == "delete" else name, answer, **more)


def event(ts_ns: int, etag: str, mark: str = "m") -> Event:
    return Event(ts_ns, *PLACE, "", None, {"etag": etag, "mark": mark} if etag else None)


def holds(etag: str, listed: str | None = None, *events: Event) -> Directory:
    shown = etag if listed is None else listed
    return Directory({PLACE: etag} if etag else {}, {PLACE: shown} if shown else {}, events)


BAD: dict[str, tuple[Directory, Outcomes]] = {
    "one_winner": (NOTHING, Outcomes((wrote("a", "create"), wrote("b", "create")))),
    "cas_exact": (
        NOTHING,
        Outcomes((wrote("a", "replace", base="x"), wrote("b", "replace", base="x")), {PLACE: "x"}),
    ),
    "untorn": (NOTHING, Outcomes((wrote("a", "put"), wrote("b", "put")), reads=(("a", "b"),))),
    "ack_durable": (holds(""), Outcomes((wrote("a", "put"),))),
    "list_true": (holds("a", ""), Outcomes()),
    "event_complete": (holds("a"), Outcomes((wrote("a", "put"),))),
    "event_true": (holds("a", None, event(1, "b")), Outcomes((wrote("b", "create", REFUSED),))),
    "upload_safe": (NOTHING, Outcomes(removed={"u": 5.0}, upload_age_s=6.0)),
    "published_once": (
        holds("a", None, event(1, "a", "m"), event(2, "a", "n")),
        Outcomes((wrote("a", "complete"),)),
    ),
    "one_owner": (NOTHING, Outcomes(owners=(("old", "new"),))),
    "always_served": (NOTHING, Outcomes(serving=())),
    "handed_over": (NOTHING, Outcomes(failed_handoff="it took too long")),
}


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_refuses_something(name: str) -> None:
    assert list(CHECKS[name](*BAD[name]))


GOOD = [
    (holds("a", None, event(1, "a")), Outcomes((wrote("a", "create"), wrote("b", "create", REFUSED)))),
    (
        holds("b", None, event(1, ""), event(2, "b")),
        Outcomes((wrote("a", "delete"), wrote("b", "create")), {PLACE: "x"}, (("x", "x"), ("b", "b"))),
    ),
    (holds("x"), Outcomes((wrote("a", "put", "unanswered"),), {PLACE: "x"})),
    (holds("a", None, event(1, "a")), Outcomes((wrote("a", "put", "unanswered"),), {PLACE: "x"})),
    (holds("a", ""), Outcomes((wrote("a", "put", "unanswered"),), is_reconciled=False)),
    (NOTHING, Outcomes(owners=(("old",), ("new",)), serving=("new",), removed={"u": 9.0}, upload_age_s=6.0)),
]


@pytest.mark.parametrize(("directory", "outcomes"), GOOD)
def test_what_may_happen_passes_every_check(directory: Directory, outcomes: Outcomes) -> None:
    assert {name: list(check(directory, outcomes)) for name, check in CHECKS.items()} == {
        name: [] for name in CHECKS
    }
