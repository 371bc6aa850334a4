"""Histories of one object as traces, and a naive decision whether a store can have produced one.

`drawn` draws a history at random, so that most contradict themselves. `stored` runs requests against a store
that keeps the object, with crossing requests, lost replies, late landings and repetitions by the SDK: none
contradicts itself. `possible` tries every order by recursion, from the definitions of the answers alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from fencepost.impl.store.events import Event

BODIES = "abc"
KEY = "object"


@dataclass
class Call:
    """One request, and what became of it."""

    process: str
    kind: str
    condition: str = ""
    named: str = ""
    body: str = ""
    outcome: str = ""
    """Empty while there is no answer."""
    etag: str = ""
    begin: int = -1
    end: int = -1

    def answer(self, state: str) -> tuple[str, str, str]:
        """The outcome and the ETag that a store with this object (empty: none) gives, and its object then."""
        present = bool(state)
        if self.kind == "get":
            if self.condition == "unless" and present and state == self.named:
                return "unchanged", "", state
            if self.condition == "only-if" and present and state != self.named:
                return "changed", "", state
            return ("done", state, state) if present else ("missing", "", state)
        if self.condition == "absent" and present:
            return "exists", "", state
        if self.condition == "matches" and not present:
            return "missing", "", state
        if self.condition == "matches" and state != self.named:
            return "changed", "", state
        after = etag_of(self.body) if self.kind == "put" else ""
        return "done", after, after


def etag_of(body: str) -> str:
    return f"etag-{body}"


def hash_of(body: str) -> str:
    return f"hash-{body}" if body else ""


def a_call(dice: Random, process: str) -> Call:
    """A request at random."""
    kind = dice.choice(("get", "get", "put", "put", "put", "delete"))
    conditions = {
        "get": ("", "", "unless", "only-if"),
        "put": ("absent", "matches", "anything"),
        "delete": ("matches", "anything"),
    }
    condition = dice.choice(conditions[kind])
    named = etag_of(dice.choice(BODIES)) if condition in ("matches", "unless", "only-if") else ""
    return Call(process, kind, condition, named, dice.choice(BODIES) if kind == "put" else "")


def drawn(dice: Random, count: int, processes: int) -> list[Call]:
    """Requests with answers that each can have by itself."""
    calls: list[Call] = []
    open_: dict[str, Call] = {}
    clock = 0
    while len(calls) < count or open_:
        process = f"p{dice.randrange(processes)}"
        clock += 1
        if process in open_:
            call = open_.pop(process)
            if dice.random() < 0.15:
                continue
            # Any answer that some state explains.
            call.outcome, call.etag, _ = call.answer(dice.choice(["", *map(etag_of, BODIES)]))
            if call.kind == "get" and call.etag and dice.random() < 0.05:
                call.etag = etag_of("z")  # nothing writes it
            call.end = clock
        elif len(calls) < count:
            call = replace(a_call(dice, process), begin=clock)
            calls.append(call)
            open_[process] = call
    return calls


@dataclass
class Store:
    """The object, the requests under way, and those that may land late."""

    dice: Random
    state: str
    late: list[Call] = field(default_factory=list)

    def land(self, call: Call) -> tuple[str, str]:
        outcome, etag, self.state = call.answer(self.state)
        return outcome, etag


def stored(dice: Random, count: int, processes: int, *, empty: bool, faults: float = 0.1) -> list[Call]:
    """Requests that a store really answered; each takes effect between its request and its answer."""
    store = Store(dice, "" if empty or dice.random() < 0.5 else etag_of(dice.choice(BODIES)))
    calls: list[Call] = []
    under_way: dict[str, tuple[Call, list[str]]] = {}
    clock = 0
    while len(calls) < count or under_way:
        clock += 1
        if store.late and dice.random() < 0.2:
            store.land(store.late.pop(dice.randrange(len(store.late))))
        process = f"p{dice.randrange(processes)}"
        if process not in under_way:
            if len(calls) < count:
                call = replace(a_call(dice, process), begin=clock)
                if call.named and dice.random() < 0.6:
                    call.named = store.state or call.named
                calls.append(call)
                under_way[process] = call, _plan(dice, call, faults)
            continue
        call, plan = under_way[process]
        match plan.pop(0):
            case "land":
                call.outcome, call.etag = store.land(call)
            case "lost":
                call.outcome = call.etag = ""
                del under_way[process]
            case "late":
                store.late.append(call)
                del under_way[process]
            case "end":
                call.end = clock
                del under_way[process]
    return calls


def _plan(dice: Random, call: Call, faults: float) -> list[str]:
    if call.kind == "get" or dice.random() >= faults:
        return ["land", "end"]
    return dice.choice((["land", "land", "end"], ["land", "lost"], ["lost"], ["late"]))


def events(calls: list[Call], *, one_counter: bool = True) -> list[Event]:
    """The history as a trace: of one recorder, or of one for each process."""
    rows: list[tuple[int, Event]] = []
    for op, call in enumerate(calls):
        base = Event("run", 0, 0, call.process, 0, op, "request", call.kind, KEY)
        asked = replace(
            base, condition=call.condition, etag=call.named, hash=hash_of(call.body), t_ns=call.begin
        )
        rows.append((call.begin, asked))
        if call.outcome:
            read = call.etag.removeprefix("etag-") if call.kind == "get" else ""
            shown = replace(base, phase="response", outcome=call.outcome, etag=call.etag, t_ns=call.end)
            rows.append((call.end, replace(shown, hash=hash_of(read))))
    rows.sort(key=lambda row: row[0])
    counters: dict[str, int] = {}
    made = []
    for _, event in rows:
        counter = "" if one_counter else event.process
        counters[counter] = counters.get(counter, -1) + 1
        made.append(replace(event, seq=counters[counter]))
    return made


def possible(calls: list[Call], *, empty: bool, one_order: bool) -> bool:
    """Return true if some order of effects explains all answers: by trying all of them."""
    shown = {call.etag for call in calls if call.etag} | {call.named for call in calls if call.named}
    hashes: dict[str, set[str]] = {}
    for call in calls:
        if call.kind == "put" and call.outcome == "done":
            hashes.setdefault(call.etag, set()).add(call.body)
        if call.kind == "get" and call.etag:
            hashes.setdefault(call.etag, set()).add(call.etag.removeprefix("etag-"))

    def bodies(call: Call) -> list[str]:
        """The ETags that an effect of a put can leave without an answer that names it."""
        return [etag for etag in shown if not hashes.get(etag) or call.body in hashes[etag]] + ["etag-unseen"]

    answered = frozenset(at for at, call in enumerate(calls) if call.outcome)
    initial = [""] if empty else ["", "etag-other", *shown]
    tried: set[tuple[str, frozenset[int]]] = set()

    def precedes(one: Call, other: Call) -> bool:
        known = one_order or one.process == other.process
        return known and bool(one.outcome) and one.end < other.begin

    def goes_on(state: str, left: frozenset[int]) -> bool:
        if not left:
            return True
        if (state, left) in tried:
            return False
        tried.add((state, left))
        return any(goes_on(*step) for step in steps(state, left))

    def steps(state: str, left: frozenset[int]) -> Iterator[tuple[str, frozenset[int]]]:
        for at in left:
            if not any(precedes(calls[other], calls[at]) for other in left if other != at):
                outcome, etag, after = calls[at].answer(state)
                if (outcome, etag) == (calls[at].outcome, calls[at].etag):
                    yield after, left - {at}
        for at, call in enumerate(calls):
            if call.kind == "get" or any(precedes(calls[other], call) for other in left if other != at):
                continue
            if any(precedes(call, calls[other]) for other in answered - left):
                continue
            outcome, etag, after = call.answer(state)
            if outcome != "done":
                continue
            if call.kind == "delete":
                yield "", left
            for value in bodies(call) if call.kind == "put" else ():
                if value != "etag-unseen" or call.outcome != "done":
                    yield value, left
            if call.kind == "put" and call.outcome == "done":
                yield after, left

    return any(goes_on(state, answered) for state in initial)


def as_code(calls: list[Call]) -> Any:
    """The requests in words, for a message."""
    return "\n" + "\n".join(map(str, calls))
