"""The names of batches, and the keys of all objects below the prefix of an acceptance authority.

A batch is named by an agent, one boot of it, and its first and last sequence number. The name is the whole of
deduplication: two batches of one identity are one batch, or a conflict. Keys have agent and boot in
hexadecimal, so that no agent's name can be a path, and sequence numbers with 20 digits, so that key order is
sequence order.

    identity = Identity("agent-a", "boot-1", 10, 20)
    identity.path     # agent=6167656e742d61/boot=626f6f742d31/00000000000000000010-00000000000000000020
    Identity.of_key(f"accepted/v1/{identity.path}.json") == identity

The keys:

    raw-blobs/v1/sha256/<hh>/<hh>/<sha256>[~<generation>].lmbatch    the frames, see `blobs`
    accepted/v1/agent=<hex>/boot=<hex>/<start>-<end>.json            identity manifests: the accepted batches
    quarantine/v1/identity-conflict/agent=/boot=/<start>-<end>/<sha256>.json
    accepted-by-time/v1/date=/hour=/<manifest id>.json               derived: the order of acceptance
    accepted-by-blob/v1/sha256/<hh>/<hh>/<sha256>/agent=/boot=/<start>-<end>.json      derived: references
    quarantine-by-blob/v1/ ... the same
    manifests/v1/date=/hour=/<number>.json                           rollups: the counted batches
    rollup/v1/window=/date=/hour=/metric=/<chunk>.lmrollup.zst       rollups: the chunks
    rollup-queue/v1/date=/hour=.json                                 hours with late batches
    audits/v1/latest.json, reported.json                             proofs for garbage collection
    resolutions/v1/..., blocks/v1/...                                the decisions of operators
    cursors/v1/<name>.json                                           cursors, the search, the lease
    agreement/v1/times.json                                          the deployment's horizon and bounds

A manifest id is the time of acceptance and a hash of the identity: it sorts by time, and every reader of the
manifest derives the same one.
"""

import datetime as dt
import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fencepost.impl.ingest.errors import IdentityError

NAME_BYTES_MAX = 128
"""Of an agent or a boot, in UTF-8: keys with both and a hash stay below S3's 1,024 bytes."""
SEQ_MAX = 2**64 - 1
"""Fits in 20 digits and in the frame's 64 bits."""

_PATH = re.compile(r"agent=([0-9a-f]+)/boot=([0-9a-f]+)/(\d{20})-(\d{20})(?=[./]|$)")


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """Checked on creation: every `Identity` can be a key."""

    agent: str
    boot: str
    seq_start: int
    seq_end: int

    def __post_init__(self) -> None:
        _check_name(self.agent, "agent")
        _check_name(self.boot, "boot")
        for value, what in ((self.seq_start, "seq_start"), (self.seq_end, "seq_end")):
            if type(value) is not int or not 0 <= value <= SEQ_MAX:
                raise IdentityError(f"{what} is {_shown(value)}; expected a whole number from 0 to {SEQ_MAX}")
        if self.seq_end < self.seq_start:
            raise IdentityError(f"seq_end {self.seq_end} is before seq_start {self.seq_start}; swap them")

    @property
    def range(self) -> str:
        return f"{self.seq_start:020d}-{self.seq_end:020d}"

    @property
    def path(self) -> str:
        """The part that all keys about this identity contain."""
        return f"{boot_path(self.agent, self.boot)}{self.range}"

    @property
    def fields(self) -> dict[str, Any]:
        """As documents and requests spell it."""
        return {
            "agent_id": self.agent,
            "boot_id": self.boot,
            "seq_start": self.seq_start,
            "seq_end": self.seq_end,
        }

    @classmethod
    def of_key(cls, key: str) -> "Identity":
        """The identity of any key that contains a `path`."""
        found = _PATH.search(key)
        if found is None:
            raise IdentityError(
                f"{_shown(key)} names no identity: expected agent=<hex>/boot=<hex>/<start>-<end>"
            )
        agent, boot, start, end = found.groups()
        return cls(name_of_hex(agent), name_of_hex(boot), int(start), int(end))

    def __str__(self) -> str:
        return f"{self.agent}/{self.boot}/{self.seq_start}-{self.seq_end}"


def agent_path(agent: str) -> str:
    """The prefix of one agent, below the prefix of a kind of object."""
    _check_name(agent, "agent")
    return f"agent={agent.encode().hex()}/"


def boot_path(agent: str, boot: str) -> str:
    """The prefix of one boot."""
    _check_name(boot, "boot")
    return f"{agent_path(agent)}boot={boot.encode().hex()}/"


def name_of_hex(text: str) -> str:
    """An agent's or a boot's name from its form in a key."""
    try:
        return bytes.fromhex(text).decode()
    except ValueError:
        raise IdentityError(f"{_shown(text)} is not a name in hexadecimal UTF-8") from None


