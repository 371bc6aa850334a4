"""The share of a model's transitions that runs of real code drove: plain values, for results.

`refinement.coverage` computes it. The module imports nothing, so that reading a result loads no kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Gap:
    """A label that no run drove, and the model's shortest way to it."""

    label: str
    transitions: int
    path: tuple[str, ...]


@dataclass(frozen=True)
class Share:
    """The transitions that runs drove, of all transitions within the model's bounds."""

    model: str
    transitions: int
    driven: int
    share: float
    """Driven transitions by all of them, rounded to six digits."""
    parameters: Mapping[str, int] = field(default_factory=dict)
    states: int = 0
    runs: int = 0
    runs_beyond_the_bound: int = 0
    """Runs that left the bound."""
    actions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By action: `driven`, the transitions that were driven, and `transitions`, all of them."""
    gaps: tuple[Gap, ...] = ()
