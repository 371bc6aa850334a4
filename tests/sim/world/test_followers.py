"""Followers see every landing and every note as it happens, and what they say ends the run."""

from typing import Any

from fencepost.impl.store import ABSENT
from fencepost.sim.explore import audit
from fencepost.sim.world import Budget, World


class Listening:
    def __init__(self, error: str = "") -> None:
        self.heard: list[str] = []
        self.error = error

    def landed(self, process: str, incarnation: int, request: Any, reply: Any) -> str | None:
        self.heard.append(f"{process}/{incarnation} {request.kind} {request.subject} {reply.outcome.value}")
        return self.error if self.heard[-1].endswith("exists") and self.error else None

    def noted(self, process: str, incarnation: int, topic: str, value: Any) -> str | None:
        self.heard.append(f"{process}/{incarnation} note {topic} {value}")
        return None

    def state(self) -> Any:
        return tuple(self.heard)


def test_what_landed_is_seen_with_its_true_outcome_and_what_did_not_is_not() -> None:
    ear = Listening()

    def program(world: World) -> None:
        store = world.store()
        store.put("before", b"", when=ABSENT)

        def live() -> None:
            store.put("k", b"1", when=ABSENT)
            store.put("k", b"2", when=ABSENT)
            store.get("k")
            world.note("ends", 7)

        world.spawn(live, name="p")
        world.follow("ear", ear)

    world = World(budget=Budget(reply_lost=2, request_lost=2))
    world.start(program)
    for alternative in ("reply_lost", "request_lost", "ok", "crash"):
        world.step(1, alternative)
    world.step(1, "ok")
    assert ear.heard == ["p/0 put k done", "p/0 get k done", "p/1 put k exists"]
    world.close()


def test_what_a_follower_says_is_a_violation_with_its_counterexample() -> None:
    def program(world: World) -> None:
        store = world.store()
        for name in ("a", "b"):
            world.spawn(lambda: store.put("k", b"", when=ABSENT) and None, name=name)
        world.follow("ear", Listening("somebody was too late"))

    result = audit(program)
    assert [
        (counterexample.property, counterexample.reason) for counterexample in result.counterexamples
    ] == [("ear", "somebody was too late")]


def test_measures_keep_their_maximum_and_reports_speak_once() -> None:
    def program(world: World) -> None:
        store = world.store()
        chosen = world.pick("n", (1, 3, 2))
        world.spawn(lambda: [store.get("k") for _ in range(chosen)] and None, name="a")
        world.spawn(lambda: store.put("k", b"", when=ABSENT) and None, name="b")
        world.measure(lambda run: {"read: gets": sum(step[5].kind == "get" for step in run.trace)})
        world.report(lambda: {"reported": "once"})

    result = audit(program)
    assert result.cost()["read"] == {"gets": 3}
    assert result.reported["reported"] == "once"
    assert result.result().cost["read"] == {"gets": 3}
