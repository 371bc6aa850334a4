"""The labels of the other machine that one label of a machine performs, as a refinement names them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fencepost.model.kernel.language.bags import Place
from fencepost.model.kernel.language.columns import Column, Truth, describe
from fencepost.model.kernel.language.declare import ActionDeclared
from fencepost.model.kernel.language.errors import ModellingMistake, names, raise_with_place, suggestion
from fencepost.model.kernel.language.fields import Received
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.machine import Machine, marked
from fencepost.model.kernel.language.model import Label, Model
from fencepost.model.kernel.language.paths import columns_of_path
from fencepost.model.kernel.language.refinement import Does, Either, Refines, Shown

OBSERVED = "observed"
"""The parameter of a function of the author that is the state of the other machine."""
Frames = Callable[[], Frame]


class Performed:
    """The labels that a refinement names for one label: actions of the other machine, or functions."""

    def __init__(self, link: Refines, refinement: str, concrete: Model, other: Model, label: Label) -> None:
        self._refinement = refinement
        self._other = other
        self._label = label
        self._labels: dict[str, list[Label]] = {}
        for each in other.labels:
            self._labels.setdefault(each.action, []).append(each)
        self._parameters = {
            action: tuple(name for name, _ in labels[0].parameters) for action, labels in self._labels.items()
        }
        self._domains = next(
            each.domains
            for each in marked(concrete.machine, ActionDeclared)
            if each.part == "action" and each.name == label.action
        )
        self._shown: tuple[Shown, ...] = self._flat(link.shows.get(label.action, ()))

    @property
    def is_invisible(self) -> bool:
        """True if the label performs nothing."""
        return not self._shown

    def _flat(self, shown: Any) -> tuple[Shown, ...]:
        parts = shown if isinstance(shown, tuple | list) else (shown,)
        for part in parts:
            if isinstance(part, str):
                self._check_action(part)
                self._named(part, dict(self._label.parameters))  # an error for a missing parameter
            elif not callable(part):
                raise ModellingMistake(
                    f"`{self._refinement}` names {describe(part)} for {self._label.action}: give "
                    f"the name of an action of {self._other.name}, a function, or a tuple of these"
                )
        return tuple(parts)

    def _check_action(self, action: str) -> None:
        if action not in self._labels:
            other = self._other
            raise ModellingMistake(
                f"{self._label.action} performs '{action}', which is no action of {other.name}"
                f"{suggestion(action, other.actions)}; its actions are {names(other.actions)}"
            )

    def names(self) -> set[str]:
        """The actions that may be performed."""
        if any(callable(shown) for shown in self._shown):
            return set(self._labels)
        return {shown for shown in self._shown if isinstance(shown, str)}

    def choices(self, before: Frames, after: Frames, observed: Frames) -> Iterator[Either]:
        """The labels of the other machine, in order, on rows of which both states are known.

        `observed` returns the rows of the other machine as the labels so far have left them.
        """
        for shown in self._shown:
            if isinstance(shown, str):
                yield Either((self._named(shown, self._given(before)),), or_nothing=False)
                continue
            assert callable(shown), "checked when the refinement was read"
            reads = _parameters(shown)
            rows = [rows_of(before())]
            if reads[:2] == ("before", "after"):
                rows.append(rows_of(after()))
            given = self._given(before)
            wanted = {name: given[name] for name in reads[len(rows) :] if name in given}
            if OBSERVED in reads:
                wanted[OBSERVED] = rows_of(observed())
            yield from self._call(shown, rows, wanted)

    def _named(self, action: str, given: Mapping[str, Any]) -> Does:
        """The abstract action with the parameters of the same names."""
        missing = [name for name in self._parameters[action] if name not in given]
        if missing:
            raise ModellingMistake(
                f"{self._label.action} performs '{action}', and has no parameter {names(missing)} of it: "
                "give a function that returns does(...)"
            )
        return Does(action, {name: given[name] for name in self._parameters[action]})

    def _call(
        self, shown: Callable[..., Any], rows: list[Machine], given: Mapping[str, Any]
    ) -> Sequence[Either]:
        """The labels that a function of the author returns."""
        frames = tuple(each.frame for each in (*rows, *given.values()) if isinstance(each, Machine))
        frames[0].together(frames)
        try:
            return frames[0].branching.computed(
                lambda: tuple(self._returned(shown(*rows, **given))), _all_paths
            )
        except Exception as error:  # noqa: BLE001  # any error of the author's text gets its place
            raise_with_place(error, f"the refinement `{self._refinement}` of {self._label.action}")

    def _returned(self, returned: Any) -> Iterator[Either]:
        for each in returned if isinstance(returned, tuple | list) else (returned,):
            if not isinstance(each, Does | Either):
                raise ModellingMistake(
                    f"the labels of {self._label.action} are {describe(each)}: return does(...), "
                    "either(...), or a tuple of them"
                )
            choice = each if isinstance(each, Either) else Either((each,), or_nothing=False)
            for one in choice.labels:
                self._check(one)
            yield choice

    def _check(self, one: Does) -> None:
        self._check_action(one.action)
        wanted = self._parameters[one.action]
        if set(one.parameters) != set(wanted):
            raise ModellingMistake(
                f"{self._label.action} performs {one.action} with {names(one.parameters)}: its parameters "
                f"are {names(wanted)}"
            )

    def _given(self, before: Frames) -> dict[str, Any]:
        """The parameters of the concrete label; for a place of a bag, the item there."""
        given: dict[str, Any] = {}
        for name, value in self._label.parameters:
            domain = self._domains[name]
            if isinstance(value, Place) and isinstance(domain, Received):
                frame = before()
                frame.read_only = False  # taking an item requires that there is one, as in every row here
                given[name] = domain.take(rows_of(frame), value)
            else:
                given[name] = value
        return given

    def labels(self, one: Does) -> Iterator[tuple[Label, Any]]:
        """The labels that this may be, each with the rows in which it is: a mask, or None for all."""
        for label in self._labels[one.action]:
            mask: Any = None
            for name, value in label.parameters:
                found = _equal(one.parameters[name], value)
                if found is False:
                    break
                if found is not True:
                    mask = found if mask is None else mask & found
            else:
                yield label, mask


def _all_paths(frame: Frame, found: list[tuple[Any, Any]]) -> tuple[Either, ...]:
    """The labels of all paths of a function, each in the rows that took its path."""
    joined = []
    for mask, labels in found:
        rows = Truth.of(frame, mask)
        for choice in columns_of_path(frame, labels):
            performed = tuple(replace(one, when=rows & one.when) for one in choice.labels)
            joined.append(replace(choice, labels=performed))
    return tuple(joined)


def _parameters(shown: Callable[..., Any]) -> tuple[str, ...]:
    """The names of all parameters of a function of the author."""
    code = shown.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def rows_where(when: Truth | bool) -> Any:
    """The rows of a condition: a mask, True for all, or False for none."""
    if isinstance(when, bool):
        return when
    mask = when.mask()
    return mask if mask.ndim else bool(mask)


def _equal(given: Any, value: object) -> Any:
    """The rows in which a parameter has a value: a mask, True for all, or False for none."""
    if isinstance(given, Truth):
        return rows_where(given if value else ~given)
    return rows_where(given == value) if isinstance(given, Column) else bool(given == value)


def rows_of(frame: Frame) -> Machine:
    """The rows of a frame as its machine's functions take them."""
    rows: Machine = object.__new__(frame.model.machine)
    object.__setattr__(rows, "frame", frame)
    return rows
