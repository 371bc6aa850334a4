"""What a check answers: plain values, the same for people, for JSON and for tests."""

from dataclasses import dataclass, field
from typing import Any, Literal

from fencepost.model.kernel.language.declare import Kind
from fencepost.model.kernel.report.counterexample import Counterexample

Verdict = Literal["holds", "violated", "undecided"]


@dataclass(frozen=True)
class PropertyResult:
    """One property's verdict. The counterexample is the violation's, or for `reachable` the way there."""

    name: str
    kind: Kind
    verdict: Verdict
    counterexample: Counterexample | None = None
    doc: str = ""
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        trace = self.counterexample.as_json() if self.counterexample is not None else []
        return {
            "name": self.name,
            "kind": self.kind,
            "verdict": self.verdict,
            "trace": trace,
            "doc": self.doc,
            **({"reason": self.reason} if self.reason else {}),
        }


@dataclass(frozen=True)
class Result:
    """What a check found out. `seconds` and the bytes are measured, everything else is exact.

    `collision_odds` is the probability that two distinct states were taken for one, which would
    have hidden a part of the space: 0 for states of one word. `notes` are sentences on how it was
    found out that a reader should see: what a reduction brought, what went to disk, what is estimated.
    """

    model: str
    parameters: dict[str, int]
    without: tuple[str, ...]
    verdict: Verdict
    distinct: int
    generated: int
    depth: int
    seconds: float
    peak_bytes: int
    properties: tuple[PropertyResult, ...]
    coverage: dict[str, int]
    words: int
    collision_odds: float
    stopped_by: str = ""
    labels_fired: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    vacuity_warnings: tuple[str, ...] = ()
    """What no reachable state ever tests: to know before believing that it holds."""

    @property
    def never_fired(self) -> tuple[str, ...]:
        """Actions that no reachable state enables: dead text, or a guard that is too strong."""
        return tuple(action for action, count in self.coverage.items() if count == 0)

    @property
    def bytes_per_state(self) -> float:
        return self.peak_bytes / max(1, self.distinct)

    def __getitem__(self, name: str) -> PropertyResult:
        """A property's result by name."""
        return next(found for found in self.properties if found.name == name)

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "parameters": self.parameters,
            "without": list(self.without),
            "verdict": self.verdict,
            "distinct": self.distinct,
            "generated": self.generated,
            "depth": self.depth,
            "seconds": self.seconds,
            "peak_bytes": self.peak_bytes,
            "properties": [found.as_json() for found in self.properties],
            "coverage": self.coverage,
            "words": self.words,
            "collision_odds": self.collision_odds,
            "stopped_by": self.stopped_by,
            "notes": list(self.notes),
            "vacuity_warnings": list(self.vacuity_warnings),
        }


def worst(verdicts: list[Verdict]) -> Verdict:
    """Violated beats undecided beats holds."""
    if "violated" in verdicts:
        return "violated"
    return "undecided" if "undecided" in verdicts else "holds"
