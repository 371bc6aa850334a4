"""The real catalog on paths of `model/publish_content.py`: each answer and all content must be the model's.

    model = Model(PublishContent, {"drafts": 1})
    walks = Walks(reachable_graph(model), seed=1)
    while walks.is_open:
        ContentRun(walks.next()).follow()
    print(walks.driven, walks.transitions)

A path is a sequence of the model's labels, each with the state after it. `ContentRun` does what the labels
say with `Catalog`: transactions, groups, branches, compaction, changes of the schema. A group whose plan is
staged while others act is one call of `publish_all`, which is interrupted at one of its requests: before the
probe of the next manifest, after it, or before the create of the manifest. The expectations must have the
same effect at each of these places. After every label it compares these with the model:

- The answer of each draft: published, stale or invalid.
- The rows of every branch, read by a process without a cache and by the writers with theirs.
- Pins and lineages, one to one with stamps and numbers, and their owners.
- The newest version of every lineage, which is the pin of the branch that owns it.
- The number of runs of a table, where the model has the first run only.

`Walks` chooses paths through transitions that no path has taken. The denominator is exact: every transition
between reachable states at the bound.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import (
    STANDARD,
    Catalog,
    Draft,
    Invalid,
    Mode,
    Published,
    PublishError,
    Safeguards,
    StaleView,
    Transaction,
    keys,
    tables,
    verify,
)
from fencepost.impl.publish.branches import is_fast_forward
from fencepost.impl.store import ABSENT
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Request
from fencepost.model import Graph, Label
from fencepost.model.publish_content import DEV, EDGES, MAIN, NODES, OWN, TABLES, WRITES
from fencepost.properties.publish import parquet_cache

NAMES = {MAIN: "main", DEV: "dev"}
TABLE = {NODES: "nodes", EDGES: "edges"}
COUNTER, NODE = 0, 1
"""Keys of the table of nodes; the edge has key 1 and points at the node."""
PLACES = (("before", "recovery/"), ("after", "recovery/"), ("before", "branch/main/manifest/"))
"""Where a staged plan is interrupted: before the probe, after it, before the create of the manifest."""
ANSWERS = {"published": Published, "stale": StaleView, "stale-before-heads": StaleView, "invalid": Invalid}
COMPARED = ("branch", "head")
FAN_IN = tables.FAN_IN
ONWARDS = 0.9
"""The probability that a walk takes a step towards new transitions rather than a new one itself."""
Values = Mapping[str, Any]


@dataclass(frozen=True)
class PathStep:
    """One label of a path, and the fields of the model after it."""

    label: Label
    after: Values

    @property
    def parameters(self) -> Mapping[str, Any]:
        return dict(self.label.parameters)


class Divergence(AssertionError):
    """The catalog does not do what the model does."""


class _Interrupted(Layer):
    """Acts once, before or after the first step with a put below a prefix."""

    act: Callable[[], None] | None = None
    place = PLACES[0]

    def send(self, request: Request[Any]) -> Any:
        return self.send_all([request])[0]

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        when, prefix = self.place
        act = None
        if any(request.kind == "put" and request.subject.startswith(prefix) for request in requests):
            act, self.act = self.act, None
        if act is not None and when == "before":
            act()
        replies = self.inner.send_all(requests)
        if act is not None and when == "after":
            act()
        return replies


class ContentRun:
    """One path on one catalog in memory."""

    def __init__(
        self,
        path: Sequence[PathStep],
        *,
        seed: int = 0,
        safeguards: Safeguards = STANDARD,
        fan_in: int = FAN_IN,
    ) -> None:
        """With a small `fan_in`, writers merge runs, and the number of runs is not compared."""
        self.path = path
        self._at = 0
        self._safeguards = safeguards
        self._fan_in = fan_in
        self._store: Store = MemoryStore(env=SeededEnvironment(seed + 2))
        self._dice = self._store.env.stream("places")
        self._interrupted = _Interrupted(self._store)
        self._drafts: dict[int, Draft] = {}
        self._batch: list[tuple[int, str]] = []
        self._writers: dict[int, Catalog] = {}
        self._pins: dict[tuple[int, int], tuple[str, int]] = {}
        """By table and stamp."""
        self._lineages: dict[tuple[int, int], str] = {}
        """By table and number."""
        self._seen: dict[int, tuple[int, Values]] = {}
        """By branch, the manifest that was compared last, and with what."""
        self._heads_are_out = False

    def follow(self) -> None:
        """Do all that the path says; `Divergence` at the first difference."""
        fan_in, tables.FAN_IN = tables.FAN_IN, self._fan_in
        try:
            with parquet_cache.installed():
                self._play()
                self._expect("faults", (), verify(self._writers[MAIN]).faults)
        finally:
            tables.FAN_IN = fan_in

    def _play(self, until: str = "") -> None:
        while self._at < len(self.path):
            step = self.path[self._at]
            if step.label.action == until:
                return
            getattr(self, f"_{step.label.action}")(**step.parameters)
            if not self._batch:
                self._compare(self.path[self._at].after)
            self._at += 1

    def _expect(self, what: str, model: object, real: object) -> None:
        if model != real:
            step = self.path[min(self._at, len(self.path) - 1)]
            raise Divergence(
                f"step {self._at + 1}, {step.label}: {what}: the model has {model}, the catalog {real}; "
                f"the path: {'; '.join(str(step.label) for step in self.path[: self._at + 1])}"
            )

    def _expect_answer(self, answer: str, result: object) -> None:
        if not isinstance(result, ANSWERS[answer]):
            self._expect("the answer", answer, repr(result))

    # The actions of the model.

    def _found(self, *, declared: bool, edge: bool) -> None:
        for key, body in _founded(declared=declared, edge=edge).items():
            self._store.put(key, body, when=ABSENT)
        self._group = self._open(self._interrupted)
        self._writers[MAIN] = self._open(self._store)

    def _open(self, store: Store) -> Catalog:
        return Catalog.open(store, mode=Mode.JOIN, safeguards=self._safeguards)

    def _begin(self, *, d: int, kind: str, b: int) -> None:
        self._writers[b].refresh()
        draft: Draft = Draft() if kind == "compact" else self._writers[b].draft()
        if isinstance(draft, Transaction):
            _decide(draft, kind)
        else:
            draft.rewrite("nodes")
        self._drafts[d] = draft

    def _join_group(self, *, d: int, answer: str) -> None:
        if self._batch or answer == "joined":
            self._batch.append((d, answer))
        else:
            self._group.refresh()
            self._expect_answer(answer, self._group.publish_all([self._drafts[d]])[0])

    def _stage(self) -> None:
        """The whole of `publish_all`, with what others do meanwhile, up to and with the commit."""
        batch, self._batch = self._batch, []
        end = next(at for at in range(self._at, len(self.path)) if self.path[at].label.action == "commit")
        answer = self.path[end].parameters["answer"]
        places = self._places(batch, self.path[self._at + 1 : end], answer)
        self._interrupted.place = self._dice.choice(places)

        def others() -> None:
            self._heads_are_out = self._interrupted.place == PLACES[2]
            self._at += 1
            self._play(until="commit")
            self._heads_are_out = False

        self._group.refresh()
        self._compare(self.path[self._at].after)
        self._interrupted.act = others
        drafts = [self._drafts[d] for d, _ in batch]
        results: Sequence[object]
        try:
            results = self._group.publish_all(drafts)
        except PublishError as error:
            results = [error if joined == "joined" else None for _, joined in batch]
        self._expect("the plan was staged", True, self._at == end)
        for (_, joined), result in zip(batch, results, strict=True):
            if result is not None:
                self._expect_answer(answer if joined == "joined" else joined, result)

    def _places(
        self, batch: Sequence[tuple[int, str]], between: Sequence[PathStep], answer: str
    ) -> Sequence[tuple[str, str]]:
        """Where the others may act. Once the heads of the plan are out, they block writers of its tables."""
        if answer == "stale-before-heads":
            return PLACES[:1]
        drafts = self.path[self._at].after["draft"]
        written = _tables(drafts[d]["kind"] for d, joined in batch if joined == "joined")
        rivals = _tables(
            step.after["draft"][step.parameters["d"]]["kind"]
            for step in between
            if step.label.action == "publish_alone"
            and (step.parameters["b"], step.parameters["answer"]) == (MAIN, "published")
        )
        places = PLACES[:2] if written & rivals else PLACES
        return places if answer == "published" else places[1:]

    def _publish_alone(self, *, d: int, b: int, answer: str) -> None:
        result: object
        self._writers[b].refresh()
        try:
            result = self._writers[b].publish(self._drafts[d])
        except PublishError as error:
            result = error
        self._expect_answer(answer, result)

    def _create_branch(self) -> None:
        self._writers[MAIN].create_branch("dev")
        self._writers[DEV] = self._writers[MAIN].on("dev", Mode.JOIN)

    def _merge_branch(self) -> None:
        self._expect_answer("published", self._writers[MAIN].merge("dev"))

    def _delete_branch(self) -> None:
        self._writers[MAIN].delete_branch("dev")
        del self._writers[DEV]

    # The comparison.

    def _compare(self, after: Values) -> None:
        for b in self._writers:
            self._compare_branch(b, after)
        if DEV in self._writers and not self._heads_are_out and not _may_merge(after):
            context = self._writers[MAIN].context
            main, dev = context.newest(), context.on("dev").newest()
            assert main is not None
            assert dev is not None
            self._expect("a fast-forward is possible", False, is_fast_forward(main, dev))

    def _compare_branch(self, b: int, after: Values) -> None:
        reader = Catalog.open(self._store, mode=Mode.READ, branch=NAMES[b])
        seen = (reader.manifest.id, {name: after[name] for name in COMPARED})
        if self._seen.get(b) == seen and not self._heads_are_out:
            return
        self._seen[b] = seen
        snapshot = reader.snapshot()
        rows = snapshot.load()
        nodes = {row["id"]: row["n"] for row in rows["nodes"]}
        branch = after["branch"][b]
        self._expect("the counter", branch["later_counter"] or branch["counter"], nodes.get(COUNTER))
        self._expect("the node", branch["node"] and not branch["later_removal"], NODE in nodes)
        self._expect("the edge", [{"id": 1, "to": NODE}] if branch["edge"] else [], rows["edges"])
        self._expect("the schema", branch["declared"], bool(snapshot.schema("edges").edges))
        one_run = not branch["later_counter"] and not branch["later_removal"]
        if one_run or self._fan_in == FAN_IN:
            self._expect("one run", one_run, len(snapshot.runs("nodes")) == 1)
        self._writers[b].refresh()
        self._expect("the writer's rows", rows, self._writers[b].snapshot().load())
        for t in TABLES:
            self._compare_pins(b, t, reader, after)

    def _compare_pins(self, b: int, t: int, reader: Catalog, after: Values) -> None:
        entry = reader.manifest.tables[TABLE[t]]
        pin = (entry.location, entry.version)
        known = self._pins.setdefault((t, after["branch"][b]["pin"][t]), pin)
        self._expect(f"the pin of {TABLE[t]}", known, pin)
        number = after["branch"][b]["lineage"][t]
        self._expect("the lineage", self._lineages.setdefault((t, number), entry.location), entry.location)
        for found in (self._pins, self._lineages):
            mine = [value for (table, _), value in found.items() if table == t]
            self._expect("different pins and lineages", len(mine), len(set(mine)))
        owned = number == OWN[b] or (b == MAIN and number == 0)
        self._expect("the owner", owned, entry.owner == reader.manifest.incarnation)
        if owned and not self._heads_are_out:
            listed = self._store.list(keys.versions(entry.location)).objects
            newest = self._pins[t, after["head"][t][number]][1]
            self._expect("the newest version", keys.version(entry.pin), listed[-1].key)
            self._expect("the newest version", newest, entry.version)


@functools.cache
def _founded(*, declared: bool, edge: bool) -> Mapping[str, bytes]:
    """The objects of a catalog with these rows."""
    store = MemoryStore(env=SeededEnvironment(1))
    with Catalog.open(store, create=True) as catalog, catalog.transaction() as txn:
        txn.create_table("nodes", {"id": "int64", "n": "int64"}, key="id")
        ends = {"to": "nodes"} if declared else {}
        txn.create_table("edges", {"id": "int64", "to": "int64"}, key="id", edges=ends)
        txn.append("nodes", [{"id": COUNTER, "n": 0}, {"id": NODE, "n": 0}])
        txn.append("edges", [{"id": 1, "to": NODE}] if edge else [])
    return dict(store.contents())


def _decide(draft: Transaction, kind: str) -> None:
    """Read and write as a transaction of this kind does."""
    match kind:
        case "count":
            rows = {row["id"]: row["n"] for row in draft.read("nodes")}
            draft.upsert("nodes", [{"id": COUNTER, "n": rows[COUNTER] + 1}])
        case "link-if":
            assert draft.snapshot.get("nodes", NODE) is not None, "the model has seen the node"
        case "drop-if":
            assert draft.read("edges") == [], "the model has seen no edge"
        case "declare":
            draft.add_edge("edges", "to", "nodes")
        case "undeclare":
            draft.drop_edge("edges", "to")
    if kind.startswith("drop"):
        draft.delete("nodes", [NODE])
    if kind.startswith("link"):
        draft.upsert("edges", [{"id": 1, "to": NODE}])
    if kind == "link-altered":
        draft.add_column("edges", "x", "string")
        draft.drop_column("edges", "x")


def _tables(kinds: Iterable[str]) -> set[int]:
    """The tables that drafts of these kinds write."""
    return {t for kind in kinds for t in TABLES if kind in WRITES[t]}


def _may_merge(after: Values) -> bool:
    """Return True if a merge of the second branch is accepted, which it also is with nothing to merge."""
    pins, forked = [branch["pin"] for branch in after["branch"]], after["forked_at"]
    return bool(pins[MAIN] == forked or pins[MAIN] == pins[DEV])


class Walks:
    """Paths through a graph that prefer transitions which no path has taken yet."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self._graph = graph
        self._dice = SeededEnvironment(seed).stream("walks")
        self._order = np.argsort(graph.sources, kind="stable")
        self._first = np.searchsorted(graph.sources.take(self._order), np.arange(graph.states.shape[1] + 1))
        self._values: dict[int, Values] = {}
        self._taken = np.zeros(len(graph.sources), bool)
        self._closed = np.zeros(graph.states.shape[1], bool)

    @property
    def transitions(self) -> int:
        return len(self._taken)

    @property
    def driven(self) -> int:
        return int(self._taken.sum())

    @property
    def labels(self) -> set[str]:
        """Those that were taken."""
        numbers = set(self._graph.labels[self._taken].tolist())
        return {str(self._graph.model.labels[number]) for number in numbers}

    @property
    def is_open(self) -> bool:
        """True while a transition is left that no path has taken."""
        return not self._closed[0]

    def next(self) -> list[PathStep]:
        """A path from the initial state to one in which no plan is under way."""
        state, path, states = 0, [], [0]
        while True:
            edges = self._edges(state)
            new = [edge for edge in edges if not self._taken[edge]]
            leading = [edge for edge in edges if not self._closed[self._graph.targets[edge]]]
            if not (new or leading) and (not edges or self._value(state)["phase"] == "idle"):
                break
            onwards = leading and (not new or self._dice.random() < ONWARDS)
            edge = self._dice.choice(leading if onwards else new or edges)
            self._taken[edge] = True
            state = int(self._graph.targets[edge])
            states.append(state)
            path.append(PathStep(self._graph.model.labels[int(self._graph.labels[edge])], self._value(state)))
        for state in reversed(states):
            edges = self._edges(state)
            targets = self._graph.targets[edges]
            self._closed[state] = bool(self._taken[edges].all() and self._closed[targets].all())
        return path

    def _edges(self, state: int) -> list[int]:
        found: list[int] = self._order[self._first[state] : self._first[state + 1]].tolist()
        return found

    def _value(self, state: int) -> Values:
        if state not in self._values:
            self._values[state] = self._graph.model.unpack(self._graph.states[:, state])
        return self._values[state]
