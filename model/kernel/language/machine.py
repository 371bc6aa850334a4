"""The base class of every machine.

A machine is a class: its fields are the state, its decorated methods the actions and properties. An instance,
called `s`, is not one state but a batch of them, the rows of one call of an action or a property. `s.field`
is a column, `s.field = column` writes one, and `s.require` keeps the rows where a condition holds. The text
is the same for one row and for a million.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from inspect import CO_VARARGS
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from fencepost.model.kernel.language.columns import Truth, describe
from fencepost.model.kernel.language.declare import (
    MARK,
    ActionDeclared,
    Constraint,
    Ending,
    Property,
    Replacement,
    action,
    check_statements,
    parameters_of,
)
from fencepost.model.kernel.language.errors import (
    ModellingMistake,
    MustCall,
    NoValue,
    missing_return,
    must_call,
    names,
    suggestion,
)
from fencepost.model.kernel.language.fields import AnyPlace, Channel, Field, Size
from fencepost.model.kernel.language.paths import is_computed, may_be_computed

if TYPE_CHECKING:
    from fencepost.model.kernel.language.frame import Frame


_T = TypeVar("_T")
_D = TypeVar("_D", ActionDeclared, Property, Ending, Constraint)


class _Body(dict[str, object]):
    """The names of a class while its body runs: a second method or field of one name would hide the first."""

    def __setitem__(self, name: str, value: object) -> None:
        if isinstance(self.get(name), FunctionType | Field | Size):
            raise ModellingMistake(f"`{name}` is declared twice in one machine: the first would vanish")
        super().__setitem__(name, value)


class _MachineType(type):
    @classmethod
    def __prepare__(cls, name: str, bases: tuple[type, ...], /, **options: object) -> _Body:
        return _Body()


class Machine(NoValue, metaclass=_MachineType):
    """Derive from it; declare sizes, fields, safeguards, assumptions; decorate methods."""

    safeguards: ClassVar[Mapping[str, str]] = {}
    """The steps that protect the protocol: name and one sentence. `check(without=...)` switches it off."""

    assumptions: ClassVar[Mapping[str, str]] = {}
    """The guarantees that the environment has to give: name and one sentence. Switched off likewise."""

    symmetric: ClassVar[tuple[str, ...]] = ()
    """Sizes whose members are interchangeable: any two may swap their numbers and nothing else changes."""

    shown_at: ClassVar[Mapping[str, Mapping[str, int]]] = {}
    """Sizes that show the characteristic counterexample of a safeguard, if the default sizes have a
    shorter one of another kind."""

    fires_at: ClassVar[Mapping[str, Mapping[str, int] | str]] = {}
    """Actions that do not fire at the default sizes: the sizes at which each does, or the assumption that has
    to be off."""

    changes_at: ClassVar[Mapping[str, Mapping[str, int] | str]] = {}
    """Fields that are the same in every state at the default sizes: the sizes at which each changes, or, if
    it marks a violation, the switch that has to be off."""

    frame: "Frame"

    def __init_subclass__(cls) -> None:
        for name, value in vars(cls).items():
            _check_name(cls, name, value)
        symmetric: object = cls.symmetric
        if isinstance(symmetric, str):
            raise ModellingMistake(f"symmetric = '{symmetric}' must be a tuple: write ('{symmetric}',)")
        twice = sorted(set(cls.safeguards) & set(cls.assumptions))
        if twice:
            raise ModellingMistake(
                f"'{twice[0]}' is both a safeguard and an assumption: give one another name"
            )
        for channel in [each for each in vars(cls).values() if isinstance(each, Channel)]:
            for name, function in channel.faults():
                if name in vars(cls):
                    raise ModellingMistake(f"`{name}` is an action of the channel; give yours another name")
                function.__name__ = name
                setattr(cls, name, action(m=AnyPlace(channel))(function))
        for name, value in list(vars(cls).items()):
            if isinstance(value, FunctionType) and not name.startswith("__"):
                if value.__name__ == "<lambda>":
                    value.__name__ = name  # for messages
                check_statements(value)
                called = MustCall(value)
                called.is_computed_off = is_computed
                if may_be_computed(value):
                    called.is_computed = is_computed
                setattr(cls, name, called)
            _check_declaration(name, value)
        for name, value in vars(cls).items():
            mark = getattr(value, MARK, None)
            if isinstance(mark, Replacement):
                _find_replaced(cls, name, mark).is_replaceable = True

    def require(self, *conditions: Truth | bool) -> None:
        """Keep the rows where every condition holds; the following statements see only those."""
        for condition in conditions:
            if not isinstance(condition, Truth | bool):
                raise ModellingMistake(
                    f"s.require takes conditions, not {describe(condition)}"
                    f"{missing_return(condition) or ': compare it first'}"
                )
            truth = condition if isinstance(condition, Truth) else Truth.constant(condition)
            self.frame.narrow_to(truth)

    @must_call
    def can(self, action: str, **parameters: object) -> Truth:
        """In a property: whether this action is enabled, with these of its parameters (TLA+'s ENABLED)."""
        frame = self.frame
        if not frame.read_only:
            raise ModellingMistake("s.can(...) is for properties: an action requires what its guard needs")
        labels = [
            label
            for label in frame.model.labels
            if label.action == action and parameters.items() <= dict(label.parameters).items()
        ]
        if not labels:
            known = [str(x) for x in frame.model.labels if x.action == action] or frame.model.actions
            raise ModellingMistake(
                f"s.can('{action}') names no action that the machine has{suggestion(action, known)}; "
                f"there are {names(known)}"
            )
        enabled = np.zeros(frame.size, np.bool_)
        states = frame.kept_before()
        for label in labels:
            applied = frame.model.apply(states, label)
            if applied is not None:
                applied.mark_origin(enabled)
        return Truth.of(frame, enabled)

    def no_value(self) -> str:
        return "`s` is all fields of many states at once: compare its fields, one by one"

    def __repr__(self) -> str:
        return f"the states of {type(self).__name__}"

    def __delattr__(self, name: str) -> None:
        raise ModellingMistake(f"`{name}` cannot be deleted: assign a value to it")

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(getattr(type(self), name, None), Field | Size):
            fields = [known for known, _ in declared(type(self), Field)]
            raise ModellingMistake(
                f"`{name}` is not a field{suggestion(name, fields)}; the fields are {names(fields)}; "
                "use a local variable for what is not part of the state"
            )
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        known = [name for name in dir(type(self)) if not name.startswith("_")]
        fields = [field for field, _ in declared(type(self), Field)]
        raise ModellingMistake(
            f"`{name}` is not part of this machine{suggestion(name, known)}; the fields are {names(fields)}"
        )


RESERVED = frozenset({"frame", "require", "can", "safeguards", "assumptions", "symmetric"})


def declared(machine: type[Machine], kind: type[_T]) -> list[tuple[str, _T]]:
    """The class attributes of a kind, those of base classes first, in the order they were written."""
    found: dict[str, _T] = {}
    for base in reversed(machine.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, kind):
                found[name] = value
            else:
                found.pop(name, None)
    return list(found.items())


def marked(machine: type[Machine], kind: type[_D]) -> Iterator[_D]:
    """The declarations of a kind, those of base classes first, in the order written.

    Each has its name in the class, so one function may serve under several names.
    """
    found: dict[str, _D] = {}
    for base in reversed(machine.__mro__):
        for name, value in vars(base).items():
            mark = getattr(value, MARK, None)
            if isinstance(mark, kind):
                found[name] = replace(mark, name=name)
            else:
                found.pop(name, None)
    yield from found.values()


def replacements(machine: type[Machine], off: frozenset[str]) -> dict[Callable[..., Any], Callable[..., Any]]:
    """The functions that `@without` replaces while these switches are off, each with its replacement."""
    known = [*machine.safeguards, *machine.assumptions]
    found = {}
    for name, value in declared(machine, MustCall):
        mark = getattr(value, MARK, None)
        own = [mark] if isinstance(mark, Replacement) else []
        for each in own:
            for switch in each.switches:
                if switch not in known:
                    raise ModellingMistake(
                        f"`{name}` is without '{switch}', which is not declared{suggestion(switch, known)}; "
                        f"the safeguards and assumptions of {machine.__name__} are {names(known)}"
                    )
            if off.intersection(each.switches):
                found[each.replaces] = each.function
    return found


def _find_replaced(machine: type[Machine], name: str, mark: Replacement) -> MustCall:
    """The method that a replacement replaces; an error if there is none, or none of its kind."""
    target = next(
        (
            value
            for base in machine.__mro__
            for value in vars(base).values()
            if isinstance(value, MustCall) and value.function is mark.replaces
        ),
        None,
    )
    if target is None:
        raise ModellingMistake(
            f"`{name}` replaces {describe(mark.replaces)}, which is not an action or a definition of "
            f"{machine.__name__}: write replaces=put for a method `put` of this class, and "
            "replaces=Base.put for one of a base class"
        )
    part = getattr(target, MARK, None)
    if part is not None and not isinstance(part, ActionDeclared):
        raise ModellingMistake(
            f"`{name}` replaces `{mark.replaces.__name__}`, which is a property, an end or a replacement: "
            "only actions and definitions are replaced"
        )
    _check_parameters(name, mark)
    return target


def _check_parameters(name: str, mark: Replacement) -> None:
    wanted, found = parameters_of(mark.replaces), parameters_of(mark.function)
    takes_any = (mark.function.__code__.co_flags | mark.replaces.__code__.co_flags) & CO_VARARGS
    if wanted != found and not takes_any:
        raise ModellingMistake(
            f"`{name}` takes ({', '.join(found)}), but `{mark.replaces.__name__}`, which it replaces, takes "
            f"({', '.join(wanted)})"
        )


def _check_name(machine: type[Machine], name: str, value: object) -> None:
    """An error if a name of this class hides what a machine needs, or a declaration of another kind."""
    is_function, is_field = isinstance(value, FunctionType), isinstance(value, Field | Size)
    if name in RESERVED and (is_function or is_field):
        raise ModellingMistake(f"`{name}` is part of every machine; give yours another name")
    for base in machine.__mro__[1:]:
        hidden = vars(base).get(name)
        part, own = getattr(hidden, MARK, None), getattr(value, MARK, None)
        what = "size" if isinstance(hidden, Size) else "field" if isinstance(hidden, Field) else ""
        if what and (is_function or (is_field and isinstance(value, Size) is not isinstance(hidden, Size))):
            raise ModellingMistake(f"`{name}` is a {what} of {base.__name__}; give yours another name")
        if isinstance(part, ActionDeclared | Property) and is_function and type(own) is not type(part):
            what = "an action" if isinstance(part, ActionDeclared) else "a property"
            cure = "; give the property another name" if isinstance(own, Property) else ""
            cure = cure or ("; give yours another name" if own else ": write its decorator above it")
            raise ModellingMistake(f"`{name}` is {what} of {base.__name__}{cure}")


def _check_declaration(name: str, value: object) -> None:
    """An error for what looks like a field, and is none."""
    parts = value if isinstance(value, tuple | list) else (value,)
    for part in parts:
        if isinstance(part, type) and issubclass(part, Field | Size):
            raise ModellingMistake(
                f"`{name}` is {part.__name__} itself and no field: write {part.__name__}(...)"
            )
        if part is not value and isinstance(part, Field | Size):
            raise ModellingMistake(
                f"`{name}` is a {type(value).__name__} with a field in it, perhaps by a comma at the end of "
                "its line: declare one field, or Each(n, ...) for many of a kind"
            )
