"""The reference says of every recorded row of S3 what S3 did."""

import doctest
from types import ModuleType
from typing import Any

import pytest

from fencepost.model import store_reference
from fencepost.model.store_reference import (
    Answer,
    Operation,
    State,
    fingerprint,
    fingerprint_of_parts,
    one_key,
    step,
)

A, B = fingerprint(b"a"), fingerprint(b"b")
ANY: Any = ("anything",)
ABSENT: Any = ("absent",)


def matches(etag: str) -> Any:
    return "matches", etag


def put(body: bytes, when: Any = ANY, key: str = "k") -> Operation:
    return "put", key, body, when, "text/plain", ()


def delete(when: Any = ANY, version: int = 0, key: str = "k") -> Operation:
    return "delete", key, when, version


def run(*operations: Operation, versioned: bool = False) -> tuple[State, Answer]:
    """The state after the operations, and the last answer."""
    state = State(versioned=versioned, part_bytes_min=0)
    answer: Answer = ()
    for operation in operations:
        state, answer = step(state, operation)
    return state, answer


@pytest.mark.parametrize("module", [store_reference, one_key])
def test_its_examples_are_right(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert (failed, tried) == (0, 2 if module is one_key else 4)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize(
    ("before", "operation", "outcome"),
    [
        ([], put(b"b", ABSENT), "done"),
        ([put(b"a")], put(b"b", ABSENT), "exists"),
        ([put(b"a")], put(b"b", matches(A)), "done"),
        ([put(b"a")], put(b"b", matches(B)), "changed"),
        ([], put(b"b", matches(A)), "missing"),
        ([put(b"a"), delete()], put(b"b", ABSENT), "done"),
        ([put(b"a"), delete()], put(b"b", matches(A)), "missing"),
        ([put(b"a"), put(b"b"), put(b"a")], put(b"c", matches(A)), "done"),
        ([put(b"a")], delete(matches(A)), "done"),
        ([put(b"a")], delete(matches(B)), "changed"),
        ([], delete(matches(A)), "missing"),
        ([], delete(), "done"),
    ],
)
def test_conditions(before: list[Operation], operation: Operation, outcome: str, versioned: bool) -> None:
    """Only what stands there now counts, and a delete marker counts as nothing."""
    assert run(*before, operation, versioned=versioned)[1][0] == outcome


CREATE: Operation = ("create-upload", "k", "text/plain", ())


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize(
    ("before", "between", "when", "outcome"),
    [
        ([], [], ABSENT, "done"),
        ([put(b"a")], [], ABSENT, "exists"),
        ([], [put(b"a")], ABSENT, "exists"),
        ([put(b"a")], [delete()], ABSENT, "conflict"),
        ([put(b"a")], [], matches(A), "done"),
        ([put(b"a")], [put(b"b")], matches(A), "changed"),
        ([put(b"a")], [put(b"b")], matches(B), "conflict"),
        ([put(b"a")], [put(b"a")], matches(A), "conflict"),
        ([put(b"a")], [delete()], matches(A), "missing"),
        ([put(b"a")], [delete(), put(b"a")], matches(A), "conflict"),
        ([put(b"a")], [put(b"b"), delete()], ANY, "done"),
    ],
)
def test_completing_an_upload_remembers_what_stood_there(
    before: list[Operation], between: list[Operation], when: Any, outcome: str, versioned: bool
) -> None:
    state, answer = run(*before, CREATE, versioned=versioned)
    upload = answer[1]
    state, answer = step(state, ("upload-part", "k", upload, 1, b"p"))
    for operation in between:
        state, _ = step(state, operation)
    complete: Operation = ("complete-upload", "k", upload, ((1, answer[1]),), when)
    state, answer = step(state, complete)
    assert answer[0] == outcome
    if outcome == "conflict":
        assert step(state, complete)[1] == ("conflict",)
    if outcome == "done":
        assert answer[1] == fingerprint_of_parts((fingerprint(b"p"),))
        assert step(state, complete)[1] == ("gone",)


def test_parts_that_were_not_uploaded_or_are_too_small() -> None:
    state, answer = step(State(part_bytes_min=2), CREATE)
    upload = answer[1]
    for number in (1, 2):
        state, answer = step(state, ("upload-part", "k", upload, number, b"p"))
    small = ((1, answer[1]), (2, answer[1]))
    assert step(state, ("complete-upload", "k", upload, small, ANY))[1] == ("misuse",)
    assert step(state, ("complete-upload", "k", upload, ((3, answer[1]),), ANY))[1] == ("misuse",)
    assert step(state, ("complete-upload", "k", upload, ((2, answer[1]),), ANY))[1][0] == "done"


def test_versions_pile_up_and_markers_hide_them() -> None:
    state, answer = run(put(b"a"), put(b"b"), delete(), versioned=True)
    assert answer == ("done", 3, True)
    _, listed, _ = step(state, ("list-versions", "", 10, None))[1]
    assert listed == (("k", 3, True, True, "", 0), ("k", 2, False, False, B, 1), ("k", 1, False, False, A, 1))
    assert step(state, ("get", "k", 0, None, None, None, 0))[1] == ("missing",)
    assert step(state, ("get", "k", 0, None, None, None, 2))[1][1] == b"b"
    state, answer = step(state, delete(version=3))
    assert answer == ("done", 3, True)
    assert step(state, ("head", "k", 0))[1][1][1] == B


@pytest.mark.parametrize(
    ("prefix", "after", "delimiter", "pages"),
    [
        ("", "", "", [("a", "a/"), ("a/b", "a/c"), ("b",)]),
        ("", "", "/", [("a", "a/*"), ("b",)]),
        ("a/", "", "/", [("a/", "a/b"), ("a/c",)]),
        ("", "a/b", "/", [("a/*", "b")]),
        ("zz", "", "/", [()]),
    ],
)
def test_listings_in_pages_of_two(prefix: str, after: str, delimiter: str, pages: list[Any]) -> None:
    state, _ = run(*(put(b"", key=key) for key in ("b", "a/c", "a/b", "a/", "a")))
    found, token = [], None
    while not found or token is not None:
        _, objects, groups, token = step(state, ("list", prefix, after, delimiter, 2, token))[1]
        found.append(tuple(sorted([key for key, _, _ in objects] + [f"{group}*" for group in groups])))
    assert found == pages


@pytest.mark.parametrize(
    ("span", "body"), [((0, None), b"abc"), ((0, 1), b"a"), ((1, 9), b"bc"), ((2, None), b"c")]
)
def test_ranges(span: tuple[int, int | None], body: bytes) -> None:
    state, _ = run(put(b"abc"))
    assert step(state, ("get", "k", *span, None, None, 0))[1][1] == body
    assert step(state, ("get", "k", 3, None, None, None, 0))[1] == ("past-end",)


def test_states_are_values() -> None:
    """Equal histories give equal states with equal hashes: a checker may put them into a set."""
    one, _ = run(put(b"a"), CREATE, delete(), versioned=True)
    two, _ = run(put(b"a"), CREATE, delete(), versioned=True)
    assert one == two
    assert hash(one) == hash(two)


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="is no operation on a store"):
        step(State(), ("copy", "k"))
    with pytest.raises(ValueError, match="is no operation on a key"):
        store_reference.on_key(None, ("copy",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is no condition"):
        step(State(), put(b"", ("perhaps",)))
