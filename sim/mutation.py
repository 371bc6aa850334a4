"""Mutants of a user's own code: each protective step left out, one at a time.

A check that never failed proves little. Code on an object store protects itself in few ways: a condition
on a write, a read after a lost reply, a version counter, a guard that ends or repeats an attempt, the order
of deletes. `mutations` finds them in a module, and `mutated` is the module without one of
them. Nothing is written: `loading` gives the tree to the import system.

Left alone: functions that are handed to properties (`world.always(..., check)`), because a broken check shows
nothing about the code, and what the program itself does to set its world up.

A *read-back* is a read in a function after a write. It is left out by taking its outcome for granted: a
comparison with it becomes True, and in another mutant False.
"""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from itertools import pairwise
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

CONDITIONS = frozenset({"IfMatch", "IfNoneMatch", "if_match", "if_none_match"})
DECLARING = frozenset({"always", "eventually", "sometimes", "finally_", "step_property", "monitor", "follow"})
READS = frozenset({"get", "head", "get_object", "head_object", "load", "read"})
WRITES = frozenset(
    {"put", "put_object", "create", "upload", "upload_part", "complete_multipart_upload", "send"}
)
DELETES = frozenset({"delete", "delete_object", "delete_objects", "unlink", "remove"})
_ANYTHING = "__import__('fencepost.impl.store', fromlist=['ANYTHING']).ANYTHING"


@dataclass(frozen=True)
class Mutation:
    """One protective step of a file."""

    path: Path
    line: int
    kind: str
    text: str
    """The code that is changed, on one line."""
    number: int
    """Which mutation of the file it is."""
    again: int = 0
    """Number of sites of the same kind before it on the line."""
    effect: int = 0
    """The line that only runs where the step makes a difference, such as the `raise` of a guard; else 0."""

    @property
    def name(self) -> str:
        more = f".{self.again + 1}" if self.again else ""
        return f"{self.path.name}:{self.line}:{self.kind}{more}"


def mutations(path: Path) -> list[Mutation]:
    """All mutations of a file, in the order of its lines."""
    found: list[Mutation] = []
    for number, site in enumerate(_sites(ast.parse(path.read_text(encoding="utf-8")))):
        again = sum(1 for one in found if (one.line, one.kind) == (site.line, site.kind))
        found.append(Mutation(path, site.line, site.kind, site.text, number, again, site.effect))
    return sorted(found, key=lambda one: (one.line, one.number))


def mutated(mutation: Mutation) -> ast.Module:
    """The file with this change."""
    tree = ast.parse(mutation.path.read_text(encoding="utf-8"))
    for number, site in enumerate(_sites(tree)):
        if number == mutation.number:
            site.change()
            break
    return ast.fix_missing_locations(tree)


@contextmanager
def loading(mutation: Mutation) -> Iterator[None]:
    """Modules that are loaded from the file of this mutation have the change."""
    real = SourceFileLoader.get_code
    path = mutation.path.resolve()

    def get_code(self: SourceFileLoader, name: str) -> CodeType | None:
        if Path(self.path).resolve() == path:
            return compile(mutated(mutation), self.path, "exec")
        return real(self, name)

    setattr(SourceFileLoader, "get_code", get_code)  # noqa: B010  put back below; the base has another signature
    try:
        yield
    finally:
        setattr(SourceFileLoader, "get_code", real)  # noqa: B010  an assignment would need a type ignore


class Site(NamedTuple):
    """A step that can be left out."""

    line: int
    kind: str
    text: str
    """The code that is changed."""
    change: Callable[[], None]
    """Changes the tree."""
    effect: int = 0
    """See `Mutation.effect`."""


def _sites(tree: ast.Module) -> Iterator[Site]:
    excluded = _checks(tree)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function not in excluded:
            sets_up = any(argument.arg == "world" for argument in function.args.args) and _spawns(function)
            if not sets_up:
                own = [*_own_nodes(function, excluded)]
                yield from _conditions(own)
                yield from _read_backs(own)
                yield from _increments(own)
                yield from _guards(own)
                yield from _orders(own)


def _checks(tree: ast.Module) -> set[ast.AST]:
    """The functions and lambdas that are handed to properties."""
    names: set[str] = set()
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in DECLARING:
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                names.update(part.id for part in ast.walk(argument) if isinstance(part, ast.Name))
                found.update(part for part in ast.walk(argument) if isinstance(part, ast.Lambda))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            found.update(ast.walk(node))
    return found


def _spawns(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Call) and _called(node) == "spawn" for node in ast.walk(function))


