"""An author's text means on columns what it means on one state, or it is refused: there is no third outcome.

Every kind of thing that can be got hold of, under every operation of Python: each cell of the table is worked
out by the kernel for a batch of states, and by plain Python for each of them (`plain_states`). Where plain
Python has no answer, the kernel must have none either; where the kernel answers, the answer is the same.
"""

import itertools
import linecache
import random
import re
from typing import Any

import numpy as np
import pytest

from fencepost.model import *
from fencepost.model.kernel import Array, Column, Label, Number, Sequence
from fencepost.model.kernel.language.bags import BagView, SetView
from fencepost.model.kernel.language.errors import NoValue
from fencepost.model.store import Budget, Key, Late, Trouble
from tests.model.plain_states import Opaque, PlainItems, plain, plain_case, plain_implies, plain_pick


def message() -> Record:
    """The record of which all fields of records are made."""
    return Record(type=Enum("ask", "tell"), src=Id(3), vote=Bool())


class Everything(Machine):
    """One of everything."""

    slots = Size(3)
    flag = Bool()
    other = Bool()
    count = Int(0, 4)
    low = Int(-2, 3)
    huge = Int(0, (1 << 62) - 1)
    phase = Enum("init", "done", "gone")
    same = Enum("init", "done", "gone")
    side = Enum("up", "down")
    readers = Flags(3)
    writers = Flags(3)
    marks = Flags("r", "w")
    queue = Seq(2, Int(0, 3))
    short = Seq(1, Int(0, 3))
    shifted = Seq(2, Int(1, 3))
    place = Each(3, Int(0, 3))
    where = Each(3, Int(0, 3))
    grid = Each(2, Each(2, Bool()))
    queues = Each(2, Seq(2, Enum("a", "b")))
    last, likewise = message(), message()
    network, backlog = Bag(2, message()), Bag(2, message())
    heard = Set(Record(src=Id(2), vote=Bool()))
    tags = Set(Int(0, 2))
    wire = Channel(2, message(), lossy=True)
    lock = Key(owner=Id(3))
    late = Late(lock)
    faults = Budget(2)
    trouble = Trouble()

    @action
    def stay(s) -> None: ...

    @invariant
    def fine(s) -> Truth:
        return s.flag | ~s.flag

    def idle(s) -> Truth:
        return s.flag


MODEL = Model(Everything)
ROWS = 12


def _random_states() -> list[dict[str, Any]]:
    chance = random.Random(1)
    names = ("init", "done", "gone")

    def some(members: Any) -> frozenset[Any]:
        return frozenset(m for m in members if chance.random() < 0.5)

    def items(most: int, values: Any) -> tuple[Any, ...]:
        return tuple(chance.choice(values) for _ in range(chance.randint(0, most)))

    def item(**more: Any) -> dict[str, Any]:
        return {"src": chance.randint(0, 1), "vote": chance.random() < 0.5, **more}

    def messages(most: int) -> tuple[Any, ...]:
        return tuple(item(type=chance.choice(("ask", "tell"))) for _ in range(chance.randint(0, most)))

    first = MODEL.unpack(MODEL.initial()[:, 0])
    return [first] + [
        {
            **first,
            "flag": chance.random() < 0.5,
            "other": chance.random() < 0.5,
            "count": chance.randint(0, 4),
            "low": chance.randint(-2, 3),
            "huge": chance.choice([0, 1, (1 << 62) - 1, 1 << 40]),
            "phase": chance.choice(names),
            "same": chance.choice(names),
            "side": chance.choice(("up", "down")),
            "readers": some(range(3)),
            "writers": some(range(3)),
            "marks": some("rw"),
            "queue": items(2, range(4)),
            "short": items(1, range(4)),
            "shifted": items(2, range(1, 4)),
            "place": tuple(chance.randint(0, 3) for _ in range(3)),
            "where": tuple(chance.randint(0, 3) for _ in range(3)),
            "grid": tuple(tuple(chance.random() < 0.5 for _ in range(2)) for _ in range(2)),
            "queues": tuple(items(2, ("a", "b")) for _ in range(2)),
            "last": item(type="ask"),
            "likewise": item(type=chance.choice(("ask", "tell"))),
            "network": messages(2),
            "backlog": messages(1),
            "heard": [item() for _ in range(chance.randint(0, 2))],
            "tags": some(range(3)),
            "wire": messages(2),
            "lock": chance.choice(["absent", {"owner": 0}, {"owner": 2}]),
            "faults": chance.randint(0, 2),
            "trouble": chance.choice(("lasts", "over")),
        }
        for _ in range(ROWS - 1)
    ]


STATES = np.concatenate([MODEL.pack(state) for state in _random_states()], axis=1)
PLAIN = [plain(MODEL, MODEL.unpack(STATES[:, row])) for row in range(ROWS)]

