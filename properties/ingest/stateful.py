"""The ingest library under random work and random trouble, beside a plain oracle and the model.

    TestPlain = PlainIngest.TestCase
    TestVersioned = VersionedIngest.TestCase

The oracle is three dictionaries: what agents were told, what first stood under each identity, and what each
batch is worth. After every step: what was acknowledged stands with its bytes, an identity is what it first
was, `duplicate=false` was told once, a parked batch is on record with its bytes, and the model allows
everything that landed (see `watching`). In the end the faults stop, and then every agent is answered, every
index is complete, every batch is counted once, and long after no orphan is left and nothing else is gone.

Work runs inside work: between any two requests of a collector another one accepts a batch, garbage is
collected, or hours pass. In a plain bucket time does not pass while a document is on its way, and what is
late lands before: these are its assumptions. A versioned bucket asks for nothing.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.impl.environment import Environment, SeededEnvironment
from holdfast.impl.ingest import (
    STANDARD,
    Accepted,
    Authority,
    Conflict,
    ConflictRecord,
    Identity,
    Manifest,
    Point,
    Safeguards,
    Settings,
    Unavailable,
    collect,
    encode,
    full_audit,
    keys,
    reconcile_once,
    roll_up,
    totals,
)
from holdfast.impl.ingest.derived import derived
from holdfast.impl.ingest.errors import StoreAway
from holdfast.impl.store.interface import Store
from holdfast.impl.store.memory import MemoryStore
from holdfast.impl.store.requests import Request
from holdfast.properties.ingest.refinement import IngestRefinement
from holdfast.properties.ingest.unsteady import FAULTS, Crashed, Fault, Unsteady
from holdfast.properties.ingest.watching import Watch
from holdfast.properties.refinement import Automaton, Lens, Verdict

HORIZON_S = 3600.0
SETTINGS = Settings(
    horizon_s=HORIZON_S, landing_bound_s=600.0, skew_bound_s=60.0, overlap_s=1200.0, attempts_max=3
)
COLLECTORS = {"ann": 0.0, "bob": -25.0, "cy": 25.0}
"""How far the clock of each is ahead, in seconds: any two within the bound."""
HORIZONS = 16
START_NS = 1_700_000_000_000_000_000
IDENTITIES = [Identity("agent-a", "boot-1", 10 * n, 10 * n + 9) for n in (1, 2, 3)]
BATCHES = [
    (identity, encode(identity, [Point("cpu.load", {"host": "a"}, START_NS, value)]), value)
    for identity, values in zip(IDENTITIES, ((1.0, 2.0), (4.0, 8.0), (16.0, 32.0)), strict=True)
    for value in values
]
"""Two batches of each identity."""
SLEEPS_S = (30.0, 900.0, HORIZON_S, 4 * HORIZON_S)

_WORTH = {hashlib.sha256(body).hexdigest(): value for _, body, value in BATCHES}
_UPKEEP: dict[str, Callable[..., object]] = {
    "reconcile": reconcile_once,
    "audit": full_audit,
    "collect": collect,
    "roll-up": roll_up,
}

batches = st.sampled_from(range(len(BATCHES)))
collectors = st.sampled_from(sorted(COLLECTORS))
sleeps = st.sampled_from(SLEEPS_S)
work = st.sampled_from(sorted(_UPKEEP))
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

_lenses: dict[bool, Lens] = {}


def _lens(*, versioned: bool) -> Lens:
    if versioned not in _lenses:
        _lenses[versioned] = Lens(Automaton(IngestRefinement(2, HORIZONS, versioned=versioned)))
    return _lenses[versioned]


class _Ahead(Environment):
    """One process's clock."""

    def __init__(self, base: SeededEnvironment, ahead_s: float) -> None:
        self._base = base
        self._ahead_ns = round(ahead_s * 1e9)

    def now_ns(self) -> int:
        return self._base.now_ns() + self._ahead_ns

    def monotonic_ns(self) -> int:
        return self._base.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """Pauses take no time; that it passes is a step of its own."""

    def stream(self, actor: str) -> Any:
        return self._base.stream(actor)


