"""Outcome coverage: which outcomes of each request line of the user's code the schedules met, and which not.

The denominator of a line is what the store's rules allow for its request with its condition, as far as the
budget of faults reaches: a read is 200 or 404, a create is 200 or 412, and with one lost reply in the
budget also `lost after`. The line of a request is the innermost line of the user's code from which it
always comes: where a helper sends the requests of several callers, the callers' lines count.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.store.requests import Request
from fencepost.sim.explore.callers import CALLERS_MAX
from fencepost.sim.explore.callers import depths as depths_of
from fencepost.sim.explore.result import RequestLine
from fencepost.sim.world.budget import Budget
from fencepost.sim.world.located import CodeLine
from fencepost.sim.world.operations import Finish
from fencepost.sim.world.run import RunState
from fencepost.sim.world.sites import Chain

STATUS = {
    "done": "200",
    "unchanged": "304",
    "missing": "404",
    "gone": "404",
    "conflict": "409",
    "exists": "412",
    "changed": "412",
    "past-end": "416",
    "throttled": "503",
}
FAULTS = {
    "request_lost": "lost before",
    "reply_lost": "lost after",
    "late": "late",
    "duplicated": "sent twice",
}
COLUMNS = ("200", "404", "409", "412", "503", "lost before", "lost after", "late", "sent twice", "304", "416")
Key = tuple[Chain, str, str]
"""Place, kind and condition of a request."""


@dataclass
class OutcomeCoverage:
    """The outcomes that a search met, by place."""

    met: Counter[tuple[Key, str]] = field(default_factory=Counter)
    then: dict[tuple[Key, str], set[tuple[str, CodeLine | None]]] = field(default_factory=dict)
    """The next operation of the code, in words, and its line."""
    ran: set[tuple[str, int]] = field(default_factory=set)
    lines: dict[str, dict[int, str]] = field(default_factory=dict)
    """By file: the lines that could run, each with its function; empty if they were not recorded."""

    def step(self, run: RunState, place: int) -> None:
        """Take up the step at this place of a run."""
        _, alternative, process, _, _, op, answer, _ = run.trace[place]
        if run.sites is None or process is None or not process.index or not isinstance(op, Request):
            return
        chain = run.sites.of(op)
        outcome = FAULTS.get(alternative)
        if outcome is None:
            status = getattr(answer, "outcome", None)
            if status is None or alternative in ("crash", "land", "never"):
                return
            outcome = STATUS.get(status.value, "")
        if not chain or not outcome:
            return
        key = ((chain, op.kind, condition_of(op)), outcome)
        self.met[key] += 1
        if (process.machine.threads is None and process.pending is not None) or type(
            process.pending
        ) is Finish:
            following = self.then.setdefault(key, set())
            if len(following) < CALLERS_MAX:
                following.add(_next(run, process.pending))

    def end(self, run: RunState) -> None:
        """Take up the lines that ran."""
        if run.sites is not None and run.sites.lines:
            self.ran |= run.sites.ran
            self.lines = run.sites.lines

    def add(self, other: "OutcomeCoverage") -> None:
        self.met.update(other.met)
        for key, following in other.then.items():
            self.then.setdefault(key, set()).update(following)
        self.ran |= other.ran
        self.lines = self.lines or other.lines

    def packed(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "met": [[*_plain(key), outcome, count] for (key, outcome), count in self.met.items()],
            "then": [
                [
                    *_plain(key),
                    outcome,
                    [[text, line and [*line]] for text, line in sorted(following, key=str)],
                ]
                for (key, outcome), following in self.then.items()
            ],
            "ran": sorted(self.ran),
            "lines": {file: sorted(lines.items()) for file, lines in self.lines.items()},
        }

    @classmethod
    def unpacked(cls, data: Mapping[str, Any]) -> "OutcomeCoverage":
        return cls(
            Counter({(_key(*row[:3]), row[3]): row[4] for row in data["met"]}),
            {
                (_key(*row[:3]), row[3]): {(text, CodeLine(*line) if line else None) for text, line in row[4]}
                for row in data["then"]
            },
            {(file, line) for file, line in data["ran"]},
            {file: dict(lines) for file, lines in data["lines"].items()},
        )

    # Results.

    def table(self, budget: Budget) -> tuple[RequestLine, ...]:
        """Return a row for each request line, in order of files and lines."""
        depths = depths_of({key[0] for key, _ in self.met})
        rows: dict[Key, tuple[Counter[str], dict[str, set[str]]]] = {}
        for (key, outcome), count in self.met.items():
            chain, kind, condition = key
            place = (chain[: len(chain) - depths[chain] + 1], kind, condition)
            where = (place[0][-1:], kind, condition)
            counts, following = rows.setdefault(where, (Counter(), {}))
            counts[outcome] += count
            words = following.setdefault(outcome, set())
            for text, line in self.then.get((key, outcome), ()):
                words.add(text if line is None else f"{text} (line {line.line})")
        found = [
            _row(where, counts, following, budget, self._stack(where, depths))
            for where, (counts, following) in rows.items()
        ]
        return tuple(sorted(found, key=lambda row: (row.file, row.line, row.kind, row.condition)))

    def _stack(self, where: Key, depths: Mapping[Chain, int]) -> tuple[str, ...]:
        """Return the lines below a place that send its request: those of a helper."""
        for (chain, kind, condition), _ in self.met:
            at = len(chain) - depths[chain]
            if (chain[at : at + 1], kind, condition) == where:
                return tuple(f"{line} in {line.function}" for line in chain[at + 1 :])
        return ()

    def never_ran(self) -> dict[str, tuple[int, ...]]:
        """Return the lines that no schedule executed, by file."""
        return {
            file: missed
            for file, lines in sorted(self.lines.items())
            if (missed := tuple(sorted(line for line in lines if (file, line) not in self.ran)))
        }


def condition_of(op: Any) -> str:
    """Return the condition of a request: `if absent`, `if matches`, or nothing."""
    when = getattr(op, "when", None)
    name = "" if when is None else type(when).__name__.lower()
    return "" if name in ("", "anything") else f"if {name}"


def possible(kind: str, condition: str, budget: Budget | None) -> tuple[str, ...]:
    """Return the outcomes that the store's rules allow; with a budget as far as its faults reach."""
    reads = kind in _READS
    found = {"200", *_BY_KIND.get(kind, ())}
    if condition == "if absent":
        found |= {"412", "409"}
    elif condition == "if matches":
        found |= {"412", "404", "409"}
    found |= {"503", "lost after"}
    if not reads:
        found |= {"lost before", "late", "sent twice"}
    if budget is not None:
        for name, outcome in (("conflict", "409"), ("throttled", "503"), *FAULTS.items()):
            if not getattr(budget, name):
                found.discard(outcome)
    return tuple(name for name in COLUMNS if name in found)


