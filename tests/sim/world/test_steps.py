"""One step of the world at a time: landings, replies, losses."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Outcome
from fencepost.impl.store import requests as req
from fencepost.impl.store.errors import Misuse
from fencepost.sim.world import CLOCK_ACTOR, Budget, Crash, World, places, present
from fencepost.sim.world import budget as fault
from fencepost.sim.world.located import AuditError

PLENTY = Budget(9, 9, 9, 9, 9, 9, 9, 9, notification_delayed=9)
LATE = 1000
"""The first request in flight."""


@pytest.fixture(autouse=True)
def nothing_left_in_control() -> Iterator[None]:
    """A world that a test leaves in the middle of its run would own the clocks of the next test."""
    yield
    for stack in [*present._runs.values()]:
        for run in [*stack]:
            places.leave(run)


def play(program: Callable[[World], Any], choices: Sequence[tuple[int, str]], **options: Any) -> World:
    """Run `program` along `choices` and leave it there."""
    world = World(budget=PLENTY, **options)
    world.start(program)
    for actor, alternative in choices:
        assert actor in world.enabled()
        assert alternative in world.alternatives(actor)
        world.step(actor, alternative)
    return world


def one(body: Callable[[World], Any], **how: Any) -> Callable[[World], None]:
    """A program of one process, p, that runs `body`."""

    def program(world: World) -> None:
        world.spawn(body, world, name="p", **how)

    return program


def create(world: World) -> list[str]:
    """Create a key and return the outcome, twice."""
    return [world.store().put("k", b"1", when=ABSENT).outcome.value for _ in range(2)]


@pytest.mark.parametrize(
    ("alternative", "outcome", "landed"),
    [
        ("ok", "done", True),
        ("reply_lost", "unknown", True),
        ("request_lost", "unknown", False),
        ("late", "unknown", False),
        ("conflict", "conflict", False),
        ("throttled", "throttled", False),
    ],
)
def test_each_fault_of_a_write(alternative: str, outcome: str, landed: bool) -> None:
    world = play(one(create), [(1, alternative)])
    assert world.trace[-1][6].outcome.value == outcome
    assert (world.bucket.body("k") == b"1") == landed
    world.close()


def test_a_retry_by_the_sdk_finds_its_own_write() -> None:
    world = play(one(create), [(1, "duplicated"), (1, "ok"), (1, "ok"), (1, "ok")])
    assert world.processes[0].result == ["exists", "exists"]


def test_a_late_request_lands_after_its_sender_crashed_and_started_again() -> None:
    """A zombie: without it no audit finds a write that outlives its process."""
    world = play(one(create), [(1, "late"), (1, "crash"), (1, "ok"), (1, "ok"), (1, "ok")])
    assert world.processes[0].incarnation == 1
    assert world.enabled() == [LATE, CLOCK_ACTOR]
    world.step(LATE, "land")
    assert world.trace[-1][6].outcome is Outcome.EXISTS
    assert world.enabled() == []


def test_a_late_request_may_never_land() -> None:
    world = play(one(create), [(1, "late"), (LATE, "never")])
    assert world.bucket.contents() == {}
    world.close()


def test_a_crash_loses_memory_and_keeps_the_store() -> None:
    seen = []

    def count(world: World) -> int:
        mine = len(seen)
        seen.append(mine)
        world.store().put(f"k{mine}", b"", when=ABSENT)
        return mine

    world = play(one(count), [(1, "ok"), (1, "crash"), (1, "ok"), (1, "ok")])
    assert world.processes[0].result == 1
    assert world.bucket.contents() == {"k0": b"", "k1": b""}


def test_a_process_that_is_not_restarted_stays_down() -> None:
    world = play(one(create, restart=False), [(1, "crash")])
    assert world.processes[0].state == "down"
    assert world.enabled() == []


def test_a_crash_is_only_offered_where_it_makes_a_difference() -> None:
    def read_then_write(world: World) -> None:
        world.store().get("k")
        world.store().put("k", b"", when=ABSENT)

    world = play(one(read_then_write), [])
    assert "crash" not in world.alternatives(1)
    world.step(1, "ok")
    assert "crash" not in world.alternatives(1)
    world.step(1, "ok")
    assert "crash" in world.alternatives(1)
    world.close()


def test_cleaning_up_in_a_crash_reaches_nobody() -> None:
    def tidy(world: World) -> None:
        store = world.store()
        try:
            store.put("lock", b"", when=ABSENT)
            store.get("x")
        finally:
            store.delete("lock", when=ANYTHING)

    world = play(one(tidy, restart=False), [(1, "ok"), (1, "crash")])
    assert world.bucket.contents() == {"lock": b""}
    assert world.findings == []


def stubborn(world: World) -> None:
    while True:
        try:
            world.store().put("k", b"", when=ANYTHING)
        except BaseException:  # noqa: BLE001 - what is tested
            continue


def returning(world: World) -> None:
    try:
        world.store().put("k", b"", when=ANYTHING)
        world.store().get("k")
    except Crash:
        return


@pytest.mark.parametrize("body", [stubborn, returning])
def test_code_that_swallows_its_crash_is_reported_and_dead(body: Callable[[World], None]) -> None:
    world = play(one(body, restart=False), [(1, "ok"), (1, "crash")])
    assert world.processes[0].state == "down"
    assert ["swallows" in finding for finding in world.findings] == [True]


def test_parallel_requests_land_in_any_order_with_others_in_between() -> None:
    def both(world: World) -> list[bytes]:
        replies = world.store().send_all([req.Get("a"), req.Get("b")])
        return [reply.body for reply in replies]

    def program(world: World) -> None:
        world.spawn(both, world, name="reader")
        world.spawn(lambda: world.store().put("a", b"new", when=ANYTHING), name="writer")

    world = World()
    world.start(program)
    first, second = (actor for actor in world.enabled() if actor >= LATE)
    for actor in (second, 2, first):
        world.step(actor, "ok")
    world.step(1, "ok")
    assert world.processes[0].result == [b"new", b""]
    world.close()


def test_a_crash_in_a_parallel_step_ends_what_has_not_landed() -> None:
    def both(world: World) -> None:
        world.store().send_all([req.Put("a", b"", ABSENT), req.Put("b", b"", ABSENT)])

    world = World(budget=PLENTY)
    world.start(one(both, restart=False))
    first, second = (actor for actor in world.enabled() if actor >= LATE)
    world.step(second, "ok")
    assert "crash" in world.alternatives(first)
    world.step(first, "crash")
    assert world.bucket.contents() == {"b": b""}
    assert world.enabled() == []


def test_a_sleep_ends_at_any_step_and_a_pause_has_its_price() -> None:
    def nap(world: World, seconds: float) -> int:
        world.env.sleep(seconds)
        return world.env.monotonic_ns()

    def program(world: World) -> None:
        world.spawn(nap, world, 5, name="long")
        world.spawn(nap, world, 2, name="short")

    world = World()
    world.start(program)
    world.step(1, "ok")
    assert world.enabled() == [2, CLOCK_ACTOR]
    world.step(2, "ok")
    assert world.enabled() == [CLOCK_ACTOR]
    assert world.alternatives(CLOCK_ACTOR) == ("advance",)
    world.step(CLOCK_ACTOR, "advance")
    assert world.clock_ns == 2_000_000_000
    assert world.enabled() == [2, CLOCK_ACTOR]
    world.close()
    early = play(program, [(1, "ok"), (CLOCK_ACTOR, "advance")])
    assert early.clock_ns == 5_000_000_000
    early.close()
    paused = play(program, [(CLOCK_ACTOR, "pause")])
    assert paused.clock_ns == 60_000_000_000
    assert paused.run.budget_left[fault.PAUSE] == PLENTY.pause - 1
    paused.close()


def test_a_skewed_clock_stays_skewed_and_is_one_process_s_own() -> None:
    def look(world: World) -> int:
        return (world.env.now_ns() + world.env.now_ns()) // 2 - world.start_ns

    def program(world: World) -> None:
        world.spawn(look, world, name="ahead")
        world.spawn(look, world, name="right")

    world = play(program, [(1, "skew+"), (1, "ok"), (1, "ok"), (2, "ok"), (2, "ok"), (2, "ok")])
    assert [process.result for process in world.processes] == [30_000_000_000, 0]


def test_identifiers_and_streams_depend_on_seed_and_process_alone() -> None:
    def draw(world: World) -> tuple[str, str, float]:
        return world.env.new_id(), world.env.new_id(), world.env.stream("jitter").random()

    def results(order: Sequence[int], seed: int) -> list[Any]:
        def program(world: World) -> None:
            world.spawn(draw, world, name="p")
            world.spawn(draw, world, name="q")

        world = play(program, [(actor, "ok") for actor in order], seed=seed)
        return [process.result for process in world.processes]

    assert results([1, 2], 0) == results([2, 1], 0)
    assert results([1, 2], 0) != results([1, 2], 1)
    (p1, p2, _), (q1, _, _) = results([1, 2], 0)
    assert p1 < p2
    assert q1 not in (p1, p2)


def test_versions_are_named_alike_in_every_order() -> None:
    """Else writes to different keys would not commute, and reduced exploration would be unsound."""

    def write(world: World, key: str) -> str:
        return world.store().put(key, b"", when=ANYTHING).version

    def program(world: World) -> None:
        world.configure(versioned=True)
        world.spawn(write, world, "a", name="p")
        world.spawn(write, world, "b", name="q")

    orders = [play(program, [(a, "ok") for a in order]) for order in ([1, 1, 2, 2], [2, 2, 1, 1])]
    assert len({str([p.result for p in world.processes]) for world in orders}) == 1


def test_a_senseless_request_is_raised_where_it_was_made() -> None:
    def ask_nonsense(world: World) -> str:
        with pytest.raises(Misuse):
            world.store().get("")
        return "raised"

    assert play(one(ask_nonsense), [(1, "ok"), (1, "ok")]).processes[0].result == "raised"


def test_an_exception_that_leaves_a_process_is_a_violation_unless_expected() -> None:
    def fail(world: World) -> None:
        raise KeyError("gone")

    world = play(one(fail), [(1, "ok")])
    assert world.violation is not None
    assert "KeyError" in world.violation.reason
    assert play(one(fail, may_raise=(KeyError,)), [(1, "ok")]).violation is None


def test_a_check_may_look_and_not_write() -> None:
    def program(world: World) -> None:
        world.spawn(lambda: world.store().put("k", b"", when=ANYTHING), name="p")
        world.always(
            "meddling", lambda view: view.get("k") is None or world.store().delete("k", when=ANYTHING)
        )

    with pytest.raises(AuditError, match="look at the store, not change it"):
        play(program, [(1, "ok")])


def test_swaps_keep_the_etag_that_was_read() -> None:
    def swap(world: World) -> str:
        store = world.store()
        etag = store.put("k", b"1", when=ABSENT).etag
        return store.put("k", b"2", when=Matches(etag)).outcome.value

    assert play(one(swap), [(1, "ok")] * 3).processes[0].result == "done"


def test_a_delayed_message_is_overtaken_and_arrives_later() -> None:
    def send(world: World) -> None:
        world.post("news", 1)
        world.post("news", 2)

    def listen(world: World) -> list[Any]:
        return [world.receive("news") for _ in range(3)]

    def program(world: World) -> None:
        world.spawn(send, world, name="p")
        world.spawn(listen, world, name="q")

    choices = [
        (1, "notification_delayed"),
        (2, "ok"),
        (1, "ok"),
        (2, "ok"),
        (LATE, "land"),
        (2, "ok"),
        (2, "ok"),
    ]
    world = play(program, choices)
    assert world.processes[1].result == [None, 2, 1]
    world.close()
