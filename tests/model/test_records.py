"""Records, bags, sets and channels: random machines against plain Python, and what is refused."""

import random
from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from fencepost.model import *
from fencepost.model.kernel import Explorer, Reduced
from fencepost.model.kernel.language.fairness import demands

NODES = 3
Plain = dict[str, Any]
"""`net` a sorted tuple, `got` a frozenset, `queue` a tuple, `last` an item; an item is (kind, src, to, v)."""

KINDS = ("ask", "tell")


def item(kind: str, src: int, to: frozenset[int], v: int) -> tuple[str, int, frozenset[int], int]:
    return kind, src, to, v


def parts(of: tuple[str, int, frozenset[int], int]) -> dict[str, Any]:
    return dict(zip(("type", "src", "to", "v"), of, strict=True))


def ordered(net: Any) -> tuple[Any, ...]:
    return tuple(sorted(net, key=lambda m: (m[0], m[1], sorted(m[2]), m[3])))


def message() -> Record:
    return Record(type=Enum(*KINDS), src=Id("nodes"), to=Flags("nodes"), v=Int(0, 2))


class Base(Machine):
    """The fields that random machines work on; the inboxes make it several words wide."""

    nodes = Size(NODES)
    symmetric = ("nodes",)
    net = Bag(2, message())
    got = Set(Record(type=Enum(*KINDS), src=Id("nodes"), to=Flags("nodes")))
    queue = Seq(2, message())
    last = message()
    inbox = Each(nodes, Bag(2, Record(src=Id("nodes"), v=Int(0, 1))))


# Each operation twice: for the rows, and for one plain state (a copy, which it changes), False if disabled.


def op_send(kind: str, v: int) -> Any:
    def rows(s: Any, c: int) -> None:
        s.require(~s.net.is_full())
        s.net.send(type=kind, src=c, to={c}, v=v)

    def plain(s: Plain, c: int) -> bool:
        if len(s["net"]) == 2:
            return False
        s["net"] = ordered([*s["net"], item(kind, c, frozenset({c}), v)])
        return True

    return "c", rows, plain


def op_receive(kind: str, plus: int) -> Any:
    def rows(s: Any, m: Any) -> None:
        s.require(m.type == kind)
        s.net.remove(m)
        s.last = m.but(v=(m.v + plus) % 3)

    def plain(s: Plain, m: Any) -> bool:
        if m[0] != kind:
            return False
        rest = list(s["net"])
        rest.remove(m)
        s["net"] = tuple(rest)
        s["last"] = (*m[:3], (m[3] + plus) % 3)
        return True

    return "net", rows, plain


def op_forward() -> Any:
    def rows(s: Any, c: int) -> None:
        s.require(s.net.any(lambda m: (m.src == s.last.src) & (m.v <= s.last.v)))
        s.last = s.last.but(src=c, to=s.last.to.plus(c))

    def plain(s: Plain, c: int) -> bool:
        last = s["last"]
        if not any(m[1] == last[1] and m[3] <= last[3] for m in s["net"]):
            return False
        s["last"] = (last[0], c, last[2] | {c}, last[3])
        return True

    return "c", rows, plain


def op_note(kind: str) -> Any:
    def rows(s: Any, c: int) -> None:
        s.require(~s.got.has(type=kind, src=c))
        s.got.add(type=kind, src=c, to=s.last.to)

    def plain(s: Plain, c: int) -> bool:
        if any(g[0] == kind and g[1] == c for g in s["got"]):
            return False
        s["got"] |= {(kind, c, s["last"][2])}
        return True

    return "c", rows, plain


def op_take() -> Any:
    def rows(s: Any, m: Any) -> None:
        s.require(s.got.count(src=s.last.src) <= 1)
        s.got.remove(m)
        s.last = s.last.but(src=m.src, type=m.type)

    def plain(s: Plain, m: Any) -> bool:
        if sum(g[1] == s["last"][1] for g in s["got"]) > 1:
            return False
        s["got"] -= {m}
        s["last"] = (m[0], m[1], *s["last"][2:])
        return True

    return "got", rows, plain


