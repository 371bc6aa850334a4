"""What an operator sees and decides: batches in conflict, and agents that are not to be believed.

    for seen in conflicts(store, env):
        print(seen.record.identity, seen.first_seen_ns, seen.resolution)
    resolve(store, env, identity, sha256, by="ada", note="the agent restored an old disk")
    quarantine(store, env, "agent-a", by="ada", note="two machines with one name")

A conflict is resolved by accepting what stands: the agent may then drop its parked batch. Or the agent,
or one boot of it, is quarantined: collectors refuse whatever it sends until it is released. Decisions are
objects of their own, and the first one about a conflict stands.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.documents import JSON, ConflictRecord, parse, write
from fencepost.impl.ingest.errors import Damaged, IngestError, Refusal, Refused
from fencepost.impl.ingest.identity import Identity, agent_path, boot_path
from fencepost.impl.ingest.listing import bodies, everything
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Get, Outcome, Put

RESOLUTION = "lightmetrics.conflict_resolution.v1"
BLOCK = "lightmetrics.block.v1"
DROP = "accept-existing-and-drop"


class NoSuchConflict(IngestError):
    """Nothing to resolve under this name."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What was decided about a conflict."""

    decision: str
    by: str
    note: str
    at_unix_ns: int


@dataclass(frozen=True, slots=True)
class ConflictSeen:
    """One conflict, and what was decided."""

    record: ConflictRecord
    resolution: Resolution | None

    @property
    def first_seen_ns(self) -> int:
        return self.record.observed_at_unix_ns

    def to_json(self) -> dict[str, Any]:
        resolution = None if self.resolution is None else asdict(self.resolution)
        return {**asdict(self.record), "resolution": resolution}


@dataclass(frozen=True, slots=True)
class Block:
    """An agent, or one boot of it, whose batches are refused."""

    agent: str
    boot: str | None
    by: str
    note: str
    at_unix_ns: int


def conflicts(
    store: Store, env: Environment, settings: Settings = STANDARD_SETTINGS, *, agent: str | None = None
) -> Iterator[ConflictSeen]:
    """All conflicts in order of their identities, or one agent's."""
    retry = settings.retry_policy
    below = keys.QUARANTINE + (agent_path(agent) if agent is not None else "")
    resolved = below.replace(keys.QUARANTINE, keys.RESOLUTIONS)
    decided = (info.key for info in everything(store, env, retry, resolved))
    resolutions = {
        key: _resolution(parse(reply.body, key), key) for key, reply in bodies(store, env, retry, decided)
    }
    found = (info.key for info in everything(store, env, retry, below))
    for key, reply in bodies(store, env, retry, found):
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
    """What was decided about this conflict: what an agent asks that has a batch parked."""
    key = keys.resolution_key(identity, submitted_sha256)
    reply = settings.retry_policy.read(store, env, Get(key))
    return None if reply.info is None else _resolution(parse(reply.body, key), key)


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
    """Accept the batch that stands; the parked one may be dropped. The first decision stands."""
    retry = settings.retry_policy
    record = keys.conflict_key(identity, submitted_sha256)
    if retry.read(store, env, Get(record)).info is None:
        raise NoSuchConflict(f"there is no conflict {record}; list them to see which there are")
    said = {"schema": RESOLUTION, "decision": DROP, "by": by, "note": note, "at_unix_ns": env.now_ns()}
    put = Put(keys.resolution_key(identity, submitted_sha256), write(said), ABSENT, JSON)
    stands = retry.create_all(store, env, [put])[0]
    if stands.body is None:
        raise retry.unavailable(f"the store did not say whether {put.key} stands; ask again later")
    return _resolution(parse(stands.body, put.key), put.key)


def quarantine(
    store: Store, env: Environment, agent: str, boot: str | None = None, *, by: str, note: str = ""
) -> Block:
    """Refuse whatever this agent, or this boot of it, sends. Collectors know within their refresh time."""
    block = Block(agent, boot, by, note, env.now_ns())
    said = {
        "schema": BLOCK,
        "agent": agent,
        "boot": boot,
        "by": by,
        "note": note,
        "at_unix_ns": block.at_unix_ns,
    }
    retry = STANDARD_SETTINGS.retry_policy
    for attempt in range(retry.attempts):
        key = _block_key(agent, boot)
        if store.put(key, write(said), when=ANYTHING, content_type=JSON).outcome is Outcome.DONE:
            return block
        retry.back_off(env, attempt)
    raise retry.unavailable(f"the store did not take {key}; try again")


def release(store: Store, env: Environment, agent: str, boot: str | None = None) -> bool:
    """Believe it again; whether it was quarantined."""
    retry = STANDARD_SETTINGS.retry_policy
    key = _block_key(agent, boot)
    stood = retry.read(store, env, Get(key)).info is not None
    for attempt in range(retry.attempts):
        if store.delete(key, when=ANYTHING).outcome is Outcome.DONE:
            return stood
        retry.back_off(env, attempt)
    raise retry.unavailable(f"the store did not delete {key}; try again")


def blocks(store: Store, env: Environment, settings: Settings = STANDARD_SETTINGS) -> Iterator[Block]:
    """All that are quarantined."""
    retry = settings.retry_policy
    found = (info.key for info in everything(store, env, retry, keys.BLOCKS))
    for key, reply in bodies(store, env, retry, found):
        if reply.info is not None:
            yield _block(parse(reply.body, key), key)


class Blocklist:
    """What one collector knows of the quarantined; asks no request of its own when a batch comes."""

    def __init__(self, store: Store, env: Environment, settings: Settings = STANDARD_SETTINGS) -> None:
        self.store = store
        self.env = env
        self.settings = settings
        self._blocked: frozenset[tuple[str, str | None]] = frozenset()

    def refresh(self) -> int:
        """Read it anew; how many there are."""
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


def _resolution(said: dict[str, Any], key: str) -> Resolution:
    if said.get("schema") != RESOLUTION:
        raise Damaged(f"{key} has schema {said.get('schema')!r}, expected {RESOLUTION!r}")
    return Resolution(said["decision"], said["by"], said["note"], said["at_unix_ns"])


def _block(said: dict[str, Any], key: str) -> Block:
    if said.get("schema") != BLOCK:
        raise Damaged(f"{key} has schema {said.get('schema')!r}, expected {BLOCK!r}")
    return Block(said["agent"], said["boot"], said["by"], said["note"], said["at_unix_ns"])
