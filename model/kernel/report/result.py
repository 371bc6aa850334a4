"""The result of a check: plain values, the same for people, for JSON and for tests.

The fields are the keys of the JSON, in this order; `IN_PROCESS` marks those that JSON leaves out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.kinds import Deadlock
from fencepost.model.kernel.language.model import Model
from fencepost.model.kernel.report.counterexample import Counterexample, TraceStep

Verdict = Literal["holds", "violated", "undecided"]
NO_DEADLOCK = "no-deadlock"
DEADLOCK = Property(
    NO_DEADLOCK,
    Deadlock(),
    lambda _: None,
    "Something can always happen, except where the machine says that it may end.",
)
"""The property that every machine has without declaring it."""
IN_PROCESS = {"serialized": False}
"""Metadata of a field that exists in the process that computed the result, and in no JSON."""


@dataclass(frozen=True)
class Proof:
    """The exploration that decided a refinement: both machines, at the sizes of the proof."""

    refines: str
    """The other machine."""
    parameters: Mapping[str, int]
    other_parameters: Mapping[str, int]
    """The sizes of the other machine."""
    distinct: int
    generated: int
    depth: int
    seconds: float


@dataclass(frozen=True)
class PropertyResult:
    """One property's verdict. The counterexample is of the violation, or for `reachable` a path there."""

    name: str
    kind: str
    verdict: Verdict
    trace: tuple[TraceStep, ...] = ()
    doc: str = ""
    reason: str = ""
    proof: Proof | None = None
    counterexample: Counterexample | None = field(default=None, metadata=IN_PROCESS)

    def __post_init__(self) -> None:
        assert self.reason or self.verdict != "undecided", f"{self.name} is undecided without a reason"

    @classmethod
    def of(
        cls,
        wanted: Property,
        verdict: Verdict,
        counterexample: Counterexample | None = None,
        reason: str = "",
    ) -> "PropertyResult":
        trace = counterexample.trace() if counterexample is not None else ()
        return cls(
            wanted.name, wanted.kind.name, verdict, trace, wanted.doc, reason, counterexample=counterexample
        )


@dataclass(frozen=True)
class GraphState:
    text: str
    initial: bool


@dataclass(frozen=True)
class StateGraph:
    """All states of a small model; a step is `[source, target, label]`."""

    states: tuple[GraphState, ...]
    steps: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The result of a check. `seconds` and the bytes are measured, everything else is exact.

    `collision_odds` is the probability that two distinct states shared a fingerprint, which would hide a part
    of the space, if fingerprints behave like a random function: 0 for states of one word. `notes` are
    sentences on how the result was found: the effect of a reduction, what was written to disk, what is an
    estimate. `vacuity_warnings` list what no reachable state ever tests: to know before believing that a
    property holds.
    """

    model: str
    parameters: Mapping[str, Any]
    without: tuple[str, ...]
    verdict: Verdict
    distinct: int
    generated: int
    depth: int
    seconds: float
    peak_bytes: int
    properties: tuple[PropertyResult, ...]
    coverage: Mapping[str, int]
    words: int = 0
    collision_odds: float = 0.0
    stopped_by: str = ""
    labels_fired: Mapping[str, int] = field(default_factory=dict, metadata=IN_PROCESS)
    notes: tuple[str, ...] = ()
    vacuity_warnings: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Actions and fields that do nothing at these sizes, as the machine declares: what they need."""
    cut: int = 0
    """States that a `@bound` cut: the verdict is about the others."""
    graph: StateGraph | None = None

    def __post_init__(self) -> None:
        undecided = any(found.verdict == "undecided" for found in self.properties)
        has_reason = self.stopped_by or self.notes or undecided
        assert self.verdict != "undecided" or has_reason, "a check that is undecided gives a reason"
        assert self.verdict != "holds" or not self.stopped_by, f"stopped by {self.stopped_by}, yet it holds"

    @property
    def never_fired(self) -> tuple[str, ...]:
        """Actions that no reachable state enables: dead text, or a guard that is too strong."""
        return tuple(action for action, count in self.coverage.items() if count == 0)

    @property
    def bytes_per_state(self) -> float:
        return self.peak_bytes / max(1, self.distinct)

    def __getitem__(self, name: str) -> PropertyResult:
        """The result of a property by name."""
        return next(found for found in self.properties if found.name == name)


def result_of(
    model: Model,
    fired: Sequence[int],
    properties: Sequence[PropertyResult],
    *,
    complete: bool,
    **measured: Any,
) -> CheckResult:
    """The result for a model: coverage and verdict follow from the labels that fired and the properties."""
    coverage = dict.fromkeys(model.actions, 0)
    for label, count in zip(model.labels, fired, strict=True):
        coverage[label.action] += count
    verdicts = [found.verdict for found in properties]
    return CheckResult(
        model=model.name,
        parameters=dict(model.sizes),
        without=tuple(sorted(model.without)),
        verdict=worst(verdicts if complete else [*verdicts, "undecided"]),
        properties=tuple(properties),
        coverage=coverage,
        words=model.words,
        labels_fired={str(label): count for label, count in zip(model.labels, fired, strict=True)},
        **measured,
    )


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Violated beats undecided beats holds."""
    return next((verdict for verdict in _WORST_FIRST if verdict in verdicts), "holds")


_WORST_FIRST: tuple[Verdict, ...] = ("violated", "undecided")
