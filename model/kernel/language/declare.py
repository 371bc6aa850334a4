"""The decorators that give a method of a machine its role.

An action is what may happen, the others are what must hold:

    @initial           a way to begin; without one, every field's first value is the only start
    @action            one kind of transition; each choice of its parameters is a label of its own
    @invariant         holds in every reachable state
    @step              holds for every transition: a function of (before, after)
    @reachable         some reachable state satisfies it: without it, "never bad" may be vacuous
    @eventually        every fair run comes to satisfy it (fair: actions not ignored forever)
    @always_recoverable  from every reachable state it can still be reached (AG EF)
    @may_end           states where nothing more needs to happen; any other end is a deadlock
    @without           replaces an action or a definition while a safeguard or an assumption is off

The domain of a parameter is a size, a number n (0..n-1), or the values themselves. A property with parameters
holds for every choice of them, a `@reachable` one for some choice:

    @action(m=managers, vote=("yes", "no"))
    def prepare(s, m: int, vote: str) -> None: ...

    @invariant(m=managers)
    def prepared_first(s, m: int) -> Truth: ...

`define` names a short definition, and what takes its place while a safeguard or an assumption is off:

    is_fenced = define(lambda s, epoch, newest: newest > epoch, without={"epoch-check": False})
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dis import get_instructions
from functools import wraps
from itertools import product
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from fencepost.model.kernel.language.columns import Truth, all_of, any_of
from fencepost.model.kernel.language.errors import ModellingMistake
from fencepost.model.kernel.language.fairness import Together
from fencepost.model.kernel.language.fields import Extent, resolve

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
Domain = int | str | Extent | Sequence[object]
Kind = Literal["invariant", "step", "reachable", "eventually", "always_recoverable", "deadlock"]
Off = Mapping[str | tuple[str, ...], Any]
MARK = "__fencepost__"
OFF = "__fencepost_off__"


@dataclass(frozen=True)
class ActionDeclared:
    """An action, or a way to begin, before the sizes are known."""

    name: str
    part: Literal["action", "initial"]
    function: Callable[..., Any]
    domains: Mapping[str, Domain]
    doc: str


@dataclass(frozen=True)
class Property:
    """What must hold: a name, a kind, one sentence."""

    name: str
    kind: Kind
    function: Callable[..., Any]
    doc: str
    fair: tuple[str | Together, ...] = ()


@dataclass(frozen=True)
class Ending:
    """States that may end."""

    name: str
    function: Callable[..., Any]


@dataclass(frozen=True)
class Replacement:
    """A method that takes the place of another while one of these switches is off."""

    switches: tuple[str, ...]
    replaces: Callable[..., Any]
    function: Callable[..., Any]


def sentence(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((function.__doc__ or "").strip().split("\n\n")[0].split())


def _mark(function: F, declared: object) -> F:
    _check_statements(function)
    if hasattr(function, MARK):
        raise ModellingMistake(f"`{function.__name__}` has two decorators of a machine; give it one role")
    setattr(function, MARK, declared)
    return function


def _check_statements(function: Callable[..., Any]) -> None:
    """An error for a comparison, or a name, that is a statement of its own: it has no effect."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    line, before = code.co_firstlineno, ""
    for instruction in get_instructions(code):
        if instruction.opname == "POP_TOP" and before in _LEAVE_A_VALUE:
            raise ModellingMistake(
                f"in {function.__name__} ({Path(code.co_filename).name}:{line}): a statement that compares "
                "or names something does nothing: s.require(...) is a guard, = assigns, (...) calls"
            )
        line = (instruction.positions.lineno if instruction.positions else None) or line
        before = instruction.opname


_LEAVE_A_VALUE = ("COMPARE_OP", "CONTAINS_OP", "IS_OP", "LOAD_ATTR")
"""Instructions whose result must be used."""


