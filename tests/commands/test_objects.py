"""The options of `fencepost objects`."""

import contextlib

import pytest

from fencepost.commands.objects import limits_of
from fencepost.impl.http.limits import Gate
from fencepost.impl.http.refusals import Refusal


@pytest.mark.parametrize("requests", [2, 16, 256])
def test_one_client_leaves_room_for_another(requests: int) -> None:
    gate = Gate(limits_of({"connections": 2000, "requests": requests, "drain_s": 60.0}))
    with contextlib.ExitStack() as at_work:
        for _ in range(requests - max(1, requests // 8)):
            at_work.enter_context(gate.enter("greedy"))
        with pytest.raises(Refusal, match="of this client"):
            at_work.enter_context(gate.enter("greedy"))
        at_work.enter_context(gate.enter("another"))


def test_a_single_request_in_flight_may_be_anybodys() -> None:
    gate = Gate(limits_of({"connections": 2000, "requests": 1, "drain_s": 60.0}))
    with gate.enter("only"):
        pass