THINGS = [
    *("s.flag", "s.count", "s.low", "s.huge", "s.phase", "s.side", "s.readers", "s.marks", "s.slots"),
    *("s.queue", "s.short", "s.shifted", "s.queue.length", "s.queue.first", "s.queue.last", "s.queue[1]"),
    *("s.place", "s.place[0]", "s.place[s.queue.length]", "s.grid", "s.grid[0]", "s.grid[1][0]"),
    *("s.queues", "s.queues[1]", "s.lock", "s.lock.owner", "s.lock.is_there", "s.late", "s.late.is_free"),
    *("s.faults", "s.faults.spent", "s.faults.is_left", "s.trouble", "s.trouble.is_over", "s"),
    *("(s.count + 1)", "(s.count < 2)", "(s.phase == 'init')", "s.readers.size()", "s.place.count(1)"),
    *("s.grid[0].any(True)", "s.queue.is_empty()", "s.readers.has(1)", "s.phase.is_in('init', 'done')"),
    *("pick(s.flag, 1, s.low)", "pick(s.flag, s.phase, 'init')", "count_of([s.flag, s.other])"),
    *("case((s.flag, 1), (s.other, s.low), otherwise=2)", "implies(s.flag, s.other)"),
    *("s.queue.is_empty", "s.queue.has", "s.place.all", "s.place.count", "s.phase.is_in", "s.readers.has"),
    *("s.last", "s.last.src", "s.last.but(vote=True)", "s.last.matches", "pick(s.flag, s.last, s.likewise)"),
    *("s.network", "s.network.has(src=1)", "s.network.any(lambda m: m.vote)", "s.network.add"),
    *("s.heard", "s.heard.has(src=1, vote=True)", "s.tags", "s.wire"),
    *("s.readers.size", "s.marks.is_empty", "s.lock.holds", "s.late.land", "s.idle", "s.stay", "s.fine"),
]
CONSTANTS = [
    *("True", "0", "1", "9", "-1", "1 << 70", "1.5", "'init'", "'dnoe'", "None", "()", "(0, 0, 0)"),
    *("[1]", "(0,)", "{0}", "{7}", "{'r'}", "((True, False), (False, False))"),
    *("{'type': 'ask', 'src': 1, 'vote': False}", "({'type': 'ask', 'src': 1, 'vote': False},)"),
]
SECOND = [
    *("s.flag", "s.other", "s.count", "s.low", "s.huge", "s.same", "s.side", "s.writers", "s.marks"),
    *("s.short", "s.shifted", "s.where", "s.where[1]", "s.grid[1]", "s.queues[0]", "s.lock", "s.faults", "s"),
    *("(s.low * 2)", "pick(s.other, s.count, 7)", "s.queue.is_empty", "s.idle", "s.slots"),
    *("s.likewise", "s.likewise.vote", "s.backlog", "s.tags", "s.wire"),
]
SIGNS = [
    *("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@"),
    *("in", "not in", "and", "or"),
]
SINGLE = [
    *("{x}", "bool({x})", "not {x}", "1 if {x} else 2", "len({x})", "list({x})", "hash({x})", "int({x})"),
    *("float({x})", "str({x})", "format({x})", "'%s' % ({x},)", "-{x}", "+{x}", "abs({x})", "round({x})"),
    *("{x}[0]", "{x}[1]", "{x}[-1]", "{x}[9]", "{x}[0:1]", "{x}[True]", "{x}['a']", "{x}[0, 0]", "{x}[None]"),
    *("{x}[s.count]", "{x}[s.low]", "{x}[s.flag]", "{x}[s.phase]", "{x}[s.queue.length]", "sum({x})"),
    *("max({x})", "min({x})", "sorted({x})", "any({x})", "all({x})", "range({x})", "(1, 2, 3)[{x}]"),
    *("{{{x}: 1}}", "{{{x}}}", "{x}.nothing", "setattr({x}, 'nothing', 1)", "setattr({x}, 'owner', 1)"),
    *("setattr({x}, 'length', 1)", "delattr({x}, 'nothing')", "0 < {x} < 3", "{x} == 1 == 1", "tuple({x})"),
    *("all_of({x})", "any_of({x})", "count_of({x})", "pick({x}, 1, 2)", "pick(s.flag, {x}, 2)", "next({x})"),
    *(
        "case(({x}, 1), otherwise=2)",
        "case((s.flag, 1), (s.other, {x}), otherwise=2)",
        "implies({x}, s.flag)",
    ),
    *("implies(s.flag, {x})",),
    *("{x}.src", "{x}.matches(type='ask')", "{x}.but(src=2)", "{x}.but(src=2) == s.last", "{x}.size()"),
    *("{x}.has(src=1)", "{x}.has({{'src': 1, 'vote': True}})", "{x}.is_empty()", "{x}.count(src=0)"),
    *("{x}.any(lambda m: m.vote)", "{x}.all(lambda m: m.src < 2)", "{x}.first.type", "{x}.is_full()"),
    *("{x}.all(0)", "{x}.any(1)", "{x}.count(True)", "{x}.has(1)", "{x}()"),
]


