"""A role is a grouping: what it says is what parallel arrays say, bit for bit."""

import inspect
from typing import Any

import numpy as np
import pytest

from fencepost import model
from fencepost.model import *
from fencepost.model.kernel.compiled import build
from fencepost.model.kernel.report.counterexample import changed
from fencepost.model.store import Budget, Key, Late, restart

TABLES = ("nodes", "edges")


class Grouped(Machine):
    """Writers that take a number each, with a crash."""

    writers = Size(2, most=4)
    most = Size(3)
    safeguards = {"wait": "a writer takes a number only after the others have ended"}
    symmetric = ("writers",)
    newest = Int(0, most)
    writer = Role(
        writers,
        at=Enum("new", "works", "over"),
        took=Int(0, most),
        base=Each(TABLES, Int(0, most)),
        after=Id(writers, nobody=True),
    )

    def is_free(s, w: int) -> Truth:
        return ~s.writer.any(at="works") & (s.writer[w].took == 0)

    @without("wait", replaces=is_free)
    def is_new(s, w: int) -> Truth:
        return s.writer[w].took == 0

    @action(w=among(writer, at=("new", "over")))
    def take(s, w: int) -> None:
        me = s.writer[w]
        s.require(s.is_free(w), s.newest < s.most)
        s.newest += 1
        me.at = "works"
        me.took = s.newest
        me.base["nodes"] = s.newest

    @action(w=among(writer, at="works"), other=writer)
    def end(s, w: int, other: int) -> None:
        me = s.writer[w]
        s.require(w != other)
        if s.writer[other].took < me.took:
            me.after = other
        me.at = "over"

    @action(w=writer)
    def crash(s, w: int) -> None:
        s.require(s.writer[w].at == "works")
        restart(s.writer[w], "at", "base")

    @invariant
    def one_works(s) -> Truth:
        return s.writer.count(at="works") <= 1

    @invariant(w=writer)
    def took_first(s, w: int) -> Truth:
        me = s.writer[w]
        return implies(me.at == "works", (me.took > 0) & (me.base["nodes"] == me.took))

    @reachable
    def all_over(s) -> Truth:
        return s.writer.all(lambda me: (me.at == "over") & (me.took > 0))

    @may_end
    def ended(s) -> Truth:
        return ~s.writer.any(at="works")


class Parallel(Machine):
    """The same with an array for each field."""

    writers = Size(2, most=4)
    most = Size(3)
    safeguards = {"wait": "a writer takes a number only after the others have ended"}
    symmetric = ("writers",)
    newest = Int(0, most)
    at = Each(writers, Enum("new", "works", "over"))
    took = Each(writers, Int(0, most))
    base = Each(writers, Each(TABLES, Int(0, most)))
    after = Each(writers, Id(writers, nobody=True))

    def is_free(s, w: int) -> Truth:
        return ~s.at.any("works") & (s.took[w] == 0)

    @without("wait", replaces=is_free)
    def is_new(s, w: int) -> Truth:
        return s.took[w] == 0

    @action(w=among(writers, at=("new", "over")))
    def take(s, w: int) -> None:
        s.require(s.is_free(w), s.newest < s.most)
        s.newest += 1
        s.at[w] = "works"
        s.took[w] = s.newest
        s.base[w]["nodes"] = s.newest

    @action(w=among(writers, at="works"), other=writers)
    def end(s, w: int, other: int) -> None:
        s.require(w != other)
        s.after[w] = pick(s.took[other] < s.took[w], other, s.after[w])
        s.at[w] = "over"

    @action(w=writers)
    def crash(s, w: int) -> None:
        s.require(s.at[w] == "works")
        restart(s, w, "at", "base")

    @invariant
    def one_works(s) -> Truth:
        return s.at.count("works") <= 1

    @may_end
    def ended(s) -> Truth:
        return ~s.at.any("works")


def test_a_role_is_packed_as_parallel_arrays_are() -> None:
    for writers in (1, 2, 4):
        one, other = (Model(machine, {"writers": writers}) for machine in (Grouped, Parallel))
        assert one.layout.bits == other.layout.bits
        assert [
            (name.removeprefix("writer."), slot.shape, slot.word, slot.shift)
            for name, slot in one.layout.slots.items()
        ] == [(name, slot.shape, slot.word, slot.shift) for name, slot in other.layout.slots.items()]


@pytest.mark.parametrize("without", [(), ("wait",)])
@pytest.mark.parametrize("options", [{}, {"symmetry": True}, {"compiled": True}])
def test_a_role_has_the_states_of_parallel_arrays(without: tuple[str, ...], options: dict[str, bool]) -> None:
    if options.get("compiled") and not build.has_compiler():
        pytest.skip("there is no C compiler")
    one, other = (
        check(machine, {"writers": 3}, without=without, keep_going=True, **options)
        for machine in (Grouped, Parallel)
    )
    assert (one.distinct, one.generated, one.coverage) == (other.distinct, other.generated, other.coverage)
    assert one["one_works"].verdict == other["one_works"].verdict == ("violated" if without else "holds")
    assert not [note for note in one.notes if "NumPy" in note]
    assert one["took_first"].verdict == "holds"
    assert one["all_over"].verdict == ("holds" if without or options != {} else one["all_over"].verdict)


