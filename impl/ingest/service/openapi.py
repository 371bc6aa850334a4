"""The collector's OpenAPI document, built from the tables that the code uses."""

from typing import Any

import fencepost
from fencepost.impl.http.limits import Limits
from fencepost.impl.ingest.keys import NAME_BYTES_MAX, SEQ_MAX
from fencepost.impl.ingest.service.conflicts import PAGE_MAX, STATES
from fencepost.impl.ingest.service.refusals import KINDS
from fencepost.impl.ingest.service.requests import BINARY, NOTE_MAX

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
_OPERATOR = ("unauthenticated", "not_operator", "store_unavailable")
_BODY = (*_OPERATOR, "bad_identity", "length_required", "body_too_large", "unsupported_encoding")
_RESOLVE = (*_BODY, "no_such_conflict", "bad_sequence")
_NAME: Json = {"type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX}
_SEQ: Json = {"type": "integer", "minimum": 0, "maximum": SEQ_MAX}
_SHA: Json = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TEXT: Json = {"type": "string"}
_NOTE: Json = {"type": "string", "maxLength": NOTE_MAX, "description": "One printable line."}
_NS: Json = {"type": "integer", "minimum": 0}
_IDENTITY: Json = {"agent_id": _NAME, "boot_id": _NAME, "seq_start": _SEQ, "seq_end": _SEQ}


def document(limits: Limits) -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fencepost ingest collector",
            "version": fencepost.__version__,
            "description": "Batches are accepted once, whichever collector they are sent to.",
        },
        "paths": {
            "/v1/batches": {"post": _batches(limits)},
            "/v1/resolution": {"get": _resolution()},
            "/v1/conflicts": {"get": _conflicts()},
            "/v1/conflicts/resolve": {"post": _resolve()},
            "/v1/blocks": {"get": _blocks(), "post": _block(), "delete": _release()},
            "/healthz": {"get": _plain("healthz", "The process is alive.", _json("Status"))},
            "/readyz": {
                "get": _plain(
                    "readyz",
                    "The store is reachable, too.",
                    _json("Status"),
                    ("draining", "store_unavailable"),
                )
            },
            "/metrics": {
                "get": _plain("metrics", "Metrics for Prometheus.", {"text/plain": {"schema": _TEXT}})
            },
            "/openapi.json": {
                "get": _plain(
                    "openapi", "This document.", {"application/json": {"schema": {"type": "object"}}}
                )
            },
        },
        "components": {
            "securitySchemes": {
                "agent": {"type": "http", "scheme": "bearer", "description": "A token of an agent."},
                "operator": {"type": "http", "scheme": "bearer", "description": "A token of an operator."},
            },
            "schemas": _schemas(),
        },
    }


def _batches(limits: Limits) -> Json:
    return {
        "operationId": "sendBatch",
        "summary": "Send one batch.",
        "description": (
            "Delete the batch on 200 alone. On 409 park it and alert an operator; on 408, 429, 500 and 503 "
            f"send it again, here or elsewhere. The body has at most {limits.body_bytes} bytes."
        ),
        "security": [{"agent": []}],
        "parameters": [_parameter(name, schema, required=True) for name, schema in _IDENTITY.items()],
        "requestBody": {
            "required": True,
            "description": "The bytes of the frame; Content-Encoding is refused.",
            "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}},
        },
        "responses": _responses("The batch is accepted, now or earlier.", _json("Accepted"), _BATCH),
    }


def _resolution() -> Json:
    return {
        "operationId": "getResolution",
        "summary": "The decision about a batch that this agent has parked.",
        "security": [{"agent": []}],
        "parameters": [
            *(_parameter(name, schema, required=True) for name, schema in _IDENTITY.items()),
            _parameter("submitted_frame_sha256", _SHA, required=True),
        ],
        "responses": _responses(
            "The decision, or null.",
            _json("Decision"),
            ("unauthenticated", "foreign_agent", "store_unavailable", "bad_identity", "bad_sequence"),
        ),
    }


