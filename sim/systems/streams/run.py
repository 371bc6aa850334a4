"""One run of a scenario: a stream that was there before it, and nodes that serve, reap or create it.

A crash loses a node's memory and its disk: under durability `store` both must be worth nothing. Where a disk
outlives the crash, the scenario gives the node one, or a flagged row that it did not make in this run. Clocks
do not move; a scenario may set them to different moments. Two activities of one node share its memory, which
no two processes may: so one of them happens inside the other, right before a request that the exploration
chooses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import ABSENT
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Delete, Get, List, Outcome, Put, Request
from fencepost.impl.streams import (
    STANDARD,
    Configuration,
    Durability,
    MemoryState,
    Node,
    Reaper,
    RetentionError,
    Safeguards,
    Settings,
    StreamError,
    Trouble,
)
from fencepost.impl.streams.manifest import Manifest, manifest_key, parse_key, trace_fields
from fencepost.impl.streams.stream import Known
from fencepost.properties.streams.checks import CHECKS, Acknowledged, Outcomes, Seen, StreamState
from fencepost.properties.streams.refinement import StreamsRefinement
from fencepost.sim.systems.harness import ScenarioEnvironment, WatchingStore, declare, once
from fencepost.sim.systems.lockstep import Lockstep, Readers, cached
from fencepost.sim.world import View, World
from fencepost.sim.world.settings import START_NS

NAME = "/s"
OLD = Configuration("text/old")
NEW = Configuration("text/new")
TTL_S = 100
EXPIRING = Configuration("text/old", ttl_s=TTL_S)
SETTINGS = Settings(landing_bound_s=0.0, skew_bound_s=20.0, backoff_s=0.0, attempts=2, index_width=2)
LOCAL = replace(SETTINGS, durability=Durability.LOCAL)
AT_REST_NS = START_NS + 10 * 3600 * 10**9
READERS: Readers[None] = Readers(
    lambda _: StreamsRefinement(owners=8, places=6), StreamsRefinement().covering
)
_fields = cached(trace_fields)


class _Recorder(Layer):
    """The puts of a setup, in order, for the model that follows."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.puts: list[tuple[Put, Any]] = []

    def send(self, request: Request[Any]) -> Any:
        reply = self.inner.send(request)
        if isinstance(request, Put) and reply.outcome is Outcome.DONE:
            self.puts.append((request, reply))
        return reply


class Watched(WatchingStore):
    """Notes what a node publishes, and what it deletes too early; lets the node do something else between."""

    def __init__(self, inner: Store, world: World) -> None:
        super().__init__(inner)
        self._world = world
        self.state = ""
        """Of the manifest as this node saw it last: live, tombstone, gone; with its incarnation."""
        self.incarnation = ""
        self.left: set[str] | None = None
        """The data that the last listing showed and that was not deleted since."""
        self.meanwhile: Callable[[], None] | None = None
        self.at = -1

    def send(self, request: Request[Any]) -> Any:
        self._step()
        return super().send(request)

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        self._step()
        return super().send_all(requests)

    def _step(self) -> None:
        if self.meanwhile is not None and self.cost.requests >= self.at >= 0:
            act, self.meanwhile = self.meanwhile, None
            act()

    def look(self, request: Request[Any], reply: Any) -> None:
        key, done = request.subject, reply.outcome is Outcome.DONE
        if isinstance(request, List) and done:
            self.left = {one.key for one in reply.objects if one.key != manifest_key(NAME)}
        elif isinstance(request, Delete) and key != manifest_key(NAME):
            if self.left is not None and done:
                self.left.discard(key)
        elif isinstance(request, Delete) and reply.outcome is Outcome.MISSING:
            self.state, self.left = "gone", None
        elif isinstance(request, Delete) and done:
            if self.left is None or any(self._is_of(one, self.incarnation) for one in self.left):
                self._world.note("careless", "the manifest was deleted before the data")
            self.state, self.left = "gone", None
        elif key == manifest_key(NAME) and isinstance(request, Put) and done:
            self._saw(request.body)
            if self.state == "tombstone":
                self._world.note("reaped", self.incarnation)
        elif key == manifest_key(NAME) and isinstance(request, Get):
            if done:
                self._saw(reply.body)
            elif reply.outcome is Outcome.MISSING:
                self.state = "gone"

    def _saw(self, body: bytes) -> None:
        manifest = Manifest.read(body, manifest_key(NAME))
        self.state = "tombstone" if manifest.is_tombstone else "live"
        self.incarnation = manifest.incarnation

    @staticmethod
    def _is_of(key: str, incarnation: str) -> bool:
        place = parse_key(key)
        return place is not None and place.incarnation == incarnation

    def dropped(self, incarnation: str) -> None:
        """The row of this incarnation is dropped."""
        ours = self.state == "tombstone" and self.incarnation == incarnation
        if ours or (self.state in ("", "gone") and (self.left is None or self.left)):
            self._world.note("careless", "the row was dropped before a listing showed that nothing is left")


class _Rows(MemoryState):
    watched: Watched

    def drop(self, name: str, incarnation: str) -> None:
        if self.flagged().get(name) == incarnation:
            self.watched.dropped(incarnation)
        super().drop(name, incarnation)


