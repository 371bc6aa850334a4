"""The lines of a program's functions that some schedule executes.

The functions that the program reaches are compiled again from their source, with a call before every
statement that records its line, as `sim.threads.lines` does for pauses. Functions without source are left
as they are.
"""

import ast
import builtins
import functools
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fencepost.sim.threads.lines import code_place, functions_of, nested_codes
from fencepost.sim.world.located import relative
from fencepost.sim.world.present import is_library_file, is_users
from fencepost.sim.world.sites import Sites

_HOOK = "__fencepost_ran__"


@contextmanager
def recording(program: Any, sites: Sites) -> Iterator[None]:
    """Record in `sites` which lines of the program run."""
    changed: list[tuple[types.FunctionType, types.CodeType]] = []
    files: dict[str, dict[Any, types.CodeType]] = {}
    setattr(builtins, _HOOK, sites.ran.add)
    try:
        reached = {*functions_of(program)}
        for function in {*reached, *_of_modules(program, reached)}:
            file = function.__code__.co_filename
            if is_library_file(file):
                continue  # for example a wrapper that a decorator of the library gave the name of its module
            if file not in files:
                files[file] = _compiled(file, relative(file), _modified_ns(file))
            code = files[file].get(code_place(function.__code__))
            if code is not None and function.__code__ is not code:
                changed.append((function, function.__code__))
                function.__code__ = code
                _count(code, sites)
        yield
    finally:
        for function, code in changed:
            function.__code__ = code
        vars(builtins).pop(_HOOK, None)


def _of_modules(program: Any, reached: set[types.FunctionType]) -> Iterator[types.FunctionType]:
    """Yield the functions of the modules that the program names, which it may reach by names only."""
    for module in _named_modules(program, reached):
        for value in [*vars(module).values()]:
            # By type: `isinstance` asks the object for its class, and objects may refuse to answer.
            owned = [*vars(value).values()] if issubclass(type(value), type) else [value]
            for one in owned:
                function = one.__func__ if type(one) in (staticmethod, classmethod) else one
                if type(function) is types.FunctionType and function.__module__ == module.__name__:
                    yield function


def _named_modules(program: Any, reached: set[types.FunctionType]) -> Iterator[types.ModuleType]:
    """Yield the user's modules with code that the program reaches, and those that they name, and so on.

    Not every module that is loaded: a session of pytest holds those of all tests.
    """
    own = getattr(program, "__module__", "")
    seen = {own, *(function.__module__ for function in reached)}
    left = sorted(map(str, seen))
    while left:
        name = left.pop(0)
        module = sys.modules.get(name)
        # An audit command loads examples of ours: they are the user's only if one of them is audited.
        if module is None or not is_users(module) or (name != own and name.startswith("fencepost.")):
            continue
        yield module
        file = getattr(module, "__file__", None) or ""
        named = _named(file, getattr(module, "__package__", None) or "", _modified_ns(file)) - seen
        seen |= named
        left += sorted(named)


@functools.lru_cache(4096)
def _named(file: str, package: str, _stamp: int) -> frozenset[str]:
    """Return the modules that a file imports anywhere, and every text in it, which may name one."""
    try:
        tree = ast.parse(Path(file).read_bytes(), file)
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                found.update(alias.name for alias in node.names)
            case ast.ImportFrom():
                above = package.split(".")[: 1 - node.level or None] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
            case ast.Constant(value=str(text)) if all(part.isidentifier() for part in text.split(".")):
                found.add(text)
    # The import of a module runs the packages that it lies in.
    return frozenset(name.rsplit(".", more)[0] for name in found for more in range(name.count(".") + 1))


def _count(code: types.CodeType, sites: Sites) -> None:
    """Take up the lines of a function and of the functions in it."""
    for one in (code, *nested_codes(code)):
        for constant in one.co_consts:
            if isinstance(constant, tuple) and len(constant) == 2 and isinstance(constant[1], int):
                file, line = constant
                if file == relative(one.co_filename):
                    sites.lines.setdefault(file, {})[line] = one.co_name


def _modified_ns(file: str) -> int:
    try:
        return Path(file).stat().st_mtime_ns
    except (OSError, ValueError):
        return 0


@functools.lru_cache(4096)
def _compiled(file: str, name: str, _stamp: int) -> dict[Any, types.CodeType]:
    """Return the functions of a file, compiled again.

    `--mutate` audits a program many times, and each audit looks at all modules of the user.
    """
    try:
        tree = ast.parse(Path(file).read_bytes(), file)
    except (OSError, SyntaxError, ValueError):
        return {}
    inserter = _Inserter(name)
    module = compile(ast.fix_missing_locations(inserter.visit(tree)), file, "exec", dont_inherit=True)
    return {code_place(code): code for code in nested_codes(module)}


class _Inserter(ast.NodeTransformer):
    """Inserts a call before every statement of a function."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._depth = 0

    def visit_FunctionDef(self, node: Any) -> Any:  # ast calls it by this name
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # as above

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if self._depth and not isinstance(node, ast.ClassDef):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list):
                    setattr(node, name, [after for one in block for after in self._recorded(one)])
        return node

    def _recorded(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.Global | ast.Nonlocal) or _is_text(statement):
            return [statement]
        place = ast.Tuple([ast.Constant(self._file), ast.Constant(statement.lineno)], ast.Load())
        call = ast.Expr(ast.Call(ast.Name(_HOOK, ast.Load()), [place], []))
        return [ast.copy_location(call, statement), statement]


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
