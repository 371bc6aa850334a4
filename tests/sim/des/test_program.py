"""The program of an audit in simulated time: what theory says of it, and the same on boto3.

If this fails, `fencepost simulate FILE:FUNCTION` shows latencies that the program would not have.
"""

import threading
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.impl.store.requests import Get, Put
from fencepost.sim.des.latency import Constant, Lognormal, Profile
from fencepost.sim.des.program import NotTimed, ProgramSetup, simulate_program
from fencepost.sim.des.server import StoreModel
from fencepost.sim.world import World

MS = 1_000_000
TEN = StoreModel(Profile(Constant(10 * MS)))


def add(store: Any) -> None:
    """Add 1 to a counter, as often as it takes."""
    while True:
        found = store.get("count")
        value = int(found.body) if found.done else 0
        when = Matches(found.info.etag) if found.done else ABSENT
        if store.put("count", b"%d" % (value + 1), when=when).done:
            return


def adders(world: World) -> None:
    for name in ("ann", "bob"):
        world.spawn(add, world.store(), name=name)
    world.always("never judged", lambda view: False)


def badd(s3: Any) -> None:
    from botocore.exceptions import ClientError

    while True:
        condition: dict[str, str] = {"IfNoneMatch": "*"}
        value = 0
        try:
            found = s3.get_object(Bucket="b", Key="count")
            condition, value = {"IfMatch": found["ETag"]}, int(found["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
        try:
            s3.put_object(Bucket="b", Key="count", Body=b"%d" % (value + 1), **condition)
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise
        else:
            return


def adders_on_boto3(world: World) -> None:
    world.boto3_bucket("b")
    for name in ("ann", "bob"):
        world.spawn(badd, world.boto3_client("s3"), name=name)


def test_one_client_takes_a_latency_for_each_hop() -> None:
    found = simulate_program(adders, ProgramSetup(TEN, clients=1, operations=20))
    stats = found.operations["add"]
    assert (stats.count, stats.p50, stats.max, stats.requests, stats.serial_hops) == (20, 20, 20, 2, 2)
    assert found.requests == {"get": 20, "put": 20}
    assert not found.failed


def test_contention_is_the_codes_own() -> None:
    """A refused write is tried again: each refusal costs one more round, and nothing is lost."""
    found = simulate_program(adders, ProgramSetup(TEN, clients=8, operations=10))
    stats = found.operations["add"]
    refused = found.outcomes["put changed"] + found.outcomes.get("put exists", 0)
    assert stats.count == 80
    assert refused > 80
    assert found.requests["put"] == 80 + refused
    assert stats.requests == pytest.approx(2 * (80 + refused) / 80)


def test_boto3_takes_the_time_of_the_native_store() -> None:
    setup = ProgramSetup(StoreModel(Profile(Lognormal(10 * MS, 30 * MS))), clients=4, operations=5)
    native, boto3 = (simulate_program(program, setup) for program in (adders, adders_on_boto3))
    assert native.latencies_ms["add"] == boto3.latencies_ms["badd"]
    assert (native.requests, native.outcomes) == (boto3.requests, boto3.outcomes)


def test_a_run_is_a_function_of_its_seed() -> None:
    store = StoreModel(Profile(Lognormal(10 * MS, 30 * MS)))
    one, again, other = (
        simulate_program(adders, ProgramSetup(store, clients=3, operations=5, seed=seed))
        for seed in (1, 1, 2)
    )
    assert one == again
    assert one.latencies_ms == again.latencies_ms != other.latencies_ms


def reads(world: World) -> None:
    store = world.store()
    world.spawn(lambda: store.get("k"), name="reader")


def test_a_server_of_one_place_serves_one_latency_after_another() -> None:
    store = StoreModel(Profile(Constant(10 * MS)), in_flight=1)
    found = simulate_program(reads, ProgramSetup(store, clients=16, operations=20))
    assert found.throughput == pytest.approx(100, rel=0.01)
    assert found.operations["reader"].p50 == pytest.approx(160, rel=0.01)
    assert found.saturation["store.in_flight"] > 0.98


def test_the_clients_cores_are_shared() -> None:
    """The processor of the clients is the bottleneck, not the server."""
    setup = ProgramSetup(TEN, clients=16, operations=50, client_cpu_ns=2 * MS, client_cores=1)
    assert simulate_program(reads, setup).throughput == pytest.approx(500, rel=0.01)
    alone = simulate_program(reads, ProgramSetup(TEN, clients=1, client_cpu_ns=2 * MS, client_cores=1))
    assert alone.operations["reader"].p50 == 12


def test_thinking_is_no_latency() -> None:
    found = simulate_program(reads, ProgramSetup(TEN, clients=1, operations=11, think_ns=90 * MS))
    assert found.operations["reader"].max == 10
    assert found.window_s == pytest.approx(10 * 0.1 + 0.01, abs=0.05)


def test_sleeps_clocks_and_parallel_steps_take_their_time() -> None:
    def program(world: World) -> None:
        store, env = world.store(), world.env

        def work() -> None:
            before = env.now_ns()
            env.sleep(1.0)
            store.send_all([Get("a"), Put("b", b"", ANYTHING), Get("c")])
            assert env.now_ns() - before == 1010 * MS

        world.spawn(work)

    found = simulate_program(program, ProgramSetup(TEN, operations=3))
    stats = found.operations["work"]
    assert (found.failed, stats.count, stats.max) == ({}, 3, 1010)
    assert (stats.requests, stats.serial_hops) == (3, 1)


def test_parts_of_an_operation_are_measured_too() -> None:
    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            store.get("a")
            with world.operation("commit"):
                store.put("b", b"", when=ANYTHING)

        world.spawn(work)

    found = simulate_program(program, ProgramSetup(TEN, operations=4))
    assert (found.operations["work"].p50, found.operations["commit"].p50) == (20, 10)
    assert found.operations["commit"].requests == 1
    assert found.throughput == pytest.approx(50, rel=0.5)


def test_threads_wait_for_one_another() -> None:
    def program(world: World) -> None:
        s3 = world.boto3_client("s3")
        world.boto3_bucket("b")

        def work() -> None:
            threads = [
                threading.Thread(target=s3.put_object, kwargs={"Bucket": "b", "Key": key, "Body": b"x"})
                for key in "abc"
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        world.spawn(work)

    found = simulate_program(program, ProgramSetup(TEN, operations=2))
    stats = found.operations["work"]
    assert (found.failed, stats.count, stats.requests, stats.max) == ({}, 2, 3, 10)


def test_a_failed_operation_is_counted_by_its_reason() -> None:
    def program(world: World) -> None:
        store = world.store()

        def claim() -> None:
            if not store.put("k", b"", when=ABSENT).done:
                raise LookupError("taken")

        for name in ("a", "b", "c"):
            world.spawn(claim, name=name)

    found = simulate_program(program, ProgramSetup(TEN))
    assert found.failed == {"claim: LookupError": 2}
    assert found.operations["claim"].count == 1


def test_what_never_ends_is_one_sentence() -> None:
    def spins(world: World) -> None:
        env = world.env

        def wait() -> None:
            while env.now_ns():
                pass

        world.spawn(wait)

    with pytest.raises(NotTimed, match="took no time"):
        simulate_program(spins, ProgramSetup(TEN))
    with pytest.raises(NotTimed, match="spawns no process"):
        simulate_program(lambda world: None, ProgramSetup(TEN))
