"""Rivals really act together: nothing takes effect before everybody is ready, on any kind of store."""

import contextlib
import functools
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ReadTimeoutError

from fencepost.impl.store import open_store
from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import Misuse, Unusable
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ABSENT, ANYTHING, Outcome
from fencepost.sim.probe import etag_forms
from fencepost.sim.probe.clients import ProcessClients, ThreadClients, _finished
from fencepost.sim.probe.history import body_of
from fencepost.sim.probe.last_byte import LastByteSync, wire
from fencepost.sim.probe.verdict import Inconclusive

if TYPE_CHECKING:
    from tests.servers.moto_here import Here


class Waits(MemoryStore):
    """Answers only when as many requests as expected are under way at once."""

    def __init__(self, together: int) -> None:
        super().__init__()
        self._all = threading.Barrier(together)

    def send(self, request: Any) -> Any:
        self._all.wait(10)
        return super().send(request)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_threads_are_under_way_at_once(count: int) -> None:
    """A clients that sent one after another would never get an answer here."""
    clients = ThreadClients(Waits(count), 5)
    sent = clients.together([ask.Put("k", body_of(f"{at}"), ABSENT) for at in range(count)])
    clients.close()
    assert [one.worker for one in sent] == ["w1", "w2", "w3", "w4", "w5"][:count]
    assert sorted(one.outcome for one in sent) == sorted([Outcome.DONE] + [Outcome.EXISTS] * (count - 1))
    assert all(one.started_ns <= one.ended_ns for one in sent)
    assert max(one.started_ns for one in sent) <= min(one.ended_ns for one in sent)


class Notes(MemoryStore):
    """When each request came in."""

    def __init__(self) -> None:
        super().__init__()
        self.came: list[float] = []

    def send(self, request: Any) -> Any:
        self.came.append(time.monotonic())
        return super().send(request)


def test_nobody_starts_before_everybody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first member waits for one that is late; without the gate it would have long been done."""
    store = Notes()
    clients = ThreadClients(store, 2)
    submit, submitted = clients._pool.submit, []

    def late(*arguments: Any) -> Any:
        if submitted:
            time.sleep(0.03)
        submitted.append(time.monotonic())
        return submit(*arguments)

    monkeypatch.setattr(clients._pool, "submit", late)
    clients.together([ask.Head("a"), ask.Head("b")])
    clients.close()
    assert min(store.came) >= submitted[1]


def test_an_interrupt_lets_nobody_stand_at_the_gate() -> None:
    """Nor does it return while somebody is still at work: that write would outlive the sweep."""

    class Gate(threading.Barrier):
        aborted = False

        def abort(self) -> None:
            self.aborted = True
            super().abort()

    gate = Gate(2)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(gate.wait, 20)
        with pytest.raises(KeyboardInterrupt), _finished([future], gate):
            raise KeyboardInterrupt
        assert future.done()
        assert gate.aborted, "else it stood there until it had waited long enough"
        with pytest.raises(threading.BrokenBarrierError):
            future.result()


class Full(MemoryStore):
    def send(self, request: Any) -> Any:
        raise Unusable("the disk is full; free some space")


def test_an_error_is_handed_back_and_holds_nobody_up() -> None:
    clients = ThreadClients(Full(), 2)
    sent = clients.together([ask.Head("a"), ask.Head("b")])
    clients.close()
    assert all(isinstance(one.reply, Unusable) for one in sent)


@pytest.mark.server
def test_processes_race_and_the_idle_ones_hold_nobody_up(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"
    clients = ProcessClients(functools.partial(open_store, url), 3)
    try:
        for count in (3, 1, 2):
            requests = [ask.Put(f"k{count}", body_of(f"{at}"), ABSENT) for at in range(count)]
            sent = clients.together(requests)
            assert [one.worker for one in sent] == ["p1", "p2", "p3"][:count]
            assert sum(one.outcome is Outcome.DONE for one in sent) == 1
    finally:
        clients.close()


@pytest.mark.server
def test_a_process_that_cannot_open_the_store_says_why() -> None:
    with pytest.raises(Misuse, match="names no bucket"):
        ProcessClients(functools.partial(open_store, "s3://"), 2)


@pytest.mark.server
def test_a_process_that_dies_is_noticed(tmp_path: Path) -> None:
    clients = ProcessClients(functools.partial(open_store, f"file://{tmp_path}/store"), 2)
    os.kill(clients._members[0][0].pid, signal.SIGKILL)
    with pytest.raises(Inconclusive, match="ended early"):
        clients.together([ask.Head("a"), ask.Head("b")])
    clients.close()


# Holding back the last byte.


def prepared(**given: Any) -> Any:
    """A request as botocore prepares it."""
    request = {"method": "PUT", "url": "http://127.0.0.1:9000/b/k?x=1", "headers": {}, "body": b"body"}
    return SimpleNamespace(**{**request, **given})


def test_a_message_is_written_as_it_was_signed() -> None:
    message = wire(prepared(headers={"Content-Length": "4", "X-A": b"bytes", "Expect": "100-continue"}))
    assert message == (
        b"PUT /b/k?x=1 HTTP/1.1\r\nHost: 127.0.0.1:9000\r\nContent-Length: 4\r\nX-A: bytes\r\n"
        b"Connection: close\r\n\r\nbody"
    )


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://h:80/k", "h"),
        ("https://h:443/k", "h"),
        ("https://h/k", "h"),
        ("http://h:443/k", "h:443"),
        ("http://[::1]:9000/k", "[::1]:9000"),
    ],
)
def test_the_host_is_the_one_that_was_signed(url: str, host: str) -> None:
    assert f"Host: {host}\r\n".encode() in wire(prepared(url=url))


def test_a_body_of_unknown_length_is_sent_as_one_chunk() -> None:
    class Stream:
        def read(self) -> bytes:
            return b"0123456789abcdef!"

    message = wire(prepared(headers={"Transfer-Encoding": "chunked"}, body=Stream()))
    assert message.endswith(b"\r\n\r\n11\r\n0123456789abcdef!\r\n0\r\n\r\n")
    assert b"Content-Length" not in message


def test_a_request_without_a_body_ends_with_its_headers() -> None:
    message = wire(prepared(method="DELETE", body=None))
    assert message.endswith(b"\r\n\r\n")
    assert b"Content-Length" not in message


class Listener:
    """A server that answers as configured and remembers what it had read before it was released."""

    def __init__(self, answer: bytes) -> None:
        self.got = b""
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/b/k"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection:
            while not self.got.endswith(b"body"):
                piece = connection.recv(65_536)
                if not piece:
                    return
                self.got += piece
            connection.sendall(self._answer)

    def close(self) -> None:
        self._thread.join(10)
        self._socket.close()


class Client:
    """As much of a botocore client as is used: its events."""

    def __init__(self) -> None:
        self.handlers: list[Any] = []
        self.meta = SimpleNamespace(events=self)

    def register(self, name: str, handler: Any) -> None:
        self.handlers.append(handler)

    def unregister(self, name: str, handler: Any) -> None:
        self.handlers.remove(handler)


class Driver(MemoryStore):
    """A store that sends a prepared request through its client's events, as botocore does."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._sdk = Client()
        self._request = prepared(url=url)
        self.answers: list[Any] = []

    def client(self) -> Client:
        return self._sdk

    def send(self, request: Any) -> Any:
        self.answers = [handler(request=self._request) for handler in self._sdk.handlers]
        return super().send(request)


