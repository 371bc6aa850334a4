"""A machine at given sizes: labels, initial states, successors, properties, all on packed states.

    model = Model(TwoPhase, {"managers": 3}, without=["presumed-abort"])
    for label in model.labels:
        after = model.successors(states, label)

Every executor uses this interface: the breadth-first search, random walks, the one-row stepper, partitions on
Spark. Packed states are `uint64` arrays of shape (words, states).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fencepost.model.kernel.language.bags import Place
from fencepost.model.kernel.language.columns import Truth, describe
from fencepost.model.kernel.language.declare import (
    ActionDeclared,
    Among,
    Constraint,
    Ending,
    Property,
    choices,
    parameters_of,
)
from fencepost.model.kernel.language.errors import (
    BadSettings,
    FailedGuard,
    ModellingMistake,
    locate_guard,
    missing_return,
    names,
    raise_with_place,
    suggestion,
)
from fencepost.model.kernel.language.fairness import demands
from fencepost.model.kernel.language.fields import AnyField, Each, Field, Received, Size, settle
from fencepost.model.kernel.language.frame import Frame, Joined, NothingLeft
from fencepost.model.kernel.language.kinds import Condition
from fencepost.model.kernel.language.layout import I64, U64, Mask, PackedState, arrange
from fencepost.model.kernel.language.machine import Machine, declared, marked, replacements
from fencepost.model.kernel.language.paths import ExecutionPath, Restart, check_count, may_branch
from fencepost.model.kernel.language.process import Process
from fencepost.model.kernel.language.roles import Role


@dataclass(frozen=True)
class Label:
    """One transition label: an action with a choice of its parameters."""

    number: int
    action: str
    parameters: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        return f"{self.action}({', '.join(f'{name}={value}' for name, value in self.parameters)})"


Transition = tuple[PackedState, Label]
"""A step of a counterexample: the state before, and the label."""


@dataclass(frozen=True)
class Successors:
    """The result of one label on a batch: the states after, and for each the row it came from."""

    states: U64
    origin: I64


class Model:
    """A machine at given sizes, with given safeguards off. Immutable; threads may share it."""

    frame_type: type[Frame] = Frame
    """The rows of a call: `compiled.trace` has its own."""

    def __init__(
        self, machine: type[Machine], sizes: Mapping[str, int] | None = None, *, without: Iterable[str] = ()
    ) -> None:
        self.machine = machine
        self.name = kebab(machine.__name__)
        self.sizes = settle(dict(declared(machine, Size)), sizes or {})
        self.without = self._settle_without(without)
        self.replacements = replacements(machine, self.without)
        self.fields: dict[str, AnyField] = dict(declared(machine, Field))
        if not self.fields:
            raise ModellingMistake(f"{machine.__name__} has no fields, so it has no state")
        runs = [run for name, field in self.fields.items() for run in field.runs(name, self.sizes)]
        self.layout = arrange(runs)
        self.access = {
            name: field.access(name, self.sizes, self.layout.slots) for name, field in self.fields.items()
        }
        self.arrays = {
            name: field.names
            for name, field in self.fields.items()
            if isinstance(field, Each) or (isinstance(field, Process) and field.is_many)
        }
        self.roles = [name for name, field in self.fields.items() if isinstance(field, Role)]
        for name, field in self.fields.items():
            if isinstance(field, Role):
                self.arrays.update(field.arrays(name))
        self._calls: list[tuple[Callable[..., Any], dict[str, object]]] = []
        self.labels = self._enumerate_labels()
        self.actions = tuple(dict.fromkeys(label.action for label in self.labels))
        self.properties = tuple(marked(machine, Property))
        self._endings = tuple(marked(machine, Ending))
        self.bounds = tuple(
            Property(each.name, Condition(), each.function, "") for each in marked(machine, Constraint)
        )
        for wanted in self.properties:
            demands(wanted, self.labels)  # an error for an unknown action

    @property
    def words(self) -> int:
        """The number of 64-bit words of a state."""
        return self.layout.words

    @property
    def has_endings(self) -> bool:
        """True if the machine declares states that may end."""
        return bool(self._endings)

    def must_fire(self, action: str) -> bool:
        """True if the action has to fire at these sizes with these switches: see `Machine.fires_at`."""
        return self._is_at(self.machine.fires_at.get(action, {}))

    def must_change(self, field: str) -> bool:
        """True if the field has to change at these sizes with these switches: see `Machine.changes_at`."""
        return self._is_at(self.machine.changes_at.get(field, {}))

    def _is_at(self, where: Mapping[str, int] | str) -> bool:
        if isinstance(where, str):
            return where in self.without
        return all(self.sizes[name] == value for name, value in where.items())

    def initial(self) -> U64:
        """The packed initial states, in the order declared; two ways to begin may give the same one."""
        first = {name: field.first(self.sizes) for name, field in self.fields.items()}
        start = self.pack(first)
        declared_starts = [each for each in marked(self.machine, ActionDeclared) if each.part == "initial"]
        if not declared_starts:
            return start
        found = []
        for each in declared_starts:
            for label, call in self._expand_parameters(each, 0):
                frame = self._run(start, label, *call, is_start=True)
                if frame is not None:
                    found.append(np.stack(frame.finish()))
        if not found:
            raise ModellingMistake(
                f"{self.machine.__name__} has no initial state: every @initial requires more"
            )
        return np.concatenate(found, axis=1)

    def representatives(self, states: U64) -> U64:
        """The representatives of these states; themselves, unless a reduction overrides this."""
        return states

    def lifted(self, steps: list[Transition], end: PackedState) -> tuple[list[Transition], PackedState]:
        """The same counterexample through states of the machine itself instead of representatives."""
        return steps, end

    def fired_in_all(self, fired: Sequence[int]) -> Sequence[int]:
        """The count of each label that fired in the whole space; a reduction explores a part of it."""
        return fired

    def apply(self, states: U64, label: Label) -> Frame | None:
        """Run one label on a batch; None if it is enabled nowhere."""
        return self._run(states, label, *self._calls[label.number])

    def successors(self, states: U64, label: Label) -> Successors:
        """The states after one label, and where each came from."""
        frame = self.apply(states, label)
        if frame is None:
            return Successors(np.empty((self.words, 0), np.uint64), np.empty(0, np.int64))
        return Successors(np.stack(frame.finish()), frame.origin())

    def failed_guard(self, states: U64, label: Label) -> FailedGuard | None:
        """The guard that disables `label` in all of `states`; None if it is enabled in some."""
        function, parameters = self._calls[label.number]
        found: FailedGuard | None = None
        waiting: list[ExecutionPath] = [ExecutionPath(states.shape[1])]
        while waiting:
            path = waiting.pop()
            frame = Frame(self, Frame.some_of(states, path), label, path=path)
            frame.is_scoped = True
            try:
                function(self._rows(frame), **parameters)
            except NothingLeft as stopped:
                reached = frame.numbers()
                row = int(reached[0]) if len(reached) else 0
                own = function.place() if isinstance(function, _Guarded | _Taking) else None
                found = found or locate_guard(stopped, row, own)
            else:
                return None
            waiting += path.open
        return found

    def holds(self, wanted: Property, states: U64) -> Mask:
        """In which states a property's function is true."""
        return self._judge(wanted.name, wanted.function, states)

    def watch(self, wanted: Property, states: U64, seen: dict[str, bool]) -> None:
        """Record for each `implies` of a property whether its condition is true in one of these states."""
        self._judge(wanted.name, wanted.function, states, watching=seen)

    def holds_between(self, wanted: Property, before: U64, after: U64) -> Mask:
        """For which transitions a step property is true; the two batches line up row by row."""
        return self._judge(wanted.name, wanted.function, before, after)

    def may_end(self, states: U64) -> Mask:
        """In which states the machine may end."""
        allowed = np.zeros(states.shape[1], np.bool_)
        for ending in self._endings:
            allowed |= self._judge(ending.name, ending.function, states)
        return allowed

    def within_bounds(self, states: U64) -> Mask:
        """Which states satisfy every `@bound`."""
        inside = np.ones(states.shape[1], np.bool_)
        for each in self.bounds:
            inside &= self.holds(each, states)
        return inside

    def unpack(self, state: Iterable[int]) -> dict[str, object]:
        """The named values of one packed state; arrays and sequences as tuples, sets as frozensets."""
        words = tuple(int(word) for word in state)
        return {name: access.decode(words, 0) for name, access in self.access.items()}

    def parameters(self, label: Label, state: PackedState) -> dict[str, object]:
        """The parameters of a label in a state: for a place of a bag or a queue, the item there."""
        read = dict(label.parameters)
        for name, value in read.items():
            if isinstance(value, Place):
                items = self.access[value.field].decode(state, 0)
                if isinstance(items, tuple) and value.number < len(items):
                    read[name] = items[value.number]
        return read

    def pack(self, values: Mapping[str, object]) -> U64:
        """One packed state, shape (words, 1), from the values of all fields."""
        if set(values) != set(self.access):
            missing, unknown = set(self.access) - set(values), set(values) - set(self.access)
            raise ModellingMistake(
                f"a state has missing fields {names(missing)}, unknown fields {names(unknown)}"
            )
        words = [0] * self.words
        for name, access in self.access.items():
            access.encode(words, 0, values[name])
        return np.array(words, np.uint64)[:, np.newaxis]

    def _run(
        self,
        states: U64,
        label: Label,
        function: Callable[..., Any],
        parameters: Mapping[str, object],
        *,
        is_start: bool = False,
    ) -> Frame | None:
        call = label, function, parameters, is_start
        frame = self._follow(states, None, *call)
        if frame.path is None or not frame.path.open:
            return frame if frame.size else None
        frames, waiting = [frame], frame.path.open
        while waiting:
            path = waiting.pop()
            try:
                check_count(frame, len(frames))
            except ModellingMistake as error:
                raise_with_place(error, str(label))
            frames.append(self._follow(self.frame_type.some_of(states, path), path, *call))
            followed = frames[-1].path
            assert followed is not None
            waiting = [*waiting, *followed.open]
        left = [each for each in frames if each.size]
        return Joined(left, states) if left else None

    def _follow(
        self,
        states: U64,
        path: ExecutionPath | None,
        label: Label,
        function: Callable[..., Any],
        parameters: Mapping[str, object],
        is_start: bool,
    ) -> Frame:
        """Run the text along one path; the frame is empty if no row passes the guards."""
        decided = None if path is None else [*path.decided]
        frame = self.frame_type(self, states, label, path=path)
        frame.is_start = is_start
        try:
            returned = function(self._rows(frame), **parameters)
        except NothingLeft:
            return frame
        except Restart:
            if path is not None and decided is not None:
                path = ExecutionPath(path.before, path.rows, decided)
            return self._follow(states, path, label, function, parameters, is_start)
        except Exception as error:  # noqa: BLE001  # any error of the author's text gets its place
            raise_with_place(error, str(label))
        finally:
            frame.close()
        if frame.stopped:
            raise ModellingMistake(
                f"{label} goes on after a guard that no state passed: it catches the exception of s.require; "
                "use no `try` in an action"
            )
        if returned is not None:
            raise ModellingMistake(
                f"{label} returns {describe(returned)}; an action returns nothing: "
                "its guards are s.require(...)"
            )
        return frame

    def _judge(
        self, name: str, function: Callable[..., Any], *batches: U64, watching: dict[str, bool] | None = None
    ) -> Mask:
        frames = tuple(self.frame_type(self, states, None, read_only=True) for states in batches)
        self.frame_type.together(frames)
        frames[0].watching = watching
        rows = [self._rows(frame) for frame in frames]
        try:
            returned = frames[0].branching.computed(lambda: function(*rows))
            if isinstance(returned, bool) and may_branch(function):
                returned = Truth.constant(returned)
            mask = returned.mask() if isinstance(returned, Truth) else None
        except Restart:
            return self._judge(name, function, *batches, watching=watching)
        except Exception as error:  # noqa: BLE001  # any error of the author's text gets its place
            raise_with_place(error, f"property `{name}`")
        finally:
            for frame in frames:
                frame.close()
        if mask is None:
            raise ModellingMistake(
                f"property `{name}` returns {describe(returned)}, not a column of truth values"
                f"{missing_return(returned) or ':'} return a comparison of fields, joined with &, | and ~"
            )
        return mask if mask.ndim else np.broadcast_to(mask, batches[0].shape[1:])

    def _rows(self, frame: Frame) -> Machine:
        rows = object.__new__(self.machine)
        object.__setattr__(rows, "frame", frame)
        return rows

    def _settle_without(self, without: Iterable[str]) -> frozenset[str]:
        known = [*self.machine.safeguards, *self.machine.assumptions]
        for name in without:
            if name not in known:
                raise BadSettings(
                    f"{self.name} has no safeguard or assumption '{name}'{suggestion(name, known)}; "
                    f"safeguards: {names(self.machine.safeguards)}; "
                    f"assumptions: {names(self.machine.assumptions)}"
                )
        return frozenset(without)

    def _enumerate_labels(self) -> tuple[Label, ...]:
        labels: list[Label] = []
        for declaration in marked(self.machine, ActionDeclared):
            if declaration.part == "action":
                for label, call in self._expand_parameters(declaration, len(labels)):
                    labels.append(label)
                    self._calls.append(call)
        if not labels:
            raise ModellingMistake(
                f"{self.machine.__name__} has no actions: decorate some methods with @action"
            )
        return tuple(labels)

    def _expand_parameters(
        self, declaration: ActionDeclared, number: int
    ) -> Iterable[tuple[Label, tuple[Callable[..., Any], dict[str, object]]]]:
        domains = {name: choices(domain, self.sizes) for name, domain in declaration.domains.items()}
        function = self.replacements.get(declaration.function, declaration.function)
        among = {name: each for name, each in declaration.domains.items() if isinstance(each, Among)}
        if among:
            function = _Guarded(function, among)
        taken = {n: each for n, each in declaration.domains.items() if isinstance(each, Received)}
        if taken:
            function = _Taking(function, taken)
        for offset, values in enumerate(product(*domains.values())):
            parameters = tuple(zip(domains, values, strict=True))
            label = Label(number + offset, declaration.name, parameters)
            yield label, (function, dict(parameters))


