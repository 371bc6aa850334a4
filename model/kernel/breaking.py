"""Find for each property a change of the machine that breaks it.

A property that nothing can break proves nothing: it may be true by its own text, or speak of what the machine
cannot do. The changes, in this order, each alone:

    safeguard    off, at the sizes that show its counterexample
    assumption   off
    action       it never happens
    guard        a `require`, or the guard of a parameter's domain, is left out
    effect       an assignment, or a call that changes the state, is left out
    condition    a conditional request of the model's store is sent without its condition
    part         one operand of a guard's `&` is left out
    standstill   no action happens: the last resort for what can be reached in several ways

Guards and effects are statements of actions, of ways to begin and of the definitions that they use. A change
that is no machine any more (a field leaves its range) is counted and breaks nothing. Each exploration is
bounded, so a property may break beyond the bound: then no change is found for it.
"""

import ast
import inspect
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from fencepost.model.kernel.check import check
from fencepost.model.kernel.language.declare import MARK, ActionDeclared, Among, Property
from fencepost.model.kernel.language.errors import ModelError, MustCall
from fencepost.model.kernel.language.machine import Machine, marked
from fencepost.model.kernel.language.model import Model
from fencepost.model.kernel.report.result import CheckResult

FACTOR, MORE = 3, 20_000
"""States of a changed machine, at most: those of the machine, so often, and so many more."""
_DEPTH = 12
"""Levels, at most, that are explored again of a machine that fails later."""
_COMPILED_FROM = 100_000
"""States from which compiling a changed machine takes less time than exploring it without."""
_KERNEL = Path(__file__).parent
_OURS = (_KERNEL, _KERNEL.parent / "store")
"""Folders of definitions that no author of a machine wrote."""


@dataclass(frozen=True)
class Change:
    """One change of a machine."""

    sort: str
    """`safeguard`, `assumption`, `action`, `guard`, `effect`, `condition`, `part` or `standstill`."""
    name: str
    """The switch, or the action or definition that is changed."""
    code: str = ""
    """The code that is left out, on one line."""
    line: int = 0
    """The line of the code in the file of the machine."""
    switch: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    make: Callable[[], Any] | None = None
    """Apply the change, for the time of a context."""

    def __str__(self) -> str:
        if self.sort in ("action", "standstill"):
            return f"{self.name} never happens"
        if self.switch:
            return f"without {self.name}"
        what = "without the condition of" if self.sort == "condition" else "without"
        return f"{self.name} {what} `{self.code}` (line {self.line})"


@dataclass(frozen=True)
class Breaking:
    """A property, and the first change that breaks it."""

    name: str
    kind: str
    doc: str
    change: Change | None
    """None: no change breaks it."""
    length: int = 0
    """Steps of the counterexample."""


@dataclass(frozen=True)
class Broken:
    """The changes that break each property of a machine."""

    model: str
    properties: tuple[Breaking, ...]
    tried: int
    """Number of changes that were explored."""
    left: int
    """Number of changes for which there was no time."""
    errors: int
    """Number of changes after which the machine could not be explored."""
    cut: int
    """Number of changes whose exploration met the bound."""
    seconds: float

    def sentence(self) -> str:
        """Return the extent of the search in one clause."""
        parts = [f"{self.tried} change{'' if self.tried == 1 else 's'} tried"]
        parts += [f"{self.left} left"] if self.left else []
        parts += [f"{self.errors} could not be explored"] if self.errors else []
        parts += [f"{self.cut} met the limit of states"] if self.cut else []
        return ", ".join(parts)

    @property
    def unbroken(self) -> tuple[str, ...]:
        """The properties that no change breaks."""
        return tuple(each.name for each in self.properties if each.change is None)