_READS = frozenset(
    {"get", "head", "list", "list-versions", "list-uploads", "list-parts", "head-bucket", "list-buckets"}
)
_BY_KIND = {
    "get": ("404",),
    "head": ("404",),
    "upload-part": ("404",),
    "complete-upload": ("404",),
    "abort-upload": ("404",),
    "list-parts": ("404",),
    "head-bucket": ("404",),
}


def _row(
    where: Key,
    counts: Counter[str],
    following: Mapping[str, set[str]],
    budget: Budget,
    stack: tuple[str, ...],
) -> RequestLine:
    (place,), kind, condition = where
    names = dict.fromkeys([*possible(kind, condition, budget), *(name for name in COLUMNS if counts[name])])
    return RequestLine(
        file=place.file,
        line=place.line,
        function=place.function,
        kind=kind,
        condition=condition,
        outcomes={name: counts[name] for name in COLUMNS if name in names},
        then={name: tuple(sorted(following[name])) for name in COLUMNS if following.get(name)},
        untried=tuple(name for name in possible(kind, condition, None) if name not in names),
        stack=stack,
    )


def _next(run: RunState, op: Any) -> tuple[str, CodeLine | None]:
    """Describe the next operation of a process, with its line."""
    if type(op) is Finish:
        return ("returns" if op.error is None else f"raises {type(op.error).__name__}"), None
    chain = () if run.sites is None else run.sites.of(op)
    subject = op.subject.partition("/")[0] if op.kind == "note" else ""
    return f"{op.kind} {subject}".strip(), chain[-1] if chain else None


def _plain(key: Key) -> Iterator[Any]:
    chain, kind, condition = key
    yield [[*line] for line in chain]
    yield kind
    yield condition


def _key(chain: Sequence[Sequence[Any]], kind: str, condition: str) -> Key:
    return tuple(CodeLine(*line) for line in chain), kind, condition
