"""A proxy fails the requests that a script names, as the object server for tests does."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fencepost.impl.store.faults import Effect, Fault, Phase, Script
from fencepost.sim.proxy import BadPlan, Plan, Upstream, running
from fencepost.sim.proxy.plan import SCRIPTED
from tests.sim.proxy.test_server import CLOSE
from tests.sim.proxy.upstream import OK, send_raw, upstream
from tests.sim.proxy.upstream import Upstream as Scripted


@pytest.fixture
def behind() -> Iterator[Scripted]:
    with upstream() as one:
        yield one


def put(key: str) -> bytes:
    head = f"PUT /b/{key} HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n".encode()
    return head + CLOSE + b"\r\nbody"


def plan(behind: Scripted, *faults: Fault) -> Plan:
    return Plan(Upstream.of(behind.url), script=Script(faults))


@pytest.mark.parametrize(
    ("fault", "status", "is_applied"),
    [
        (Fault(Effect.THROTTLED), 503, False),
        (Fault(Effect.THROTTLED, phase=Phase.AFTER), 503, True),
        (Fault(Effect.CONFLICT), 409, False),
        (Fault(Effect.FAILED), 500, False),
        (Fault(Effect.FAILED, phase=Phase.AFTER), 500, True),
        (Fault(Effect.REQUEST_LOST), None, False),
        (Fault(Effect.REPLY_LOST), None, True),
        (Fault(Effect.DELAYED, seconds=0.01), 200, True),
        (Fault(Effect.DELAYED, seconds=0.01, phase=Phase.AFTER), 200, True),
    ],
)
def test_a_request_of_the_script_fails_and_no_other(
    behind: Scripted, fault: Fault, status: int | None, is_applied: bool
) -> None:
    with running(plan(behind, replace(fault, keys="m/*", first=2))) as proxy:
        assert send_raw(proxy.url, put("m/1")) == OK
        assert send_raw(proxy.url, put("other")) == OK
        answer = send_raw(proxy.url, put("m/2"))
    assert ([int(found[1])] if (found := re.match(rb"HTTP/1.1 (\d+)", answer)) else []) == (
        [status] if status else []
    )
    expected = [put("m/1"), put("other"), *([put("m/2")] if is_applied else [])]
    assert behind.seen == expected
    (strike,) = proxy.injector.strikes
    assert (strike.operation, strike.bucket, strike.key) == ("PutObject", "b", "m/2")
    assert sum(proxy.statistics.fates["put"].values()) == 3


def test_a_late_request_lands_later(behind: Scripted) -> None:
    with running(plan(behind, Fault(Effect.LATE, times=1, seconds=0.05))) as proxy:
        assert send_raw(proxy.url, put("k")) == b""
        until = time.monotonic() + 30
        while behind.seen != [put("k")]:
            assert time.monotonic() < until
            time.sleep(0.005)
        assert send_raw(proxy.url, put("k")) == OK


def test_an_operation_is_known_by_its_name_in_s3(behind: Scripted) -> None:
    fault = Fault(Effect.THROTTLED, kinds={"UploadPart"})
    with running(plan(behind, fault)) as proxy:
        assert send_raw(proxy.url, put("k")) == OK
        part = put("k?partNumber=1&uploadId=u")
        assert send_raw(proxy.url, part).startswith(b"HTTP/1.1 503")
    assert behind.seen == [put("k")]


@pytest.mark.parametrize("effect", sorted(frozenset(Effect) - SCRIPTED))
def test_what_needs_the_store_is_refused(behind: Scripted, effect: Effect) -> None:
    with pytest.raises(BadPlan, match=f"a proxy has no {effect}"):
        plan(behind, Fault(effect))
