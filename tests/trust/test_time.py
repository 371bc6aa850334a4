"""Time is adversarial: what a program can compare differs wherever it may differ, within the printed bound.

If this fails, an audit says "holds" although a sleep, a restart or a second between two writes breaks the
program.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Outcome
from fencepost.sim.explore import audit
from fencepost.sim.world import NO_FAULTS, Budget, World

Program = Callable[[World], None]
STRATEGIES = ("exhaustive", "plain")


def verdict_of(program: Program, budget: Budget = NO_FAULTS, strategy: str = "exhaustive") -> str:
    return audit(program, budget=budget, strategy=strategy, minimise_seconds=0.1).verdict


def lease(world: World, sleep_s: float = 10) -> None:
    """A restarted holder takes its old lease for fresh."""
    store = world.store()

    def hold() -> None:
        found = store.get("lease")
        if found.done:
            world.note("age", store.env.now_ns() - int(found.body))
            return
        store.put("lease", b"%d" % store.env.now_ns(), when=ANYTHING)
        store.env.sleep(sleep_s)
        store.head("work")

    world.spawn(hold, name="holder")
    world.always("leases are fresh", lambda view: all(age < 5e9 for age in view.notes("age")))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_crash_after_a_sleep_is_not_the_crash_before_it(strategy: str) -> None:
    assert verdict_of(lease, replace(NO_FAULTS, crash=1), strategy) == "violated"
    assert verdict_of(lambda world: lease(world, 3), replace(NO_FAULTS, crash=1)) == "holds"


def collector(world: World, younger: Callable[[int, int], bool]) -> None:
    """Deletes what it takes for garbage by the times of modification."""
    store = world.store()

    def write() -> None:
        if store.put("data/o", b"o", when=ANYTHING).done:
            store.put("manifest", b"data/o", when=ANYTHING)

    def collect() -> None:
        manifest = store.head("manifest").info
        for found in store.list("data/").objects if manifest else ():
            if younger(found.modified_ns, manifest.modified_ns):
                store.delete(found.key, when=ANYTHING)

    world.spawn(write, name="writer")
    world.spawn(collect, name="collector")
    world.always(
        "what the manifest names is there",
        lambda view: view.get("manifest") is None or view.get("data/o") is not None,
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_times_of_modification_differ_although_nothing_sleeps(strategy: str) -> None:
    assert verdict_of(lambda world: collector(world, lambda o, m: o < m), strategy=strategy) == "violated"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_times_of_modification_may_be_equal(strategy: str) -> None:
    assert verdict_of(lambda world: collector(world, lambda o, m: o == m), strategy=strategy) == "violated"
    # The object is written before the manifest, so this can never be.
    assert verdict_of(lambda world: collector(world, lambda o, m: o > m)) == "holds"


def test_programs_that_never_look_at_times_of_modification_pay_nothing() -> None:
    def looks(world: World) -> None:
        collector(world, lambda o, m: o < m)

    def does_not(world: World) -> None:
        collector(world, lambda o, m: False)

    def never_reads(world: World) -> None:
        store = world.store()
        for key in "abc":
            world.spawn(store.put, key, b"", when=ANYTHING, name=key)

    bound, _, _ = audit(does_not, budget=NO_FAULTS).bound.partition("; not tried: ")
    assert bound == audit(looks, budget=NO_FAULTS).bound.replace(
        "a schedule of 2 processes with no faults breaks a property",
        "every schedule of 2 processes with no faults; time moves on by itself once, by 1 s",
    )
    assert audit(never_reads, budget=NO_FAULTS).schedules == 1


Look = Callable[[dt.datetime, dt.datetime], bool]


def collector_on_boto3(world: World, younger: Look) -> None:
    world.boto3_bucket("b")
    s3 = world.boto3_client("s3")

    def write() -> None:
        s3.put_object(Bucket="b", Key="data/o", Body=b"o")
        s3.put_object(Bucket="b", Key="manifest", Body=b"data/o")

    def collect() -> None:
        listed = s3.list_objects_v2(Bucket="b").get("Contents", [])
        manifests = [found for found in listed if found["Key"] == "manifest"]
        for found in listed if manifests else ():
            shown = s3.head_object(Bucket="b", Key=found["Key"])["LastModified"]
            if found["Key"] != "manifest" and younger(shown, manifests[0]["LastModified"]):
                s3.delete_object(Bucket="b", Key=found["Key"])

    world.spawn(write, name="writer")
    world.spawn(collect, name="collector")
    world.always(
        "what the manifest names is there",
        lambda view: view.get("b/manifest") is None or view.get("b/data/o") is not None,
    )


LOOKS: dict[str, Look] = {
    "compared": lambda o, m: o < m,
    "subtracted": lambda o, m: (m - o).total_seconds() > 0,
    "as numbers": lambda o, m: o.timestamp() < m.timestamp(),
    "as texts": lambda o, m: o.isoformat() < m.isoformat(),
    "sorted": lambda o, m: min(m, o) is not m,
}


@pytest.mark.parametrize("look", LOOKS)
def test_the_sdk_s_times_of_modification_differ_too(look: str) -> None:
    program = lambda world: collector_on_boto3(world, LOOKS[look])  # noqa: E731 - one expression
    assert verdict_of(program) == "violated"


@pytest.mark.parametrize("raw", [False, True])
def test_the_raw_header_of_a_time_of_modification_is_noticed_too(raw: bool) -> None:
    """So is the parsed time."""

    def program(world: World) -> None:
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3")

        def write() -> None:
            for key in "xy":
                s3.put_object(Bucket="b", Key=key, Body=b"")

        def compare() -> None:
            try:
                found = [s3.head_object(Bucket="b", Key=key) for key in "xy"]
            except s3.exceptions.ClientError:
                return
            times = [
                one["ResponseMetadata"]["HTTPHeaders"]["last-modified"] if raw else one["LastModified"]
                for one in found
            ]
            world.note("same", times[0] == times[1])

        world.spawn(write, name="writes")
        world.spawn(compare, name="compares")
        world.always("always at once", lambda view: all(view.notes("same")))

    assert verdict_of(program) == "violated"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_late_request_may_land_after_a_sleep(strategy: str) -> None:
    def program(world: World) -> None:
        store = world.store()

        def write() -> None:
            if store.put("k", b"1", when=ANYTHING).outcome is Outcome.UNKNOWN:
                store.env.sleep(30)
                store.delete("k", when=ANYTHING)
                world.note("cleaned")

        world.spawn(write, name="writer")
        world.always("clean", lambda view: not view.notes("cleaned") or view.get("k") is None)

    assert verdict_of(program, replace(NO_FAULTS, late=1), strategy) == "violated"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_sleep_may_end_before_others_take_their_steps(strategy: str) -> None:
    def program(world: World) -> None:
        store = world.store()

        def takes() -> None:
            store.put("intent/ann", b"", when=ANYTHING)
            store.env.sleep(0.1)
            world.note("in", store.head("intent/bob").done)

        def joins() -> None:
            store.head("intent/ann")
            store.put("intent/bob", b"", when=ANYTHING)

        world.spawn(takes, name="ann")
        world.spawn(joins, name="bob")
        world.always("both are seen", lambda view: all(view.notes("in")))

    assert verdict_of(program, strategy=strategy) == "violated"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("same", [True, False])
def test_two_readings_of_the_clock_may_differ_and_may_be_equal(strategy: str, same: bool) -> None:
    def program(world: World) -> None:
        env = world.env
        for name in ("ann", "bob"):
            world.spawn(lambda: world.note("at", env.now_ns()), name=name)
        world.always(
            "in order",
            lambda view: len(view.notes("at")) < 2 or (len(set(view.notes("at"))) == 1) is not same,
        )

    assert verdict_of(program, strategy=strategy) == "violated"


def test_a_waiting_loop_that_sleeps_is_followed_fairly() -> None:
    """Without the limit on early ends of sleeps this search would not end."""

    def program(world: World) -> None:
        store = world.store()

        def wait() -> None:
            while not (store.head("a").done and store.head("b").done):
                store.env.sleep(1)

        def write() -> None:
            store.put("a", b"", when=ABSENT)
            store.put("b", b"", when=ABSENT)

        world.spawn(wait, name="waits")
        world.spawn(write, name="writes")
        world.finally_("both are there", lambda view: view.keys("") == ["a", "b"])

    result = audit(program, budget=NO_FAULTS)
    assert result.verdict == "holds"
    assert "a loop that waits is held back after 5 rounds" in result.bound


def test_a_loop_that_gives_up_after_some_sleeps_does_so() -> None:
    def program(world: World) -> None:
        store = world.store()

        def wait() -> None:
            for _ in range(4):
                if store.head("a").done:
                    return
                store.env.sleep(1)
            world.note("gave up")

        world.spawn(wait, name="waits")
        world.spawn(store.put, "a", b"", when=ABSENT, name="writes")
        world.always("it waits long enough", lambda view: not view.notes("gave up"))

    assert verdict_of(program) == "violated"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["always", "finally_", "step_property"])
@pytest.mark.parametrize(("faults", "late_s"), [(NO_FAULTS, 1), (replace(NO_FAULTS, pause=1), 60)])
def test_time_passes_for_a_check_that_looks_at_it(
    kind: str, faults: Budget, late_s: int, strategy: str
) -> None:
    """No process sleeps or reads the clock; only the check knows the time."""

    def program(world: World) -> None:
        for name in "ab":
            world.spawn(world.store().put, "k", name.encode(), when=ANYTHING, name=name)

        def in_time(*views: Any) -> bool:
            return views[-1].get("k") != b"b" or views[-1].now_ns() < world.start_ns + late_s * 1e9

        getattr(world, kind)("in time", in_time)

    assert verdict_of(program, faults, strategy) == "violated"
    assert verdict_of(program, replace(faults, pause=0), strategy) == ("violated" if late_s == 1 else "holds")


def test_a_clock_that_is_read_once_and_compared_with_a_constant_goes_on() -> None:
    """The comparison teaches its deadline; a reading alone decides nothing, and time stood still."""

    def program(world: World, *, reads: bool) -> None:
        store = world.store()
        opened_ns = world.env.now_ns() if reads else 1_700_000_000_000_000_000

        def steal() -> None:
            if store.env.now_ns() > opened_ns + 30e9:
                store.put("stolen", b"", when=ANYTHING)
            store.put("k", b"", when=ABSENT)

        for name in "ab":
            world.spawn(steal if name == "a" else partial(store.put, "k", b"b", when=ABSENT), name=name)
        world.always("nothing is stolen", lambda view: view.get("stolen") is None)

    paused = replace(NO_FAULTS, pause=1)
    assert verdict_of(partial(program, reads=True), paused) == "violated"
    assert verdict_of(partial(program, reads=False), paused) == "violated"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_that_showed_that_time_matters_counts_for_nothing(strategy: str) -> None:
    """Until the search knows that times of modification matter, objects carry the time of the start.

    Such a run is repeated. What it met, `sometimes` included, no run of the program may ever meet.
    """

    def program(world: World) -> None:
        store = world.store()

        def write() -> None:
            store.env.sleep(5)
            store.put("o", b"o", when=ANYTHING)

        def look() -> None:
            found = store.head("o").info
            now_ns = store.env.now_ns()
            if found is not None:
                world.note("age", now_ns - found.modified_ns)

        world.spawn(write, name="writer")
        world.spawn(look, name="reader")
        world.sometimes("an old object", lambda view: any(age >= 5e9 for age in view.notes("age")))

    found = audit(program, budget=NO_FAULTS, strategy=strategy)
    assert found.verdict == "undecided"
    assert found.findings == ("sometimes 'an old object': it never happened in any run",)