def test_the_last_byte_waits_for_the_signal() -> None:
    listener = Listener(b'HTTP/1.1 412 Precondition Failed\r\nEtag: "x"\r\nContent-Length: 2\r\n\r\nno')
    store = Driver(listener.url)
    held = LastByteSync.over(store)
    before: list[bytes] = []

    def arrive() -> None:
        deadline = time.monotonic() + 5
        while not listener.got.endswith(b"\r\n\r\nbod") and time.monotonic() < deadline:
            time.sleep(0.001)
        before.append(listener.got)

    held.send(ask.Put("k", b"body", ABSENT), arrive)
    held.close()
    listener.close()
    assert len(before) == 1
    assert before[0].endswith(b"\r\n\r\nbod"), (
        "all but the last byte is there before the release, and no more"
    )
    assert listener.got == before[0] + b"y"
    answer = store.answers[0]
    assert (answer.status_code, answer.content) == (412, b"no")
    assert answer.headers.get("ETag") == '"x"', "whatever the server's spelling"
    assert answer.raw.read() == b"no"
    assert store.client().handlers == []


def test_a_server_that_is_not_there_is_left_to_the_sdk() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = Driver(f"http://127.0.0.1:{port}/b/k")
    arrived: list[bool] = []
    held = LastByteSync.over(store)
    assert held.send(ask.Put("k", b"x", ABSENT), lambda: arrived.append(True)).done
    assert store.answers == [None]
    assert arrived == [True]


class BreaksOff(MemoryStore):
    def client(self) -> Client:
        return Client()

    def send(self, request: Any) -> Any:
        raise ConnectionResetError("connection reset by peer")


def test_a_connection_that_breaks_after_the_release_is_an_unknown_outcome() -> None:
    """It must not become an error: the write may have been applied."""
    reply = LastByteSync.over(BreaksOff()).send(ask.Put("k", b"x", ABSENT), lambda: None)
    assert reply.outcome is Outcome.UNKNOWN


def test_requests_outside_a_race_are_none_of_our_business() -> None:
    store = Driver("http://127.0.0.1:1/b/k")
    LastByteSync.over(store)
    store.send(ask.Head("k"))
    assert store.answers == [None]


def test_over_a_real_client_every_kind_of_request_comes_through(honest_moto: "Here") -> None:
    """Bodies, XML, empty requests, and streamed answers, each held back and then answered as ever."""
    with open_store(honest_moto.bucket()) as store:
        clients = ThreadClients(store, 4)
        with contextlib.closing(clients):
            puts = clients.together([ask.Put("k", body_of(f"w{at}", 20_000), ABSENT) for at in range(4)])
            outcomes = sorted(one.outcome.value for one in puts)
            assert outcomes == ["done", "exists", "exists", "exists"]
            winner = next(one for one in puts if one.outcome is Outcome.DONE)
            reads = clients.together([ask.Get("k"), ask.Head("k"), ask.List("k"), ask.Get("k", 0, 5)])
            assert reads[0].reply.body == winner.request.body  # type: ignore[union-attr]
            assert [one.outcome for one in reads] == [Outcome.DONE] * 4
            upload = store.create_upload("m").upload
            part = store.upload_part("m", upload, 1, b"part").etag
            complete = ask.CompleteUpload("m", upload, ((1, part),), ABSENT)
            mixed = clients.together(
                [complete, ask.Delete("k", ANYTHING), ask.Head("gone"), ask.Put("e", b"", ABSENT)]
            )
            assert [one.outcome.value for one in mixed] == ["done", "done", "missing", "done"]
        assert store.get("m").body == b"part"


def test_a_conditional_write_without_an_answer_decides_nothing() -> None:
    """An error of the connection has no response: it says nothing about the form of the ETag."""

    def send(_condition: str) -> None:
        raise ReadTimeoutError(endpoint_url="http://127.0.0.1:9")

    with pytest.raises(Inconclusive, match="answered nothing"):
        etag_forms._accepts(send, "e")
