"""The store's pieces: what they hold, what they cost, and which errors an author meets."""

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.model import *
from fencepost.model.store import (
    CREATE,
    NOT_NOW,
    REPLACE,
    UNKNOWN,
    Budget,
    Key,
    Late,
    Reply,
    Trouble,
    VersionedKey,
    restart,
)


def taken(state: State, *labels: str) -> State:
    """The state after some labels."""
    stepper = Stepper(state.model)
    for label in labels:
        state = stepper.step(state, stepper.label(label))
    return state


def start(machine: type[Machine], **sizes: int) -> State:
    return Stepper(Model(machine, sizes)).initial()[0]


class Manifests(Machine):
    """Numbered keys in branches, with parts of every kind, and three late requests."""

    branches = Size(2)
    numbers = Size(3)
    writers = Size(2)

    manifest = Each(
        branches,
        Each(
            numbers,
            Key(
                writer=Id(writers),
                pins=Each(2, Int(0, 3)),
                seen=Flags(writers),
                kind=Enum("data", "claim"),
                log=Seq(2, Int(0, 3)),
                etag="writer",
            ),
        ),
    )
    late = Each(3, Late(manifest, only=("create", "replace")))
    tip = Each(writers, Int(0, numbers - 1))

    @action(b=branches, n=numbers, w=writers, answer=(*CREATE, *UNKNOWN))
    def create(s, b: int, n: int, w: int, answer: str) -> None:
        s.manifest[b][n].create(
            answer, writer=w, pins=(n, b), seen={w}, kind="claim", log=(n, w), late=s.late
        )

    @action(b=branches, w=writers, answer=(*REPLACE, *UNKNOWN))
    def replace_at_tip(s, b: int, w: int, answer: str) -> None:
        key = s.manifest[b][s.tip[w]]
        pins = s.manifest[b][0].pins
        key.replace(answer, match=w, writer=w, pins=pins, seen=key.seen, kind="data", log=(), late=s.late)

    @action(w=writers)
    def follow(s, w: int) -> None:
        s.require(s.tip[w] < s.numbers - 1)
        s.require(s.manifest[0][s.tip[w]].is_there)
        s.tip[w] = s.tip[w] + 1

    @action(slot=3)
    def lands(s, slot: int) -> None:
        s.late[slot].land()


def test_a_late_request_carries_parts_of_every_kind() -> None:
    after = taken(start(Manifests), "create(b=1, n=2, w=1, answer=late)")
    assert after.values["late"] == (
        "create manifest[1][2] writer=1 pins=[2, 1] seen={1} kind=claim log=[2, 1]",
        "nothing",
        "nothing",
    )
    assert after.values["manifest"][1] == ("absent",) * 3
    landed = taken(after, "lands(slot=0)")
    assert landed.values["manifest"][1][2] == "writer=1 pins=[2, 1] seen={1} kind=claim log=[2, 1]"
    assert landed.values["late"] == ("nothing",) * 3
    assert landed.packed == taken(start(Manifests), "create(b=1, n=2, w=1, answer=done)").packed


def test_a_key_chosen_by_a_column_is_fixed_when_the_request_is_issued() -> None:
    first = taken(start(Manifests), "create(b=0, n=0, w=1, answer=done)")
    sent = taken(first, "replace_at_tip(b=0, w=1, answer=late)", "follow(w=1)")
    assert (
        sent.values["late"][0]
        == "replace manifest[0][0] matching 1 writer=1 pins=[0, 0] seen={1} kind=data log=[]"
    )
    landed = taken(sent, "lands(slot=0)")
    assert landed.values["manifest"][0][0] == "writer=1 pins=[0, 0] seen={1} kind=data log=[]"


def test_a_late_request_takes_the_first_free_place_and_none_is_late_without_one() -> None:
    one = taken(start(Manifests), "create(b=0, n=0, w=0, answer=late)")
    two = taken(one, "create(b=0, n=1, w=0, answer=late)")
    all_ = taken(two, "create(b=0, n=2, w=0, answer=late)")
    assert [text.split(" writer")[0] for text in all_.values["late"]] == [
        "create manifest[0][0]",
        "create manifest[0][1]",
        "create manifest[0][2]",
    ]
    enabled = [str(label) for label in Stepper(all_.model).enabled(all_)]
    assert not [label for label in enabled if "late" in label]
    freed = taken(two, "lands(slot=0)", "create(b=1, n=0, w=0, answer=late)")
    assert str(freed.values["late"][0]).startswith("create manifest[1][0] writer=0")


