"""Where everything stands below the prefix: the acceptance authority, and what is derived from it.

    raw-blobs/v1/sha256/<hh>/<hh>/<sha256>[~<generation>].lmbatch    the frames, see `blobs`
    accepted/v1/agent=<hex>/boot=<hex>/<start>-<end>.json            identity manifests: what is accepted
    quarantine/v1/identity-conflict/agent=/boot=/<start>-<end>/<sha256>.json
    accepted-by-time/v1/date=/hour=/<manifest id>.json               derived: the order of acceptance
    accepted-by-blob/v1/sha256/<hh>/<hh>/<sha256>/agent=/boot=/<start>-<end>.json      derived: references
    quarantine-by-blob/v1/ ... the same
    raw-blobs-by-time/v1/date=/hour=/sha256=<sha256>.json            derived
    manifests/v1/date=/hour=/<number>.json                           rollups: what is counted, see `rollups`
    rollup/v1/window=/date=/hour=/metric=/<chunk>.lmrollup.zst       rollups: the chunks
    rollup-queue/v1/date=/hour=.json                                 hours that got something late
    audits/v1/latest.json, reported.json                             what garbage collection may trust
    resolutions/v1/..., blocks/v1/...                                what an operator decided
    cursors/v1/<name>.json                                           how far readers got, and whose turn it is
    agreement/v1/times.json                                          the horizon and bounds of all

A manifest id is the time of acceptance and a hash of the identity: it sorts by time, and everybody who
reads the manifest derives the same one.
"""

import datetime as dt
import hashlib
import re
from functools import lru_cache

from fencepost.impl.ingest.identity import Identity

RAW = "raw-blobs/v1/sha256/"
ACCEPTED = "accepted/v1/"
QUARANTINE = "quarantine/v1/identity-conflict/"
BY_TIME = "accepted-by-time/v1/"
BY_BLOB = "accepted-by-blob/v1/sha256/"
QUARANTINE_BY_BLOB = "quarantine-by-blob/v1/sha256/"
RAW_BY_TIME = "raw-blobs-by-time/v1/"
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


@lru_cache(maxsize=1024)  # asked for every point of every batch, and most are of one hour
def _hour(hours: int) -> str:
    moment = dt.datetime.fromtimestamp(hours * 3600, dt.UTC)
    return f"date={moment:%Y-%m-%d}/hour={moment:%H}/"


def fan(sha256: str) -> str:
    """`ab/cd/abcd...`: spreads hashes over prefixes."""
    assert _SHA.fullmatch(sha256), sha256
    return f"{sha256[:2]}/{sha256[2:4]}/{sha256}"


def raw_key(sha256: str, generation: int | None = None) -> str:
    """Of a blob; with its generation where names are never used again, see `blobs`."""
    return f"{RAW}{fan(sha256)}{'' if generation is None else f'~{generation:010d}'}.lmbatch"


def parse_raw(key: str) -> tuple[str, int | None] | None:
    """The hash and generation of a blob's key; None when it is none of ours."""
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
    """Of an identity's path: what tells manifests apart that were accepted at the same moment."""
    return hashlib.sha256(path.encode()).hexdigest()[:32]


def identity_digest(path: str) -> bytes:
    """The same in half the memory."""
    return bytes.fromhex(identity_hash(path))


def identity_of_place(by_time_key: str) -> bytes | None:
    """The digest of the identity whose place in time this is; None when it is none of ours."""
    found = _PLACE.fullmatch(by_time_key)
    return None if found is None else bytes.fromhex(found[1])


def by_time_key(identity: Identity, accepted_at_unix_ns: int) -> str:
    return f"{BY_TIME}{hour_path(accepted_at_unix_ns)}{manifest_id(identity, accepted_at_unix_ns)}.json"


def by_time_from(unix_ns: int) -> str:
    """A key before everything that was accepted at `unix_ns` or later."""
    return f"{BY_TIME}{hour_path(max(0, unix_ns))}{max(0, unix_ns):020d}"


def raw_by_time_key(sha256: str, accepted_at_unix_ns: int) -> str:
    return f"{RAW_BY_TIME}{hour_path(accepted_at_unix_ns)}sha256={sha256}.json"


def queue_key(hour: str) -> str:
    """The mark that says: this hour (of acceptance) holds something that is not rolled up."""
    return f"{QUEUE}{hour.rstrip('/')}.json"
