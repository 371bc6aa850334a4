"""Symmetry: explore one state for all that differ only in the numbers of interchangeable things.

A machine declares `symmetric = ("managers",)`: any two managers may swap their numbers, everywhere at once,
and what may happen and what holds stays the same, up to that swap. Then it is enough to explore one state of
each orbit: a state is replaced by a representative of its orbit as soon as it is found. For n managers there
are up to n! times fewer states.

Exact, and why
- invariants, step properties, reachable, deadlocks: they hold for all states of an orbit or for none;
- always_recoverable: a path to the goal from one state of an orbit is, renumbered, a path from each;
- eventually is decided on the machine itself, without reduction: fairness to `deliver(m=1)` has a meaning
  only as long as 1 stays the same manager;
- counterexamples: the path through representatives is walked again through real states.

Demands on a machine
- numbers that name a member are declared `Id(managers)`, sets of them `Flags(managers)`; numbers that are
  quantities stay `Int`. An `Int` that ranges over exactly 0..managers-1 could be either: an error;
- the claim itself is the author's, as in every checker with symmetry. It is tested. The starts are tested
under
  every renumbering that generates the others. Each property of states is tested on every state, whenever it
  is evaluated, under some renumberings (all of them, where states and members are few). Enabled labels
  and step properties are tested on a sample that grows with every level. A violation is an error with the
  state and the difference. The verdict says what was tested and what is left to be assumed.

Computing a representative. A member (a process, a key) owns some cells of the state: those whose index
is its number. Other cells refer to it: an `Id` that is or is not its number, a `Flags` that has it or not.
All of that, packed into one number (or a few), is the member's *signature*. Renumbering the members reorders
the signatures; writing them back gives the renumbered state. Sorting the signatures gives every state of an
orbit the same form, in a few minima and maxima a pair of members.

Cells that relate members to each other (an `Id`, a `Flags` or an array by the same size inside an array by
it) are in no signature. They are carried along in the order of the sorted signatures. Members with equal
signatures keep their order then, so two states of one orbit may get two forms: always a state of the orbit,
not always the same one. That loses some reduction and no verdict.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import factorial, prod
from typing import Any

import numpy as np

from fencepost.model.kernel.language.bags import Place
from fencepost.model.kernel.language.declare import ActionDeclared, Property, choices
from fencepost.model.kernel.language.errors import BadSettings, ModellingMistake, names, suggestion
from fencepost.model.kernel.language.fields import AnyExtent, Bits, Cell, Flags, Id, Int, Size, resolve
from fencepost.model.kernel.language.kinds import Judged
from fencepost.model.kernel.language.layout import (
    I64,
    U64,
    WORD,
    BoolKind,
    IntKind,
    Item,
    Mask,
    PackedState,
    PartSlot,
    PlaceKind,
    RecordKind,
    Slot,
    one_row,
    packed,
    whole_states,
)
from fencepost.model.kernel.language.machine import Machine, marked
from fencepost.model.kernel.language.model import Label, Model, Transition
from fencepost.model.kernel.search import keys
from fencepost.model.kernel.search.explore import Search

_ALL_TESTED = 256
"""States of a level whose successors are compared; of what a level has beyond that, one in `_ONE_IN`."""

_ONE_IN = 64

_EVERY_ORDER = 24
"""Up to this many renumberings, small batches are compared under every one; large ones under a few."""

_FEW = 1 << 12
"""Rows of a small batch."""


class Reduced(Model):
    """A model whose states represent all that differ from them by renumbering."""

    def __init__(
        self, machine: type[Machine], sizes: Mapping[str, int] | None = None, *, without: Iterable[str] = ()
    ) -> None:
        super().__init__(machine, sizes, without=without)
        self._check_declared()
        self.permuters = [Permuter(self, size) for size in machine.symmetric]
        for permuter in self.permuters:
            if not permuter.touches_anything:
                raise ModellingMistake(
                    f"symmetric names '{permuter.size}', but no field depends on it: "
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
        alike = (self.representatives(starts) == one_row(first)).all(axis=0)
        real = starts[:, alike][:, :1]
        naming = [invert(order) for order in self._orders(real)]
        found: list[Transition] = []
        for state, label in steps:
            # `real` is `state` renumbered by `naming`, and so are their successors.
            after = self.successors(one_row(state), label).states
            naming_after = [
                [invert(order)[number] for number in named]
                for order, named in zip(self._orders(after), naming, strict=True)
            ]
            real_after = self._renumbered(after, naming)
            found.append((packed(real, 0), self._label(real, real_after)))
            real, naming = real_after, naming_after
        return found, packed(real, 0)

    def fired_in_all(self, fired: Sequence[int]) -> Sequence[int]:
        """Labels that differ by a renumbering only: if one of them fired, so do all in the whole space."""
        alike = [self._up_to_numbers(label) for label in self.labels]
        total: Counter[object] = Counter()
        for key, count in zip(alike, fired, strict=True):
            total[key] += count
        return [total[key] for key in alike]

    def _up_to_numbers(self, label: Label) -> tuple[object, ...]:
        """A label with each number that may name a member replaced by its first place in the label."""
        domains = {each.name: each.domains for each in marked(self.machine, ActionDeclared)}[label.action]
        place: dict[tuple[int, object], int] = {}
        found: list[object] = [label.action]
        for number, (name, value) in enumerate(label.parameters):
            values = choices(domains[name], self.sizes)
            if isinstance(value, Place | Item):
                found.append(name)  # which item it is, or where it lies, changes with the numbers
                continue
            names_member = (p.members for p in self.permuters if values == tuple(range(p.members)))
            members = next(names_member, None)
            found.append(value if members is None else ("#", place.setdefault((members, value), number)))
        return tuple(found)

    def reduction(self, search: Search) -> str:
        """The effect of the reduction, in words; exact if the states of every orbit can be counted."""
        sizes = " and ".join(permuter.size for permuter in self.permuters)
        text = f"symmetry of {sizes}: {search.distinct:,} states stand for"
        if len(self.permuters) == 1 and self.permuters[0].is_exact:
            stood_for = sum(self.permuters[0].orbits(level) for level in search.levels)
            return f"{text} {stood_for:,}, {stood_for / max(1, search.distinct):.1f} times as many"
        return f"{text} up to {prod(factorial(p.members) for p in self.permuters):,} times as many"

    def holds(self, wanted: Property, states: U64) -> Mask:
        """As for every model; and an error where renumbering changes what the property says."""
        found = super().holds(wanted, states)
        for permuter in self.permuters:
            for order in self._tried(permuter, states):
                differs = found != super().holds(wanted, permuter.renumbered(states, order))
                self._raise_where(permuter, order, states, differs, f"the verdict of `{wanted.name}`")
        return found

    def check_claim(self, search: Search) -> str:
        """Test on a sample of explored states that renumbering changes nothing of what may happen next.

        An error if it does; otherwise what was tested, and what is assumed, in words.
        """
        sizes = names(permuter.size for permuter in self.permuters)
        samples = [
            level[:, :: max(1, level.shape[1] // (_ALL_TESTED + level.shape[1] // _ONE_IN))]
            for level in search.levels
        ]
        tested = sum(sample.shape[1] for sample in samples)
        together = list(_together(samples))
        for permuter in self.permuters:
            # Under every renumbering, or under other ones for each level.
            for sample in together if permuter.renumberings <= _EVERY_ORDER else samples:
                self._compare(permuter, self._tried(permuter, sample), sample)
        every = all(permuter.renumberings <= _EVERY_ORDER for permuter in self.permuters)
        if every and tested == search.distinct and search.distinct <= _ALL_TESTED:
            claim = f"the claim that {sizes} are interchangeable"
            return f"{claim} was tested on every state, under every renumbering"
        return (
            f"assuming that {sizes} are interchangeable: tested on every state for its properties, and on "
            f"{tested:,} of {search.distinct:,} for what may happen next, under some renumberings"
        )

    def _tried(self, permuter: "Permuter", states: U64) -> list[tuple[int, ...]]:
        """The renumberings under which a batch is tested: all for few rows, else other ones each time."""
        if not states.shape[1]:
            return []
        if states.shape[1] <= _FEW and permuter.renumberings <= _EVERY_ORDER:
            return list(permutations(range(permuter.members)))[1:]
        turn = int(states[:, 0].sum()) ^ states.shape[1]
        known = permuter.orders()
        mixed = np.random.default_rng(turn).permutation(permuter.members).tolist()
        return [known[turn % len(known)], known[-1], tuple(mixed)] if known else []

    def _compare(self, permuter: "Permuter", orders: Sequence[tuple[int, ...]], states: U64) -> None:
        ends, outcomes = self.may_end(states), list(self._outcomes(states))
        for order in orders:
            other = permuter.renumbered(states, order)
            self._raise_where(permuter, order, states, ends != self.may_end(other), "whether it may end")
            renamed = (
                (origin, permuter.renumbered(after, order), verdicts) for origin, after, verdicts in outcomes
            )
            differs = _mark(states, renamed) != _mark(other, self._outcomes(other))
            self._raise_where(permuter, order, states, differs, "what may happen next")

    def _outcomes(self, states: U64) -> Iterator[tuple[I64, U64, U64]]:
        """By label: the rows that have a successor, the successors, and the verdicts on these steps."""
        steps = [wanted for wanted in self.properties if wanted.kind.judged is Judged.STEPS]
        for label in self.labels:
            found = self.successors(states, label)
            if not len(found.origin):
                continue
            verdicts = np.zeros(len(found.origin), np.uint64)
            for wanted in steps:
                before = states.take(found.origin, axis=1)
                verdicts = verdicts * np.uint64(2) + self.holds_between(wanted, before, found.states)
            yield found.origin, found.states, verdicts

    def _raise_where(
        self, permuter: "Permuter", order: tuple[int, ...], states: U64, differs: Mask, what: str
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
        """The renumbering of one state by `representatives`, size by size."""
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
            f"{self.unpack(before[:, 0])} it has no step that it has under other numbers"
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
                cells = [cell for _, _, cell in field.cells(field_name, ())]
                for cell in (leaf for each in cells for leaf in _leaves(each, self.sizes)):
                    if isinstance(cell, Int) and not isinstance(cell, Id) and self._could_name(cell, size):
                        raise ModellingMistake(
                            f"`{field_name}` ranges over 0..{size} - 1: if it is the number of one of the "
                            f"{size}, declare it Id({size}), so that it is renamed with what it names; "
                            "if it is a quantity, give it other bounds or leave symmetry off"
                        )

    def _could_name(self, cell: Int, size: str) -> bool:
        """True if the bounds follow the size, as the numbers of its members do."""
        least, most = cell.bounds
        larger = {**self.sizes, size: self.sizes[size] + 1}
        return (
            resolve(least, self.sizes) == resolve(least, larger) == 0
            and resolve(most, self.sizes) + 1 == self.sizes[size]
            and resolve(most, larger) + 1 == larger[size]
        )

    def _check_starts(self) -> None:
        starts = super().initial()
        known = whole_states(starts)
        for permuter in self.permuters:
            for order in permuter.orders():
                renumbered = permuter.renumbered(starts, order)
                differs = ~np.isin(whole_states(renumbered), known)
                self._raise_where(permuter, order, starts, differs, "whether it is a start")


def invert(order: Sequence[int]) -> list[int]:
    """The renumbering that undoes another."""
    inverse = [0] * len(order)
    for new, old in enumerate(order):
        inverse[old] = new
    return inverse


@dataclass(frozen=True)
class Run:
    """A run of cells that depends on a size: `axes` are its dimensions by that size.

    A part of records is a run of its own. In a bag, whose places follow the codes of the items, and in a set,
    whose bits do, a run that names members is carried along.
    """

    slot: Slot
    axes: tuple[int, ...]
    refers: str
    least: int
    lengths: Slot | None = None
    is_there: Slot | None = None
    """Of a part of what is in a bag: the bits of the places that are not empty."""
    items: tuple[Cell[Any, Any], ...] = ()
    """Of a set: the item of its bits."""

    @property
    def relates(self) -> bool:
        in_order = bool(self.refers) and (self.is_there is not None or bool(self.items))
        return in_order or len(self.axes) + bool(self.refers) > 1


def runs_of(model: Model, size: str) -> list[Run]:
    """The runs of cells that depend on a size, field by field."""
    found = []
    for field_name, field in model.fields.items():
        for name, dimensions, cell in field.cells(field_name, ()):
            axes = tuple(axis for axis, extent in enumerate(dimensions) if is_size(extent, size))
            slot = model.layout.slots[name]
            if isinstance(cell, Bits):
                names_members = any(_refers(leaf, size) for _, _, leaf in cell.item.leaves(model.sizes))
                if axes or names_members:
                    found.append(Run(slot, axes, "values" if names_members else "", 0, items=(cell.item,)))
                continue
            lengths = model.layout.slots.get(name.removesuffix(".items") + ".length")
            lengths = lengths if name.endswith(".items") else None
            is_there = None
            if isinstance(slot.kind, PlaceKind):
                is_there = slot.part("is_there", slot.kind.item.width, BoolKind())
            for path, at, leaf in cell.leaves(model.sizes):
                refers, kind = _refers(leaf, size), leaf.kind(model.sizes)
                if axes or refers:
                    least = kind.least if isinstance(kind, IntKind) else 0
                    part = slot.part(".".join(path), at, kind) if path else slot
                    found.append(Run(part, axes, refers, least, lengths, is_there))
    return found


def _leaves(cell: Cell[Any, Any], sizes: Mapping[str, int]) -> Iterator[Cell[Any, Any]]:
    """The cells that a value of this one consists of."""
    inside = cell.item if isinstance(cell, Bits) else cell
    return (leaf for _, _, leaf in inside.leaves(sizes))


def _refers(cell: Cell[Any, Any], size: str) -> str:
    """The way in which a cell names members of a size, if it does."""
    if isinstance(cell, Id) and is_size(cell.extent, size):
        return "id"
    if isinstance(cell, Flags) and len(cell.domain) == 1 and is_size(cell.domain[0], size):
        return "flags"
    return ""


def is_size(extent: AnyExtent, size: str) -> bool:
    return extent == size if isinstance(extent, str) else isinstance(extent, Size) and extent.name == size


class Permuter:
    """Renumbers the members of one size in the states of one model."""

    def __init__(self, model: Model, size: str) -> None:
        self.size = size
        self.members = model.sizes[size]
        runs = runs_of(model, size)
        self._sizes = model.sizes
        self._own = [run for run in runs if not run.relates]
        self._related = [run for run in runs if run.relates]
        self._pieces = [piece for run in self._own for piece in self._pieces_of(run)]
        whole = [
            run.slot.whole for run in runs if run.is_there and run.refers and isinstance(run.slot, PartSlot)
        ]
        self._bags = list(dict.fromkeys(whole))
        self._clear = [0] * model.words
        for run in runs:
            full = (1 << run.slot.kind.width) - 1
            for index in range(run.slot.count):
                word, shift = run.slot.place(index)
                self._clear[word] |= full << shift

    @property
    def touches_anything(self) -> bool:
        return bool(self._own or self._related)

    @property
    def renumberings(self) -> int:
        """The number of members."""
        return factorial(self.members)

    @property
    def is_exact(self) -> bool:
        """True if sorting gives all states of an orbit the same form."""
        return not self._related

    def sorted(self, states: U64) -> U64:
        """Each state renumbered so that the signatures rise."""
        signatures = self._signatures(states)
        if self._related:
            for number, signature in enumerate(signatures):
                signature.append(np.full(states.shape[1], number, np.uint64))
        for one, other in _network(self.members):
            _exchange(signatures[one], signatures[other])
        order = [signature.pop().astype(np.int64) for signature in signatures] if self._related else []
        return self._written(states, signatures, order)

    def renumbered(self, states: U64, order: Sequence[int]) -> U64:
        """Each state with member `order[i]` renamed to `i`."""
        signatures = self._signatures(states)
        moved = [list(signatures[old]) for old in order]
        return self._written(states, moved, [np.full(states.shape[1], old) for old in order])

    def order_of(self, state: U64) -> list[int]:
        """For one state, shape (words, 1), the order in which `sorted` puts its members."""
        signatures = self._signatures(state)
        return sorted(range(self.members), key=lambda member: [int(word[0]) for word in signatures[member]])

    def orbits(self, states: U64) -> int:
        """The number of states that these represent together, if sorting is exact."""
        signatures = self._signatures(self.sorted(states))
        counts = np.ones(states.shape[1])
        alike = np.ones(states.shape[1])
        for place in range(1, self.members):
            same = np.ones(states.shape[1], np.bool_)
            for word, before in zip(signatures[place], signatures[place - 1], strict=True):
                same &= word == before
            alike = np.where(same, alike + 1, 1)
            counts *= (place + 1) / alike
        return round(float(counts.sum()))

    def orders(self) -> list[tuple[int, ...]]:
        """Renumberings that generate all others: each exchange of two members, and one turn of all."""
        every = range(self.members)
        swaps = [
            tuple({one: other, other: one}.get(member, member) for member in every)
            for one, other in combinations(every, 2)
        ]
        return [*swaps, (*every[1:], 0)] if self.members > 1 else []

    def _pieces_of(self, run: Run) -> list["_Piece"]:
        """The pieces of signature that a run gives each member."""
        shape = run.slot.shape
        if run.refers:
            return [_Piece(run, [index] * self.members, 1) for index in range(run.slot.count)]
        (axis,) = run.axes
        others = [range(extent) for place, extent in enumerate(shape) if place != axis]
        pieces = []
        for rest in product(*others):
            at = [_flat(shape, (*rest[:axis], member, *rest[axis:])) for member in range(self.members)]
            pieces.append(_Piece(run, at, run.slot.kind.width))
        return pieces

    def _signatures(self, states: U64) -> list[list[U64]]:
        """For each member its signature, a few words of each state."""
        found: list[list[U64]] = [[] for _ in range(self.members)]
        used = WORD
        for piece in self._pieces:
            if used + piece.width > WORD:
                used = 0
                for signature in found:
                    signature.append(np.zeros(states.shape[1], np.uint64))
            for member, signature in enumerate(found):
                signature[-1] |= piece.read(states, member) << np.uint64(used)
            used += piece.width
        return found

    def _written(self, states: U64, signatures: list[list[U64]], order: Sequence[I64]) -> U64:
        """The states with these signatures in place of their own."""
        after: U64 = states & np.array([((1 << 64) - 1) ^ clear for clear in self._clear], np.uint64)[:, None]
        number, used = -1, WORD
        for piece in self._pieces:
            if used + piece.width > WORD:
                number, used = number + 1, 0
            full = np.uint64((1 << piece.width) - 1)
            values = [(signature[number] >> np.uint64(used)) & full for signature in signatures]
            piece.write(after, values)
            used += piece.width
        for run in self._related:
            for item in run.items:
                self._carry_values(run, item, states, after, order)
            if not run.items:
                self._carry(run, states, after, order)
        for slot in self._bags:
            _sort_places(slot, after)
        return after

    def _carry(self, run: Run, states: U64, after: U64, order: Sequence[I64]) -> None:
        """Write a run that relates members: its cells moved, and the members they name renamed."""
        rows = np.arange(states.shape[1])
        old = np.stack([_cell(run.slot, states, index) for index in range(run.slot.count)])
        if run.refers:
            old = self._renamed(run, states, old, order)
        for index in product(*(range(extent) for extent in run.slot.shape)):
            source = np.zeros(len(rows), np.int64)
            for axis, at in enumerate(index):
                source *= run.slot.shape[axis]
                source += order[at] if axis in run.axes else at
            word, shift = run.slot.place(_flat(run.slot.shape, index))
            after[word] |= old[source, rows] << np.uint64(shift)

    def _carry_values(
        self, run: Run, item: Cell[Any, Any], states: U64, after: U64, order: Sequence[I64]
    ) -> None:
        """Write a set of items that name members: the bit of each item from that of the renamed one."""
        rows = np.arange(states.shape[1])
        kind = item.kind(self._sizes)
        weights = _weights(item, self.size, self._sizes)
        *outer, count = run.slot.shape
        for number, code in enumerate(kind.codes()):
            moved = np.full(len(rows), number, np.int64)
            for weight, at, leaf in weights:
                own = code >> at & ((1 << leaf.kind(self._sizes).width) - 1)
                if isinstance(leaf, Id):
                    member = own - leaf.nobody
                    if member >= 0:
                        moved += (order[member] - member) * weight
                else:
                    for member in (i for i in range(self.members) if own >> i & 1):
                        moved += ((np.int64(1) << order[member]) - (1 << member)) * weight
            for index in product(*(range(extent) for extent in outer)):
                source = np.zeros(len(rows), np.int64)
                for axis, at in enumerate(index):
                    source *= outer[axis]
                    source += order[at] if axis in run.axes else at
                word, shift = run.slot.place(_flat(tuple(outer), index) * count + number)
                after[word] |= _bit_at(run.slot, states, source * count + moved) << np.uint64(shift)

    def _renamed(self, run: Run, states: U64, old: U64, order: Sequence[I64]) -> U64:
        new = np.zeros_like(old)
        for now, before in enumerate(order):
            if run.refers == "flags":
                new |= ((old >> before.astype(np.uint64)) & np.uint64(1)) << np.uint64(now)
            else:
                new[old == (before - run.least).astype(np.uint64)] = now - run.least
        if run.refers == "id" and (run.lengths is not None or run.is_there is not None):
            new[~_used(run, states)] = 0
        return new


class _Piece:
    """Some bits of every member's signature: a cell of its own, or whether a cell names it."""

    def __init__(self, run: Run, at: list[int], width: int) -> None:
        self.width = width
        self._run = run
        self._at = at

    def read(self, states: U64, member: int) -> U64:
        cell = _cell(self._run.slot, states, self._at[member])
        if self._run.refers == "flags":
            return (cell >> np.uint64(member)) & np.uint64(1)
        if self._run.refers == "id":
            named: Mask = cell == np.uint64(member - self._run.least)
            if self._run.lengths is not None or self._run.is_there is not None:
                named &= _used_at(self._run, states, self._at[member])
            return named.astype(np.uint64)
        return cell

    def write(self, after: U64, values: Sequence[U64]) -> None:
        for member, value in enumerate(values):
            word, shift = self._run.slot.place(self._at[member])
            if self._run.refers == "flags":
                shift += member
            elif self._run.refers == "id":
                value = value * np.uint64(member - self._run.least)
            after[word] |= value << np.uint64(shift)