def test_a_late_request_waits_until_it_would_not_be_refused() -> None:
    class Once(Machine):
        key = Key(value=Int(0, 1))
        late = Late(key)

        @action(answer=(*CREATE, *UNKNOWN))
        def create(s, answer: str) -> None:
            s.key.create(answer, value=1, late=s.late)

        @action
        def delete(s) -> None:
            s.key.delete()

        @action
        def lands(s) -> None:
            s.late.land()

    waits = taken(start(Once), "create(answer=late)", "create(answer=done)")
    assert "lands()" not in [str(label) for label in Stepper(waits.model).enabled(waits)]
    deleted = taken(waits, "delete()")
    assert deleted.values == {"key": "absent", "late": "create key value=1"}
    assert taken(deleted, "lands()").values == {"key": "value=1", "late": "nothing"}


def test_every_part_of_an_absent_key_has_its_first_value() -> None:
    class Cleared(Machine):
        key = Key(level=Int(0, 3, start=2), names=Flags(3, start={1}))
        late = Late(key)

        @action(answer=("done", "late"))
        def write(s, answer: str) -> None:
            s.key.put(answer, level=3, names={0}, late=s.late)

        @action
        def remove(s) -> None:
            s.key.delete()

        @action
        def lands(s) -> None:
            s.late.land()

    begun = start(Cleared)
    assert taken(begun, "write(answer=done)", "remove()") == begun
    assert taken(begun, "write(answer=late)", "lands()", "remove()") == begun


def test_a_reply_differs_from_the_effect() -> None:
    replies = {answer: Reply("create", answer) for answer in (*CREATE, *NOT_NOW, *UNKNOWN)}
    assert [answer for answer, each in replies.items() if each == "unknown"] == [
        "reply_lost",
        "request_lost",
        "late",
    ]
    assert [answer for answer, each in replies.items() if each.applied] == ["done", "reply_lost"]
    assert [answer for answer, each in replies.items() if str(each) == answer] == [*CREATE, *NOT_NOW]
    assert replies["exists"].to(refused=1, done=2) == 1
    assert replies["exists"].to(refused=1, exists=3) == 3


def test_keys_and_late_requests_take_few_bits() -> None:
    class Small(Machine):
        clients = Size(4)
        lock = Key(owner=Id(clients))
        late = Late(lock, only=("create",))
        faults = Budget(3)

        @action
        def land(s) -> None:
            s.late.land()

    # there 1, owner or nobody 3; do 1, owner 3; faults 2
    assert Model(Small).layout.bits == 10


def test_a_state_is_packed_again_from_its_printed_values() -> None:
    model = Model(Manifests)
    sent = taken(
        start(Manifests),
        "create(b=0, n=0, w=0, answer=done)",
        "create(b=1, n=1, w=1, answer=late)",
    )
    assert Stepper(model).state(sent.values).packed == sent.packed
    written = {**start(Manifests).values}
    parts = {"writer": 0, "pins": (0, 0), "seen": {0}, "kind": "claim", "log": (0, 0)}
    written["manifest"] = ((parts, "absent", "absent"), ("absent",) * 3)
    assert Stepper(model).state(written).values["manifest"][0][0] == (
        "writer=0 pins=[0, 0] seen={0} kind=claim log=[0, 0]"
    )
    for error, message in [
        ({"writer": 0}, "needs a value for pins, seen, kind, log"),
        ("gone", "neither 'absent' nor the parts of an object by name"),
    ]:
        with pytest.raises(ModellingMistake, match=message):
            model.pack({**written, "manifest": ((error, "absent", "absent"), ("absent",) * 3)})


class Process(Machine):
    """A process with something in memory, something on disk, and a key that it once wrote."""

    processes = Size(2)
    at = Each(processes, Enum("starts", "works"))
    memory = Each(processes, Seq(2, Int(0, 3)))
    disk = Each(processes, Int(0, 3))
    key = Key(by=Id(processes))
    crashes = Budget(1)

    @action(p=processes)
    def work(s, p: int) -> None:
        s.require(s.at[p] == "starts")
        s.at[p] = "works"
        s.memory[p].append(3)
        s.disk[p] = 1
        s.key.put(by=p)

    @action(p=processes)
    def crash(s, p: int) -> None:
        s.crashes.spend()
        restart(s, p, "at", "memory")


def test_restart_resets_volatile_fields_only() -> None:
    crashed = taken(start(Process), "work(p=0)", "work(p=1)", "crash(p=0)")
    assert crashed.values == {
        "at": ("starts", "works"),
        "memory": ((), (3,)),
        "disk": (1, 1),
        "key": "by=1",
        "crashes": 1,
    }
    enabled = {label.action for label in Stepper(crashed.model).enabled(crashed)}
    assert enabled == {"work"}, "the budget of crashes is spent"


