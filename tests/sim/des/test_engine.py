"""The hub: time, order, crashes, channels and signals."""

import pytest

from fencepost.sim.des import Deadlock, Engine
from fencepost.sim.des.engine import Channel, Crash, Signal
from tests.sim.des.parts import MS


def test_sleeping_takes_exactly_as_long_as_it_says() -> None:
    """Whole nanoseconds: nothing is rounded away over ten thousand sleeps."""
    engine = Engine()

    def sleeper() -> None:
        for _ in range(10_000):
            engine.sleep_ns(3)

    engine.spawn("sleeper", sleeper)
    engine.run()
    assert engine.now_ns == 30_000


def test_events_of_the_same_moment_happen_in_the_order_they_were_asked_for() -> None:
    engine, seen = Engine(), []
    for name in "cab":

        def act(name: str = name) -> None:
            for _ in range(3):
                engine.sleep_ns(MS)
                seen.append(name)

        engine.spawn(name, act)
    engine.run()
    assert "".join(seen) == "cabcabcab"


def test_what_an_actor_raises_ends_the_run() -> None:
    engine = Engine()

    def fails() -> None:
        engine.sleep_ns(MS)
        raise KeyError("lost")

    engine.spawn("fails", fails)
    with pytest.raises(KeyError, match="lost"):
        engine.run()


def test_waiting_for_what_never_happens_is_a_deadlock_and_says_who_waits() -> None:
    engine = Engine()
    engine.spawn("patient", lambda: engine.wait(object()))
    with pytest.raises(Deadlock, match="1 actors wait for what never happens: patient"):
        engine.run()


def test_a_run_up_to_a_moment_is_no_deadlock_and_unwinds_those_who_wait() -> None:
    engine, seen = Engine(), []

    def sleeper() -> None:
        try:
            engine.sleep_ns(10 * MS)
        except Crash:
            seen.append("unwound")
            raise

    engine.spawn("sleeper", sleeper)
    engine.run(until_ns=MS)
    assert seen == ["unwound"]


def test_a_crash_unwinds_forgets_and_begins_again_after_the_pause() -> None:
    engine, seen = Engine(), []

    def life() -> None:
        actor = engine.current
        assert actor is not None
        seen.append((actor.incarnation, engine.now_ns))
        engine.sleep_ns(10 * MS)
        seen.append(("done", engine.now_ns))

    actor = engine.spawn("mortal", life, restart=life)

    def assassin() -> None:
        engine.sleep_ns(4 * MS)
        assert engine.crash(actor, 5 * MS)

    engine.spawn("assassin", assassin)
    engine.run()
    assert seen == [(0, 0), (1, 9 * MS), ("done", 19 * MS)], "the first sleep never wakes the second life"


def test_code_that_catches_everything_cannot_go_on_after_its_crash() -> None:
    """A bare except that asks again would otherwise live on beside its next incarnation."""
    engine, seen = Engine(), []

    def stubborn() -> None:
        actor = engine.current
        assert actor is not None
        if actor.incarnation:
            return
        while True:
            try:
                engine.sleep_ns(MS)
                seen.append(engine.now_ns)
            except BaseException:  # noqa: BLE001 - the point of it
                pass

    actor = engine.spawn("stubborn", stubborn, restart=stubborn)

    def assassin() -> None:
        engine.sleep_ns(2 * MS + 1)
        engine.crash(actor, 0)

    engine.spawn("assassin", assassin)
    engine.run()
    assert seen == [MS, 2 * MS]


def test_who_has_ended_cannot_crash() -> None:
    engine = Engine()
    actor = engine.spawn("quick", lambda: None, restart=lambda: None)
    engine.spawn("late", lambda: (engine.sleep_ns(MS), engine.crash(actor, 0)))
    engine.run()
    assert actor.incarnation == 0


def test_a_channel_hands_out_in_order_and_ends_when_it_is_closed_and_empty() -> None:
    engine, taken = Engine(), []
    channel = Channel(engine)

    def taker(name: str) -> None:
        for item in iter(channel.take, None):
            taken.append((name, item, engine.now_ns))
            engine.sleep_ns(2 * MS)

    for name in ("a", "b"):
        engine.spawn(name, lambda name=name: taker(name))

    def giver() -> None:
        for item in range(1, 5):
            engine.sleep_ns(MS)
            channel.put(item)
        channel.close()

    engine.spawn("giver", giver)
    engine.run()
    assert taken == [("a", 1, MS), ("b", 2, 2 * MS), ("a", 3, 3 * MS), ("b", 4, 4 * MS)]


def test_an_item_taken_by_somebody_quicker_is_no_end_of_the_channel() -> None:
    """Between the put and the waiting taker's turn another one may come by and take it."""
    engine, taken = Engine(), []
    channel = Channel(engine)
    engine.spawn("waits", lambda: taken.append(("waits", channel.take())))

    def quick() -> None:
        engine.sleep_ns(MS)
        channel.put("first")
        taken.append(("quick", channel.take()))
        engine.sleep_ns(MS)
        channel.put("second")

    engine.spawn("quick", quick)
    engine.run()
    assert taken == [("quick", "first"), ("waits", "second")]


def test_a_signal_wakes_all_who_wait_and_nobody_waits_once_it_is_set() -> None:
    engine, seen = Engine(), []
    signal = Signal(engine)
    for name in "ab":
        engine.spawn(name, lambda name=name: (signal.wait(), seen.append((name, engine.now_ns))))
    engine.spawn("setter", lambda: (engine.sleep_ns(MS), signal.set()))
    engine.spawn(
        "late", lambda: (engine.sleep_ns(5 * MS), signal.wait(), seen.append(("late", engine.now_ns)))
    )
    engine.run()
    assert seen == [("a", MS), ("b", MS), ("late", 5 * MS)]


def test_streams_belong_to_actors() -> None:
    """Adding an actor reshuffles nobody's draws; a new incarnation draws anew."""

    def drawn(names: str, seed: int = 0) -> dict[str, float]:
        from fencepost.sim.des import SimulatedEnvironment

        engine = Engine(seed)
        env, found = SimulatedEnvironment(engine), {}
        for name in names:
            engine.spawn(name, lambda name=name: found.update({name: env.stream("x").random()}))
        engine.run()
        return found

    alone, together = drawn("a"), drawn("ba")
    assert alone["a"] == together["a"] != together["b"]
    assert drawn("a", seed=1)["a"] != alone["a"]