class IngestMachine(RuleBasedStateMachine):
    """See the top of this module."""

    versioned: ClassVar[bool] = False
    safeguards: ClassVar[Safeguards] = STANDARD

    def __init__(self) -> None:
        super().__init__()
        self.env = SeededEnvironment(start_ns=START_NS)
        self.bucket = MemoryStore(versioned=self.versioned, env=self.env)
        self.late: list[Request[Any]] = []
        self.watch = Watch(_lens(versioned=self.versioned), versioned=self.versioned)
        self.wrong: list[str] = []
        self.stored: set[int] = set()
        self.parked: set[int] = set()
        self.news: Counter[Identity] = Counter()
        self.first: dict[Identity, str] = {}
        self.on_its_way = False
        """Whether a document is being sent whose landing is bounded."""

    # The work.

    @rule(collector=collectors, batch=batches)
    def accept(self, collector: str, batch: int) -> None:
        self._accept(collector, batch, {})

    @rule(collector=collectors, batch=batches, trouble=troubles)
    def accept_in_trouble(self, collector: str, batch: int, trouble: dict[int, object]) -> None:
        self._accept(collector, batch, self._faults(trouble))

    @rule(work=work, trouble=rare_troubles)
    def upkeep(self, work: str, trouble: dict[int, object]) -> None:
        self._upkeep(work, self._faults(trouble))

    @rule()
    def hours_later(self) -> None:
        """Garbage is collected when everything is old."""
        self._hours_later()

    @rule(seconds=sleeps)
    def sleep(self, seconds: float) -> None:
        self._sleep(seconds)

    @precondition(lambda self: self.late)
    @rule(place=st.integers(0, 5))
    def lands(self, place: int) -> None:
        """A request that was late lands, or another one."""
        self._land(self.late.pop(place % len(self.late)))

    @precondition(lambda self: self.late)
    @rule()
    def never_lands(self) -> None:
        self.late.pop()

    # What must hold after every step.

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert not self.wrong, self.wrong[0]

    @invariant()
    def an_identity_stays_what_it_first_was(self) -> None:
        for identity, manifest in self._manifests().items():
            sha = self.first.setdefault(identity, manifest.frame_sha256)
            assert manifest.frame_sha256 == sha, f"{identity} was {sha} and is {manifest.frame_sha256}"
        assert self.first.keys() == self._manifests().keys(), "a manifest is gone"
        assert not [name for name, times in self.news.items() if times > 1], self.news

    @invariant()
    def what_was_acknowledged_stands(self) -> None:
        manifests, contents = self._manifests(), self.bucket.contents()
        for batch in self.stored:
            identity, body, _ = BATCHES[batch]
            assert identity in manifests, f"{identity} was acknowledged and is not accepted"
            assert contents.get(manifests[identity].raw_blob_key) == body, f"the data of {identity} is gone"

    @invariant()
    def what_is_parked_is_on_record(self) -> None:
        contents = self.bucket.contents()
        for batch in self.parked:
            identity, body, _ = BATCHES[batch]
            key = keys.conflict_key(identity, _sha(body))
            assert key in contents, f"{identity} is parked and nobody wrote it down"
            record = ConflictRecord.read(contents[key], key)
            assert contents.get(record.submitted_raw_blob_key) == body, (
                f"the parked data of {identity} is gone"
            )

    # The end.

    def teardown(self) -> None:
        if self.wrong:
            return
        while self.late:
            self._land(self.late.pop(0))
        for batch in range(len(BATCHES)):
            answer = self._ask("ann", batch, {})
            assert not isinstance(answer, Unavailable), answer
            assert batch not in self.stored or (isinstance(answer, Accepted) and answer.duplicate), answer
            assert batch not in self.parked or isinstance(answer, Conflict), answer
        self._after_all()

    def _after_all(self) -> None:
        self._sleep(8 * HORIZON_S)
        manifests = self._manifests()
        for work in ("audit", "reconcile", "roll-up", "roll-up"):
            self._upkeep(work, {})
        contents = self.bucket.contents()
        for identity, manifest in manifests.items():
            missing = [put.key for put in derived(manifest) if put.key not in contents]
            assert not missing, f"{identity} has no {missing}"
        here = [m for m in manifests.values() if m.raw_blob_key in contents]
        counted = [
            one for series in totals(self.bucket, self.env, SETTINGS).values() for one in series.values()
        ]
        assert sum(one.count for one in counted) == len(here)
        assert sum(one.sum for one in counted) == sum(_WORTH[m.frame_sha256] for m in here)
        self._sleep(20 * HORIZON_S)
        for work in ("audit", "collect"):
            self._upkeep(work, {})
        self.what_was_acknowledged_stands()
        self.what_is_parked_is_on_record()
        self.nothing_is_wrong()
        self._no_orphan_is_left()

    def _no_orphan_is_left(self) -> None:
        contents = self.bucket.contents()
        referenced = {m.frame_sha256 for m in self._manifests().values()}
        referenced |= {key.rsplit("/", 1)[-1][:64] for key in contents if key.startswith(keys.QUARANTINE)}
        found = (keys.parse_raw(key) for key in contents if key.startswith(keys.RAW))
        orphans = {parsed[0] for parsed in found if parsed is not None} - referenced
        assert not orphans, f"long after nobody needs them there are {orphans}"

    # How it is done.

    def _faults(self, trouble: dict[int, object]) -> dict[int, Fault]:
        """What was drawn, as what a store can be told."""
        return {n: what if isinstance(what, str) else self._meanwhile(what) for n, what in trouble.items()}

    def _meanwhile(self, what: object) -> Callable[[Request[Any]], None]:
        assert isinstance(what, tuple)
        name, *rest = what

        def act(request: Request[Any]) -> None:
            self.on_its_way = request.subject.startswith((keys.ACCEPTED, keys.QUARANTINE))
            if name == "accept":
                self._accept(rest[0], rest[1], {})
            elif name == "sleep":
                self._sleep(rest[0])
            elif name == "hours-later":
                self._hours_later()
            else:
                self._upkeep(name, {})
            self.on_its_way = False

        return act

    def _accept(self, collector: str, batch: int, faults: dict[int, Fault]) -> None:
        """The batch comes; perhaps again, since the agent may not have heard the answer."""
        try:
            answer = self._ask(collector, batch, faults)
        except Crashed:
            return
        if isinstance(answer, Accepted):
            self.stored.add(batch)
        elif isinstance(answer, Conflict):
            self.parked.add(batch)
        if batch in self.stored & self.parked:
            self.wrong.append(f"batch {batch} was told both that it is accepted and that it is a conflict")

    def _ask(self, collector: str, batch: int, faults: dict[int, Fault]) -> Accepted | Conflict | Unavailable:
        identity, body, _ = BATCHES[batch]
        env = _Ahead(self.env, COLLECTORS[collector])
        store = self._store(faults)
        authority = Authority(
            store,
            env,
            collector,
            SETTINGS,
            safeguards=self.safeguards,
            on_accepted=lambda manifest: self._tell(manifest.identity, manifest.frame_sha256, "live"),
        )
        answer = authority.accept(identity, body)
        if isinstance(answer, Accepted):
            self.news[identity] += not answer.duplicate
            self._tell(identity, _sha(body), "duplicate" if answer.duplicate else "accepted")
            if not answer.duplicate:
                self._unless_crashed(lambda: authority.follow_up(answer.manifest))
        elif isinstance(answer, Conflict):
            self._tell(identity, _sha(body), "conflict")
        return answer

    def _hours_later(self) -> None:
        self._sleep(4 * HORIZON_S)
        self._upkeep("audit", {})
        self._upkeep("collect", {})

    def _upkeep(self, work: str, faults: dict[int, Fault]) -> None:
        store, env = self._store(faults), _Ahead(self.env, 0.0)
        self._unless_crashed(lambda: _UPKEEP[work](store, env, SETTINGS, safeguards=self.safeguards))

    def _unless_crashed(self, act: Callable[[], object]) -> None:
        try:
            act()
        except (Crashed, StoreAway):
            return  # it is done once more some other time

    def _sleep(self, seconds: float) -> None:
        if not self.versioned:
            if self.on_its_way:
                seconds = min(seconds, 300.0)
            else:
                while self.late:
                    self._land(self.late.pop(0))
        self.env.sleep(seconds)

    def _store(self, faults: dict[int, Fault]) -> Store:
        return Unsteady(self.bucket, faults, self.late, self._landed)

    def _land(self, request: Request[Any]) -> None:
        self._landed(request, self.bucket.send(request))

    def _landed(self, request: Request[Any], reply: Any) -> None:
        self._judge(self.watch.landed(request, reply))

    def _tell(self, identity: Identity, sha256: str, what: str) -> None:
        self._judge(self.watch.told(identity, sha256, what))

    def _judge(self, verdict: Verdict | None) -> None:
        if verdict is not None and verdict.verdict == "violated":
            self.wrong.append(f"the model does not allow this: {verdict}")

    def _manifests(self) -> dict[Identity, Manifest]:
        found = (
            Manifest.read(body, key)
            for key, body in self.bucket.contents().items()
            if key.startswith(keys.ACCEPTED)
        )
        return {manifest.identity: manifest for manifest in found}


class PlainIngest(IngestMachine):
    """In a plain bucket."""


class VersionedIngest(IngestMachine):
    """In a bucket that keeps versions."""

    versioned = True


def _sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
