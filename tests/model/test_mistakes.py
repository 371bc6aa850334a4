"""The messages for mistakes in a model. The text is the product here, so the text is tested."""

from typing import Any

import numpy as np
import pytest

from fencepost.model import *
from fencepost.model.kernel.language import paths
from fencepost.model.textbook.two_phase import TwoPhase

HERE = "test_mistakes.py"


class Base(Machine):
    """A machine with one of everything, for incorrect actions and properties."""

    slots = Size(3, most=8)
    count = Int(0, 4)
    phase = Enum("init", "done")
    other = Enum("up", "down")
    flag = Bool()
    place = Each(slots, Int(0, 3))
    readers = Flags(slots)
    marks = Flags("r", "w")
    queue = Seq(2, Int(0, 3))

    @action
    def stay(s) -> None: ...


def message_of(work: Any, kind: Any = action) -> str:
    """The error message for the author of an action (or a property)."""
    with pytest.raises(ModellingMistake) as error:
        check(type("Invalid", (Base,), {"work": kind(work)}))
    return str(error.value)


def test_an_overflow_names_the_action_the_field_the_value_and_the_state() -> None:
    class Overflowing(Machine):
        count = Int(0, 2)
        flag = Bool()

        @action(by=(1, 2))
        def add(s, by: int) -> None:
            s.require(s.count < 2)
            s.count = s.count + by

        @action
        def flip(s) -> None:
            s.flag = ~s.flag

    with pytest.raises(FieldOverflow) as error:
        check(Overflowing)
    assert str(error.value) == (
        "add(by=2) takes `count` to 3, outside 0..2, from state {'count': 1, 'flag': False}; "
        "narrow its guard or widen `count`"
    )
    assert error.value.action == "add(by=2)"
    assert error.value.field == "count"
    assert error.value.state == {"count": 1, "flag": False}


def test_the_overflow_of_an_action_without_a_guard_suggests_one() -> None:
    class Ticking(Machine):
        tick = Int(0, 3)

        @action
        def forever(s) -> None:
            s.tick = s.tick + 1

    with pytest.raises(FieldOverflow) as error:
        check(Ticking)
    assert str(error.value) == (
        "forever() takes `tick` to 4, outside 0..3, from state {'tick': 3}; the action has no guard, so "
        "nothing ever stops it: begin it with s.require(...), or widen `tick`"
    )


def test_an_underflow_and_a_constant_out_of_range_are_overflows() -> None:
    class Under(Machine):
        count = Int(-1, 2)

        @action
        def down(s) -> None:
            s.count = s.count - 1

    with pytest.raises(FieldOverflow, match=r"to -2, outside -1\.\.2, from state \{'count': -1\}"):
        check(Under)
    message = message_of(lambda s: setattr(s, "count", 9))
    assert message.startswith("work() takes `count` to 9, outside 0..4, from state {'count': 0")


