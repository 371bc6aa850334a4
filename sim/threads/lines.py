"""Steps between the lines of threads that share what they change.

Theory. Python code between two steps of a thread is atomic in a world. It is not atomic in an interpreter:
another thread may go on between any two lines. It matters only where threads share memory that
one of them changes. `sharing` finds the names by which code refers to such memory: attributes, variables of a
module, and variables that hold a shared container. A second search then offers a step before every line of
the user's functions that has such a name, before which other threads may go on.

The functions are compiled again from their source, with a call of `pause_before` before each of these lines.
That is not done for libraries, and not for code whose source is not there. One line is atomic all the same,
and a thread pauses at most `PASSES_MAX` times before the same line.
"""

import ast
import builtins
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from greenlet import getcurrent

from fencepost.sim.threads.waiting import caller
from fencepost.sim.world import places
from fencepost.sim.world.operations import NextLine
from fencepost.sim.world.present import is_users
from fencepost.sim.world.reachable import reachable
from fencepost.sim.world.store import issue
from fencepost.sim.world.thread_steps import has_rival

PASSES_MAX = 2
"""Number of times that a thread pauses before the same line, at most."""
_HOOK = "__fencepost_pause__"

Place = tuple[str, int, tuple[str, ...]]
"""Qualified name of a function, its first line, and its free variables."""


class _Applied:
    """The pauses that are in place."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        self.program: Any = None
        self.functions: list[tuple[types.FunctionType, types.CodeType]] = []
        """Functions that have other code now, and their own."""


_applied = _Applied()


def apply(program: Any, names: frozenset[str]) -> int:
    """Put a pause before every line of a program that has one of these names.

    Returns the number of functions that have such a line.
    """
    if names != _applied.names or program is not _applied.program:
        remove()
        _applied.names, _applied.program = names, program
        setattr(builtins, _HOOK, pause_before)
        files: dict[str, dict[Place, types.CodeType]] = {}
        for function in functions_of(program):
            file = function.__code__.co_filename
            if file not in files:
                files[file] = _compiled(file, names)
            code = files[file].get(code_place(function.__code__))
            if code is not None:
                _applied.functions.append((function, function.__code__))
                function.__code__ = code
    return len(_applied.functions)


def remove() -> None:
    """Give every function its own code back."""
    for function, code in _applied.functions:
        function.__code__ = code
    _applied.functions.clear()
    _applied.names, _applied.program = frozenset(), None
    vars(builtins).pop(_HOOK, None)


places.removers.append(remove)


def pause_before(line: str) -> None:
    """Let other threads of the process go on, where a line of user code begins."""
    now = caller()
    if now is None or not now.run.settings.lines or now.process.crashing or now.alone():
        return
    process = now.process
    if getcurrent() is not process.worker or not has_rival(process):
        return
    passes = now.state(("lines", process), dict[str, int])
    if passes.get(line, 0) >= PASSES_MAX:
        now.run.leave_lines_out()
        return
    passes[line] = passes.get(line, 0) + 1
    issue(now.run, process, NextLine(line, len(now.run.trace) - 1))


def functions_of(program: Any) -> Iterator[types.FunctionType]:
    """Yield the functions of the user that a program reaches; those that it makes are parts of them."""
    from fencepost.sim.world.variables import is_followed

    for found in reachable(program, is_followed):
        if type(found) is types.FunctionType:
            module = sys.modules.get(found.__globals__.get("__name__", ""))
            if module is not None and is_users(module):
                yield found


def code_place(code: types.CodeType) -> Place:
    """Return what identifies a function in its file."""
    return code.co_qualname, code.co_firstlineno, code.co_freevars


def _compiled(file: str, names: frozenset[str]) -> dict[Place, types.CodeType]:
    """Return the functions of a file that get pauses, compiled again."""
    try:
        tree = ast.parse(Path(file).read_bytes(), file)
    except (OSError, SyntaxError, ValueError):
        return {}
    inserter = _Inserter(names, Path(file).name)
    module = compile(ast.fix_missing_locations(inserter.visit(tree)), file, "exec", dont_inherit=True)
    return {code_place(code): code for code in nested_codes(module) if _HOOK in _all_names(code)}


def nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the functions in a function or module, however deep."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from nested_codes(constant)


def _all_names(code: types.CodeType) -> set[str]:
    """Return the names that a function and the functions in it use."""
    return {*code.co_names, *(name for inner in nested_codes(code) for name in inner.co_names)}


class _Inserter(ast.NodeTransformer):
    """Inserts a call before every line of a function that has one of the names."""

    def __init__(self, names: frozenset[str], file: str) -> None:
        self._names = names
        self._file = file
        self._depth = 0

    def visit_FunctionDef(self, node: Any) -> Any:  # ast calls it by this name
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # as above

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:  # as above
        depth, self._depth = self._depth, 0
        self.generic_visit(node)
        self._depth = depth
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if self._depth:
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list):
                    setattr(node, name, [after for one in block for after in self._with_pause(one)])
        return node

    def _with_pause(self, statement: ast.stmt) -> list[ast.stmt]:
        if not any(self._has_name(part) for part in _own_parts(statement)):
            return [statement]
        pause = self._pause(statement)
        if isinstance(statement, ast.While) and not statement.orelse:
            # Its condition is a line of every round.
            test = ast.If(ast.UnaryOp(ast.Not(), statement.test), [ast.Break()], [])
            whole = ast.While(ast.Constant(value=True), [pause, test, *statement.body], [])
            ast.copy_location(test, statement.test)
            return [ast.copy_location(whole, statement)]
        return [pause, statement]

    def _has_name(self, part: ast.AST) -> bool:
        return any(
            (isinstance(one, ast.Attribute) and one.attr in self._names)
            or (isinstance(one, ast.Name) and one.id in self._names)
            for one in ast.walk(part)
        )

    def _pause(self, statement: ast.stmt) -> ast.stmt:
        line = ast.Constant(value=f"{self._file}:{statement.lineno}")
        call = ast.Call(ast.Name(_HOOK, ast.Load()), [line], [])
        return ast.copy_location(ast.Expr(call), statement)


def _own_parts(statement: ast.stmt) -> list[Any]:
    """Return the parts of a statement that run when it begins, without the blocks in it."""
    match statement:
        case (
            ast.FunctionDef()
            | ast.AsyncFunctionDef()
            | ast.ClassDef()
            | ast.Try()
            | ast.Global()
            | ast.Nonlocal()
        ):
            return []
        case ast.If(test=test) | ast.While(test=test):
            return [test]
        case ast.For(target=target, iter=iterated) | ast.AsyncFor(target=target, iter=iterated):
            return [target, iterated]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return list(items)
        case ast.Match(subject=subject):
            return [subject]
        case _:
            return [statement]