def test_the_graphs_are_the_same_state_by_state() -> None:
    one, other = (reachable_graph(Model(machine), workers=1) for machine in (Grouped, Parallel))
    for part in ("states", "sources", "targets", "labels"):
        assert np.array_equal(getattr(one, part), getattr(other, part)), part


def test_a_counterexample_names_the_member_and_the_field() -> None:
    result = check(Grouped, without=["wait"])
    found = result["one_works"].counterexample
    assert found is not None
    assert found.lines() == [
        "0. start  newest: 0, writer: [(at: new, took: 0, base: [0, 0], after: -1), "
        "(at: new, took: 0, base: [0, 0], after: -1)]",
        "1. take(w=1)  newest: 0 -> 1, writer[1].at: new -> works, writer[1].took: 0 -> 1, "
        "writer[1].base[nodes]: 0 -> 1",
        "2. take(w=0)  newest: 1 -> 2, writer[0].at: new -> works, writer[0].took: 0 -> 2, "
        "writer[0].base[nodes]: 0 -> 2",
    ]
    trace = found.trace()
    assert trace[0].state["writer"][0] == {"at": "new", "took": 0, "base": [0, 0], "after": -1}
    assert trace[1].changes["writer[1].at"] == ["new", "works"]


def test_a_state_is_packed_and_unpacked() -> None:
    stepper = Stepper(Model(Grouped))
    start = stepper.initial()[0]
    after = stepper.step(start, stepper.label("take(w=1)"))
    assert after.values["writer"][1].base == (1, 0)
    assert after.values["writer"][1]["at"] == "works"
    assert stepper.state(after.values) == after
    assert hash(after.values["writer"])
    assert set(changed(stepper.model, start.packed, after.packed)) == {
        "newest",
        "writer[1].at",
        "writer[1].took",
        "writer[1].base[nodes]",
    }


def test_a_member_is_chosen_by_a_column() -> None:
    class Chosen(Machine):
        turn = Id(3)
        one = Role(3, seen=Int(0, 1), at=Each(2, Bool()))

        @action
        def look(s) -> None:
            me = s.one[s.turn]
            s.require(me.seen == 0)
            me.seen += 1
            me.at[1] = True
            s.turn = (s.turn + 1) % 3

        @may_end
        def ended(s) -> Truth:
            return s.one.all(seen=1)

        @invariant
        def both(s) -> Truth:
            return all_of((each.seen == 1) == each.at[1] for each in s.one)

    result = check(Chosen)
    assert (result.verdict, result.distinct) == ("holds", 4)


def test_roles_by_name_whole_members_and_store_pieces() -> None:
    class Named(Machine):
        lock = Key(owner=Id(2))
        faults = Budget(1)
        side = Role(("left", "right"), at=Enum("idle", "holds"), late=Late(lock), n=Int(0, 2, start=1))

        @action(side=("left", "right"), answer=("done", "late"))
        def take(s, side: str, answer: str) -> None:
            me = s.side[side]
            s.require(me.at == "idle", me.late.is_free)
            s.faults.spend(answer)
            me.at = s.lock.create(answer, owner=0, late=me.late).to(done="holds", unknown="idle")
            me.n = 2

        @action(side=("left", "right"))
        def lands(s, side: str) -> None:
            s.side[side].late.land()

        @action
        def copy(s) -> None:
            s.require(s.side["left"].at == "holds")
            s.side["right"] = s.side["left"]

        @action
        def again(s) -> None:
            s.require(s.side.all(at="holds"))
            restart(s.side["left"])
            s.side["right"] = {"at": "idle", "late": s.side["left"].late, "n": 0}

    del Named.copy, Named.again  # a late request is not copied
    result = check(Named, deadlock=False)
    assert result.verdict == "holds"
    assert all(result.coverage.values())  # late requests of both sides land, too
    first = Model(Named).unpack(Model(Named).initial()[:, 0])
    assert first["side"][0]["n"] == 1


