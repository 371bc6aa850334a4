"""Small arithmetic for described paths: `12 * (5 + versions)`, `min(backlog, 1000)`.

Numbers, names, + - * / // % and parentheses, and the functions min, max, ceil, floor. Nothing else is
looked at, let alone executed: the text is parsed by Python's own parser and turned into functions here.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, float]
_Evaluate = Callable[[Values], float]

FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "ceil": math.ceil, "floor": math.floor}
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class BadExpression(Exception):
    """The error in the text, as a clause."""


@dataclass(frozen=True, slots=True)
class Expression:
    """Arithmetic over named values; equal when its text is."""

    text: str

    def names(self) -> set[str]:
        """The values it needs."""
        tree = _parse(self.text)
        functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in functions}

    def value(self, values: Values) -> float:
        try:
            return _compiled(self.text)(values)
        except ZeroDivisionError:
            raise BadExpression(f"{self.text!r} divides by zero") from None


def expression(text: object) -> Expression:
    """Of a number, or of a text that is checked here. Raises `BadExpression`."""
    found = Expression(str(text))
    _compiled(found.text)
    return found


_known: dict[str, _Evaluate] = {}


def _compiled(text: str) -> _Evaluate:
    if text not in _known:
        _known[text] = _translate(_parse(text), text)
    return _known[text]


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadExpression(f"{text!r} is no arithmetic") from None


def _translate(node: ast.expr, text: str) -> _Evaluate:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return lambda _: number
        case ast.Name(id=name):
            return lambda values: values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _translate(operand, text)
            return lambda values: -inner(values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            act, one, other = _OPERATORS[type(op)], _translate(left, text), _translate(right, text)
            return lambda values: act(one(values), other(values))
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]) if name in FUNCTIONS:
            call, inners = FUNCTIONS[name], [_translate(arg, text) for arg in args]
            return lambda values: call(*(inner(values) for inner in inners))
    what = ast.unparse(node)
    raise BadExpression(f"{what!r} in {text!r} is not understood; there are + - * / // % min max ceil floor")
