"""The agent's sender: which response deletes, parks, retries or gives up."""

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest.service.requests import KINDS
from fencepost.impl.ingest.service.sending import Refused, Sender, Timeouts
from fencepost.impl.ingest.service.spool import Spool

TOKEN = "key.secret"
ONE, TWO = "http://one:1", "http://two:2"
Answer = Callable[[httpx.Request], httpx.Response]


def accepted(request: httpx.Request, **changes: Any) -> httpx.Response:
    parameters = request.url.params
    reply = {
        "duplicate": False,
        "agent_id": parameters["agent_id"],
        "boot_id": parameters["boot_id"],
        "seq_start": int(parameters["seq_start"]),
        "seq_end": int(parameters["seq_end"]),
        "frame_sha256": hashlib.sha256(request.content).hexdigest(),
    }
    return httpx.Response(200, json=reply | changes)


def refused(kind: str, **headers: str) -> Answer:
    body = {"error": kind, "message": "because"}
    return lambda _: httpx.Response(KINDS[kind].status, json=body, headers=headers)


def lost(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("nothing came", request=request)


class Setup:
    """A spool with batches, and collectors with scripted responses; after the script they accept
    everything."""

    def __init__(self, folder: Path, *script: Answer, batches: int = 1, collectors: tuple[str, ...] = (ONE,)):
        self.env = SeededEnvironment(1)
        self.spool = Spool(folder / "spool", "agent-a", env=self.env)
        for at in range(batches):
            self.spool.add(1, lambda start, end, at=at: f"frame {at}".encode())
        self.script = list(script)
        self.requests: list[tuple[str, int]] = []
        self.sender = Sender(
            self.spool,
            collectors,
            TOKEN,
            env=self.env,
            timeouts=Timeouts(pause_s=1, pause_max_s=8),
            client=httpx.Client(transport=httpx.MockTransport(self.answer)),
        )

    def answer(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert "content-encoding" not in request.headers
        self.requests.append(
            (f"{request.url.scheme}://{request.url.netloc.decode()}", int(request.url.params["seq_start"]))
        )
        return self.script.pop(0)(request) if self.script else accepted(request)

    @property
    def order(self) -> list[int]:
        return [number for _, number in self.requests]

    @property
    def waited(self) -> float:
        return self.env.monotonic_ns() / 1e9


def test_batches_are_sent_in_order_and_removed_when_accepted(tmp_path: Path) -> None:
    setup = Setup(tmp_path, batches=3)
    sent = setup.sender.drain()
    assert (sent.accepted, sent.left, setup.order) == (3, 0, [1, 2, 3])
    assert not list((setup.spool.path / "queue").iterdir())


def test_a_duplicate_removes_the_batch_as_well(tmp_path: Path) -> None:
    setup = Setup(tmp_path, lambda request: accepted(request, duplicate=True))
    sent = setup.sender.drain()
    assert (sent.accepted, sent.duplicates, sent.left) == (0, 1, 0)


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: httpx.Response(200),
        lambda _: httpx.Response(200, text="<html>Welcome to the hotel</html>"),
        lambda _: httpx.Response(200, json=[]),
        lambda _: httpx.Response(200, json={"duplicate": False}),
        lambda _: httpx.Response(204),
        lambda _: httpx.Response(302, headers={"location": "http://elsewhere/"}),
        lambda request: accepted(request, frame_sha256="0" * 64),
        lambda request: accepted(request, seq_end=7),
        lambda request: accepted(request, boot_id="another"),
        lambda _: httpx.Response(200, content=b" " * 100_000 + b"{}"),
        lambda _: httpx.Response(409, text="conflict with the cache"),
        lambda _: httpx.Response(409, json={"error": "bad_frame"}),
        lambda _: httpx.Response(400, text="a proxy does not like it"),
        lambda _: httpx.Response(413, text="nor does this one"),
        lost,
        *(refused(kind) for kind, entry in KINDS.items() if entry.then == "retry"),
    ],
)
def test_any_other_response_deletes_and_parks_nothing(tmp_path: Path, answer: Answer) -> None:
    """Data is lost if the agent trusts a response about another batch."""
    setup = Setup(tmp_path, answer, answer, answer, batches=2)
    while setup.script:
        before = len(setup.script)
        setup.sender.drain(give_up_s=0.001)
        assert len(setup.spool) == 2, "it is still there"
        assert setup.spool.parked() == []
        assert len(setup.script) < before
    sent = setup.sender.drain()
    assert (sent.accepted, sent.parked, setup.order) == (2, 0, [1, 1, 1, 1, 2])


