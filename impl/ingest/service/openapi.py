"""The collector's OpenAPI document, built from the tables that the code uses."""

from typing import Any

import fencepost
from fencepost.impl.http.limits import Limits
from fencepost.impl.ingest.frames import METRIC
from fencepost.impl.ingest.keys import NAME_BYTES_MAX, SEQ_MAX
from fencepost.impl.ingest.query import POINTS_MAX
from fencepost.impl.ingest.service.conflicts import PAGE_MAX, STATES
from fencepost.impl.ingest.service.requests import BINARY, KINDS, NOTE_MAX

Json = dict[str, Any]

_EVERYWHERE = ("bad_request", "too_slow", "internal", "busy")
_BATCH = (
    "bad_identity",
    "bad_frame",
    "unauthenticated",
    "foreign_agent",
    "quarantined",
    "identity_conflict",
    "length_required",
    "body_too_large",
    "unsupported_encoding",
    "bad_sequence",
    "mismatch",
    "too_many_requests",
    "draining",
    "store_unavailable",
)
_RESOLUTION = ("unauthenticated", "foreign_agent", "store_unavailable", "bad_identity", "bad_sequence")
_READY = ("draining", "store_unavailable")
_OPERATOR = ("unauthenticated", "not_operator", "store_unavailable")
_READER = (
    "unauthenticated",
    "not_reader",
    "store_unavailable",
    "bad_identity",
    "too_many_requests",
    "draining",
)
_BODY = (*_OPERATOR, "bad_identity", "length_required", "body_too_large", "unsupported_encoding")
_RESOLVE = (*_BODY, "no_such_conflict", "bad_sequence")
_NAME: Json = {"type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX}
_SEQ: Json = {"type": "integer", "minimum": 0, "maximum": SEQ_MAX}
_SHA: Json = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TEXT: Json = {"type": "string"}
_ANY: Json = {"type": "object"}
_NOTE: Json = {"type": "string", "maxLength": NOTE_MAX, "description": "One printable line."}
_NS: Json = {"type": "integer", "minimum": 0}
_INT: Json = {"type": "integer"}
_TEXTS: Json = {"type": "array", "items": _TEXT}
_LABELS: Json = {"type": "object", "additionalProperties": _TEXT}
_NUMBER: Json = {"type": ["number", "string", "null"], "description": "Text for NaN and infinities."}
_IDENTITY: Json = {"agent_id": _NAME, "boot_id": _NAME, "seq_start": _SEQ, "seq_end": _SEQ}


def document(limits: Limits) -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fencepost ingest collector",
            "version": fencepost.__version__,
            "description": "Batches are accepted once, whichever collector they are sent to.",
        },
        "paths": _paths(limits),
        "components": {
            "securitySchemes": {
                "agent": {"type": "http", "scheme": "bearer", "description": "A token of an agent."},
                "operator": {"type": "http", "scheme": "bearer", "description": "A token of an operator."},
                "reader": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of a reader or an operator.",
                },
            },
            "schemas": _schemas(),
        },
    }


def _paths(limits: Limits) -> Json:
    batch = _operation(
        "sendBatch",
        "Send one batch.",
        _responses("The batch is accepted, now or earlier.", "Accepted", _BATCH),
        role="agent",
        required=_IDENTITY,
        body={BINARY: {"schema": {"type": "string", "format": "binary"}}},
    )
    batch["description"] = (
        "Delete the batch on 200 alone. On 409 park it and alert an operator; on 408, 429, 500 and 503 "
        f"send it again, here or elsewhere. The body has at most {limits.body_bytes} bytes."
    )
    batch["requestBody"]["description"] = "The bytes of the frame; Content-Encoding is refused."
    resolution = _operation(
        "getResolution",
        "The decision about a batch that this agent has parked.",
        _responses("The decision, or null.", "Decision", _RESOLUTION),
        role="agent",
        required={**_IDENTITY, "submitted_frame_sha256": _SHA},
    )
    conflicts = _operation(
        "listConflicts",
        "Batches under whose identity other bytes were accepted.",
        _responses("The conflicts.", "Conflicts", (*_OPERATOR, "bad_identity")),
        optional={
            "agent_id": _NAME,
            "limit": {"type": "integer", "minimum": 1, "maximum": PAGE_MAX},
            "state": {"type": "string", "enum": list(STATES)},
        },
    )
    resolve = _operation(
        "resolveConflict",
        "Keep the accepted batch; the agent may drop the parked one.",
        _responses("The first decision, which is final.", "Decision", _RESOLVE),
        body=_json("Resolve"),
    )
    listed = _responses("All of them.", "Blocks", _OPERATOR)
    blocked = _responses("It is quarantined.", "Block", _BODY)
    released = _responses("It is released.", "Released", (*_OPERATOR, "bad_identity"))
    refuse = "Refuse all batches of this agent, or of this boot of it."
    agent, boot = {"agent_id": _NAME}, {"boot_id": _NAME}
    return {
        "/v1/batches": {"post": batch},
        "/v1/resolution": {"get": resolution},
        "/v1/conflicts": {"get": conflicts},
        "/v1/conflicts/resolve": {"post": resolve},
        "/v1/blocks": {
            "get": _operation("listBlocks", "Quarantined agents and boots.", listed),
            "post": _operation("block", refuse, blocked, body=_json("BlockThis")),
            "delete": _operation(
                "release", "Accept its batches again.", released, required=agent, optional=boot
            ),
        },
        **_queries(),
        "/healthz": _plain("healthz", "The process is alive.", _json("Status")),
        "/readyz": _plain("readyz", "The store is reachable, too.", _json("Status"), _READY),
        "/metrics": _plain("metrics", "Metrics for Prometheus.", {"text/plain": {"schema": _TEXT}}),
        "/openapi.json": _plain("openapi", "This document.", {"application/json": {"schema": _ANY}}),
    }


