"""The ingest library under random work and random trouble, beside a plain oracle and the model.

    TestPlain = PlainIngest.TestCase
    TestVersioned = VersionedIngest.TestCase

The oracle is three dictionaries: what agents were told, what first stood under each identity, and what each
batch is worth. After every step: what was acknowledged stands with its bytes, an identity is what it first
was, `duplicate=false` was told once, a parked batch is on record with its bytes, and the model allows
everything that landed (see `watching`). In the end the faults stop, and then every agent is answered, every
index is complete, every batch is counted once, and long after no orphan is left and nothing else is gone.

How the work is done, and what a fault does to it, is in `stage`.
"""

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fencepost.impl.ingest import (
    STANDARD,
    Accepted,
    Conflict,
    ConflictRecord,
    Identity,
    Safeguards,
    Unavailable,
    keys,
    totals,
)
from fencepost.impl.ingest.indexes import derived
from fencepost.properties.ingest.stage import (
    BATCHES,
    COLLECTORS,
    HORIZON_S,
    MAINTENANCE,
    SETTINGS,
    Stage,
    sha_of,
)
from fencepost.properties.ingest.unsteady import FAULTS

SLEEPS_S = (30.0, 900.0, HORIZON_S, 4 * HORIZON_S)
_WORTH = {sha_of(body): value for _, body, value in BATCHES}

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
    """See the top of this module."""

    versioned: ClassVar[bool] = False
    safeguards: ClassVar[Safeguards] = STANDARD

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(self.safeguards, versioned=self.versioned)
        self.first: dict[Identity, str] = {}
        """By identity, the hash of what first stood there."""

    # The work.

    @rule(collector=collectors, batch=batches)
    def accept(self, collector: str, batch: int) -> None:
        self.stage.accept(collector, batch, {})

    @rule(collector=collectors, batch=batches, trouble=troubles)
    def accept_in_trouble(self, collector: str, batch: int, trouble: dict[int, object]) -> None:
        self.stage.accept(collector, batch, self.stage.faults(trouble))

    @rule(work=work, trouble=rare_troubles)
    def maintenance(self, work: str, trouble: dict[int, object]) -> None:
        self.stage.maintenance(work, self.stage.faults(trouble))

    @rule()
    def hours_later(self) -> None:
        """Garbage is collected when everything is old."""
        self.stage.hours_later()

    @rule(seconds=sleeps)
    def sleep(self, seconds: float) -> None:
        self.stage.sleep(seconds)

    @precondition(lambda self: self.stage.late)
    @rule(place=st.integers(0, 5))
    def lands(self, place: int) -> None:
        """A request that was late lands, or another one."""
        self.stage.land(self.stage.late.pop(place % len(self.stage.late)))

    @precondition(lambda self: self.stage.late)
    @rule()
    def never_lands(self) -> None:
        self.stage.late.pop()

    # What must hold after every step.

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert not self.stage.error, self.stage.error[0]

    @invariant()
    def an_identity_stays_what_it_first_was(self) -> None:
        for identity, manifest in self.stage.manifests().items():
            sha = self.first.setdefault(identity, manifest.frame_sha256)
            assert manifest.frame_sha256 == sha, f"{identity} was {sha} and is {manifest.frame_sha256}"
        assert self.first.keys() == self.stage.manifests().keys(), "a manifest is gone"
        assert not [name for name, times in self.stage.news.items() if times > 1], self.stage.news

    @invariant()
    def what_was_acknowledged_stands(self) -> None:
        manifests, contents = self.stage.manifests(), self.stage.bucket.contents()
        for batch in self.stage.stored:
            identity, body, _ = BATCHES[batch]
            assert identity in manifests, f"{identity} was acknowledged and is not accepted"
            assert contents.get(manifests[identity].raw_blob_key) == body, f"the data of {identity} is gone"

    @invariant()
    def what_is_parked_is_on_record(self) -> None:
        contents = self.stage.bucket.contents()
        for batch in self.stage.parked:
            identity, body, _ = BATCHES[batch]
            key = keys.conflict_key(identity, sha_of(body))
            assert key in contents, f"{identity} is parked and nobody wrote it down"
            record = ConflictRecord.read(contents[key], key)
            assert contents.get(record.submitted_raw_blob_key) == body, (
                f"the parked data of {identity} is gone"
            )

    # The end.

    def teardown(self) -> None:
        stage = self.stage
        if stage.error:
            return
        stage.land_all()
        for batch in range(len(BATCHES)):
            answer = stage.ask("ann", batch, {})
            assert not isinstance(answer, Unavailable), answer
            assert batch not in stage.stored or (isinstance(answer, Accepted) and answer.duplicate), answer
            assert batch not in stage.parked or isinstance(answer, Conflict), answer
        self._after_all()

    def _after_all(self) -> None:
        stage = self.stage
        stage.sleep(8 * HORIZON_S)
        manifests = stage.manifests()
        for work in ("audit", "reconcile", "roll-up", "roll-up"):
            stage.maintenance(work, {})
        contents = stage.bucket.contents()
        for identity, manifest in manifests.items():
            missing = [put.key for put in derived(manifest) if put.key not in contents]
            assert not missing, f"{identity} has no {missing}"
        here = [m for m in manifests.values() if m.raw_blob_key in contents]
        counted = [
            one for series in totals(stage.bucket, stage.env, SETTINGS).values() for one in series.values()
        ]
        assert sum(one.count for one in counted) == len(here)
        assert sum(one.sum for one in counted) == sum(_WORTH[m.frame_sha256] for m in here)
        stage.sleep(20 * HORIZON_S)
        for work in ("audit", "collect"):
            stage.maintenance(work, {})
        self.what_was_acknowledged_stands()
        self.what_is_parked_is_on_record()
        self.nothing_is_wrong()
        self._no_orphan_is_left()

    def _no_orphan_is_left(self) -> None:
        contents = self.stage.bucket.contents()
        referenced = {m.frame_sha256 for m in self.stage.manifests().values()}
        referenced |= {key.rsplit("/", 1)[-1][:64] for key in contents if key.startswith(keys.QUARANTINE)}
        found = (keys.parse_raw(key) for key in contents if key.startswith(keys.RAW))
        orphans = {parsed[0] for parsed in found if parsed is not None} - referenced
        assert not orphans, f"long after nobody needs them there are {orphans}"


class PlainIngest(IngestMachine):
    """In a plain bucket."""


class VersionedIngest(IngestMachine):
    """In a bucket that keeps versions."""

    versioned = True