def test_a_budget_counts_faults_and_not_orderly_answers() -> None:
    class Careful(Machine):
        faults = Budget(1)
        key = Key()
        late = Late(key)

        @action(answer=(*CREATE, "conflict", "throttled", *UNKNOWN))
        def create(s, answer: str) -> None:
            s.faults.spend(answer)
            s.key.create(answer, late=s.late)

    state = start(Careful)
    for answer in ("conflict", "throttled", "reply_lost", "request_lost", "late"):
        after = taken(state, f"create(answer={answer})")
        assert after.values["faults"] == 1
        assert {str(label) for label in Stepper(after.model).enabled(after)} <= {
            "create(answer=done)",
            "create(answer=exists)",
        }
    assert taken(state, "create(answer=done)").values == {
        "faults": 0,
        "key": "there",
        "late": "nothing",
    }


def test_after_trouble_ends_a_protocol_has_to_recover_unaided() -> None:
    """A client that forgets its lock is saved by the next lost reply, and by nothing else."""

    class Forgetful(Machine):
        lock = Key()
        trouble = Trouble()
        at = Enum("asks", "unsure", "gave-up")

        def lasts(s, answer: str | bool) -> None:
            """Here nothing is ever over."""

        @action(answer=(*CREATE, "request_lost"))
        def create(s, answer: str) -> None:
            s.require(s.at == "asks")
            s.lasts(answer)
            reply = s.lock.create(answer)
            s.at = reply.to(done="gave-up", exists="gave-up", unknown="unsure")

        @action
        def look(s) -> None:
            s.require(s.at == "unsure")
            s.lock.delete()
            s.at = "asks"

        @action
        def forget(s) -> None:
            s.require(s.at == "gave-up")
            s.at = "asks"

        @always_recoverable
        def free(s) -> Truth:
            return ~s.lock.is_there

    class UntilItIsOver(Forgetful):
        def lasts(s, answer: str | bool) -> None:
            s.trouble.may(answer)

        @action
        def trouble_ends(s) -> None:
            s.trouble.end()

    assert check(Forgetful).verdict == "holds"
    counterexample = check(UntilItIsOver)["free"].counterexample
    assert counterexample.lines()[1:] == [
        "1. trouble_ends()  trouble: lasts -> over",
        "2. create(answer=done)  lock: absent -> there, at: asks -> gave-up",
    ]
    over = taken(start(UntilItIsOver), "trouble_ends()")
    assert [str(label) for label in Stepper(over.model).enabled(over)] == ["create(answer=done)"]


def test_an_absent_key_and_a_free_place_name_no_member_so_that_symmetry_may_rename() -> None:
    class Owned(Machine):
        clients = Size(3)
        symmetric = ("clients",)
        lock = Each(clients, Key(owner=Id(clients), etag="owner"))
        late = Each(clients, Late(lock))

        @action(c=clients, k=clients, answer=(*CREATE, *UNKNOWN))
        def take(s, c: int, k: int, answer: str) -> None:
            s.lock[k].create(answer, owner=c, late=s.late[c])

        @action(c=clients, k=clients, answer=(*REPLACE, *UNKNOWN))
        def free(s, c: int, k: int, answer: str) -> None:
            s.lock[k].delete(answer, match=c, late=s.late[c])

        @action(c=clients)
        def lands(s, c: int) -> None:
            s.late[c].land()

    plain, reduced = check(Owned, {"clients": 2}), check(Owned, {"clients": 2}, symmetry=True)
    assert plain.verdict == reduced.verdict == "holds"
    assert (plain.distinct, reduced.distinct) == (225, 135)


def test_versions_are_kept_under_their_numbers() -> None:
    class Kept(Machine):
        key = VersionedKey(4, by=Id(2))

        @initial
        def three(s) -> None:
            s.key.put(by=0)
            s.key.delete()
            s.key.create("done", by=1)

        @action
        def remove(s) -> None:
            s.key.delete_version(number=2)

        @action
        def restore(s) -> None:
            s.require(s.key.has_version(0), ~s.key.is_there)
            s.key.put(by=s.key.version(0, "by"))

        @action
        def remove_what_is_there(s) -> None:
            s.require(s.key.holds(by=1))
            s.key.delete_version(number=s.key.newest)

    begun = start(Kept)
    assert begun.values["key"] == "by=0, marker, by=1"
    assert taken(begun, "remove_what_is_there()") == taken(begun, "remove()")
    removed = taken(begun, "remove()", "restore()")
    assert removed.values["key"] == "by=0, marker, gone, by=0"
    assert Stepper(removed.model).state(removed.values).packed == removed.packed

    class Full(Kept):
        @action
        def put(s) -> None:
            s.key.put(by=1)

    with pytest.raises(FieldOverflow, match="`key` beyond its 4 versions"):
        check(Full)


class Mistaken(Machine):
    clients = Size(2)
    lock = Key(owner=Id(clients))
    head = Key(count=Int(0, 3), by=Id(clients))
    blob = VersionedKey(2, by=Id(clients))
    late = Late(lock, only=("create",))
    at = Each(clients, Enum("a", "b"))
    n = Int(0, 1)
    faults = Budget(1)
    trouble = Trouble()


