"""Worlds for tests: one that is being set up, where requests are answered at once, and one that runs."""

from collections.abc import Callable
from typing import Any

from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.process import Process


def setting_up() -> World:
    """As a program sees it before it returns. Close it."""
    world = World()
    world.run.set_up(Process(0, "setup", lambda: None, (), {}, restart=False, may_raise=()))
    return world


def alone(
    work: Callable[..., Any],
    *given: Any,
    budget: Budget = NO_FAULTS,
    finds: str = "",
    options: dict[str, Any] | None = None,
) -> Any:
    """What `work(client, *given)` returns as the only process of a world with the bucket `b`.

    With `finds`, the run must break a property instead, for a reason that says this.
    """
    results: list[Any] = []

    def program(world: World) -> None:
        world.configure(part_bytes_min=1)
        world.boto3_bucket("b")
        world.spawn(work, world.boto3_client("s3", **(options or {})), *given, name="ann")
        world.finally_("it ended", lambda view: results.append(view.result("ann")))

    result = audit(program, budget=budget)
    if finds:
        assert finds in result.counterexamples[0].reason, result
        return result.counterexamples[0]
    assert not result.counterexamples, result
    return results[-1]


def explored(program: Callable[[World], None], **faults: int) -> AuditOutcome:
    """All schedules of a program, with these faults and no others."""
    return audit(
        program,
        budget=Budget(**{"crash": 0, "reply_lost": 0, "request_lost": 0, "pause": 0} | faults),
        others=False,
    )
