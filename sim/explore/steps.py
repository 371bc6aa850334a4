"""The steps of one run as people and tools read them: a line of text each, and the same as data.

Only the run that is shown is described, so everything that costs time is done here: the user's line of every
request, the whole bodies, and for every object what it was before. A long body is shown as the difference
from the previous version of its key. An ETag that an object had before, with another in between, is marked: a
condition on it cannot distinguish the two moments.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

from fencepost.impl.store.requests import Request
from fencepost.sim.explore.callers import depths
from fencepost.sim.explore.result import CounterexampleStep
from fencepost.sim.explore.tokens import HARMLESS
from fencepost.sim.faults import ALTERNATIVES, PAUSE, SKEWS, kind_of, pause_ns, skew_ns
from fencepost.sim.world import World
from fencepost.sim.world.footprints import FLIGHTS_FROM
from fencepost.sim.world.located import CodeLine
from fencepost.sim.world.modified import modified_ns, size_of
from fencepost.sim.world.operations import BLOCKED, CONVERTING, Call, Delivery, NextLine, Survival, Sync
from fencepost.sim.world.run import RunState
from fencepost.sim.world.stamps import STAMPED

SHORT = 40
"""Characters of a value on a line."""
AROUND = 10
"""Bytes shown around what differs."""
WORDS_MAX = 5_000
"""Of a body: comparing longer ones takes seconds."""


@dataclass(frozen=True)
class Line:
    """One step of a counterexample."""

    number: int
    process: str
    operation: str
    outcome: str
    fault: str = ""
    kind: str = ""
    subject: str = ""
    condition: str = ""
    incarnation: int = 0
    time_s: float = 0.0
    body: bytes | None = None
    previous: bytes | None = None
    etag: str = ""
    etag_since: int | None = None
    at: tuple[CodeLine, ...] = ()
    """Lines of the user's code that lead to the request, innermost last."""
    depth: int = 1
    """Which of them stands for the step, from the innermost: a caller's, if a helper sends requests for
    several.
    """

    @property
    def place(self) -> CodeLine | None:
        """The line that stands for the step."""
        return self.at[-min(self.depth, len(self.at))] if self.at else None

    def __str__(self) -> str:
        mark = "!" if self.fault else " "
        text = f"{self.number:>3} {mark} {self.process:<12} {self.operation:<40} {self.outcome}".rstrip()
        return f"{text:<78}  {self.place}" if self.at else text

    def as_data(self) -> CounterexampleStep:
        """Return the step as a result has it."""
        body, body_base64 = _encoded(self.body)
        previous, previous_base64 = _encoded(self.previous)
        line = self.place
        return CounterexampleStep(
            number=self.number,
            process=self.process,
            kind=self.kind,
            operation=self.operation,
            outcome=self.outcome,
            incarnation=self.incarnation,
            subject=self.subject,
            condition=self.condition,
            fault=self.fault,
            time_s=self.time_s,
            body=body,
            body_base64=body_base64,
            previous=previous,
            previous_base64=previous_base64,
            etag=self.etag,
            etag_since=self.etag_since,
            file=line.file if line else "",
            line=line.line if line else None,
            function=line.function if line else "",
            stack=tuple(f"{line} in {line.function}" for line in self.at),
        )


def _encoded(body: bytes | None) -> tuple[str | None, str | None]:
    """Return the text of a body, or its base64 if it is no UTF-8, in the place of each."""
    if body is None:
        return None, None
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(body).decode()


@dataclass
class Objects:
    """Versions of every object before and after each step of a run; `look` watches the run."""

    changes: dict[int, tuple[bytes | None, int | None]] = field(default_factory=dict)
    """By step, of the object it touched: the body of the version before the present one, and the step after
    which the object had the same ETag before, with another in between (-1: before the first step).
    """
    _versions: dict[str, list[tuple[int, str, bytes | None]]] = field(default_factory=dict)
    """By key: the step, the ETag (empty: no object) and the body after it."""

    def look(self, world: World) -> None:
        """Compare the objects with those before the last step."""
        place = len(world.trace) - 1
        keys: Iterable[str] = world.bucket.bodies("") if place < 0 else ()
        if place >= 0 and isinstance(world.trace[-1][5], Request):
            op = world.trace[-1][5]
            keys = (op.subject,) if op.kind not in _NO_OBJECT else ()
        for key in keys:
            self._look_at(key, place, world.bucket.etag(key), world.bucket.body(key))

    def _look_at(self, key: str, place: int, etag: str, body: bytes | None) -> None:
        versions = self._versions.setdefault(key, [(-1, "", None)] if place >= 0 else [])
        same = [at for at, known, _ in versions if known == etag and etag]
        again = None
        if not versions or versions[-1][1] != etag:
            again = same[-1] if same else None
            versions.append((place, etag, body))
        self.changes[place] = (versions[-2][2] if len(versions) > 1 else None, again)


