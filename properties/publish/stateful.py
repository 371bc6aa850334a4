"""Random writers, crashes, lost replies and recovery, in lockstep with the model and with an oracle of plans.

Subclass it with a store, as tests/properties/publish/test_stateful.py does. Hypothesis draws the rules:
open a handle, publish one of the four kinds of plan, recover, clean up, let time pass. A publish may lose a
reply, or crash before or after any of its requests; its handle is gone then. After every rule

- what the store did is a run of the model (see `meanings`), and
- the newest manifest shows what plain dictionaries hold after the whole plans of the chain, in its order;
  what was acknowledged is among them once, what was refused is not.

Runs here are longer than those of the audit and meet fewer orders: requests of one handle are not interleaved
with those of another, but for one that steps in at a chosen request.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fencepost.impl.publish import Catalog, HeadAhead, Mode, Published, PublishError
from fencepost.impl.publish.trace_fields import trace_fields
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers.layer import Layer
from fencepost.impl.store.requests import Outcome, Request
from fencepost.properties.publish.refinement import PublishRefinement
from fencepost.properties.refinement import Automaton, Follower, Lens

PLANS_MAX, CLAIMS_MAX = 6, 4
"""Room in the model. A run that has used it up goes on without plans, or without claims."""
PERSON = {"id": "int64", "name": "string"}
KNOWS = {"id": "int64", "a": "int64"}
PAST_GRACE_S = 3600.0
KINDS = ("adds", "drops", "links", "grows")

Tables = dict[str, dict[int, dict[str, Any]]]


class Crashed(BaseException):
    """A process is no more."""


class Landing(Layer):
    """One process's way to the store: shows every landing to the follower, and goes wrong where told to."""

    def __init__(self, inner: Store, follower: Follower, process: str) -> None:
        super().__init__(inner)
        self._follower = follower
        self._process = process
        self.countdown = -1
        """How many requests from now something goes wrong; below 0 nothing does."""
        self.error: Callable[[], None] | None = None
        """What steps in before the request."""
        self.after = False
        """Whether the request lands before its process dies; a lost reply lets it live."""
        self.dies = True

    def send(self, request: Request[Any]) -> Any:
        strikes = self.countdown == 0
        self.countdown -= 1
        if strikes and self.error is not None:
            self.error()
            strikes = False
        if strikes and self.dies and not self.after:
            raise Crashed
        reply = self._landed(request)
        if strikes and self.dies:
            raise Crashed
        return request.ends(Outcome.UNKNOWN, "the reply was lost") if strikes else reply

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        return [self.send(request) for request in requests]

    def _landed(self, request: Request[Any]) -> Any:
        try:
            reply = self.inner.send(request)
        except StoreError:
            raise
        if request.kind in ("put", "delete"):
            told = (
                trace_fields(request.subject, getattr(request, "body", b"")) if request.kind == "put" else ""
            )
            looks = ("landed", request.kind, request.subject, "", reply.outcome.value, told)
            verdict = self._follower.see(looks, self._process, 0)
            assert verdict is None or verdict.verdict != "violated", f"\n{verdict}"
        return reply


