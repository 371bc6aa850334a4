"""One run of a scenario: collectors as processes, each with a batch that an agent sends until it is answered.

An agent sends its batch to any collector, and when no reply comes or the reply is 503, to any collector
again. So attempts at different collectors may overlap at any distance in time, and after a crash the same
batch comes again. The scenarios explore that: processes that accept the same batch at the same time, and
again after they failed or died. HTTP and the agent's own memory are left out: they decide only which of these
attempts happen.

In scenarios without garbage collection clocks do not move, because acceptance reads them only for the age of
a blob. In the others the clock is the world's: a sleep lets time pass, and reading the clock is a step.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import (
    STANDARD,
    Accepted,
    Authority,
    Conflict,
    Manifest,
    Report,
    Safeguards,
    Settings,
    keys,
)
from fencepost.impl.ingest.authority import check_batch
from fencepost.impl.ingest.documents import JSON
from fencepost.impl.ingest.errors import Refused
from fencepost.impl.ingest.inventory_files import Disk
from fencepost.impl.ingest.trace_fields import trace_fields
from fencepost.impl.store import ABSENT
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers.metered import Tally
from fencepost.impl.store.requests import BINARY, CompleteUpload, Get, Outcome, Put, Request
from fencepost.properties.ingest import IngestRefinement
from fencepost.properties.ingest.checks import CHECKS, Answer, BucketState, Outcomes
from fencepost.properties.refinement import RunNames
from fencepost.sim.systems.harness import ScenarioEnvironment, WatchingStore, declare, once
from fencepost.sim.systems.ingest.batches import AGENT, BY_HASH, HORIZON_S, Batch
from fencepost.sim.systems.lockstep import Lockstep, Readers, cached
from fencepost.sim.world import View, World
from fencepost.sim.world.settings import START_NS

SETTINGS = Settings(
    horizon_s=HORIZON_S,
    landing_bound_s=600.0,
    skew_bound_s=60.0,
    overlap_s=900.0,
    attempts_max=3,
    checkpoint_s=1e9,
)
OLD_S = 3 * HORIZON_S + 1800.0
"""Seconds after which no collector relies on a blob any more."""
ATTEMPTS = 3
"""Number of times that an agent sends a batch that is answered 503."""
DERIVED = (keys.BY_TIME, keys.BY_BLOB)
CONTENTS = 2
HORIZONS = 15
"""Room in the model for objects from long before the run."""
_FAULTS = (Outcome.UNKNOWN, Outcome.CONFLICT, Outcome.THROTTLED)


class Bucket(NamedTuple):
    """The kind of bucket, and whether requests land within bounds there."""

    versioned: bool
    bounded: bool

    def refinement(self) -> IngestRefinement:
        return IngestRefinement(CONTENTS, HORIZONS, versioned=self.versioned, bounded=self.bounded)


def _covering() -> IngestRefinement:
    """The map for coverage, of the first kind of bucket that this process followed."""
    kind: Bucket = READERS.kinds()[0]
    return kind.refinement().covering()


READERS: Readers[Bucket] = Readers(Bucket.refinement, _covering)
_fields = cached(trace_fields)


def _names() -> RunNames:
    names = RunNames(IngestRefinement.runs)
    for batch in BY_HASH.values():
        names.learn(batch.raw_key(), _fields(batch.raw_key(), batch.body))
    return names


_NAMES = _names()


def _note(topic: str, value: Any) -> tuple[str, str, str] | None:
    """Return an observation of an agent or of live state as the outcome, fields and run of a note."""
    if topic not in ("outcome", "live"):
        return None
    sha, what = (value.sha256, value.what) if topic == "outcome" else (value[1], "live")
    return "", f"sha={sha} what={what}", BY_HASH[sha].identity.path


def lockstep_of(findings: list[str], *, versioned: bool, bounded: bool = True) -> Lockstep:
    """The model following a run, each identity by itself.

    Objects from before the run are shown to the model first, as if they had been stored in the same order.
    Unless `bounded`, requests of a plain bucket may land at any time.
    """
    reader = READERS.of(Bucket(versioned, bounded))
    return Lockstep(reader, findings, _fields, _note, run_of=_NAMES.of, deletes_all_versions=versioned)


class Watched(WatchingStore):
    """Records what one collector requested and saw in one attempt."""

    def __init__(self, inner: Store, env: Environment) -> None:
        super().__init__(inner)
        self.env = env
        self.begin()

    def begin(self) -> None:
        self.cost = Tally()
        self.faults = 0
        self.refused = 0
        """Creates of a manifest that found one."""
        self.saw: set[str] = set()
        """Hashes of manifests that were read, or created."""
        self.early: list[str] = []
        """Derived objects that were written before a manifest was seen."""

    def look(self, request: Request[Any], reply: Any) -> None:
        # A 409 on completing an upload is no fault: the store itself repeats it.
        self.faults += reply.outcome in _FAULTS and not isinstance(request, CompleteUpload)
        if request.subject.startswith(DERIVED) and isinstance(request, Put) and not self.saw:
            self.early.append(request.subject)
        if isinstance(request, Put) and request.subject.startswith(keys.ACCEPTED):
            self.refused += reply.outcome is Outcome.EXISTS
        if request.subject.startswith(keys.ACCEPTED) and reply.outcome is Outcome.DONE:
            body = (
                request.body if isinstance(request, Put) else reply.body if isinstance(request, Get) else b""
            )
            if body:
                self.saw.add(Manifest.read(body, request.subject).frame_sha256)


@dataclass
class ScenarioRun:
    """One run's world, and the acceptance authority in it."""

    world: World
    safeguards: Safeguards = STANDARD
    timed: bool = False
    settings: Settings = SETTINGS
    offered: list[Batch] = field(default_factory=list)
    """Batches that agents send until they are answered."""
    versioned: bool = False
    parts: bool = False
    aged: bool = False
    """True if an object is much older than the run."""
    bounded: bool = True
    """True if a landing later than the margin is excused."""
    followed: bool | None = None
    """True if the observed machine follows the run. By default not of a mutant: the checks must find it."""
    lockstep: Lockstep | None = None
    excused: Callable[[View, str], bool] | None = None
    """Return True if no property applies to the object at a key, as an assumption was violated for it."""

    def env(self) -> ScenarioEnvironment:
        return ScenarioEnvironment(self.world, timed=self.timed)

    def store(self) -> Watched:
        return Watched(self.world.store(), self.env())

    def bucket(self, *, versioned: bool = False, timed: bool = False, parts: bool = False) -> None:
        """Configure the bucket; before anything is put there."""
        self.timed = timed
        self.versioned = versioned
        self.parts = parts
        # Ages are compared with horizons, so a second more changes nothing.
        self.world.configure(versioned=versioned, stamped=timed, part_bytes_min=1, pause_s=OLD_S, ticks=0)
        followed = self.safeguards == STANDARD if self.followed is None else self.followed
        # On a real store the order in which requests take effect is unknown.
        if followed and isinstance(self.world, World):
            # With time in a scenario, the adversary breaks the bounds of a plain bucket as well.
            self.lockstep = lockstep_of(self.world.findings, versioned=versioned, bounded=not timed)
            self.world.follow("lockstep", self.lockstep)
        if parts:
            self.settings = replace(self.settings, multipart_bytes=16, part_bytes=1 << 20)

    def put(self, key: str, body: bytes, *, age_s: float = 0.0) -> str:
        """Put an object of this age before the run; its version."""
        kind = JSON if key.endswith(".json") else BINARY
        if self.lockstep is not None:
            self.lockstep.before(key, body)
        version = self.world.store().put(key, body, when=ABSENT, content_type=kind).version
        if age_s:
            self.aged = True
            self.world.bucket.backdate(key, round(age_s * 1e9))
        return version

    def collector(self, name: str, batch: Batch, *, sender: str = AGENT, follow_up: bool = True) -> None:
        """A collector that receives a batch, again and again until it answers."""
        if batch not in self.offered and sender == AGENT:
            self.offered.append(batch)

        def live() -> None:
            store = self.store()

            def tell_live(manifest: Manifest) -> None:
                seen = manifest.frame_sha256 in store.saw
                self.world.note("live", (str(manifest.identity), manifest.frame_sha256, name, seen))

            authority = Authority(
                store, store.env, name, self.settings, safeguards=self.safeguards, on_accepted=tell_live
            )
            for _ in range(ATTEMPTS):
                store.begin()
                if self._attempt(authority, store, batch, sender, follow_up=follow_up):
                    return

        self.world.spawn(live, name=name)

    def _attempt(
        self, authority: Authority, store: Watched, batch: Batch, sender: str, *, follow_up: bool
    ) -> bool:
        """One attempt; whether the agent is finished."""
        try:
            check_batch(sender, batch.identity, batch.body, safeguards=self.safeguards)
        except Refused:
            return True
        with self.world.operation("accept"):
            answer = authority.accept(batch.identity, batch.body)
        what, attempt = "unavailable", ""
        if isinstance(answer, Accepted):
            what = "duplicate" if answer.duplicate else "accepted"
            attempt = answer.manifest.attempt
        elif isinstance(answer, Conflict):
            what, attempt = "conflict", answer.existing.attempt
        # An accepted attempt that found a manifest found its own: an SDK below had sent the create twice.
        faults = store.faults + (store.refused if what == "accepted" else 0)
        cost = (store.cost.requests, store.cost.hops, faults)
        seen, foreign = frozenset(store.saw), sender if sender != AGENT else ""
        identity = str(batch.identity)
        self.world.note(
            "outcome", Answer(what, identity, batch.sha256, attempt, seen, bool(store.early), *cost, foreign)
        )
        if what == "accepted" and follow_up and isinstance(answer, Accepted):
            with self.world.operation("follow up"):
                authority.follow_up(answer.manifest)
        return what != "unavailable"


