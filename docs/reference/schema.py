"""JSON Schema (2020-12) of the results of a command, from the dataclass of its result."""

import enum
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from inspect import cleandoc
from typing import Any, Literal, Union, get_args, get_origin

from fencepost.results import COMMANDS, Provenance, Recorded, hints_of, is_serialized, required

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def json_schema(command: str, kind: type) -> dict[str, Any]:
    """The schema of one command's results. Objects may have more properties than it names."""
    definitions: dict[str, Any] = {}
    body = _object(kind, definitions)
    about = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"fencepost {command} --json",
    }
    return {**about, **body, "$defs": dict(sorted(definitions.items()))}


def _object(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = hints_of(kind)
    text = cleandoc(kind.__doc__ or "")
    described = {"description": text} if text and not text.startswith(f"{kind.__name__}(") else {}
    properties = {
        field.name: _schema(hints[field.name], definitions) for field in fields(kind) if is_serialized(field)
    }
    if kind.__name__ in COMMANDS.values():
        made = {"anyOf": [_schema(Provenance, definitions), {"type": "null"}]}
        properties = {"provenance": made, **properties}
    return {**described, "type": "object", "required": required(kind), "properties": properties}


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(one, definitions) for one in args]}
    if origin is Recorded:
        return _schema(args[0], definitions)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [one.value for one in kind]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin is tuple:
        return {"type": "array", "items": _schema(args[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(args[1], definitions)}
    if is_dataclass(kind):
        name = getattr(kind, "__name__", str(kind))
        if name not in definitions:
            definitions[name] = {}
            definitions[name] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{name}"}
    return {"type": PLAIN[kind]}
