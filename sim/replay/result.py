"""The result of a replay: the runs that a model does not allow, and the statistics of the trace.

The fields are the keys of the JSON, in this order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fencepost.properties.driven_share import Share


@dataclass(frozen=True)
class RunVerdict:
    """A run that the model does not allow, or about which the trace has too little."""

    run: str
    seq: int
    event: str
    reason: str
    rule: str = ""
    state: str = ""
    possible: str = ""
    file: str = ""
    """The file that holds the event, where it was found again."""
    line: int = 0
    """Its line, or its row in a Parquet file, counted from 1."""
    time: str = ""
    """When it happened, in UTC."""


@dataclass(frozen=True)
class LabelCoverage:
    """The labels of the model that the replayed runs took, and optionally the transitions they drove."""

    taken: int
    of: int
    actions: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    model: Share | None = None


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """The result of `fencepost replay`."""

    model: str
    engine: Literal["local", "spark"]
    runs: int
    events: int
    accepted: int
    rejected: int
    undecided: int
    seconds: float
    events_per_second: float
    violations: tuple[RunVerdict, ...]
    verdict: Literal["holds", "violated", "undecided"]
    source: Literal["traces", "access-log"] = "traces"
    undecided_runs: tuple[RunVerdict, ...] = ()
    problems: tuple[str, ...] = ()
    """Why parts of the input could not be read."""
    damaged_lines: int = 0
    """Lines that are no events."""
    left_out: int = 0
    events_read: int = 0
    grouped_by: str = ""
    started_seconds: float = 0.0
    coverage: LabelCoverage | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    not_judged: tuple[str, ...] = ()
    """Properties that the verdict does not cover."""
    judged_by: str = ""
    """The machine that judges the runs, as `fencepost check` names it."""
    properties: tuple[str, ...] = ()
    """The properties that hold in every run that is accepted: those of this machine."""
    properties_not_judged: tuple[str, ...] = ()
    """The properties of the model that this machine does not state."""
