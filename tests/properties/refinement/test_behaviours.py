"""Behaviours of a model, shown as events, are accepted; and what was taken out of them is missed."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fencepost.impl.store.events import Event
from fencepost.model import Label, State, Stepper
from fencepost.properties.refinement import DEAD, OUTSIDE, START, Automaton, Reader, follow
from tests.properties.refinement.maps import counter, landed, lease, lock

Shown = Callable[[Label, State, State], str | None]


def show_lock(label: Label, before: State, after: State) -> str | None:
    if before.values["lock"] == after.values["lock"]:
        return None
    c = dict(label.parameters).get("c", 0)
    if "absent" in str(after.values["lock"]):
        return f"c{c} delete locks/x done"
    owner, take = _of(after, "lock", "owner"), _of(after, "lock", "take")
    return f"c{owner} put locks/x done take={take + 5}"


def show_counter(label: Label, before: State, after: State) -> str | None:
    if before.values["counter"] == after.values["counter"]:
        return None
    return f"c{dict(label.parameters).get('c', 0)} put counter done count={_of(after, 'counter', 'count')}"


def show_lease(label: Label, before: State, after: State) -> str | None:
    c = dict(label.parameters).get("c", 0)
    if before.values["lease"] != after.values["lease"]:
        return f"c{c} put lease done epoch={_of(after, 'lease', 'epoch') + 3}"
    if before.values["data"] != after.values["data"]:
        epoch, number = _of(after, "data", "epoch"), _of(after, "data", "number")
        return f"c{c} put data done epoch={epoch + 3} number={number}"
    return None


def _of(state: State, key: str, name: str) -> int:
    text = str(state.values[key])
    return int(text.split(f"{name}=")[1].split()[0].rstrip(",)"))


MACHINES = {"lock": (lock, show_lock), "counter": (counter, show_counter), "lease": (lease, show_lease)}


def behaviour(automaton: Automaton, shown: Shown, seed: int) -> list[Event]:
    """A random walk of the model, as the events that it would have shown."""
    draw = random.Random(seed)
    stepper = Stepper(automaton.model)
    state = stepper.initial()[0]
    lines = []
    for _ in range(25):
        choices = stepper.successors(state)
        if not choices:
            break
        label, after = draw.choice(choices)
        line = shown(label, state, after)
        if line:
            lines.append(line)
        state = after
    return landed(*lines)


@pytest.mark.parametrize("name", MACHINES)
def test_every_behaviour_of_the_model_is_accepted(name: str) -> None:
    """Also those in which requests land late, when they are anybody's."""
    make, shown = MACHINES[name]
    automaton = make()
    lengths = []
    for seed in range(25):
        events = behaviour(automaton, shown, seed)
        verdict = follow(automaton, events)
        assert verdict.verdict in ("holds", "undecided"), (seed, str(verdict))
        lengths.append(len(events) if verdict.verdict == "holds" else 0)
    assert max(lengths) >= 2, "walks that show nothing prove nothing"


@pytest.mark.parametrize("name", MACHINES)
def test_most_that_is_taken_out_or_done_twice_is_missed(name: str) -> None:
    make, shown = MACHINES[name]
    automaton = make()
    altered = noticed = 0
    for seed in range(15):
        events = behaviour(automaton, shown, seed)
        for at in range(len(events) - 1):
            twice = [*events[: at + 1], replace(events[at], op=999), *events[at + 1 :]]
            altered += 1
            noticed += follow(automaton, twice).verdict == "violated"
    assert altered > 10
    assert noticed > altered / 2


def test_columns_go_where_single_runs_go() -> None:
    """A table look-up a column, filled between rounds, agrees with following each run."""
    automaton, single = lock(), lock()
    runs = [behaviour(automaton, show_lock, seed) for seed in range(25)]
    runs += [events[::-1] for events in runs]
    words = [_symbols(automaton, events) for events in runs]
    longest = max(len(word) for word in words)
    columns = np.array([word + [0] * (longest - len(word)) for word in words])
    sets = np.full(len(runs), START)
    for column in range(longest):
        sets = automaton.advance(sets, columns[:, column])
    verdicts = ["violated" if s == DEAD else "undecided" if s == OUTSIDE else "holds" for s in sets]
    assert verdicts == [follow(single, events).verdict for events in runs]
    assert set(verdicts) >= {"holds", "violated"}


def _symbols(automaton: Automaton, events: list[Event]) -> list[int]:
    reader, names, symbols = Reader(automaton), 0, []
    for e in events:
        row = ("landed", e.kind, e.key, e.condition, e.outcome, e.trace_fields)
        symbol, names = reader.read(names, row, e.process, e.incarnation)
        symbols.append(symbol)
    return symbols


def test_dead_and_outside_stay_so() -> None:
    automaton = lock()
    word = _symbols(automaton, landed("ann put locks/x done take=1", "ann delete locks/x done"))
    for stuck in (DEAD, OUTSIDE):
        assert automaton.step(stuck, word[0]) == stuck
        assert list(automaton.advance(np.array([stuck]), np.array([word[1]]))) == [stuck]
    assert automaton.step(START, 0) == START, "symbol 0 changes nothing"