class PublishStateful(RuleBasedStateMachine):
    """See the top of this module."""

    lens: ClassVar[Lens | None] = None
    """One for all runs: a step that some run has taken is a look-up."""

    def __init__(self) -> None:
        super().__init__()
        if type(self).lens is None:
            refinement = PublishRefinement(PLANS_MAX, CLAIMS_MAX, skew=True)
            type(self).lens = Lens(Automaton(refinement))
        lens = type(self).lens
        assert lens is not None
        self.follower = Follower(lens.automaton, lens)
        self.store = self.open()
        self.handles: list[tuple[Catalog, Landing]] = []
        self.plans: dict[str, str] = {}
        """By message, the kind of plan."""
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()
        self.seen: dict[str, int] = {}
        self.tables: Tables = {"person": {n: _person(n) for n in (1, 2)}, "knows": {}}
        self.opened = self.claims = 0
        self.walked = 0

    def open(self) -> Store:
        """An empty store."""
        raise AssertionError("subclass PublishStateful and open a store")

    @initialize()
    def found(self) -> None:
        with Catalog.open(self.store, create=True, author="founder") as catalog, catalog.transaction() as txn:
            txn.create_table("person", PERSON, key="id")
            txn.create_table("knows", KNOWS, key="id", edges={"a": "person"})
            txn.append("person", [_person(1), _person(2)])
        self.reader = Catalog.open(self.store, mode=Mode.READ)
        self.walked = self.reader.manifest.id
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
        landing = Landing(self.store, self.follower, f"process-{self.opened}")
        with suppress(StoreError):
            catalog = Catalog.open(landing, mode=mode, author=f"author-{self.opened}")
            self.handles.append((catalog, landing))

    @precondition(lambda self: self.handles and len(self.plans) < PLANS_MAX)
    @rule(
        at=st.integers(0, 2),
        kind=st.sampled_from(KINDS),
        fresh=st.booleans(),
        trouble=st.sampled_from(
            ("none", "crash-before", "crash-after", "reply_lost", "rival", "visit", "takeover")
        ),
        countdown=st.integers(0, 9),
    )
    def publish(self, at: int, kind: str, fresh: bool, trouble: str, countdown: int) -> None:
        catalog, landing = self.handles[at % len(self.handles)]
        others = [handle for handle in self.handles if handle[0] is not catalog]
        landing.error = None
        if trouble == "rival" and others and len(self.plans) + 1 < PLANS_MAX:
            landing.error = lambda: self._publish(*others[0], kind, fresh=True)
        elif trouble in ("visit", "takeover"):
            landing.error = lambda: self.open_handle(Mode.CLAIM if trouble == "takeover" else Mode.JOIN)
        goes_wrong = landing.error is not None or trouble in ("crash-before", "crash-after", "reply_lost")
        landing.countdown = countdown if goes_wrong else -1
        landing.dies, landing.after = trouble != "reply_lost", trouble == "crash-after"
        try:
            self._publish(catalog, landing, kind, fresh=fresh)
        except Crashed:
            self.handles = [handle for handle in self.handles if handle[0] is not catalog]
        landing.countdown = -1

    def _publish(self, catalog: Catalog, landing: Landing, kind: str, *, fresh: bool) -> None:
        message = f"plan {len(self.plans)} {kind}"
        self.plans[message] = kind
        number = len(self.plans)  # others may begin theirs before the draft is made
        try:
            if fresh:
                catalog.refresh()
            draft = catalog.draft(message)
            _draft(draft, kind, number)
            ended = catalog.publish(draft)
        except HeadAhead:
            raise  # no run with all safeguards comes here
        except PublishError:
            self.refused.add(message)
        else:
            if isinstance(ended, Published):
                self.acknowledged.add(message)
                looks = ("note", "note", f"outcome {message}", "", "acked", f"plan={ended.plan}")
                verdict = self.follower.see(looks, "outcome", 0)
                assert verdict is None or verdict.verdict != "violated", f"\n{verdict}"

    @precondition(lambda self: self.handles)
    @rule(at=st.integers(0, 2), act=st.sampled_from(("recover", "cleanup", "close")))
    def maintenance(self, at: int, act: str) -> None:
        catalog, _ = self.handles[at % len(self.handles)]
        self.look()  # what a cleanup deletes has been seen
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

    # What must hold.

    @invariant()
    def look(self) -> None:
        if not self.walked:
            return
        latest = self.reader.refresh()
        for id_ in range(self.walked + 1, latest.id + 1):
            manifest = self.reader.snapshot(id_).manifest
            if manifest.kind == "publish":
                assert manifest.message not in self.seen, f"{manifest.message} is published twice"
                self.seen[manifest.message] = id_
                _apply(
                    self.tables, self.plans[manifest.message], 1 + list(self.plans).index(manifest.message)
                )
        self.walked = latest.id
        shown = self.reader.snapshot().load()
        assert {name: {row["id"]: row for row in rows} for name, rows in shown.items()} == self.tables
        assert self.acknowledged <= self.seen.keys(), "acknowledged, and not there"
        assert not self.refused & self.seen.keys(), "refused, and yet there"

    def teardown(self) -> None:
        if self.walked:
            with Catalog.open(self.store, mode=Mode.CLAIM, author="healer") as healer:
                healer.write(lambda txn: txn.upsert("person", [_person(99)]))
                assert healer.snapshot().get("person", 99) is not None, "nobody can write any more"


def _person(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"p{number}"}


def _draft(draft: Any, kind: str, number: int) -> None:
    """One of the model's four kinds. Person 1 always stays, so that there is somebody to point at."""
    if kind in ("adds", "grows"):
        draft.upsert("person", [_person(10 + number)])
    if kind == "drops":
        draft.delete("person", [2])
    if kind in ("links", "grows"):
        draft.upsert("knows", [{"id": number, "a": 1}])


def _apply(tables: Tables, kind: str, number: int) -> None:
    """The same to plain dictionaries."""
    if kind in ("adds", "grows"):
        tables["person"][10 + number] = _person(10 + number)
    if kind == "drops":
        tables["person"].pop(2, None)
    if kind in ("links", "grows"):
        tables["knows"][number] = {"id": number, "a": 1}
