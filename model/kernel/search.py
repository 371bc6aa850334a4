"""An exploration from outside: what bounds it, what it reports on the way, and what it has seen in the end.

Every engine answers with a `Search`, be it the threads of `explore`, random walks or Spark. Verdicts,
counterexamples and graphs read nothing else.
"""

from dataclasses import dataclass, field
from pathlib import Path

from fencepost.model.kernel.layout import U64
from fencepost.model.kernel.model import Label, Model


@dataclass(frozen=True)
class Progress:
    """How far an exploration has come; what a progress line shows."""

    depth: int
    frontier: int
    distinct: int
    generated: int
    seconds: float
    held_bytes: int
    spilled_bytes: int = 0


@dataclass(frozen=True)
class Found:
    """Where a property was decided: a state of a level, and for a step the label that leads on from it."""

    depth: int
    state: tuple[int, ...]
    label: Label | None = None
    after: tuple[int, ...] | None = None


@dataclass
class Bounds:
    """When to stop without an answer. With `spill`, a directory, memory that is full goes there instead."""

    max_states: int | None = None
    memory: int | None = None
    max_depth: int | None = None
    spill: Path | None = None


@dataclass
class Search:
    """What an exploration has seen. `levels[d]` holds the states first reached after d steps."""

    model: Model
    levels: list[U64] = field(default_factory=list)
    distinct: int = 0
    generated: int = 0
    fired: list[int] = field(default_factory=list)
    found: dict[str, Found] = field(default_factory=dict)
    deadlock: Found | None = None
    complete: bool = False
    stopped_by: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0
    spilled_bytes: int = 0

    @property
    def depth(self) -> int:
        """The number of levels, the initial states' among them: as TLC counts it."""
        return len(self.levels)

    @property
    def last(self) -> int:
        """The number of the deepest level: the steps to the farthest states."""
        return len(self.levels) - 1


def packed(states: U64, row: int) -> tuple[int, ...]:
    """One packed state as plain numbers."""
    return tuple(int(word) for word in states[:, row])
