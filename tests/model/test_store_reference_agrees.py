"""The store's pieces against the sequential reference: every reachable transition, and no other.

A machine may send any request, with any answer, at any time. The same rules once more in plain
Python: the effect and the reply of a request come from `store_reference`, one state and one request at a
time; a reply lost, a request lost or late is a few lines. Both readings must have the same edges.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from fencepost.model import Each, Int, Machine, Model, action, reachable_graph
from fencepost.model.store import Key, Late, VersionedKey
from fencepost.model.store.requests import POSSIBLE
from fencepost.model.store_reference import State as Bucket
from fencepost.model.store_reference import on_key, step

KEYS, VALUES, VERSIONS = 2, 2, 2


class AnyRequest(Machine):
    """Whatever a store can be asked, of two keys, with one late request."""

    key = Each(KEYS, Key(value=Int(0, VALUES - 1)))
    late = Late(key)

    @action(k=KEYS, value=VALUES, answer=POSSIBLE["create"])
    def create(s, k: int, value: int, answer: str) -> None:
        s.key[k].create(answer, value=value, late=s.late)

    @action(k=KEYS, match=VALUES, value=VALUES, answer=POSSIBLE["replace"])
    def replace(s, k: int, match: int, value: int, answer: str) -> None:
        s.key[k].replace(answer, match=match, value=value, late=s.late)

    @action(k=KEYS, value=VALUES, answer=POSSIBLE["put"])
    def put(s, k: int, value: int, answer: str) -> None:
        s.key[k].put(answer, value=value, late=s.late)

    @action(k=KEYS, answer=POSSIBLE["delete"])
    def delete(s, k: int, answer: str) -> None:
        s.key[k].delete(answer, late=s.late)

    @action(k=KEYS, match=VALUES, answer=POSSIBLE["delete-match"])
    def delete_match(s, k: int, match: int, answer: str) -> None:
        s.key[k].delete(answer, match=match, late=s.late)

    @action
    def lands(s) -> None:
        s.late.land()


class AnyVersion(Machine):
    """The same of one key in a versioned bucket, while there is room for another version."""

    key = VersionedKey(VERSIONS, value=Int(0, VALUES - 1))
    late = Late(key)
    late_removal = Late(key, only=("delete-version",))

    def narrow(s, answer: str = "done") -> None:
        if answer in ("done", "reply_lost"):
            s.require(s.key.written < VERSIONS)

    @action(value=VALUES, answer=POSSIBLE["create"])
    def create(s, value: int, answer: str) -> None:
        s.narrow(answer)
        s.key.create(answer, value=value, late=s.late)

    @action(match=VALUES, value=VALUES, answer=POSSIBLE["replace"])
    def replace(s, match: int, value: int, answer: str) -> None:
        s.narrow(answer)
        s.key.replace(answer, match=match, value=value, late=s.late)

    @action(value=VALUES, answer=POSSIBLE["put"])
    def put(s, value: int, answer: str) -> None:
        s.narrow(answer)
        s.key.put(answer, value=value, late=s.late)

    @action(answer=POSSIBLE["delete"])
    def delete(s, answer: str) -> None:
        s.narrow(answer)
        s.key.delete(answer, late=s.late)

    @action(match=VALUES, answer=POSSIBLE["delete-match"])
    def delete_match(s, match: int, answer: str) -> None:
        s.narrow(answer)
        s.key.delete(answer, match=match, late=s.late)

    @action(number=VERSIONS, answer=POSSIBLE["delete-version"])
    def delete_version(s, number: int, answer: str) -> None:
        s.key.delete_version(answer, number=number, late=s.late_removal)

    @action
    def lands(s) -> None:
        s.narrow()
        s.late.land()

    @action
    def removal_lands(s) -> None:
        s.late_removal.land()


Asked = tuple[tuple[str, int], ...]
Request = tuple[str, Asked]
Label = str
State = tuple[Any, ...]
Edges = Iterator[tuple[Label, State]]
NO_EFFECT = ("request_lost", "conflict", "throttled")


def requests(**names: range) -> Iterator[Request]:
    """Every operation with every choice of what it is asked with; `names` are asked of all of them."""
    values = range(VALUES)
    wanted = {
        "create": {"value": values},
        "replace": {"match": values, "value": values},
        "put": {"value": values},
        "delete": {},
        "delete-match": {"match": values},
    }
    for operation, own in wanted.items():
        domains = {**names, **own}
        for choice in product(*domains.values()):
            yield operation, tuple(zip(domains, choice, strict=True))


def condition(operation: str, asked: dict[str, int]) -> tuple[str, ...]:
    """The condition of an operation; an ETag is written as the value that it is the ETag of."""
    if operation == "create":
        return ("absent",)
    return ("matches", str(asked["match"])) if "match" in asked else ("anything",)


def text(operation: str, asked: Asked, answer: str) -> Label:
    given = ", ".join(f"{name}={value}" for name, value in (*asked, ("answer", answer)))
    return f"{operation.replace('-', '_')}({given})"


def plain_edges(state: State) -> Edges:
    """What may happen to keys that hold no versions, by the reference, and where it leads."""
    standing, late = state

    def ask(request: Request) -> tuple[Any, str, bool]:
        operation, asked = request[0], dict(request[1])
        when = condition(operation, asked)
        kind = ("delete", when) if operation.startswith("delete") else ("write", when, str(asked["value"]))
        k = asked["k"]
        now, outcome = on_key(standing[k], kind)
        after = (*standing[:k], now, *standing[k + 1 :])
        return after, outcome, outcome == "done" and not (operation == "delete" and standing[k] is None)

    for operation, asked in requests(k=range(KEYS)):
        after, outcome, effect = ask((operation, asked))
        for answer in POSSIBLE[operation]:
            label = text(operation, asked, answer)
            if answer in NO_EFFECT:
                yield label, state
            elif answer == "late" and late is None:
                yield label, (standing, (operation, asked))
            elif answer == outcome or (answer == "reply_lost" and effect):
                yield label, (after, late)
    if late is not None:
        after, _, effect = ask(late)
        if effect:
            yield "lands()", (after, None)


def printed_keys(state: State) -> tuple[str, ...]:
    standing, late = state
    keys = ("absent" if value is None else f"value={value}" for value in standing)
    return *keys, printed_request(late)


def printed_request(late: Request | None) -> str:
    """A late request as the machine prints it."""
    if late is None:
        return "nothing"
    operation, asked = late[0], dict(late[1])
    words = [operation, f"key[{asked['k']}]" if "k" in asked else "key"]
    words += [f"matching {asked['match']}"] if "match" in asked else []
    words += [f"version {asked['number']}"] if "number" in asked else []
    words += [f"value={asked['value']}"] if "value" in asked else []
    return " ".join(words)


def versioned_edges(state: State) -> Edges:
    """The same of one key in a versioned bucket, by the whole reference."""
    bucket, late, removal = state

    def ask(request: Request) -> tuple[Bucket, str]:
        operation, asked = request[0], dict(request[1])
        when = tuple(etag(part) if part.isdigit() else part for part in condition(operation, asked))
        if operation.startswith("delete"):
            after, answer = step(bucket, ("delete", "k", when, asked.get("number", -1) + 1))
        else:
            after, answer = step(bucket, ("put", "k", body(asked["value"]), when, "", ()))
        return after, answer[0]

    for operation, asked in requests():
        after, outcome = ask((operation, asked))
        for answer in POSSIBLE[operation]:
            label = text(operation, asked, answer)
            if answer in NO_EFFECT:
                yield label, state
            elif answer == "late" and late is None:
                yield label, (bucket, (operation, asked), removal)
            elif answer in (outcome, "reply_lost" if outcome == "done" else "") and after.count <= VERSIONS:
                yield label, (after, late, removal)
    for number in range(VERSIONS):
        request = ("delete-version", (("number", number),))
        after, _ = ask(request)
        for answer in POSSIBLE["delete-version"]:
            label = text(*request, answer)
            if answer in NO_EFFECT:
                yield label, state
            elif answer == "late" and removal is None:
                yield label, (bucket, late, request)
            elif (answer == "reply_lost" and after != bucket) or (answer == "done" and number < bucket.count):
                yield label, (after, late, removal)
    if late is not None:
        after, outcome = ask(late)
        if outcome == "done" and after.count <= VERSIONS:
            yield "lands()", (after, None, removal)
    if removal is not None:
        after, _ = ask(removal)
        if after != bucket:
            yield "removal_lands()", (after, late, None)


def body(value: object) -> bytes:
    return str(value).encode()


def etag(value: str) -> str:
    return step(Bucket(), ("put", "k", body(value), ("absent",), "", ()))[1][1]


def printed_versions(state: State) -> tuple[str, ...]:
    bucket, late, removal = state
    writes = {write.number: write for write in bucket.writes("k")}
    versions = []
    for number in range(1, bucket.count + 1):
        write = writes.get(number)
        held = "gone" if write is None else "marker" if write.marker else f"value={write.body.decode()}"
        versions.append(held)
    return ", ".join(versions) or "absent", printed_request(late), printed_request(removal)


def explored(start: State, edges: Callable[[State], Edges]) -> Iterator[tuple[State, Label, State]]:
    """Every edge that can be reached from a state."""
    known, waiting = {start}, [start]
    while waiting:
        state = waiting.pop()
        for label, after in edges(state):
            yield state, label, after
            if after not in known:
                known.add(after)
                waiting.append(after)


def edges_of(machine: type[Machine]) -> set[tuple[tuple[str, ...], Label, tuple[str, ...]]]:
    """The edges of a machine, its states as the texts of their fields."""
    model = Model(machine)
    graph = reachable_graph(model)
    named = []
    for number in range(graph.states.shape[1]):
        values = model.unpack(graph.states[:, number]).values()
        named.append(
            tuple(str(part) for value in values for part in (value if isinstance(value, tuple) else (value,)))
        )
    assert len(set(named)) == len(named), "equal situations are packed differently"
    return {
        (named[source], str(model.labels[label]), named[target])
        for source, target, label in zip(graph.sources, graph.targets, graph.labels, strict=True)
    }


@pytest.mark.parametrize(
    ("machine", "start", "edges", "printed", "count"),
    [
        (AnyRequest, ((None,) * KEYS, None), plain_edges, printed_keys, 19_476),
        (AnyVersion, (Bucket(versioned=True), None, None), versioned_edges, printed_versions, 35_622),
    ],
)
def test_every_transition_is_the_references_and_none_is_missing(
    machine, start, edges, printed, count
) -> None:
    expected = {(printed(before), label, printed(after)) for before, label, after in explored(start, edges)}
    assert edges_of(machine) == expected
    assert len(expected) == count