def _cell(slot: Slot, states: U64, index: int) -> U64:
    word, shift = slot.place(index)
    found: U64 = (states[word] >> np.uint64(shift)) & np.uint64((1 << slot.kind.width) - 1)
    return found


def _used_at(run: Run, states: U64, index: int) -> Mask:
    """True where a place of a sequence or a bag is in use; the others name no member."""
    if run.is_there is not None:
        there: Mask = _cell(run.is_there, states, index) != 0
        return there
    assert run.lengths is not None
    sequence, place = divmod(index, run.slot.shape[-1])
    return _cell(run.lengths, states, sequence) > np.uint64(place)


def _used(run: Run, states: U64) -> Mask:
    return np.stack([_used_at(run, states, index) for index in range(run.slot.count)])


def _bit_at(slot: Slot, states: U64, flat: I64) -> U64:
    """One bit of each state, at a place of its own."""
    word, inside = np.divmod(flat, slot.in_word) if slot.spans_words() else (np.zeros_like(flat), flat)
    shift = inside if slot.spans_words() else inside + slot.shift
    found: U64 = states[word + slot.word, np.arange(len(flat))] >> shift.astype(np.uint64) & np.uint64(1)
    return found


def _sort_places(slot: Slot, states: U64) -> None:
    """Sort the places of bags again, the largest code first."""
    capacity = slot.shape[-1]
    full = (1 << slot.kind.width) - 1
    for first in range(0, slot.count, capacity):
        cells = [_cell(slot, states, first + place) for place in range(capacity)]
        for one, other in _network(capacity):
            pair = cells[one], cells[other]
            cells[one], cells[other] = np.maximum(*pair), np.minimum(*pair)
        for place, cell in enumerate(cells):
            word, shift = slot.place(first + place)
            states[word] = states[word] & np.uint64(((1 << 64) - 1) ^ (full << shift)) | cell << np.uint64(
                shift
            )