def _conflicts() -> Json:
    return {
        "operationId": "listConflicts",
        "summary": "Batches under whose identity other bytes were accepted.",
        "security": [{"operator": []}],
        "parameters": [
            _parameter("agent_id", _NAME),
            _parameter("limit", {"type": "integer", "minimum": 1, "maximum": PAGE_MAX}),
            _parameter("state", {"type": "string", "enum": list(STATES)}),
        ],
        "responses": _responses("The conflicts.", _json("Conflicts"), (*_OPERATOR, "bad_identity")),
    }


def _resolve() -> Json:
    return {
        "operationId": "resolveConflict",
        "summary": "Keep the accepted batch; the agent may drop the parked one.",
        "security": [{"operator": []}],
        "requestBody": {"required": True, "content": _json("Resolve")},
        "responses": _responses("The first decision, which is final.", _json("Decision"), _RESOLVE),
    }


def _blocks() -> Json:
    return {
        "operationId": "listBlocks",
        "summary": "Quarantined agents and boots.",
        "security": [{"operator": []}],
        "responses": _responses("All of them.", _json("Blocks"), _OPERATOR),
    }


def _block() -> Json:
    return {
        "operationId": "block",
        "summary": "Refuse all batches of this agent, or of this boot of it.",
        "security": [{"operator": []}],
        "requestBody": {"required": True, "content": _json("BlockThis")},
        "responses": _responses("It is quarantined.", _json("Block"), _BODY),
    }


def _release() -> Json:
    return {
        "operationId": "release",
        "summary": "Accept its batches again.",
        "security": [{"operator": []}],
        "parameters": [_parameter("agent_id", _NAME, required=True), _parameter("boot_id", _NAME)],
        "responses": _responses("It is released.", _json("Released"), (*_OPERATOR, "bad_identity")),
    }


def _plain(name: str, summary: str, content: Json, more: tuple[str, ...] = ()) -> Json:
    return {"operationId": name, "summary": summary, "responses": _responses(summary, content, more)}


def _parameter(name: str, schema: Json, *, required: bool = False) -> Json:
    return {"name": name, "in": "query", "required": required, "schema": schema}


def _responses(summary: str, content: Json, kinds: tuple[str, ...]) -> Json:
    found: Json = {"200": {"description": summary, "content": content}}
    for kind in (*_EVERYWHERE, *kinds):
        status = str(KINDS[kind].status)
        answer = found.setdefault(status, {"description": "", "content": _json("Error")})
        answer["description"] = f"{answer['description']} {kind}: {KINDS[kind].summary}".strip()
        if KINDS[kind].then == "retry" and status in ("408", "429", "503"):
            answer["headers"] = {
                "retry-after": {
                    "schema": {"type": "string", "pattern": "^[0-9]+$"},
                    "description": "Seconds.",
                }
            }
    return dict(sorted(found.items()))


def _json(name: str) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _object(properties: Json, *, optional: tuple[str, ...] = (), closed: bool = True) -> Json:
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
        "Decided": _object({"decision": _TEXT, "by": _TEXT, "note": _TEXT, "at_unix_ns": _NS}),
        "Decision": _object({"resolution": _or_null("Decided")}),
        "Resolve": _object({**_IDENTITY, "submitted_frame_sha256": _SHA, "note": _NOTE}, optional=("note",)),
        "Block": _object(
            {
                "agent": _NAME,
                "boot": {"type": ["string", "null"]},
                "by": _TEXT,
                "note": _TEXT,
                "at_unix_ns": _NS,
            }
        ),
        "Blocks": _object({"blocks": _array("Block")}),
        "BlockThis": _object(
            {"agent_id": _NAME, "boot_id": _NAME, "note": _NOTE}, optional=("boot_id", "note")
        ),
        "Released": _object({"released": {"type": "boolean"}}),
    }


def _or_null(name: str) -> Json:
    return {"anyOf": [{"$ref": f"#/components/schemas/{name}"}, {"type": "null"}]}


def _array(name: str) -> Json:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}
