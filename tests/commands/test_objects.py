"""The options of `fencepost objects`."""

import contextlib
from pathlib import Path

import pytest

from fencepost.commands.exit_codes import Exit
from fencepost.commands.objects import extensions_of, limits_of
from fencepost.impl.http.limits import Gate
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.objects.buckets import Buckets, check_name
from fencepost.impl.objects.wire.errors import S3Error
from fencepost.sim.systems import SYSTEMS
from tests.commands.running import Run


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


def test_a_server_answers_the_extensions_of_all_systems_where_no_bucket_can_be(tmp_path: Path) -> None:
    with contextlib.closing(Buckets(str(tmp_path))) as buckets:
        found = extensions_of(buckets)
    named = [system for system in SYSTEMS.values() if system.extension]
    assert len({one.place for one in found}) == len(named) > 0
    for one in found:
        assert one.place.startswith("_")  # by which the server finds that a request is for one
        with pytest.raises(S3Error):
            check_name(one.place)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "0.0.0.0 can be reached"),
        (
            {"FENCEPOST_OBJECTS_ACCESS_KEY": "a", "FENCEPOST_OBJECTS_SECRET_KEY": "b"},
            "can be reached by others",
        ),
    ],
)
def test_a_server_for_tests_with_known_keys_is_for_this_machine_alone(
    ran: Run, monkeypatch: pytest.MonkeyPatch, keys: dict[str, str], message: str
) -> None:
    """Everybody knows its keys."""
    monkeypatch.delenv("FENCEPOST_OBJECTS_ROOT_TOKEN", raising=False)
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    code, _, error = ran("objects", "serve", "--memory", "--listen", "0.0.0.0:0")
    assert code == Exit.BAD_REQUEST
    assert message in error


def test_one_key_without_the_other_is_refused(ran: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_OBJECTS_SECRET_KEY", "b")
    code, _, error = ran("objects", "serve", "--memory", "--listen", "127.0.0.1:0")
    assert code == Exit.BAD_REQUEST
    assert "come together" in error
