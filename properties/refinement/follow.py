"""Runs of real code against the model: a verdict for each run, and the first event that the model does not
allow.

automaton = Automaton(refinement)
verdict = follow(automaton, events)       # a whole run
print(verdict)

reader = Reader(automaton)                # shared by many runs
follower = Follower(reader)               # one run, while it goes on
verdict = follower.see(row, "ann", 0)     # None until a verdict is final
"""

import threading
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from fencepost.impl.store.events import Event
from fencepost.properties.refinement.automaton import DEAD, NOTHING, OUTSIDE, START, Automaton
from fencepost.properties.refinement.breaches import breaches
from fencepost.properties.refinement.comparing import Shown, results
from fencepost.properties.refinement.explain import Explanation, explain
from fencepost.properties.refinement.observation import Observation
from fencepost.properties.refinement.rules import EventRow, Rules, events_of_rows
from fencepost.properties.refinement.symbols import SymbolReader

ROWS_MAX = 1 << 18
"""Events that a reader remembers; in runs with names of their own every event is new."""


@dataclass(frozen=True)
class Verdict:
    verdict: str
    """`holds`, `violated`, or `undecided` where the run exceeds the model's bounds."""
    symbols: int
    """The number of events that were read."""
    at: int = -1
    """The place, among the events given, of the event that decided."""
    event: Event | None = None
    reason: str = ""
    """One sentence."""
    explanation: Explanation | None = field(default=None, compare=False)

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.reason}" if self.reason else self.verdict]
        return "\n".join(lines + (self.explanation.lines() if self.explanation else []))


class Reader:
    """Reads events of many runs one by one, and remembers every event that it has read.

    The reading of an event depends on the names that its run has introduced before, and on the values that
    its writes have shown and that the map compares with later ones. Both together have one number. The
    events that introduced the names are kept: a new event is evaluated by the columns of `rules` together
    with those few. So a run that repeats another one, up to some step, costs one look-up an event.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self._rules = Rules(automaton.refinement)
        self._introduced: list[tuple[tuple[EventRow, str, int], ...]] = [()]
        self._numbers: dict[Hashable, int] = {
            self._rules.names(self._rules.read_events(events_of_rows([]))): 0
        }
        self._known: list[tuple[int, Shown]] = [(0, {})]
        """By number of what is known of a run: the number of its names, and the values to compare with."""
        self._known_numbers: dict[Hashable, int] = {(0, frozenset()): 0}
        self._read: dict[tuple[int, EventRow, str, int], tuple[int, int]] = {}
        """By knowledge of the run and event: the symbol, and the knowledge after it."""
        self._paths: dict[tuple[int, int], int] = {}
        """A tree of the runs that were followed: by node (the root is 0) and symbol the next node."""

    def read(self, known: int, row: EventRow, process: str, incarnation: int) -> tuple[int, int]:
        """The symbol of an event, NOTHING when the map ignores it; and what is known after it."""
        key = (known, row, process, incarnation)
        found = self._read.get(key)
        if found is None:
            if len(self._read) > ROWS_MAX:
                self._read.clear()
            seen, after = self.observe(*key)
            symbol = NOTHING if seen is None else self.automaton.symbol(seen)
            self._read[key] = found = (symbol, after)
        return found

    def observe(
        self, known: int, row: EventRow, process: str, incarnation: int
    ) -> tuple[Observation | None, int]:
        """The observation of an event, None when the map ignores it; and what is known after it."""
        names, shown = self._known[known]
        introduced = (*self._introduced[names], (row, process, incarnation))
        last = len(introduced) - 1
        events = events_of_rows(introduced)
        read = self._rules.read_events(events, landed=np.zeros(len(events), np.bool_))
        if not len(read.rows) or read.rows[-1] != last:
            return None, known
        place = np.array([len(read.rows) - 1])
        (seen,) = self._rules.observations(read.take(place)).distinct
        if self._rules.compared and self._rules.comparable(read)[place[0]]:
            (values,) = self._rules.values(read, place)
            seen = self._compared(seen, results(self._rules.compared, shown, values))
            shown = self._rules.shown_after(shown, values)
        return seen, self._number(self._rules.names(read), introduced, shown)

    def _compared(self, seen: Observation, found: tuple[str, ...]) -> Observation:
        if seen.out_of_bounds:
            return seen
        more = tuple((one.name, text) for one, text in zip(self._rules.compared, found, strict=True) if text)
        return replace(seen, trace_fields=(*seen.trace_fields, *more))

    def _number(
        self, names: Hashable, introduced: tuple[tuple[EventRow, str, int], ...], shown: Shown
    ) -> int:
        if names not in self._numbers:
            self._numbers[names] = len(self._introduced)
            self._introduced.append(introduced)
        number = self._numbers[names]
        key = (number, frozenset(shown.items()))
        if key not in self._known_numbers:
            self._known_numbers[key] = len(self._known)
            self._known.append((number, shown))
        return self._known_numbers[key]

    def step(self, node: int, symbol: int) -> int:
        """The node of the tree of runs after a symbol."""
        return self._paths.setdefault((node, symbol), len(self._paths) + 1)

    def runs(self) -> Iterator[list[Observation]]:
        """The runs that were followed, each once, without those that are the beginning of another."""
        before = {node: step for step, node in self._paths.items()}
        inner = {node for node, _ in self._paths}
        for leaf in (node for node in before if node not in inner):
            symbols, node = [], leaf
            while node:
                node, symbol = before[node]
                symbols.append(symbol)
            read = [self.automaton.symbols[symbol] for symbol in reversed(symbols)]
            yield [symbol.observation for symbol in read if symbol is not None]


class Follower:
    """One run, event by event."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.automaton = reader.automaton
        self.set = START
        self.symbols = 0
        self._known = self._node = 0

    def state(self) -> tuple[object, ...]:
        """Everything on which the verdict on the rest of the run depends."""
        return (self.set, self._known)

    def see(self, row: EventRow, process: str, incarnation: int) -> Verdict | None:
        """Read an event where it happened; a verdict as soon as there is one that is final."""
        symbol, self._known = self.reader.read(self._known, row, process, incarnation)
        if symbol == NOTHING or self.set <= OUTSIDE:
            return None
        self.symbols += 1
        self._node = self.reader.step(self._node, symbol)
        before, self.set = self.set, self.automaton.step(self.set, symbol)
        return None if self.set > OUTSIDE else judge(self.automaton, before, symbol, self.set, self.symbols)