def test_appending_to_a_full_sequence_and_popping_from_an_empty_one_are_errors() -> None:
    def fill(s: Any) -> None:
        s.queue.append(1)

    message = message_of(fill)
    assert "work() takes `queue` beyond its 2 places, from state" in message
    assert "the action has no guard" in message
    message = message_of(lambda s: s.queue.pop_first() and None)
    assert message.startswith(f"in work() ({HERE}:")
    assert "pops from `queue`, which is empty in state {" in message
    assert message.endswith("write s.require(~s.queue.is_empty()) before")


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda s: s.require(s.phase == "dnoe"), "'dnoe' is not one of init, done (did you mean 'done'?)"),
        (lambda s: s.require(s.phase != "x"), "'x' is not one of init, done"),
        (lambda s: setattr(s, "phase", "x"), "work() assigns to `phase`: 'x' is not one of init, done"),
        (lambda s: setattr(s, "phase", s.other), "work() assigns to `phase`: 'up' is not one of init, done"),
        (lambda s: s.require(s.phase == s.other), "two enums with different names are compared"),
        (lambda s: s.require(s.phase), "s.require takes conditions, not a name column: compare it first"),
        (lambda s: s.require(s.count), "s.require takes conditions, not a number column: compare it first"),
        (lambda s: s.require(s.count == "one"), "a number column is compared with 'one' by =="),
        (lambda s: s.require(s.count < s.flag), "a number column is compared with"),
        (lambda s: s.require(s.flag & s.count), "& joins truth values, and a number column is none"),
        (lambda s: s.require(s.flag & 1), "& joins truth values, and 1 is none"),
        (lambda s: s.require((s.count + "x") == 1), "+ works on numbers, and 'x' is none"),
        (lambda s: setattr(s, "count", s.count // 0), "divide a column by a positive whole number, not by 0"),
        (lambda s: setattr(s, "count", s.flag), "assigns a truth column to `count`, which holds 0..4"),
        (lambda s: setattr(s, "count", s.flag & True), "assigns a truth column to `count`"),
        (lambda s: setattr(s, "flag", 1), "work() assigns to `flag`: 1 is neither True nor False"),
        (lambda s: setattr(s, "count", True), "work() assigns to `count`: True is not a whole number"),
        (lambda s: s.require(s.marks.has("x")), "'x' is not a member of {r, w}"),
        (lambda s: s.require(s.readers.has(3)), "3 is not a member of {0, 1, 2}"),
        (lambda s: s.require(s.marks.has(s.count)), "the members are names"),
        (lambda s: s.require((s.marks | s.readers).is_empty()), "two sets have different domains"),
        (lambda s: setattr(s, "readers", 1), "work() assigns to `readers`: 1 is not a set; write {1}"),
        (lambda s: setattr(s, "place", 1), "`place` is an array: assign to `place[i]`, or 3 values at once"),
        (lambda s: s.require(s.place == 0), "`place` is an array: compare it with 3 values, or with another"),
        (lambda s: s.require(s.place != (0, 1)), "`place` is an array: compare it with 3 values, or with"),
        (lambda s: s.require(s.place == s.queue), "`place` is an array: compare it with 3 values, or with"),
        (lambda s: s.require(s.place[3] == 0), "work() accesses `place[3]`; its elements are 0..2"),
        (lambda s: s.require(s.place[-1] == 0), "work() accesses `place[-1]`; its elements are 0..2"),
        (lambda s: s.require(s.place["a"] == 0), "`place` is indexed by numbers 0..2, not by 'a'"),
        (lambda s: s.require(s.queue[2] == 0), "work() accesses `queue[2]`; its places are 0..1"),
        (lambda s: s.require(s.queue == 1), "`queue` is a sequence: compare it with a tuple"),
        (lambda s: setattr(s, "queue", 1), "`queue` is a sequence: assign a tuple or another sequence"),
        (lambda s: setattr(s, "slots", 1), "`slots` is a size: it is given at check time"),
        (lambda s: s.require(pick(s.flag, s.phase, s.other) == "up"), "pick is between one of init, done"),
        (lambda s: s.require(pick(s.flag, s.phase, "typo") == "init"), "'typo' is not one of init, done"),
        (
            lambda s: s.require(case((s.flag, s.phase), otherwise="typo") == "init"),
            "'typo' is not one of init",
        ),
        (lambda s: case(otherwise=1), "case needs at least one (condition, value)"),
        (lambda s: case((s.flag, 1), s.flag, otherwise=1), "branch 2 of case must be a pair"),
        (lambda s: s.require(implies(s.flag, s.count)), "implies joins truth values, and a number column"),
        (lambda s: s.require(all_of([s.flag, s.count])), "& joins truth values, and a number column is none"),
        (
            lambda s: s.require(count_of([s.count]) > 0),
            "count_of joins truth values, and a number column is none",
        ),
    ],
)
def test_the_message_for_a_misused_field_suggests_the_correct_use(work: Any, expected: str) -> None:
    assert expected in message_of(work).replace(f'"{expected}', "")


def test_the_place_in_the_modellers_text_is_named() -> None:
    def work(s: Any) -> None:
        s.require(s.phase == "nowhere")

    line = work.__code__.co_firstlineno + 1
    text = 's.require(s.phase == "nowhere")'
    assert message_of(work).startswith(
        f"in work() ({HERE}:{line}: `{text}`): 'nowhere' is not one of init, done"
    )
    assert message_of(lambda s: s.phase == "nowhere", invariant).startswith(f"in property `work` ({HERE}:")


