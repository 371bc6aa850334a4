"""Explains how events group into runs and how a map reads them, for the author of a map.

A map that reads nothing accepts everything, and no verdict covers events that belong to no run. This says for
each kind of key how many events there are and which of them the map reads, how large runs are, how many names
each role has in one run, and why events belong to no run.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from fencepost.impl.recording.files import BEGIN
from fencepost.properties.refinement.grouping import LinkedRuns
from fencepost.properties.refinement.refinement import Refinement
from fencepost.sim.replay.parts import naming
from fencepost.sim.trace.grouping import Grouping, unnamed
from fencepost.sim.trace.reading import Report, batches
from fencepost.sim.trace.schema import completed

EVENTS_MAX = 2_000_000
"""Events that are looked at."""
_NAMES_MAX = 6


@dataclass
class KeyKind:
    """The events about one kind of key."""

    name: str
    pattern: str
    keys: set[str] = field(default_factory=set)
    read: Counter[str] = field(default_factory=Counter)
    """Requests that the map reads, by kind and outcome."""
    ignored: Counter[str] = field(default_factory=Counter)


@dataclass
class RunExplanation:
    """See the top of this module."""

    by: str
    runs: Counter[str] = field(default_factory=Counter)
    """Events of each run."""
    left_out: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, KeyKind] = field(default_factory=dict)
    keys_of: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    processes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    values: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """For each value that keys have, how many different ones there are in each run."""
    hints: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        sizes = sorted(self.runs.values())
        return {
            "by": self.by,
            "runs": len(sizes),
            "smallest": sizes[0] if sizes else 0,
            "largest": sizes[-1] if sizes else 0,
            "left_out": dict(self.left_out.most_common()),
            "keys": [
                {
                    "name": one.name,
                    "pattern": one.pattern,
                    "keys": len(one.keys),
                    "read": dict(one.read.most_common()),
                    "ignored": dict(one.ignored.most_common()),
                }
                for one in self.kinds.values()
            ],
            "hints": self.hints,
        }

    def lines(self) -> Iterator[str]:
        """The explanation for people."""
        sizes = sorted(self.runs.values())
        yield f"runs: named by {self.by}"
        if sizes:
            yield f"  runs: {len(sizes):,}, of {sizes[0]:,} to {sizes[-1]:,} events"
        for run, count in self.runs.most_common(2):
            yield f"  {run or '(no name)'}: {count:,} events about {_some(self.keys_of[run])}"
            yield f"    by {_some(self.processes[run])}"
        for why, count in self.left_out.most_common(_NAMES_MAX):
            yield f"  no run: {count:,} {why}"
        yield "keys:"
        for one in self.kinds.values():
            yield f"  {one.name:<10} {one.pattern}  keys: {len(one.keys):,}"
            if one.read:
                yield f"    read     {_counts(one.read)}"
            if one.ignored:
                yield f"    ignored  {_counts(one.ignored)}"
        for hint in self.hints:
            yield f"hint: {hint}"


def explain_runs(
    files: Sequence[Path], by: Grouping, refinement: Refinement | None, report: Report
) -> RunExplanation:
    """Explain the runs of a trace; with a map, also what it reads."""
    shown = by.name if isinstance(by, LinkedRuns) else by
    found = RunExplanation(f"{shown}, {_declared(refinement)}" if refinement is not None else shown)
    patterns = [] if refinement is None else [(one.name, re.compile(one.pattern)) for one in refinement.keys]
    name = naming(list(files), by)
    seen = 0
    for table in batches(files, report):
        whole = completed(table)
        whole = whole.filter(pa.array([kind != BEGIN for kind in whole["kind"].to_pylist()]))
        inside, left = name(whole)
        if left:
            found.left_out.update(unnamed(whole, by))
        _add(found, inside, patterns, refinement)
        seen += len(whole)
        if seen >= EVENTS_MAX:
            found.hints.append(f"only the first {seen:,} events were looked at")
            break
    found.hints += _hints(found, by, refinement)
    return found


def _add(
    found: RunExplanation,
    table: pa.Table,
    patterns: Iterable[tuple[str, re.Pattern[str]]],
    refinement: Refinement | None,
) -> None:
    columns = ("run", "process", "phase", "kind", "key", "outcome", "condition")
    places: dict[str, tuple[str, str, dict[str, str]]] = {}
    for run, process, phase, kind, key, outcome, condition in zip(
        *(table[column].to_pylist() for column in columns), strict=True
    ):
        found.runs[run] += 1
        if len(found.keys_of[run]) <= _NAMES_MAX:
            found.keys_of[run].add(key)
        found.processes[run].add(process)
        if phase != "response":
            continue
        if key not in places:
            places[key] = _place(key, patterns)
        name, pattern, values = places[key]
        one = found.kinds.setdefault(name, KeyKind(name, pattern))
        if key not in one.keys:
            one.keys.add(key)
            for value in values:
                found.values[value][run] += 1
        reads = refinement is not None and bool(pattern) and kind in refinement.kinds
        (one.read if reads else one.ignored)[f"{kind}{' ' + condition if condition else ''} {outcome}"] += 1


def _place(key: str, patterns: Iterable[tuple[str, re.Pattern[str]]]) -> tuple[str, str, dict[str, str]]:
    for name, pattern in patterns:
        match = pattern.fullmatch(key)
        if match:
            return name, pattern.pattern, {n: v for n, v in match.groupdict().items() if v}
    folder = key.partition("/")[0]
    return f"{folder}/..." if "/" in key else folder or "(no key)", "", {}


def _declared(refinement: Refinement | None) -> str:
    return "" if refinement is None else f"of the map {type(refinement).__name__}"


def _hints(found: RunExplanation, by: Grouping, refinement: Refinement | None) -> Iterator[str]:
    if refinement is None:
        return
    named = [set(re.compile(one.pattern).groupindex) for one in refinement.keys]
    common = set.intersection(*named) if named else set()
    if by == "run" and common and any(len(one.keys) > 1 for one in found.kinds.values()):
        value = min(common)
        yield f"all keys of the map have the value {value!r}: --runs key:{value} makes a run of each"
    if not any(one.read for one in found.kinds.values()):
        yield "the map reads no event: its keys must match the whole key, its kinds name kinds of requests"
    for one in found.kinds.values():
        if not one.pattern and one.name != "(no key)":
            yield f"no keys of the map match {one.name}: {_some(one.keys)}"
    for role in refinement.roles:
        if role.most is None:
            continue
        counts = found.processes.values() if "process" in role.of else ()
        most = max((len(names) for names in counts), default=0)
        if most > role.most + 1:
            yield f"role {role.name}: {most} processes in one run, and the model has room for {role.most + 1}"


def _some(names: Iterable[str]) -> str:
    every = sorted(names)
    shown = ", ".join(every[:_NAMES_MAX])
    return shown + (f" and {len(every) - _NAMES_MAX:,} more" if len(every) > _NAMES_MAX else "")


def _counts(counts: Counter[str]) -> str:
    shown = ", ".join(f"{count:,} {name}" for name, count in counts.most_common(_NAMES_MAX))
    return shown + (" ..." if len(counts) > _NAMES_MAX else "")