def op_queue(first: bool) -> Any:
    def rows(s: Any) -> None:
        s.require(~s.queue.is_full(), ~s.queue.has(s.last))
        (s.queue.push_first if first else s.queue.append)(s.last)

    def plain(s: Plain) -> bool:
        if len(s["queue"]) == 2 or s["last"] in s["queue"]:
            return False
        s["queue"] = (s["last"], *s["queue"]) if first else (*s["queue"], s["last"])
        return True

    return "", rows, plain


def op_unqueue() -> Any:
    def rows(s: Any) -> None:
        s.require(s.queue.count(lambda m: m.type == "tell") >= 1)
        s.last = s.queue.pop_first()

    def plain(s: Plain) -> bool:
        if not any(m[0] == "tell" for m in s["queue"]):
            return False
        s["last"], *rest = s["queue"]
        s["queue"] = tuple(rest)
        return True

    return "", rows, plain


def op_inbox() -> Any:
    def rows(s: Any, c: int) -> None:
        box = s.inbox[s.last.src]
        s.require(~box.is_full())
        box.add(src=c, v=s.last.v % 2)

    def plain(s: Plain, c: int) -> bool:
        boxes = list(s["inbox"])
        box = boxes[s["last"][1]]
        if len(box) == 2:
            return False
        boxes[s["last"][1]] = tuple(sorted([*box, (c, s["last"][3] % 2)]))
        s["inbox"] = tuple(boxes)
        return True

    return "c", rows, plain


def op_outbox() -> Any:
    def rows(s: Any, c: int) -> None:
        s.require(s.inbox[c].all(lambda m: m.v == 0), ~s.inbox[c].is_empty())
        s.inbox[c].clear()
        s.last = s.last.but(v=0)

    def plain(s: Plain, c: int) -> bool:
        box = s["inbox"][c]
        if not box or any(v for _, v in box):
            return False
        s["inbox"] = tuple(() if i == c else b for i, b in enumerate(s["inbox"]))
        s["last"] = (*s["last"][:3], 0)
        return True

    return "c", rows, plain


OPERATIONS = [
    lambda draw: op_send(draw.choice(KINDS), draw.randrange(2)),
    lambda draw: op_receive(draw.choice(KINDS), draw.randrange(3)),
    lambda draw: op_forward(),
    lambda draw: op_note(draw.choice(KINDS)),
    lambda draw: op_take(),
    lambda draw: op_queue(draw.random() < 0.5),
    lambda draw: op_unqueue(),
    lambda draw: op_inbox(),
    lambda draw: op_outbox(),
]
MOST = 300


def successors(operations: list[Any], state: Plain) -> list[Plain]:
    found = []
    for takes, _, plain in operations:
        choices: Any = {"": [()], "c": [(c,) for c in range(NODES)]}.get(takes)
        if choices is None:
            choices = [(m,) for m in dict.fromkeys(state[takes])]
        for given in choices:
            after = dict(state)
            if plain(after, *given):
                found.append(after)
    return found


def frozen(state: Plain) -> tuple[Any, ...]:
    return tuple(state.items())


def explored(operations: list[Any]) -> tuple[dict[Any, int], int] | None:
    """Every state with its distance, and how many transitions; None if there are too many."""
    start = {
        "net": (),
        "got": frozenset(),
        "queue": (),
        "last": item("ask", 0, frozenset(), 0),
        "inbox": ((),) * NODES,
    }
    starts = [{**start, "last": item("ask", c, frozenset(), 0)} for c in range(NODES)]
    depth, level, steps = {frozen(s): 0 for s in starts}, starts, 0
    while level:
        reached = []
        for state in level:
            for after in successors(operations, state):
                steps += 1
                if frozen(after) not in depth:
                    depth[frozen(after)] = depth[frozen(state)] + 1
                    reached.append(after)
        level = reached
        if len(depth) > MOST:
            return None
    return depth, steps