_NO_OBJECT = frozenset({"list", "list-versions", "list-uploads"})


def lines_of(run: RunState, objects: Objects | None = None, steps: int | None = None) -> list[Line]:
    """Return the steps of a run, or only the first so many, without those that show nothing."""
    lines: list[Line] = []
    numbers: dict[int, int] = {-1: 0}
    for place, step in enumerate(run.trace[:steps]):
        if not _shows_nothing(step) and not _follows_at_once(step, numbers, len(lines)):
            previous, again = (None, None) if objects is None else objects.changes.get(place, (None, None))
            since = None if again is None else numbers.get(again, 0)
            lines.append(_line(run, step, len(lines) + 1, previous, since))
        numbers[place] = len(lines)
    found = depths({line.at for line in lines if line.at})
    return [replace(line, depth=found.get(line.at, 1)) for line in lines]


ROUNDS_MIN, ROUND_MAX = 3, 8
"""Rounds of a loop that are folded, at least, and steps of a round, at most."""


def folded_text(lines: Sequence[Line]) -> list[str]:
    """Return the steps as text, and of a loop that goes round in vain its first round."""
    found: list[str] = []
    at = 0
    keys = [_round_key(line) for line in lines]
    while at < len(lines):
        size, rounds = _rounds(keys, at)
        found += map(str, lines[at : at + size])
        if rounds > 1:
            first, last = lines[at + size].number, lines[at + size * rounds - 1].number
            again = "once more" if rounds == 2 else f"{rounds - 1} times more"
            found.append(f"        ... steps {first} to {last}: the same, {again}")
        at += size * rounds
    return found


def _rounds(keys: Sequence[Any], at: int) -> tuple[int, int]:
    """Return the steps of a round that begins here, and how often it is taken; 1 and 1 if it is none."""
    for size in range(1, ROUND_MAX + 1):
        rounds = 1
        one = keys[at : at + size]
        while len(one) == size and keys[at + size * rounds : at + size * (rounds + 1)] == one:
            rounds += 1
        if rounds >= ROUNDS_MIN and None not in one:
            return size, rounds
    return 1, 1


def _round_key(line: Line) -> Any:
    """Return what equal steps of two rounds have in common; None for a step that is no part of a wait."""
    if line.fault or line.kind in ("put", "delete", "note", "finish", "copy", "complete-upload"):
        return None
    timed = line.kind in ("advance", "clock", "sleep")
    return (line.process, line.kind if timed else line.operation, "" if timed else line.outcome)


def _shows_nothing(step: Any) -> bool:
    _, alternative, _, _, _, op, _, _ = step
    if op.kind in ("wake", "power") and alternative in HARMLESS:
        return True
    return op.kind == "finish" and alternative != "crash" and op.error is None and op.result is None


def _follows_at_once(step: Any, numbers: dict[int, int], shown: int) -> bool:
    """Return True if a thread gets an answer or goes on with a line, and no step is shown since it waits."""
    op = step[5]
    return type(op) in (Delivery, NextLine) and step[1] in HARMLESS and numbers[op.landed] == shown


