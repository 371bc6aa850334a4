"""The decorators that give a method of a machine its role.

An action is what may happen, the others are what must hold:

    @initial           a way to begin; without one, every field's first value is the only start
    @action            one kind of transition; each choice of its parameters is a label of its own
    @invariant         holds in every reachable state
    @step              holds for every transition: a function of (before, after)
    @reachable         some reachable state satisfies it: without it, "never bad" may be vacuous
    @eventually        every fair run comes to satisfy it (fair: actions not ignored forever)
    @infinitely_often  every fair run comes to satisfy it again and again
    @leads_to          whenever the first of two conditions holds, every fair run comes to satisfy the second
    @always_recoverable  from every reachable state it can still be reached (AG EF)
    @bound             states that the search goes beyond: it cuts what does not satisfy it (a constraint)
    @may_end           states where nothing more needs to happen; any other end is a deadlock
    @without           replaces an action or a definition while a safeguard or an assumption is off

The domain of a parameter is a size, a number n (0..n-1), `Subsets(n)`, `Majorities(n)`, a Bag, Set or Channel
of the machine (one of its items), or the values themselves; `among` adds a guard on fields of the member. A
property with parameters holds for every choice of them, a `@reachable` one for some:

    @action(m=among(managers, manager="working"), vote=("yes", "no"))
    def prepare(s, m: int, vote: str) -> None: ...

    @invariant(m=managers)
    def prepared_first(s, m: int) -> Truth: ...

A property of one expression needs no method: its sentence is the argument.

    exclusion = invariant("Never two clients hold the lock.")(lambda s: s.at.count("holds") <= 1)

`define` names a short definition; `without` names its replacement while a safeguard or an assumption is off:

    is_fenced = define(lambda s, epoch, newest: newest > epoch)
    is_never_fenced = without("epoch-check", replaces=is_fenced)(lambda s, epoch, newest: False)
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dis import Instruction, get_instructions
from functools import partial, wraps
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import product
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from fencepost.model.kernel.language.columns import Truth, all_of, any_of, as_truth
from fencepost.model.kernel.language.errors import ModellingMistake, names, suggestion
from fencepost.model.kernel.language.fairness import Together
from fencepost.model.kernel.language.fields import AnyPlace, Extent, Field, Received, Subsets, resolve
from fencepost.model.kernel.language.kinds import (
    AlwaysRecoverable,
    Case,
    Eventually,
    InfinitelyOften,
    Invariant,
    Kind,
    LeadsTo,
    OfRuns,
    Reachable,
    Step,
)
from fencepost.model.kernel.language.numbers import Number
from fencepost.model.kernel.language.paths import is_computed, may_branch
from fencepost.model.kernel.language.roles import Role

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
Values = int | str | Extent | Subsets | Received[Any, Any] | AnyPlace | Role | Sequence[object]
MARK = "__fencepost__"


@dataclass(frozen=True)
class Among:
    """The members of a domain of which some fields have given values: see `among`."""

    domain: Values
    wanted: Mapping[str, object]

    def holds(self, s: Any, member: object, parameters: Mapping[str, object]) -> Truth:
        """True where `member` is one of them; `parameters` are those of the action."""
        return all_of(
            any_of(as_truth(cell == _named(cell, value, parameters)) for value in _alternatives(wanted))
            for cell, wanted in (
                (self._cell(s, name, member), wanted) for name, wanted in self.wanted.items()
            )
        )

    def _cell(self, s: Any, name: str, member: object) -> object:
        if isinstance(self.domain, Role):
            return getattr(getattr(s, self.domain.name)[member], name)
        return getattr(s, name)[member]

    def text(self, member: str, parameters: Container[str] = ()) -> str:
        """The guard as a statement would write it."""
        role = self.domain.name if isinstance(self.domain, Role) else ""
        return " and ".join(
            f"s.{role or name}[{member}]{f'.{name}' if role else ''} {_compared(wanted, parameters)}"
            for name, wanted in self.wanted.items()
        )


def _compared(wanted: object, parameters: Container[str]) -> str:
    written = [
        str(value) if value in parameters or not isinstance(value, str) else f'"{value}"'
        for value in _alternatives(wanted)
    ]
    return f"== {written[0]}" if len(written) == 1 else f"in {', '.join(written)}"


def _named(cell: object, value: object, parameters: Mapping[str, object]) -> object:
    """The value; where a number is compared with a name, the parameter of this name."""
    if not isinstance(cell, Number) or not isinstance(value, str):
        return value
    if value not in parameters:
        raise ModellingMistake(
            f"among compares a number with '{value}', which is no parameter of the action"
            f"{suggestion(value, parameters)}; its parameters are {names(parameters)}"
        )
    return parameters[value]


def _alternatives(wanted: object) -> tuple[object, ...]:
    return wanted if isinstance(wanted, tuple) else (wanted,)


def among(domain: Values, /, **wanted: object) -> Among:
    """In the domains of an action: the members of `domain` with these values in these arrays.

    Of a role they are its fields: `among(writer, at="commit")` is s.require(s.writer[w].at == "commit").

        @action(w=among(writers, at="commit"))
        def create_manifest(s, w: int) -> None: ...        # s.require(s.at[w] == "commit")

    A tuple of values is any of them. The name of another parameter is a number to compare with: with
    `o=among(openers, whose="w"), w=writers` opener o is one of w. All choices of `domain` are labels.
    """
    if isinstance(domain, Field) and not isinstance(domain, Role):
        raise ModellingMistake("among is of numbers: of an item require its parts, s.require(m.type == ...)")
    if not wanted:
        raise ModellingMistake('among(members) needs an array and a value, as in among(clients, at="idle")')
    return Among(domain, wanted)


Domain = Values | Among


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
    """A property: a name, a kind, one sentence."""

    name: str
    kind: Kind
    function: Callable[..., Any]
    doc: str
    fair: tuple[str | Together, ...] = ()
    strong: tuple[str | Together, ...] = ()
    domains: Mapping[str, Domain] = field(default_factory=dict)
    """Of a property of runs: the others have joined their choices already."""
    starts: Callable[..., Any] | None = None
    """A condition on every start, beside that on every step."""
    refines: Any = None
    """Of a refinement: its declaration, see `refinement.Refines`."""

    def cases(self, sizes: Mapping[str, int]) -> "Iterator[Case]":
        """Of a property of runs, a case for each choice of the parameters."""
        assert isinstance(self.kind, OfRuns), "other kinds have joined their choices"
        domains = {name: choices(domain, sizes) for name, domain in self.domains.items()}
        for values in product(*domains.values()):
            given = dict(zip(domains, values, strict=True))
            text = ", ".join(f"{name}={value}" for name, value in given.items())
            yield self.kind.case(self, text, given)


@dataclass(frozen=True)
class Ending:
    """States that may end."""

    name: str
    function: Callable[..., Any]


@dataclass(frozen=True)
class Constraint:
    """A condition that bounds the search."""

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
    check_statements(function)
    if hasattr(function, MARK):
        raise ModellingMistake(f"`{function.__name__}` has two decorators of a machine; give it one role")
    setattr(function, MARK, declared)
    return function


def declare_property(function: F, declared: Property) -> F:
    """Give a method the role of a property that was made of it."""
    return _mark(function, declared)


def check_statements(function: Callable[..., Any]) -> None:
    """An error for a comparison, or a name, that is a statement of its own: it has no effect."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    line, before = code.co_firstlineno, ""
    instructions = list(get_instructions(code))
    for place, instruction in enumerate(instructions):
        if before in _JOINS and _is_chained(instructions[place : place + 3]):
            raise ModellingMistake(
                f"in {function.__name__} ({Path(code.co_filename).name}:{line}): & and | bind tighter than "
                "==, so `a == b & c == d` compares b & c: write (a == b) & (c == d)"
            )
        if instruction.opname == "POP_TOP" and before in _LEAVE_A_VALUE:
            raise ModellingMistake(
                f"in {function.__name__} ({Path(code.co_filename).name}:{line}): a statement that compares "
                "or names something does nothing: s.require(...) is a guard, = assigns, (...) calls"
            )
        line = (instruction.positions.lineno if instruction.positions else None) or line
        before = instruction.opname
        if before == "BINARY_OP":
            before = instruction.argrepr