WORDS = {
    "pick": pick,
    "case": case,
    "implies": implies,
    "all_of": all_of,
    "any_of": any_of,
    "count_of": count_of,
}
PLAIN_WORDS = {
    "pick": plain_pick,
    "case": plain_case,
    "implies": plain_implies,
    "all_of": None,
    "any_of": None,
    "count_of": None,
}


def _truths(values: Any) -> list[bool]:
    found = list(values)
    if not all(isinstance(value, bool) for value in found):
        raise TypeError("joins truths")
    return found


PLAIN_WORDS |= {
    "all_of": lambda values: all(_truths(values)),
    "any_of": lambda values: any(_truths(values)),
    "count_of": lambda values: sum(_truths(values)),
}


NO_VALUE = "no value, but the thing itself"
NOT_REACHED = None
"""Nothing was answered: the expression is a guard that no state passes."""


def _per_row(value: Any, rows: int) -> list[Any]:
    """What the kernel answered, state by state, as plain values."""
    if isinstance(value, Column):
        codes = np.broadcast_to(value.codes(), (rows,))
        if isinstance(value, Number | Truth):
            return list(codes.tolist())
        return [value.kind.decode(code) for code in codes.tolist()]
    if isinstance(value, Sequence):
        items = [_per_row(value.item(i), rows) for i in range(value.capacity)]
        lengths = _per_row(value.length, rows)
        return [[item[row] for item in items[:length]] for row, length in enumerate(lengths)]
    if isinstance(value, BagView | SetView):
        items = [(_per_row(there, rows), _per_row(item, rows)) for there, item in value.each()]
        return [PlainItems(item[row] for there, item in items if there[row]) for row in range(rows)]
    if isinstance(value, tuple | list | Array):
        columns = [_per_row(each, rows) for each in value]
        return [[column[row] for column in columns] for row in range(rows)]
    return [NO_VALUE if isinstance(value, NoValue) else value] * rows


def _by_kernel(expression: str) -> list[Any]:
    """What `expression` gives inside an action, or the refusal as the author sees it."""
    found: list[Any] = [NOT_REACHED] * ROWS
    name = "<expression>"
    text = f"def work(s):\n    keep(s, {expression})\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)

    def keep(s: Any, value: Any) -> None:
        """Called once for each path through the expression, with the rows that take it."""
        rows = s.frame.numbers()
        for row, each in zip(rows.tolist(), _per_row(value, len(rows)), strict=True):
            assert found[row] is NOT_REACHED
            found[row] = each

    scope: dict[str, Any] = {"keep": keep, **WORDS}
    exec(compile(text, name, "exec"), scope)
    MODEL._run(STATES, Label(0, "work", ()), scope["work"], {})
    return found


def _by_python(expression: str) -> "list[Any] | Exception":
    found = []
    for state in PLAIN:
        try:
            value = eval(expression, {"s": state, **PLAIN_WORDS})
            found.append(_settled(value))
        except Exception as error:  # noqa: BLE001  # whatever plain Python objects to
            return error
    return found


def _settled(value: Any) -> Any:
    if isinstance(value, PlainItems):
        return value
    if isinstance(value, list | tuple):
        return [_settled(each) for each in value]
    return NO_VALUE if isinstance(value, Opaque) else value


def _third_outcomes(expressions: list[str]) -> list[str]:
    """The expressions that are answered with something else than plain Python says, or refused badly."""
    error = []
    for expression in expressions:
        try:
            answered = _by_kernel(expression)
        except ModellingMistake as refused:
            if not _is_clear(str(refused), expression):
                error.append(f"{expression}: refused with {refused}")
            continue
        except Exception as raw:  # noqa: BLE001  # what must not come out of a machine
            error.append(f"{expression}: {type(raw).__name__}: {raw}")
            continue
        meant = _by_python(expression)
        if isinstance(meant, Exception) or not all(_same(a, m) for a, m in zip(answered, meant, strict=True)):
            error.append(f"{expression}: answered {answered}, Python says {meant!r}")
    return error


def _same(answered: Any, meant: Any) -> bool:
    try:
        return bool(answered == meant)
    except TypeError:
        return False


def _is_clear(message: str, expression: str) -> bool:
    """One sentence that names the action, the file, the line, and with the line's text the fields."""
    return (
        re.match(r"in work\(\) \(<expression>:2: `keep\(s, ", message) is not None
        and expression in message
        and " object at 0x" not in message
        and "\n" not in message
    )


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("thing", THINGS)
def test_every_operation_agrees_with_python_or_is_an_error(thing: str) -> None:
    single = [form.format(x=thing) for form in SINGLE]
    pairs = [f"{thing} {sign} {other}" for sign, other in itertools.product(SIGNS, CONSTANTS + SECOND)]
    swapped = [f"{constant} {sign} {thing}" for sign, constant in itertools.product(SIGNS, CONSTANTS)]
    error = _third_outcomes(single + pairs + swapped)
    assert not error, f"{len(error)} of {len(single + pairs + swapped)}:\n" + "\n".join(error[:20])
