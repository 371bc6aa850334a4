"""Faults show to the SDK as on a real network, and its own retries react to them."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from fencepost.sim.boto import lost_shows_as
from fencepost.sim.explore import ReducedSearch, Setting, replay
from fencepost.sim.world import Budget, View, World
from tests.sim.boto.worlds import explored

ONCE = Config(retries={"total_max_attempts": 1, "mode": "standard"})
LEGACY = Config(retries={"mode": "legacy"})
MODES = ["legacy", "standard", "adaptive"]


def create(world: World, s3: Any, name: str) -> None:
    """The creator of the key leads; a refusal means that another process does."""
    try:
        s3.put_object(Bucket="b", Key="leader", Body=name.encode(), IfNoneMatch="*")
        world.note("leads", name)
    except ClientError as refused:
        if refused.response["Error"]["Code"] != "PreconditionFailed":
            raise


def create_and_look(world: World, s3: Any, name: str) -> None:
    """One attempt, and then the key itself says who leads."""
    try:
        s3.put_object(Bucket="b", Key="leader", Body=name.encode(), IfNoneMatch="*")
    except ConnectionClosedError:
        pass
    except ClientError as refused:
        if refused.response["Error"]["Code"] != "PreconditionFailed":
            raise
    try:
        if s3.get_object(Bucket="b", Key="leader")["Body"].read() == name.encode():
            world.note("leads", name)
    except (ClientError, ConnectionClosedError):
        create_and_look(world, s3, name)


def electing(how: Callable[..., None], config: Config) -> Callable[[World], None]:
    def program(world: World) -> None:
        world.boto3_bucket("b")
        for name in ("ann", "bob"):
            world.spawn(
                how,
                world,
                world.boto3_client("s3", config=config),
                name,
                name=name,
                may_raise=(ConnectionClosedError,),
            )
        world.always("at most one leads", lambda view: len(view.notes("leads")) <= 1)
        world.finally_("somebody leads", somebody_leads)

    return program


def somebody_leads(view: View) -> str | None:
    """Unless nobody came through alive to say so."""
    if view.get("b/leader") is None or view.notes("leads"):
        return None
    return f"{view.get('b/leader')!r} stands there, and nobody leads"


@pytest.mark.parametrize("mode", [*MODES[:-1], pytest.param(MODES[-1], marks=pytest.mark.slow)])
def test_the_sdk_is_refused_by_its_own_write(mode: str) -> None:
    """The reply is lost, the SDK sends the request again, and causes the 412 itself."""
    result = explored(electing(create, Config(retries={"mode": mode})), reply_lost=1, request_lost=1)
    assert result.verdict == "violated"
    counterexample = result.counterexamples[0]
    assert counterexample.property == "somebody leads"
    landings = [
        event for event in counterexample.events if event.phase == "landed" and event.process == "ann"
    ]
    assert [(event.kind, event.key, event.outcome) for event in landings] == [
        ("put", "b/leader", "done"),
        ("put", "b/leader", "exists"),
    ]
    # The SDK sleeps before it sends again, and may do so before others go on: no switch is needed.
    first, *others = counterexample.token.split(",")
    assert first == "ann:put:b/leader:1=reply_lost"
    assert {other.partition(":")[0] for other in others} <= {"ann", "clock"}


@pytest.mark.parametrize("mode", MODES)
def test_no_fault_no_failure(mode: str) -> None:
    result = explored(electing(create, Config(retries={"mode": mode})))
    assert result.verdict == "holds"


def test_one_attempt_and_a_look_is_sound() -> None:
    result = explored(electing(create_and_look, ONCE), reply_lost=1, request_lost=1, late=1)
    assert result.verdict == "holds", result
    assert result.coverage.faults["reply_lost"]
    assert result.coverage.faults["late"]


def test_a_write_lands_long_after_its_sender_gave_up() -> None:
    """The zombie: ann gets no reply, deletes what bob wrote in between, and then her write lands."""

    def give_up(s3: Any) -> str:
        try:
            s3.put_object(Bucket="b", Key="k", Body=b"ann")
        except ConnectionClosedError:
            s3.delete_object(Bucket="b", Key="k")
            return "cleaned up"
        return "done"

    def program(world: World) -> None:
        world.boto3_bucket("b")
        world.spawn(give_up, world.boto3_client("s3", config=ONCE), name="ann")
        world.finally_(
            "clean is clean",
            lambda view: view.result("ann") != "cleaned up" or view.get("b/k") is None,
        )

    assert explored(program, reply_lost=1, request_lost=1).verdict == "holds"
    result = explored(program, late=1)
    assert result.verdict == "violated"
    assert "lands now" in str(result)


def endings(work: Callable[[Any], Any], how: str = "closed", **faults: int) -> set[Any]:
    """Every way that `work` can end, over all schedules."""
    found: set[Any] = set()

    def program(world: World) -> None:
        lost_shows_as(world, how)
        world.boto3_bucket("b")
        world.spawn(work, world.boto3_client("s3", config=ONCE), name="ann")

    def observe(world: World) -> None:
        found.add((world.processes[0].result, tuple(sorted(world.bucket.contents()))))

    search = ReducedSearch(
        Setting(program, Budget(**{"crash": 0, "reply_lost": 0, "request_lost": 0, "pause": 0} | faults)),
        observe=observe,
    )
    search.explore()
    assert search.exhausted
    assert not search.failures
    return found


def ended(call: Callable[..., Any], **given: Any) -> str:
    try:
        call(Bucket="b", **given)
    except ClientError as refused:
        return f"{refused.response['ResponseMetadata']['HTTPStatusCode']} {refused.response['Error']['Code']}"
    except Exception as error:  # noqa: BLE001 - its kind is the result
        return type(error).__name__
    return "done"


def test_every_outcome_is_a_branch() -> None:
    found = endings(
        lambda s3: ended(s3.put_object, Key="k", IfNoneMatch="*"),
        reply_lost=1,
        request_lost=1,
        late=1,
        conflict=1,
        throttled=1,
    )
    written = ("b/k",)
    assert found == {
        ("done", written),
        ("ConnectionClosedError", written),
        ("ConnectionClosedError", ()),
        ("409 ConditionalRequestConflict", ()),
        ("503 SlowDown", ()),
    }


@pytest.mark.parametrize(
    ("how", "seen"),
    [
        ("closed", ConnectionClosedError.__name__),
        ("timeout", ReadTimeoutError.__name__),
        ("error", "500 InternalError"),
    ],
)
def test_how_a_lost_reply_looks(how: str, seen: str) -> None:
    found = endings(lambda s3: ended(s3.put_object, Key="k"), how, reply_lost=1, request_lost=1)
    assert {ending for ending, _ in found} == {"done", seen}
    found = endings(lambda s3: ended(s3.get_object, Key="k"), how, reply_lost=1, request_lost=1)
    assert {ending for ending, _ in found} == {"404 NoSuchKey", seen}


def test_an_error_inside_of_200() -> None:
    """S3 answers a copy before it knows; the SDK reads the body and calls it a 500."""

    def copy(s3: Any) -> str:
        if ended(s3.put_object, Key="a", Body=b"1") != "done":
            return "no source"
        return ended(s3.copy_object, Key="c", CopySource="b/a")

    found = endings(copy, "error", reply_lost=1, request_lost=1)
    assert ("500 InternalError", ("b/a", "b/c")) in found
    assert ("500 InternalError", ("b/a",)) in found


def test_deleting_many_lands_key_by_key() -> None:
    """A process that looks in between can find any of them gone."""
    pictures: set[tuple[str, ...]] = set()

    def program(world: World) -> None:
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3", config=ONCE)
        for key in "xy":
            s3.put_object(Bucket="b", Key=key, Body=b"")
        world.spawn(ended, s3.delete_objects, Delete={"Objects": [{"Key": "x"}, {"Key": "y"}]}, name="ann")
        world.spawn(
            lambda: [e["Key"] for e in s3.list_objects_v2(Bucket="b").get("Contents", ())], name="bob"
        )

    def observe(world: World) -> None:
        pictures.add((*world.processes[1].result, world.processes[0].result))

    search = ReducedSearch(
        Setting(program, Budget(crash=0, reply_lost=0, request_lost=0, pause=0)), observe=observe
    )
    search.explore()
    assert pictures == {("x", "y", "done"), ("x", "done"), ("y", "done"), ("done",)}


def test_part_of_a_delete_of_many_can_be_refused() -> None:
    def delete(s3: Any) -> Any:
        answer = s3.delete_objects(Bucket="b", Delete={"Objects": [{"Key": "x"}, {"Key": "y"}]})
        return tuple((e["Key"], e["Code"]) for e in answer.get("Errors", ()))

    found = endings(delete, throttled=1)
    assert {ending for ending, _ in found} == {(), (("x", "SlowDown"),), (("y", "SlowDown"),)}


def test_waits_between_attempts_pass_on_the_worlds_clock() -> None:
    """Nobody really waits, and others can go on meanwhile."""

    def program(world: World) -> None:
        world.boto3_bucket("b")
        world.spawn(ended, world.boto3_client("s3", config=LEGACY).put_object, Key="k", name="ann")

    replayed = replay(program, "ann:put:b/k:1=throttled,ann:put:b/k:2=throttled")
    kinds = [step[5].kind for step in replayed.world.trace if step[2] is not None and step[2].name == "ann"]
    assert kinds == ["put", "sleep", "wake", "put", "sleep", "wake", "put", "finish"]
    assert replayed.world.processes[0].result == "done"
    assert replayed.world.clock_ns > 0


def test_what_retries_remember_is_lost_in_a_crash_and_kept_apart_from_others() -> None:
    """The standard mode gives up when its quota is spent: per process, not per test session."""

    def wear_out(s3: Any) -> list[str]:
        return [ended(s3.put_object, Key="k") for _ in range(3)]

    def program(world: World) -> None:
        world.boto3_bucket("b")
        config = Config(retries={"mode": "standard", "max_attempts": 60})
        for name in ("ann", "bob"):
            world.spawn(wear_out, world.boto3_client("s3", config=config), name=name)

    # 500 of quota, 5 for each retry of a 503: 100 retries for two requests, and no more.
    refusals = ",".join(f"ann:put:b/k:{n}=throttled" for n in range(1, 103))
    for _ in range(2):
        replayed = replay(program, refusals, steps_max=2000)
        ann, bob = replayed.world.processes
        assert ann.result == ["503 SlowDown", "503 SlowDown", "done"]
        assert bob.result == ["done", "done", "done"]


def test_the_adaptive_mode_waits_before_it_sends() -> None:
    def program(world: World) -> None:
        world.boto3_bucket("b")
        config = Config(retries={"mode": "adaptive"})
        s3 = world.boto3_client("s3", config=config)
        world.spawn(lambda: [ended(s3.put_object, Key="k") for _ in range(3)], name="ann")

    refused = replay(program, "ann:put:b/k:1=throttled")
    assert refused.world.processes[0].result == ["done", "done", "done"]
    smooth = replay(program, "default")
    assert smooth.world.clock_ns == 0
    sleeps = [step[5] for step in refused.world.trace if step[5].kind in ("sleep", "wait")]
    # The sleep of the retry, and then the waits of the rate limit, which only a refusal switches on.
    assert len(sleeps) >= 3