_JOINS = ("&", "|", "^")


def _is_chained(after: Sequence[Instruction]) -> bool:
    """True if these instructions compare the operand before them twice, on its left and on its right."""
    return [each.opname for each in after] == ["SWAP", "COPY", "COMPARE_OP"]


_LEAVE_A_VALUE = ("COMPARE_OP", "CONTAINS_OP", "IS_OP", "LOAD_ATTR")
"""Instructions whose result must be used."""


def _transition(part: Literal["action", "initial"], domains: Mapping[str, Domain]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        _check_domains(function, domains, 1)
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


def _check_domains(function: Callable[..., Any], domains: Mapping[str, Domain], rows: int) -> None:
    """An error unless the parameters behind the rows and the domains have the same names."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & (CO_VARARGS | CO_VARKEYWORDS):
        return
    if code.co_argcount < rows:
        raise ModellingMistake(
            f"`{function.__name__}` has no parameter for the states: "
            + ("a step takes the rows before and after: write def ...(before, after)" if rows > 1 else "")
            + ("its first parameter is the states: write def ...(s)" if rows == 1 else "")
        )
    known = code.co_varnames[rows : code.co_argcount + code.co_kwonlyargcount]
    optional = known[len(known) - len(function.__defaults__ or ()) :]
    name = function.__name__
    for each in domains:
        if each not in known:
            raise ModellingMistake(
                f"`{name}` has no parameter `{each}`{suggestion(each, known)}, to which its decorator gives "
                f"a domain: its parameters are {names(known)}"
            )
    missing = [each for each in known if each not in domains and each not in optional]
    if missing:
        raise ModellingMistake(
            f"`{name}` takes {names(missing)}, and its decorator gives no domain for it: write "
            f"@...({missing[0]}=...) with a size, a number or the values"
        )


def _property(
    function: F,
    kind: Kind,
    domains: Mapping[str, Domain],
    fair: Sequence[str | Together] = (),
    doc: str = "",
) -> F:
    code = getattr(function, "__code__", None)
    parameters = code.co_varnames[: code.co_argcount] if code is not None else ()
    if kind.rows == 2 and (parameters[:1] == ("after",) or parameters[1:2] == ("before",)):
        raise ModellingMistake(
            f"`{function.__name__}` takes {', '.join(parameters)}: a step takes the rows before first, "
            "and then those after: write (before, after)"
        )
    for name, domain in domains.items():
        if isinstance(domain, Received):
            raise ModellingMistake(
                f"`{function.__name__}` takes `{name}` from a bag, a set or a channel: only actions do; in a "
                "property write s.network.all(lambda m: ...) or .any(...)"
            )
        if isinstance(domain, Among):
            raise ModellingMistake(
                f"`{function.__name__}` takes `{name}` among those with {domain.text(name)}: that is a guard "
                "of an action; in a property write implies(condition, then), or & in a @reachable"
            )
    _check_domains(function, domains, kind.rows)
    quantified = _quantified(function, domains, any_of if kind.decided_by else all_of)
    doc = doc or sentence(function)
    return _mark(function, Property(function.__name__, kind, quantified, doc, tuple(fair)))


def _quantified(
    function: Callable[..., Any], domains: Mapping[str, Domain], join: Callable[..., Truth]
) -> Callable[..., Any]:
    """The property for all choices of its parameters at once."""
    is_candidate = may_branch(function)

    @wraps(function)
    def joined(*rows: Any) -> Truth:
        sizes = rows[0].frame.model.sizes
        values = product(*(choices(domain, sizes) for domain in domains.values()))
        odd: list[Any] = []

        def truths() -> Iterator[Any]:
            for each in values:
                given = partial(function, *rows, **dict(zip(domains, each, strict=True)))
                frame = rows[0].frame
                is_own = is_candidate and is_computed(function, frame)
                truth = frame.branching.computed(given) if is_own else given()
                if isinstance(truth, Truth | bool):
                    yield truth
                else:
                    odd.append(truth)

        found = join(truths())
        return odd[0] if odd else found  # an error, as that of a property without parameters

    return joined if domains else function


def _declare(given: F | str, kind: Kind, domains: Mapping[str, Domain]) -> F | Callable[[F], F]:
    if isinstance(given, str):
        return lambda each: _property(each, kind, domains, doc=given)
    return _property(given, kind, domains)


def declares(kind: Kind) -> Callable[..., Any]:
    """A decorator for properties of a kind that a search judges: plain, with a sentence, or with domains."""
    if kind.of_runs:
        raise ModellingMistake(f"properties of runs take fairness: write a decorator for {kind.name}")

    def decorator(given: Any = "", /, **domains: Domain) -> Any:
        return _declare(given, kind, domains)

    return decorator


@overload
def invariant(function: F, /) -> F: ...
@overload
def invariant(doc: str = "", /, **domains: Domain) -> Callable[[F], F]: ...
def invariant(given: F | str = "", /, **domains: Domain) -> F | Callable[[F], F]:
    """Holds in every reachable state."""
    return _declare(given, Invariant(), domains)


@overload
def step(function: F, /) -> F: ...
@overload
def step(doc: str = "", /, **domains: Domain) -> Callable[[F], F]: ...
def step(given: F | str = "", /, **domains: Domain) -> F | Callable[[F], F]:
    """Holds for every transition: a function of the rows before and the rows after."""
    return _declare(given, Step(), domains)


@overload
def reachable(function: F, /) -> F: ...
@overload
def reachable(doc: str = "", /, **domains: Domain) -> Callable[[F], F]: ...
def reachable(given: F | str = "", /, **domains: Domain) -> F | Callable[[F], F]:
    """Some reachable state satisfies it; the trace of the verdict is a shortest path there."""
    return _declare(given, Reachable(), domains)


@overload
def always_recoverable(function: F, /) -> F: ...
@overload
def always_recoverable(doc: str, /) -> Callable[[F], F]: ...
def always_recoverable(given: F | str, /) -> F | Callable[[F], F]:
    """From every reachable state, a state that satisfies it can still be reached (AG EF)."""
    return _declare(given, AlwaysRecoverable(), {})


Fair = Sequence[str | Together]


def _of_runs(
    kind: Kind, doc: str, fair: Fair, strong: Fair, domains: Mapping[str, Domain]
) -> Callable[[F], F]:
    if callable(doc):
        raise ModellingMistake(
            f"`{getattr(doc, '__name__', kind.name)}`: write @{kind.name}(fair=(...)) with the actions that "
            f"are not ignored forever, or @{kind.name}() where a run may stop anywhere"
        )
    for name, each in (("fair", fair), ("strong", strong)):
        if isinstance(each, str):
            raise ModellingMistake(f"{name}='{each}' must be a tuple of names: write {name}=('{each}',)")

    def decorate(function: F) -> F:
        _check_domains(function, domains, 1)
        text = doc or sentence(function)
        declared = Property(
            function.__name__, kind, function, text, tuple(fair), tuple(strong), dict(domains)
        )
        return _mark(function, declared)

    return decorate


def eventually(
    doc: str = "", /, *, fair: Fair = (), strong: Fair = (), **domains: Domain
) -> Callable[[F], F]:
    """Every run reaches it, given that nothing named in `fair` stays enabled forever without happening.

    The name of an action is one demand for each choice of its parameters; `together` joins several actions.
    Actions in `strong` must happen again and again if they are enabled again and again, even with pauses.
    """
    return _of_runs(Eventually(), doc, fair, strong, domains)


def infinitely_often(
    doc: str = "", /, *, fair: Fair = (), strong: Fair = (), **domains: Domain
) -> Callable[[F], F]:
    """From every reachable state, every fair run reaches it: it comes true again and again ([]<>)."""
    return _of_runs(InfinitelyOften(), doc, fair, strong, domains)


def leads_to(doc: str = "", /, *, fair: Fair = (), strong: Fair = (), **domains: Domain) -> Callable[[F], F]:
    """Whenever the first condition holds, every fair run reaches the second, then or later (p ~> q).

    @leads_to(fair=("grant",), c=clients)
    def served(s, c: int) -> tuple[Truth, Truth]:
        return s.at[c] == "waits", s.at[c] == "holds"
    """
    return _of_runs(LeadsTo(), doc, fair, strong, domains)


def may_end(function: F) -> F:
    """States where nothing more needs to happen."""
    return _mark(function, Ending(function.__name__, function))


def bound(function: F) -> F:
    """The search goes on only from states that satisfy it; the others are judged and left (a constraint).

    The verdict says what was cut: properties of runs, and what is reachable, are then undecided.
    """
    return _mark(function, Constraint(function.__name__, function))


def define(body: Callable[..., Any], /) -> Callable[..., Truth]:
    """A condition in one line; `@without` declares what replaces it."""
    check_statements(body)
    return body


def without(
    *switches: str, replaces: Callable[Concatenate[Any, P], R]
) -> Callable[[Callable[Concatenate[Any, P], R | int]], Callable[Concatenate[Any, P], R]]:
    """Replaces an action or a definition while one of these safeguards or assumptions is off.

        @action(w=writers)
        def put_manifest(s, w: int) -> None: ...

        @without("create-only-manifest", replaces=put_manifest)
        def overwrite_manifest(s, w: int) -> None: ...

        def is_fenced(s, epoch: Number) -> Truth: ...

        @without("epoch-check", replaces=is_fenced)
        def is_never_fenced(s, epoch: Number) -> bool:
            return False

    The replacement takes the same parameters; for a Truth it may return True or False, and for a Number a
    whole number. A replaced action keeps its name and its labels. A method of a
    base class is `replaces=Base.put_manifest`. The replacement can call the original as a function of the
    class, `Publish.put_manifest(s, w)`. If several replacements of one method apply, the last declared wins.
    """
    if not switches:
        raise ModellingMistake('without needs a safeguard or an assumption: @without("name", replaces=...)')

    def decorate(function: Callable[Concatenate[Any, P], R | int]) -> Callable[Concatenate[Any, P], R]:
        marked: Any = _mark(function, Replacement(switches, replaces, function))
        return marked  # type: ignore[no-any-return]  # a plain value becomes a column where it is called

    return decorate


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters, without the first, the rows."""
    code = function.__code__
    return code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]


def choices(domain: Domain, sizes: Mapping[str, int]) -> tuple[object, ...]:
    """The values of a parameter, in order."""
    values = domain.domain if isinstance(domain, Among) else domain
    if isinstance(values, Role):
        return tuple(range(resolve(values.extent, sizes)))
    if isinstance(values, int | str | Extent):
        return tuple(range(resolve(values, sizes)))
    if isinstance(values, Subsets | Received | AnyPlace):
        return values.within(sizes)
    if isinstance(values, Field):
        raise ModellingMistake(
            f"`{values.name}` is no domain: a parameter is an item of a Bag, a Set or a Channel that is "
            f"a field itself; of an array of them take the places, k=2 and s.{values.name}[i].at(k)"
        )
    return tuple(values)