@dataclass(frozen=True)
class Rows(Report):
    """An inventory report given by its rows. Files and formats decide only whether a report is refused."""

    rows: tuple[str, ...] = ()

    def list_keys(self, prefix: str = "") -> Iterator[str]:
        return (key.removeprefix(prefix) for key in self.rows if key.startswith(prefix))


def inventory(rows: Sequence[str], began_ns: int) -> Report:
    """A report of a scan that began then."""
    return Rows("the report", "bucket", began_ns, "CSV", (), (), Disk(Path()), "", tuple(rows))


# Checks of the end of every run. Everything that the checks read only grows, except for blobs, which must all
# exist in the end. A process notes at once a step that it takes too early: the end does not show it.

AT_REST_NS = START_NS + 7 * 3600 * 10**9
COST = {"accepted": (2, 2), "duplicate": (4, 4), "conflict": (5, 4)}
"""Requests and serial hops of an attempt without faults."""
LOOK = (2, 1)
"""On top, in a versioned bucket: an acceptance verifies a blob that existed already."""
SLOW = (8, 8)
"""On top, where a process sleeps for hours: a new generation, a look, a new version."""
PARTS = (24, 24)
"""On top, with multipart uploads: up to four requests each time, and three times."""
PER_FAULT = 3
"""On top, for one fault: a look and a repetition."""