@pytest.mark.parametrize("kind", [kind for kind, entry in KINDS.items() if entry.then == "park"])
def test_a_final_refusal_parks_the_batch_and_the_rest_is_sent(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    setup = Setup(tmp_path, accepted, refused(kind), batches=3)
    with caplog.at_level(logging.ERROR):
        sent = setup.sender.drain()
    assert (sent.accepted, sent.parked, sent.left, setup.order) == (2, 1, 0, [1, 2, 3])
    (parked,) = setup.spool.parked()
    assert setup.spool.frame(parked) == b"frame 1"
    assert kind in setup.spool.why(parked)["why"]
    assert [record.levelname for record in caplog.records] == ["ERROR"], "an operator can see it"
    assert "fencepost_agent_parked_batches 1.0\n" in setup.sender.metrics.exposition().decode()


@pytest.mark.parametrize("kind", [kind for kind, entry in KINDS.items() if entry.then == "stop"])
def test_a_refusal_of_the_agent_stops_only_when_all_collectors_agree(tmp_path: Path, kind: str) -> None:
    setup = Setup(tmp_path, refused(kind), batches=2, collectors=(ONE, TWO))
    assert setup.sender.drain().accepted == 2, "one collector with an old token file stops no agent"
    setup = Setup(tmp_path / "more", *[refused(kind)] * 2, batches=2, collectors=(ONE, TWO))
    with pytest.raises(Refused, match="because"):
        setup.sender.drain()
    assert len(setup.spool) == 2


def test_collectors_take_turns_and_only_a_whole_round_is_followed_by_a_pause(tmp_path: Path) -> None:
    setup = Setup(tmp_path, lost, refused("busy"), lost, collectors=(ONE, TWO))
    setup.sender.drain()
    first, second, third, fourth = [where for where, _ in setup.requests]
    assert first != second
    assert (first, second) == (third, fourth)
    assert 0.5 <= setup.waited <= 1


def test_pauses_double_up_to_a_bound_and_differ(tmp_path: Path) -> None:
    setup = Setup(tmp_path, *[lost] * 6)
    pauses = []
    sleep = setup.env.sleep
    setup.env.sleep = lambda seconds: (pauses.append(seconds), sleep(seconds))  # type: ignore[method-assign,assignment]
    setup.sender.drain()
    for pause, longest in zip(pauses, [1, 2, 4, 8, 8, 8], strict=True):
        assert longest / 2 <= pause <= longest
    assert pauses[3] != pauses[4] != pauses[5], "agents that fail together must not come back together"


def test_retry_after_makes_a_pause_longer_and_never_endless(tmp_path: Path) -> None:
    setup = Setup(tmp_path, refused("busy", **{"retry-after": "20"}))
    setup.sender.drain()
    assert setup.waited == 20
    setup = Setup(tmp_path / "more", refused("busy", **{"retry-after": "99999"}))
    setup.sender.drain()
    assert setup.waited == 300
    setup = Setup(tmp_path / "word", refused("busy", **{"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}))
    setup.sender.drain()
    assert setup.waited <= 1


def test_batches_left_at_the_deadline_stay(tmp_path: Path) -> None:
    setup = Setup(tmp_path, *[lost] * 100, batches=2)
    assert setup.sender.drain(give_up_s=30).left == 2
    assert setup.waited <= 40


@pytest.mark.parametrize(
    "url",
    [
        "",
        "one:1",
        "ftp://one",
        "http://",
        "http://a:b@one",
        "http://one?x",
        "http://one:99999",
        "http://[::1",
    ],
)
def test_an_invalid_address(tmp_path: Path, url: str) -> None:
    with Spool(tmp_path / "spool", "agent-a") as spool, pytest.raises(ValueError, match="is not an address"):
        Sender(spool, [url], TOKEN)


def decided(decision: str | None) -> Answer:
    return lambda _: httpx.Response(200, json={"resolution": decision and {"decision": decision}})


def test_a_parked_conflict_is_dropped_only_after_the_decision(tmp_path: Path) -> None:
    setup = Setup(tmp_path, refused("identity_conflict"), refused("bad_frame"), batches=3)
    setup.sender.drain()
    setup.script = [decided(None), decided("something-new"), refused("store_unavailable"), lost]
    assert [setup.sender.settle() for _ in range(4)] == [0, 0, 0, 0]
    assert len(setup.spool.parked()) == 2
    setup.script = [decided("accept-existing-and-drop")] * 2
    assert setup.sender.settle() == 1
    (left,) = setup.spool.parked()
    assert left.seq_start == 2, "a batch refused for another reason is not a conflict"


def test_the_note_has_the_response_of_the_collector(tmp_path: Path) -> None:
    setup = Setup(tmp_path, refused("identity_conflict"))
    setup.sender.drain()
    (parked,) = setup.spool.parked()
    note = json.loads((setup.spool.path / "parked" / f"{parked.name}.json").read_text())
    assert note["answer"] == {"error": "identity_conflict", "message": "because"}
