"""Effects of faults on a request: one function for each alternative of `sim.faults`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import Outcome
from fencepost.sim.world.process import Process
from fencepost.sim.world.record import StepRecord

if TYPE_CHECKING:
    from fencepost.sim.world.request_steps import RequestSteps

Effect = Callable[["RequestSteps", StepRecord, Process, Any, int], Any]
"""Takes the step of a request with its number; returns the reply, or None when the SDK sends it again."""
EFFECTS: dict[str, Effect] = {}


def effect(alternative: str) -> Callable[[Effect], Effect]:
    """Register the effect of an alternative."""

    def register(function: Effect) -> Effect:
        EFFECTS[alternative] = function
        return function

    return register


@effect("reply_lost")
def lose_reply(steps: RequestSteps, record: StepRecord, process: Process, request: Any, number: int) -> Any:
    reply = steps.land(record, process, request, number)
    if _is_never_sent(reply):
        return reply
    steps.run.keep_unreceived(reply)
    return _unknown(request)


@effect("duplicated")
def duplicate(steps: RequestSteps, record: StepRecord, process: Process, request: Any, number: int) -> Any:
    reply = steps.land(record, process, request, number)
    if _is_never_sent(reply):
        return reply
    steps.run.keep_unreceived(reply)
    repeat = getattr(request, "repeat", None)
    # The SDK repeats all steps of the request; one step is sent again below the code.
    return None if repeat is None else repeat()


@effect("request_lost")
def lose_request(steps: RequestSteps, record: StepRecord, process: Process, request: Any, number: int) -> Any:
    del steps, record, process, number
    return _unknown(request)


@effect("late")
def delay(steps: RequestSteps, record: StepRecord, process: Process, request: Any, number: int) -> Any:
    steps.send_late(record, process, request, number)
    return _unknown(request)


@effect("conflict")
def refuse(steps: RequestSteps, record: StepRecord, process: Process, request: Any, number: int) -> Any:
    del steps, record, process, number
    return request.ends(Outcome.CONFLICT, "by the adversary")


@effect("throttled")
def throttle(steps: RequestSteps, record: StepRecord, process: Process, request: Any, number: int) -> Any:
    del steps, record, process, number
    return request.ends(Outcome.THROTTLED, "by the adversary")


def _unknown(request: Any) -> Any:
    return request.ends(Outcome.UNKNOWN, "the reply was lost")


def _is_never_sent(reply: Any) -> bool:
    """True if the client refuses the request before it is sent."""
    return isinstance(reply, StoreError) and not getattr(reply, "travels", False)