def _queries() -> Json:
    window = {"start_unix_ns": _NS, "end_unix_ns": _NS}
    metric = {"metric": {"type": "string", "pattern": f"^{METRIC.pattern}$"}, **window}
    limit = {"type": "integer", "minimum": 1, "maximum": POINTS_MAX}
    page = {"agent_id": _NAME, "after": _TEXT, "limit": limit, "accepted_until_unix_ns": _NS}
    listed = _responses("Their names.", "Metrics", _READER)
    summed = _responses("The sums.", "Sums", _READER)
    points = _responses("A page.", "Points", _READER)
    rolled = "The metrics that are rolled up in the hours of a window."
    by_hour = "One metric by hour and labels. A parameter `label.NAME` selects the series with this label."
    single = "The points of one metric, from the frames; `after` of a page gives the next one."
    return {
        "/v1/query/metrics": {
            "get": _operation("listMetrics", rolled, listed, role="reader", required=window)
        },
        "/v1/query/sums": {"get": _operation("sums", by_hour, summed, role="reader", required=metric)},
        "/v1/query/points": {
            "get": _operation("points", single, points, role="reader", required=metric, optional=page)
        },
    }


def _operation(name: str, summary: str, responses: Json, *, role: str = "operator", **request: Json) -> Json:
    """`request`: the parameters that are `required` or `optional`, and the `body`."""
    found: Json = {"operationId": name, "summary": summary, "security": [{role: []}], "responses": responses}
    parameters = [
        {"name": parameter, "in": "query", "required": kind == "required", "schema": schema}
        for kind in ("required", "optional")
        for parameter, schema in request.get(kind, {}).items()
    ]
    if parameters:
        found["parameters"] = parameters
    if "body" in request:
        found["requestBody"] = {"required": True, "content": request["body"]}
    return found


def _plain(name: str, summary: str, content: Json, kinds: tuple[str, ...] = ()) -> Json:
    return {
        "get": {"operationId": name, "summary": summary, "responses": _responses(summary, content, kinds)}
    }


def _responses(summary: str, content: Json | str, kinds: tuple[str, ...]) -> Json:
    """With these kinds of refusal; `content` may be the name of a schema."""
    content = _json(content) if isinstance(content, str) else content
    found: Json = {"200": {"description": summary, "content": content}}
    for kind in (*_EVERYWHERE, *kinds):
        status = str(KINDS[kind].status)
        answer = found.setdefault(status, {"description": "", "content": _json("Error")})
        answer["description"] = f"{answer['description']} {kind}: {KINDS[kind].summary}".strip()
        if KINDS[kind].then == "retry" and status in ("408", "429", "503"):
            seconds = {"schema": {"type": "string", "pattern": "^[0-9]+$"}, "description": "Seconds."}
            answer["headers"] = {"retry-after": seconds}
    return dict(sorted(found.items()))


def _json(name: str) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _object(properties: Json, optional: tuple[str, ...] = (), *, closed: bool = True) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": not closed,
    }


def _schemas() -> Json:
    conflict = {
        **_IDENTITY,
        "accepted_manifest_key": _TEXT,
        "accepted_raw_blob_key": _TEXT,
        "accepted_frame_sha256": _SHA,
        "submitted_raw_blob_key": _TEXT,
        "submitted_frame_sha256": _SHA,
        "observed_at_unix_ns": _NS,
        "collector_id": _TEXT,
    }
    decided = {"by": _TEXT, "note": _TEXT, "at_unix_ns": _NS}
    return {
        "Error": _object({"error": {"enum": sorted(KINDS)}, "message": _TEXT}, closed=False),
        "Status": _object({"status": {"const": "ok"}}),
        "Accepted": _object(
            {
                "duplicate": {"type": "boolean"},
                **_IDENTITY,
                "frame_sha256": _SHA,
                "accepted_at_unix_ns": _NS,
                "collector_id": _TEXT,
            }
        ),
        "Conflict": _object({**conflict, "resolution": _or_null("Decided")}),
        "Conflicts": _object({"conflicts": _array("Conflict"), "more": {"type": "boolean"}}),
        "Decided": _object({"decision": _TEXT, **decided}),
        "Decision": _object({"resolution": _or_null("Decided")}),
        "Resolve": _object({**_IDENTITY, "submitted_frame_sha256": _SHA, "note": _NOTE}, ("note",)),
        "Block": _object({"agent": _NAME, "boot": {"type": ["string", "null"]}, **decided}),
        "Blocks": _object({"blocks": _array("Block")}),
        "BlockThis": _object({"agent_id": _NAME, "boot_id": _NAME, "note": _NOTE}, ("boot_id", "note")),
        "Metrics": _object({"metrics": {"type": "array", "items": _TEXT}}),
        "Sums": _object({"sums": _array("Sum"), "uncounted_batches": _NS, "missing": _TEXTS}),
        "Sum": _object(
            {
                "hour": _TEXT,
                "labels": _LABELS,
                "count": _NS,
                "sum": _NUMBER,
                "min": _NUMBER,
                "max": _NUMBER,
                "nan": _NS,
            }
        ),
        "Points": _object({"points": _array("Point"), "missing": _TEXTS, "after": _TEXT}),
        "Point": _object(
            {"agent_id": _NAME, "boot_id": _NAME, "labels": _LABELS, "unix_ns": _INT, "value": _NUMBER}
        ),
        "Released": _object({"released": {"type": "boolean"}}),
    }


def _or_null(name: str) -> Json:
    return {"anyOf": [{"$ref": f"#/components/schemas/{name}"}, {"type": "null"}]}


def _array(name: str) -> Json:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}