def _own_nodes(node: ast.AST, excluded: set[ast.AST]) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The nodes of a function with their parents, without functions inside, which have their turn."""
    for child in ast.iter_child_nodes(node):
        if child in excluded or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        yield child, node
        yield from _own_nodes(child, excluded)


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _calls(node: ast.AST, names: frozenset[str]) -> list[ast.Call]:
    return [part for part in ast.walk(node) if isinstance(part, ast.Call) and _called(part) in names]


def _shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split("\n")[0].split())


def _replace(parent: ast.AST, old: ast.AST, new: ast.AST) -> Callable[[], None]:
    """Put one node in the place of another."""

    def change() -> None:
        ast.copy_location(new, old)
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list) and old in value:
                value[value.index(old)] = new

    return change


def _conditions(nodes: list[tuple[ast.AST, ast.AST]]) -> Iterator[Site]:
    for node, parent in nodes:
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg in CONDITIONS:
                    yield Site(keyword.lineno, "condition", _shown(node), _removal(node.keywords, keyword))
                elif keyword.arg == "when" and "ANYTHING" not in ast.unparse(keyword.value):
                    anything = ast.parse(_ANYTHING, mode="eval").body
                    change = _replace(keyword, keyword.value, anything)
                    yield Site(keyword.lineno, "condition", _shown(node), change)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in CONDITIONS:
                    change = _removal(node.keys, key, node.values, value)
                    yield Site(key.lineno, "condition", _shown(node), change)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            key = node.targets[0].slice
            if isinstance(key, ast.Constant) and key.value in CONDITIONS:
                yield Site(node.lineno, "condition", _shown(node), _replace(parent, node, ast.Pass()))


def _removal(place: list[Any], item: Any, *more: Any) -> Callable[[], None]:
    def change() -> None:
        place.remove(item)
        if more:
            more[0].remove(more[1])

    return change


def _read_backs(nodes: list[tuple[ast.AST, ast.AST]]) -> Iterator[Site]:
    writes = [node.lineno for node, _ in nodes if isinstance(node, ast.Call) and _called(node) in WRITES]
    if not writes:
        return
    first = min(writes)
    names = {
        target.id
        for node, _ in nodes
        if isinstance(node, ast.Assign) and node.lineno > first and _calls(node.value, READS)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node, parent in nodes:
        if not isinstance(node, ast.Compare) or node.lineno < first:
            continue
        mentions = any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))
        if mentions or any(call.lineno > first for call in _calls(node, READS)):
            for taken in (True, False):
                kind = f"read-back-{str(taken).lower()}"
                yield Site(node.lineno, kind, _shown(node), _replace(parent, node, ast.Constant(taken)))


def _increments(nodes: list[tuple[ast.AST, ast.AST]]) -> Iterator[Site]:
    for node, parent in nodes:
        is_one = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_one(node.right)
        if is_one and isinstance(node, ast.BinOp):
            yield Site(node.lineno, "plus-one", _shown(node), _replace(parent, node, node.left))
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _is_one(node.value):
            yield Site(node.lineno, "plus-one", _shown(node), _replace(parent, node, ast.Pass()))


def _is_one(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1


def _guards(nodes: list[tuple[ast.AST, ast.AST]]) -> Iterator[Site]:
    """A condition that ends or repeats an attempt, and a loop that repeats a write."""
    for node, parent in nodes:
        if isinstance(node, ast.If) and len(node.body) == 1 and not node.orelse:
            (only,) = node.body
            if isinstance(only, ast.Raise | ast.Continue | ast.Break | ast.Return):
                effect = only.lineno if only.lineno != node.lineno else 0
                yield Site(node.lineno, "guard", _shown(node), _replace(parent, node, ast.Pass()), effect)
        elif isinstance(node, ast.While) and _calls(node.test, WRITES):
            yield Site(node.lineno, "retry", _shown(node), _replace(parent, node, ast.Expr(node.test)))


def _orders(nodes: list[tuple[ast.AST, ast.AST]]) -> Iterator[Site]:
    """Two neighbouring statements of which one deletes, and neither needs what the other binds."""
    blocks = {id(block): block for _, parent in nodes for block in _blocks(parent)}
    for block in blocks.values():
        for at, (one, other) in enumerate(pairwise(block)):
            requests = all(_calls(node, READS | WRITES | DELETES) for node in (one, other))
            deletes = _calls(one, DELETES) or _calls(other, DELETES)
            if requests and deletes and not _depend(one, other):
                yield Site(one.lineno, "delete-order", f"{_shown(one)}; {_shown(other)}", _swap(block, at))


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    found = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [block for block in found if isinstance(block, list) and block and isinstance(block[0], ast.stmt)]


def _bound(node: ast.AST) -> set[str]:
    return {
        part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def _used(node: ast.AST) -> set[str]:
    return {
        part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
    }


def _depend(one: ast.AST, other: ast.AST) -> bool:
    """Return true if two statements cannot change places."""
    leave = any(isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break) for node in (one, other))
    return leave or bool(_bound(one) & _used(other) or _bound(other) & _used(one))


def _swap(block: list[ast.stmt], at: int) -> Callable[[], None]:
    def change() -> None:
        block[at], block[at + 1] = block[at + 1], block[at]

    return change
