"""Where the ingest library works in random trouble: one bucket, three collectors, the maintenance, and the
books.

Work runs inside work: between any two requests of a collector another one accepts a batch, garbage is
collected, or hours pass. In a plain bucket time does not pass while a document is on its way, and what is
late lands before: these are its assumptions. A versioned bucket asks for nothing.

The books are what agents were told. What lands, and what is told, is also shown to the model; what it does
not allow goes to `wrong`, because it may happen deep inside of other work, where nobody would hear it.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any

from fencepost.impl.environment import Environment, SeededEnvironment
from fencepost.impl.ingest import (
    Accepted,
    Authority,
    Conflict,
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
)
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.store.interface import Store
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Request
from fencepost.properties.ingest.refinement import IngestRefinement
from fencepost.properties.ingest.unsteady import Crashed, Fault, Unsteady
from fencepost.properties.ingest.watching import Watch
from fencepost.properties.refinement import Automaton, Reader, Verdict

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
MAINTENANCE: dict[str, Callable[..., object]] = {
    "reconcile": reconcile_once,
    "audit": full_audit,
    "collect": collect,
    "roll-up": roll_up,
}

_readers: dict[bool, Reader] = {}


def _reader(*, versioned: bool) -> Reader:
    if versioned not in _readers:
        _readers[versioned] = Reader(Automaton(IngestRefinement(2, HORIZONS, versioned=versioned)))
    return _readers[versioned]


class Stage:
    """A bucket with all that happens to it."""

    def __init__(self, safeguards: Safeguards, *, versioned: bool) -> None:
        self.safeguards = safeguards
        self.versioned = versioned
        self.env = SeededEnvironment(start_ns=START_NS)
        self.bucket = MemoryStore(versioned=versioned, env=self.env)
        self.late: list[Request[Any]] = []
        self.watch = Watch(_reader(versioned=versioned), versioned=versioned)
        self.error: list[str] = []
        self.stored: set[int] = set()
        self.parked: set[int] = set()
        """The batches of which some agent was told that they are accepted, or are a conflict."""
        self.news: Counter[Identity] = Counter()
        """How often it was told that an identity is new."""
        self.on_its_way = False
        """Whether a document is being sent whose landing is bounded."""

    def faults(self, trouble: dict[int, object]) -> dict[int, Fault]:
        """What was drawn, as what a store can be told."""
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

    def accept(self, collector: str, batch: int, faults: dict[int, Fault]) -> None:
        """The batch comes; perhaps again, since the agent may not have heard the answer."""
        try:
            answer = self.ask(collector, batch, faults)
        except Crashed:
            return
        if isinstance(answer, Accepted):
            self.stored.add(batch)
        elif isinstance(answer, Conflict):
            self.parked.add(batch)
        if batch in self.stored & self.parked:
            self.error.append(f"batch {batch} was told both that it is accepted and that it is a conflict")

    def ask(self, collector: str, batch: int, faults: dict[int, Fault]) -> Accepted | Conflict | Unavailable:
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
            self._tell(identity, sha_of(body), "duplicate" if answer.duplicate else "accepted")
            if not answer.duplicate:
                self._unless_crashed(lambda: authority.follow_up(answer.manifest))
        elif isinstance(answer, Conflict):
            self._tell(identity, sha_of(body), "conflict")
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
            return  # it is done once more some other time

    def sleep(self, seconds: float) -> None:
        if not self.versioned:
            if self.on_its_way:
                seconds = min(seconds, 300.0)
            else:
                self.land_all()
        self.env.sleep(seconds)

    def _store(self, faults: dict[int, Fault]) -> Store:
        return Unsteady(self.bucket, faults, self.late, self._landed)

    def land_all(self) -> None:
        """Everything that was late lands, in the order in which it was sent."""
        while self.late:
            self.land(self.late.pop(0))

    def land(self, request: Request[Any]) -> None:
        self._landed(request, self.bucket.send(request))

    def _landed(self, request: Request[Any], reply: Any) -> None:
        self._judge(self.watch.landed(request, reply))

    def _tell(self, identity: Identity, sha256: str, what: str) -> None:
        self._judge(self.watch.told(identity, sha256, what))

    def _judge(self, verdict: Verdict | None) -> None:
        if verdict is not None and verdict.verdict == "violated":
            self.error.append(f"the model does not allow this: {verdict}")

    def manifests(self) -> dict[Identity, Manifest]:
        found = (
            Manifest.read(body, key)
            for key, body in self.bucket.contents().items()
            if key.startswith(keys.ACCEPTED)
        )
        return {manifest.identity: manifest for manifest in found}


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


def sha_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
