"""A second implementation of reading events, one event at a time with dictionaries: the oracle for the
columns.

It shares with `properties.refinement` only the declarations (keys, roles, ...) and the automaton.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from fencepost.impl.store.events import Event
from fencepost.properties.refinement import (
    NOTHING,
    OUTSIDE,
    SEEN,
    START,
    STUTTER,
    Automaton,
    EventRow,
    LinkedRuns,
    Observation,
    Refinement,
    Role,
    RunNames,
    SymbolKind,
    Verdict,
)
from fencepost.properties.refinement.follow import judge

Operation = tuple[str, int, int]


class ReferenceReader:
    """The events of one run in their order, and the names that they introduced."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.refinement: Refinement = automaton.refinement
        self.ranks: dict[tuple[int, str], dict[str, int]] = {}
        self.owners: dict[str, tuple[str, int]] = {}

    def observe(self, row: EventRow, process: str, incarnation: int) -> Observation | None:
        phase, kind, key, condition, outcome, trace_fields = row
        refinement = self.refinement
        if phase == "note":
            what, values = key.split(" ", 1)[0], {}
            if what not in refinement.notes:
                return None
        else:
            if kind not in refinement.kinds:
                return None
            matches = ((keys.name, re.fullmatch(keys.pattern, key)) for keys in refinement.keys)
            what, match = next(((name, match) for name, match in matches if match), ("", None))
            if match is None:
                return None
            values = {name: text for name, text in match.groupdict().items() if text}
        for word in trace_fields.split():
            name, _, text = word.partition("=")
            values |= {name: text} if text else {}
        plain = tuple((name, values[name]) for name in refinement.trace_fields if name in values)
        owned = values.get(refinement.owned, "")
        ranks, out_of_bounds = self._ranked(
            {**values, "process": process, "life": f"{process}/{incarnation}"}
        )
        me = (process, incarnation)
        own = bool(owned) and self.owners.setdefault(owned, me) == me
        seen = Observation(phase, kind, what, condition, outcome, ranks, plain, own)
        if out_of_bounds:
            return replace(seen, ranks=(), trace_fields=(), out_of_bounds=out_of_bounds)
        return seen

    def _ranked(self, values: dict[str, str]) -> tuple[tuple[tuple[str, int], ...], str]:
        ranks, out_of_bounds = [], ""
        for number, role in enumerate(self.refinement.roles):
            for entry in role.of:
                name, _, scope = entry.partition("@")
                lookup, name = name.endswith("?"), name.rstrip("?")
                if name not in values:
                    continue
                known = self.ranks.setdefault((number, values.get(scope, "")), {})
                if lookup and (values[name] not in known if role.order is SEEN else not known):
                    continue
                rank = _rank(role, known, values[name])
                shown = f"{name} in {role.name}" if lookup else name
                if rank < role.least or (role.most is not None and rank > role.most):
                    out_of_bounds = out_of_bounds or shown
                ranks.append((shown, rank))
        return tuple(ranks), out_of_bounds


def _rank(role: Role, known: dict[str, int], text: str) -> int:
    if role.order is SEEN:
        return known.setdefault(text, role.start + len(known))
    if not text.isdecimal():
        return role.least - 1
    return role.start + int(text) - known.setdefault("first", int(text))


def reference_follow(automaton: Automaton, run: list[Event]) -> Verdict:
    """The verdict on a whole run."""
    reader = ReferenceReader(automaton)
    exact = any(event.phase == "landed" for event in run)
    number, count = START, 0
    for place, symbol in (_landed if exact else _requested)(run, reader):
        count += 1
        before, number = number, automaton.step(number, symbol)
        if number <= OUTSIDE:
            return replace(judge(automaton, before, symbol, number, count), at=place, event=run[place])
    return Verdict("holds", count)


def _landed(run: list[Event], reader: ReferenceReader) -> Iterator[tuple[int, int]]:
    for place, event in enumerate(run):
        if event.phase in ("landed", "note"):
            kind = "note" if event.phase == "note" else event.kind
            row = (event.phase, kind, event.key, event.condition, event.outcome, event.trace_fields)
            seen = reader.observe(row, event.process, event.incarnation)
            if seen is not None:
                yield place, reader.automaton.symbol(seen)


def _requested(run: list[Event], reader: ReferenceReader) -> Iterator[tuple[int, int]]:
    outcomes = {_operation(event): event.outcome for event in run if event.phase == "response"}
    automaton = reader.automaton
    open_: Counter[Observation] = Counter()
    issued: dict[Operation, Observation] = {}
    for place, event in enumerate(run):
        operation = _operation(event)
        if event.phase == "note":
            row = ("note", "note", event.key, "", "", event.trace_fields)
            seen = reader.observe(row, event.process, event.incarnation)
            if seen is not None:
                yield place, automaton.symbol(seen)
        elif event.phase == "request" and outcomes.get(operation) != "refused":
            outcome = outcomes.get(operation, "")
            known = outcome not in ("", "unknown")
            landing = outcome if known else "done"
            row = ("landed", event.kind, event.key, event.condition, landing, event.trace_fields)
            seen = reader.observe(row, event.process, event.incarnation)
            if seen is None or automaton.actions(seen) == STUTTER:
                continue
            open_[seen] += 1
            if known:
                issued[operation] = seen
            yield place, automaton.symbol(seen, SymbolKind.REQUESTED)
        elif event.phase == "response" and operation in issued:
            seen = issued.pop(operation)
            open_[seen] -= 1
            yield place, automaton.symbol(seen, SymbolKind.RESPONDED, open_[seen])


def _operation(event: Event) -> Operation:
    return (event.process, event.incarnation, event.op)


def read_with_reference(automaton: Automaton, events: list[tuple[EventRow, str, int]]) -> list[int]:
    """The symbols of landings and notes, NOTHING for those that the map ignores."""
    reader = ReferenceReader(automaton)
    found = (reader.observe(*event) for event in events)
    return [NOTHING if seen is None else automaton.symbol(seen) for seen in found]


def by_run(linked: LinkedRuns, events: Iterable[Event]) -> tuple[dict[str, list[Event]], int]:
    """The events of each run in their order, and the number of events that belong to none.

    Every process numbers its requests by itself; in a run of several processes each gets a number of its own.
    """
    trace, names = list(events), RunNames(linked)
    for event in trace:
        names.learn(event.key, event.trace_fields)
    runs: dict[str, list[Event]] = {}
    numbers: dict[tuple[str, int, int], int] = {}
    for event in trace:
        if event.op >= 0:
            operation = (event.process, event.incarnation, event.op)
            event = replace(event, op=numbers.setdefault(operation, len(numbers)))
        runs.setdefault(names.of(event.key, event.trace_fields), []).append(event)
    return runs, len(runs.pop("", []))