def what_breaks(
    machine: type[Machine],
    sizes: Mapping[str, int] | None = None,
    *,
    seconds: float | None = None,
    max_states: int | None = None,
    progress: Callable[[str], object] | None = None,
) -> Broken:
    """Return the first change that breaks each property; stop when each is broken, or after `seconds`.

    Raise ModelError if a property is violated without any change. At `sizes` of the caller it is left out:
    what shall be reachable may need larger ones.
    """
    from fencepost.model.kernel.compiled.build import has_compiler

    started = time.perf_counter()
    found: dict[str, Breaking] = {}
    base = Model(machine, sizes)
    plain = check(base, deadlock=False, max_states=max_states)
    broken = [each.name for each in plain.properties if each.verdict == "violated"]
    if broken and sizes is None:
        raise ModelError(f"{base.name} breaks {', '.join(broken)} without any change: repair that first")
    base.properties = tuple(each for each in base.properties if each.name not in broken)
    limit = FACTOR * plain.distinct + MORE
    limit = limit if max_states is None else min(limit, max_states)
    compiled = plain.distinct >= _COMPILED_FROM and has_compiler()
    every = [*changes(machine)]
    tried = errors = cut = 0
    for change in every:
        wanted = [each for each in base.properties if each.name not in found]
        if not wanted or (seconds is not None and time.perf_counter() - started > seconds):
            break
        tried += 1
        if progress is not None:
            progress(f"{base.name}: {tried} of {len(every)} changes, {len(found)} properties broken")
        with made(change):
            model = _changed(machine, {**base.sizes, **change.sizes}, change, wanted)
            result, failed = _explored(model, limit, compiled=compiled)
        errors += failed
        if result is None:
            continue
        cut += result.stopped_by != ""
        for each in result.properties:
            if each.verdict == "violated":
                (own,) = (one for one in wanted if one.name == each.name)
                length = max(0, len(each.trace) - 1)
                found[each.name] = Breaking(each.name, each.kind, own.doc, change, length)
    missing = {each.name: Breaking(each.name, each.kind.name, each.doc, None) for each in base.properties}
    return Broken(
        model=base.name,
        properties=tuple({**missing, **found}[each.name] for each in base.properties),
        tried=tried,
        left=len(every) - tried if len(found) < len(base.properties) else 0,
        errors=errors,
        cut=cut,
        seconds=time.perf_counter() - started,
    )


def _changed(
    machine: type[Machine], sizes: Mapping[str, int], change: Change, wanted: list[Property]
) -> Model:
    """The model with a change, which decides the wanted properties only."""
    model = Model(machine, sizes, without=[change.switch] if change.switch else [])
    names = {each.name for each in wanted}
    model.properties = tuple(each for each in model.properties if each.name in names)
    return model


def _explored(model: Model, limit: int, *, compiled: bool) -> tuple[CheckResult | None, bool]:
    """The result of a changed machine, and true if it is no machine any more from some level on.

    Then the levels before it are explored.
    """
    options: dict[str, Any] = {"deadlock": False, "keep_going": True, "max_states": limit}
    try:
        return check(model, **options, compiled=compiled), False
    except ModelError:
        found: CheckResult | None = None
        for depth in range(1, _DEPTH + 1):
            try:
                found = check(model, **options, max_depth=depth)
            except ModelError:
                break
        return found, True


@contextmanager
def made(change: Change) -> Iterator[None]:
    """Have a change for the time of a context; a switch is a parameter of the model instead."""
    if change.make is None:
        yield
        return
    undo = change.make()
    try:
        yield
    finally:
        undo()


def changes(machine: type[Machine]) -> Iterator[Change]:
    """All changes of a machine, those that most often break something first."""
    for switches, kind in ((machine.safeguards, "safeguard"), (machine.assumptions, "assumption")):
        for name in switches:
            yield Change(kind, name, switch=name, sizes=machine.shown_at.get(name, {}))
    declared = [*marked(machine, ActionDeclared)]
    functions = {each.name: _inner(each.function) for each in declared}
    for each in declared:
        if each.part == "action":
            yield from _of_function(each.name, functions[each.name], "action")
    for each in declared:
        yield from _of_domains(each)
    functions.update(_definitions(machine))
    for kind in ("guard", "effect", "condition", "part"):
        for name, function in functions.items():
            yield from _of_function(name, function, kind)
    yield _standstill(functions, declared)