MISTAKES: list[tuple[Callable[[Any], object], str]] = [
    (lambda s: s.lock.create("done"), "the object at `lock` needs a value for owner"),
    (lambda s: s.lock.create("done", owner=0, ower=1), "has no part 'ower' \\(did you mean 'owner'\\?\\)"),
    (
        lambda s: s.lock.create("changed", owner=0),
        "create is never answered 'changed'; what may become of it",
    ),
    (lambda s: s.lock.put("exists", owner=0), "put is never answered 'exists'"),
    (lambda s: s.lock.put("conflict", owner=0), "put is never answered 'conflict'"),
    (lambda s: s.lock.create("late", owner=0), "declare late = Late\\(lock\\) and pass late=s.late"),
    (
        lambda s: s.head.create("late", count=0, by=0, late=s.late),
        "is for late requests to `lock`, not to `head`",
    ),
    (lambda s: s.lock.put("late", owner=0, late=s.late), "`late` takes only create; put is late"),
    (lambda s: s.head.replace("done", match=0, count=1, by=0), "name the part that stands for it, as in Key"),
    (
        lambda s: s.lock.create("request_lost", owner=0).to(done="a", exists="b"),
        r"write \.to\(unknown=\.\.\., \.\.\.\)",
    ),
    (lambda s: s.lock.own, "has no part or request 'own' \\(did you mean 'owner'\\?\\)"),
    (lambda s: s.require(s.lock == 0), "`lock` is no column: compare one of its parts"),
    (lambda s: s.require(s.lock.holds(by=0)), "`lock` has no part 'by'"),
    (lambda s: setattr(s, "lock", 0), "nothing is assigned to `lock` itself: say what is asked of the store"),
    (lambda s: setattr(s, "late", 0), "pass it to a request"),
    (lambda s: setattr(s, "faults", 0), "nothing is assigned to `faults`: spend it"),
    (lambda s: s.require(s.faults == 0), "`faults` is no column: ask for its .spent or .is_left"),
    (lambda s: s.require(s.faults != 0), "`faults` is no column"),
    (lambda s: "yes" if s.faults else "no", "`faults` is no column"),
    (lambda s: s.require(s.trouble == "over"), "`trouble` is no column: ask for its .is_over"),
    (lambda s: s.late.head, "`late` carries no 'head'"),
    (lambda s: "yes" if s.lock else "no", "`lock` is no column: ask one of its parts"),
    (lambda s: restart(s, 0, "n"), "'n' is none"),
    (lambda s: restart(s, 0, "att"), r"'att' is none \(did you mean 'at'\?\)"),
    (lambda s: s.blob.delete_version(number=5), "blob.is\\[5\\]"),
]


@pytest.mark.parametrize(("does", "message"), MISTAKES)
def test_the_message_for_a_mistake_in_an_action_names_the_fix(does, message) -> None:
    class Invalid(Mistaken):
        @action
        def act(s) -> None:
            s.require(s.n == 0)
            does(s)
            s.n = 1

    with pytest.raises(ModellingMistake, match=message) as error:
        check(Invalid, deadlock=False)
    assert "(test_store.py:" in str(error.value), "the place is the author's, not ours"


@pytest.mark.parametrize(
    ("declares", "message"),
    [
        (lambda: Key(match=Int(0, 1)), "a key's part cannot be called match: the name is taken"),
        (lambda: Key(at0=Int(0, 1)), "cannot be called at0"),
        (lambda: Key(create=Int(0, 1)), "cannot be called create"),
        (
            lambda: Key(count=Int(0, 1), etag="cuont"),
            "etag='cuont' is no part of the key \\(did you mean 'count'\\?\\)",
        ),
        (lambda: Key(pins=Each(2, Int(0, 1)), etag="pins"), "etag='pins' must be a part of one cell"),
        (lambda: Late(Int(0, 1)), "is for a field declared as Key"),
        (
            lambda: Late(Key(), only=("replace",)),
            "only=\\('replace',\\) must be a tuple of some of create, put",
        ),
        (lambda: Late(Key(), only="create"), "only='create' must be a tuple"),
        (
            lambda: Late(VersionedKey(2), only=("put", "delete-version")),
            "delete-version requests a place of their own: only=\\('delete-version',\\)",
        ),
    ],
)
def test_the_message_for_a_mistake_in_a_declaration_names_the_fix(declares, message) -> None:
    with pytest.raises(ModellingMistake, match=message):
        declares()


def test_a_graph_of_keys_prints_readably() -> None:
    graph = reachable_graph(Model(Process, {"processes": 1}))
    nodes = [data["text"] for _, data in graph.to_networkx().nodes(data=True)]
    assert "at: [works], memory: [[3]], disk: [1], key: by=0, crashes: 0" in nodes
