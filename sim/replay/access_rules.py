"""Violations of a key layout that an S3 access log can prove, by columns.

A log records when a request came, to the second, and how long it took; not its condition, nor its body. So a
rule reports a violation only where the log leaves no other explanation: two requests are in order only when
the one came a full second after the other had been answered. A possible violation that cannot be proven is
undecided.

    created-once        two creates of one key succeeded, and no delete between them may have
    never-deleted       a delete under a protected prefix succeeded, by any requester (expirations too)
    needs               an object was created, and the object it needs was never seen: a failed look-up is a
                        violation, no mention is undecided, since the object may be older than the log
    fenced              a commit of an epoch came after a later epoch had been claimed
    forward             a number was created after a larger one had been

A layout is part of the descriptor of a system, or a TOML file:

    [promises]
    created_once = ['(?:.*/)?accepted/v1/.*']            # only ever created, never overwritten
    never_deleted = ['(?:.*/)?accepted/v1/.*']

    [[needs]]                                            # each object requires another one
    key = '(?P<root>.*/)?manifest/(?P<id>[^/]+)[.]json'
    of = '{root}blob/{id}'

    [[fenced]]                                           # no commit of an epoch once a later one is claimed
    claim = '(?P<log>.*)/epoch/(?P<epoch>[0-9]+)'
    commit = '(?P<log>.*)/entry/(?P<epoch>[0-9]+)-[0-9]+'
    number = 'epoch'

    [[forward]]                                          # numbers that only rise
    key = '(?P<log>.*)/boundary/(?P<number>[0-9]+)'
    number = 'number'

Patterns match whole keys, in the syntax that Python and RE2 share. Groups with the same name in `claim` and
`commit` must agree; so must all groups but the number's in `forward`.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.properties.refinement.text import I64, NONE, Mask, Text, firsts
from fencepost.sim.replay.result import RunVerdict
from fencepost.sim.systems import SYSTEMS
from fencepost.sim.trace.columns import numbered, text
from fencepost.sim.trace.schema import TraceError
from fencepost.sim.whole_files import read_text

_SECTIONS = {
    "promises": None,
    "needs": ("key", "of"),
    "fenced": ("claim", "commit", "number"),
    "forward": ("key", "number"),
}


@dataclass(frozen=True)
class Layout:
    """See the top of this module."""

    created_once: tuple[str, ...] = ()
    never_deleted: tuple[str, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()
    fenced: tuple[tuple[str, str, str], ...] = ()
    """Pattern of claims, pattern of commits, name of the number."""
    forward: tuple[tuple[str, str], ...] = ()


def layout(name: str) -> Layout:
    """The layout of a system, or one from a file."""
    path = Path(name)
    if name in SYSTEMS:
        return _checked(SYSTEMS[name].trace_layout, path)
    if not path.is_file():
        raise TraceError(f"no layout is called {name!r}; there are {', '.join(SYSTEMS)}, or give a TOML file")
    try:
        sections = tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise TraceError(f"{path}: is no TOML file: {error}") from error
    return _checked(sections, path)


def _checked(sections: Mapping[str, Any], path: Path) -> Layout:
    unknown = [name for name in sections if name not in _SECTIONS]
    if unknown:
        raise TraceError(f"{path}: unknown section {unknown[0]!r}; there are {', '.join(_SECTIONS)}")
    promises = sections.get("promises", {})
    once, never = (
        tuple(_pattern(text, path) for text in _texts(promises, name, path))
        for name in ("created_once", "never_deleted")
    )
    tables = {
        section: tuple(tuple(_entry(entry, section, names, path)) for entry in sections.get(section, ()))
        for section, names in _SECTIONS.items()
        if names is not None
    }
    return Layout(once, never, **tables)  # type: ignore[arg-type]


def _texts(promises: Any, name: str, path: Path) -> list[str]:
    found = promises.get(name, []) if isinstance(promises, dict) else None
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise TraceError(f"{path}: {name} under [promises] must be a list of patterns")
    return found


def _entry(entry: Any, section: str, names: tuple[str, ...], path: Path) -> list[str]:
    if not isinstance(entry, dict) or set(entry) != set(names):
        raise TraceError(f"{path}: each [[{section}]] has exactly {', '.join(names)}")
    for name in names:
        if name in ("key", "claim", "commit"):
            _pattern(entry[name], path)
    number = entry.get("number")
    for name in ("key", "claim", "commit"):
        if number is not None and name in entry and f"(?P<{number}>" not in entry[name]:
            raise TraceError(f"{path}: {name} of [[{section}]] has no group named {number}")
    return [entry[name] for name in names]


def _pattern(text: str, path: Path) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise TraceError(f"{path}: {text!r} is no pattern: {error}") from error
    return text


NOT_JUDGED = (
    "conditions and bodies, which the log does not hold",
    "requests within a second of each other, whose order the log does not show",
    "what the layout does not promise",
)
"""Facts that are not judged, even if there is no violation."""
SECOND = 1_000_000_000
WRITES = ("put", "complete-upload")


@dataclass(frozen=True)
class Finding:
    """A violation, or a question that the log leaves open."""

    rule: str
    verdict: str
    """`violated` or `undecided`."""
    run: str
    seq: int
    event: str
    reason: str

    def listed(self) -> RunVerdict:
        """The finding as a result lists it."""
        return RunVerdict(self.run, self.seq, self.event, self.reason, self.rule)


class Log:
    """The responses of a log as columns, and when each request came and was answered."""

    def __init__(self, table: pa.Table) -> None:
        phase = text(table["phase"])
        answers = table.filter(pa.array(phase.codes == phase.number("response")))
        requests = table.filter(pa.array(phase.codes == phase.number("request")))
        self.table = answers
        self.key, self.kind = text(answers["key"]), text(answers["kind"])
        self.outcome, self.run = text(answers["outcome"]), text(answers["run"])
        self.ended = answers["t_ns"].to_numpy()
        self.begun = self.ended.copy()
        if len(requests):
            op = np.zeros(int(requests["op"].to_numpy().max()) + 1, np.int64)
            op[requests["op"].to_numpy()] = requests["t_ns"].to_numpy()
            self.begun = op[answers["op"].to_numpy()]
        done = self.outcome.codes == self.outcome.number("done")
        self.written = done & self.kind.is_in(WRITES)
        self.deleted = done & self.kind.is_in(("delete",))
        self.object = numbered(self.run.codes, self.key.codes)[0] if len(answers) else self.run.codes
        """A number for each key of each bucket."""

    def matching(self, pattern: str) -> tuple[Mask, dict[str, Text]]:
        """The rows whose key a pattern matches, and what its groups matched."""
        matched, caught = self.key.values.extract(pattern)
        groups = {}
        for name, values in caught.items():
            whole = text(values.array.fill_null(""))
            groups[name] = Text(whole.codes[self.key.codes], whole.values)
        return matched[self.key.codes] if len(self.key.values) else self.written, groups

    def finding(self, rule: str, row: int, reason: str, verdict: str = "violated") -> Finding:
        one = self.table.slice(row, 1).to_pylist()[0]
        event = f"{one['process']}: {one['kind']} {one['key']} -> {one['outcome']}"
        return Finding(rule, verdict, one["run"], one["seq"], event, reason)


def violations(table: pa.Table, promised: Layout) -> list[Finding]:
    """All violations and open questions, by rule and time."""
    log = Log(table)
    found: list[Finding] = []
    for pattern in promised.created_once:
        found += _created_twice(log, log.matching(pattern)[0])
    for pattern in promised.never_deleted:
        rows = np.flatnonzero(log.matching(pattern)[0] & log.deleted)
        found += [
            log.finding("never-deleted", row, "deleted under a protected prefix") for row in rows.tolist()
        ]
    for pattern, template in promised.needs:
        found += _missing(log, pattern, template)
    for claim, commit, number in promised.fenced:
        found += _behind(log, "fenced", claim, commit, number)
    for pattern, number in promised.forward:
        found += _behind(log, "forward", pattern, pattern, number)
    return found


def _created_twice(log: Log, promised: Mask) -> list[Finding]:
    rows = np.flatnonzero(promised & log.written)
    rows = rows[np.lexsort((log.ended[rows], log.object[rows]))]
    again = np.flatnonzero(log.object[rows][1:] == log.object[rows][:-1])
    first, second = rows[again], rows[again + 1]
    between = _any_between(log, promised & log.deleted, first, second)
    found = []
    for one, other in zip(first[~between].tolist(), second[~between].tolist(), strict=True):
        earlier = log.table["seq"][one].as_py()
        why = f"created a second time: event {earlier} had created it, and no delete came between"
        found.append(log.finding("created-once", other, why))
    return found


def _any_between(log: Log, events: Mask, first: I64, second: I64) -> Mask:
    """For each pair of rows of one object: whether one of the events may have happened between them."""
    rows = np.flatnonzero(events)
    if not len(rows) or not len(first):
        return np.zeros(len(first), np.bool_)
    base = int(log.begun.min()) - 2 * SECOND
    span = int(log.ended.max()) - base + 4 * SECOND

    def place(object_: I64, time: I64) -> NDArray[np.object_] | I64:
        return object_ * span + (time - base)

    if int(log.object.max()) * span >= 1 << 62:  # nanoseconds of years, of very many keys: seconds will do
        base, span = base // SECOND - 1, span // SECOND + 4
        scale = SECOND
    else:
        scale = 1
    ends = np.sort(place(log.object[rows], log.ended[rows] // scale))
    low = place(log.object[first], (log.begun[first] - SECOND) // scale)
    high = place(log.object[second], (log.ended[second] + SECOND) // scale)
    return np.searchsorted(ends, high, side="right") > np.searchsorted(ends, low, side="left")


def _missing(log: Log, pattern: str, template: str) -> list[Finding]:
    matched, groups = log.matching(pattern)
    rows = np.flatnonzero(matched & log.written)
    if not len(rows):
        return []
    wanted, names = _filled(template, groups, rows)
    keys = _known_as(log, names)
    seen = np.zeros(len(names), np.bool_)
    missed = np.zeros(len(names), np.bool_)
    there = keys != NONE
    stood = log.written | (log.outcome.take(np.arange(len(keys))).is_in(("exists", "done")) & ~log.deleted)
    seen[keys[there & stood]] = True
    missing = log.outcome.codes == log.outcome.number("missing")
    missed[keys[there & missing & log.kind.is_in(("get", "head"))]] = True
    found = []
    for row, name in zip(rows.tolist(), wanted.tolist(), strict=True):
        if not seen[name]:
            what = names[name].as_py()
            if missed[name]:
                why = f"needs {what}, which was looked for, found missing, and never created"
                found.append(log.finding("needs", row, why))
            else:
                why = f"needs {what}, which the log does not mention: it may be older than the log"
                found.append(log.finding("needs", row, why, "undecided"))
    return found


def _filled(template: str, groups: dict[str, Text], rows: I64) -> tuple[I64, pa.Array]:
    """The keys that some rows need, by number, once each: the template with the groups filled in."""
    pieces: list[Any] = []
    rest = template
    while rest:
        plain, brace, rest = rest.partition("{")
        name, _, rest = rest.partition("}") if brace else ("", "", "")
        if plain:
            pieces.append(pa.scalar(plain))
        if name:
            pieces.append(groups[name].values.take(groups[name].codes[rows]).array)
    whole = pc.binary_join_element_wise(*pieces, "").dictionary_encode()
    return whole.indices.to_numpy().astype(np.int64), whole.dictionary


def _known_as(log: Log, names: pa.Array) -> I64:
    """For each row the number of the needed key that it names: that key, or one with a suffix."""
    exact = pc.index_in(log.key.values.array, value_set=names).fill_null(NONE).to_numpy().astype(np.int64)
    bare = pc.replace_substring_regex(log.key.values.array, r"(?:~[0-9]+)?\.[A-Za-z0-9]+$", "")
    stem = pc.index_in(bare, value_set=names).fill_null(NONE).to_numpy().astype(np.int64)
    known: I64 = np.where(exact != NONE, exact, stem)[log.key.codes]
    return known


def _behind(log: Log, rule: str, ahead: str, behind: str, number: str) -> list[Finding]:
    """Rows of `behind` whose number is smaller than one of `ahead` that existed before them."""
    leads, lead_groups = log.matching(ahead)
    rows, groups = log.matching(behind)
    lead, row = np.flatnonzero(leads & log.written), np.flatnonzero(rows & log.written)
    if not len(lead) or not len(row):
        return []
    shared = sorted(set(lead_groups) & set(groups) - {number})
    both = pa.concat_arrays([_scope(log, lead_groups, shared, lead), _scope(log, groups, shared, row)])
    scope = both.dictionary_encode().indices.to_numpy().astype(np.int64)
    numbers = [_numbers(lead_groups[number], lead), _numbers(groups[number], row)]
    # In each scope by time: what was answered more than a second before counts, the row itself does not.
    time = np.concatenate([log.ended[lead] + SECOND, log.begun[row]])
    is_row = np.repeat([0, 1], [len(lead), len(row)])
    value = np.concatenate(numbers)
    order = np.lexsort((is_row, time, scope))
    highest, source = _running(scope[order], np.where(is_row == 1, NONE, value)[order])
    late = np.flatnonzero((is_row[order] == 1) & (highest > value[order]))
    events = np.concatenate([lead, row])[order]
    found = []
    for place in late.tolist():
        before = log.table.slice(int(events[source[place]]), 1).to_pylist()[0]
        why = (
            f"{value[order][place]} after {highest[place]}: event {before['seq']} had created {before['key']}"
        )
        found.append(log.finding(rule, int(events[place]), why))
    return found


def _running(scope: I64, value: I64) -> tuple[I64, I64]:
    """The largest value so far in each scope, and its place."""
    wide = int(value.max(initial=0)) + 2
    dense, _ = numbered(scope)
    if int(dense.max(initial=0)) * wide < 1 << 62:
        lifted = np.maximum.accumulate(dense * wide + value + 1)
        highest = lifted - dense * wide - 1
    else:
        highest = np.empty_like(value)
        begins = np.append(firsts(dense, int(dense.max()) + 1), len(dense))
        for start, stop in pairwise(begins):
            highest[start:stop] = np.maximum.accumulate(value[start:stop])
    new = (value == highest) & (value != NONE)
    return highest, np.maximum.accumulate(np.where(new, np.arange(len(value)), 0))


def _scope(log: Log, groups: dict[str, Text], names: list[str], rows: I64) -> pa.Array:
    parts = [log.run.values.take(log.run.codes[rows]).array]
    parts += [groups[name].values.take(groups[name].codes[rows]).array for name in names]
    return pc.binary_join_element_wise(*parts, "\n")


def _numbers(column: Text, rows: I64) -> I64:
    bare = pc.utf8_ltrim(column.values.array, "0")
    known = pc.match_substring_regex(bare, r"\A[0-9]{0,18}\z")
    plain = pc.if_else(pc.and_(known, pc.not_equal(bare, "")), bare, "0").cast(pa.int64())
    found: I64 = plain.to_numpy()[column.codes[rows]]
    return found
