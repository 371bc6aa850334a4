"""Trace fields of ingest's documents: enough to follow the protocol, without measured data.

    store = Traced(open_store(url), sink, process="collector-1", trace_fields=trace_fields)

The fields, as far as the document has them:

    identity            the batch, as in keys
    sha                 the hash of the batch: accepted, or offered and refused
    generation          of its blob, in a plain bucket
    collector attempt   the accepting collector, and its attempt
"""

import json

from fencepost.impl.ingest import keys
from fencepost.impl.ingest.errors import IngestError
from fencepost.impl.ingest.frames import read_identity
from fencepost.impl.ingest.keys import Identity


def trace_fields(key: str, body: bytes) -> str:
    """See the top of this module. Empty for other documents."""
    try:
        fields = _fields(key, body)
    except (ValueError, KeyError, TypeError, AttributeError, IngestError):
        return ""  # damaged: its reader will report that
    return " ".join(f"{name}={value}" for name, value in sorted(fields.items()) if value not in ("", None))


def _fields(key: str, body: bytes) -> dict[str, str]:
    if key.startswith(keys.RAW):
        return {"identity": read_identity(body).path}
    if not key.startswith((keys.ACCEPTED, keys.BY_TIME, keys.QUARANTINE)):
        return {}
    found = json.loads(body)
    refused = "submitted_" if key.startswith(keys.QUARANTINE) else ""
    identity = Identity(found["agent_id"], found["boot_id"], found["seq_start"], found["seq_end"])
    return {
        "identity": identity.path,
        "sha": found[f"{refused}frame_sha256"],
        "generation": _generation(found[f"{refused}raw_blob_key"]),
        "collector": _word(found["collector_id"]),
        "attempt": "" if refused else _word(found["attempt"]),
    }


def _generation(raw_blob_key: str) -> str:
    parsed = keys.parse_raw(raw_blob_key)
    return "" if parsed is None or parsed[1] is None else f"{parsed[1]:010d}"


def _word(name: str) -> str:
    return "-".join(name.split())