def _line(run: RunState, step: Any, number: int, previous: bytes | None, since: int | None) -> Line:
    actor, alternative, process, incarnation, of_process, op, answer, clock = step
    nobody = "clock" if op.kind == "advance" else "power"
    who = nobody if process is None else process.name if process.index else "setup"
    fault = alternative if alternative not in HARMLESS and op.kind != "pick" else ""
    outcome = ALTERNATIVES[kind_of(fault)].text if fault else outcome_text(op, answer, clock, previous)
    if fault.startswith(PAUSE):
        length = (pause_ns(fault) or run.settings.pause_ns) / 1e9
        outcome = f"PAUSE of {length:.10g} s although others could go on: it is {clock / 1e9:.10g} s"
    elif kind_of(fault) in SKEWS:
        error = (skew_ns(fault) or run.settings.skew_ns) / 1e9
        outcome = f"{outcome}, by {error:.10g} s"
    if not fault and run.time_mattered >= STAMPED:
        outcome += modified_text(op, answer, run.start_ns)
    if not fault and run.sizes_compared:
        outcome += size_text(op, answer, run.sizes_compared)
    if since is not None:
        outcome += f", the ETag AGAIN that it had {f'after step {since}' if since else 'at the beginning'}"
    if actor >= FLIGHTS_FROM and alternative == "land":
        outcome = f"lands now, its sender long gone: {outcome}"
    located = run.located or {}
    return Line(
        number,
        who,
        operation_text(op, previous),
        outcome,
        fault,
        op.kind,
        op.subject,
        _condition(op),
        max(incarnation, 0),
        clock / 1e9,
        _body(op, answer),
        previous,
        getattr(answer, "etag", "") or "",
        since,
        () if process is None else located.get((process.index, of_process), ()),
    )


def modified_text(op: Any, answer: Any, start_ns: int) -> str:
    """Return the times of modification that a reply shows, for code that looks at them."""
    info = getattr(answer, "info", None)
    shown = answer.objects if op.kind == "list" and hasattr(answer, "objects") else [info] if info else []
    times = [f"{(modified_ns(one) - start_ns) / 1e9:.10g}" for one in shown]
    return f", modified at {', '.join(times)} s" if times and op.kind in ("list", "head", "get") else ""


def size_text(op: Any, answer: Any, kinds: frozenset[str]) -> str:
    """Return the sizes that a reply shows, for code that compares those of replies of these kinds."""
    if op.kind.removesuffix("-versions") not in kinds:
        return ""
    if op.kind.startswith("list"):
        entries: Any = getattr(answer, "objects", getattr(answer, "versions", ()))
        found = [str(size_of(one)) for one in entries]
        return f", size{'' if len(found) == 1 else 's'} {', '.join(found)}" if found else ""
    info = getattr(answer, "info", None)
    if info is None:
        return ""
    size = size_of(info)
    part = len(answer.body) if op.kind == "get" else size
    return f", size {size}" if part == size else f", size {part} of {size}"


def _body(op: Any, answer: Any) -> bytes | None:
    body = getattr(op, "body", None)
    return body if body is not None else getattr(answer, "body", b"") or None


def _condition(op: Any) -> str:
    when = getattr(op, "when", None)
    if when is None:
        return ""
    etag = getattr(when, "etag", "")
    return {"Absent": "if absent", "Anything": "unconditionally"}.get(type(when).__name__, f"if {etag}")


def operation_text(op: Any, previous: bytes | None = None) -> str:
    """Return an operation on one line."""
    if isinstance(op, Request):
        condition = _condition(op)
        parts = [
            op.kind,
            op.subject or "(everything)",
            condition[:9] if condition[:3] == "if " else condition,
        ]
        body = getattr(op, "body", None)
        if body is not None:
            parts.append(body_text(body, previous))
        return " ".join(part for part in parts if part)
    if op.kind == "sleep":
        return f"sleep {op.nanoseconds / 1e9:g} s"
    if op.kind == "clock":
        return "read the clock" if op.subject == "wall" else f"read the {op.subject} clock"
    if op.kind == "note":
        return f"note {op.topic}: {_short(op.value)}"
    if op.kind == "finish":
        return "return" if op.error is None else "raise"
    if op.kind == "advance":
        return "tick"
    if isinstance(op, Call):
        return " ".join(part for part in (op.kind, op.subject, op.detail) if part)
    if op.kind == "power":
        return "power loss"
    if isinstance(op, Survival):
        return "power is back"
    if isinstance(op, NextLine):
        return f"go on with line {op.subject.rpartition(':')[2]}"
    if isinstance(op, Delivery):
        what = "receive the reply:" if isinstance(op.op, Request) else "go on after"
        return f"{what} {operation_text(op.op, previous)}"
    return f"{op.kind} {op.subject}".strip()


