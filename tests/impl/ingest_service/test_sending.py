"""The agent's sender against every answer: what deletes, what parks, what tries again, what gives up."""

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest.service.refusals import KINDS
from fencepost.impl.ingest.service.sending import Refused, Sender, Timeouts
from fencepost.impl.ingest.service.spool import Spool

TOKEN = "key.secret"
ONE, TWO = "http://one:1", "http://two:2"
Answer = Callable[[httpx.Request], httpx.Response]


def accepted(request: httpx.Request, **changes: Any) -> httpx.Response:
    asked = request.url.params
    said = {
        "duplicate": False,
        "agent_id": asked["agent_id"],
        "boot_id": asked["boot_id"],
        "seq_start": int(asked["seq_start"]),
        "seq_end": int(asked["seq_end"]),
        "frame_sha256": hashlib.sha256(request.content).hexdigest(),
    }
    return httpx.Response(200, json=said | changes)


def refused(kind: str, **headers: str) -> Answer:
    body = {"error": kind, "message": "because"}
    return lambda _: httpx.Response(KINDS[kind].status, json=body, headers=headers)


def lost(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("nothing came", request=request)


class Scene:
    """A spool with batches, and collectors that answer by a script; at its end everything is accepted."""

    def __init__(self, folder: Path, *script: Answer, batches: int = 1, collectors: tuple[str, ...] = (ONE,)):
        self.env = SeededEnvironment(1)
        self.spool = Spool(folder / "spool", "agent-a", env=self.env)
        for at in range(batches):
            self.spool.add(1, lambda start, end, at=at: f"frame {at}".encode())
        self.script = list(script)
        self.asked: list[tuple[str, int]] = []
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
        self.asked.append(
            (f"{request.url.scheme}://{request.url.netloc.decode()}", int(request.url.params["seq_start"]))
        )
        return self.script.pop(0)(request) if self.script else accepted(request)

    @property
    def order(self) -> list[int]:
        return [number for _, number in self.asked]

    @property
    def waited(self) -> float:
        return self.env.monotonic_ns() / 1e9


def test_in_order_and_gone_when_accepted(tmp_path: Path) -> None:
    scene = Scene(tmp_path, batches=3)
    sent = scene.sender.drain()
    assert (sent.accepted, sent.left, scene.order) == (3, 0, [1, 2, 3])
    assert not list((scene.spool.path / "queue").iterdir())


def test_a_duplicate_is_as_good(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lambda request: accepted(request, duplicate=True))
    sent = scene.sender.drain()
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
        *(refused(kind) for kind, told in KINDS.items() if told.then == "retry"),
    ],
)
def test_nothing_is_deleted_or_parked_on_any_other_answer(tmp_path: Path, answer: Answer) -> None:
    """Data is lost when an answer that was not about this batch is taken for one."""
    scene = Scene(tmp_path, answer, answer, answer, batches=2)
    while scene.script:
        before = len(scene.script)
        scene.sender.drain(give_up_s=0.001)
        assert len(scene.spool) == 2, "it is still there"
        assert scene.spool.parked() == []
        assert len(scene.script) < before
    sent = scene.sender.drain()
    assert (sent.accepted, sent.parked, scene.order) == (2, 0, [1, 1, 1, 1, 2])