def test_members_are_assigned_as_a_whole_and_begun_anew() -> None:
    class Whole(Machine):
        one = Role(2, at=Enum("a", "b"), n=Each(2, Int(0, 2)))

        @initial
        def begin(s) -> None:
            s.one = anything()
            s.require(s.one[0].at == "b", s.one[0].n[1] == 2, s.one[1].at == "a")

        @action
        def swap(s) -> None:
            s.one = (s.one[1], s.one[0])

        @action
        def clear(s) -> None:
            s.one[0] = {"at": "a", "n": (0, 0)}
            restart(s.one[1])

    model = Model(Whole)
    starts = model.initial()
    assert starts.shape[1] == 3 * 9
    swapped = model.successors(starts, model.labels[0]).states
    for before, after in zip(starts.T, swapped.T, strict=True):
        assert model.unpack(after)["one"] == model.unpack(before)["one"][::-1]
    cleared = model.successors(starts, model.labels[1]).states
    assert {str(model.unpack(state)["one"]) for state in cleared.T} == {
        "({'at': 'a', 'n': (0, 0)}, {'at': 'a', 'n': (0, 0)})"
    }


class Base(Machine):
    writers = Size(2)
    flag = Bool()
    writer = Role(writers, at=Enum("new", "old"), n=Int(0, 2), row=Each(2, Int(0, 1)))

    @action
    def stay(s) -> None: ...


def reads_what_was_replaced(s: Any) -> None:
    row = s.writer[0].row
    s.writer = (s.writer[1], s.writer[0])
    s.require(row[0] == 0)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda s: s.require(s.writer[0].ta == "new"), "`writer` has no field 'ta' (did you mean 'at'?)"),
        (lambda s: setattr(s.writer[0], "sn", 1), "`writer` has no field 'sn'"),
        (lambda s: s.require(s.writer[2].n == 0), "accesses `writer[2]`; its elements are 0..1"),
        (lambda s: setattr(s.writer[0], "n", 3), "takes `writer.n` to 3, outside 0..2"),
        (lambda s: s.require(s.writer == 0), "`writer` is an array: compare it with 2 values"),
        (lambda s: s.require(s.writer[0] == s.writer[1]), "`writer` is a member of a role"),
        (lambda s: s.require(s.writer.any()), "takes values of fields, as in .any(at="),
        (lambda s: s.require(s.writer.any("new")), "takes a function of one item"),
        (lambda s: s.require(s.writer.any(att="new")), "`writer` has no field 'att'"),
        (lambda s: s.require(s.writer.any(at="nwe")), "'nwe' is not one of new, old"),
        (lambda s: setattr(s, "writer", 1), "`writer` is an array: assign to `writer[i]`"),
        (lambda s: s.writer.__setitem__(0, 1), "a member of `writer` is assigned 1: assign its fields"),
        (lambda s: restart(s.writer[0], "att"), "`writer` has no field 'att' (did you mean 'at'?)"),
        (lambda s: s.require(bool(s.writer[0])), "`writer` is neither true nor false"),
        (reads_what_was_replaced, "was read before another value was assigned to it"),
    ],
)
def test_a_misused_role_is_refused(work: Any, expected: str) -> None:
    with pytest.raises(ModellingMistake) as error:
        check(type("Invalid", (Base,), {"work": action(work)}))
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (lambda: Role(2), "a Role needs fields"),
        (lambda: Role(2, at="new"), "the field `at` of a Role is 'new'"),
        (lambda: Role(2, noun=Bool()), "`noun` is part of every member"),
        (lambda: Role(2, _at=Bool()), "`_at` is part of every member"),
        (lambda: among(Role(2, at=Bool())), "among(members) needs an array and a value"),
    ],
)
def test_a_role_that_is_declared_incorrectly_is_refused(declare: Any, expected: str) -> None:
    with pytest.raises(ModellingMistake) as error:
        declare()
    assert expected in str(error.value)


def test_a_field_of_a_role_that_never_changes_is_reported_by_its_name() -> None:
    class Still(Machine):
        one = Role(2, at=Bool(), never=Bool())
        changes_at = {"one.at": {}}

        @action(i=2)
        def flip(s, i: int) -> None:
            s.one[i].at = ~s.one[i].at

    warnings = check(Still).vacuity_warnings
    assert [each for each in warnings if "nothing changes it" in each] == [
        "the same in every reachable state, for nothing changes it: one.never"
    ]


def test_the_guard_of_a_domain_is_named_with_its_field() -> None:
    model = Model(Grouped)
    end = next(label for label in model.labels if label.action == "end")
    refused = model.failed_guard(model.initial(), end)
    assert refused is not None
    assert refused.text == 's.writer[w].at == "works"'


def test_the_examples_of_the_package_do_what_their_comments_say() -> None:
    """The documentation shows them."""
    text = inspect.getdoc(model)
    assert text is not None
    lines = [line.removeprefix("    ") for line in text.splitlines() if line.startswith("    ") or not line]
    printed: list[str] = []
    exec("\n".join(lines), {"print": printed.append})
    expected = [line.split("#")[1].strip() for line in lines if "print(" in line and "#" in line]
    assert [printed[0], *printed[2:]] == [expected[0], *expected[2:]] == ["violated", "holds", "violated"]
    assert printed[1].startswith("0. start  lamp: [off, off]")