def _standstill(functions: Mapping[str, Callable[..., Any]], declared: Sequence[ActionDeclared]) -> Change:
    """No action happens."""
    some = [each for each in declared if each.part == "action"]
    never = [change for each in some for change in _of_function(each.name, functions[each.name], "action")]

    def make() -> Callable[[], None]:
        undone = [change.make() for change in never if change.make is not None]

        def undo() -> None:
            for each in undone:
                each()

        return undo

    return Change("standstill", "any action", make=make)


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that the author wrote, below the decorators that keep it as `__wrapped__`."""
    inner: Callable[..., Any] = inspect.unwrap(function)
    return inner


def _definitions(machine: type[Machine]) -> dict[str, Callable[..., Any]]:
    """The methods without a role, by name; those that the kernel or the store's model defines left out."""
    found: dict[str, Callable[..., Any]] = {}
    for base in reversed(machine.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, MustCall) and getattr(value, MARK, None) is None:
                function = _inner(value.function)
                file = Path(getattr(getattr(function, "__code__", None), "co_filename", ""))
                if not any(file.is_relative_to(folder) for folder in _OURS):
                    found[name] = function
    return found


def _of_domains(declared: ActionDeclared) -> Iterator[Change]:
    """The guards of an action's domains."""
    for name, domain in declared.domains.items():
        if isinstance(domain, Among):
            line = getattr(getattr(_inner(declared.function), "__code__", None), "co_firstlineno", 0)

            def make(name: str = name, domain: Among = domain) -> Callable[[], None]:
                mark = getattr(declared.function, MARK)
                other = replace(mark, domains={**mark.domains, name: domain.domain})
                setattr(declared.function, MARK, other)
                return lambda: setattr(declared.function, MARK, mark)

            yield Change("guard", declared.name, domain.text(name, declared.domains), line, make=make)


def _of_function(name: str, function: Callable[..., Any], kind: str) -> Iterator[Change]:
    """The changes of one kind in the text of a function; none if its text cannot be read."""
    text = _Text.of(function)
    if text is None:
        return
    assert isinstance(function, FunctionType), "its text was read"
    for number, (node_kind, line, code, _) in enumerate(_sites(text.parsed())):
        if node_kind == kind:

            def make(number: int = number) -> Callable[[], None]:
                tree = text.parsed()
                [*_sites(tree)][number][3]()
                before = function.__code__
                function.__code__ = text.compiled(tree, before)
                return lambda: setattr(function, "__code__", before)

            yield Change(kind, name, code, line, make=make)


@dataclass(frozen=True)
class _Text:
    """The text of a function, with the number of its first line."""

    source: str
    first_line: int

    @staticmethod
    def of(function: Callable[..., Any]) -> "_Text | None":
        if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
            return None
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            return None
        text = _Text(textwrap.dedent("".join(lines)), first)
        try:
            parsed = text.parsed()
        except (SyntaxError, IndexError):
            return None  # a lambda in the middle of a statement, for example
        return text if parsed.name == function.__code__.co_name else None

    def parsed(self) -> ast.FunctionDef:
        tree = ast.parse(self.source)
        ast.increment_lineno(tree, self.first_line - 1)
        for each in tree.body:
            if isinstance(each, ast.FunctionDef):
                return each
        raise SyntaxError("the text has no function")

    def compiled(self, tree: ast.FunctionDef, before: CodeType) -> CodeType:
        """The code of the changed function, with the free names of the one before."""
        tree.decorator_list = []
        for argument in (*tree.args.args, *tree.args.kwonlyargs):
            argument.annotation = None
        tree.returns = None
        kept: list[ast.stmt] = [ast.Expr(ast.Name(each, ast.Load())) for each in before.co_freevars]
        if kept:  # a name that the change leaves unused must stay free
            tree.body.append(ast.If(ast.Constant(value=None), kept, []))
            tree.body.append(ast.FunctionDef("_", _no_arguments(), kept, [], lineno=0, col_offset=0))
        outer = ast.FunctionDef("outer", _no_arguments(before.co_freevars), [tree], [])
        module = ast.fix_missing_locations(ast.Module([outer], []))
        code = compile(module, before.co_filename, "exec", dont_inherit=True)
        return _code_named(_code_named(code, "outer"), tree.name)