def loops_forever(s: Any) -> None:
    while s.count < 3:
        s.flag = True


def converts_to_a_number(s: Any) -> None:
    s.count = int(s.count)


def decides_by_a_number(s: Any) -> None:
    if s.count:
        s.flag = True


def decides_by_a_name(s: Any) -> None:
    if s.phase:
        s.flag = True


def decides_by_a_sequence(s: Any) -> None:
    s.flag = not s.queue


def decides_by_an_array(s: Any) -> None:
    s.flag = not s.place


def looks_for_a_member(s: Any) -> None:
    s.require("r" in s.marks)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (loops_forever, "decides more than 1,024 conditions on one path: a loop on a column must end"),
        (converts_to_a_number, "Python cannot do this (TypeError: int()"),
        (
            decides_by_a_number,
            "a number column is neither true nor false: compare it first, as in s.count > 0",
        ),
        (decides_by_a_name, "a name column is neither true nor false: compare it first"),
        (
            decides_by_a_sequence,
            "`queue` is neither true nor false: compare it first, as in s.count > 0 or s.queue",
        ),
        (decides_by_an_array, "`place` is neither true nor false: compare it first"),
        (looks_for_a_member, "for `in` write .is_in(...) or .has(...)"),
    ],
)
def test_what_python_cannot_decide_is_refused_with_the_alternative(work: Any, expected: str) -> None:
    assert expected in message_of(work)


