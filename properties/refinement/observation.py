"""Observations: the part of an event that a model can read, without everything that distinguishes runs.

A run's events are full of names of its own: plan ids, manifest numbers, the names of processes. A bounded
model has the first plan and the second, the first manifest after the start and the next. So the values that
are such names are *roles*, and each is replaced by a small number, its rank in the run:

    Role("plan", ("plan", "undoes"), most=1)             0 for the first plan in the run, 1 for the next
    Role("id", ("parent", "id"), COUNTED, start=1)       1 for the first number in the run, 2 for one more
    Role("number", ("base@table", "number@table"), COUNTED)      the same from 0, for each table anew

The rest of an event is an *observation*. A million runs with names of their own share the same few
thousand observations, so a map computes the actions of an observation once, and never for an event.

A value comes from the event's process (`process`; `life` distinguishes its restarts), from the named groups
of the pattern that its key matches, or from its trace fields (see `impl.store.events`). A rank beyond the
role's bounds, such as a number from before the run's first, is out of bounds: the model is too small to
decide.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


class Order(enum.Enum):
    """The ways in which values of a role become numbers."""

    SEEN = "seen"
    """By first appearance."""
    COUNTED = "counted"
    """Whole numbers, relative to the first that appears."""


SEEN, COUNTED = Order.SEEN, Order.COUNTED


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one kind: `pattern` must match the whole key, and its named groups are values.

    Use the syntax that Python and RE2 share: no look-around, no back-references.
    """

    name: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Role:
    """Values that are names of the run's own, see the top of this module."""

    name: str
    of: tuple[str, ...]
    """The values that play it, in the order in which those of one event are ranked. `value@other` is ranked
    anew for each text of the other value. `value?` is only looked up: it gets no rank when it is new (or when
    nothing was counted before), and observations call it `value in role`.
    """
    order: Order = SEEN
    most: int | None = None
    """The largest rank within the model's bounds."""
    start: int = 0
    """The first rank."""
    least: int = 0
    """The smallest rank within the model's bounds."""


@dataclass(frozen=True)
class Observation:
    """One event as the model could have seen it. Equal for all runs in which the same happens."""

    phase: str
    kind: str
    what: str
    """The name of the `Keys` that match; the topic of a note."""
    condition: str
    outcome: str
    ranks: tuple[tuple[str, int], ...]
    """By value."""
    trace_fields: tuple[tuple[str, str], ...]
    """The trace fields that play no role and that the map names."""
    own: bool = False
    """True if the event's process is the first that named the value `owned` of the map."""
    out_of_bounds: str = ""
    """The name of a value beyond the model's bounds; then nothing else counts."""

    @cached_property
    def _ranks(self) -> Mapping[str, int]:
        return dict(self.ranks)

    @cached_property
    def _trace_fields(self) -> Mapping[str, str]:
        return dict(self.trace_fields)

    @property
    def done(self) -> bool:
        return self.outcome == "done"

    def rank(self, value: str) -> int:
        """The rank of a value; -1 when the event does not have it."""
        return self._ranks.get(value, -1)

    def trace_field(self, name: str) -> str:
        """A trace field; empty when the event lacks it."""
        return self._trace_fields.get(name, "")

    def __str__(self) -> str:
        words = [f"{name}={rank}" for name, rank in self.ranks if rank >= 0]
        words += [f"{name}={value}" for name, value in self.trace_fields if value]
        outcome = f" -> {self.outcome}" if self.outcome else ""
        return f"{self.phase} {self.kind} {self.what}{outcome} ({' '.join(words)})"
