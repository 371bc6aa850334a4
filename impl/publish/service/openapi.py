"""The OpenAPI document of the server of a catalog, built from the tables that the code uses."""

from typing import Any

import fencepost
from fencepost.impl.http.limits import Limits
from fencepost.impl.http.refusals import Kind
from fencepost.impl.publish.service import wire
from fencepost.impl.publish.service.kinds import KINDS, TEXT_MAX, WAIT_S, WAIT_S_MAX

Json = dict[str, Any]

_EVERYWHERE = ("bad_request", "unauthenticated", "forbidden", "internal", "busy", "store_unavailable")
_COMMIT = (
    "too_slow",
    "length_required",
    "body_too_large",
    "unsupported_encoding",
    "too_many_requests",
    "draining",
    "invalid",
    "stale",
    "forgotten",
    "undecided",
    "damaged",
)
_READ = ("not_found", "too_many_requests")
_TEXT: Json = {"type": "string"}
_ID: Json = {"type": "integer", "minimum": 0}
_NULL: Json = {"type": "null"}


def document(limits: Limits) -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fencepost catalog server",
            "version": fencepost.__version__,
            "description": "Commits of many writers, in groups. Send a request again until it is answered. "
            "It is committed once, at whichever server of the catalog it arrives.",
        },
        "paths": _paths(limits),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _paths(limits: Limits) -> Json:
    branch: Json = {"branch": {**_TEXT, "maxLength": 100}}
    commit = _operation(
        "commit",
        "Commit one change. 200 means durable and visible.",
        _responses("It is committed, now or earlier.", "Committed", _COMMIT),
        path=branch,
    )
    commit["description"] = (
        "On 408, 429, 503, and without an answer, send the same request again, here or at another server. On "
        "409 begin again with a new request on the newest manifest. The body has at most "
        f"{limits.body_bytes} bytes."
    )
    commit["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref("Commit")}}}
    pieces: Json = {"start": _ID, "stop": _ID}
    listing: Json = {"prefix": _TEXT, "after": _TEXT, "delimiter": _TEXT, "limit": _ID, "token": _TEXT}
    found: Json = {"content": {"application/octet-stream": {"schema": {**_TEXT, "format": "binary"}}}}
    read = _operation(
        "readObject",
        "A piece of an object: a manifest, a version or a fragment.",
        {
            "200": {"description": "The bytes; X-Object-Size is that of the object.", **found},
            **_refusals(_READ),
        },
        path={"key": _TEXT},
        query=pieces,
    )
    return {
        "/v1/branches/{branch}/commits": {"post": commit},
        "/v1/branches/{branch}": {
            "get": _operation(
                "showBranch",
                "The newest manifest, and the tables.",
                _responses("It exists.", "Branch", (*_READ, "invalid")),
                path=branch,
            )
        },
        "/v1/objects/{key}": {"get": read},
        "/v1/keys": {
            "get": _operation(
                "listKeys", "A page of keys.", _responses("The page.", "Keys", _READ), query=listing
            )
        },
        "/healthz": {"get": _plain("healthz", "The process is alive.")},
        "/readyz": {"get": _plain("readyz", "The store is reachable, too.")},
        "/metrics": {"get": _plain("metrics", "Metrics for Prometheus.", "text/plain")},
        "/openapi.json": {"get": _plain("openapi", "This document.")},
    }


def _operation(
    name: str, summary: str, responses: Json, *, path: Json | None = None, query: Json | None = None
) -> Json:
    parameters = [
        {"name": one, "in": "path", "required": True, "schema": schema}
        for one, schema in (path or {}).items()
    ]
    parameters += [
        {"name": one, "in": "query", "required": False, "schema": schema}
        for one, schema in (query or {}).items()
    ]
    return {
        "operationId": name,
        "summary": summary,
        "security": [{"token": []}, {}],
        "parameters": parameters,
        "responses": responses,
    }


def _plain(name: str, summary: str, kind: str = "application/json") -> Json:
    content = {kind: {"schema": _TEXT if kind == "text/plain" else {"type": "object"}}}
    responses = {"200": {"description": "It is.", "content": content}, **_refusals(("draining",))}
    return {"operationId": name, "summary": summary, "responses": responses}


def _responses(text: str, schema: str, refusals: tuple[str, ...]) -> Json:
    content = {"application/json": {"schema": _ref(schema)}}
    return {"200": {"description": text, "content": content}, **_refusals(refusals)}


def _refusals(names: tuple[str, ...]) -> Json:
    by_status: dict[int, list[Kind]] = {}
    for name in dict.fromkeys((*_EVERYWHERE, *names)):
        by_status.setdefault(KINDS[name].status, []).append(KINDS[name])
    content = {"application/json": {"schema": _ref("Refusal")}}
    return {
        str(status): {"description": " ".join(kind.summary for kind in kinds), "content": content}
        for status, kinds in sorted(by_status.items())
    }


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas() -> Json:
    value: Json = {
        "description": "JSON, {bytes: BASE64}, or {float: NaN}.",
        "type": ["string", "number", "boolean", "null", "object"],
    }
    change: Json = _object(
        {
            "table": _TEXT,
            "verb": {"type": "string", "enum": list(wire.VERBS)},
            "rows": {"type": "array", "items": {"type": "object", "additionalProperties": value}},
            "keys": {"type": "array", "items": value},
            "columns": {"type": ["object", "array"]},
            "key": _TEXT,
            "edges": {"type": "object", "additionalProperties": _TEXT},
            "column": _TEXT,
            "kind": _TEXT,
            "target": _TEXT,
            "at_most": {"type": ["integer", "null"], "minimum": 1},
        },
        ("table", "verb"),
    )
    commit = _object(
        {
            "request": {
                "type": "string",
                "pattern": f"^{wire.REQUEST.pattern}$",
                "description": "Unique for ever. Send the same one again until it is answered.",
            },
            "since": {**_ID, "description": "A manifest that you saw before you first sent this request."},
            "changes": {"type": "array", "items": _ref("Change"), "minItems": 1},
            "snapshot": {
                "anyOf": [{"type": "integer", "minimum": 1}, _NULL],
                "description": "The manifest on which the change was decided; 409 if its tables changed.",
            },
            "author": {**_TEXT, "maxLength": TEXT_MAX},
            "message": {**_TEXT, "maxLength": TEXT_MAX},
            "wait_s": {
                "type": "number",
                "minimum": 0,
                "maximum": WAIT_S_MAX,
                "default": WAIT_S,
                "description": "Seconds for which the server attempts it before it answers 503 undecided.",
            },
        },
        ("request", "since", "changes"),
    )
    kinds = "; ".join(f"{name}: {kind.then}" for name, kind in KINDS.items())
    return {
        "Change": change,
        "Commit": commit,
        "Committed": _object(
            {"request": _TEXT, "branch": _TEXT, "manifest": _ID, "plan": _TEXT, "published": {"const": True}}
        ),
        "Branch": _object({"branch": _TEXT, "manifest": _ID, "epoch": _ID, "tables": {"type": "object"}}),
        "Keys": _object({"objects": {"type": "array"}, "prefixes": {"type": "array"}, "next": _TEXT}),
        "Refusal": {
            **_object({"error": {"type": "string", "enum": list(KINDS)}, "message": _TEXT}),
            "description": f"What a client does: {kinds}.",
        },
    }  # fmt: skip


def _object(properties: Json, required: tuple[str, ...] | None = None) -> Json:
    return {"type": "object", "properties": properties, "required": list(required or properties)}
