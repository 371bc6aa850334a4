"""Batches of the scenarios, made once: encoding and hashing them in every run would dominate its cost."""

from fencepost.impl.ingest import Identity, Point, encode
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.keys import raw_key
from fencepost.properties.ingest import checks
from fencepost.sim.world.settings import START_NS

HORIZON_S = 3600.0
HORIZON_NS = round(HORIZON_S * 1e9)
PRESENT = START_NS // HORIZON_NS
"""The generation of blobs that are stored as a run begins."""
AGENT, BOOT = "agent-a", "boot-1"


class Batch(checks.Batch):
    """A batch, and the documents of a collector that accepted it."""

    def manifest(self, *, age_s: float, key: str, collector: str = "before") -> Manifest:
        """The manifest of a collector that accepted the batch so long before the run."""
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
    return Batch(identity, body, value)


FIRST = _batch(1, 1.0)
OTHER = _batch(1, 2.0)
"""The identity of the first with other bytes: the agent was restored from an old disk."""
SECOND = _batch(2, 4.0)
BY_HASH = {batch.sha256: batch for batch in (FIRST, OTHER, SECOND)}
