"""Judging a history: key by key, because a store's keys are independent of each other.

A history is linearizable when each key's part is (Herlihy and Wing call this locality), so hundreds of
keys cost the sum of small searches instead of one large one. Before each search come a few checks
that cost next to nothing and can each prove a violation by themselves.
"""

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fencepost.properties.linearizability.explain import explain
from fencepost.properties.linearizability.history import (
    UNJUDGED,
    Contents,
    Move,
    Operation,
    is_informative,
    moves_of,
)
from fencepost.properties.linearizability.search import Found, Search, narrow

STEPS_MAX = 100_000
"""Configurations expanded for one key before giving up, a few seconds: keeps the search finite."""
EXPLAIN_STEPS_MAX = 2_000
"""The same for each attempt at a smaller counterexample, of which there may be hundreds."""
EXPLAIN_WORK_MAX = 500_000
"""Operations and steps (a step counts as twenty) for all those attempts together: some ten seconds. Running
out only leaves the counterexample longer than it could be."""


class Judgement(enum.StrEnum):
    LINEARIZABLE = "linearizable"
    VIOLATED = "violated"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a history. `undecided` is never a pass."""

    judgement: Judgement
    keys: tuple[str, ...]
    """The keys that are violated, or else those that are undecided."""
    explanation: str
    """For people. Of a violation: the smallest counterexample of one key, and why no order explains it."""
    counterexample: tuple[Operation, ...] = ()
    """Of a violation: the operations of the explanation, as numbered there. They violate by themselves."""
    operations: int = 0
    """The number of informative operations."""
    steps: int = 0
    """Configurations expanded."""


def check_history(operations: Iterable[Operation], *, steps_max: int = STEPS_MAX) -> Verdict:
    """Decide whether the operations could have happened one at a time, for each key, within their calls."""
    by_key: defaultdict[str, list[Operation]] = defaultdict(list)
    for each in operations:
        if is_informative(each):
            by_key[each.key].append(each)
    informative = sum(map(len, by_key.values()))
    if all(each.loose for part in by_key.values() for each in part):
        why = "the history holds no informative operation"
        if informative:
            why = f"all {informative} informative operations have an unknown outcome"
        return Verdict(Judgement.UNDECIDED, (), f"Nothing is proven: {why}.")
    found: defaultdict[Found, list[str]] = defaultdict(list)
    steps = 0
    for key in sorted(by_key):
        result, used = _judge(by_key[key], steps_max)
        found[result].append(key)
        steps += used
    judgement, keys, text, counterexample = _sum_up(by_key, found, steps_max)
    return Verdict(judgement, tuple(keys), text, counterexample, informative, steps)


def _judge(part: Sequence[Operation], steps_max: int) -> tuple[Found, int]:
    if any(each.kind == UNJUDGED for each in part):
        return Found.OUT_OF_STEPS, 0
    contents = Contents(part)
    moves = moves_of(part, contents)
    if contents.torn or _impossible(moves) or not narrow(moves):
        return Found.NO_ORDER, 0
    search = Search(moves)
    return search.run(steps_max), search.steps


class Refuter:
    """Decide whether operations on one key are certainly contradictory, within a budget of work."""

    def __init__(self, work_max: int = EXPLAIN_WORK_MAX) -> None:
        self._work = work_max

    def violated(self, part: Sequence[Operation]) -> bool:
        if self._work <= 0:
            return False
        found, steps = _judge(part, EXPLAIN_STEPS_MAX)
        self._work -= len(part) + 20 * steps
        return found is Found.NO_ORDER


def _impossible(moves: Sequence[Move]) -> bool:
    """Decide whether counting alone shows a violation.

    A create consumes the absence of an object, an if-match the object that it names. So an object cannot be
    consumed more often than it was made, nor be read before a request to make it.
    """
    made: Counter[str | None] = Counter({None: 1})
    first_called: dict[str | None, int] = {}
    for move in moves:
        for left in move.left() if move.changes else ():
            made[left] += 1
            first_called[left] = min(move.operation.called, first_called.get(left, move.operation.called))
    used: Counter[str | None] = Counter()
    for move in moves:
        returned = move.operation.returned
        if not move.constrained:
            continue
        if move.needs is not None and (made[move.needs] == 0 or first_called[move.needs] > (returned or 0)):
            return True
        if move.changes and move.needs not in move.left():
            used[move.needs] += 1
    return any(count > made[what] for what, count in used.items())


def _sum_up(
    by_key: dict[str, list[Operation]], found: dict[Found, list[str]], steps_max: int
) -> tuple[Judgement, list[str], str, tuple[Operation, ...]]:
    error, open_, good = found[Found.NO_ORDER], found[Found.OUT_OF_STEPS], found[Found.AN_ORDER]
    if error:
        shown = min(error, key=lambda key: (len(by_key[key]), key))
        text, counterexample = explain(by_key[shown], Refuter().violated)
        others = [repr(key) for key in error if key != shown]
        if others:
            more = "" if len(others) <= 5 else f" and {len(others) - 5} more"
            text += f"\nAlso violated: {', '.join(others[:5])}{more}."
        return Judgement.VIOLATED, error, text, counterexample
    if open_:
        return Judgement.UNDECIDED, open_, _undecided(by_key, open_, steps_max), ()
    return (
        Judgement.LINEARIZABLE,
        [],
        f"Every answer on {len(good)} keys fits one order of the operations.",
        (),
    )


def _undecided(by_key: dict[str, list[Operation]], keys: Sequence[str], steps_max: int) -> str:
    removed = [key for key in keys if any(each.kind == UNJUDGED for each in by_key[key])]
    beyond = [key for key in keys if key not in removed]
    sentences = []
    if beyond:
        found = f"no order found within {steps_max} steps"
        sentences.append(f"Key {beyond[0]!r}: {found}; {len(beyond)} such keys.")
    if removed:
        sentences.append(
            f"Key {removed[0]!r}: one version was removed, which is not checked; {len(removed)} such keys."
        )
    return "\n".join(sentences)
