"""A failure as a value: what happened, step by step, who did it, and how to make it happen again."""

from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.store.events import Event
from fencepost.impl.store.requests import Request
from fencepost.sim.explore.tokens import HARMLESS, Replay, switches_of
from fencepost.sim.faults import ALTERNATIVES
from fencepost.sim.world.objects import FLIGHTS_FROM
from fencepost.sim.world.trace import events


@dataclass
class Line:
    """One step of a counterexample."""

    number: int
    process: str
    operation: str
    outcome: str
    fault: str = ""

    def __str__(self) -> str:
        mark = "!" if self.fault else " "
        return f"{self.number:>3} {mark} {self.process:<12} {self.operation:<40} {self.outcome}".rstrip()


@dataclass
class Counterexample:
    """A violated property, the run that violates it, and the token that repeats it."""

    property: str
    reason: str
    lines: list[Line]
    token: str
    switches: int
    faults: int
    events: list[Event] = field(repr=False, default_factory=list)
    notes: list[str] = field(default_factory=list)

    def text(self) -> list[str]:
        """For people: the steps, and what they lead to."""
        return [*map(str, self.lines), f"  => {self.property}: {self.reason}", *self.notes]


def tell(replay: Replay, token: str) -> Counterexample:
    """The counterexample of a run that violated a property."""
    assert replay.violation is not None, "only a violation has a counterexample"
    lines = lines_of(replay.world)
    return Counterexample(
        property=replay.violation.name,
        reason=replay.violation.reason,
        lines=lines,
        token=token,
        switches=switches_of(replay.steps),
        faults=sum(1 for step in replay.steps if step.alternative not in HARMLESS and step.kind != "pick"),
        events=events(replay.world),
    )


def lines_of(world: Any) -> list[Line]:
    """The steps of a run, without those that tell nothing."""
    lines: list[Line] = []
    for actor, alternative, process, _, _, op, answer, clock in world.trace:
        if op.kind in ("wake", "clock") and alternative in HARMLESS:
            continue
        if op.kind == "finish" and alternative != "crash" and op.error is None and op.result is None:
            continue
        who = "clock" if process is None else process.name if process.index else "setup"
        fault = alternative if alternative not in HARMLESS and op.kind != "pick" else ""
        outcome = ALTERNATIVES[fault].text if fault else outcome_text(op, answer, clock)
        if actor >= FLIGHTS_FROM and alternative == "land":
            outcome = f"lands now, its sender long gone: {outcome}"
        lines.append(Line(len(lines) + 1, who, operation_text(op), outcome, fault))
    return lines


def operation_text(op: Any) -> str:
    """What was asked, on one line."""
    if isinstance(op, Request):
        parts = [op.kind, op.subject or "(everything)"]
        when = getattr(op, "when", None)
        if when is not None:
            etag = getattr(when, "etag", "")[:6]
            parts.append(
                {"Absent": "if absent", "Anything": "unconditionally"}.get(type(when).__name__, f"if {etag}")
            )
        body = getattr(op, "body", None)
        if body is not None:
            parts.append(_short(body))
        return " ".join(parts)
    if op.kind == "sleep":
        return f"sleep {op.nanoseconds / 1e9:g} s"
    if op.kind == "note":
        return f"note {op.topic}: {_short(op.value)}"
    if op.kind == "finish":
        return "return" if op.error is None else "raise"
    if op.kind == "advance":
        return "tick"
    return f"{op.kind} {op.subject}".strip()


def outcome_text(op: Any, answer: Any, clock: int) -> str:
    """What became of it."""
    outcome = getattr(answer, "outcome", None)
    if outcome is not None:
        body = getattr(answer, "body", b"")
        etag = getattr(answer, "etag", "")
        tail = f" {_short(body)}" if body else f" ({etag[:6]})" if etag else ""
        if op.kind == "list":
            tail = f" {[found.key for found in answer.objects]}"
        return f"-> {outcome.value}{tail}"
    if isinstance(answer, Exception):
        return f"-> {type(answer).__name__}: {answer}"
    if op.kind == "finish":
        return _short(op.result) if op.error is None else f"{type(op.error).__name__}: {op.error}"
    if op.kind == "pick":
        return f"option {answer}"
    if op.kind == "advance":
        return f"it is {clock / 1e9:g} s"
    return ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