def machine(operations: list[Any]) -> type[Machine]:
    from fencepost.model import initial

    def begin(s: Any, c: int) -> None:
        s.last = s.last.but(src=c)

    text: dict[str, Any] = {"begin": initial(c=Base.nodes)(begin)}
    for number, (takes, rows, _) in enumerate(operations):
        rows.__name__ = f"act{number}"
        text[rows.__name__] = {
            "": action,
            "c": action(c=Base.nodes) if takes == "c" else None,
            "net": action(m=Base.net) if takes == "net" else None,
            "got": action(m=Base.got) if takes == "got" else None,
        }[takes](rows)
    return type("RandomMessages", (Base,), text)


def as_plain(values: dict[str, Any]) -> Plain:
    def one(m: Any) -> Any:
        return item(m["type"], m["src"], m["to"], m["v"])

    return {
        "net": ordered(map(one, values["net"])),
        "got": frozenset((g["type"], g["src"], g["to"]) for g in values["got"]),
        "queue": tuple(map(one, values["queue"])),
        "last": one(values["last"]),
        "inbox": tuple(tuple(sorted((m["src"], m["v"]) for m in box)) for box in values["inbox"]),
    }


def renamed(state: Any, order: tuple[int, ...]) -> Any:
    """A plain state with node i called order[i]."""
    values = dict(state)

    def one(m: Any) -> Any:
        return item(m[0], order[m[1]], frozenset(order[i] for i in m[2]), m[3])

    boxes = {order[i]: tuple(sorted((order[c], v) for c, v in box)) for i, box in enumerate(values["inbox"])}
    return (
        ("net", ordered(map(one, values["net"]))),
        ("got", frozenset((k, order[c], frozenset(order[i] for i in to)) for k, c, to in values["got"])),
        ("queue", tuple(map(one, values["queue"]))),
        ("last", one(values["last"])),
        ("inbox", tuple(boxes[i] for i in range(NODES))),
    )


def orbit(state: Any) -> Any:
    return min((renamed(state, order) for order in permutations(range(NODES))), key=_text)


def _text(state: Any) -> str:
    def flat(value: Any) -> Any:
        if isinstance(value, frozenset):
            return sorted(map(flat, value), key=repr)
        return [flat(each) for each in value] if isinstance(value, tuple) else value

    return repr(flat(state))


def states_of(search: Any) -> list[Any]:
    model = search.model
    return [
        frozen(as_plain(model.unpack(level[:, row])))
        for level in search.levels
        for row in range(level.shape[1])
    ]


@pytest.mark.parametrize("seed", range(4))
def test_random_machines_of_messages_do_what_plain_python_does(seed: int) -> None:
    """States, distances, transitions; and with symmetry at least one state of every orbit, and no other."""
    draw = random.Random(seed)
    compared = 0
    while compared < 1:
        operations = [make(draw) for make in draw.sample(OPERATIONS, draw.randint(3, 5))]
        plain = explored(operations)
        if plain is None or len(plain[0]) < 20:
            continue
        compared += 1
        depth, steps = plain
        made = machine(operations)
        search = Explorer(Model(made), deadlocks=False).run()
        assert search.model.words > 1
        assert Counter(states_of(search)) == Counter(depth.keys())
        assert [level.shape[1] for level in search.levels] == [
            count for _, count in sorted(Counter(depth.values()).items())
        ]
        assert search.generated == steps + NODES
        reduced = Reduced(made)
        small = Explorer(reduced, deadlocks=False).run()
        reduced.check_claim(small)
        orbits = {orbit(state) for state in depth}
        assert {orbit(state) for state in states_of(small)} == orbits
        assert len(orbits) <= small.distinct <= search.distinct


