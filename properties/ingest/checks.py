"""The properties of ingest, each written once: functions of what a bucket holds and what was observed.

Audits and the Hypothesis machines call them with the contents of a bucket. The invariants of the model have
the
same names (tests/properties/ingest/test_checks.py).

    state = BucketState(store.contents(), {batch.sha256: batch for batch in sent})
    for name, check in CHECKS.items(): assert not list(check(state, outcomes)), name

The state is judged in the future as well, on copies: after a full audit, which finds what no index shows, and
two rollups, which must count no batch twice; and after nothing but what collectors do on their own.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest import (
    STANDARD,
    Identity,
    Manifest,
    Safeguards,
    Settings,
    full_audit,
    keys,
    reconcile_once,
    roll_up,
    totals,
)
from fencepost.impl.ingest.documents import ConflictRecord
from fencepost.impl.ingest.maintenance import SEARCH_EVERY_S, Maintenance
from fencepost.impl.store import ABSENT
from fencepost.impl.store.memory import MemoryStore

RUNS = 3
"""One ends a search that somebody began, one searches, one adds up what came to light."""
STORED = ("accepted", "duplicate")


@dataclass(frozen=True)
class Batch:
    """A batch as an agent would send it: one point of this value."""

    identity: Identity
    body: bytes
    value: float

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


@dataclass(frozen=True)
class Answer:
    """The reply that an agent received for its batch, and what the attempt saw and cost."""

    what: str
    """accepted, duplicate, conflict, unavailable, refused."""
    identity: str
    sha256: str
    attempt: str = ""
    """Of the manifest in the reply."""
    saw: frozenset[str] = frozenset()
    """Hashes of the manifests that the attempt read or created."""
    early: bool = False
    """True if it wrote a derived object before it read or created a manifest."""
    requests: int = 0
    hops: int = 0
    faults: int = 0
    sender: str = ""
    """Another agent than the one that the batch names; empty otherwise."""


@dataclass(frozen=True)
class Outcomes:
    """The observations of agents and of live state in a run."""

    answers: Collection[Answer] = ()
    live: Collection[tuple[str, str, str, bool]] = ()
    """Updates of live state: identity, hash, collector, and True if it had seen the manifest."""
    offered: Collection[Batch] = ()
    """Batches that agents sent until they were answered."""
    excused: Callable[[str], bool] = lambda _key: False
    """Return True if no property applies to the object at a key, as an assumption was violated for it."""
    acknowledged: Collection[str] = ()
    """The manifests whose notifications were acknowledged."""
    landed_ns: Mapping[str, int] | None = None
    """When each manifest, and each place in time, landed, by the store's clock. None if that is unknown, or
    if clocks move: then no two of them land at the same moment, and judging each such future would take most
    of an audit."""


@dataclass
class BucketState:
    """The contents of a bucket, and their future at rest. Computed on first use."""

    contents: Mapping[str, bytes]
    batches: Mapping[str, Batch]
    """All that were sent, by hash."""
    settings: Settings = field(default_factory=Settings)
    safeguards: Safeguards = STANDARD
    at_rest_ns: int = 0
    """When nothing that anybody sent can land any more."""
    start_ns: int = 0
    _unattended: dict[tuple[tuple[str, int], ...], tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def manifests(self) -> Mapping[str, Manifest]:
        """By key."""
        return {key: Manifest.read(body, key) for key, body in self._under(keys.ACCEPTED)}

    @cached_property
    def records(self) -> tuple[ConflictRecord, ...]:
        return tuple(ConflictRecord.read(body, key) for key, body in self._under(keys.QUARANTINE))

    def accepted(self, identity: str) -> Manifest | None:
        return next((one for one in self.manifests.values() if str(one.identity) == identity), None)

    def holds(self, key: str, sha256: str) -> bool:
        """Return True if the blob at this key is that batch."""
        body = self.contents.get(key)
        return body is not None and sha256 in self.batches and self.batches[sha256].body == body

    @cached_property
    def without_blob(self) -> tuple[str, ...]:
        """Accepted manifests and conflict records whose blob is gone, or is something else."""
        wanted = [(m.raw_blob_key, m.frame_sha256, m.key) for m in self.manifests.values()]
        wanted += [(r.submitted_raw_blob_key, r.submitted_frame_sha256, r.key) for r in self.records]
        return tuple(of for key, sha256, of in wanted if not self.holds(key, sha256))

    @cached_property
    def _afterwards(self) -> MemoryStore:
        store = self._copy(self.at_rest_ns)
        full_audit(store, store.env, self.settings, safeguards=self.safeguards)
        for _ in range(2):
            roll_up(store, store.env, self.settings, safeguards=self.safeguards)
        return store

    @cached_property
    def without_index(self) -> tuple[str, ...]:
        """Index entries that are missing after the audit and the rollups."""
        return self._without_index(self._afterwards.contents())

    @cached_property
    def miscounted(self) -> str:
        return self._miscounted(self._afterwards)

    @cached_property
    def uncounted_by_rollups(self) -> str:
        """Describe what is not counted after the rollups alone, if every accepted batch should be."""
        store = self._copy(self.at_rest_ns)
        roll_up(store, store.env, self.settings, safeguards=self.safeguards)
        return self._miscounted(store)

    @cached_property
    def unrepaired(self) -> tuple[str, ...]:
        """By-time entries that a steady pass of the reconciler leaves without their references."""
        store = self._copy(self.at_rest_ns)
        reconcile_once(store, store.env, self.settings, safeguards=self.safeguards)
        after = store.contents()
        found = (Manifest.read(body, key) for key, body in after.items() if key.startswith(keys.BY_TIME))
        return tuple(m.by_time_key for m in found if m.by_blob_key not in after)

    def unattended(self, landed_ns: Mapping[str, int]) -> tuple[str, ...]:
        """Return the effects that are missing after the maintenance of one collector and no other work."""
        stamps = tuple(sorted(landed_ns.items()))
        if stamps not in self._unattended:
            self._unattended[stamps] = self._after_maintenance(stamps)
        return self._unattended[stamps]

    def _after_maintenance(self, stamps: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
        store = self._copy_with_times(stamps)
        keeper = Maintenance(store, store.env, "keeper", self.settings, safeguards=self.safeguards)
        for _ in range(RUNS):
            store.env.sleep(SEARCH_EVERY_S)
            keeper.run_once()
        missing = [f"there is no {one}" for one in self._without_index(store.contents())]
        miscounted = self._miscounted(store)
        return (*missing, *([f"the rollups hold {miscounted}"] if miscounted else ()))

    def _under(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        return ((key, body) for key, body in self.contents.items() if key.startswith(prefix))

    def _copy(self, now_ns: int) -> MemoryStore:
        store = MemoryStore(env=SeededEnvironment(2, now_ns))
        for key, body in self.contents.items():
            store.put(key, body, when=ABSENT)
        return store

    def _copy_with_times(self, stamps: tuple[tuple[str, int], ...]) -> MemoryStore:
        """A copy at rest, whose manifests landed when these did: a search depends on that."""
        timed = sorted(stamps, key=lambda one: one[1])
        env = SeededEnvironment(2, min([self.start_ns, *(at_ns for _, at_ns in timed)]))
        store = MemoryStore(env=env)
        for key, at_ns in timed:
            env.sleep((at_ns - env.now_ns()) / 1e9)
            store.put(key, self.contents[key], when=ABSENT)
        env.sleep((self.at_rest_ns - env.now_ns()) / 1e9)
        for key in self.contents.keys() - {key for key, _ in stamps}:
            store.put(key, self.contents[key], when=ABSENT)
        return store

    def _without_index(self, contents: Mapping[str, bytes]) -> tuple[str, ...]:
        return tuple(
            f"{key} of {manifest.identity}"
            for manifest in self.manifests.values()
            for key in (manifest.by_time_key, manifest.by_blob_key)
            if key not in contents
        )

    def _miscounted(self, store: MemoryStore) -> str:
        """Describe the totals of the rollups, unless they count each accepted batch with data once."""
        rolled = totals(store, store.env, self.settings)
        counted = sum(one.count for series in rolled.values() for one in series.values())
        value = sum(one.sum for series in rolled.values() for one in series.values())
        here = [m for m in self.manifests.values() if self.holds(m.raw_blob_key, m.frame_sha256)]
        wanted = sum(self.batches[m.frame_sha256].value for m in here)
        if (counted, value) == (len(here), wanted):
            return ""
        return f"{counted} points of {value}, not {len(here)} of {wanted}"


Check = Callable[[BucketState, Outcomes], Iterator[str]]


def one_acceptance(_: BucketState, outcomes: Outcomes) -> Iterator[str]:
    accepted = Counter(answer.identity for answer in outcomes.answers if answer.what == "accepted")
    for identity, times in accepted.items():
        if times > 1:
            yield f"{times} agents were answered that {identity} is accepted and no duplicate"


def ack_durable(state: BucketState, outcomes: Outcomes) -> Iterator[str]:
    for answer in outcomes.answers:
        if answer.what not in STORED:
            continue
        manifest = state.accepted(answer.identity)
        if manifest is None:
            yield f"{answer.identity} was acknowledged, and has no manifest"
        elif manifest.key in state.without_blob and not outcomes.excused(manifest.key):
            yield f"{answer.identity} was acknowledged, and its blob is gone"


def truthful_duplicate(_: BucketState, outcomes: Outcomes) -> Iterator[str]:
    for answer in outcomes.answers:
        if answer.what == "duplicate" and answer.sha256 not in answer.saw:
            yield f"{answer.sha256[:8]} was called a duplicate, and no manifest of it was seen"


def truthful_conflict(_: BucketState, outcomes: Outcomes) -> Iterator[str]:
    for answer in outcomes.answers:
        if answer.what == "conflict" and not answer.saw - {answer.sha256}:
            yield f"{answer.sha256[:8]} was called a conflict, and no other manifest was seen"


def no_early_effect(_: BucketState, outcomes: Outcomes) -> Iterator[str]:
    for identity, sha256, collector, seen in outcomes.live:
        if not seen:
            yield f"{collector} updated live state of {identity} ({sha256[:8]}) before it saw its manifest"
    if any(answer.early for answer in outcomes.answers):
        yield "a derived object was written before its manifest was seen"


def effects_once(state: BucketState, outcomes: Outcomes) -> Iterator[str]:
    lively = Counter(identity for identity, *_ in outcomes.live)
    for identity, times in lively.items():
        if times > 1:
            yield f"live state was updated {times} times for {identity}"
    if state.miscounted:
        yield f"the rollups hold {state.miscounted}"


def effects_eventually(state: BucketState, _: Outcomes) -> Iterator[str]:
    yield from (f"after an audit and the rollups there is no {missing}" for missing in state.without_index)


def answered(_: BucketState, outcomes: Outcomes) -> Iterator[str]:
    if any(answer.what == "unavailable" and not answer.faults for answer in outcomes.answers):
        yield "an agent was answered 503, although the store answered everything"
    final = {answer.sha256 for answer in outcomes.answers if answer.what != "unavailable"}
    for batch in outcomes.offered:
        if batch.sha256 not in final:
            yield f"{batch.identity} was never answered, although it was sent again"


def gc_safe(state: BucketState, outcomes: Outcomes) -> Iterator[str]:
    for key in state.without_blob:
        if not outcomes.excused(key):
            yield f"{key} exists, and the blob it refers to is gone"


def never_reopened(state: BucketState, outcomes: Outcomes) -> Iterator[str]:
    for answer in outcomes.answers:
        manifest = state.accepted(answer.identity)
        attempt = manifest.attempt if manifest is not None else None
        if answer.attempt and attempt != answer.attempt:
            yield f"an agent was answered with {answer.attempt} as {answer.identity}, which is {attempt} now"


def cursor_honest(state: BucketState, _: Outcomes) -> Iterator[str]:
    yield from (f"the reconciler passed {key} without repairing it" for key in state.unrepaired)


def no_forgery(_: BucketState, outcomes: Outcomes) -> Iterator[str]:
    for answer in outcomes.answers:
        if answer.sender and answer.what != "refused":
            yield f"{answer.sender} sent {answer.identity}: {answer.what}"


def effects_unattended(state: BucketState, outcomes: Outcomes) -> Iterator[str]:
    if outcomes.landed_ns is not None:
        for missing in state.unattended(outcomes.landed_ns):
            yield f"with nothing but what collectors do on their own, {missing}"


def acknowledged_repaired(state: BucketState, outcomes: Outcomes) -> Iterator[str]:
    for key in outcomes.acknowledged:
        manifest = state.manifests[key]
        for wanted in (manifest.by_time_key, manifest.by_blob_key):
            if wanted not in state.contents:
                yield f"the notification of {manifest.identity} was acknowledged, and there is no {wanted}"


def acknowledged_counted(state: BucketState, outcomes: Outcomes) -> Iterator[str]:
    """Where every accepted batch was notified or is in the index of time."""
    if outcomes.acknowledged and state.uncounted_by_rollups:
        yield f"all is notified or in the index of time, and the rollups hold {state.uncounted_by_rollups}"


def conflict_durable(state: BucketState, outcomes: Outcomes) -> Iterator[str]:
    records = {(str(record.identity), record.submitted_frame_sha256): record for record in state.records}
    for answer in outcomes.answers:
        if answer.what != "conflict":
            continue
        record = records.get((answer.identity, answer.sha256))
        if record is None:
            yield f"{answer.identity} ({answer.sha256[:8]}) was called a conflict, and has no record"
        elif record.key in state.without_blob and not outcomes.excused(record.key):
            yield f"the refused data of {answer.identity} ({answer.sha256[:8]}) is gone"


CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        one_acceptance,
        ack_durable,
        truthful_duplicate,
        truthful_conflict,
        no_early_effect,
        effects_once,
        effects_eventually,
        answered,
        gc_safe,
        never_reopened,
        cursor_honest,
        no_forgery,
        effects_unattended,
        conflict_durable,
        acknowledged_repaired,
        acknowledged_counted,
    )
}
"""By the name of the model's invariant."""
