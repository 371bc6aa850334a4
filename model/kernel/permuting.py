"""Renumbering the members of a size in packed states, as columns: by a given order, or into sorted order.

A member (a process, a key) owns some cells of the state: those whose index is its number. Other cells
tell something about it: an `Id` that is or is not its number, a `Flags` that has it or not. All of
that, packed into one number (or a few), is the member's *signature*. Renumbering the members reorders
the signatures; writing them back gives the renumbered state. Sorting the signatures gives every state
of an orbit the same form, in a few minima and maxima a pair of members.

Cells that relate members to each other (an `Id`, a `Flags` or an array by the same size inside an array
by it) are in nobody's signature. They are carried along by the order that the signatures came out in.
Members with equal signatures keep their order then, so two states of one orbit may keep two forms:
always a state of the orbit, not always the same one. That loses some reduction and no verdict.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from fencepost.model.kernel.extents import AnyExtent, Size
from fencepost.model.kernel.fields import Flags, Id
from fencepost.model.kernel.kinds import IntKind
from fencepost.model.kernel.layout import I64, U64, WORD, Mask, Slot
from fencepost.model.kernel.model import Model


@dataclass(frozen=True)
class Run:
    """A run of cells that a size has to do with: `axes` are its dimensions by that size."""

    slot: Slot
    axes: tuple[int, ...]
    refers: str
    least: int
    lengths: Slot | None

    @property
    def relates(self) -> bool:
        return len(self.axes) + bool(self.refers) > 1


def runs_of(model: Model, size: str) -> list[Run]:
    """What a size has to do with, field by field."""
    found = []
    for field_name, field in model.fields.items():
        for name, dimensions, cell in field.cells(field_name, ()):
            axes = tuple(axis for axis, extent in enumerate(dimensions) if is_size(extent, size))
            refers = ""
            if isinstance(cell, Id) and is_size(cell.extent, size):
                refers = "id"
            elif isinstance(cell, Flags) and len(cell.domain) == 1 and is_size(cell.domain[0], size):
                refers = "flags"
            if name.endswith(".length"):
                refers = ""
            slot = model.layout.slots[name]
            lengths = model.layout.slots.get(name.removesuffix(".items") + ".length")
            if axes or refers:
                least = slot.kind.least if isinstance(slot.kind, IntKind) else 0
                found.append(Run(slot, axes, refers, least, lengths if name.endswith(".items") else None))
    return found


def is_size(extent: AnyExtent, size: str) -> bool:
    return extent == size if isinstance(extent, str) else isinstance(extent, Size) and extent.name == size


class Permuter:
    """All that one size has to do with, in the states of one model."""

    def __init__(self, model: Model, size: str) -> None:
        self.size = size
        self.members = model.sizes[size]
        runs = runs_of(model, size)
        self._own = [run for run in runs if not run.relates]
        self._related = [run for run in runs if run.relates]
        self._pieces = [piece for run in self._own for piece in self._pieces_of(run)]
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
    def is_exact(self) -> bool:
        """Whether sorting gives all states of an orbit one and the same form."""
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
        """How many states these stand for together, when sorting is exact."""
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
            self._carry(run, states, after, order)
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

    def _renamed(self, run: Run, states: U64, old: U64, order: Sequence[I64]) -> U64:
        new = np.zeros_like(old)
        for now, before in enumerate(order):
            if run.refers == "flags":
                new |= ((old >> before.astype(np.uint64)) & np.uint64(1)) << np.uint64(now)
            else:
                new[old == (before - run.least).astype(np.uint64)] = now - run.least
        if run.refers == "id" and run.lengths is not None:
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
            if self._run.lengths is not None:
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
    """Whether a place of a sequence is below its length; the places beyond name nobody."""
    assert run.lengths is not None
    sequence, place = divmod(index, run.slot.shape[-1])
    return _cell(run.lengths, states, sequence) > np.uint64(place)


def _used(run: Run, states: U64) -> Mask:
    return np.stack([_used_at(run, states, index) for index in range(run.slot.count)])


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
