"""Rules that change one place of a source text: each possible change is a mutant.

Rules read the syntax tree and edit the text, so that the other lines keep their numbers and a mutant is shown
as a difference of two texts. Left alone: annotations, decorators, assertions, errors with their messages,
texts with fields, and methods that only describe an object.
"""

import ast
import difflib
import functools
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DESCRIBING = frozenset({"__repr__", "__str__"})
_FLIPPED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_NEGATED_BY_FLIP = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Operators whose flip is the negation: a lone comparison with one has no second mutant for it."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str
    """The file, from the root of the repository."""
    function: str
    """The qualified name of the function or class; empty for the module."""
    rule: str
    code: str
    """The code that is replaced, on one line."""
    number: int
    """Number of equal changes before it in the same function."""
    line: int
    start: int
    end: int
    """Offsets of the replaced text in the encoded file."""
    new: str

    @property
    def key(self) -> str:
        """Identify the mutant by content: its line number is no part of it."""
        again = f" #{self.number + 1}" if self.number else ""
        return f"{self.path}::{self.function}: {self.rule}: {self.code}{again}"

    def applied(self, text: str) -> str:
        """Return the text of the file with the change."""
        encoded = text.encode()
        return (encoded[: self.start] + self.new.encode() + encoded[self.end :]).decode()

    def difference(self, text: str) -> str:
        """Return the change as a unified diff without context."""
        before, after = (each.splitlines(keepends=True) for each in (text, self.applied(text)))
        return "".join(difflib.unified_diff(before, after, self.path, self.path, n=0))


Edit = tuple[ast.AST, str, str]
"""The node that is replaced, the rule, and the new text."""


def mutants(path: str, root: Path = ROOT) -> list[Mutant]:
    """All mutants of a file, in the order of its text."""
    return list(_mutants(path, (root / path).read_text(encoding="utf-8")))


@functools.cache
def _mutants(path: str, text: str) -> tuple[Mutant, ...]:
    """Return the mutants of a text; a campaign needs those of each file several times."""
    tree = ast.parse(text)
    source = _Source(text)
    found: dict[tuple[str, str, str], list[Mutant]] = {}
    for function, node in _nodes(tree, ""):
        for place, rule, new in _edits(node, source):
            start, end = source.span(place)
            code = " ".join(source.text(place).split())
            same = found.setdefault((function, rule, code), [])
            if any((each.start, each.end) == (start, end) for each in same):
                continue
            line = getattr(place, "lineno", 0)
            same.append(Mutant(path, function, rule, code, len(same), line, start, end, new))
    every = [each for same in found.values() for each in same]
    return tuple(sorted(every, key=lambda each: (each.start, each.end, each.rule)))


def selected(every: list[Mutant], share: float, least: int, seed: int) -> list[Mutant]:
    """Return a share of a file's mutants, at least `least` if there are as many.

    The choice depends on the seed and on each mutant's own content, so a change elsewhere keeps it.
    """

    def drawn(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    count = max(least, round(share * len(every)))
    chosen = set(sorted(every, key=drawn)[:count])
    return [each for each in every if each in chosen]


class _Source:
    """A source text and the places of nodes in it."""

    def __init__(self, text: str) -> None:
        self._encoded = text.encode()
        self._lines = [0]
        for line in self._encoded.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the offsets of a node in the encoded text."""
        assert isinstance(node, ast.expr | ast.stmt), "nodes of other kinds have no place"
        assert node.end_lineno is not None, "the tree was parsed from a text"
        assert node.end_col_offset is not None, "the tree was parsed from a text"
        start = self._lines[node.lineno - 1] + node.col_offset
        return start, self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self._encoded[start:end].decode()


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """The nodes that rules may change, each with the name of its function."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "keys"):
            continue
        for child in value if isinstance(value, list) else (value,):
            if not isinstance(child, ast.AST) or _is_left_alone(child):
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{function}.{child.name}" if function else child.name
                yield inner, child
                yield from _nodes(child, inner)
            else:
                yield function, child
                yield from _nodes(child, function)


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef) and node.name in DESCRIBING:
        return True
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    return isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom)


def _edits(node: ast.AST, source: _Source) -> Iterator[Edit]:
    for rule in RULES:
        yield from rule(node, source)