def _no_arguments(names: tuple[str, ...] = ()) -> ast.arguments:
    return ast.arguments([], [ast.arg(each) for each in names], None, [], [], None, [])


def _code_named(code: CodeType, name: str) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)


_Site = tuple[str, int, str, Callable[[], None]]
"""Kind, line, the code that is left out, and the function that changes the tree."""


def _sites(function: ast.FunctionDef) -> Iterator[_Site]:
    first = function.body[1:] if ast.get_docstring(function) is not None else function.body

    def never() -> None:
        name = function.args.args[0].arg
        function.body[0:0] = ast.parse(f"{name}.require(False)").body

    if function.args.args and first:
        yield "action", function.lineno, function.name, never
    for block in _blocks(function):
        for at, statement in enumerate(block):
            yield from _of_statement(block, at, statement)
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from _of_request(node, node.func)


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _of_statement(block: list[ast.stmt], at: int, statement: ast.stmt) -> Iterator[_Site]:
    def left_out() -> None:
        block[at] = ast.copy_location(ast.Pass(), statement)

    line, code = statement.lineno, _shown(statement)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "require"):
            yield "effect", line, code, left_out
            return
        yield "guard", line, code, left_out
        for number, condition in enumerate(call.args):
            yield from _parts(call, number, condition, several=len(call.args) > 1)
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Attribute | ast.Subscript):
        yield "effect", line, code, left_out
    elif isinstance(statement, ast.Assign):
        (target,) = statement.targets[:1]
        if isinstance(target, ast.Attribute | ast.Subscript):
            yield "effect", line, code, left_out
        elif isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            yield from _pairs(target, statement.value)


def _of_request(call: ast.Call, method: ast.Attribute) -> Iterator[_Site]:
    """The condition of a request to a key."""
    match = any(each.arg == "match" for each in call.keywords)
    if not (match or method.attr == "create"):
        return

    def unconditional() -> None:
        method.value = ast.Call(ast.Attribute(method.value, "without_condition", ast.Load()), [], [])

    yield "condition", call.lineno, _shown(call), unconditional


def _parts(call: ast.Call, number: int, condition: ast.expr, *, several: bool) -> Iterator[_Site]:
    """One condition of several, and one operand of a `&`."""
    if several:

        def without() -> None:
            call.args[number] = ast.copy_location(ast.Constant(value=True), condition)

        yield "part", condition.lineno, _shown(condition), without
    if isinstance(condition, ast.BinOp) and isinstance(condition.op, ast.BitAnd):
        for kept, left in ((condition.left, condition.right), (condition.right, condition.left)):

            def only(kept: ast.expr = kept) -> None:
                call.args[number] = kept

            yield "part", left.lineno, _shown(left), only


def _pairs(target: ast.Tuple, value: ast.Tuple) -> Iterator[_Site]:
    """One assignment of several in a statement."""
    if len(target.elts) != len(value.elts):
        return
    for number, each in enumerate(target.elts):
        if isinstance(each, ast.Attribute | ast.Subscript):

            def without(number: int = number) -> None:
                del target.elts[number]
                del value.elts[number]

            yield "effect", each.lineno, f"{_shown(each)} = {_shown(value.elts[number])}", without


def _shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())