def test_an_action_with_too_many_paths_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is one of time: each `if` may double the paths."""
    monkeypatch.setattr(paths, "MOST_PATHS", 3)

    class Doubling(Machine):
        flags = Each(3, Bool())

        @initial
        def begin(s) -> None:
            s.flags = anything()

        @action
        def work(s) -> None:
            for i in range(3):
                if s.flags[i]:
                    s.flags[i] = False

    with pytest.raises(ModellingMistake, match=r"work\(\) has more than 3 paths: every `if` on a column may"):
        check(Doubling)


def test_a_branch_on_a_declaration_is_refused() -> None:
    """In the body of a class there is no state, so there is nothing to decide."""
    for declared in (Bool(), Int(0, 3), Each(2, Bool()), Size(3), Size(3) + 1):
        with pytest.raises(
            ModellingMistake, match="is a declaration: it has a value in an action or a property"
        ):
            bool(declared)


def test_a_branch_on_a_column_of_an_earlier_call_is_refused() -> None:
    kept: list[Any] = []

    class Keeping(Machine):
        flag = Bool()

        @action
        def work(s) -> None:
            kept.append(s.flag)
            s.flag = ~s.flag

    check(Keeping)
    with pytest.raises(ModellingMistake, match=r"was read from `s` in an earlier call"):
        bool(kept[0])


def test_a_chained_comparison_of_joined_truths_is_refused() -> None:
    """`a == b & c == d` is `a == (b & c)` and `(b & c) == d` to Python, which nobody means."""

    def work(s: Any) -> None:
        s.require(s.flag == s.flag & s.flag == s.flag)

    line = work.__code__.co_firstlineno + 1
    with pytest.raises(ModellingMistake) as error:
        type("Invalid", (Base,), {"work": work})
    assert str(error.value) == (
        f"in work ({HERE}:{line}): & and | bind tighter than ==, so `a == b & c == d` compares b & c: "
        "write (a == b) & (c == d)"
    )


def test_an_index_column_out_of_range_names_the_state() -> None:
    class Reaching(Machine):
        place = Each(3, Bool())
        at = Int(0, 5)

        @action
        def go(s) -> None:
            s.at = (s.at + 2) % 6

        @action
        def mark(s) -> None:
            s.place[s.at] = True

    with pytest.raises(ModellingMistake) as error:
        check(Reaching)
    assert "mark() accesses `place[4]` in state {'place': (True, False, False), 'at': 4}" in str(
        error.value
    ) or "mark() accesses `place[4]` in state {'place': (False, False, False), 'at': 4}" in str(error.value)
    assert str(error.value).endswith("narrow the rows with s.require(...) before indexing")


def test_a_property_must_return_a_column() -> None:
    assert message_of(lambda s: None, invariant) == (
        "property `work` returns None, not a column of truth values: is a `return` missing? "
        "return a comparison of fields, joined with &, | and ~"
    )
    assert "returns True, not a column" in message_of(lambda s: True, invariant)
    assert "property `work` returns a number column, not" in message_of(lambda s: s.count, invariant)
    assert "a property only reads" in message_of(lambda s: setattr(s, "count", 1), invariant)
    assert "a property only reads" in message_of(lambda before, after: after.require(True), step)


def test_an_action_returns_nothing() -> None:
    assert "work() returns a truth column; an action returns nothing" in message_of(lambda s: s.flag)


def test_an_unknown_field_is_an_error_that_lists_the_fields() -> None:
    fields = "the fields are count, phase, other, flag, place, readers, marks, queue"
    assert f"`cuont` is not a field (did you mean 'count'?); {fields}" in message_of(
        lambda s: setattr(s, "cuont", 1)
    )
    assert f"`flags` is not part of this machine (did you mean 'flag'?); {fields}" in message_of(
        lambda s: s.require(s.flags)
    )


def test_sizes_are_checked_by_name_and_range() -> None:
    for sizes, expected in [
        ({"managers": 0}, "managers=0 is outside 1..60"),
        ({"managers": 61}, "managers=61 is outside 1..60"),
        ({"managres": 3}, "no size is called 'managres' (did you mean 'managers'?); the sizes are managers"),
        ({"managers": True}, "managers=True is not a whole number; give one in 1..60"),
    ]:
        with pytest.raises(BadSettings) as error:
            Model(TwoPhase, sizes)
        assert str(error.value) == expected


def test_an_unknown_safeguard_is_an_error_that_lists_them() -> None:
    with pytest.raises(BadSettings) as error:
        check(TwoPhase, without=["all-prepare"])
    assert str(error.value) == (
        "two-phase has no safeguard or assumption 'all-prepare' (did you mean 'all-prepared'?); "
        "safeguards: all-prepared, no-abort-once-prepared; assumptions: none"
    )


def test_a_state_too_wide_names_its_widest_fields() -> None:
    with pytest.raises(ModellingMistake) as error:
        Model(type("Huge", (Machine,), {"much": Each(300, Each(300, Bool())), "few": Each(9, Bool())}))
    assert str(error.value) == (
        "a state of 90,009 bits is too wide (at most 65,536); the widest fields are much (90,000 bits), "
        "few (9 bits); give smaller sizes or bounds"
    )


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (lambda: Int(3, 1).kind({}), "Int(3, 1) has no value"),
        (lambda: Int(0, 1 << 63).kind({}), "needs 64 bits, more than 62"),
        (lambda: Enum("a", "a"), "needs names, each of them once"),
        (
            lambda: Flags(63).kind({}),
            "declare it as Set(Id(size)) or Each(size, Bool()), which may span words",
        ),
        (lambda: Seq(3, Each(2, Bool())), "the items of a Seq are Bool, Int, Id, Enum, Flags or Record"),  # type: ignore[arg-type]  # the mistake
        (lambda: Size(9, most=3), "a size with default 9 must allow it: 1..3 does not"),
        (lambda: type("Taken", (Machine,), {"require": Bool()}), "`require` is part of every machine"),
        (lambda: Model(type("Empty", (Machine,), {})), "Empty has no fields"),
        (lambda: Model(type("Still", (Machine,), {"f": Bool()})), "Still has no actions"),
        (lambda: action(invariant(lambda s: s)), "has two decorators of a machine"),
        (
            lambda: Each("slotz", Bool()).first({"slots": 3}),
            "no size is called 'slotz' (did you mean 'slots'?)",
        ),
        (
            lambda: Model(type("Unfair", (Base,), {"p": eventually(fair=["sty"])(lambda s: s.flag)})),
            "property `p` is fair to 'sty', which is no action (did you mean 'stay'?); the actions are stay",
        ),
        (
            lambda: Model(type("Late", (Base,), {"count": Int(0, 4, start=5)})).initial(),
            "`count`: 5 is outside 0..4",
        ),
        (
            lambda: check(type("Never", (Base,), {"begin": initial(lambda s: s.require(s.flag))})),
            "Never has no initial state: every @initial requires more",
        ),
    ],
)
def test_an_invalid_declaration_is_an_error_of_its_class(declare: Any, expected: str) -> None:
    with pytest.raises(ModellingMistake) as error:
        declare()
    assert expected in str(error.value)


def test_packing_an_incomplete_state_names_the_missing_fields() -> None:
    model = Model(TwoPhase)
    with pytest.raises(ModellingMistake, match=r"missing fields .*decision.*, unknown fields decided"):
        model.pack({"decided": True})
    values = model.unpack(model.initial()[:, 0])
    with pytest.raises(ModellingMistake, match="`manager`: 'ill' is not one of"):
        model.pack({**values, "manager": ("ill",) * 3})
    with pytest.raises(ModellingMistake, match="`manager` has 3 elements, not 2"):
        model.pack({**values, "manager": ("working",) * 2})


def test_a_column_is_not_hashed_and_a_constant_one_is_its_value() -> None:
    column = Truth.constant(True)
    with pytest.raises(TypeError):
        hash(column)
    assert bool(column)
    assert not bool(~column)
    assert np.asarray(column.codes()).all()


def test_the_stepper_rejects_a_label_that_is_not_enabled() -> None:
    stepper = Stepper(Model(TwoPhase, {"managers": 1}))
    state = stepper.initial()[0]
    with pytest.raises(BadSettings, match=r"commit\(\) is not enabled in manager: \[working\]"):
        stepper.step(state, stepper.label("commit()"))
    with pytest.raises(
        BadSettings, match=r"no label is 'prepare\(m=1\)' \(did you mean 'prepare\(m=0\)'\?\)"
    ):
        stepper.label("prepare(m=1)")


# Declarations.


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (
            lambda: action(c=2)(_go),
            "no parameter `c`, to which its decorator gives a domain: its parameters are w",
        ),
        (lambda: action(_go), "`_go` takes w, and its decorator gives no domain for it: write @...(w=...)"),
        (lambda: invariant(w=2, v=2)(_go), "`_go` has no parameter `v`"),
        (
            lambda: eventually(_go),
            "`_go`: write @eventually(fair=(...)) with the actions",
        ),
        (lambda: leads_to(_go), "`_go`: write @leads_to(fair=(...))"),
        (lambda: infinitely_often(strong="go"), "strong='go' must be a tuple of names: write strong=('go',)"),
        (
            lambda: type("Both", (Machine,), {"safeguards": {"x": ""}, "assumptions": {"x": ""}}),
            "'x' is both a safeguard and an assumption",
        ),
    ],
)
def test_the_decorator_of_a_method_fits_it(declare: Any, expected: str) -> None:
    with pytest.raises(ModellingMistake) as error:
        declare()
    assert expected in str(error.value)


def _go(s: Any, w: int) -> None: ...


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda s: None, "is a `return` missing?"),
        (lambda s: s.count == 1 & s.count == 2, "compares b & c: write (a == b) & (c == d)"),
        (lambda s: s.flag & s.count, "& and | bind tighter than ==, so write (a == 1) & (b == 2)"),
        (lambda s: s.flag & s.count == 2, "& and | bind tighter than =="),
        (lambda s: ~s.count == 2, "~ negates truth values, and a number column is none"),
        (lambda s: ~s.count == 2, "~ binds tighter than ==, so write ~(a == 1)"),
        (
            lambda s: s.flag & (lambda: None)(),
            "& joins truth values, and None is none: is a `return` missing?",
        ),
        (lambda s: least([]) == 1, "least of nothing"),
        (lambda s: most([s.flag]) == 1, "most is of numbers, and a truth column is none"),
    ],
)
def test_a_mistake_in_an_expression_names_what_to_write(work: Any, expected: str) -> None:
    assert expected in message_of(work, invariant).replace(f'"{expected}', "")


def test_a_leads_to_returns_two_conditions() -> None:
    assert "a leads_to returns two conditions" in message_of(lambda s: s.flag, leads_to())


def test_a_forgotten_return_is_named_wherever_a_condition_is_wanted() -> None:
    missing = "returns None, not a column of truth values: is a `return` missing?"
    assert f"property `work` {missing}" in message_of(lambda s, n: None, invariant(n=2))
    assert f"property `work` {missing}" in message_of(lambda s, n: None, reachable(n=2))
    assert f"property `work` {missing}" in message_of(lambda before, after, n: None, step(n=2))
    assert "returns a number column, not" in message_of(lambda s, n: s.count, invariant(n=2))
    assert "is a `return` missing?" in message_of(lambda s: None, leads_to())
    assert "is a `return` missing?" in message_of(lambda s: None, refines(Base))
    assert "s.require takes conditions, not None: is a `return` missing?" in message_of(
        lambda s: s.require((lambda: None)())
    )


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        ({"require": action(lambda s: None)}, "`require` is part of every machine; give yours another name"),
        ({"can": invariant(lambda s: s.flag)}, "`can` is part of every machine"),
        ({"frame": action(lambda s: None)}, "`frame` is part of every machine"),
        ({"safeguards": Bool()}, "`safeguards` is part of every machine"),
        (
            {"stay": invariant(lambda s: s.flag)},
            "`stay` is an action of Base; give the property another name",
        ),
        ({"stay": lambda s: None}, "`stay` is an action of Base: write its decorator above it"),
        ({"flag": action(lambda s: None)}, "`flag` is a field of Base; give yours another name"),
        ({"slots": Bool()}, "`slots` is a size of Base; give yours another name"),
    ],
)
def test_names_that_collide_are_refused(declare: dict[str, Any], expected: str) -> None:
    """Python would let the second hide the first: a guard, or an action, would be gone without a word."""
    with pytest.raises(ModellingMistake) as error:
        type("Colliding", (Base,), declare)
    assert expected in str(error.value)


def test_a_second_declaration_in_one_class_is_refused() -> None:
    with pytest.raises(ModellingMistake, match="`go` is declared twice in one machine"):

        class Twice(Machine):
            flag = Bool()

            @action
            def go(s) -> None: ...

            @action  # type: ignore[no-redef]  # the mistake
            def go(s) -> None: ...  # noqa: F811  # the mistake


def test_an_inherited_action_or_property_can_be_declared_anew_or_taken_away() -> None:
    class Other(Base):
        @action
        def stay(s) -> None:
            s.flag = True

    assert check(Other, deadlock=False).distinct == 2
    assert Model(type("Less", (Other,), {"stay": None, "go": action(lambda s: None)})).actions == ("go",)


def test_a_function_without_rows_is_refused() -> None:
    for declare, wanted in (
        (lambda: action(lambda: None), "its first parameter is the states: write def ...(s)"),
        (lambda: step(lambda before: None), "a step takes the rows before and after"),
    ):
        with pytest.raises(ModellingMistake) as error:
            declare()
        assert wanted in str(error.value)


def test_parameters_are_printed_as_in_the_counterexample() -> None:
    class Sends(Machine):
        sent = Set(Record(to=Id(2), kind_of=Enum("ask", "tell")))
        count = Int(0, 1)

        @initial
        def begin(s) -> None:
            s.sent.add(to=1, kind_of="tell")

        @action(m=sent, who=("ann", "bob"), some=Subsets(2, least=2))
        def hear(s, m: Any, who: str, some: frozenset[int]) -> None:
            s.count += 1

    label = "hear(m=(to: 1, kind_of: tell), who=ann, some={0, 1})"
    with pytest.raises(FieldOverflow) as error:
        check(Sends, deadlock=False)
    assert str(error.value).startswith(label)
    less = type("Less", (Sends,), {"never": invariant(lambda s: s.count == 0)})
    found = check(less)["never"].counterexample
    assert found is not None
    assert found.lines()[1].startswith(f"1. {label}  count: 0 -> 1")


def test_a_tuple_of_joined_conditions_is_no_chained_comparison() -> None:
    """Both begin with the same instruction after `&`: the check must not refuse an assignment."""

    class Pairs(Machine):
        one, two = Bool(), Bool()

        @action
        def work(s):
            s.one, s.two = s.one, s.two & ~s.one

        @may_end
        def done(s):
            return s.one

    assert check(Pairs).verdict == "holds"
