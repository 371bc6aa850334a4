"""Random writers, crashes, lost replies and recovery, in lockstep with the model and under the checks.

Subclass it with a store, as tests/properties/publish/test_stateful.py does. Hypothesis draws the rules:
open a handle, publish one of the four kinds of plan, recover, clean up, let time pass. A publish may lose a
reply, or crash before or after any of its requests, which ends its handle. After every rule

- what the store did is a run of the model (see `meanings`), and
- the properties of `checks` hold for the catalog and the outcomes so far.

Runs here are longer than those of the audit and meet fewer orders: requests of one handle do not interleave
with those of another, except for one that steps in at a chosen request.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fencepost.impl.publish import Catalog, HeadAhead, Mode, Published, PublishError
from fencepost.impl.publish.trace_fields import trace_fields
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Request
from fencepost.properties.faulty_store import Crashed, Fault, FaultyStore
from fencepost.properties.publish.checks import (
    AT_REST_NS,
    CHECKS,
    ENDS,
    FOUNDER,
    KNOWS,
    PERSON,
    Answer,
    CatalogState,
    Change,
    Chapter,
    Check,
    Outcomes,
    add_to_draft,
    knows,
    person,
)
from fencepost.properties.publish.refinement import PublishRefinement
from fencepost.properties.refinement import Automaton, EventRow, Follower, Reader

PLANS_MAX, CLAIMS_MAX = 6, 4
"""Room in the model. A run that has used it up goes on without plans, or without claims."""
PAST_GRACE_S = 3600.0
KINDS = ("adds", "drops", "links", "grows")
AT_THE_END = ("no_wedge",)
"""Checks that need every client to be at rest."""


class PublishStateful(RuleBasedStateMachine):
    checks: ClassVar[Mapping[str, Check]] = CHECKS
    event_reader: ClassVar[Reader | None] = None
    """Shared by all runs: a step that some run has taken is a look-up."""

    def __init__(self) -> None:
        super().__init__()
        if type(self).event_reader is None:
            refinement = PublishRefinement(PLANS_MAX, CLAIMS_MAX, skew=True)
            type(self).event_reader = Reader(Automaton(refinement))
        reader = type(self).event_reader
        assert reader is not None
        self.follower = Follower(reader)
        self.store = self.open()
        self.handles: list[tuple[Catalog, FaultyStore]] = []
        self.plans: dict[str, Change] = {}
        """By message."""
        self.answers: list[Answer] = []
        self.chapters: dict[int, Chapter] = {}
        """All manifests so far with their rows, also those that a cleanup deleted."""
        self._judged: tuple[object, ...] = ()
        self.opened = self.claims = 0

    def open(self) -> Store:
        """An empty store."""
        raise AssertionError("subclass PublishStateful and open a store")

    @initialize()
    def found(self) -> None:
        with Catalog.open(self.store, create=True, author=FOUNDER) as catalog, catalog.transaction() as txn:
            txn.create_table("person", PERSON, key="id")
            txn.create_table("knows", KNOWS, key="id", edges=ENDS)
            txn.append("person", [person(1), person(2)])
        for _ in range(2):
            self.open_handle(Mode.JOIN)

    # Rules.

    @precondition(lambda self: len(self.handles) < 3)
    @rule(mode=st.sampled_from((Mode.CLAIM, Mode.JOIN, Mode.JOIN)))
    def open_handle(self, mode: Mode) -> None:
        if mode is Mode.CLAIM and self.claims == CLAIMS_MAX:
            mode = Mode.JOIN
        self.claims += mode is Mode.CLAIM
        self.opened += 1
        process = f"process-{self.opened}"
        landing = FaultyStore(self.store, {}, lambda *landed: self._landed(process, *landed), [])
        with suppress(StoreError):
            catalog = Catalog.open(landing, mode=mode, author=f"author-{self.opened}")
            self.handles.append((catalog, landing))

    def _landed(self, process: str, request: Request[Any], reply: Any) -> None:
        """Show a landing to the follower."""
        if request.kind in ("put", "delete"):
            body = getattr(request, "body", b"")
            fields = trace_fields(request.subject, body) if request.kind == "put" else ""
            self._see(("landed", request.kind, request.subject, "", reply.outcome.value, fields), process)

    def _see(self, row: EventRow, process: str) -> None:
        verdict = self.follower.see(row, process, 0)
        assert verdict is None or verdict.verdict != "violated", f"\n{verdict}"

    @precondition(lambda self: self.handles and len(self.plans) < PLANS_MAX)
    @rule(
        at=st.integers(0, 2),
        kind=st.sampled_from(KINDS),
        fresh=st.booleans(),
        trouble=st.sampled_from(("none", "crash", "crash-after", "reply_lost", "rival", "visit", "takeover")),
        countdown=st.integers(0, 9),
    )
    def publish(self, at: int, kind: str, fresh: bool, trouble: str, countdown: int) -> None:
        catalog, landing = self.handles[at % len(self.handles)]
        others = [handle for handle in self.handles if handle[0] is not catalog]
        fault: Fault = trouble
        if trouble == "rival":
            room = others and len(self.plans) + 1 < PLANS_MAX
            fault = (lambda _: self._publish(others[0][0], kind, fresh=True)) if room else "none"
        elif trouble in ("visit", "takeover"):
            mode = Mode.CLAIM if trouble == "takeover" else Mode.JOIN
            fault = lambda _: self.open_handle(mode)  # noqa: E731 - one of several
        landing.faults = {landing.count + countdown: fault}
        try:
            self._publish(catalog, kind, fresh=fresh)
        except Crashed:
            self.handles = [handle for handle in self.handles if handle[0] is not catalog]
        landing.faults = {}

    def _publish(self, catalog: Catalog, kind: str, *, fresh: bool) -> None:
        message = f"plan {len(self.plans)} {kind}"
        change = self.plans[message] = _change(kind, len(self.plans) + 1)
        try:
            if fresh:
                catalog.refresh()
            draft = catalog.draft(message)
            add_to_draft(draft, change)
            ended = catalog.publish(draft)
        except HeadAhead:
            raise  # impossible with all safeguards
        except PublishError:
            self.answers.append(Answer(message, "refused"))
        else:
            if isinstance(ended, Published):
                self.answers.append(Answer(message, "acked", ended.plan))
                row = ("note", "note", f"outcome {message}", "", "acked", f"plan={ended.plan}")
                self._see(row, "outcome")

    @precondition(lambda self: self.handles)
    @rule(at=st.integers(0, 2), act=st.sampled_from(("recover", "cleanup", "close")))
    def maintenance(self, at: int, act: str) -> None:
        catalog, _ = self.handles[at % len(self.handles)]
        self.checks_hold()  # reads the manifests that a cleanup deletes
        with suppress(PublishError):
            if act == "recover":
                catalog.recover()
            elif act == "cleanup":
                catalog.cleanup(keep=1)
            else:
                self.handles = [handle for handle in self.handles if handle[0] is not catalog]
                catalog.close()

    @rule()
    def time_passes(self) -> None:
        self.store.env.sleep(PAST_GRACE_S)

    # Invariants.

    @invariant()
    def checks_hold(self) -> None:
        if self.opened:
            self._check([name for name in self.checks if name not in AT_THE_END])

    def teardown(self) -> None:
        if self.opened:
            self._check([name for name in AT_THE_END if name in self.checks])

    def _check(self, names: Sequence[str]) -> None:
        listed = (entry.key for page in self.store.pages() for entry in page.objects)
        contents = {key: self.store.get(key).body for key in listed}
        if (names, contents, len(self.answers)) == self._judged:
            return
        self._judged = (names, contents, len(self.answers))
        state = CatalogState(contents, now_ns=self.store.env.now_ns() + AT_REST_NS, known=self.chapters)
        outcomes = Outcomes(self.plans, self.answers)
        for name in names:
            violations = list(CHECKS[name](state, outcomes))
            assert not violations, f"{name}: {violations[0]}"
        self.chapters = {chapter.manifest.id: chapter for chapter in state.chapters}


def _change(kind: str, number: int) -> Change:
    """One of the model's four kinds. Person 1 always stays, so that edges have a person to point at."""
    node = ("upsert", "person", (person(10 + number),))
    edge = ("upsert", "knows", (knows(number, 1, 1),))
    return {"adds": (node,), "drops": (("delete", "person", (2,)),), "links": (edge,), "grows": (node, edge)}[
        kind
    ]