def judge(automaton: Automaton, before: int, symbol: int, after: int, symbols: int) -> Verdict:
    """The verdict on a run that `symbol` ended."""
    read = automaton.symbol_of(symbol)
    if after == OUTSIDE:
        value = read.observation.out_of_bounds
        room = f"the model has no room for this {value}" if value else "the model has no room for it"
        return Verdict("undecided", symbols, reason=f"{read.observation}: {room}")
    assert after == DEAD
    explanation = explain(automaton, before, symbol)
    return Verdict("violated", symbols, reason=explanation.sentence(), explanation=explanation)


def follow(automaton: Automaton, events: Iterable[Event]) -> Verdict:
    """A whole run, its events in the order of their numbers. Windows are for `sim.replay`."""
    run = list(events)
    rows = [
        ((e.phase, e.kind, e.key, e.condition, e.outcome, e.trace_fields), e.process, e.incarnation)
        for e in run
    ]
    columns = events_of_rows(rows, op=[event.op for event in run])
    reader = SymbolReader(automaton, threading.Lock())
    rules, kinds = automaton.refinement.request_rules, reader.rules.key_kinds(columns.key)
    broken = breaches(rules, reader.rules.kinds, columns, kinds) if rules is not None else {}
    symbols = reader.read(columns, windowed=False, kinds=kinds)
    found = Verdict("holds", len(symbols.symbols))
    number = START
    for count, (symbol, place) in enumerate(
        zip(symbols.symbols.tolist(), symbols.rows.tolist(), strict=True), 1
    ):
        before, number = number, automaton.step(number, symbol)
        if number <= OUTSIDE:
            one = judge(automaton, before, symbol, number, count)
            found = Verdict(one.verdict, count, place, run[place], one.reason, one.explanation)
            break
    breach = broken.get(0)
    if breach is None or found.verdict == "violated" or not (breach.certain or found.verdict == "holds"):
        return found
    decided = "violated" if breach.certain else "undecided"
    return Verdict(decided, found.symbols, breach.row, run[breach.row], breach.reason)
