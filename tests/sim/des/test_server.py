"""The life of a request, to the nanosecond: queues, landing, answers, limits and faults."""

from typing import Any

import pytest

from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.requests import ABSENT, ANYTHING, Get, Matches, Outcome, Put
from fencepost.sim.des import ClientModel, Constant, Faults, Profile, StoreModel
from fencepost.sim.des.engine import START_NS
from tests.sim.des.parts import MS, RTT, World, constant


def puts(count: int) -> list[Put]:
    return [Put(f"k/{number}", b"x", ANYTHING) for number in range(count)]


def test_a_request_takes_one_latency_and_is_applied_half_way() -> None:
    world = World()
    world.actor("writer", lambda store: store.put("k", b"x", when=ABSENT))
    world.actor("early", lambda store: (world.engine.sleep_ns(RTT // 2 - MS), store.get("k"))[1].outcome)
    world.run()
    assert [(name, ended) for name, _, ended in world.seen] == [
        ("writer", RTT),
        ("early", RTT // 2 - MS + RTT),
    ]
    assert {name: result for name, result, _ in world.seen}["early"] is Outcome.DONE


def test_what_is_written_carries_the_moment_of_its_landing() -> None:
    world = World(StoreModel(latency=Profile(Constant(RTT), byte_ns=1000.0)))
    world.actor("a", lambda store: (store.put("k", b"x" * 50, when=ABSENT), store.head("k"))[1].info)
    info = world.run()[0][1]
    assert info.modified_ns - START_NS == RTT // 2 + 50_000


def test_who_lands_before_the_write_does_not_see_it() -> None:
    """The neighbour of the test before: landing is the moment, not sending and not the answer."""
    world = World(StoreModel(latency=Profile(Constant(RTT), {"put": Constant(3 * RTT)})))
    world.actor("writer", lambda store: store.put("k", b"x", when=ABSENT))
    world.actor("reader", lambda store: (world.engine.sleep_ns(RTT - 1), store.get("k"))[1].outcome)
    assert ("reader", Outcome.MISSING, 2 * RTT - 1) in world.run()


def test_the_first_to_land_wins_a_race() -> None:
    world = World()

    def create(delay: int) -> Any:
        def act(store: Any) -> Outcome:
            world.engine.sleep_ns(delay)
            return store.put("k", b"x", when=ABSENT).outcome  # type: ignore[no-any-return]

        return act

    world.actor("second", create(2))
    world.actor("first", create(1))
    assert [(name, result) for name, result, _ in world.run()] == [
        ("first", Outcome.DONE),
        ("second", Outcome.EXISTS),
    ]


@pytest.mark.parametrize(("cap", "latencies"), [(None, 1), (16, 1), (15, 2), (8, 2), (5, 4), (1, 16)])
def test_a_parallel_step_takes_as_many_latencies_as_the_cap_makes_of_it(
    cap: int | None, latencies: int
) -> None:
    for store, client in ((constant(), ClientModel(in_flight=cap)), (constant(in_flight=cap), ClientModel())):
        world = World(store, client)
        world.actor("writer", lambda store: [reply.outcome for reply in store.send_all(puts(16))])
        assert world.run() == [("writer", [Outcome.DONE] * 16, latencies * RTT)]


def test_the_store_cap_is_shared_and_the_client_cap_is_not() -> None:
    ends = {}
    for name, store, client in (
        ("shared", constant(in_flight=1), ClientModel()),
        ("own", constant(), ClientModel(in_flight=1)),
    ):
        world = World(store, client)
        for number in range(3):
            world.actor(f"w{number}", lambda store: store.put("k", b"", when=ANYTHING).outcome)
        ends[name] = [(name, ended) for name, _, ended in world.run()]
    in_turn = [("w0", RTT), ("w1", 2 * RTT), ("w2", 3 * RTT)]
    assert ends == {"shared": in_turn, "own": [("w0", RTT), ("w1", RTT), ("w2", RTT)]}


def test_bytes_take_time_on_their_way() -> None:
    """A put's bytes delay its landing, a get's its answer; a listing has none."""
    world = World(StoreModel(latency=Profile(Constant(RTT), byte_ns=1000.0)))

    def act(store: Any) -> list[int]:
        times = []
        for request in (Put("k", b"x" * 500, ANYTHING), Get("k"), Get("k", 0, 100), Get("missing")):
            began = world.engine.now_ns
            store.send(request)
            times.append(world.engine.now_ns - began - RTT)
        return times

    world.actor("a", act)
    assert world.run()[0][1] == [500_000, 500_000, 100_000, 0]


def test_more_writes_a_second_than_a_prefix_takes_are_answered_503_and_not_applied() -> None:
    world = World(constant(MS, writes_per_prefix=10.0))

    def act(store: Any) -> tuple[int, int]:
        replies = store.send_all([Put(f"a/{n}", b"", ANYTHING) for n in range(15)])
        others = store.send_all([Put(f"b/{n}", b"", ANYTHING) for n in range(10)])
        refused = sum(reply.outcome is Outcome.THROTTLED for reply in replies)
        return refused, sum(reply.outcome is Outcome.THROTTLED for reply in others)

    world.actor("a", act)
    assert world.run()[0][1] == (5, 0)
    assert len(world.server.bucket.contents()) == 20
    assert world.server.requests["put"] == 20, "who is refused is not billed"


def test_a_rate_recovers_with_time_and_saves_up_no_more_than_a_second() -> None:
    world = World(constant(MS, writes_per_prefix=10.0))

    def burst(store: Any) -> int:
        replies = store.send_all([Put(f"a/{n}", b"", ANYTHING) for n in range(30)])
        return sum(reply.done for reply in replies)

    def act(store: Any) -> list[int]:
        counts = [burst(store)]
        for seconds in (0.5, 100):
            world.env.sleep(seconds)
            counts.append(burst(store))
        return counts

    world.actor("a", act)
    assert world.run()[0][1] == [10, 5, 10]


def test_reads_and_writes_have_rates_of_their_own() -> None:
    world = World(constant(MS, reads_per_prefix=1.0))
    world.actor("a", lambda store: [r.outcome for r in store.send_all([*puts(5), Get("k/1"), Get("k/2")])])
    assert world.run()[0][1] == [Outcome.DONE] * 6 + [Outcome.THROTTLED]


def test_one_write_a_second_to_one_key() -> None:
    world = World(constant(MS, writes_per_key=1.0))

    def act(store: Any) -> list[Outcome]:
        found = []
        for pause in (0.0, 0.4, 0.7, 1.1):
            world.env.sleep(pause)
            found.append(store.put("head", b"", when=ANYTHING).outcome)
        return [*found, store.put("other", b"", when=ANYTHING).outcome]

    world.actor("a", act)
    done, refused = Outcome.DONE, Outcome.THROTTLED
    assert world.run()[0][1] == [done, refused, done, done, done]


def test_a_lost_response_is_unknown_at_the_time_out_and_applied() -> None:
    world = World(client=ClientModel(timeout_ns=500 * MS), faults=Faults(reply_lost=1.0))
    world.actor("a", lambda store: store.put("k", b"x", when=ABSENT).outcome)
    assert world.run() == [("a", Outcome.UNKNOWN, 500 * MS)]
    assert world.server.bucket.contents() == {"k": b"x"}


def test_a_dropped_request_is_unknown_at_the_time_out_and_not_applied() -> None:
    world = World(client=ClientModel(timeout_ns=500 * MS), faults=Faults(request_lost=1.0))
    world.actor("a", lambda store: store.put("k", b"x", when=ABSENT).outcome)
    assert world.run() == [("a", Outcome.UNKNOWN, 500 * MS)]
    assert world.server.bucket.contents() == {}


def test_a_late_write_lands_after_its_sender_gave_up() -> None:
    """The counterexample every protocol here is about: looked, was not there, and came after all."""
    world = World(client=ClientModel(timeout_ns=500 * MS), faults=Faults(late=1.0, late_by_ns=1000 * MS))

    def act(store: Any) -> tuple[Outcome, bool]:
        return store.put("k", b"x", when=ABSENT).outcome, store.get("k").done

    world.actor("a", act)
    assert world.run()[0][1] == (Outcome.UNKNOWN, False)
    assert world.server.bucket.contents() == {"k": b"x"}
    assert world.engine.now_ns > 520 * MS


def test_a_read_is_never_late() -> None:
    world = World(client=ClientModel(timeout_ns=500 * MS), faults=Faults(late=1.0))
    world.actor("a", lambda store: store.get("k").outcome)
    assert world.run() == [("a", Outcome.MISSING, RTT)]


def test_conflicts_happen_to_conditional_writes_only() -> None:
    world = World(faults=Faults(conflict=1.0))

    def act(store: Any) -> list[Outcome]:
        etag = store.put("k", b"x", when=ANYTHING).etag
        requests = [Put("k", b"y", Matches(etag)), Put("new", b"y", ABSENT), Get("k")]
        return [store.send(request).outcome for request in requests]

    world.actor("a", act)
    assert world.run()[0][1] == [Outcome.CONFLICT, Outcome.CONFLICT, Outcome.DONE]
    assert world.server.bucket.contents() == {"k": b"x"}


def test_faults_come_as_often_as_their_rates_say() -> None:
    world = World(
        client=ClientModel(timeout_ns=MS),
        faults=Faults(
            reply_lost=0.02, request_lost=0.03, late=0.04, late_by_ns=MS, conflict=0.05, throttled=0.06
        ),
    )
    world.actor("a", lambda store: [store.put(f"k{n}", b"", when=ABSENT) for n in range(10_000)] and None)
    world.run()
    shares = {name: count / 10_000 for name, count in world.server.faulted.items()}
    expected = {"reply_lost": 0.02, "request_lost": 0.03, "late": 0.04, "conflict": 0.05, "throttled": 0.06}
    assert shares == {name: pytest.approx(share, rel=0.2) for name, share in expected.items()}


def test_an_answer_that_comes_after_the_time_out_is_unknown_and_lands_all_the_same() -> None:
    world = World(client=ClientModel(timeout_ns=RTT - 1, in_flight=1))

    def act(store: Any) -> list[Outcome]:
        return [store.put("k", b"x", when=ABSENT).outcome, store.put("k", b"x", when=ABSENT).outcome]

    world.actor("a", act)
    assert world.run() == [("a", [Outcome.UNKNOWN, Outcome.UNKNOWN], 2 * (RTT - 1))]
    assert world.server.bucket.contents() == {"k": b"x"}
    on_time = World(client=ClientModel(timeout_ns=RTT))
    on_time.actor("a", lambda store: store.put("k", b"x", when=ABSENT).outcome)
    assert on_time.run() == [("a", Outcome.DONE, RTT)]


def test_a_request_that_makes_no_sense_is_raised_where_it_was_asked() -> None:
    world = World()

    def act(store: Any) -> str:
        try:
            store.put("bad\0key", b"", when=ANYTHING)
        except Misuse:
            return "refused"
        return "taken"

    world.actor("a", act)
    assert world.run()[0][1] == "refused"


def test_a_crash_leaves_the_request_on_its_way() -> None:
    world = World()
    client = world.client()
    actor = world.engine.spawn("mortal", lambda: client.put("k", b"x", when=ABSENT), restart=lambda: None)
    world.engine.spawn("assassin", lambda: (world.engine.sleep_ns(MS), world.engine.crash(actor, 0)))
    world.engine.run()
    assert world.server.bucket.contents() == {"k": b"x"}


@pytest.mark.parametrize("cap", [1, 3])
def test_places_are_given_back_whatever_becomes_of_requests(cap: int) -> None:
    """A leak would stop the clock after so many faults; one given back twice would widen the cap."""
    world = World(
        constant(in_flight=cap),
        ClientModel(in_flight=cap, timeout_ns=25 * MS),
        Faults(reply_lost=0.1, request_lost=0.1, late=0.1, late_by_ns=50 * MS, conflict=0.1, throttled=0.1),
    )
    world.actor("a", lambda store: [store.send_all(puts(7)) for _ in range(200)] and None)
    world.run()
    assert world.server.gate is not None
    assert world.server.gate.free == cap


def test_what_a_client_computes_per_answer_is_done_one_after_the_other() -> None:
    world = World(client=ClientModel(compute_per_request_ns=3 * MS))
    world.actor("a", lambda store: len(store.send_all(puts(10))))
    assert world.run() == [("a", 10, RTT + 30 * MS)]


def test_outside_of_a_run_requests_are_answered_at_once() -> None:
    world = World()
    assert world.client().put("k", b"x", when=ABSENT).done
    assert world.engine.now_ns == 0
