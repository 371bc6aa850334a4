"""Promises in audits: every order that decides is explored, and merging changes no verdict."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Store
from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting
from fencepost.sim.world import Budget, World

NONE = Budget(crash=0, reply_lost=0, request_lost=0, pause=0)
KEYS = ("jobs/1", "done/1", "dead/1", "m", "data/1", "log/1", "log/2")
PROMISES = (
    "register",
    "serializable",
    "once=log/",
    "lock=m",
    "lock=m,released=no",
    "log=log/",
    "manifest=m,data=data/",
    "queue=jobs/",
    "report=m",
    "kept=acknowledged",
    "agree=leads",
)
BODIES = (b'["data/1"]', b"[]", b'["log/1"]', b"x")


def work(world: World, store: Store, steps: list[tuple[str, str, bytes]]) -> bool:
    etag = ""
    for kind, key, body in steps:
        if kind == "get":
            found = store.get(key)
            etag = found.info.etag if found.info is not None else etag
        elif kind == "list":
            store.list(key[:2])
        elif kind == "put":
            store.put(key, body, when=ANYTHING)
        elif kind == "create":
            store.put(key, body, when=ABSENT)
        elif kind == "swap" and etag:
            store.put(key, body, when=Matches(etag))
        elif kind == "delete":
            store.delete(key, when=ANYTHING)
        elif kind == "note":
            world.note("acknowledged", body.decode())
            world.note("leads")
    return len(steps) % 2 == 0


def random_program(seed: int, promise: str) -> Callable[[World], None]:
    chance = random.Random(seed)
    kinds = ("get", "get", "list", "put", "put", "create", "swap", "delete", "note")
    scripts = [
        [
            (chance.choice(kinds), chance.choice(KEYS), chance.choice(BODIES))
            for _ in range(chance.choice((2, 3)))
        ]
        for _ in range(2)
    ]
    begin = [(key, chance.choice(BODIES)) for key in KEYS if chance.random() < 0.5]

    def program(world: World) -> None:
        store = world.store()
        for key, body in begin:
            store.put(key, body, when=ANYTHING)
        for number, steps in enumerate(scripts):
            world.spawn(work, world, store, steps, name=f"p{number}", restart=False)
        world.promise(promise)

    return program


def explored(program: Any, **options: Any) -> AuditOutcome:
    """Audit a program by one search, so that no drawn schedule finds what the search overlooks."""
    given = {"budget": NONE, "strategy": "exhaustive", **options}
    return audit(program, others=False, minimise_seconds=0.0, **given)


def compare(seed: int, promise: str) -> None:
    program = random_program(seed, promise)
    plain = explored(program, strategy="plain")
    reduced = explored(program)
    assert bool(plain.counterexamples) == bool(reduced.counterexamples), (
        f"seed {seed}, {promise}: {plain.counterexamples or reduced.counterexamples}"
    )


@pytest.mark.parametrize("promise", PROMISES)
def test_the_reduced_search_finds_what_the_plain_one_finds(promise: str) -> None:
    """If this fails, a promise depends on an order of steps that no search explores, or on a merged state."""
    for seed in range(5):
        compare(seed, promise)


@pytest.mark.slow
@pytest.mark.parametrize("promise", PROMISES)
def test_the_reduced_search_finds_what_the_plain_one_finds_in_many_programs(promise: str) -> None:
    for seed in range(5, 200):
        compare(seed, promise)


Do = Callable[[Store], Any]


def put(key: str, body: bytes = b"") -> Do:
    return lambda store: store.put(key, body, when=ANYTHING)


def delete(key: str) -> Do:
    return lambda store: store.delete(key, when=ANYTHING)


def takes(store: Store) -> None:
    if store.get("k").done:
        store.put("k", b"bob", when=ANYTHING)


TIED: dict[str, tuple[tuple[Do, ...], Do, Do, str]] = {
    "references=m": (
        (put("m", b'["data/1"]'), put("data/1")),
        delete("data/1"),
        put("m", b"[]"),
        "deleted data/1, which m names",
    ),
    "manifest=m,data=data/": (
        (put("m", b"[]"),),
        put("m", b'["data/1"]'),
        put("data/1"),
        "m named data/1 before",
    ),
    "queue=jobs/": (
        (put("jobs/1"), put("done/1", b"x"), delete("jobs/1")),
        put("dead/1"),
        put("jobs/1"),
        "recorded the job 1 as dead",
    ),
    "lock=k,released=no": ((), takes, put("k", b"ann"), "wrote over the lock k"),
}
"""Steps about different keys, or none: the promise breaks only if the first comes before the second ends."""


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("promise", TIED)
def test_an_order_that_only_the_promise_notices_is_explored(promise: str, turned: bool) -> None:
    """If this fails, the search takes one order of two steps that only the promise can tell apart."""
    begin, one, other, reason = TIED[promise]

    def program(world: World) -> None:
        store = world.store()
        for do in begin:
            do(store)
        for do in (other, one) if turned else (one, other):
            world.spawn(do, store, name="ann" if do is other else "bob", restart=False)
        world.promise(promise)

    found = explored(program)
    assert [example.property for example in found.counterexamples] == [promise]
    assert reason in found.counterexamples[0].reason


@pytest.mark.parametrize("promise", ["gone=k", "log=log/,reader=ann"])
def test_a_daemon_owes_no_end(promise: str) -> None:
    """If this fails, what must hold at the end is not judged beside a process that never ends."""

    def program(world: World) -> None:
        store = world.store()
        store.put("k", b"", when=ANYTHING)

        def watch() -> None:
            while True:
                store.get("k")
                world.env.sleep(1)

        world.spawn(lambda: store.get("log/2"), name="ann", restart=False)
        world.spawn(lambda: store.put("log/1", b"a", when=ABSENT), name="bob", restart=False)
        world.spawn(watch, name="watch", daemon=True)
        world.promise(promise)

    assert explored(program).counterexamples


@pytest.mark.parametrize("merge", [True, False])
def test_time_passes_where_only_the_promise_notices(merge: bool) -> None:
    """Nothing but the grace period tells a name that is read at once from one that is read later.

    What was read 25 seconds before the object went may be forgotten, and not what was read 10 seconds before.
    """

    def program(world: World) -> None:
        world.configure(ticks=0)
        store = world.store()
        store.put("d/1", b"", when=ANYTHING)
        store.put("m", b'["d/1"]', when=ANYTHING)

        def follow() -> None:
            store.get("m")
            store.get("d/1")

        def collect() -> None:
            world.env.sleep(15)
            store.put("m", b"[]", when=ANYTHING)
            world.env.sleep(10)
            store.delete("d/1", when=ANYTHING)

        world.spawn(follow, name="ann", restart=False)
        world.spawn(collect, name="bob", restart=False)
        world.promise("references=m,data=d/,grace=20")

    search = ReducedSearch(Setting(program, NONE), merge=merge)
    search.explore()
    assert "10 s ago" in str(search.failures[0].violation)


def test_a_lost_reply_is_no_acknowledgement() -> None:
    def program(world: World) -> None:
        store = world.store()

        def count() -> None:
            found = store.get("k")
            if found.done:
                store.put("k", b"%d" % (int(found.body) + 1), when=ANYTHING)

        store.put("k", b"0", when=ANYTHING)
        for name in ("ann", "bob"):
            world.spawn(count, name=name, restart=False)
        world.promise("register=k")

    assert explored(program).counterexamples
    assert explored(program, budget=NONE.but(reply_lost=4)).counterexamples


def test_the_programs_own_properties_can_be_left_out() -> None:
    def program(world: World) -> None:
        world.judge_promises_only()
        store = world.store()
        world.spawn(lambda: store.put("k", b"", when=ANYTHING), name="ann", restart=False)
        world.always("never", lambda _view: False)
        world.finally_("never at the end", lambda _view: False)
        world.monitor("nothing is written", 0, lambda _state, _event: 1 / 0)
        world.promise("gone=k")

    found = explored(program)
    assert [one.property for one in found.counterexamples] == ["gone=k"]


@pytest.mark.parametrize(
    ("text", "message"), [("lick=k", "no promise is called"), ("register", "promised twice")]
)
def test_a_promise_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    def program(world: World) -> None:
        store = world.store()
        world.spawn(lambda: store.get("k"), name="ann")
        world.promise("register")
        world.promise(text)

    from fencepost.impl.store.errors import Misuse

    with pytest.raises(Misuse, match=message):
        explored(program)
