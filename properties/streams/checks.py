"""The properties of streams, each written once: functions of the contents of a bucket and of observations.

The invariants of the model have the same names. The future of the bucket is judged on a copy, on which a
fresh node with an empty disk sweeps until no work is left, as after a crash of all nodes with loss of disks.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import ABSENT
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import STANDARD, Manifest, Node, Reaper, Safeguards, Settings, StreamError
from fencepost.impl.streams.errors import Damaged
from fencepost.impl.streams.manifest import Segment, manifest_key, parse_key, prefix_of, read_index

TICKS = 3
"""One restores, one reaps, one finds what the others left."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An append that was answered with success: where it ends, in which incarnation."""

    incarnation: str
    end: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Seen:
    """The pieces that one reader received, in order, with the offset at which each starts."""

    incarnation: str
    pieces: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True)
class Outcomes:
    acknowledged: Collection[Acknowledged] = ()
    seen: Collection[Seen] = ()
    deleted: Collection[str] = ()
    """Incarnations that a client deletes, or that are expired by every clock."""
    reaped: Collection[str] = ()
    """Incarnations that a node found terminal: they must not be readable again."""
    careless: Collection[str] = ()
    """Deletions that a reap made too early."""


@dataclass
class StreamState:
    """The objects of one stream in a bucket, and their future at rest."""

    contents: Mapping[str, bytes]
    name: str
    settings: Settings
    safeguards: Safeguards = STANDARD
    at_rest_ns: int = 0

    @cached_property
    def manifest(self) -> Manifest | None:
        key = manifest_key(self.name)
        return Manifest.read(self.contents[key], key) if key in self.contents else None

    @cached_property
    def live(self) -> Manifest | None:
        found = self.manifest
        return found if found is not None and not found.is_tombstone and not found.pending else None

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Segments that the live manifest lists and that are missing or different."""
        if self.live is None:
            return ()
        wanted = {self.live.key_of(one): one.sha256 for one in self.entries(self.live.segments)}
        return tuple(
            key for key, digest in wanted.items() if sha256(self.contents.get(key, b"")).hexdigest() != digest
        )

    @cached_property
    def body(self) -> bytes:
        """The bytes of the live stream."""
        live = self.live
        if live is None:
            return b""
        return b"".join(self.contents.get(live.key_of(one), b"") for one in self.segments)

    @property
    def segments(self) -> list[Segment]:
        """Those that the live manifest lists, itself or by an index."""
        return [one for one in self.entries(self.live.segments if self.live else ()) if one.count == 1]

    def entries(self, listed: Sequence[Segment]) -> Iterator[Segment]:
        """Segments and indexes; a missing index lists nothing."""
        for one in listed:
            yield one
            index = self.contents.get(self.live.key_of(one)) if self.live and one.count > 1 else None
            if index is not None:
                yield from self.entries(read_index(index))

    @cached_property
    def healed(self) -> tuple[Mapping[str, bytes], str]:
        """The objects after a fresh node swept for long, and what kept it from booting."""
        env = SeededEnvironment(3, self.at_rest_ns)
        store = MemoryStore(env=env)
        for key, body in self.contents.items():
            store.put(key, body, when=ABSENT)
        settings = replace(self.settings, scan_s=1.0, node="fresh")
        bricked = ""
        reaper = Reaper(Node(store, env, settings, safeguards=self.safeguards))
        for _ in range(TICKS):
            try:
                for _, error in reaper.sweep():
                    bricked = bricked or (str(error) if isinstance(error, Damaged) else "")
            except StreamError as error:
                bricked = bricked or str(error)
            env.sleep(3600)
        return store.contents(), bricked


Check = Callable[[StreamState, Outcomes], Iterator[str]]


def append_once(state: StreamState, outcomes: Outcomes) -> Iterator[str]:
    for one in outcomes.acknowledged:
        if state.live is not None and state.live.incarnation == one.incarnation:
            start = one.end - len(one.body)
            if state.body[start : one.end] != one.body:
                yield f"{one.body!r} was acknowledged at {start}, where {state.body[start : one.end]!r} is"
            elif state.body.count(one.body) != 1:
                yield f"{one.body!r} is {state.body.count(one.body)} times in the stream"
        elif one.incarnation not in (*outcomes.deleted, *outcomes.reaped):
            yield f"{one.body!r} was acknowledged, and its stream is gone though nobody deleted it"


def immutable_by_position(state: StreamState, outcomes: Outcomes) -> Iterator[str]:
    known: dict[tuple[str, int], int] = {}
    if state.live is not None:
        known = {(state.live.incarnation, at): byte for at, byte in enumerate(state.body)}
    for seen in outcomes.seen:
        for start, body in seen.pieces:
            for at, byte in enumerate(body, start):
                if known.setdefault((seen.incarnation, at), byte) != byte:
                    yield f"two readers got different bytes at {at}"
                    return


def zombie_fenced(state: StreamState, _: Outcomes) -> Iterator[str]:
    if state.live is not None:
        owners = [segment.owner for segment in state.segments]
        if owners != sorted(owners) or any(owner > state.live.owner for owner in owners):
            yield f"segments of the owners {owners} are listed in this order by owner {state.live.owner}"
        epochs = [byte - 48 for at, byte in enumerate(state.body) if state.body[at - 1 : at] == b"p"]
        if epochs != sorted(epochs):
            yield f"appends of the producer's epochs {epochs} became visible in this order"


def manifest_last(state: StreamState, outcomes: Outcomes) -> Iterator[str]:
    yield from (f"{key} is listed by a live manifest and does not stand" for key in state.missing)
    yield from outcomes.careless


def no_resurrection(state: StreamState, outcomes: Outcomes) -> Iterator[str]:
    if state.live is not None and state.live.incarnation in outcomes.reaped:
        yield f"the incarnation {state.live.incarnation} had a tombstone, and is readable"


def boot_never_bricks(state: StreamState, _: Outcomes) -> Iterator[str]:
    if state.healed[1]:
        yield f"a fresh node cannot restore: {state.healed[1]}"


def eventually_empty(state: StreamState, _: Outcomes) -> Iterator[str]:
    left = state.healed[0]
    live = state.live.incarnation if state.live is not None else ""
    for key in left:
        place = parse_key(key)
        if place is None or not key.startswith(prefix_of(state.name)):
            continue
        if not live or (place.incarnation and place.incarnation != live):
            yield f"after healing {key} is left"


def recreate_clean(state: StreamState, _: Outcomes) -> Iterator[str]:
    """The bodies of an old incarnation begin with `old`."""
    if state.live is not None and state.live.revision and b"old" in state.body and not _is_first(state):
        yield f"the new incarnation shows {state.body!r}"


def _is_first(state: StreamState) -> bool:
    return state.live is not None and state.live.content_type == "text/old"


def live_untouched(state: StreamState, outcomes: Outcomes) -> Iterator[str]:
    ended = (*outcomes.deleted,)
    for incarnation in outcomes.reaped:
        if incarnation not in ended:
            yield f"the incarnation {incarnation} was reaped, and some clock calls it live"
    for key in state.missing:
        yield f"{key} of a live stream was deleted"


def cursor_honest(_: StreamState, outcomes: Outcomes) -> Iterator[str]:
    for seen in outcomes.seen:
        at = 0
        for start, body in seen.pieces:
            if start != at:
                yield f"a reader at {at} went on at {start}"
            at = start + len(body)


CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        append_once,
        immutable_by_position,
        zombie_fenced,
        manifest_last,
        no_resurrection,
        boot_never_bricks,
        eventually_empty,
        recreate_clean,
        live_untouched,
        cursor_honest,
    )
}
"""By the name of the model's property."""