@dataclass
class ScenarioRun:
    world: World
    safeguards: Safeguards = STANDARD
    followed: bool = True
    lockstep: Lockstep | None = None
    founded: Mapping[str, bytes] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    """Incarnations that a client deletes in this scenario."""

    def found(self, act: Callable[[Node], None]) -> Manifest:
        """Have a node act before the first step; the manifest that it leaves."""
        recorder = _Recorder(MemoryStore(env=SeededEnvironment(1, START_NS)))
        node = Node(recorder, SeededEnvironment(1, START_NS), SETTINGS, safeguards=self.safeguards)
        act(node)
        if self.followed and isinstance(self.world, World):
            self.lockstep = Lockstep(READERS.of(None), self.world.findings, _fields, lambda *_: None)
            for put, reply in recorder.puts:
                refused = self.lockstep.landed("before", 0, put, reply)
                assert refused is None, refused
            self.world.follow("lockstep", self.lockstep)
        self.founded = recorder.inner.contents()  # type: ignore[attr-defined]  # a store in memory
        for key, body in self.founded.items():
            self.world.store().put(key, body, when=ABSENT)
        return Manifest.read(self.founded[manifest_key(NAME)], manifest_key(NAME))

    def node(
        self, *, ahead_s: float = 0.0, row: str = "", warm: bool = False, disk: MemoryState | None = None
    ) -> tuple[Node, Watched]:
        """A node of the calling process. Warm: it was the owner before the first step. `disk`: what it keeps
        over a crash; it then answers appends when they are committed there."""
        env = ScenarioEnvironment(self.world, ahead_s=ahead_s)
        watched, state = Watched(self.world.store(), self.world), _Rows()
        state.watched = watched
        settings = SETTINGS if disk is None else LOCAL
        node = Node(watched, env, settings, disk or state, safeguards=self.safeguards)
        if row:
            state.flag(NAME, row)
        if warm:
            stream, body = node.stream(NAME), self.founded[manifest_key(NAME)]
            manifest = Manifest.read(body, manifest_key(NAME))
            stream.known = Known(manifest, self._etag(body))
            stream.checked_ns, stream.owner, stream.incarnation = 0, manifest.owner, manifest.incarnation
        return node, watched

    @staticmethod
    def _etag(body: bytes) -> str:
        store = MemoryStore(env=SeededEnvironment(1))
        return store.put("x", body, when=ABSENT).etag

    def append(self, node: Node, body: bytes, producer: tuple[str, int, int] | None, kind: str) -> None:
        """Append, and note what the client was answered."""
        done = self.sent(node, body, producer, kind)
        if done is not None:
            self.world.note("acknowledged", done)

    def sent(
        self, node: Node, body: bytes, producer: tuple[str, int, int] | None, kind: str
    ) -> Acknowledged | None:
        """Append; what the client was answered."""
        try:
            with self.world.operation("append"):
                done = node.append(NAME, body, content_type=kind, producer=producer)
        except StreamError:
            return None
        manifest = node.stream(NAME).manifest
        if manifest is None or done.duplicate:
            return None
        return Acknowledged(manifest.incarnation, int(done.offset.split("_")[1]), body)

    def upload(self, node: Node, tries: int) -> bool:
        """Upload what the node has committed to its disk; whether it was. A server tries for ever."""
        stream = node.stream(NAME)
        for _ in range(tries):
            try:
                node.own(stream)
                node.flush(stream)
            except StreamError:
                continue
            return True
        return False

    def read(self, node: Node, pieces: int) -> None:
        """Read from offset to offset, as often as that."""
        offset, seen, incarnation = "-1", [], ""
        for _ in range(pieces):
            try:
                chunk = node.read_from(NAME, offset)
            except StreamError:
                break
            offset, incarnation = chunk.manifest.offset(chunk.end), chunk.manifest.incarnation
            seen.append((chunk.start, chunk.body))
        self.world.note("seen", Seen(incarnation, tuple(seen)))

    def sweep(self, node: Node) -> None:
        list(Reaper(node).sweep())

    def reap(self, node: Node, incarnation: str, *, alone: bool = False) -> None:
        try:
            Reaper(node).reap(NAME, incarnation)
        except StreamError as error:
            if alone and isinstance(error, RetentionError) and error.kind is Trouble.PREFIX:
                self.world.note("careless", "a reap was disturbed by other work of the same node")


def outcomes(run: ScenarioRun, view: View) -> Outcomes:
    return Outcomes(
        view.notes("acknowledged"),
        view.notes("seen"),
        run.ended,
        view.notes("reaped"),
        view.notes("careless"),
    )


@once
def examine(contents: Mapping[str, bytes], safeguards: Safeguards) -> StreamState:
    return StreamState(contents, NAME, SETTINGS, safeguards, AT_REST_NS)


def declare_checks(run: ScenarioRun) -> None:
    declare(
        run.world,
        CHECKS,
        lambda view: examine(view.contents(""), run.safeguards),
        lambda view: outcomes(run, view),
    )
