"""The events of a run: what a replay against a model, and a person, will read."""

from typing import Any

from fencepost.impl.store import ABSENT
from fencepost.impl.store import requests as req
from fencepost.sim.world import Budget, World
from fencepost.sim.world.trace import events


def rows(world: World) -> list[tuple[Any, ...]]:
    return [(e.process, e.incarnation, e.op, e.phase, e.kind, e.key, e.outcome) for e in events(world)]


def test_a_lost_reply_lands_and_is_answered_unknown() -> None:
    def program(world: World) -> None:
        world.spawn(lambda: world.store().put("k", b"1", when=ABSENT), name="p")

    world = World(budget=Budget())
    world.start(program)
    world.step(1, "reply_lost")
    assert rows(world) == [
        ("p", 0, 1, "request", "put", "k", ""),
        ("p", 0, 1, "landed", "put", "k", "done"),
        ("p", 0, 1, "response", "put", "k", "unknown"),
    ]
    world.close()


def test_a_late_request_has_its_response_before_it_lands() -> None:
    def program(world: World) -> None:
        world.spawn(lambda: world.store().put("k", b"1", when=ABSENT).outcome.value, name="p")

    world = World(budget=Budget(late=1))
    world.start(program)
    world.step(1, "late")
    world.step(1, "crash")
    world.step(1, "ok")
    world.step(1000, "land")
    assert rows(world) == [
        ("p", 0, 1, "request", "put", "k", ""),
        ("p", 0, 1, "response", "put", "k", "unknown"),
        ("p", 0, -1, "note", "crash", "", ""),
        ("p", 1, 2, "request", "put", "k", ""),
        ("p", 1, 2, "landed", "put", "k", "done"),
        ("p", 1, 2, "response", "put", "k", "done"),
        ("p", 0, 1, "landed", "put", "k", "exists"),
    ]
    world.close()


def test_parallel_requests_are_all_issued_before_one_lands() -> None:
    def program(world: World) -> None:
        world.spawn(lambda: world.store().send_all([req.Get("a"), req.Get("b")]) and None, name="p")

    world = World()
    world.start(program)
    for actor in reversed(world.enabled()):
        world.step(actor, "ok")
    assert [(phase, key) for _, _, _, phase, _, key, _ in rows(world)] == [
        ("request", "a"),
        ("request", "b"),
        ("landed", "b"),
        ("response", "b"),
        ("landed", "a"),
        ("response", "a"),
    ]
    world.close()


def test_every_event_is_numbered_and_notes_carry_their_value() -> None:
    def program(world: World) -> None:
        world.spawn(lambda: world.note("leads", "ann"), name="p")

    world = World()
    world.start(program)
    world.step(1, "ok")
    made = events(world, run="r1")
    assert [(e.run, e.seq, e.phase, e.key, e.note) for e in made] == [("r1", 0, "note", "leads", "'ann'")]
    world.close()


def test_trace_fields_are_taken_out_of_bodies_that_are_put_and_got() -> None:
    def program(world: World) -> None:
        store = world.store()
        world.show_bodies(lambda key, body: f"of={key} body={body.decode()}")
        world.spawn(
            lambda: store.put("k", b"1", when=ABSENT).outcome.value + store.get("k").outcome.value, name="p"
        )

    world = World(budget=Budget())
    world.start(program)
    world.step(1, "reply_lost")
    world.step(1, "ok")
    assert [(e.phase, e.kind, e.trace_fields) for e in events(world)] == [
        ("request", "put", "of=k body=1"),
        ("landed", "put", "of=k body=1"),
        ("response", "put", ""),
        ("request", "get", ""),
        ("landed", "get", "of=k body=1"),
        ("response", "get", "of=k body=1"),
    ]
    world.close()
