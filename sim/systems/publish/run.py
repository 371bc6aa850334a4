"""One run of a scenario: a catalog founded before it, its writers, and clocks that do not advance.

The explored steps leave out the founding of the catalog and the opening of the first handles. Both end
before any other process exists. Other scenarios (`takeover`, `joiner`, every restart) have the orders and
faults that this leaves out. A pause is no step: the adversary may continue any process late, anywhere. The
scenario sets the clocks, because the protocol reads them for one purpose only: to decide whether a sidecar is
old.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import (
    STANDARD,
    Catalog,
    Dangling,
    HeadAhead,
    Mode,
    Published,
    PublishError,
    Safeguards,
    Unknown,
)
from fencepost.impl.publish.context import STUCK_AFTER_S, Notice
from fencepost.impl.publish.documents import read_manifest
from fencepost.impl.publish.planner import Draft
from fencepost.impl.publish.requests import Request as ClientRequest
from fencepost.impl.publish.service.committer import Again, Committer, Order
from fencepost.impl.store import ABSENT
from fencepost.impl.store.interface import Store
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Outcome, Put, Request
from fencepost.properties.publish.checks import (
    AT_REST_NS,
    CHECKS,
    ENDS,
    KNOWS,
    PERSON,
    Answer,
    CatalogState,
    Change,
    Outcomes,
    add_to_draft,
    knows,
    person,
)
from fencepost.sim.systems.harness import ScenarioEnvironment, WatchingStore, copy_of, declare, once
from fencepost.sim.systems.publish.cost import too_expensive
from fencepost.sim.world import View, World
from fencepost.sim.world.settings import START_NS

OLD_S = 3600.0
"""Seconds by which a clock is ahead so that every sidecar is old."""
MANIFESTS = "branch/main/manifest/"
FOUNDED = 3
"""The newest manifest of a catalog without further history, which clients of a server have seen."""
ATTEMPTS = 2
"""Attempts of a server before it answers that it does not know."""


@functools.cache
def founding(*, edge: bool, depth: int = 0, tables: int = 0) -> dict[str, bytes]:
    """Return the objects of a catalog with persons 1 and 2, and an edge between them or none. Made once.

    `depth` more commits have renamed the first person, and no process touches the `tables` further tables.
    """
    store = MemoryStore(env=SeededEnvironment(1))
    with (
        Catalog.open(store, author="founder", create=True) as catalog,
        catalog.transaction("found") as txn,
    ):
        txn.create_table("person", PERSON, key="id")
        txn.create_table("knows", KNOWS, key="id", edges=ENDS)
        txn.append("person", [person(1), person(2)])
        txn.append("knows", [knows(1, 1, 2)] if edge else [])
        for number in range(tables):
            txn.create_table(f"untouched-{number}", PERSON, key="id")
    with Catalog.open(store, author="founder", mode=Mode.JOIN) as catalog:
        for _ in range(depth):
            with catalog.transaction("history") as txn:
                txn.upsert("person", [person(1)])
        if depth:
            catalog.compact("person")
    return dict(store.contents())


@functools.cache
def _puts(*, edge: bool, depth: int, tables: int) -> list[Put]:
    return [Put(key, body, ABSENT) for key, body in founding(edge=edge, depth=depth, tables=tables).items()]


class Watched(WatchingStore):
    """Notes a manifest that its process creates although it is fenced."""

    def __init__(self, inner: Store, world: World) -> None:
        super().__init__(inner)
        self._world = world
        self.catalog: Catalog | None = None

    def look(self, request: Request[Any], reply: Any) -> None:
        created = isinstance(request, Put) and reply.outcome is Outcome.DONE
        if not created or not request.subject.startswith(MANIFESTS):
            return
        manifest = read_manifest(request.body)  # type: ignore[attr-defined]  # a put has one
        mine = self.catalog.epoch if self.catalog is not None else 0
        if mine and manifest.kind in ("publish", "undo") and manifest.epoch > mine:
            text = f"manifest {manifest.id} of epoch {manifest.epoch} was created in epoch {mine}"
            self._world.note("fenced", text)


def promises(notice: Notice, epoch: int) -> bool:
    """Return True if recovery has promised that the plan will never be visible.

    It promises nothing about a plan of an earlier epoch that had not moved: if the reply to its sidecar was
    lost, the owner writes it again, moves all heads, and the next opener rolls the plan forward.
    """
    unmoved = notice.done == "retired" and notice.classified != "settled"
    return notice.done == "rolled-back" or (unmoved and notice.epoch == epoch)


@dataclass
class ScenarioRun:
    """One run's world and the catalog in it."""

    world: World
    safeguards: Safeguards = STANDARD
    changes: dict[str, Change] = field(default_factory=dict)
    """The change that each plan makes, by its message."""
    two_alone: bool = True
    """True if only two processes publish and open: the contract of costs is for those."""
    plans: int = 0
    """The most plans that the run makes, where it may plan a change more than once."""
    depth: int = 0
    tables: int = 0
    """Numbers of earlier commits, and of tables that no process touches."""
    founded: Mapping[str, bytes] = field(default_factory=dict)
    """The objects before the first step."""

    def found(self, changes: dict[str, Change], *, edge: bool = False) -> None:
        """Write the catalog, and declare which plans will be published."""
        self.changes = changes
        self.founded = founding(edge=edge, depth=self.depth, tables=self.tables)
        store = self.world.store()
        for put in _puts(edge=edge, depth=self.depth, tables=self.tables):
            store.send(put)

    def open(self, author: str, mode: Mode, ahead_s: float = 0.0) -> tuple[Catalog, Watched]:
        """A handle of this process, and the meter below it."""
        return self._open(Watched(self.world.store(), self.world), author, mode, ahead_s)

    def _open(
        self, store: Watched, author: str, mode: Mode, ahead_s: float, stuck_after_s: float = STUCK_AFTER_S
    ) -> tuple[Catalog, Watched]:
        env = ScenarioEnvironment(self.world, ahead_s=ahead_s)
        catalog = Catalog.open(
            store, env=env, author=author, mode=mode, safeguards=self.safeguards, stuck_after_s=stuck_after_s
        )
        store.catalog = catalog
        for notice in catalog.notices:
            if promises(notice, catalog.epoch):
                self.world.note("undone", notice.plan)
        return catalog, store

    def warm(self, author: str, stuck_after_s: float = STUCK_AFTER_S) -> tuple[Catalog, Watched]:
        """A handle that joined before the first step and has read the tables.

        The process itself opens it, on a copy of the objects: in most runs its code never runs.
        """
        watched = Watched(copy_of(self.founded), self.world)
        catalog, _ = self._open(watched, author, Mode.JOIN, 0.0, stuck_after_s)
        catalog.snapshot().load()
        watched.inner = self.world.store()
        return catalog, watched

    def publish(self, catalog: Catalog, meter: Watched, message: str) -> None:
        """Publish one of the scenario's changes, and note the outcome in the world."""
        transaction = catalog.draft(message)
        add_to_draft(transaction, self.changes[message])
        requests, hops = meter.cost.requests, meter.cost.hops
        outcome, plan = "refused", ""
        try:
            result = catalog.publish(transaction)
        except HeadAhead as error:
            self.world.note("wedged", str(error))
        except (Dangling, PublishError):
            pass
        else:
            outcome, plan = ("acked" if isinstance(result, Published) else "unknown"), result.plan
        cost = (meter.cost.requests - requests, meter.cost.hops - hops)
        self.world.note(f"outcome {message}", (outcome, plan, *cost))

    def order(self, server: Committer, message: str) -> None:
        """Let a server publish one of the changes, as the request of a client, and note the outcome."""
        draft = Draft()
        for verb, table, items in self.changes[message]:
            getattr(draft, verb)(table, items)
        order = Order(ClientRequest(message, FOUNDED), draft.changes, message)
        for _ in range(ATTEMPTS):
            (end,) = server.attempt([order])
            if not isinstance(end, Again):
                break
        outcome, plan = "refused", ""
        if isinstance(end, Published):
            outcome, plan = "acked", end.plan
        elif isinstance(end, Again):
            outcome = "unknown"
        self.world.note(f"outcome {message}", (outcome, plan, 0, 0))

    def publish_group(self, catalog: Catalog, messages: Sequence[str]) -> None:
        """Publish these changes, which were all decided on one snapshot, as a group."""
        drafts = [catalog.draft(message) for message in messages]
        for draft in drafts:
            add_to_draft(draft, self.changes[draft.message])
        results: Sequence[object]
        try:
            results = catalog.publish_all(drafts)
        except PublishError as error:
            results = [error] * len(drafts)
        for message, result in zip(messages, results, strict=True):
            outcome, plan = "refused", ""
            if isinstance(result, Published | Unknown):
                outcome, plan = ("acked" if isinstance(result, Published) else "unknown"), result.plan
            self.world.note(f"outcome {message}", (outcome, plan, 0, 0))