def test_renumbering_a_state_is_what_renaming_its_nodes_is() -> None:
    """On any state, reachable or not: records, bags and sets are renamed, and bags stay in order."""
    draw = random.Random(7)
    model = Reduced(machine([op_take()]))
    (permuter,) = model.permuters
    for _ in range(20):

        def message() -> dict[str, Any]:
            kind, src, v = draw.choice(KINDS), draw.randrange(NODES), draw.randrange(3)
            return parts(item(kind, src, frozenset(draw.sample(range(NODES), draw.randrange(3))), v))

        def short() -> dict[str, Any]:
            found = message()
            return {"src": found["src"], "v": found["v"] % 2}

        values = {
            "net": tuple(message() for _ in range(draw.randrange(3))),
            "got": [{k: v for k, v in message().items() if k != "v"} for _ in range(draw.randrange(6))],
            "queue": tuple(message() for _ in range(draw.randrange(3))),
            "last": message(),
            "inbox": tuple(tuple(short() for _ in range(draw.randrange(3))) for _ in range(NODES)),
        }
        state = model.pack(values)
        before = frozen(as_plain(model.unpack(state[:, 0])))
        for order in permutations(range(NODES)):
            after = permuter.renumbered(state, order)
            names = tuple(order.index(i) for i in range(NODES))
            assert frozen(as_plain(model.unpack(after[:, 0]))) == renamed(before, names)
            assert np.array_equal(after, model.pack(model.unpack(after[:, 0])))


def test_quantifiers_over_a_sequence_leave_out_the_places_beyond_its_length() -> None:
    class Queue(Machine):
        queue = Seq(2, Int(0, 1))
        seen = Int(0, 7)

        @action
        def look(s) -> None:
            some, every = s.queue.any(lambda n: n == 0), s.queue.all(lambda n: n == 1)
            s.seen = pick(some, 1, 0) + pick(every, 2, 0) + s.queue.count(lambda n: n < 1)

    model = Model(Queue)
    for queue in ((), (0,), (1,), (0, 0), (1, 0), (1, 1)):
        after = model.successors(model.pack({"queue": queue, "seen": 0}), model.labels[0]).states
        expected = (0 in queue) + 2 * all(n == 1 for n in queue) + queue.count(0)
        assert model.unpack(after[:, 0])["seen"] == expected


def test_a_bag_is_packed_alike_whatever_the_order() -> None:
    """Every order of adding, and of removing, gives the same words."""

    class Any3(Machine):
        net = Bag(3, Int(-1, 4))

        @action(i=(-1, 0, 4))
        def add(s, i: int) -> None:
            s.require(~s.net.is_full())
            s.net.add(i)

        @action(i=(-1, 0, 4))
        def remove(s, i: int) -> None:
            s.require(s.net.has(i))
            s.net.remove(i)

    result = check(Any3)
    assert result.distinct == 1 + 3 + 6 + 10  # multisets of at most three of three


def test_channels_lose_repeat_and_reorder_as_declared() -> None:
    """The contents that can be reached from two messages sent in order."""

    def contents(**kind: bool) -> set[tuple[int, ...]]:
        class Two(Machine):
            wire = Channel(3, Int(0, 2), **kind)
            sent = Int(0, 2)

            @action
            def send(s) -> None:
                s.require(s.sent < 2, ~s.wire.is_full())
                s.wire.send(s.sent + 1)
                s.sent = s.sent + 1

        graph = reachable_graph(Model(Two))
        values = [graph.model.unpack(graph.states[:, i]) for i in range(graph.states.shape[1])]
        return {tuple(v["wire"]) for v in values if v["sent"] == 2}

    assert contents() == {(1, 2)}
    assert contents(lossy=True) == {(1, 2), (1,), (2,), ()}
    assert contents(duplicating=True) == {(1, 2), (1, 1, 2), (1, 2, 2)}
    assert contents(reordering=True) == {(2, 1)}  # as it is packed
    assert contents(reordering=True, lossy=True) == {(2, 1), (1,), (2,), ()}
    assert contents(reordering=True, duplicating=True) == {(2, 1), (2, 1, 1), (2, 2, 1)}


def test_a_queue_is_received_in_order_and_a_bag_in_any() -> None:
    def firsts(**kind: bool) -> set[object]:
        class Two(Machine):
            wire = Channel(2, Int(0, 2), **kind)
            got = Int(0, 2)

            @action
            def send(s) -> None:
                s.require(s.wire.is_empty(), s.got == 0)
                s.wire.send(1)
                s.wire.send(2)

            @action(m=wire)
            def receive(s, m) -> None:
                s.require(s.got == 0)
                s.wire.remove(m)
                s.got = m

        result = check(Two, deadlock=False, keep_going=True)
        assert result.coverage["receive"] == (2 if kind else 1)
        graph = reachable_graph(Model(Two))
        return {graph.model.unpack(graph.states[:, i])["got"] for i in range(graph.states.shape[1])}

    assert firsts() == {0, 1}
    assert firsts(reordering=True) == {0, 1, 2}


