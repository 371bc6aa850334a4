"""Operational statistics of a trace, counted by columns and summed part by part.

Latencies go into buckets an eighth of an octave wide, so a percentile is exact to within 5 %; maxima and
counts are exact. Tables of keys and prefixes keep the largest of each part, so that memory does not grow
with the trace: a key that is never among a part's thousand largest is not listed. A hop is a request, or
several issued before any of them was answered, that a process waits for before it goes on.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.properties.refinement.rules import Events
from fencepost.properties.refinement.symbols import operations
from fencepost.properties.refinement.text import I64, NONE, firsts
from fencepost.sim.quantiles import percentiles
from fencepost.sim.trace.columns import numbered

EXTRA = ("t_ns", "hash")
"""The columns that statistics need besides those for verdicts."""
RETRIES = ("note",)
"""The column that shows which requests an SDK repeated."""
_ATTEMPT = re.compile(r"attempt [0-9]+ of ")
DOLLARS_PER_1000 = {"put": 0.005, "get": 0.0004}
"""The list prices of S3 Standard: of writes and listings, and of reads. Deletes cost nothing."""
_PRICED_AS = {
    **dict.fromkeys(("get", "head"), "get"),
    **dict.fromkeys(("delete", "abort-upload"), ""),
}
_PER_OCTAVE = 8
_BUCKETS = 63 * _PER_OCTAVE
_KEPT = 1000
_SHOWN = 10
LOST = ("exists", "changed", "conflict")
"""Outcomes of a request whose condition somebody else had changed."""
REFUSALS = {"conflict": "409", "exists": "412", "changed": "412", "throttled": "503"}


@dataclass
class Statistics:
    """Sums over some parts; `add` joins two."""

    requests: dict[tuple[str, str], int] = field(default_factory=dict)
    latency: dict[str, I64] = field(default_factory=dict)
    longest_ns: dict[str, int] = field(default_factory=dict)
    hops: dict[int, int] = field(default_factory=dict)
    refused: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By key: refusals, and requests answered."""
    prefixes: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    """Writes of bytes that the same run sent to the same key before."""
    open: int = 0
    """Requests without a response."""
    retries: int = 0
    """Requests that an SDK repeated, where the trace notes it."""
    stalls: list[tuple[int, str, int]] = field(default_factory=list)
    """The longest gaps between events: nanoseconds, run, number of the event after it."""

    def add(self, other: "Statistics") -> None:
        for mine, theirs in ((self.requests, other.requests), (self.hops, other.hops)):
            _sum(mine, theirs)
        _sum(self.prefixes, other.prefixes)
        for kind, buckets in other.latency.items():
            self.latency[kind] = self.latency.get(kind, np.zeros(_BUCKETS, np.int64)) + buckets
        for kind, longest in other.longest_ns.items():
            self.longest_ns[kind] = max(longest, self.longest_ns.get(kind, 0))
        for key, (refused, answered) in other.refused.items():
            mine_refused, mine_answered = self.refused.get(key, (0, 0))
            self.refused[key] = mine_refused + refused, mine_answered + answered
        self.refused = dict(_largest(self.refused, 10 * _KEPT))
        self.prefixes = dict(_largest(self.prefixes, 10 * _KEPT))
        self.duplicates += other.duplicates
        self.open += other.open
        self.retries += other.retries
        self.stalls = sorted(self.stalls + other.stalls, reverse=True)[:_SHOWN]

    def as_row(self) -> dict[str, Any]:
        """Everything, as JSON that `from_row` reads."""
        return {
            "requests": [[*pair, count] for pair, count in self.requests.items()],
            "latency": {
                kind: [[int(place), int(sizes[place])] for place in np.flatnonzero(sizes)]
                for kind, sizes in self.latency.items()
            },
            "longest_ns": self.longest_ns,
            "hops": list(self.hops.items()),
            "refused": self.refused,
            "prefixes": self.prefixes,
            "duplicates": self.duplicates,
            "open": self.open,
            "retries": self.retries,
            "stalls": self.stalls,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Statistics":
        made = cls(
            requests={(kind, outcome): count for kind, outcome, count in row["requests"]},
            longest_ns=dict(row["longest_ns"]),
            hops=dict(row["hops"]),
            refused={key: (one, other) for key, (one, other) in row["refused"].items()},
            prefixes=dict(row["prefixes"]),
            duplicates=row["duplicates"],
            open=row["open"],
            retries=row["retries"],
            stalls=[(ns, run, seq) for ns, run, seq in row["stalls"]],
        )
        for kind, places in row["latency"].items():
            made.latency[kind] = np.zeros(_BUCKETS, np.int64)
            for place, size in places:
                made.latency[kind][place] = size
        return made

    def as_json(self) -> dict[str, Any]:
        kinds = sorted({kind for kind, _ in self.requests})
        return {
            "operations": {kind: self._operation(kind) for kind in kinds},
            "rates": self._rates(),
            "unanswered": self.open,
            "lost_replies": self.open + sum(n for (_, end), n in self.requests.items() if end == "unknown"),
            "lost_races": sum(n for (_, end), n in self.requests.items() if end in LOST),
            "retries": self.retries,
            "dollars": round(self._dollars(), 6),
            "duplicates": self.duplicates,
            "serial_hops": _percentiles(self.hops),
            "conflicts": [
                {"key": key, "refused": refused, "answered": answered, "rate": round(refused / answered, 4)}
                for key, (refused, answered) in _largest(self.refused, _SHOWN)
            ],
            "hot_prefixes": [
                {"prefix": prefix, "requests": count} for prefix, count in _largest(self.prefixes, _SHOWN)
            ],
            "stalls": [
                {"run": run, "seq": seq, "seconds": round(ns / 1e9, 6)} for ns, run, seq in self.stalls
            ],
        }

    def _dollars(self) -> float:
        """The requests at list prices, refused and repeated ones included."""
        prices = ((_PRICED_AS.get(kind, "put"), count) for (kind, _), count in self.requests.items())
        return sum(DOLLARS_PER_1000.get(name, 0.0) * count / 1000 for name, count in prices)

    def _operation(self, kind: str) -> dict[str, Any]:
        outcomes = {outcome: count for (one, outcome), count in sorted(self.requests.items()) if one == kind}
        found: dict[str, Any] = {"count": sum(outcomes.values()), "outcomes": outcomes}
        buckets = self.latency.get(kind)
        if buckets is not None and buckets.sum():
            for name, bucket in percentiles(np.arange(len(buckets)), buckets).items():
                middle = 2 ** ((bucket + 0.5) / _PER_OCTAVE)
                found[name] = round(min(middle, self.longest_ns[kind]) / 1e6, 4)
            found["max"] = round(self.longest_ns[kind] / 1e6, 4)
        return found

    def _rates(self) -> dict[str, float]:
        total = max(1, sum(self.requests.values()))
        rates = dict.fromkeys(dict.fromkeys(REFUSALS.values()), 0)
        for (_, outcome), count in self.requests.items():
            if outcome in REFUSALS:
                rates[REFUSALS[outcome]] += count
        return {code: round(count / total, 6) for code, count in rates.items()}


def statistics(seen: Events, table: pa.Table) -> Statistics:
    """The statistics of a part in order."""
    found = Statistics()
    request = np.flatnonzero(seen.phase.codes == seen.phase.number("request"))
    response = np.flatnonzero(seen.phase.codes == seen.phase.number("response"))
    time = table["t_ns"].to_numpy()
    _count_outcomes(found, seen, response)
    _count_latencies(found, seen, time, request, response)
    _count_hops(found, seen)
    _count_keys(found, seen, request, response)
    _count_duplicates(found, seen, table, request)
    _find_stalls(found, seen, time)
    if RETRIES[0] in table.column_names:
        found.retries = _count_retries(table, request)
    return found


def _count_outcomes(found: Statistics, seen: Events, response: I64) -> None:
    pair, count = numbered(seen.kind.codes[response], seen.outcome.codes[response])
    sizes = np.bincount(pair, minlength=count)
    for row, size in zip(response[firsts(pair, count)].tolist(), sizes.tolist(), strict=True):
        found.requests[seen.kind.at(row), seen.outcome.at(row)] = size


def _count_latencies(found: Statistics, seen: Events, time: I64, request: I64, response: I64) -> None:
    rows = np.concatenate([request, response])
    op, count = operations(seen, rows)
    issued = np.full(count, NONE, np.int64)
    issued[op[: len(request)]] = request
    from_row = issued[op[len(request) :]]
    answered = np.zeros(count, np.bool_)
    answered[op[len(request) :]] = True
    found.open = int((issued != NONE).sum() - (answered & (issued != NONE)).sum())
    ends = response[from_row != NONE]
    taken = time[ends] - time[from_row[from_row != NONE]]
    known = taken > 0  # equal or reversed times are no measurement: the latency is unknown
    ends, taken = ends[known], taken[known]
    buckets = (np.log2(np.maximum(taken, 1)) * _PER_OCTAVE).astype(np.int64)
    kind = seen.kind.codes[ends]
    sizes = np.bincount(kind * _BUCKETS + buckets, minlength=len(seen.kind.values) * _BUCKETS)
    longest = np.full(len(seen.kind.values), NONE, np.int64)
    np.maximum.at(longest, kind, taken)
    for code, name in enumerate(seen.kind.values.array.to_pylist()):
        if longest[code] >= 0:
            found.latency[name] = sizes[code * _BUCKETS : (code + 1) * _BUCKETS]
            found.longest_ns[name] = int(longest[code])


def _count_hops(found: Statistics, seen: Events) -> None:
    """Serial hops of each process's life in a run."""
    phases = (seen.phase.number("request"), seen.phase.number("response"))
    rows = np.flatnonzero(np.isin(seen.phase.codes, phases))
    life, count = numbered(seen.run[rows], seen.process.codes[rows], seen.incarnation[rows])
    order = np.argsort(life, kind="stable")
    life, issues = life[order], seen.phase.codes[rows][order] == phases[0]
    begins = issues & np.append(True, (life[1:] != life[:-1]) | ~issues[:-1])[: len(issues)]
    hops = np.bincount(life[begins], minlength=count)
    for length, size in zip(*np.unique(hops, return_counts=True), strict=True):
        found.hops[int(length)] = int(size)


def _count_keys(found: Statistics, seen: Events, request: I64, response: I64) -> None:
    refusal = response[seen.outcome.take(response).is_in(list(REFUSALS))]
    keys = len(seen.key.values)
    refused = np.bincount(seen.key.codes[refusal], minlength=keys)
    answered = np.bincount(seen.key.codes[response], minlength=keys)
    for code in _top(refused):
        found.refused[seen.key.values.array[code].as_py()] = int(refused[code]), int(answered[code])
    issued = np.bincount(seen.key.codes[request if len(request) else response], minlength=keys)
    prefix = pc.extract_regex(seen.key.values.array, r"\A(?P<prefix>(?:[^/]*/){0,2})").field("prefix")
    whole = prefix.dictionary_encode()
    sizes = np.zeros(len(whole.dictionary), np.int64)
    np.add.at(sizes, whole.indices.to_numpy(), issued)
    for code in _top(sizes):
        found.prefixes[whole.dictionary[code].as_py()] = int(sizes[code])


def _count_duplicates(found: Statistics, seen: Events, table: pa.Table, request: I64) -> None:
    hashes = table["hash"].combine_chunks()
    if not pa.types.is_dictionary(hashes.type):
        hashes = hashes.dictionary_encode()
    code = hashes.indices.to_numpy().astype(np.int64)
    empty = pc.index(hashes.dictionary, "").as_py()
    rows = request[(code[request] != empty) & (seen.kind.codes[request] == seen.kind.number("put"))]
    _, count = numbered(seen.run[rows], seen.key.codes[rows], code[rows])
    found.duplicates = len(rows) - count


def _count_retries(table: pa.Table, request: I64) -> int:
    """Requests that a recorder of an SDK noted as a further attempt."""
    notes = table["note"].take(pa.array(request))
    return int(pc.sum(pc.match_substring_regex(notes.cast(pa.string()), _ATTEMPT.pattern)).as_py() or 0)


def _find_stalls(found: Statistics, seen: Events, time: I64) -> None:
    gap = np.diff(time)
    gap[np.diff(seen.run) != 0] = NONE
    for row in _top(gap, _SHOWN):
        event = row + 1
        run = seen.runs.array[int(seen.run[event])].as_py()
        found.stalls.append((int(gap[row]), run, int(seen.seq[event])))
    found.stalls.sort(reverse=True)


def _top(sizes: NDArray[Any], most: int = _KEPT) -> list[int]:
    """The places of the largest sizes that are not 0."""
    least = 0
    if len(sizes) > most:
        least = max(0, int(np.partition(sizes, len(sizes) - most)[len(sizes) - most]))
    places = np.flatnonzero(sizes > least)
    # Of equal sizes the last, so that the result does not depend on how a trace is cut into parts.
    equal = (
        np.flatnonzero(sizes == least)[len(places) - most :] if least and len(places) < most else places[:0]
    )
    return [int(place) for place in np.concatenate([places, equal])]


def _largest(sizes: Mapping[str, Any], most: int) -> list[tuple[str, Any]]:
    return sorted(sizes.items(), key=lambda item: (item[1], item[0]), reverse=True)[:most]


def _sum(mine: dict[Any, int], theirs: Mapping[Any, int]) -> None:
    for name, size in theirs.items():
        mine[name] = mine.get(name, 0) + size


def _percentiles(sizes: Mapping[int, int]) -> dict[str, int]:
    if not sizes:
        return {}
    return {**percentiles(list(sizes), list(sizes.values())), "max": max(sizes)}
