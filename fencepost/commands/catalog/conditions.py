"""Conditions on rows, as people type them: `born<1900`, `name=Ada`, `name=` for no value."""

import base64
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from fencepost.commands.exit_codes import BadRequest
from fencepost.impl.publish.schema import Row, Schema

_CONDITION = re.compile(r"([A-Za-z0-9_.-]+?)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TRUTHS = {"true": True, "false": False}


def parse_condition(text: str, schema: Schema) -> Callable[[Row], bool]:
    """Return the test of a row. A row without a value fits `COLUMN=` and `!=` any value, and no order."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise BadRequest(f"--where {text!r} is no condition; write COLUMN=VALUE, or != < <= > >=")
    column, sign, value = found.groups()
    kind = dict(schema.columns).get(column)
    if kind is None:
        raise BadRequest(f"there is no column {column!r}; the table has {', '.join(dict(schema.columns))}")
    wanted = _parse(value, kind, text)
    compare = _COMPARE[sign]
    is_order = sign not in ("=", "!=")
    if is_order and (wanted is None or kind == "bool"):
        raise BadRequest(f"--where {text!r}: {sign} needs a value, of a column that has an order")

    def fits(row: Row) -> bool:
        actual = row[column]
        if actual is None and is_order:
            return False
        return bool(compare(actual, wanted))

    return fits


def _parse(value: str, kind: str, text: str) -> Any:
    """The value in the type of its column; None for no value."""
    if value == "":
        return None
    try:
        match kind:
            case "int64":
                return int(value)
            case "float64":
                return float(value)
            case "bool":
                return _TRUTHS[value]
            case "bytes":
                return base64.b64decode(value, validate=True)
    except (ValueError, KeyError):
        raise BadRequest(f"--where {text!r}: the column is {kind}, and {value!r} is no such value") from None
    return value