def _check_name(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise IdentityError(f"the {what} is a {type(value).__name__}, expected text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise IdentityError(f"the {what} {_shown(value)} is not valid Unicode (a lone surrogate)") from None
    if not 1 <= size <= NAME_BYTES_MAX:
        raise IdentityError(f"the {what} {_shown(value)} has {size} bytes, expected 1 to {NAME_BYTES_MAX}")
    # With invisible characters two agents could look alike to an operator who resolves a conflict.
    if not value.isprintable() or value != value.strip():
        raise IdentityError(
            f"the {what} {_shown(value)} holds control characters or outer spaces; use printable ones"
        )


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


RAW = "raw-blobs/v1/sha256/"
ACCEPTED = "accepted/v1/"
QUARANTINE = "quarantine/v1/identity-conflict/"
BY_TIME = "accepted-by-time/v1/"
BY_BLOB = "accepted-by-blob/v1/sha256/"
QUARANTINE_BY_BLOB = "quarantine-by-blob/v1/sha256/"
ROLLED = "manifests/v1/"
ROLLUP = "rollup/v1/"
QUEUE = "rollup-queue/v1/"
AUDITS = "audits/v1/"
RESOLUTIONS = "resolutions/v1/identity-conflict/"
BLOCKS = "blocks/v1/"
CURSORS = "cursors/v1/"
AGREEMENT = "agreement/v1/times.json"

_SHA = re.compile(r"[0-9a-f]{64}")
_RAW = re.compile(re.escape(RAW) + r"[0-9a-f]{2}/[0-9a-f]{2}/([0-9a-f]{64})(?:~(\d{10}))?\.lmbatch")
_PLACE = re.compile(re.escape(BY_TIME) + r".*-([0-9a-f]{32})\.json", re.DOTALL)


def hour_path(unix_ns: int) -> str:
    """`date=2026-11-18/hour=14/` of a moment, in UTC."""
    return _hour(unix_ns // (3600 * 10**9))


@lru_cache(maxsize=1024)  # called for every point of every batch, and most are of one hour
def _hour(hours: int) -> str:
    moment = dt.datetime.fromtimestamp(hours * 3600, dt.UTC)
    return f"date={moment:%Y-%m-%d}/hour={moment:%H}/"


def fan(sha256: str) -> str:
    """`ab/cd/abcd...`: spreads hashes over prefixes."""
    assert _SHA.fullmatch(sha256), sha256
    return f"{sha256[:2]}/{sha256[2:4]}/{sha256}"


def raw_key(sha256: str, generation: int | None = None) -> str:
    """The key of a blob; with its generation in a bucket whose names are never used again, see `blobs`."""
    return f"{RAW}{fan(sha256)}{'' if generation is None else f'~{generation:010d}'}.lmbatch"


def hash_of_reference(key: str) -> str | None:
    """The hash in a key below `BY_BLOB`; None if it is not one of ours."""
    parts = key.removeprefix(BY_BLOB).split("/")
    return parts[2] if len(parts) > 3 and _SHA.fullmatch(parts[2]) else None


def parse_raw(key: str) -> tuple[str, int | None] | None:
    """The hash and generation in a blob's key; None when it is not one of ours."""
    found = _RAW.fullmatch(key)
    if found is None:
        return None
    sha256, generation = found.groups()
    return sha256, None if generation is None else int(generation)


def accepted_key(identity: Identity) -> str:
    return f"{ACCEPTED}{identity.path}.json"


def conflict_key(identity: Identity, sha256: str) -> str:
    return f"{QUARANTINE}{identity.path}/{sha256}.json"


def resolution_key(identity: Identity, sha256: str) -> str:
    return f"{RESOLUTIONS}{identity.path}/{sha256}.json"


def by_blob_key(sha256: str, identity: Identity) -> str:
    return f"{BY_BLOB}{fan(sha256)}/{identity.path}.json"


def quarantine_by_blob_key(sha256: str, identity: Identity) -> str:
    return f"{QUARANTINE_BY_BLOB}{fan(sha256)}/{identity.path}.json"


def manifest_id(identity: Identity, accepted_at_unix_ns: int) -> str:
    return f"{accepted_at_unix_ns:020d}-{identity_hash(identity.path)}"


def identity_hash(path: str) -> str:
    """Of an identity's path: distinguishes manifests that were accepted at the same moment."""
    return hashlib.sha256(path.encode()).hexdigest()[:32]


def identity_digest(path: str) -> bytes:
    """The same in half the memory."""
    return bytes.fromhex(identity_hash(path))


def accepted_digest(accepted_key: str) -> bytes:
    return identity_digest(accepted_key.removeprefix(ACCEPTED).removesuffix(".json"))


def identity_of_place(by_time_key: str) -> bytes | None:
    """The digest of the identity whose place in time this is; None when the key is not one of ours."""
    found = _PLACE.fullmatch(by_time_key)
    return None if found is None else bytes.fromhex(found[1])


def by_time_key(identity: Identity, accepted_at_unix_ns: int) -> str:
    return f"{BY_TIME}{hour_path(accepted_at_unix_ns)}{manifest_id(identity, accepted_at_unix_ns)}.json"


def by_time_from(unix_ns: int) -> str:
    """A key before those of all batches accepted at `unix_ns` or later."""
    return f"{BY_TIME}{hour_path(max(0, unix_ns))}{max(0, unix_ns):020d}"


def queue_key(hour: str) -> str:
    """The mark of an hour (of acceptance) with a batch that is not rolled up."""
    return f"{QUEUE}{hour.rstrip('/')}.json"