def _transition(part: Literal["action", "initial"], domains: Mapping[str, Domain]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        declared = ActionDeclared(function.__name__, part, function, dict(domains), sentence(function))
        return _mark(function, declared)

    return decorate


@overload
def action(function: F, /) -> F: ...
@overload
def action(**domains: Domain) -> Callable[[F], F]: ...
def action(function: F | None = None, /, **domains: Domain) -> F | Callable[[F], F]:
    """A transition that may happen in every state where its guards hold."""
    return _transition("action", domains) if function is None else _transition("action", {})(function)


@overload
def initial(function: F, /) -> F: ...
@overload
def initial(**domains: Domain) -> Callable[[F], F]: ...
def initial(function: F | None = None, /, **domains: Domain) -> F | Callable[[F], F]:
    """A way to begin: changes the fields' first values; one start for each choice of its parameters."""
    return _transition("initial", domains) if function is None else _transition("initial", {})(function)


def _property(
    function: F, kind: Kind, domains: Mapping[str, Domain], fair: Sequence[str | Together] = ()
) -> F:
    code = getattr(function, "__code__", None)
    parameters = code.co_varnames[: code.co_argcount] if code is not None else ()
    if kind == "step" and (parameters[:1] == ("after",) or parameters[1:2] == ("before",)):
        raise ModellingMistake(
            f"`{function.__name__}` takes {', '.join(parameters)}: a step takes the rows before first, "
            "and then those after: write (before, after)"
        )
    quantified = _quantified(function, domains, any_of if kind == "reachable" else all_of)
    return _mark(function, Property(function.__name__, kind, quantified, sentence(function), tuple(fair)))


def _quantified(
    function: Callable[..., Any], domains: Mapping[str, Domain], join: Callable[..., Truth]
) -> Callable[..., Any]:
    """The property for all choices of its parameters at once."""

    @wraps(function)
    def joined(*rows: Any) -> Truth:
        sizes = rows[0].frame.model.sizes
        values = product(*(choices(domain, sizes) for domain in domains.values()))
        return join(function(*rows, **dict(zip(domains, each, strict=True))) for each in values)

    return joined if domains else function


def _declare(function: F | None, kind: Kind, domains: Mapping[str, Domain]) -> F | Callable[[F], F]:
    if function is None:
        return lambda each: _property(each, kind, domains)
    return _property(function, kind, domains)


@overload
def invariant(function: F, /) -> F: ...
@overload
def invariant(**domains: Domain) -> Callable[[F], F]: ...
def invariant(function: F | None = None, /, **domains: Domain) -> F | Callable[[F], F]:
    """Holds in every reachable state."""
    return _declare(function, "invariant", domains)


@overload
def step(function: F, /) -> F: ...
@overload
def step(**domains: Domain) -> Callable[[F], F]: ...
def step(function: F | None = None, /, **domains: Domain) -> F | Callable[[F], F]:
    """Holds for every transition: a function of the rows before and the rows after."""
    return _declare(function, "step", domains)


@overload
def reachable(function: F, /) -> F: ...
@overload
def reachable(**domains: Domain) -> Callable[[F], F]: ...
def reachable(function: F | None = None, /, **domains: Domain) -> F | Callable[[F], F]:
    """Some reachable state satisfies it; the trace of the verdict is a shortest path there."""
    return _declare(function, "reachable", domains)


def always_recoverable(function: F) -> F:
    """From every reachable state, a state that satisfies it can still be reached (AG EF)."""
    return _property(function, "always_recoverable", {})


def eventually(*, fair: Sequence[str | Together] = ()) -> Callable[[F], F]:
    """Every run reaches it, given that nothing named in `fair` stays enabled forever without happening.

    The name of an action is one demand for each choice of its parameters; `together` joins several actions.
    """
    if isinstance(fair, str):
        raise ModellingMistake(f"fair='{fair}' must be a tuple of names: write fair=('{fair}',)")
    return lambda function: _property(function, "eventually", {}, fair)


def may_end(function: F) -> F:
    """States where nothing more needs to happen."""
    return _mark(function, Ending(function.__name__, function))


@overload
def define(body: str, /, without: Off = ...) -> Callable[..., str]: ...
@overload
def define(body: Callable[..., Any] | bool, /, without: Off = ...) -> Callable[..., Truth]: ...
@overload
def define(*, without: Off) -> Callable[[F], F]: ...
def define(body: Any = None, /, without: Off = MappingProxyType({})) -> Any:
    """A condition or a constant in one line, with what it is while a safeguard or an assumption is off.

    Above any other definition, a method: `@define(without={"late-head": False})`. Two switches with one
    effect are a tuple. If several are off, the last one wins.
    """
    if body is None:
        return lambda function: define(function, without)
    function = _as_function(body)
    _check_statements(function)
    off = [
        Replacement((switches,) if isinstance(switches, str) else switches, function, _as_function(value))
        for switches, value in without.items()
    ]
    setattr(function, OFF, tuple(off))
    return function


def _as_function(value: Any) -> Callable[..., Any]:
    if isinstance(value, FunctionType):
        return value
    result = Truth.constant(value) if isinstance(value, bool) else value
    return lambda *_of_any, **_kind: result


def without(
    *switches: str, replaces: Callable[Concatenate[Any, P], R]
) -> Callable[[Callable[Concatenate[Any, P], R]], Callable[Concatenate[Any, P], R]]:
    """Replaces an action or a definition while one of these safeguards or assumptions is off.

        @action(w=writers)
        def put_manifest(s, w: int) -> None: ...

        @without("create-only-manifest", replaces=put_manifest)
        def overwrite_manifest(s, w: int) -> None: ...

    The replacement takes the same parameters. A replaced action keeps its name and its labels. A method of a
    base class is `replaces=Base.put_manifest`. The replacement can call the original as a function of the
    class, `Publish.put_manifest(s, w)`. If several replacements of one method apply, the last declared wins.
    """
    if not switches:
        raise ModellingMistake('without needs a safeguard or an assumption: @without("name", replaces=...)')
    return lambda function: _mark(function, Replacement(switches, replaces, function))


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters, without the first, the rows."""
    code = function.__code__
    return code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]


def choices(domain: Domain, sizes: Mapping[str, int]) -> tuple[object, ...]:
    """The values of a parameter, in order."""
    if isinstance(domain, int | str | Extent):
        return tuple(range(resolve(domain, sizes)))
    return tuple(domain)
