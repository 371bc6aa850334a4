"""What is no violation is an error with its line; what was never tested does not pass."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.impl.store.errors import Misuse
from fencepost.sim.explore import AuditOutcome, AuditRequest, audit
from fencepost.sim.explore.reporting import run_token
from fencepost.sim.world import NO_FAULTS, View, World


def line_of(result: AuditOutcome) -> str:
    assert result.error_at is not None
    assert Path(result.error_at.file).name == Path(__file__).name
    return Path(__file__).read_text().splitlines()[result.error_at.line - 1]


def two_writers(world: World) -> None:
    for name in ("a", "b"):
        world.spawn(world.store().put, "k", name.encode(), when=ANYTHING, name=name)


def test_a_check_that_raises_is_an_error_and_no_violation() -> None:
    def program(world: World) -> None:
        two_writers(world)
        world.always("it is a number", lambda view: int(view.get("k") or b"0") >= 0)

    result = audit(program, budget=NO_FAULTS)
    assert result.verdict == "error"
    assert "the check of 'it is a number' raised ValueError" in result.bound
    assert "int(view.get" in line_of(result)
    assert not result.counterexamples


def test_a_body_of_another_type_is_an_error() -> None:
    def program(world: World) -> None:
        store = world.store()

        def write() -> None:
            store.put("k", "text", when=ABSENT)  # type: ignore[arg-type]  # that is the mistake

        world.spawn(write, name="writes")
        two_writers(world)

    result = audit(program, budget=NO_FAULTS)
    assert result.verdict == "error"
    assert "the body is a str" in result.bound
    assert "store.put" in line_of(result)


@pytest.mark.parametrize("body", [b"x", 7])
def test_a_bucket_that_is_not_declared_and_a_call_that_the_sdk_refuses(body: Any) -> None:
    def program(world: World) -> None:
        s3 = world.boto3_client("s3")

        def write() -> None:
            s3.put_object(Bucket="undeclared", Key="k", Body=body)

        world.spawn(write, name="writes")

    result = audit(program, budget=NO_FAULTS)
    assert result.verdict == "error"
    assert ("declare the bucket" if body == b"x" else "refuses the call") in result.bound
    assert "s3.put_object" in line_of(result)


def test_a_condition_that_is_never_met_is_a_finding() -> None:
    def program(world: World, topic: str) -> None:
        two_writers(world)
        world.always("b", lambda view: True, when=lambda view: view.get(topic) == b"b")

    never = audit(lambda world: program(world, "other"), budget=NO_FAULTS)
    assert never.verdict == "undecided"
    assert never.findings == ("b: it was never tested, because its condition (when=) was never met",)
    met = audit(lambda world: program(world, "k"), budget=NO_FAULTS)
    assert met.verdict == "holds"
    assert met.result().coverage.tested["b"] > 0


def test_a_condition_limits_what_is_judged() -> None:
    def program(world: World) -> None:
        two_writers(world)

        def is_b(view: View) -> bool:
            return view.get("k") == b"b"

        world.always("never b", lambda view: not is_b(view), when=is_b)

    assert audit(program, budget=NO_FAULTS).verdict == "violated"


def test_a_token_that_no_longer_fits_decides_nothing() -> None:
    """A token once ran another schedule, whose verdict was then printed."""

    def program(world: World) -> None:
        two_writers(world)
        world.always("never b", lambda view: view.get("k") != b"b")

    result = run_token(AuditRequest(program, budget=NO_FAULTS), "gone:put:k:1,b:put:k:1")
    assert result.verdict == "undecided"
    assert not result.counterexamples
    assert "no longer fits" in result.findings[0]


def test_a_refused_request_is_refused_again_when_a_run_is_repeated() -> None:
    """Requests are not validated again in the beginning of a run; those that were refused must be."""

    def program(world: World) -> None:
        store = world.store()

        def work(name: str) -> None:
            with pytest.raises(Misuse):
                store.put("", b"", when=ANYTHING)
            store.put("k", name.encode(), when=ANYTHING)
            world.note(name, store.get("k").body)

        for name in ("a", "b"):
            world.spawn(work, name, name=name)
        world.sometimes("b comes between", lambda view: view.notes("a") == [b"b"])

    assert audit(program, budget=NO_FAULTS).verdict == "holds"