@once
def examine(contents: Mapping[str, bytes], safeguards: Safeguards) -> BucketState:
    return BucketState(contents, BY_HASH, SETTINGS, safeguards, AT_REST_NS, START_NS)


def outcomes(run: ScenarioRun, view: View) -> Outcomes:
    """Return the observations that the processes of the run noted."""
    world: object = run.world
    landed = None
    if not run.timed and isinstance(world, World):
        timed = (key for key in view.contents("") if key.startswith((keys.ACCEPTED, keys.BY_TIME)))
        landed = {key: world.bucket.modified_ns(key) for key in timed}
    return Outcomes(
        view.notes("outcome"),
        view.notes("live"),
        run.offered,
        lambda key: run.excused is not None and run.excused(view, key),
        view.notes("acknowledged"),
        landed,
    )


def declare_checks(run: ScenarioRun) -> None:
    """The checks of `properties.ingest.checks`, and the contract of costs."""
    declare(
        run.world,
        CHECKS,
        lambda view: examine(view.contents(""), run.safeguards),
        lambda view: outcomes(run, view),
    )
    run.world.finally_("flat-cost", lambda view: next(too_expensive(run, view.notes("outcome")), None))


def too_expensive(run: ScenarioRun, answers: Iterable[Answer]) -> Iterator[str]:
    for answer in answers:
        requests, hops = COST.get(answer.what, (99, 99))
        more_requests, more_hops = _more(run, answer)
        by_faults = PER_FAULT * answer.faults
        if (
            answer.requests > requests + more_requests + by_faults
            or answer.hops > hops + more_hops + by_faults
        ):
            yield f"to answer {answer.what} took {answer.requests} requests and {answer.hops} serial hops"


def _more(run: ScenarioRun, answer: Answer) -> tuple[int, int]:
    if run.parts:
        return PARTS
    if run.timed or run.aged:
        return SLOW
    return LOOK if run.versioned and answer.what == "accepted" else (0, 0)
