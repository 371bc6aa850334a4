"""The native REST interface as an OpenAPI document."""

from collections.abc import Iterable
from typing import Any

from fencepost.impl.http.refusals import Kind


def describe(kinds: Iterable[tuple[str, Kind]]) -> dict[str, Any]:
    """`kinds` are those of its refusals."""
    failure = {"$ref": "#/components/responses/Refusal"}
    bearer: list[dict[str, Any]] = [{"bearer": []}]

    def operation(
        summary: str, success: str, schema: str = "", body: str = "", *, anonymous: bool = False
    ) -> dict[str, Any]:
        shown: dict[str, Any] = {"description": summary}
        if schema == "bytes":
            shown["content"] = {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            }
        elif schema:
            shown["content"] = _json(schema)
        found = {
            "summary": summary,
            "security": [*bearer, *([{}] if anonymous else [])],
            "responses": {success: shown, "default": failure},
        }
        if body == "bytes":
            content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
            found["requestBody"] = {"content": content}
        elif body:
            found["requestBody"] = {"required": True, "content": _json(body)}
        return found

    return {
        "openapi": "3.1.0",
        "info": {"title": "Fencepost objects", "version": "1"},
        "paths": {
            "/v1/{bucket}/{key}": {
                "parameters": [_in_path("bucket"), _in_path("key")],
                "put": operation("Create or replace an object.", "200", "Written", "bytes"),
                "get": operation("Download an object.", "200", "bytes", anonymous=True),
                "head": operation("Describe an object by headers.", "200", anonymous=True),
                "delete": operation("Delete an object.", "204"),
                "patch": operation("Move an object, or set its access.", "200", "Object", "Patch"),
                "post": operation("Copy another object of the bucket here.", "200", "Object", "Copy"),
            },
            "/v1/{bucket}": {
                "parameters": [_in_path("bucket")],
                "get": {
                    **operation("List objects in the order of their keys.", "200", "Page"),
                    "parameters": [
                        _in_query("prefix", {"type": "string"}),
                        _in_query("cursor", {"type": "string"}),
                        _in_query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}),
                    ],
                },
            },
            "/v1/buckets": {
                "post": operation("Create a bucket.", "201", "Bucket", "NewBucket"),
                "get": operation("List buckets.", "200", "Buckets"),
            },
            "/v1/buckets/{name}": {
                "parameters": [_in_path("name")],
                "get": operation("Describe a bucket.", "200", "Bucket"),
                "patch": operation(
                    "Open or close a bucket with what inherits its access.", "200", "Bucket", "BucketPatch"
                ),
                "delete": operation("Delete an empty bucket.", "204"),
            },
        },
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Refusal": {"description": "The request was refused.", "content": _json("Refusal")},
            },
            "schemas": {**_SCHEMAS, "Refusal": _refusal(kinds)},
        },
    }


def _json(schema: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _in_query(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": [*required], "properties": {**required, **optional}}


def _refusal(kinds: Iterable[tuple[str, Kind]]) -> dict[str, Any]:
    text = "\n".join(f"{name} ({kind.status}): {kind.summary}" for name, kind in kinds)
    return _object(
        {
            "error": {"type": "string", "enum": [name for name, _ in kinds], "description": text},
            "message": _TEXT,
            "request_id": _TEXT,
        }
    )


_TEXT = {"type": "string"}
_ACCESS = {"enum": ["public", "private"]}
_REFERENCE = "#/components/schemas/"
_WRITTEN = {"key": _TEXT, "size": {"type": "integer"}, "etag": _TEXT, "access": _ACCESS}
_SCHEMAS = {
    "Written": _object(_WRITTEN),
    "Object": _object(
        {
            **_WRITTEN,
            "content_type": _TEXT,
            "metadata": {"type": "object", "additionalProperties": _TEXT},
            "last_modified": {"type": "string", "format": "date-time"},
        }
    ),
    "Page": _object(
        {
            "objects": {"type": "array", "items": {"$ref": f"{_REFERENCE}Object"}},
            "next_cursor": {"type": ["string", "null"]},
        }
    ),
    "Patch": {"oneOf": [_object({"key": _TEXT}), _object({"access": _ACCESS})]},
    "Copy": _object({"source": _TEXT}),
    "Bucket": _object(
        {"name": _TEXT, "access": _ACCESS, "created": {"type": "string", "format": "date-time"}}
    ),
    "Buckets": _object({"buckets": {"type": "array", "items": {"$ref": f"{_REFERENCE}Bucket"}}}),
    "NewBucket": _object({"name": _TEXT}, access=_ACCESS),
    "BucketPatch": _object({"access": _ACCESS}),
}