def outcome_text(op: Any, answer: Any, clock: int, previous: bytes | None = None) -> str:
    """Return the result of an operation on one line."""
    outcome = getattr(answer, "outcome", None)
    if outcome is not None:
        body = getattr(answer, "body", b"")
        etag = getattr(answer, "etag", "")
        tail = f" {body_text(body, previous)}" if body else f" ({etag[:6]})" if etag else ""
        if op.kind == "list":
            tail = f" {[found.key for found in answer.objects]}"
        return f"-> {outcome.value}{tail}"
    if isinstance(answer, Exception):
        return f"-> {type(answer).__name__}: {answer}"
    if op.kind == "finish":
        return _short(op.result) if op.error is None else f"{type(op.error).__name__}: {op.error}"
    if isinstance(op, Delivery):
        return outcome_text(op.op, op.answer, clock, previous)
    if isinstance(op, Sync):
        return "" if answer else "-> in vain"
    if isinstance(op, Survival):
        return str(answer)
    if isinstance(op, Call):
        return _answer_text(op, answer)
    if op.kind == "pick":
        return f"option {answer}"
    if op.kind == "advance":
        return f"it is {clock / 1e9:g} s"
    if op.kind == "clock":
        return f"-> {answer / 1e9:g} s"
    return ""


def _answer_text(call: Call, answer: Any) -> str:
    if hasattr(answer, "errno"):
        return f"-> {answer}"
    if call.kind == "flock" and answer == BLOCKED:
        return "-> waits"
    if call.kind == "flock" and answer == CONVERTING:
        return "-> releases what it has first"
    if call.kind in ("read", "getxattr"):
        return f"-> {_short(answer)}"
    if call.kind == "listdir":
        return f"-> {_short([name for name, _, _ in answer])}"
    return ""


def body_text(body: bytes, previous: bytes | None) -> str:
    """Return a body; a long one as its difference from the previous version: by fields if both are JSON
    objects, else like `git diff --word-diff`.
    """
    if len(repr(body)) <= SHORT or previous is None or previous == body:
        return _short(body)
    return field_difference(previous, body) or difference(previous, body)


def field_difference(before: bytes, after: bytes) -> str:
    """Return the fields that differ between two JSON objects; empty if they are none, or have no field in
    common.
    """
    old, new = _fields(before), _fields(after)
    if not old.keys() & new.keys():
        return ""
    parts = []
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            parts.append(f"-{name}")
        elif name not in old:
            parts.append(f"+{name}: {_value(new[name])}")
        elif old[name] != new[name]:
            parts.append(f"{name}: {_value(old[name])} -> {_value(new[name])}")
    return f"{{{', '.join(parts)}}}"


def _fields(body: bytes, most: int = 100_000) -> dict[str, Any]:
    """Return the fields of a JSON object, those of objects in it by their path."""
    try:
        found = json.loads(body) if len(body) <= most else None
    except ValueError:
        return {}
    return dict(_paths(found, "")) if isinstance(found, dict) else {}


def _paths(found: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, dict) and value:
            yield from _paths(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _value(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= SHORT else text[: SHORT - 3] + "..."


def difference(before: bytes, after: bytes) -> str:
    """Return the differences between two bodies, word by word, with a little of the text around them."""
    old, new = _words(before), _words(after)
    if max(len(old), len(new)) > WORDS_MAX:
        return _short(after)
    parts: list[str] = []
    for what, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            text = b"".join(old[a:b])
            around = (text[:AROUND] if a else b"", text[-AROUND:] if b < len(old) else b"")
            parts.append(_inner(text) if len(text) <= 2 * AROUND else "...".join(map(_inner, around)))
        else:
            gone, came = _inner(b"".join(old[a:b])), _inner(b"".join(new[c:d]))
            parts.append((f"[-{gone}-]" if gone else "") + (f"{{+{came}+}}" if came else ""))
    return "".join(parts)


def _words(body: bytes) -> list[bytes]:
    return re.findall(rb"\w+|\W", body)


def _inner(part: bytes) -> str:
    text = repr(part)[2:-1]
    return text if len(text) <= SHORT else text[: SHORT - 3] + "..."


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHORT else text[: SHORT - 3] + "..."
