"""The ingest library under random work and random faults, in lockstep with the model and under the checks.

    TestPlain = PlainIngest.TestCase
    TestVersioned = VersionedIngest.TestCase

Work runs inside work: between any two requests of a collector another one accepts a batch, garbage is
collected, or hours pass. In a plain bucket no time passes while a document is on its way, and late requests
land before: these are its assumptions. A versioned bucket needs none.

After every step the properties of `checks` hold that speak of the present, and the model allows everything
that landed. At the end the faults stop; then every agent is answered, every index is complete, every batch is
counted once, and long after no orphan is left.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fencepost.impl.environment import Environment, SeededEnvironment
from fencepost.impl.ingest import (
    STANDARD,
    Accepted,
    Authority,
    Conflict,
    Identity,
    Point,
    Safeguards,
    Settings,
    collect,
    encode,
    full_audit,
    keys,
    reconcile_once,
    roll_up,
)
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.ingest.trace_fields import trace_fields
from fencepost.impl.store.interface import Store
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import (
    Delete,
    Put,
    Reply,
    Request,
)
from fencepost.properties.faulty_store import FAULTS, WRITES, Crashed, Fault, FaultyStore
from fencepost.properties.ingest.checks import CHECKS, STORED, Answer, Batch, BucketState, Outcomes
from fencepost.properties.ingest.refinement import IngestRefinement
from fencepost.properties.refinement import Automaton, Follower, Reader, RunNames, Verdict

HORIZON_S = 3600.0
SETTINGS = Settings(
    horizon_s=HORIZON_S, landing_bound_s=600.0, skew_bound_s=60.0, overlap_s=1200.0, attempts_max=3
)
AT_REST_S = 8 * HORIZON_S
COLLECTORS = {"ann": 0.0, "bob": -25.0, "cy": 25.0}
"""By collector, the seconds by which its clock is ahead: any two differ by less than the bound."""
HORIZONS = 16
START_NS = 1_700_000_000_000_000_000
IDENTITIES = [Identity("agent-a", "boot-1", 10 * n, 10 * n + 9) for n in (1, 2, 3)]
BATCHES = [
    Batch(identity, encode(identity, [Point("cpu.load", {"host": "a"}, START_NS, value)]), value)
    for identity, values in zip(IDENTITIES, ((1.0, 2.0), (4.0, 8.0), (16.0, 32.0)), strict=True)
    for value in values
]
"""Two batches of each identity."""
BY_HASH = {batch.sha256: batch for batch in BATCHES}
MAINTENANCE: dict[str, Callable[..., object]] = {
    "reconcile": reconcile_once,
    "audit": full_audit,
    "collect": collect,
    "roll-up": roll_up,
}
AT_ANY_TIME = ("one_acceptance", "never_reopened", "ack_durable", "conflict_durable", "gc_safe")
AT_REST = (*AT_ANY_TIME, "effects_once", "effects_eventually")
"""The other checks need what a collector saw or met, which the audits record."""


class FollowedBucket:
    """The model following all identities of one bucket, in the order in which requests take effect."""

    _readers: ClassVar[dict[bool, Reader]] = {}

    def __init__(self, *, versioned: bool) -> None:
        if versioned not in self._readers:
            self._readers[versioned] = Reader(Automaton(IngestRefinement(2, HORIZONS, versioned=versioned)))
        self.reader = self._readers[versioned]
        self.versioned = versioned
        self.names = RunNames(IngestRefinement.runs)
        self.followers: dict[str, Follower] = {}

    def landed(self, request: Request[Any], reply: Reply) -> Verdict | None:
        """A request has taken effect, or was refused; the verdict as soon as it is final."""
        if not isinstance(request, WRITES):
            return None
        fields = trace_fields(request.key, request.body) if isinstance(request, Put) else ""
        if isinstance(request, Delete) and self.versioned and not request.version:
            fields = "what=everything"
        self.names.learn(request.key, fields)
        identity = self.names.of(request.key, fields)
        if not identity:
            return None
        condition = type(request.when).__name__.lower()
        return self._see(
            identity, ("landed", request.kind, request.key, condition, reply.outcome.value, fields)
        )

    def noted(self, identity: Identity, sha256: str, what: str) -> Verdict | None:
        """An agent was answered accepted, duplicate or conflict; or live state was updated: live."""
        topic = "live" if what == "live" else "outcome"
        return self._see(identity.path, ("note", "note", topic, "", "", f"sha={sha256} what={what}"))

    def _see(self, identity: str, row: tuple[str, str, str, str, str, str]) -> Verdict | None:
        if identity not in self.followers:
            self.followers[identity] = Follower(self.reader)
        return self.followers[identity].see(row, "", 0)


class Deployment:
    """A bucket, three collectors and their maintenance, the answers that agents received, and the model.

    A violation goes to `errors`, because an exception deep inside other work could be swallowed there.
    """

    def __init__(self, safeguards: Safeguards, *, versioned: bool) -> None:
        self.safeguards = safeguards
        self.versioned = versioned
        self.env = SeededEnvironment(start_ns=START_NS)
        self.bucket = MemoryStore(versioned=versioned, env=self.env)
        self.late: list[Request[Any]] = []
        self.model = FollowedBucket(versioned=versioned)
        self.errors: list[str] = []
        self.answers: list[Answer] = []
        self.on_its_way = False
        """True while a document is being sent whose landing is bounded."""

    def faults(self, trouble: dict[int, object]) -> dict[int, Fault]:
        """The faults of a store that were drawn."""
        return {n: what if isinstance(what, str) else self._meanwhile(what) for n, what in trouble.items()}

    def _meanwhile(self, what: object) -> Callable[[Request[Any]], None]:
        assert isinstance(what, tuple)
        name, *rest = what

        def act(request: Request[Any]) -> None:
            self.on_its_way = request.subject.startswith((keys.ACCEPTED, keys.QUARANTINE))
            if name == "accept":
                self.accept(rest[0], rest[1], {})
            elif name == "sleep":
                self.sleep(rest[0])
            elif name == "hours-later":
                self.hours_later()
            else:
                self.maintenance(name, {})
            self.on_its_way = False

        return act

    def accept(self, collector: str, number: int, faults: dict[int, Fault]) -> None:
        """An agent sends the batch, perhaps again, because it may not have received the answer."""
        with suppress(Crashed):
            self.send(collector, number, faults)

    def send(self, collector: str, number: int, faults: dict[int, Fault]) -> Answer:
        batch = BATCHES[number]
        store = self._store(faults)
        authority = Authority(
            store,
            _Ahead(self.env, COLLECTORS[collector]),
            collector,
            SETTINGS,
            safeguards=self.safeguards,
            on_accepted=lambda manifest: self._note(manifest.identity, manifest.frame_sha256, "live"),
        )
        reply = authority.accept(batch.identity, batch.body)
        what, attempt = "unavailable", ""
        if isinstance(reply, Accepted):
            what, attempt = ("duplicate" if reply.duplicate else "accepted"), reply.manifest.attempt
        elif isinstance(reply, Conflict):
            what, attempt = "conflict", reply.existing.attempt
        if what != "unavailable":
            self._note(batch.identity, batch.sha256, what)
        answer = Answer(what, str(batch.identity), batch.sha256, attempt)
        self.answers.append(answer)
        if isinstance(reply, Accepted) and not reply.duplicate:
            self._unless_crashed(lambda: authority.follow_up(reply.manifest))
        return answer

    def hours_later(self) -> None:
        self.sleep(4 * HORIZON_S)
        self.maintenance("audit", {})
        self.maintenance("collect", {})

    def maintenance(self, work: str, faults: dict[int, Fault]) -> None:
        store, env = self._store(faults), _Ahead(self.env, 0.0)
        self._unless_crashed(lambda: MAINTENANCE[work](store, env, SETTINGS, safeguards=self.safeguards))

    def _unless_crashed(self, act: Callable[[], object]) -> None:
        try:
            act()
        except (Crashed, StoreUnavailable):
            return  # a later pass repeats it

    def sleep(self, seconds: float) -> None:
        if not self.versioned:
            if self.on_its_way:
                seconds = min(seconds, 300.0)
            else:
                self.land_all()
        self.env.sleep(seconds)

    def _store(self, faults: dict[int, Fault]) -> Store:
        return FaultyStore(self.bucket, faults, self._landed, self.late)

    def land_all(self) -> None:
        """Every late request lands, in the order in which they were sent."""
        while self.late:
            self.land(self.late.pop(0))

    def land(self, request: Request[Any]) -> None:
        self._landed(request, self.bucket.send(request))

    def _landed(self, request: Request[Any], reply: Any) -> None:
        self._judge(self.model.landed(request, reply))

    def _note(self, identity: Identity, sha256: str, what: str) -> None:
        self._judge(self.model.noted(identity, sha256, what))

    def _judge(self, verdict: Verdict | None) -> None:
        if verdict is not None and verdict.verdict == "violated":
            self.errors.append(f"the model does not allow this: {verdict}")

    def state(self) -> BucketState:
        at_rest_ns = self.env.now_ns() + round(AT_REST_S * 1e9)
        return BucketState(self.bucket.contents(), BY_HASH, SETTINGS, self.safeguards, at_rest_ns, START_NS)


class _Ahead(Environment):
    def __init__(self, base: SeededEnvironment, ahead_s: float) -> None:
        self._base = base
        self._ahead_ns = round(ahead_s * 1e9)

    def now_ns(self) -> int:
        return self._base.now_ns() + self._ahead_ns

    def monotonic_ns(self) -> int:
        return self._base.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """Pauses take no time; time passes in steps of its own."""

    def stream(self, actor: str) -> Any:
        return self._base.stream(actor)


SLEEPS_S = (30.0, 900.0, HORIZON_S, 4 * HORIZON_S)

batches = st.sampled_from(range(len(BATCHES)))
collectors = st.sampled_from(sorted(COLLECTORS))
sleeps = st.sampled_from(SLEEPS_S)
work = st.sampled_from(sorted(MAINTENANCE))
meanwhiles = st.one_of(
    st.tuples(st.just("accept"), collectors, batches),
    st.tuples(st.just("sleep"), sleeps),
    st.tuples(work),
    st.just(("hours-later",)),
)
troubles = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(FAULTS) | meanwhiles), min_size=1, max_size=2
).map(dict)
"""By the number of a request: a fault, or what happens just before it."""
rare_troubles = st.dictionaries(st.integers(0, 20), st.sampled_from(FAULTS) | meanwhiles, max_size=2)


class IngestMachine(RuleBasedStateMachine):
    versioned: ClassVar[bool] = False
    safeguards: ClassVar[Safeguards] = STANDARD

    def __init__(self) -> None:
        super().__init__()
        self.deployment = Deployment(self.safeguards, versioned=self.versioned)
        self.first: dict[Identity, str] = {}
        """By identity, the hash of its first batch."""

    # The work.

    @rule(collector=collectors, batch=batches)
    def accept(self, collector: str, batch: int) -> None:
        self.deployment.accept(collector, batch, {})

    @rule(collector=collectors, batch=batches, trouble=troubles)
    def accept_in_trouble(self, collector: str, batch: int, trouble: dict[int, object]) -> None:
        self.deployment.accept(collector, batch, self.deployment.faults(trouble))

    @rule(work=work, trouble=rare_troubles)
    def maintenance(self, work: str, trouble: dict[int, object]) -> None:
        self.deployment.maintenance(work, self.deployment.faults(trouble))

    @rule()
    def hours_later(self) -> None:
        """Garbage is collected when everything is old."""
        self.deployment.hours_later()

    @rule(seconds=sleeps)
    def sleep(self, seconds: float) -> None:
        self.deployment.sleep(seconds)

    @precondition(lambda self: self.deployment.late)
    @rule(place=st.integers(0, 5))
    def lands(self, place: int) -> None:
        """One of the late requests lands."""
        self.deployment.land(self.deployment.late.pop(place % len(self.deployment.late)))

    @precondition(lambda self: self.deployment.late)
    @rule()
    def never_lands(self) -> None:
        self.deployment.late.pop()

    # Invariants of every step.

    @invariant()
    def no_error(self) -> None:
        assert not self.deployment.errors, self.deployment.errors[0]

    @invariant()
    def an_identity_stays_what_it_first_was(self) -> None:
        """Also where no agent received an answer."""
        now = {one.identity: one.frame_sha256 for one in self.deployment.state().manifests.values()}
        for identity, sha in now.items():
            first = self.first.setdefault(identity, sha)
            assert sha == first, f"{identity} was {first} and is {sha}"
        assert self.first.keys() == now.keys(), "a manifest is gone"

    @invariant()
    def checks_hold(self) -> None:
        self._check(AT_ANY_TIME)

    def _check(self, names: Sequence[str]) -> None:
        state, answers = self.deployment.state(), self.deployment.answers
        for name in names:
            violations = list(CHECKS[name](state, Outcomes(answers)))
            assert not violations, f"{name}: {violations[0]}"
        stored = {answer.sha256 for answer in answers if answer.what in STORED}
        parked = {answer.sha256 for answer in answers if answer.what == "conflict"}
        assert not stored & parked, f"{stored & parked}: answered as accepted and as a conflict"

    # The end.

    def teardown(self) -> None:
        deployment = self.deployment
        if deployment.errors:
            return
        deployment.land_all()
        for number in range(len(BATCHES)):
            answer = deployment.send("ann", number, {})
            assert answer.what != "unavailable", answer
        self._check(AT_REST)
        deployment.sleep(AT_REST_S + 20 * HORIZON_S)
        for work in ("audit", "collect"):
            deployment.maintenance(work, {})
        self._check(AT_ANY_TIME)
        self.no_error()
        self._no_orphan_is_left()

    def _no_orphan_is_left(self) -> None:
        state = self.deployment.state()
        referenced = {manifest.frame_sha256 for manifest in state.manifests.values()}
        referenced |= {record.submitted_frame_sha256 for record in state.records}
        found = (keys.parse_raw(key) for key in state.contents if key.startswith(keys.RAW))
        orphans = {parsed[0] for parsed in found if parsed is not None} - referenced
        assert not orphans, f"long after, orphans are left: {orphans}"


class PlainIngest(IngestMachine):
    """In a plain bucket."""


class VersionedIngest(IngestMachine):
    versioned = True
