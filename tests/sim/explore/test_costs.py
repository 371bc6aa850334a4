"""What operations cost is counted in every schedule, and bounds are judged in every schedule.

If this fails, "at most 3 requests" in a report is not true of some schedule that was explored.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Outcome
from fencepost.impl.store import requests as req
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers.metered import Metered
from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.explore import AuditOutcome, audit, replay
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Costs, Setting
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.costs import AtMost, Spent, spent
from fencepost.sim.world.stamps import STAMPED
from tests.sim.explore.programs import WATCHES, program_of, random_codes

ONE_CRASH = Budget(crash=1, reply_lost=0, request_lost=0, pause=0)
ONE_LOST = Budget(crash=0, reply_lost=1, request_lost=1, pause=0)
Program = Callable[[World], None]


def claim(store: Any, name: str) -> None:
    """One request when it wins, two when it does not; repeated when the reply is lost."""
    while store.put("leader", name.encode(), when=ABSENT).outcome is Outcome.UNKNOWN:
        pass
    store.get("leader")


def election(world: World) -> None:
    for name in ("ann", "bob"):
        world.spawn(claim, world.store(), name, name=name)


def levels(result: AuditOutcome, name: str) -> list[tuple[int, ...]]:
    """By faults: the most requests and hops, and their medians."""
    return [
        tuple(row[key] for key in ("faults", "requests", "hops", "requests_median", "hops_median"))
        for row in result.cost()[name]["faults"]
    ]


def test_a_process_is_an_operation_with_costs_by_faults() -> None:
    result = audit(election, budget=ONE_LOST)
    assert result.verdict == "holds"
    # A lost put is one more; a lost get is not repeated.
    assert levels(result, "ann") == levels(result, "bob") == [(0, 2, 2, 2, 2), (1, 3, 3, 2, 2)]
    assert (result.cost()["ann"]["requests"], result.cost()["ann"]["hops"]) == (3, 3)


@pytest.mark.parametrize(
    "budget", [Budget(pause=0), Budget(crash=0, reply_lost=0, request_lost=0, late=1, duplicated=1, pause=0)]
)
def test_what_a_process_did_not_send_is_not_its_cost(budget: Budget) -> None:
    """What lands late was counted when it was sent; what an SDK repeats is one request; and every process
    ends once in every schedule, whatever was cut short before."""

    def program(world: World) -> None:
        def live(store: Any, name: str) -> None:
            store.get("k")
            store.put(name, b"", when=ANYTHING)
            store.put("k", name.encode(), when=ANYTHING)

        for name in ("ann", "bob"):
            world.spawn(live, world.store(), name, name=name)

    result = audit(program, budget=budget)
    assert result.verdict == "holds"
    for row in result.cost().values():
        assert {(level["requests"], level["hops"]) for level in row["faults"]} == {(3, 3)}
        assert sum(level["ended"] for level in row["faults"]) == result.schedules


def test_only_requests_cost_and_a_parallel_step_is_one_hop() -> None:
    def program(world: World) -> None:
        def live() -> None:
            store = world.store()
            world.note("topic", 1)
            store.env.now_ns()
            world.pick("side", "xy")
            world.post("news", 1)
            world.receive("news")
            store.send_all([req.Put(key, b"12345", ABSENT) for key in "abc"])
            store.get("a")
            store.env.sleep(1.0)

        world.spawn(live, name="ann")
        world.spawn(lambda: world.store().get("a") and None, name="bob")

    cost = audit(program, budget=NO_FAULTS).cost()
    assert {name: cost["ann"][name] for name in ("requests", "hops", "bytes")} == {
        "requests": 4,
        "hops": 2,
        "bytes": 20,
    }
    assert (cost["bob"]["requests"], cost["bob"]["hops"], cost["bob"]["bytes"]) == (1, 1, 5)


def work(store: Store) -> None:
    store.put("a", b"one", when=ABSENT)
    store.send_all([req.Put(key, b"some", ANYTHING) for key in "bcd"])
    store.list("")
    store.send_all([req.Get("a"), req.Get("b")])


def test_it_counts_as_the_metered_layer_does() -> None:
    store = Metered(MemoryStore())
    with store.operation("work") as metered:
        work(store)
    program: Program = lambda world: world.spawn(work, world.store(), name="ann") and None  # noqa: E731 - short
    row = audit(program, budget=NO_FAULTS).cost()["ann"]
    assert (row["requests"], row["hops"], row["bytes"]) == (
        metered.requests,
        metered.serial_hops,
        metered.bytes_sent + metered.bytes_received,
    )


def in_operations(world: World) -> None:
    """Each process opens once, and then adds twice; an operation within another is part of both."""

    def live(store: Any, name: str) -> None:
        with world.operation("open"):
            store.get("head")
        for number in range(2):
            with world.operation("add"):
                with world.operation("write"):
                    store.put(f"{name}/{number}", b"", when=ANYTHING)
                store.put("head", name.encode(), when=ANYTHING)

    for name in ("ann", "bob"):
        world.spawn(live, world.store(), name, name=name)


def test_operations_are_listed_by_name() -> None:
    result = audit(in_operations, budget=ONE_CRASH)
    assert result.verdict == "holds"
    assert {name: row["requests"] for name, row in result.cost().items()} == {
        "add": 2, "ann": 5, "bob": 5, "open": 1, "write": 1,
    }  # fmt: skip
    # What the crash cut short is left out: nothing of it ended.
    assert [row["requests_median"] for row in result.cost()["ann"]["faults"]] == [5, 5]


def test_an_operation_knows_the_faults_that_it_met() -> None:
    """Those within it as well as those before."""

    def program(world: World) -> None:
        def live(name: str) -> None:
            with world.operation("claim"):
                claim(world.store(), name)

        for name in ("ann", "bob"):
            world.spawn(live, name, name=name)

    result = audit(program, budget=ONE_LOST)
    assert levels(result, "claim") == [(0, 2, 2, 2, 2), (1, 3, 3, 2, 2)]


def test_an_operation_within_one_of_its_name_is_one_of_its_own() -> None:
    def program(world: World) -> None:
        def live() -> None:
            with world.operation("step"):
                world.store().get("a")
                with world.operation("step"):
                    world.store().get("b")
                world.store().get("c")

        for name in ("ann", "bob"):
            world.spawn(live, name=name)

    row = audit(program, budget=NO_FAULTS).cost()["step"]["faults"][0]
    assert (row["requests"], row["requests_median"]) == (3, 1)


def test_what_a_crash_cuts_short_has_not_ended() -> None:
    world = World(budget=Budget(crash=1, reply_lost=0, request_lost=0, pause=0))
    world.start(in_operations)
    for alternative in ("ok", "ok", "crash"):
        world.step(1, alternative)
    assert [one.name for one in spent(world)] == ["open", "write"], "the first add never ended"
    world.close()


def test_with_at_most_so_many_faults_is_with_fewer_as_well() -> None:
    """A run that has a fault may be cheaper; a bound for one fault is one for none."""
    counted = Counter({Spent("a", 0, 5, 5, 0): 1, Spent("a", 1, 3, 3, 0): 9})
    none, one = Costs(counted, {AtMost("a", 7, None, 1)}).table()["a"]["faults"]
    assert (none["requests"], one["requests"]) == (5, 5)
    assert (none["requests_median"], one["requests_median"]) == (5, 3)
    assert (none["requests_max"], one["requests_max"]) == (7, 7)


def test_that_time_passes_is_no_fault() -> None:
    def program(world: World) -> None:
        def live(name: str) -> None:
            world.store().put("k", name.encode(), when=ANYTHING)
            world.store().env.sleep(1.0)
            world.store().env.now_ns()  # pauses are explored where a process knows the time
            world.store().get("k")

        for name in ("ann", "bob"):
            world.spawn(live, name, name=name)

    result = audit(program, budget=Budget(crash=0, reply_lost=0, request_lost=0, pause=1))
    assert result.coverage.faults["pause"]
    assert [row[0] for row in levels(result, "ann")] == [0]


def test_marking_an_operation_is_no_step() -> None:
    """The program is explored as it was without: as many schedules, as many faults."""

    def plainly(world: World) -> None:
        def live(store: Any, name: str) -> None:
            store.get("head")
            for number in range(2):
                store.put(f"{name}/{number}", b"", when=ANYTHING)
                store.put("head", name.encode(), when=ANYTHING)

        for name in ("ann", "bob"):
            world.spawn(live, world.store(), name, name=name)

    one, other = (audit(program, budget=ONE_CRASH, exact_costs=True) for program in (in_operations, plainly))
    assert (one.schedules, one.pruned) == (other.schedules, other.pruned)
    assert one.coverage.steps == other.coverage.steps


def test_the_same_where_processes_are_remembered_and_not_run() -> None:
    def promised(world: World) -> None:
        world.share_nothing()
        in_operations(world)

    one, other = (audit(program, budget=ONE_CRASH) for program in (in_operations, promised))
    assert one.cost() == other.cost()


def bounded(faults: int | None, requests: int) -> Program:
    def program(world: World) -> None:
        election(world)
        world.at_most("ann", requests=requests, hops=requests, faults=faults)

    return program


def test_a_bound_that_is_broken_fails_with_its_schedule() -> None:
    result = audit(bounded(None, 2), budget=ONE_LOST)
    assert result.verdict == "violated"
    (counterexample,) = result.counterexamples
    assert counterexample.property == "cost of ann"
    assert counterexample.reason == (
        "it took 3 requests and 3 serial hops with 1 fault, and may take 2 requests and 2 serial hops"
    )
    assert [(line.process, line.fault) for line in counterexample.lines if line.fault] == [
        ("ann", "reply_lost")
    ]
    again = replay(bounded(None, 2), counterexample.token, budget=ONE_LOST)
    assert str(again.violation) == f"cost of ann: {counterexample.reason}"


def test_a_bound_holds_for_so_many_faults_and_no_more() -> None:
    assert audit(bounded(0, 2), budget=ONE_LOST).verdict == "holds"
    assert audit(bounded(1, 3), budget=ONE_LOST).verdict == "holds"
    reason = audit(bounded(0, 1), budget=ONE_LOST).counterexamples[0].reason
    assert reason.startswith("it took 2 requests and 2 serial hops without faults, and may take 1 request")
    assert reason.endswith("without faults")
    assert audit(bounded(1, 2), budget=ONE_LOST).verdict == "violated"


def test_bounds_stand_beside_what_was_counted() -> None:
    def program(world: World) -> None:
        bounded(0, 2)(world)
        world.at_most("ann", hops=9)

    row = audit(program, budget=ONE_LOST).cost()["ann"]
    assert row["hops_max"] == 9
    assert "requests_max" not in row
    none, one = row["faults"]
    assert (none["requests_max"], none["hops_max"]) == (2, 2)
    assert "requests_max" not in one
    assert one["hops_max"] == 9


def test_a_bound_for_nobody_is_a_finding() -> None:
    def program(world: World) -> None:
        election(world)
        world.at_most("cid", requests=1)

    result = audit(program, budget=ONE_LOST)
    assert result.verdict == "undecided"
    assert result.findings == ("cost of cid: no process and no operation of this name ever came to its end",)


def test_a_bound_of_an_operation_is_judged_where_the_operation_ends() -> None:
    """Not when its process ends, which may be long after."""

    def program(world: World) -> None:
        in_operations(world)
        world.at_most("add", requests=1)

    counterexample = audit(program, budget=NO_FAULTS).counterexamples[0]
    assert [str(line).split()[2] for line in counterexample.lines] == ["get", "put", "put"]


@pytest.mark.parametrize("strategy", ["plain", "random", "pct", "hypothesis"])
def test_every_strategy_counts_and_judges(strategy: str) -> None:
    found = audit(election, budget=ONE_LOST, strategy=strategy, schedules=300)
    assert found.cost()["ann"]["requests"] in (2, 3)
    assert found.cost()["ann"]["faults"][0]["requests"] == 2
    broken = audit(bounded(0, 1), budget=ONE_LOST, strategy=strategy, schedules=300)
    assert broken.counterexamples[0].property == "cost of ann"


def test_code_on_boto3_is_counted_with_the_retries_of_the_sdk() -> None:
    def live(s3: Any, name: str) -> None:
        s3.put_object(Bucket="jobs", Key=name, Body=b"12345")
        s3.delete_objects(Bucket="jobs", Delete={"Objects": [{"Key": "x"}, {"Key": "y"}]})

    def program(world: World) -> None:
        world.boto3_bucket("jobs")
        world.spawn(live, world.boto3_client("s3"), "ann", name="ann")

    result = audit(program, budget=ONE_LOST)
    row = result.cost()["ann"]
    assert [(level["requests"], level["hops"]) for level in row["faults"]] == [(3, 2), (5, 3)]


def test_several_operating_system_processes_count_together() -> None:
    one, two = (audit(election, budget=ONE_LOST, jobs=jobs) for jobs in (1, 2))
    for name in ("ann", "bob"):
        assert [row[:3] for row in levels(one, name)] == [row[:3] for row in levels(two, name)]


def test_a_search_that_is_taken_up_again_knows_what_it_counted(tmp_path: Any) -> None:
    file = str(tmp_path / "search")
    whole = audit(in_operations, budget=ONE_CRASH)
    audit(in_operations, budget=ONE_CRASH, schedules=40, checkpoint=file)
    rest = audit(in_operations, budget=ONE_CRASH, checkpoint=file, resume=True)
    assert rest.verdict == "holds"
    for name in whole.cost():
        assert [row[:3] for row in levels(whole, name)] == [row[:3] for row in levels(rest, name)]


def most(search: Any) -> dict[str, list[tuple[int, int, int, int]]]:
    """The most by faults, every level filled in."""
    found = {}
    for name, row in search.coverage.costs.table().items():
        rows = {one["faults"]: (one["requests"], one["hops"]) for one in row["faults"]}
        found[name] = [max((rows[n] for n in rows if n <= level), default=()) for level in range(3)]
    return found  # type: ignore[return-value]  # the empty one stands for nothing


SEEDS = (
    7, 15, 18, 25, 36, 41, 52, 59, 61, 64, 78, 80, 82, 83, 88, 89, 93, 104, 121, 125, 131, 137, 143,
    144, 149, 150, 156, 159, 165, 176, 179, 183, 184, 185, 200, 204, 206, 218, 238, 239, 250, 260, 267,
    276, 277, 279, 286, 294,
)  # fmt: skip
"""Random programs that plain enumeration ends on: 60 to 1,000 schedules."""


@pytest.mark.parametrize(
    "seed",
    [*SEEDS[::4], *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS if seed not in SEEDS[::4])],
)
def test_the_most_is_what_plain_enumeration_finds(seed: int) -> None:
    """Nothing that is left out, as a repetition or at a known state, costs more than what is not."""
    draw = Random(seed)
    codes, watch = random_codes(draw, 3), draw.choice(WATCHES)
    budget = draw.choice([ONE_CRASH, ONE_LOST, Budget(crash=1, reply_lost=1, request_lost=1, pause=0)])
    setting = Setting(program_of(codes, watch), budget)
    plain = Plain(setting, first_only=False)
    plain.explore()
    for merge in (True, False):
        reduced = ReducedSearch(setting, first_only=False, merge=merge, timed=STAMPED)
        reduced.explore()
        assert most(reduced) == most(plain), merge


def test_what_makes_no_sense_is_refused() -> None:
    def in_setup(world: World) -> None:
        with world.operation("x"):
            pass

    def like_a_process(world: World) -> None:
        def live() -> None:
            with world.operation("ann"):
                pass

        world.spawn(live, name="ann", may_raise=(Misuse,))
        world.finally_("refused", lambda view: isinstance(view.error("ann"), Misuse))

    with pytest.raises(Misuse, match="operations are named by processes"):
        audit(in_setup)
    assert audit(like_a_process).verdict != "violated"
    for arguments, message in (
        ({}, "bounds nothing"),
        ({"faults": 1}, "bounds nothing"),
        ({"requests": -1}, "whole numbers"),
        ({"hops": 1.5}, "whole numbers"),
    ):
        with pytest.raises(Misuse, match=message):
            audit(lambda world, arguments=arguments: world.at_most("ann", **arguments))


def dear_in_between(world: World) -> None:
    """Ann pays most between two steps of bob, and leaves nothing: what comes then is known."""

    def ann(store: Any) -> None:
        if store.get("x").done and not store.get("v").done:
            store.get("nothing")

    def bob(store: Any) -> None:
        store.put("x", b"", when=ANYTHING)
        store.put("v", b"", when=ANYTHING)
        cid(store, "bob")

    def cid(store: Any, name: str) -> None:
        for number in range(3):
            store.put("y", f"{name} {number}".encode(), when=ANYTHING)

    world.spawn(ann, world.store(), name="ann")
    world.spawn(bob, world.store(), name="bob")
    world.spawn(cid, world.store(), "cid", name="cid")


def test_what_ended_before_a_known_state_is_counted() -> None:
    search = ReducedSearch(Setting(dear_in_between, NO_FAULTS))
    search.explore()
    assert search.merged
    assert most(search)["ann"][0] == (3, 3)

    def bounded(world: World) -> None:
        dear_in_between(world)
        world.at_most("ann", requests=2)

    assert audit(bounded, budget=NO_FAULTS).counterexamples[0].property == "cost of ann"
