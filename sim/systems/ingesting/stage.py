"""The run: collectors as processes, each with a batch that an agent keeps sending until it is answered.

What an agent does is this: it sends its batch to any collector, and when no answer comes or the answer is
503, to any collector again. So an attempt at one collector may run beside an attempt at another, at any
distance in time, and after a crash the same batch comes again. That is what is explored here: processes that
accept the same batch at the same time, and accept it again when they were not able to, or died. HTTP and
the agent's own memory are left out: they decide nothing but which of these attempts happen.

In scenarios without garbage collection clocks stand still, since acceptance asks them only how old a blob is.
In the others they are the world's: whoever sleeps lets time pass, and whoever reads a clock takes a step.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import (
    STANDARD,
    Accepted,
    Authority,
    Conflict,
    Manifest,
    Safeguards,
    Settings,
    keys,
)
from fencepost.impl.ingest.authority import check_batch
from fencepost.impl.ingest.documents import JSON
from fencepost.impl.ingest.errors import Refused
from fencepost.impl.store import ABSENT
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import BINARY, CompleteUpload, Get, Outcome, Put, Request
from fencepost.sim.systems.ingesting.batches import AGENT, HORIZON_S, Batch
from fencepost.sim.systems.ingesting.lockstep import Lockstep
from fencepost.sim.systems.staging.clock import ScenarioEnvironment
from fencepost.sim.systems.staging.watching import Watching
from fencepost.sim.world import View, World

SETTINGS = Settings(
    horizon_s=HORIZON_S,
    landing_bound_s=600.0,
    skew_bound_s=60.0,
    overlap_s=900.0,
    attempts_max=3,
    checkpoint_s=1e9,
)
OLD_S = 3 * HORIZON_S + 1800.0
"""After so long nobody relies on a blob any more."""
ATTEMPTS = 3
"""How often an agent comes again that was told 503."""
DERIVED = (keys.BY_TIME, keys.BY_BLOB, keys.RAW_BY_TIME)
_FAULTS = (Outcome.UNKNOWN, Outcome.CONFLICT, Outcome.THROTTLED)


class Watched(Watching):
    """What one collector asked and saw in one attempt."""

    def __init__(self, inner: Store, env: Environment) -> None:
        super().__init__(inner)
        self.env = env
        self.begin()

    def begin(self) -> None:
        self.requests = 0
        self.hops = 0
        self.faults = 0
        self.refused = 0
        """Creates of a manifest that met one."""
        self.saw: set[str] = set()
        """Hashes of manifests that were read, or created."""
        self.early: list[str] = []
        """Derived objects that were written before a manifest was seen."""

    def look(self, request: Request[Any], reply: Any) -> None:
        # A 409 on completing an upload is the store's own word, not a fault: nobody else would say it twice.
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


@dataclass(frozen=True)
class Told:
    """What an agent was told about its batch, and what that took."""

    what: str
    """accepted, duplicate, conflict, unavailable, refused."""
    sha256: str
    attempt: str
    """Of the manifest that the answer speaks of."""
    saw: frozenset[str]
    early: bool
    requests: int
    hops: int
    faults: int
    sender: str = AGENT


@dataclass
class ScenarioRun:
    """One run's world, and the acceptance authority in it."""

    world: World
    safeguards: Safeguards = STANDARD
    timed: bool = False
    settings: Settings = SETTINGS
    offered: list[Batch] = field(default_factory=list)
    """What agents keep sending until they are answered."""
    versioned: bool = False
    parts: bool = False
    aged: bool = False
    """Whether something stood long before the run."""
    bounded: bool = True
    """Whether what lands later than the margin is excused."""
    followed: bool | None = None
    """Whether the model reads along. By default not of a broken library: its promises are to speak first."""
    lockstep: Lockstep | None = None
    excused: Callable[[View, str], bool] | None = None
    """Whether an assumption was broken for what stands at this key, so that nothing was promised of it."""

    def env(self) -> ScenarioEnvironment:
        return ScenarioEnvironment(self.world, timed=self.timed)

    def store(self) -> Watched:
        return Watched(self.world.store(), self.env())

    def bucket(self, *, versioned: bool = False, timed: bool = False, parts: bool = False) -> None:
        """Say what the bucket is like; before anything is put there."""
        self.timed = timed
        self.versioned = versioned
        self.parts = parts
        self.world.configure(versioned=versioned, stamped=timed, part_bytes_min=1, pause_s=OLD_S)
        followed = self.safeguards == STANDARD if self.followed is None else self.followed
        # Of a real store nobody knows in which order requests landed.
        if followed and isinstance(self.world, World):
            # With time in a scenario, the adversary breaks the bounds of a plain bucket as well.
            self.lockstep = Lockstep(self.world.findings, versioned=versioned, bounded=not timed)
            self.world.follow("lockstep", self.lockstep)
        if parts:
            self.settings = replace(self.settings, multipart_bytes=16, part_bytes=1 << 20)

    def put(self, key: str, body: bytes, *, age_s: float = 0.0) -> str:
        """Have an object stand before the run, for so long; its version."""
        kind = JSON if key.endswith(".json") else BINARY
        if self.lockstep is not None:
            self.lockstep.before(key, body)
        version = self.world.store().put(key, body, when=ABSENT, content_type=kind).version
        if age_s:
            self.aged = True
            self.world.bucket.backdate(key, round(age_s * 1e9))
        return version

    def collector(self, name: str, batch: Batch, *, sender: str = AGENT, follow_up: bool = True) -> None:
        """A collector to which a batch comes, and comes again until it is answered."""
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
        """One time that the batch comes; whether the agent need not come again."""
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
        # Whoever is accepted and met a manifest met itself: an SDK below had asked twice.
        faults = store.faults + (store.refused if what == "accepted" else 0)
        cost = (store.requests, store.hops, faults)
        told = Told(what, batch.sha256, attempt, frozenset(store.saw), bool(store.early), *cost, sender)
        self.world.note("outcome", told)
        if what == "accepted" and follow_up and isinstance(answer, Accepted):
            with self.world.operation("follow up"):
                authority.follow_up(answer.manifest)
        return what != "unavailable"
