"""Batches of the scenarios, made once: encoding and hashing them in every run would dominate its cost."""

import hashlib
from dataclasses import dataclass

from fencepost.impl.ingest import Identity, Point, encode
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.keys import raw_key
from fencepost.sim.world.world import START_NS

HORIZON_S = 3600.0
HORIZON_NS = round(HORIZON_S * 1e9)
PRESENT = START_NS // HORIZON_NS
"""The generation of blobs that are stored as a run begins."""
AGENT, BOOT = "agent-a", "boot-1"


@dataclass(frozen=True)
class Batch:
    """A batch as an agent would send it."""

    identity: Identity
    body: bytes
    value: float

    @property
    def sha256(self) -> str:
        return _hashes[self.body]

    def manifest(self, *, age_s: float, key: str, collector: str = "before") -> Manifest:
        """What a collector would have written who accepted it so long before the run."""
        return Manifest(
            agent_id=self.identity.agent,
            boot_id=self.identity.boot,
            seq_start=self.identity.seq_start,
            seq_end=self.identity.seq_end,
            frame_sha256=self.sha256,
            frame_bytes=len(self.body),
            raw_blob_key=key,
            accepted_at_unix_ns=START_NS - round(age_s * 1e9),
            collector_id=collector,
            wire_version=1,
            frame_version=1,
            attempt=f"before-{self.identity.seq_start}",
        )

    def raw_key(self, generation: int | None = PRESENT) -> str:
        return raw_key(self.sha256, generation)


def _batch(number: int, value: float) -> Batch:
    identity = Identity(AGENT, BOOT, number * 10, number * 10 + 9)
    body = encode(identity, [Point("cpu.load", {"host": "a"}, START_NS, value)])
    _hashes[body] = hashlib.sha256(body).hexdigest()
    return Batch(identity, body, value)


_hashes: dict[bytes, str] = {}
FIRST = _batch(1, 1.0)
OTHER = _batch(1, 2.0)
"""The name of the first, other bytes: an agent that was restored from an old disk."""
SECOND = _batch(2, 4.0)
BATCHES = {batch.body: batch for batch in (FIRST, OTHER, SECOND)}
BY_HASH = {batch.sha256: batch for batch in BATCHES.values()}