def test_an_item_that_is_there_twice_is_one_choice() -> None:
    class Twice(Machine):
        net = Bag(2, Bool())

        @action
        def send(s) -> None:
            s.require(s.net.is_empty())
            s.net.send(True)
            s.net.send(True)

        @action(m=net)
        def receive(s, m) -> None:
            s.net.remove(m)

    result = check(Twice)
    assert (result.distinct, result.coverage["receive"]) == (3, 2)
    trace = reachable_trace(Twice)
    assert trace == "2. receive(m=True)  net: {True, True} -> {True}"


def reachable_trace(base: type[Machine]) -> str:
    class Found(base):  # type: ignore[valid-type, misc]  # the base is a parameter
        @reachable
        def one(s):
            """One is left."""
            return s.net.size() == 1

    found = check(Found)["one"].counterexample
    assert found is not None
    return found.lines()[-1]


def test_fairness_of_receiving_is_one_demand_for_a_bag_and_one_a_message_for_a_set() -> None:
    """A place of a bag names no message, so a demand for each place would demand too much."""

    class Fair(Machine):
        net = Bag(3, Bool())
        seen = Set(Bool())

        @action(m=net)
        def receive(s, m) -> None:
            s.net.remove(m)

        @action(m=seen)
        def forget(s, m) -> None:
            s.seen.remove(m)

        @eventually(fair=("receive", "forget"))
        def quiet(s):
            """All is received."""
            return s.net.is_empty()

    model = Model(Fair)
    assert [d.labels for d in demands(model.properties[0], model.labels)] == [(0, 1, 2), (3,), (4,)]


def test_sets_have_more_than_62_members_and_states_more_than_2048_bits() -> None:
    class Wide(Machine):
        members = Size(100, most=4000)
        there = Set(Id(members))
        more = Each(members, Set(Record(of=Int(0, 2), by=Bool())))

        @action(i=members)
        def add(s, i: int) -> None:
            s.require(s.there.size() < 1)
            s.there.add(i)

        @action(i=(0, 99))
        def note(s, i: int) -> None:
            s.require(s.there.has(i))
            s.more[i].add(of=2, by=True)

        @invariant
        def noted(s):
            """Only what was there is noted."""
            return all_of(~s.more[i].has(of=2) | s.there.has(i) for i in range(s.members))

    result = check(Wide, deadlock=False)
    assert (result.verdict, result.distinct) == ("holds", 1 + 100 + 2)
    assert Model(Wide, {"members": 1000}).words > 100


