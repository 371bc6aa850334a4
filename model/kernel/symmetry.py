"""Symmetry: explore one state for all that differ only in the numbers of interchangeable things.

A machine declares `symmetric = ("managers",)`: any two managers may swap their numbers, everywhere at
once, and what may happen and what holds stays the same, up to that swap. Then the states of an orbit
are alike, and exploring one of each is enough: it is replaced by a representative of its orbit as soon
as it is found (`permuting.py`). For n managers there are up to n! times fewer states.

What stays exact, and why
- invariants, step properties, reachable, deadlocks: they hold for all states of an orbit or for none;
- always_recoverable: a way to the goal from one state of an orbit is, renumbered, a way from each;
- eventually is decided on the machine itself, without reduction: fairness to `deliver(m=1)` means
  something only as long as 1 goes on being the same manager;
- counterexamples: the way through representatives is walked again through real states, one after the other.

What a machine must do for it
- numbers that name a member are declared `Id(managers)`, sets of them `Flags(managers)`; numbers that
  are quantities stay `Int`. An `Int` that ranges over exactly 0..managers-1 could be either: refused;
- the claim itself is the author's, as in every checker that has symmetry. It is tested on the starts,
  all of them, and on a spread of the explored states: the same labels up to renumbering, the same
  properties. A machine that is caught is refused with the state and what differs there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import factorial, prod

import numpy as np

from fencepost.model.kernel import keys
from fencepost.model.kernel.access import PackedState
from fencepost.model.kernel.errors import BadSettings, ModellingMistake, names, suggestion
from fencepost.model.kernel.extents import resolve
from fencepost.model.kernel.fields import Id, Int
from fencepost.model.kernel.layout import U64, Mask
from fencepost.model.kernel.machine import Machine
from fencepost.model.kernel.model import Label, Model, Transition
from fencepost.model.kernel.permuting import Permuter
from fencepost.model.kernel.search import Search, packed

_TESTED = 2_000
"""States, about, on which the claim of symmetry is tested."""


class Reduced(Model):
    """A model whose states stand for all that differ from them by renumbering."""

    def __init__(
        self, machine: type[Machine], sizes: Mapping[str, int] | None = None, *, without: Iterable[str] = ()
    ) -> None:
        super().__init__(machine, sizes, without=without)
        self._check_declared()
        self.permuters = [Permuter(self, size) for size in machine.symmetric]
        for permuter in self.permuters:
            if not permuter.touches_anything:
                raise ModellingMistake(
                    f"symmetric names '{permuter.size}', and nothing in the state has to do with it: "
                    f"declare fields as Each({permuter.size}, ...), or leave it out"
                )
        self._check_starts()

    @property
    def whole(self) -> Model:
        """The same model without reduction."""
        return Model(self.machine, self.sizes, without=self.without)

    def initial(self) -> U64:
        return self.representatives(super().initial())

    def representatives(self, states: U64) -> U64:
        for permuter in self.permuters:
            states = permuter.sorted(states)
        return states

    def lifted(self, steps: list[Transition], end: PackedState) -> tuple[list[Transition], PackedState]:
        starts = super().initial()
        first = steps[0][0] if steps else end
        alike = (self.representatives(starts) == _column(first)).all(axis=0)
        real = starts[:, alike][:, :1]
        naming = [invert(order) for order in self._orders(real)]
        told: list[Transition] = []
        for state, label in steps:
            # `real` is `state` renumbered by `naming`; so is what follows the one and the other.
            after = self.successors(_column(state), label).states
            naming_after = [
                [invert(order)[number] for number in named]
                for order, named in zip(self._orders(after), naming, strict=True)
            ]
            real_after = self._renumbered(after, naming)
            told.append((packed(real, 0), self._label(real, real_after)))
            real, naming = real_after, naming_after
        return told, packed(real, 0)

    def reduction(self, search: Search) -> str:
        """What the reduction brought, in words; exact where the states of every orbit can be counted."""
        sizes = " and ".join(permuter.size for permuter in self.permuters)
        told = f"symmetry of {sizes}: {search.distinct:,} states stand for"
        if len(self.permuters) == 1 and self.permuters[0].is_exact:
            stood_for = sum(self.permuters[0].orbits(level) for level in search.levels)
            return f"{told} {stood_for:,}, {stood_for / max(1, search.distinct):.1f} times as many"
        return f"{told} up to {prod(factorial(p.members) for p in self.permuters):,} times as many"

    def check_claim(self, search: Search) -> None:
        """Test on a spread of explored states that renumbering changes nothing; refuse what is caught."""
        states = keys.concatenated(
            [level[:, :: max(1, search.distinct // _TESTED)] for level in search.levels]
        )
        for permuter in self.permuters:
            for order in permuter.orders():
                self._compare(permuter, order, states)

    def _compare(self, permuter: Permuter, order: tuple[int, ...], states: U64) -> None:
        other = permuter.renumbered(states, order)
        for wanted in self.properties:
            if wanted.kind != "step":
                differs = self.holds(wanted, states) != self.holds(wanted, other)
                self._refuse(permuter, order, states, differs, f"what `{wanted.name}` says")
        self._refuse(
            permuter, order, states, self.may_end(states) != self.may_end(other), "whether it may end"
        )
        same = partial(permuter.renumbered, order=order)
        differs = self._outcomes(states, same) != self._outcomes(other, lambda after: after)
        self._refuse(permuter, order, states, differs, "what may happen next")

    def _outcomes(self, states: U64, renamed: Callable[[U64], U64]) -> U64:
        """A number for each state that tells apart what follows it, in any order of the labels."""
        total = np.zeros(states.shape[1], np.uint64)
        steps = [wanted for wanted in self.properties if wanted.kind == "step"]
        for label in self.labels:
            found = self.successors(states, label)
            if not len(found.origin):
                continue
            verdicts = np.zeros(len(found.origin), np.uint64)
            for wanted in steps:
                before = states.take(found.origin, axis=1)
                verdicts = verdicts * np.uint64(2) + self.holds_between(wanted, before, found.states)
            after = renamed(found.states)
            np.add.at(total, found.origin, keys.fingerprints(np.stack([*after, verdicts])))
        return total

    def _refuse(
        self, permuter: Permuter, order: tuple[int, ...], states: U64, differs: Mask, what: str
    ) -> None:
        if differs.any():
            moved = [f"{new} for {old}" for new, old in enumerate(order) if new != old]
            raise ModellingMistake(
                f"{self.machine.__name__} is not symmetric in {permuter.size}: {what} changes with the "
                f"numbers ({', '.join(moved)}) in state {self.unpack(states[:, int(differs.argmax())])}; "
                f"declare numbers of {permuter.size} as Id({permuter.size}), or leave {permuter.size} "
                "out of `symmetric`"
            )

    def _orders(self, state: U64) -> list[list[int]]:
        """How `representatives` renumbers one state, size by size."""
        found = []
        for permuter in self.permuters:
            found.append(permuter.order_of(state))
            state = permuter.renumbered(state, found[-1])
        return found

    def _renumbered(self, state: U64, naming: list[list[int]]) -> U64:
        for permuter, order in zip(self.permuters, naming, strict=True):
            state = permuter.renumbered(state, order)
        return state

    def _label(self, before: U64, after: U64) -> Label:
        for label in self.labels:
            reached = self.successors(before, label).states
            if reached.shape[1] and (reached == after).all():
                return label
        raise ModellingMistake(
            f"{self.machine.__name__} is not symmetric in {names(self.machine.symmetric)}: from state "
            f"{self.unpack(before[:, 0])} it cannot do what it does under other numbers"
        )

    def _check_declared(self) -> None:
        symmetric = self.machine.symmetric
        if not symmetric:
            raise BadSettings(
                f"{self.name} declares no symmetry: name the sizes whose members are interchangeable, "
                'as in symmetric = ("managers",)'
            )
        for size in symmetric:
            if size not in self.sizes:
                raise ModellingMistake(
                    f"symmetric names '{size}', which is no size{suggestion(size, self.sizes)}; "
                    f"the sizes are {names(self.sizes)}"
                )
            for field_name, field in self.fields.items():
                for _, _, cell in field.cells(field_name, ()):
                    if isinstance(cell, Int) and not isinstance(cell, Id) and self._could_name(cell, size):
                        raise ModellingMistake(
                            f"`{field_name}` ranges over 0..{size} - 1: if it is the number of one of the "
                            f"{size}, declare it Id({size}), so that it is renamed with what it names; "
                            "if it is a quantity, give it other bounds or leave symmetry off"
                        )

    def _could_name(self, cell: Int, size: str) -> bool:
        """Whether the bounds follow the size, as the numbers of its members do."""
        least, most = cell.bounds
        larger = {**self.sizes, size: self.sizes[size] + 1}
        return (
            resolve(least, self.sizes) == resolve(least, larger) == 0
            and resolve(most, self.sizes) + 1 == self.sizes[size]
            and resolve(most, larger) + 1 == larger[size]
        )

    def _check_starts(self) -> None:
        starts = super().initial()
        known = {packed(starts, row) for row in range(starts.shape[1])}
        for permuter in self.permuters:
            for order in permuter.orders():
                renumbered = permuter.renumbered(starts, order)
                differs = [packed(renumbered, row) not in known for row in range(starts.shape[1])]
                self._refuse(permuter, order, starts, np.array(differs), "whether it is a start")


def invert(order: Sequence[int]) -> list[int]:
    """The renumbering that undoes another."""
    inverse = [0] * len(order)
    for new, old in enumerate(order):
        inverse[old] = new
    return inverse


def _column(state: PackedState) -> U64:
    return np.array(state, np.uint64)[:, np.newaxis]