@pytest.mark.parametrize("kind", [kind for kind, told in KINDS.items() if told.then == "park"])
def test_what_is_refused_for_good_is_parked_and_the_rest_goes_on(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(tmp_path, accepted, refused(kind), batches=3)
    with caplog.at_level(logging.ERROR):
        sent = scene.sender.drain()
    assert (sent.accepted, sent.parked, sent.left, scene.order) == (2, 1, 0, [1, 2, 3])
    (parked,) = scene.spool.parked()
    assert scene.spool.frame(parked) == b"frame 1"
    assert kind in scene.spool.why(parked)["why"]
    assert [record.levelname for record in caplog.records] == ["ERROR"], "somebody is told"
    assert "fencepost_agent_parked_batches 1.0\n" in scene.sender.metrics.exposition().decode()


@pytest.mark.parametrize("kind", [kind for kind, told in KINDS.items() if told.then == "stop"])
def test_what_is_wrong_with_us_stops_only_when_all_say_so(tmp_path: Path, kind: str) -> None:
    scene = Scene(tmp_path, refused(kind), batches=2, collectors=(ONE, TWO))
    assert scene.sender.drain().accepted == 2, "one collector with an old token file stops nobody"
    scene = Scene(tmp_path / "more", *[refused(kind)] * 2, batches=2, collectors=(ONE, TWO))
    with pytest.raises(Refused, match="because"):
        scene.sender.drain()
    assert len(scene.spool) == 2


def test_collectors_take_turns_and_only_a_whole_round_is_followed_by_a_pause(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lost, refused("busy"), lost, collectors=(ONE, TWO))
    scene.sender.drain()
    first, second, third, fourth = [where for where, _ in scene.asked]
    assert first != second
    assert (first, second) == (third, fourth)
    assert 0.5 <= scene.waited <= 1


def test_pauses_double_up_to_a_bound_and_differ(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[lost] * 6)
    pauses = []
    sleep = scene.env.sleep
    scene.env.sleep = lambda seconds: (pauses.append(seconds), sleep(seconds))  # type: ignore[method-assign,assignment]
    scene.sender.drain()
    for pause, longest in zip(pauses, [1, 2, 4, 8, 8, 8], strict=True):
        assert longest / 2 <= pause <= longest
    assert pauses[3] != pauses[4] != pauses[5], "agents that fail together must not come back together"


def test_retry_after_makes_a_pause_longer_and_never_endless(tmp_path: Path) -> None:
    scene = Scene(tmp_path, refused("busy", **{"retry-after": "20"}))
    scene.sender.drain()
    assert scene.waited == 20
    scene = Scene(tmp_path / "more", refused("busy", **{"retry-after": "99999"}))
    scene.sender.drain()
    assert scene.waited == 300
    scene = Scene(tmp_path / "word", refused("busy", **{"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}))
    scene.sender.drain()
    assert scene.waited <= 1


def test_what_is_left_when_time_is_up_stays(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[lost] * 100, batches=2)
    assert scene.sender.drain(give_up_s=30).left == 2
    assert scene.waited <= 40


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
def test_an_address_that_is_none(tmp_path: Path, url: str) -> None:
    with Spool(tmp_path / "spool", "agent-a") as spool, pytest.raises(ValueError, match="is not an address"):
        Sender(spool, [url], TOKEN)


def decided(decision: str | None) -> Answer:
    return lambda _: httpx.Response(200, json={"resolution": decision and {"decision": decision}})


def test_a_parked_conflict_is_dropped_only_when_that_was_decided(tmp_path: Path) -> None:
    scene = Scene(tmp_path, refused("identity_conflict"), refused("bad_frame"), batches=3)
    scene.sender.drain()
    scene.script = [decided(None), decided("something-new"), refused("store_unavailable"), lost]
    assert [scene.sender.settle() for _ in range(4)] == [0, 0, 0, 0]
    assert len(scene.spool.parked()) == 2
    scene.script = [decided("accept-existing-and-drop")] * 2
    assert scene.sender.settle() == 1
    (left,) = scene.spool.parked()
    assert left.seq_start == 2, "what was refused for another reason is nobody's conflict"


def test_the_note_says_what_the_collector_said(tmp_path: Path) -> None:
    scene = Scene(tmp_path, refused("identity_conflict"))
    scene.sender.drain()
    (parked,) = scene.spool.parked()
    note = json.loads((scene.spool.path / "parked" / f"{parked.name}.json").read_text())
    assert note["answer"] == {"error": "identity_conflict", "message": "because"}