@pytest.mark.parametrize(
    ("work", "kind", "message"),
    [
        (lambda s: s.net.send(type="ask"), ModellingMistake, "the record has no src"),
        (lambda s: s.net.send(type="ask", src=0, to=1), ModellingMistake, "no part 'to'"),
        (lambda s: s.net.send(type="aks", src=0), ModellingMistake, "did you mean 'ask'"),
        (lambda s: s.net.send(type="ask", src=s.n + 2), FieldOverflow, "takes `net.src` to 2, outside 0..1"),
        (lambda s: [s.net.send(type="ask", src=0) for _ in range(3)], FieldOverflow, "beyond its 2 places"),
        (lambda s: s.net.remove(type="ask", src=0), ModellingMistake, "that it does not have in state"),
        (lambda s: s.got.remove(1), ModellingMistake, "that it does not have in state"),
        (lambda s: s.got.add(7), FieldOverflow, "to 7, outside 0..3"),
        (lambda s: s.net.add(), ModellingMistake, "an item is missing"),
        (lambda s: s.net.has(tpye="ask"), ModellingMistake, "did you mean 'type'"),
        (lambda s: s.got.has(tpye="ask"), ModellingMistake, "has no part 'tpye'"),
        (lambda s: s.net.any(True), ModellingMistake, "takes a function of one item"),
        (lambda s: list(s.net), ModellingMistake, "give an action the parameter m=net"),
        (lambda s: len(s.got), ModellingMistake, "has other items in every state"),
        (lambda s: 1 in s.got, ModellingMistake, "has other items in every state"),
        (lambda s: s.require(s.last.typ == "ask"), ModellingMistake, "did you mean 'type'"),
        (lambda s: s.require(s.last == "ask"), ModellingMistake, "compare one of its parts"),
        (lambda s: setattr(s, "last", {"type": "ask"}), ModellingMistake, "the record has no src"),
        (lambda s: setattr(s, "last", 1), ModellingMistake, "is not a record"),
        (lambda s: setattr(s.last, "type", "ask"), ModellingMistake, "'type'"),
        (lambda s: s.last.but(tpye="ask"), ModellingMistake, "did you mean 'type'"),
        (lambda s: s.require(s.last), ModellingMistake, "takes conditions"),
        (lambda s: s.net.at(2), ModellingMistake, "has the places 0..1"),
        (lambda s: bool(s.net), ModellingMistake, "no single truth value"),
    ],
)
def test_misuse_is_one_clear_sentence(work, kind, message) -> None:
    class Misused(Machine):
        nodes = Size(2)
        n = Int(0, 3)
        net = Bag(2, Record(type=Enum("ask", "answer"), src=Id(nodes)))
        last = Record(type=Enum("ask", "answer"), src=Id(nodes))
        got = Set(Int(0, 3))

        @action
        def do(s) -> None:
            work(s)

    with pytest.raises(kind) as error:
        check(Misused)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: Record(), "a Record needs parts"),
        (lambda: Record(kind=Bool()), "`kind` is part of every column"),
        (lambda: Record(items=Bool()), "`items` is part of every column"),
        (lambda: Record(inbox=Each(2, Bool())), "an array or a sequence is a field of its own"),
        (lambda: Record(a=Int(0, 1 << 40), b=Int(0, 1 << 40)).kind({}), "too wide"),
        (lambda: Bag(2, Each(2, Bool())), "the items of a Bag are"),
        (lambda: Seq(2, Seq(2, Bool())), "the items of a Seq are"),
        (lambda: invariant(m=Base.net)(lambda s, m: m), "only actions do"),
    ],
)
def test_a_bad_declaration_is_refused(declare, message) -> None:
    with pytest.raises(ModellingMistake) as error:
        declare()
    assert message in str(error.value)


def test_a_number_in_a_record_that_may_name_a_member_is_refused_under_symmetry() -> None:
    """An Int that is the number of a member would not be renamed: states would be taken for one wrongly."""
    for field in (
        Record(src=Int(0, Base.nodes - 1)),
        Bag(2, Record(src=Int(0, Base.nodes - 1))),
        Set(Record(src=Int(0, Base.nodes - 1))),
    ):
        made = type("Named", (Base,), {"extra": field, "go": action(lambda s: None)})
        with pytest.raises(ModellingMistake, match="declare it Id"):
            check(made, symmetry=True)


def test_arrays_by_name_take_a_column_of_names_and_print_them() -> None:
    class Named(Machine):
        light = Each(("red", "green"), Int(0, 2))
        colour = Enum("green", "red")

        @action(c=("red", "green"))
        def choose(s, c: str) -> None:
            s.colour = c

        @action
        def shine(s) -> None:
            s.require(s.light[s.colour] < 2)
            s.light[s.colour] += 1

        @reachable
        def bright(s):
            """All are bright."""
            return s.light.all(lambda n: n > 1) & (s.light.count(lambda n: n == 2) == 2)

    result = check(Named)
    assert result.distinct == 3 * 3 * 2
    found = result["bright"].counterexample
    assert found is not None
    assert any("light[green]: 0 -> 1" in line for line in found.lines())
    assert not any("light[0]" in line for line in found.lines())
