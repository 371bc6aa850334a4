"""The limits on all clients together, the refusals beyond them, and how a collector stops."""

import asyncio
import contextlib
import resource
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.server import protocol
from fencepost.impl.ingest import Accepted, Authority, keys
from fencepost.impl.ingest.service.background import FollowUps
from fencepost.impl.store import Unusable
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.layers.faulty import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore

from .serving import ENV, TIMEOUT_S, Served, answer_of, batch, frame, listing, serving

MANY = 1000


class Held(Layer):
    """A store that holds every write until the test releases it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.go = threading.Event()
        self.waiting = threading.Semaphore(0)

    def send(self, request: Any) -> Any:
        if not request.reads:
            self.waiting.release()
            assert self.go.wait(TIMEOUT_S)
        return self.inner.send(request)


class Failing(Layer):
    """A store that raises."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(MemoryStore())
        self.error = error

    def send(self, request: Any) -> Any:
        if self.error is not None:
            raise self.error
        return self.inner.send(request)

    def verify(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def _many_files() -> Iterator[None]:
    """Two ends of a thousand connections in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MANY + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the system allows only {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_many_files")
def test_a_thousand_connections(tmp_path: Path) -> None:
    """All get a response, each accepted batch exists, and the collector still works afterwards."""
    identities = [batch(at, at) for at in range(MANY)]
    store = MemoryStore()
    with serving(tmp_path, store=store) as served, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(served.raw()) for _ in range(MANY)]
        for connection, identity in zip(connections, identities, strict=True):
            body = frame(identity)
            connection.sendall(served.head(body, identity=identity) + body)
        replies = [answer_of(connection) for connection in connections]
        statuses = Counter(status for status, _, _ in replies)
        assert set(statuses) <= {200, 429, 503}
        assert statuses[200] >= 1
        assert all("retry-after" in headers for status, headers, _ in replies if status != 200)
        accepted = {
            identity for identity, (status, _, _) in zip(identities, replies, strict=True) if status == 200
        }
        assert {keys.accepted_key(identity) for identity in accepted} == {
            key for key in listing(store) if key.startswith(keys.ACCEPTED)
        }
        connections[0].sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert answer_of(connections[0])[0] == 200
        assert served.post(identities[0], frame(identities[0])).status_code == 200


def test_a_connection_beyond_the_limit_takes_the_place_of_an_idle_one(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(connections=3, linger_s=0.2)) as served:
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(served.raw()) for _ in range(3)]
            for connection in held:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                assert answer_of(connection)[0] == 200
            with served.raw() as extra:
                extra.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                assert answer_of(extra)[0] == 200
                assert held[0].recv(1) == b"", "the one that was idle for longest"
                for connection in held[1:]:
                    connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                    assert answer_of(connection)[0] == 200, "the others stay open"
        assert 'refused_total{kind="busy"}' in served.client.get(f"{served.url}/metrics").text


def test_a_connection_beyond_the_limit_gets_503_when_all_have_requests(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(connections=3, linger_s=0.2)) as served:
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(served.raw()) for _ in range(3)]
            for connection in held:
                connection.sendall(served.head(10))  # the body follows later
            time.sleep(0.1)
            for _ in range(5):
                with served.raw() as extra:
                    extra.sendall(served.head(10))
                    status, headers, body = answer_of(extra)
                    assert (status, headers["retry-after"], b"busy" in body) == (503, "1", True)
                    assert extra.recv(1) == b""
            held[0].sendall(b"0123456789")
            assert answer_of(held[0])[0] == 400, "open connections stay open"
        for _ in range(100):
            with contextlib.suppress(httpx.HTTPError):
                if served.client.get(f"{served.url}/healthz").status_code == 200:
                    break
        else:
            pytest.fail("no client gets in any more")


def test_requests_beyond_the_limits_are_refused_and_no_agent_starves_another(tmp_path: Path) -> None:
    held = Held()
    limits = Limits(requests=2, client_requests=1)
    with serving(tmp_path, store=held, limits=limits) as served, ThreadPoolExecutor(2) as pool:
        other = batch(agent="agent-b")
        first = pool.submit(served.post, batch(), frame())
        assert held.waiting.acquire(timeout=TIMEOUT_S)
        again = served.post(batch(5, 6), frame(batch(5, 6)))
        assert (again.status_code, again.json()["error"]) == (429, "too_many_requests")
        second = pool.submit(served.post, other, frame(other), "agent-b")
        assert held.waiting.acquire(timeout=TIMEOUT_S)
        third = served.post(batch(5, 6), frame(batch(5, 6)))
        assert (third.status_code, third.json()["error"]) == (503, "busy")
        assert {again.headers["retry-after"], third.headers["retry-after"]} == {"1"}
        assert served.client.get(f"{served.url}/healthz").status_code == 200, "monitoring gets through"
        held.go.set()
        assert [first.result(TIMEOUT_S).status_code, second.result(TIMEOUT_S).status_code] == [200, 200]
        assert served.post(batch(5, 6), frame(batch(5, 6))).status_code == 200


def test_nagle_is_off(tmp_path: Path) -> None:
    """Nagle's delay made every batch 40 ms slower."""
    with serving(tmp_path) as served:
        assert served.client.get(f"{served.url}/healthz").status_code == 200
        (connection,) = served.stop.__self__.server_state.connections
        found = connection.transport.get_extra_info("socket")
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_requests_in_flight_are_finished_before_the_end(tmp_path: Path) -> None:
    held = Held()
    with serving(tmp_path, store=held) as served, ThreadPoolExecutor(1) as pool:
        idle = served.raw()
        working = pool.submit(served.post, batch(), frame())
        assert held.waiting.acquire(timeout=TIMEOUT_S)
        served.stop()
        assert served.collector.gate.closed
        assert idle.recv(10) == b"", "idle connections are closed"
        idle.close()
        with pytest.raises(OSError), served.raw() as late:  # noqa: PT012 - wherever it fails
            late.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            answer_of(late)
            raise AssertionError("a new connection is served")
        assert not working.done()
        held.go.set()
        assert working.result(TIMEOUT_S).json()["duplicate"] is False
    found = listing(held)
    for prefix in (keys.ACCEPTED, keys.BY_TIME, keys.BY_BLOB):
        assert any(key.startswith(prefix) for key in found), "follow-ups are finished, too"


def test_follow_ups_are_written_before_the_end() -> None:
    held = Held()
    authority = Authority(held, ENV, "collector-1")
    held.go.set()
    accepted = authority.accept(batch(), frame())
    assert isinstance(accepted, Accepted)
    held.go.clear()
    follow_ups = FollowUps(authority)
    follow_ups(accepted.manifest)
    closing = threading.Thread(target=follow_ups.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive(), "the store has not taken it yet"
    held.go.set()
    closing.join(TIMEOUT_S)
    assert not closing.is_alive()
    assert any(key.startswith(keys.BY_TIME) for key in listing(held))


def test_follow_ups_beyond_the_limit_are_left_to_the_reconciler() -> None:
    held = Held()
    held.go.set()
    authority = Authority(held, ENV, "collector-1")
    manifests = [authority.accept(batch(at, at), frame(batch(at, at))).manifest for at in range(20)]
    held.go.clear()
    dropped: list[int] = []
    follow_ups = FollowUps(authority, waiting=3, on_dropped=lambda: dropped.append(1))
    for manifest in manifests:
        follow_ups(manifest)
    assert 0 < len(dropped) < 20
    held.go.set()
    follow_ups.close()
    assert sum(key.startswith(keys.BY_TIME) for key in listing(held)) == 20 - len(dropped)


def test_a_connection_during_the_stop_does_not_delay_it(tmp_path: Path) -> None:
    """The system may accept one after the collector closed its connections: a client that keeps sending
    requests on it would delay the end until the drain times out."""
    refused: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("it is not served")

    async def connect() -> bytes:
        made = protocol(Limits(linger_s=0.1), refused.append, stopping=lambda: True)
        config = uvicorn.Config(app, http=made, ws="none", lifespan="off", log_config=None)
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: made(config, state, {}), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        reply = await reader.read()
        assert not state.connections
        writer.close()
        server.close()
        return reply

    reply = asyncio.run(connect())
    assert reply.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in reply
    assert refused == ["draining"]


def test_a_stopping_collector_refuses_batches(tmp_path: Path) -> None:
    """On a connection that is still open: a load balancer must choose another collector."""
    with serving(tmp_path) as served:
        served.collector.stop()
        for answer in (served.client.get(f"{served.url}/readyz"), served.post(batch(), frame())):
            assert (answer.status_code, answer.json()["error"]) == (503, "draining")
            assert answer.headers["retry-after"] == "1"
        assert served.client.get(f"{served.url}/healthz").status_code == 200
        assert served.listing() == {}


def test_without_the_store_nothing_is_accepted(tmp_path: Path) -> None:
    store = MemoryStore()
    away = Faulty(store, [Fault(Effect.THROTTLED)])
    with serving(tmp_path, store=away) as served:
        answer = served.post(batch(), frame())
        assert (answer.status_code, answer.json()["error"]) == (503, "store_unavailable")
        assert int(answer.headers["retry-after"]) >= 1
    assert store.contents() == {}


def test_a_lost_reply_is_read_back_and_not_a_duplicate(tmp_path: Path) -> None:
    store = Faulty(MemoryStore(), [Fault(Effect.REPLY_LOST, kinds={"put"}, prefix=keys.ACCEPTED, times=1)])
    with serving(tmp_path, store=store) as served:
        assert served.post(batch(), frame()).json()["duplicate"] is False


def test_an_unusable_store_and_a_bug(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The response has the action for the client; the reason is only in the log."""
    store = Failing()
    with serving(tmp_path, store=store) as served:
        assert served.client.get(f"{served.url}/readyz").json() == {"status": "ok"}
        store.error = Unusable("the bucket of gold is gone")
        answer = served.post(batch(), frame())
        assert (answer.status_code, answer.json()["error"]) == (503, "store_unavailable")
        store.error = RuntimeError("a secret thing broke")
        answer = served.post(batch(), frame())
        assert (answer.status_code, answer.json()["error"]) == (500, "internal")
        assert "secret" not in answer.text
        assert "gold" not in answer.text
        store.error = None
        assert served.post(batch(), frame()).status_code == 200
    assert "bucket of gold" in caplog.text
    assert "a secret thing broke" in caplog.text
    assert not any(token in caplog.text for token in served.tokens.values())


def test_ready_follows_the_store(tmp_path: Path) -> None:
    store = Failing(Unusable("no such bucket"))
    with serving(tmp_path, store=store) as served:
        answer = served.client.get(f"{served.url}/readyz")
        assert (answer.status_code, answer.json()["error"]) == (503, "store_unavailable")
        assert served.client.get(f"{served.url}/healthz").status_code == 200


def test_a_client_that_leaves_early_loses_nothing(tmp_path: Path) -> None:
    """Its batch is accepted or not, and the next attempt finds out which."""
    held = Held()
    with serving(tmp_path, store=held) as served:
        with served.raw() as connection:
            connection.sendall(served.head(frame()) + frame())
            assert held.waiting.acquire(timeout=TIMEOUT_S)
        held.go.set()
        reply = served.post(batch(), frame()).json()
        assert reply["frame_sha256"]
        served.collector.wait_idle()
        assert sum(key.startswith(keys.ACCEPTED) for key in served.listing()) == 1


def test_a_client_that_stops_reading_is_aborted(tmp_path: Path) -> None:
    """A client that sends requests and never reads a response does not fill the memory."""
    with serving(tmp_path, limits=Limits(write_s=0.2)) as served:
        with served.raw() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            requests = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n" * 50
            connection.settimeout(20)  # held up for ever would be a TimeoutError, which is none of these
            with pytest.raises(ConnectionError):  # noqa: PT012 - whenever it is cut
                for _ in range(100_000):
                    connection.sendall(requests)
        assert served.client.get(f"{served.url}/healthz").status_code == 200


@pytest.mark.parametrize("name", ["body_bytes", "connections", "header_s"])
def test_a_limit_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"the limit {name} is 0"):
        Limits(**{name: 0})


def test_served_hides_its_tokens(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert isinstance(served, Served)
        page = served.client.get(f"{served.url}/metrics").text
    assert not any(token in page for token in served.tokens.values())