def outcomes(run: ScenarioRun, view: View) -> Outcomes:
    """Return the outcomes that the processes of the run noted."""
    answers = [
        Answer(message, outcome, plan)
        for message in run.changes
        for outcome, plan, _requests, _hops in view.notes(f"outcome {message}")
    ]
    return Outcomes(run.changes, answers, set(view.notes("undone")), view.notes("fenced"))


@once
def examine(contents: Mapping[str, bytes], safeguards: Safeguards) -> CatalogState:
    return CatalogState(contents, safeguards, START_NS + AT_REST_NS)


def declare_checks(run: ScenarioRun) -> None:
    """Declare the checks of `properties.publish.checks`, and the contract of costs.

    All but three are judged at the end of a run: the chain of manifests and the outcomes of plans only grow.
    `fenced` and `no-wedge` are also judged at once, by the note of a process that finds one broken.
    """
    world = run.world
    world.always("fenced", lambda view: next(iter(view.notes("fenced")), None))
    world.always("no-wedge", lambda view: next(iter(view.notes("wedged")), None))
    at_the_end = {name: check for name, check in CHECKS.items() if name != "fenced"}
    declare(
        world,
        at_the_end,
        lambda view: examine(view.contents(""), run.safeguards),
        lambda view: outcomes(run, view),
        {"no_wedge": "no-wedge at rest"},
    )
    if run.two_alone and isinstance(world, World):
        world.finally_("flat-cost", lambda _: next(too_expensive(run.changes, world), None))