def negate(node: ast.AST, source: _Source) -> Iterator[Edit]:
    """Negate the condition of a branch, a loop, a choice or a filter."""
    tests = [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else []
    tests += node.ifs if isinstance(node, ast.comprehension) else []
    for test in tests:
        if not (isinstance(test, ast.Constant) or (isinstance(node, ast.If) and _only_raises(node))):
            yield test, "negate", f"(not ({source.text(test)}))"


def _only_raises(node: ast.If) -> bool:
    return not node.orelse and len(node.body) == 1 and isinstance(node.body[0], ast.Raise)


def swap_comparison(node: ast.AST, source: _Source) -> Iterator[Edit]:
    """Let a comparison have the other answer at its border, or the opposite one."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        (operator,) = node.ops
        left, right = source.text(node.left), source.text(node.comparators[0])
        yield node, "compare", f"(({left}) {_FLIPPED[type(operator)]} ({right}))"


def swap_and_or(node: ast.AST, source: _Source) -> Iterator[Edit]:
    """Replace `and` by `or`, and the other way round; leave one operand out."""
    if not isinstance(node, ast.BoolOp):
        return
    operands = [f"({source.text(each)})" for each in node.values]
    this, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    yield node, f"{this}-{other}", f"({f' {other} '.join(operands)})"
    for number in range(len(operands)):
        rest = f" {this} ".join(operands[:number] + operands[number + 1 :])
        yield node, f"drop-operand-{number + 1}", f"({rest})"


def drop_statement(node: ast.AST, _source: _Source) -> Iterator[Edit]:
    """Leave out a call, an update of an attribute, an item or a count, and a jump."""
    for block in _blocks(node):
        for statement in block:
            if _may_be_dropped(statement):
                yield statement, "drop-statement", "pass"


def _may_be_dropped(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in statement.targets)
    return isinstance(statement, ast.AugAssign | ast.Delete | ast.Continue | ast.Break)


def drop_branch(node: ast.AST, _source: _Source) -> Iterator[Edit]:
    """Leave out a branch without an alternative, and a bare return in front of other statements."""
    for block in _blocks(node):
        for statement in block:
            if isinstance(statement, ast.If) and not statement.orelse and not _only_raises(statement):
                yield statement, "drop-branch", "pass"


def drop_element(node: ast.AST, source: _Source) -> Iterator[Edit]:
    """Leave one element out of a set, a list or a union."""
    if isinstance(node, ast.Set | ast.List) and len(node.elts) > 1:
        left, right = "{}" if isinstance(node, ast.Set) else "[]"
        texts = [source.text(each) for each in node.elts]
        for number in range(len(texts)):
            rest = ", ".join(texts[:number] + texts[number + 1 :])
            yield node, f"drop-element-{number + 1}", f"{left}{rest}{right}"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd):
        yield node, "drop-right", f"({source.text(node.left)})"
        yield node, "drop-left", f"({source.text(node.right)})"


def off_by_one(node: ast.AST, source: _Source) -> Iterator[Edit]:
    """Change a whole number, or leave `+ 1` and `- 1` out."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and _is_one(node.right):
        yield node, "off-by-one", f"({source.text(node.left)})"
    elif isinstance(node, ast.Compare) and any(_is_number(each) for each in node.comparators):
        number = node.comparators[-1]
        if _is_number(number):
            yield number, "off-by-one", str(int(source.text(number), 0) + 1)
    elif isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            if bound is not None and _is_number(bound):
                yield bound, "off-by-one", str(int(source.text(bound), 0) + 1)


def _is_one(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def flip_constant(node: ast.AST, _source: _Source) -> Iterator[Edit]:
    """Return, assign or pass False in the place of True, and the other way round."""
    value = node.value if isinstance(node, ast.Return | ast.Assign | ast.keyword) else None
    if isinstance(value, ast.Constant) and type(value.value) is bool:
        yield value, "flip", str(not value.value)


def return_early(node: ast.AST, source: _Source) -> Iterator[Edit]:
    """Let a function that decides something always decide the same, and one that acts do nothing."""
    if not isinstance(node, ast.FunctionDef) or not isinstance(node.returns, ast.Name | ast.Constant):
        return
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    returned = source.text(node.returns)
    generates = any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node))
    if not body or generates or _is_left_alone(node):
        return
    if returned == "bool" and not (
        isinstance(body[0], ast.Return) and isinstance(body[0].value, ast.Constant)
    ):
        for value in ("True", "False"):
            yield body[0], f"return-{value.lower()}", f"return {value}"
    elif returned == "None" and not node.name.startswith("__"):
        yield body[0], "return-at-once", "return"


def drop_await(node: ast.AST, source: _Source) -> Iterator[Edit]:
    """Leave the yield of an iterator inside another one out."""
    if isinstance(node, ast.Await):
        yield node, "drop-await", f"({source.text(node.value)})"


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    if isinstance(node, ast.Module | ast.ClassDef):
        return
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block


RULES: tuple[Callable[[ast.AST, _Source], Iterator[Edit]], ...] = (
    negate,
    swap_comparison,
    swap_and_or,
    drop_statement,
    drop_branch,
    drop_element,
    off_by_one,
    flip_constant,
    return_early,
    drop_await,
)
