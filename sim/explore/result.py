"""The result of an audit: plain values, the same for people, for JSON and for tests.

The fields are the keys of the JSON, in this order. `AuditOutcome.result` computes it from the runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fencepost.properties.driven_share import Share

AuditVerdict = Literal["holds", "violated", "undecided", "error"]
Counts = Mapping[str, int]


@dataclass(frozen=True)
class NearestPass:
    """The passing run that shares the longest prefix with a failing one."""

    same_steps: int
    counterexample: tuple[str, ...]
    token: str = ""
    events: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class CounterexampleStep:
    """One step of a counterexample as data. Bodies are whole; a `_base64` field holds one that is no UTF-8.

    `body` is the body that was written or read, `previous` the body of the version of the object before the
    present one. `etag_since` marks an ETag that the object had before, with another in between: the number of
    the step after which it had it, 0 for the beginning. `file`, `line` and `function` are the innermost line
    of the user's code, `stack` the lines that lead to it.
    """

    number: int
    process: str
    kind: str
    """`put`, `get`, `list`, ..., `note`, `sleep`, `clock`, `pick`, `advance` (of the clock), `finish`."""
    operation: str
    outcome: str
    incarnation: int = 0
    subject: str = ""
    condition: str = ""
    fault: str = ""
    time_s: float = 0.0
    body: str | None = None
    body_base64: str | None = None
    previous: str | None = None
    previous_base64: str | None = None
    etag: str = ""
    etag_since: int | None = None
    file: str = ""
    line: int | None = None
    function: str = ""
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class Violation:
    """A violated property with its counterexample."""

    property: str
    reason: str
    counterexample: tuple[str, ...]
    """The lines that are printed; `steps` are the same as data."""
    token: str = ""
    raised_at: tuple[str, ...] = ()
    moves: int | None = None
    events: tuple[Mapping[str, Any], ...] = ()
    nearest_pass: NearestPass | None = None
    steps: tuple[CounterexampleStep, ...] = ()
    back_to: int | None = None
    """Of a run without end: the number of the step from which it goes round again."""


@dataclass(frozen=True, kw_only=True)
class RequestLine:
    """A line of the user's code that sends a request, with the outcomes that schedules met there."""

    file: str
    line: int
    function: str
    kind: str
    condition: str = ""
    """`if absent` or `if matches`; empty without a condition."""
    outcomes: Counts
    """Every outcome that the store's rules and the budget of faults allow, with how often it was met."""
    then: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By outcome: what the code did next."""
    untried: tuple[str, ...] = ()
    """Outcomes that the store's rules allow and the budget does not."""
    stack: tuple[str, ...] = ()
    """Lines of helpers below it, innermost last."""


@dataclass(frozen=True)
class AuditCoverage:
    """The situations that the runs met, with how often."""

    outcomes: Counts = field(default_factory=dict)
    faults: Counts = field(default_factory=dict)
    steps: Counts = field(default_factory=dict)
    conflicts: int = 0
    sometimes: Mapping[str, bool] = field(default_factory=dict)
    tested: Counts = field(default_factory=dict)
    """By property: how often it was judged in a state in which its condition (`when`) was met."""
    requests: tuple[RequestLine, ...] = ()
    """Outcome coverage, by line of the user's code."""
    executed: Mapping[str, Counts] = field(default_factory=dict)
    """By file and line: 1 if some schedule executed it, else 0; empty if it was not recorded."""


@dataclass(frozen=True)
class StageResult:
    """The part of an audit with at most so many faults, decided on its own."""

    name: str
    """`no-faults`, `one-fault`, `two-faults`, or `all`: the whole budget."""
    verdict: AuditVerdict
    bound: str
    """The schedules that it speaks of, as a part of a sentence."""
    schedules: int
    """Runs to their end."""
    runs: int
    """Runs, however they ended."""
    seconds: float
    explored: float
    """Estimated share of its schedules that were explored; 1 if all were."""


@dataclass(frozen=True)
class ProgramError:
    """The reason why a program cannot be audited, which is no violation, with the line of the program."""

    message: str
    file: str = ""
    line: int | None = None
    function: str = ""


@dataclass(frozen=True)
class RealRun:
    """The numbers of a run on a real store (`--store`)."""

    store: str
    threads: int
    requests: int
    at_once: int
    looks: int
    unconfirmed: int = 0
    prefix: str = ""
    left: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The result of `fencepost audit`, and of an audit in a test."""

    system: str
    strategy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    verdict: AuditVerdict
    bound: str
    schedules: int
    pruned: int = 0
    seconds: float
    violations: tuple[Violation, ...]
    findings: tuple[str, ...] = ()
    suspicions: tuple[Violation, ...] = ()
    """Schedules that break a ready promise, of a program that declares no property. No part of the verdict.
    """
    coverage: AuditCoverage = AuditCoverage()
    cost: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    complete: bool | None = None
    stages: tuple[StageResult, ...] = ()
    """From no faults to all of the budget; empty where the search had one stage."""
    enough: str = "all"
    """The stage that must hold for a pass."""
    passes: bool = False
    """True if nothing is violated, and the stage that is enough holds."""
    faults: Counts = field(default_factory=dict)
    seed: int = 0
    model: Share | None = None
    flat: Mapping[str, Any] | None = None
    counterexample: tuple[str, ...] = ()
    """The steps of the one run that `--replay` repeats."""
    token: str | None = None
    error: ProgramError | None = None
    """With the verdict `error`."""
    real: RealRun | None = None
    hash_seeds: tuple[str, ...] = ()
    """The values of PYTHONHASHSEED under which some schedules were compared; empty when it was not varied."""
