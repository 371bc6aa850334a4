"""The result of a replay: findings of continuity, the runs that a model does not allow, and statistics.

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
class ContinuityFinding(RunVerdict):
    """A request that contradicts earlier ones about the same object, whatever the model."""

    key: str = ""
    other_seq: int = -1
    """The event that it contradicts, -1 if that is the beginning of the run."""
    other: str = ""


@dataclass(frozen=True)
class PromiseVerdict:
    """One promise on one run."""

    promise: str
    verdict: Literal["holds", "violated", "undecided"]
    run: str = ""
    seq: int = -1
    """The event that breaks it, -1 if that is the end of the run."""
    event: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ContinuityResult:
    """The continuity of all objects: conditions, ETags and hashes, without a model."""

    verdict: Literal["holds", "violated", "undecided"]
    requests: int
    """Requests about one object."""
    judged: int
    objects: int
    violated: int
    """Objects with a finding. Each has one, its first."""
    undecided: int
    """Objects whose history is too entangled to decide."""
    unjudged: Mapping[str, int] = field(default_factory=dict)
    """Requests that were not judged, by reason."""
    other_etags: int = 0
    """ETags that nothing in the trace wrote, of objects that other writers change."""
    all_writers: bool = False
    """The user declared that the trace has all writers."""
    starts_empty: bool = False
    """The user declared that no object existed before."""
    findings: tuple[ContinuityFinding, ...] = ()


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
    """Empty if none was named: then continuity alone decides."""
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
    """Events that belong to no run."""
    left_out_by: Mapping[str, int] = field(default_factory=dict)
    """Of those, the number by what they are about (local engine)."""
    events_read: int = 0
    grouped_by: str = ""
    started_seconds: float = 0.0
    continuity: ContinuityResult | None = None
    """None for access logs, which have no ETags."""
    promises: tuple[PromiseVerdict, ...] = ()
    """The promises that were judged (--promise), on each run."""
    coverage: LabelCoverage | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    explained_runs: Mapping[str, Any] = field(default_factory=dict)
    """How events group into runs, and what the map reads, with --explain-runs."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """Runs that were ordered by the clocks of several processes, and by how much these differ at least."""
    not_judged: tuple[str, ...] = ()
    """Properties that the verdict does not cover."""
    judged_by: str = ""
    """The machine that judges the runs, as `fencepost check` names it."""
    properties: tuple[str, ...] = ()
    """The properties that hold in every run that is accepted: those of this machine."""
    properties_not_judged: tuple[str, ...] = ()
    """The properties of the model that this machine does not state."""