@dataclass(frozen=True)
class _Guarded:
    """An action whose domains have a guard."""

    function: Callable[..., Any]
    among: Mapping[str, Among]

    def __call__(self, s: Machine, **parameters: object) -> Any:
        s.require(*(each.holds(s, parameters[name], parameters) for name, each in self.among.items()))
        return self.function(s, **parameters)

    def place(self) -> tuple[str, int, str]:
        """File, line and text of the guard."""
        code = self.function.__code__
        known = parameters_of(self.function)
        text = ", ".join(each.text(name, known) for name, each in self.among.items())
        return Path(code.co_filename).name, code.co_firstlineno, text


@dataclass(frozen=True)
class _Taking:
    """An action with parameters that are items of bags, sets or channels."""

    function: Callable[..., Any]
    fields: Mapping[str, Received[Any, Any]]

    def __call__(self, s: Machine, **parameters: object) -> Any:
        items = {name: field.take(s, parameters[name]) for name, field in self.fields.items()}
        return self.function(s, **{**parameters, **items})

    def place(self) -> tuple[str, int, str] | None:
        """The guard of the action's domains; None if the items are its only guard."""
        return self.function.place() if isinstance(self.function, _Guarded) else None


def kebab(name: str) -> str:
    """`TwoPhase` as `two-phase`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
