"""What an action does to one state: statements, one after the other, against plain Python state by state.

Random short programs on fields of every kind are run by the kernel on all states at once, and by Python on
each state alone. A program that leaves the bounds of a field must be refused. Then the statements that look
as if they did something and cannot: each is refused with the reason.
"""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.model import *
from fencepost.model.kernel import Label
from fencepost.model.store import Budget, Key, Late
from tests.depth import examples


class Fields(Machine):
    """Fields that programs change."""

    flag = Bool()
    count = Int(0, 4)
    other = Int(-1, 4)
    phase = Enum("a", "b", "c")
    same = Enum("a", "b", "c")
    members = Flags(3)
    queue = Seq(2, Int(0, 4))
    shifted = Seq(2, Int(1, 4))
    row = Each(3, Int(0, 4))
    line = Each(3, Int(0, 4))
    grid = Each(2, Each(2, Bool()))

    @action
    def stay(s) -> None: ...


MODEL = Model(Fields)


class Ended(Exception):
    """A guard did not hold."""


class OneState:
    """A state as plain Python has it, with the bounds of its fields."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __getattr__(self, name: str) -> Any:
        return self.values[name]

    def check(self) -> dict[str, Any]:
        """The state as the kernel unpacks it; whatever does not fit is an error."""
        values = {name: _frozen(value) for name, value in self.values.items()}
        MODEL.pack(values)
        return values


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(each) for each in value)
    return frozenset(value) if isinstance(value, set) else value


def _thawed(value: Any) -> Any:
    return [_thawed(each) for each in value] if isinstance(value, tuple) else value


# Each statement twice: as an author writes it, and as it reads on one state.
STATEMENTS: list[tuple[str, str]] = [
    ("s.require(s.flag)", "require(v['flag'])"),
    (
        "s.require(s.count < s.other, s.phase != 'b')",
        "require(v['count'] < v['other'] and v['phase'] != 'b')",
    ),
    ("s.require(s.row == s.line)", "require(v['row'] == v['line'])"),
    ("s.require(s.queue == s.shifted)", "require(v['queue'] == v['shifted'])"),
    (
        "s.require(s.members.has(1) | (s.queue.length == 2))",
        "require(1 in v['members'] or len(v['queue']) == 2)",
    ),
    ("s.count += 1", "v['count'] += 1"),
    ("s.count = s.other", "v['count'] = v['other']"),
    ("s.other = s.count - 1", "v['other'] = v['count'] - 1"),
    ("s.count, s.other = s.other, s.count", "v['count'], v['other'] = v['other'], v['count']"),
    ("s.count = pick(s.flag, s.other, 2)", "v['count'] = v['other'] if v['flag'] else 2"),
    ("s.count = s.row[s.count % 3]", "v['count'] = v['row'][v['count'] % 3]"),
    ("s.flag = s.phase == s.same", "v['flag'] = v['phase'] == v['same']"),
    ("s.flag ^= s.count > 2", "v['flag'] ^= v['count'] > 2"),
    ("s.flag = ~s.flag", "v['flag'] = not v['flag']"),
    ("s.phase = pick(s.flag, 'c', s.same)", "v['phase'] = 'c' if v['flag'] else v['same']"),
    ("s.same = s.phase", "v['same'] = v['phase']"),
    ("s.members |= {0, 2}", "v['members'] |= {0, 2}"),
    ("s.members = s.members.minus(2)", "v['members'] = v['members'] - {2}"),
    ("s.row[1] = s.count", "v['row'][1] = v['count']"),
    ("s.row[s.count % 3] += 1", "v['row'][v['count'] % 3] += 1"),
    ("s.row = s.line", "v['row'] = list(v['line'])"),
    ("s.row = (s.row[2], s.row[0], s.row[1])", "v['row'] = [v['row'][2], v['row'][0], v['row'][1]]"),
    ("s.grid = (s.grid[1], s.grid[0])", "v['grid'] = [v['grid'][1][:], v['grid'][0][:]]"),
    ("s.grid[0] = s.grid[1]", "v['grid'][0] = v['grid'][1][:]"),
    ("s.queue = s.shifted", "v['queue'] = list(v['shifted'])"),
    ("s.shifted = s.queue", "v['shifted'] = list(v['queue'])"),
    ("s.queue.append(s.count)", "v['queue'].append(v['count'])"),
    ("s.count = s.queue.pop_first()", "v['count'] = v['queue'].pop(0)"),
    ("s.queue.clear()", "v['queue'].clear()"),
    ("old = s.count; s.count = 3; s.other = old", "v['other'], v['count'] = v['count'], 3"),
    ("live = s.row; s.row[0] = 4; s.count = live[0]", "v['row'][0] = 4; v['count'] = v['row'][0]"),
]

statements = st.sampled_from(STATEMENTS)
values = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "count": st.integers(0, 4),
        "other": st.integers(-1, 4),
        "phase": st.sampled_from("abc"),
        "same": st.sampled_from("abc"),
        "members": st.frozensets(st.integers(0, 2)),
        "queue": st.lists(st.integers(0, 4), max_size=2).map(tuple),
        "shifted": st.lists(st.integers(1, 4), max_size=2).map(tuple),
        "row": st.tuples(*[st.integers(0, 4)] * 3),
        "line": st.tuples(*[st.integers(0, 4)] * 3),
        "grid": st.tuples(*[st.tuples(st.booleans(), st.booleans())] * 2),
    }
)


def _one_by_one(states: list[dict[str, Any]], program: list[str]) -> "list[tuple[int, dict[str, Any]]] | str":
    """Each state that comes to the end, with the number it began with; or why there is none."""

    def require(holds: bool) -> None:
        if not holds:
            raise Ended

    found = []
    for number, state in enumerate(states):
        one = OneState(deepcopy({name: _thawed(value) for name, value in state.items()}))
        try:
            for statement in program:
                exec(statement, {"v": one.values, "require": require})
                one.check()
        except Ended:
            continue
        except (ModellingMistake, IndexError) as error:
            return str(error)
        found.append((number, one.check()))
    return found


@settings(max_examples=examples(100))
@given(
    st.lists(values, min_size=1, max_size=6), st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=5)
)
def test_a_program_has_the_same_effect_on_a_batch_as_on_each_state(
    states: list[dict[str, Any]], program: list[tuple[str, str]]
) -> None:
    packed = np.concatenate([MODEL.pack(state) for state in states], axis=1)
    meant = _one_by_one(states, [plain for _, plain in program])
    scope: dict[str, Any] = {"pick": pick}
    exec("def work(s):\n" + "\n".join(f"    {written}" for written, _ in program), scope)
    try:
        frame = MODEL._run(packed, Label(0, "work", ()), scope["work"], {})
    except ModellingMistake:
        # Refused: only where a state leaves the bounds. Which of them does not matter, nor where.
        assert isinstance(meant, str)
        return
    assert not isinstance(meant, str), f"not refused, though {meant}"
    found = []
    if frame is not None:
        after = np.stack(frame.finish())
        found = [(int(n), MODEL.unpack(after[:, i])) for i, n in enumerate(frame.origin())]
    assert found == meant


class Base(Machine):
    """For statements that cannot be meant."""

    clients = Size(2)
    flag = Bool()
    count = Int(0, 4)
    phase = Enum("a", "b")
    left = Each(2, Int(0, 3))
    right = Each(2, Int(0, 3))
    grid = Each(2, Each(2, Bool()))
    queue = Seq(2, Int(0, 3))
    line = Seq(2, Int(0, 3))
    queues = Each(2, Seq(2, Int(0, 3)))
    lock = Key(owner=Id(2))
    late = Late(lock)
    faults = Budget(2)

    @action
    def stay(s) -> None: ...

    def helps(s) -> Any:
        return s.flag


def message_of(work: Any, kind: Any = action) -> str:
    with pytest.raises(ModellingMistake) as error:
        check(type("Invalid", (Base,), {"work": kind(work)}))
    return str(error.value)


kept: list[Any] = []


def swaps_arrays(s: Any) -> None:
    s.left, s.right = s.right, s.left


def swaps_sequences(s: Any) -> None:
    s.queue, s.line = s.line, s.queue


def swaps_rows(s: Any) -> None:
    s.grid[0], s.grid[1] = s.grid[1], s.grid[0]


def reads_what_was_replaced(s: Any) -> None:
    old = s.left
    s.left = (1, 1)
    s.require(old[0] == 0)


def reads_within_what_was_replaced(s: Any) -> None:
    old = s.grid[1]
    s.grid = ((True, True), (True, True))
    s.require(old[0])


def goes_on(s: Any) -> None:
    try:
        s.require(s.flag)
    except BaseException:  # noqa: BLE001  # the mistake under test
        s.count = 1


def keeps_a_column(s: Any) -> None:
    kept.append(s.count)
    s.require(kept[0] == s.count)
    s.count = (s.count + 1) % 5


def keeps_itself(s: Any) -> None:
    kept.append(s)
    s.require(kept[0].count == s.count)
    s.count = (s.count + 1) % 5


def keeps_a_view(s: Any) -> None:
    kept.append(s.left)
    s.require(kept[0][0] == s.left[0])
    s.count = (s.count + 1) % 5


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (swaps_arrays, "`left` was read before another value was assigned to it"),
        (swaps_sequences, "`queue` was read before another value was assigned to it"),
        (swaps_rows, "`grid` was read before another value was assigned to it"),
        (reads_what_was_replaced, "`left` was read before another value was assigned to it"),
        (reads_within_what_was_replaced, "`grid` was read before another value was assigned to it"),
        (goes_on, "goes on after a guard that no state passed: it catches the exception of s.require"),
        (keeps_a_column, "was read from `s` in an earlier call"),
        (keeps_itself, "was read from `s` in an earlier call"),
        (keeps_a_view, "was read from `s` in an earlier call"),
        (lambda s: setattr(s.lock, "owner", 1), "nothing is assigned to `lock.owner`: use a request"),
        (lambda s: setattr(s.late, "do", "create"), "nothing is assigned to `late.do`: pass it to a request"),
        (lambda s: setattr(s.queue, "length", 0), "has no setter"),
        (lambda s: setattr(s.left, "first", 0), "has no attribute 'first'"),
        (lambda s: setattr(s, "frame", 0), "`frame` is not a field"),
        (lambda s: delattr(s, "count"), "`count` cannot be deleted"),
        (lambda s: s.require(not s.queue.is_empty), "write is_empty(...)"),
        (lambda s: s.require(not s.helps), "write helps(...)"),
        (lambda s: s.require(not s.can), "write can(...)"),
        (lambda s: s.require(s.queue.is_empty == False), "write is_empty(...)"),  # noqa: E712  # the mistake
        (lambda s: s.require(str(s.count) == "0"), "so it is no text"),
        (lambda s: s.require(f"{s.phase}" == "a"), "so it is no text"),
        (lambda s: s.require(s.queue[s.count + 7] == 0), "work() accesses `queue[7]` in state"),
        (lambda s: s.require(s.queues[1][s.count - 1] == 0), "work() accesses `queues[-1]` in state"),
        (lambda s: s.require(s.queue[True] == 0), "`queue` is indexed by numbers 0..1, not by True"),
        (lambda s: s.faults.spend("reply-lost"), "'reply-lost' is nothing that becomes of a request"),
        (lambda s: s.faults.spend("unknown"), "'unknown' is nothing that becomes of a request"),
        (
            lambda s: s.require(s.count.real == 1),
            "Python cannot do this (AttributeError: a number column object has no",
        ),
    ],
)
def test_a_statement_with_another_meaning_than_in_python_is_an_error(work: Any, expected: str) -> None:
    kept.clear()
    message = message_of(work)
    assert expected in message.replace(f'"{expected}', "")  # the statement that it quotes is this test's line
    assert "work()" in message


def compares_for_nothing(s: Any) -> None:
    s.require(s.flag)
    s.phase == "b"  # noqa: B015  # the mistake under test


def names_for_nothing(s: Any) -> None:
    s.late.land  # noqa: B018  # the mistake under test


def answers_for_nothing(s: Any) -> None:
    s.phase in ("a", "b")  # noqa: B015  # the mistake under test


@pytest.mark.parametrize("work", [compares_for_nothing, names_for_nothing, answers_for_nothing])
def test_a_statement_without_effect_is_an_error(work: Any) -> None:
    line = work.__code__.co_firstlineno + (2 if work is compares_for_nothing else 1)
    with pytest.raises(ModellingMistake) as error:
        action(work)
    assert f"in {work.__name__} (test_statements.py:{line}): a statement that compares" in str(error.value)


def test_the_parameters_of_a_step_are_before_and_after_in_this_order() -> None:
    with pytest.raises(ModellingMistake, match=r"takes after, before: .* write \(before, after\)"):
        step(lambda after, before: after.count >= before.count)


def test_a_comparison_with_an_impossible_reply_is_refused() -> None:
    def asks(s: Any) -> None:
        reply = s.lock.create("done", owner=0)
        s.flag = reply == "dnoe"

    assert "no reply is 'dnoe' (did you mean 'done'?); the replies are" in message_of(asks)

    def asks_for_the_answer(s: Any) -> None:
        s.flag = s.lock.create("request_lost", owner=0) != "request_lost"

    assert "no reply is 'request_lost'" in message_of(asks_for_the_answer)


def test_a_step_that_compares_whole_states_is_an_error() -> None:
    message = message_of(lambda before, after: (before == after) | after.flag, step)
    assert "`s` is all fields of many states at once: compare its fields" in message
    assert "compare its fields" in message_of(lambda s: s.flag if s else ~s.flag, invariant)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((Int(0, 3),), "`x` is a tuple with a field in it, perhaps by a comma at the end of its line"),
        (Int, "`x` is Int itself and no field: write Int(...)"),
    ],
)
def test_a_declaration_that_only_looks_like_a_field_is_an_error(value: Any, expected: str) -> None:
    with pytest.raises(ModellingMistake) as error:
        type("Invalid", (Machine,), {"x": value})
    assert expected in str(error.value)


def test_a_field_that_holds_every_number_a_column_can_is_checked_all_the_same() -> None:
    class Wide(Machine):
        much = Int(0, (1 << 62) - 1)

        @action
        def down(s) -> None:
            s.much = s.much - 1

    with pytest.raises(ModellingMistake, match=r"down\(\) takes `much` to -1, outside"):
        check(Wide)
