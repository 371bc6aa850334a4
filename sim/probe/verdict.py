"""Verdicts of a probe: one for each feature, and one for the whole store.

    safe          what was tried behaved; of races this is evidence with a bound, never a proof
    unsafe        the store did what must never happen; the history that shows it is part of the finding
    unsupported   the store says that it does not offer this (or it does not apply): nothing is lost silently
    undecided     too little was learned: replies were lost, time ran out, permission was missing

The whole is `unsafe` when any feature is: each of them loses somebody's data. It is `undecided` when any
feature is, because that one may hide the worst. It is `unsupported` when a *core* feature is, on which
practically every protocol depends; the others only name operations that a protocol must not use.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.sim.probe.history import HistoryStep


class Verdict(enum.StrEnum):
    """The table is at the top of this module."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNSUPPORTED = "unsupported"
    UNDECIDED = "undecided"


class Broken(Exception):
    """The store did what it must never do."""


class NotOffered(Exception):
    """The store does not offer this, or it makes no sense here."""


class Inconclusive(Exception):
    """Nothing can be concluded from what happened."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row: what was found out about one feature."""

    name: str
    verdict: Verdict
    detail: str
    core: bool = False
    applies: bool = True
    """False when the feature makes no sense here: then it decides nothing."""
    rounds: int = 0
    bad: int = 0
    bound: float | None = None
    """With no bad round of `rounds`: the true rate of bad rounds is below this, with 95 % confidence."""
    seconds: float = 0.0
    history: tuple[HistoryStep, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The result of a probe. The fields are the keys of its JSON, in this order."""

    url: str
    verdict: Verdict
    features: tuple[Finding, ...]
    latency: Mapping[str, Mapping[str, float]]
    """Milliseconds by operation: p50, p90, p99."""
    prefix: str = ""
    left: tuple[str, ...] = ()
    """Objects that could not be removed."""
    requests: int = 0
    seconds: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    profile: Mapping[str, Any] = field(default_factory=dict, metadata={"serialized": False})
    """The latency profile, which --profile writes to a file of its own."""


def overall(findings: Iterable[Finding]) -> Verdict:
    """The verdict on the store; the rule is at the top of this module."""
    every = list(findings)
    verdicts = {finding.verdict for finding in every}
    core = {finding.verdict for finding in every if finding.core and finding.applies}
    if Verdict.UNSAFE in verdicts:
        return Verdict.UNSAFE
    if Verdict.UNDECIDED in verdicts or not core:
        return Verdict.UNDECIDED
    return Verdict.UNSUPPORTED if Verdict.UNSUPPORTED in core else Verdict.SAFE


def bound_of(rounds: int) -> float | None:
    """No bad round among `rounds`: the rate that would still show none once in twenty probes."""
    return 1 - 0.05 ** (1 / rounds) if rounds else None
