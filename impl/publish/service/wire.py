"""Changes as JSON, as clients send them to a server.

    {"table": "order", "verb": "append", "rows": [{"nr": "a1", "total": 9.5}]}
    {"table": "order", "verb": "delete", "keys": ["a1"]}
    {"table": "order", "verb": "create", "columns": {"nr": "string"}, "key": "nr", "edges": {}}

A value is JSON, except that bytes are `{"bytes": BASE64}` and a float that JSON cannot hold is `{"float":
"NaN"}`, `"Infinity"` or `"-Infinity"`.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.impl.publish import constraints
from fencepost.impl.publish.constraints import Constraint
from fencepost.impl.publish.documents import digest, encode
from fencepost.impl.publish.errors import Invalid
from fencepost.impl.publish.planner import ALL_TABLES, Change

Json = dict[str, Any]

ROWS, KEYS = ("append", "upsert", "overwrite"), ("delete",)
DETAILS: Mapping[str, Mapping[str, type]] = {
    "create": {"columns": dict, "key": str, "edges": dict},
    "add-column": {"column": str, "kind": str},
    "drop-column": {"column": str},
    "add-edge": {"column": str, "target": str},
    "drop-edge": {"column": str},
    "drop": {},
    "rewrite": {},
    "read": {},
}
"""The further fields of the verbs that have neither rows nor keys."""
LIMIT = "limit"
"""The verb that declares a constraint: `columns`, and `at_most`, which is null for an edge that cascades."""
VERBS = (*ROWS, *KEYS, *DETAILS, LIMIT)
REQUEST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""The form of a request's id."""
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(changes: Sequence[Change]) -> list[Json]:
    return [_change_to_json(change) for change in changes]


def _change_to_json(change: Change) -> Json:
    found: Json = {"table": change.table, "verb": change.verb}
    if change.verb in ROWS:
        found["rows"] = [{name: _plain(value) for name, value in row.items()} for row in change.rows]
    elif change.verb in KEYS:
        found["keys"] = [_plain(key) for key in change.keys]
    elif change.verb == "constrain":
        one: Constraint = change.details["constraint"]
        return {"table": one.table, "verb": LIMIT, "columns": [*one.columns], "at_most": one.at_most}
    else:
        found |= change.details
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    return value


def from_json(found: Any) -> list[Change]:
    """The changes; raises `Invalid`, which names the first that is none."""
    if not isinstance(found, list) or not found:
        raise Invalid("changes is a list of at least one change")
    return [_change(one, at) for at, one in enumerate(found)]


def _change(found: Any, at: int) -> Change:
    where = f"change {at}"
    if not isinstance(found, dict):
        raise Invalid(f"{where} is no object with table and verb")
    fields = dict(found)
    table, verb = fields.pop("table", None), fields.pop("verb", None)
    if verb not in VERBS:
        raise Invalid(f"{where}: verb is {verb!r}; known are {', '.join(VERBS)}")
    if not isinstance(table, str) or (table == ALL_TABLES and verb != "read"):
        raise Invalid(f"{where}: table is {table!r}; give the name of a table")
    if verb in ROWS:
        rows = fields.pop("rows", None)
        _check_empty(fields, where)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise Invalid(f"{where}: rows is a list of objects, of columns to values")
        made = ({name: _value(value, where) for name, value in row.items()} for row in rows)
        return Change(table, verb, rows=tuple(made))
    if verb in KEYS:
        keys = fields.pop("keys", None)
        _check_empty(fields, where)
        if not isinstance(keys, list):
            raise Invalid(f"{where}: keys is a list of keys")
        return Change(table, verb, keys=tuple(_value(key, where) for key in keys))
    if verb == LIMIT:
        return _limit(table, fields, where)
    return Change(table, verb, details=_details(fields, DETAILS[verb], where))


def _details(fields: Json, wanted: Mapping[str, type], where: str) -> Json:
    found = {name: fields.pop(name, None) for name in wanted}
    _check_empty(fields, where)
    for name, kind in wanted.items():
        value = found[name]
        texts = value.values() if isinstance(value, dict) else [value]
        if not isinstance(value, kind) or not all(isinstance(text, str) for text in texts):
            raise Invalid(f"{where}: {name} is {'an object of texts' if kind is dict else 'a text'}")
    return found


def _limit(table: str, fields: Json, where: str) -> Change:
    columns, at_most = fields.pop("columns", None), fields.pop("at_most", None)
    _check_empty(fields, where)
    if not isinstance(columns, list) or not columns or not all(isinstance(name, str) for name in columns):
        raise Invalid(f"{where}: columns is a list of names")
    if at_most is not None and (type(at_most) is not int or at_most < 1):
        raise Invalid(f"{where}: at_most is a whole number from 1, or null for an edge that cascades")
    details = {"constraint": Constraint(table, tuple(columns), at_most)}
    return Change(constraints.TABLE, "constrain", details=details)


def _check_empty(fields: Json, where: str) -> None:
    if fields:
        raise Invalid(f"{where} has a field {next(iter(fields))!r} that its verb does not have")


def _value(value: Any, where: str) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case {"bytes": str(text)} if len(value) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise Invalid(f"{where}: {text[:40]!r} is not base64") from None
        case {"float": str(text)} if len(value) == 1 and text in _FLOATS:
            return _FLOATS[text]
    raise Invalid(f"{where}: {str(value)[:80]!r} is no value of a column")


def digest_of(changes: Sequence[Json]) -> str:
    """Of changes in JSON, by which a server notices that an id is used for others."""
    try:
        return digest(encode({"changes": changes}))[:32]
    except ValueError:  # a lone surrogate
        raise Invalid("a text in the changes is no Unicode") from None


def parse(body: bytes) -> Any:
    """JSON of a stranger; raises `Invalid`."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the body is not JSON ({error})") from None


def _refuse_constant(text: str) -> Any:
    raise ValueError(f'{text} is no JSON; write {{"float": "{text}"}}')
