"""The operator's interface: conflicts between batches, and quarantined agents.

    for seen in conflicts(store, env):
        print(seen.record.identity, seen.first_seen_ns, seen.resolution)
    resolve(store, env, identity, sha256, by="ada", note="the agent restored an old disk")
    quarantine(store, env, "agent-a", by="ada", note="two machines with one name")

An operator resolves a conflict by keeping the accepted batch: the agent may then drop its parked one. Or the
operator quarantines the agent, or one boot of it: collectors then refuse all its batches until its release.
Decisions are objects of their own, and the first one about a conflict is final.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.documents import JSON, ConflictRecord, Document
from fencepost.impl.ingest.errors import IngestError, Refusal, Refused, StoreUnavailable
from fencepost.impl.ingest.keys import Identity, agent_path, boot_path
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Delete, Get, Put

DROP = "accept-existing-and-drop"


class NoSuchConflict(IngestError):
    """There is no conflict of this identity and hash."""


@dataclass(frozen=True, slots=True)
class Resolution(Document):
    schema: ClassVar[str] = "lightmetrics.conflict_resolution.v1"

    decision: str
    by: str
    note: str
    at_unix_ns: int


@dataclass(frozen=True, slots=True)
class ConflictSeen:
    record: ConflictRecord
    resolution: Resolution | None

    @property
    def first_seen_ns(self) -> int:
        return self.record.observed_at_unix_ns

    def to_json(self) -> dict[str, Any]:
        resolution = None if self.resolution is None else asdict(self.resolution)
        return {**asdict(self.record), "resolution": resolution}


@dataclass(frozen=True, slots=True)
class Block(Document):
    """A quarantined agent, or one boot of it, whose batches are refused."""

    schema: ClassVar[str] = "lightmetrics.block.v1"

    agent: str
    boot: str | None
    by: str
    note: str
    at_unix_ns: int


def conflicts(
    store: Store, env: Environment, settings: Settings = STANDARD_SETTINGS, *, agent: str | None = None
) -> Iterator[ConflictSeen]:
    """All conflicts in order of their identities, or one agent's."""
    context = IngestContext(store, env, settings)
    below = keys.QUARANTINE + (agent_path(agent) if agent is not None else "")
    decided = context.list_keys(below.replace(keys.QUARANTINE, keys.RESOLUTIONS))
    resolutions = {key: Resolution.read(reply.body, key) for key, reply in context.read_objects(decided)}
    for key, reply in context.read_objects(context.list_keys(below)):
        record = ConflictRecord.read(reply.body, key)
        wanted = keys.resolution_key(record.identity, record.submitted_frame_sha256)
        yield ConflictSeen(record, resolutions.get(wanted))


def resolution_of(
    store: Store,
    env: Environment,
    identity: Identity,
    submitted_sha256: str,
    settings: Settings = STANDARD_SETTINGS,
) -> Resolution | None:
    """The decision about this conflict, for the agent that has parked the batch."""
    key = keys.resolution_key(identity, submitted_sha256)
    reply = IngestContext(store, env, settings).read(Get(key))
    return None if reply.info is None else Resolution.read(reply.body, key)


def resolve(
    store: Store,
    env: Environment,
    identity: Identity,
    submitted_sha256: str,
    *,
    by: str,
    note: str = "",
    settings: Settings = STANDARD_SETTINGS,
) -> Resolution:
    """Keep the accepted batch; the agent may drop its own. Returns the first decision, which is final."""
    context = IngestContext(store, env, settings)
    record = keys.conflict_key(identity, submitted_sha256)
    if context.read(Get(record)).info is None:
        raise NoSuchConflict(f"there is no conflict {record}; list the conflicts to see which exist")
    decision = Resolution(DROP, by, note, env.now_ns())
    put = Put(keys.resolution_key(identity, submitted_sha256), decision.body(), ABSENT, JSON)
    final = context.create_all([put])[0].body
    if final is None:
        raise StoreUnavailable(f"it is unknown whether {put.key} was created; try again later")
    return Resolution.read(final, put.key)


def quarantine(
    store: Store, env: Environment, agent: str, boot: str | None = None, *, by: str, note: str = ""
) -> Block:
    """Refuse all batches of this agent or boot. Collectors notice within their refresh interval."""
    block = Block(agent, boot, by, note, env.now_ns())
    IngestContext(store, env).send_until_done(Put(_block_key(agent, boot), block.body(), ANYTHING, JSON))
    return block


def release(store: Store, env: Environment, agent: str, boot: str | None = None) -> bool:
    """Accept its batches again; returns whether it was quarantined."""
    context = IngestContext(store, env)
    key = _block_key(agent, boot)
    existed = context.read(Get(key)).info is not None
    context.send_until_done(Delete(key, ANYTHING))
    return existed


def blocks(store: Store, env: Environment, settings: Settings = STANDARD_SETTINGS) -> Iterator[Block]:
    context = IngestContext(store, env, settings)
    for key, reply in context.read_objects(context.list_keys(keys.BLOCKS)):
        if reply.info is not None:
            yield Block.read(reply.body, key)


class Blocklist:
    """A collector's copy of the list of the quarantined: judging a batch needs no request to the store."""

    def __init__(self, store: Store, env: Environment, settings: Settings = STANDARD_SETTINGS) -> None:
        self.store = store
        self.env = env
        self.settings = settings
        self._blocked: frozenset[tuple[str, str | None]] = frozenset()

    def refresh(self) -> int:
        """Read the list again; returns its length."""
        found = blocks(self.store, self.env, self.settings)
        self._blocked = frozenset((block.agent, block.boot) for block in found)
        return len(self._blocked)

    def check(self, identity: Identity) -> None:
        """Raise `Refused` when this batch's agent or boot is quarantined."""
        if not {(identity.agent, None), (identity.agent, identity.boot)}.isdisjoint(self._blocked):
            raise Refused(
                Refusal.QUARANTINED,
                f"agent {identity.agent!a}, boot {identity.boot!a} is quarantined by an operator; "
                "keep the batch until it is released",
            )


def _block_key(agent: str, boot: str | None) -> str:
    path = agent_path(agent) if boot is None else boot_path(agent, boot)
    return f"{keys.BLOCKS}{path}block.json"