def _weights(
    item: Cell[Any, Any], size: str, sizes: Mapping[str, int]
) -> list[tuple[int, int, Cell[Any, Any]]]:
    """The parts that name members: the weight of each in the number of a value, its first bit, its cell."""
    found = []
    for path, at, leaf in item.leaves(sizes):
        if _refers(leaf, size):
            weight, kind = 1, item.kind(sizes)
            for name in path:
                assert isinstance(kind, RecordKind)
                weight *= kind.strides()[name]
                kind = kind.places[name][1]
            found.append((weight, at, leaf))
    return found


def _together(samples: Iterable[U64]) -> Iterator[U64]:
    """The same rows in fewer batches, which are small as long as no sample is large."""
    waiting: list[U64] = []
    for sample in samples:
        if waiting and sum(each.shape[1] for each in waiting) + sample.shape[1] > _FEW:
            yield np.concatenate(waiting, axis=1)
            waiting = []
        waiting.append(sample)
    if waiting:
        yield np.concatenate(waiting, axis=1)


def _mark(states: U64, outcomes: Iterable[tuple[I64, U64, U64]]) -> U64:
    """A fingerprint of what may happen next in each state, independent of the order of the labels."""
    total = np.zeros(states.shape[1], np.uint64)
    for origin, after, verdicts in outcomes:
        np.add.at(total, origin, keys.fingerprints(np.stack([*after, verdicts])))
    return total


def _flat(shape: tuple[int, ...], index: tuple[int, ...]) -> int:
    flat = 0
    for extent, at in zip(shape, index, strict=True):
        flat = flat * extent + at
    return flat


def _network(members: int) -> list[tuple[int, int]]:
    """Exchanges of neighbours that sort any sequence."""
    return [(place, place + 1) for end in range(members - 1, 0, -1) for place in range(end)]


def _exchange(one: list[U64], other: list[U64]) -> None:
    """Put the smaller signature first, state by state; the words are compared from the first on."""
    if len(one) == 1:
        one[0], other[0] = np.minimum(one[0], other[0]), np.maximum(one[0], other[0])
        return
    swap = one[-1] > other[-1]
    for mine, theirs in zip(one[-2::-1], other[-2::-1], strict=True):
        swap = (mine > theirs) | ((mine == theirs) & swap)
    for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        one[place], other[place] = np.where(swap, theirs, mine), np.where(swap, mine, theirs)
