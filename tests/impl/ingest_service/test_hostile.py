"""Hostile requests: each gets its status and one clear sentence, and the store stays as it was."""

import json
import socket
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from fencepost.impl.http.limits import Limits
from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.service.requests import KINDS
from fencepost.impl.store.files import FileStore

from .serving import BINARY, Served, answer_of, batch, frame, query, serving

LIMITS = Limits(body_bytes=5000)
HASTY = Limits(body_bytes=5000, header_s=0.5, body_s=0.5, linger_s=0.3)
"""For clients that are slow on purpose; the other tests may run on a slow machine."""
GOOD = query(batch())
NAME = "agent_id=agent-a&boot_id="


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("hostile"), limits=LIMITS) as served:
        assert served.post(batch(100, 101), frame(batch(100, 101))).status_code == 200
        yield served


@pytest.fixture(scope="module")
def hasty(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Another collector of the same store, with short limits."""
    with serving(tmp_path_factory.mktemp("hasty"), store=served.store, limits=HASTY) as hasty:
        yield hasty


@pytest.fixture(autouse=True)
def nothing_changes(served: Served) -> Iterator[None]:
    """After every test here the store is as it was, and a good batch is a duplicate of the one accepted."""
    served.collector.wait_idle()
    before = served.listing()
    yield
    served.collector.wait_idle()
    assert served.listing() == before
    assert served.post(batch(100, 101), frame(batch(100, 101))).json()["duplicate"] is True


def expect(status: int, body: bytes, want: int, kind: str) -> None:
    reply = json.loads(body)
    assert (status, reply["error"]) == (want, kind), reply
    assert KINDS[kind].status == want
    assert 10 < len(reply["message"]) < 400
    assert reply["message"].isprintable()


def cut(by: int) -> bytes:
    return frame()[:-by]


def with_crc(body: bytes) -> bytes:
    return body + struct.pack(">I", zlib.crc32(body))


BODIES = {
    "empty": (b"", 400, "bad_frame"),
    "one byte": (b"\x89", 400, "bad_frame"),
    "truncated by one": (cut(1), 400, "bad_frame"),
    "truncated to its head": (frame()[:26], 400, "bad_frame"),
    "trailing byte": (frame() + b"\0", 400, "bad_frame"),
    "flipped bit": (frame()[:40] + bytes([frame()[40] ^ 1]) + frame()[41:], 400, "bad_frame"),
    "JSON": (b'{"points": []}', 400, "bad_frame"),
    "zip bomb": (
        with_crc(
            frame()[:14]
            + struct.pack(">III", 0, 600, 2**31)
            + zlib.compress(b"\0" * 500_000)[:600].ljust(600, b"\0")
        ),
        400,
        "bad_frame",
    ),
    "another batch": (frame(batch(5, 6)), 422, "mismatch"),
    "another boot": (frame(batch(boot="boot-2")), 422, "mismatch"),
    "another agent": (frame(batch(agent="agent-b")), 422, "mismatch"),
    "oversized": (b"x" * 5001, 413, "body_too_large"),
    "very oversized": (b"x" * 1_000_000, 413, "body_too_large"),
}


@pytest.mark.parametrize("what", BODIES)
@pytest.mark.parametrize("chunked", [False, True])
def test_bodies(served: Served, what: str, chunked: bool) -> None:
    body, status, kind = BODIES[what]
    content: Any = iter([body[:100], body[100:]]) if chunked else body
    answer = served.post(batch(), content)
    expect(answer.status_code, answer.content, status, kind)


QUERIES = {
    "none": ("", "bad_identity"),
    "seq_end before seq_start": (f"{NAME}b&seq_start=2&seq_end=1", "bad_sequence"),
    "beyond 64 bits": (f"{NAME}b&seq_start=1&seq_end=18446744073709551616", "bad_sequence"),
    "negative": (f"{NAME}b&seq_start=-1&seq_end=1", "bad_identity"),
    "21 digits": (f"{NAME}b&seq_start=000000000000000000001&seq_end=1", "bad_identity"),
    "a fraction": (f"{NAME}b&seq_start=1.0&seq_end=2", "bad_identity"),
    "an exponent": (f"{NAME}b&seq_start=1e0&seq_end=2", "bad_identity"),
    "an underscore": (f"{NAME}b&seq_start=1_0&seq_end=20", "bad_identity"),
    "a space": (f"{NAME}b&seq_start=+1&seq_end=2", "bad_identity"),
    "arabic digits": (f"{NAME}b&seq_start={quote(chr(0x661))}&seq_end=2", "bad_identity"),
    "superscript": (f"{NAME}b&seq_start={quote('²')}&seq_end=3", "bad_identity"),
    "no number": (f"{NAME}b&seq_start=&seq_end=2", "bad_identity"),
    "twice": (f"{GOOD}&seq_start=1", "bad_identity"),
    "two agents": (f"{GOOD}&agent_id=agent-b", "bad_identity"),
    "unknown": (f"{GOOD}&force=true", "bad_request"),
    "no equals sign": (f"{GOOD}&x", "bad_request"),
    "many": ("&".join(f"a{at}=1" for at in range(50)), "bad_request"),
    "an empty boot": (f"{NAME}&seq_start=1&seq_end=2", "bad_identity"),
    "a NUL byte": (f"{NAME}a%00&seq_start=1&seq_end=2", "bad_identity"),
    "a line break": (f"{NAME}a%0d%0aSet-Cookie:x&seq_start=1&seq_end=2", "bad_identity"),
    "an outer space": (f"{NAME}%20b&seq_start=1&seq_end=2", "bad_identity"),
    "a right-to-left override": (f"{NAME}{quote(chr(0x202E))}b&seq_start=1&seq_end=2", "bad_identity"),
    "a zero-width space": (f"{NAME}b{quote(chr(0x200B))}&seq_start=1&seq_end=2", "bad_identity"),
    "no UTF-8": (f"{NAME}%ff%fe&seq_start=1&seq_end=2", "bad_request"),
    "an overlong slash": (f"{NAME}%c0%af&seq_start=1&seq_end=2", "bad_request"),
    "a surrogate": (f"{NAME}%ed%a0%80&seq_start=1&seq_end=2", "bad_request"),
    "too long": (f"{NAME}{'b' * 129}&seq_start=1&seq_end=2", "bad_identity"),
    "too long in bytes": (f"{NAME}{quote('ü' * 65)}&seq_start=1&seq_end=2", "bad_identity"),
}


@pytest.mark.parametrize("what", QUERIES)
def test_identities(served: Served, what: str) -> None:
    query_text, kind = QUERIES[what]
    answer = served.client.post(
        f"{served.url}/v1/batches?{query_text}",
        content=frame(),
        headers={**served.auth(), "content-type": BINARY},
    )
    expect(answer.status_code, answer.content, KINDS[kind].status, kind)


PATHS = [
    "../../etc/passwd",
    "..",
    "/",
    "a/../b",
    "%2e%2e%2f",
    "C:\\x",
    "boot=x/agent=y",
    "ü",
    chr(0x1D552),
    "a.json",
    "~1",
]


def test_names_that_look_like_paths_stay_names(tmp_path: Path) -> None:
    """With any boot name the keys are below the agent's prefix, and round-trip."""
    with serving(tmp_path, store=FileStore(tmp_path / "store", linger_ms=0)) as other:
        for boot in PATHS:
            assert other.post(batch(boot=boot), frame(batch(boot=boot))).status_code == 200
        found = [key for key in other.listing() if key.startswith("accepted/")]
    assert sorted(Identity.of_key(key).boot for key in found) == sorted(PATHS)
    assert all(key.startswith(f"accepted/v1/agent={b'agent-a'.hex()}/boot=") for key in found)
    assert {file.name for file in tmp_path.iterdir()} == {"store", "tokens.json"}


HEADERS = {
    "no token": ({"authorization": None}, 401, "unauthenticated"),
    "basic": ({"authorization": "Basic YTpi"}, 401, "unauthenticated"),
    "unknown": ({"authorization": "Bearer abc.def"}, 401, "unauthenticated"),
    "empty": ({"authorization": "Bearer"}, 401, "unauthenticated"),
    "huge": ({"authorization": f"Bearer {'x' * 8000}"}, 401, "unauthenticated"),
    "latin": ({"authorization": b"Bearer \xff\xfe"}, 401, "unauthenticated"),
    "another agent's": ({"authorization": "agent-b"}, 403, "foreign_agent"),
    "an operator's": ({"authorization": "ops"}, 403, "foreign_agent"),
    "an operator's of that name": ({"authorization": "namesake"}, 403, "foreign_agent"),
    "gzip": ({"content-encoding": "gzip"}, 415, "unsupported_encoding"),
    "identity": ({"content-encoding": "identity"}, 415, "unsupported_encoding"),
    "no encoding's name": ({"content-encoding": ""}, 415, "unsupported_encoding"),
    "JSON": ({"content-type": "application/json"}, 415, "unsupported_encoding"),
    "no type": ({"content-type": None}, 415, "unsupported_encoding"),
    "multipart": ({"content-type": "multipart/form-data; boundary=x"}, 415, "unsupported_encoding"),
}


@pytest.mark.parametrize("what", HEADERS)
def test_headers(served: Served, what: str) -> None:
    changes, status, kind = HEADERS[what]
    headers: dict[str, Any] = {**served.auth(), "content-type": BINARY, **changes}
    if headers["authorization"] in served.tokens:
        headers |= served.auth(headers["authorization"])
    answer = served.client.post(
        f"{served.url}/v1/batches?{GOOD}",
        content=frame(),
        headers={name: value for name, value in headers.items() if value is not None},
    )
    expect(answer.status_code, answer.content, status, kind)
    assert ("www-authenticate" in answer.headers) == (status == 401)


def test_two_tokens(served: Served) -> None:
    pairs = [("authorization", f"Bearer {served.tokens[name]}") for name in ("agent-a", "agent-b")]
    answer = served.client.post(f"{served.url}/v1/batches?{GOOD}", content=frame(), headers=pairs)
    expect(answer.status_code, answer.content, 401, "unauthenticated")


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/v1/batches", 405, "method_not_allowed"),
        ("PUT", "/v1/batches", 405, "method_not_allowed"),
        ("DELETE", "/v1/conflicts", 405, "method_not_allowed"),
        ("POST", "/metrics", 405, "method_not_allowed"),
        ("POST", "/", 404, "not_found"),
        ("POST", "/v1/batches/", 404, "not_found"),
        ("POST", "/v1//batches", 404, "not_found"),
        ("POST", "/v1/batches/..%2f..%2fetc", 404, "not_found"),
        ("GET", "/%00", 400, "bad_request"),
        ("GET", "/%ff", 400, "bad_request"),
        ("GET", f"/{'a' * 9000}", 404, "not_found"),
    ],
)
def test_paths_and_methods(served: Served, method: str, path: str, status: int, kind: str) -> None:
    answer = served.client.request(method, f"{served.url}{path}")
    expect(answer.status_code, answer.content, status, kind)
    assert ("allow" in answer.headers) == (status == 405)


def test_only_operators_may_use_the_operator_routes(served: Served) -> None:
    for method, path in (("GET", "/v1/conflicts"), ("POST", "/v1/conflicts/resolve")):
        answer = served.client.request(method, f"{served.url}{path}", headers=served.auth("agent-a"))
        expect(answer.status_code, answer.content, 403, "not_operator")
        answer = served.client.request(method, f"{served.url}{path}")
        expect(answer.status_code, answer.content, 401, "unauthenticated")


# Below HTTP.


def exchange(served: Served, data: bytes, *, end: bool = False) -> tuple[int, dict[str, str], bytes]:
    with served.raw() as connection:
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        return answer_of(connection)


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS handshake
        b"HELO mail\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"GET / HTTP/1.1\r\nhost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nx: a\0b\r\n\r\n",
        b"POST /v1/batches HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/batches HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST /v1/batches HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n",
        b"GET /" + b"a" * 1_000_000,
        b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x: y\r\n" * 100_000,
        b"GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/9.9\r\nhost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\nhost: x\r\n\r\n",
    ],
    ids=range(17),
)
def test_bytes_that_are_not_http(served: Served, data: bytes) -> None:
    status, headers, body = exchange(served, data)
    expect(status, body, 400, "bad_request")
    assert headers["connection"] == "close"


@pytest.mark.parametrize(
    ("head", "code", "kind"),
    [(b"GET //x HTTP/1.1", 404, "not_found"), (b"GET http://[::1 HTTP/1.1", 400, "bad_request")],
)
def test_bytes_that_only_look_like_http(served: Served, head: bytes, code: int, kind: str) -> None:
    status, _, body = exchange(served, head + b"\r\nhost: x\r\n\r\n")
    expect(status, body, code, kind)


def test_two_lengths_are_refused(served: Served) -> None:
    """If a proxy sees one request and the collector two, a request can be smuggled."""
    head = served.head(frame(), "transfer-encoding: chunked")
    status, _, body = exchange(served, head + b"0\r\n\r\n")
    expect(status, body, 400, "bad_request")


def test_no_length(served: Served) -> None:
    status, _, body = exchange(served, served.head(-1))
    expect(status, body, 411, "length_required")


@pytest.mark.parametrize("chunk", [b"zz\r\nabc\r\n", b"-1\r\n", b"5\r\nabcdefgh\r\n", b"f" * 100 + b"\r\n"])
def test_broken_chunks(served: Served, chunk: bytes) -> None:
    status, _, body = exchange(served, served.head(-1, "transfer-encoding: chunked") + chunk)
    expect(status, body, 400, "bad_request")


@pytest.mark.parametrize("part", [0, 1, 50])
def test_a_truncated_body_is_not_a_batch(served: Served, part: int) -> None:
    """The connection ends within the body, or a chunked body ends early: nothing of it is accepted."""
    body = frame()
    with served.raw() as connection:
        connection.sendall(served.head(body) + body[: part or len(body) - 1])
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    with served.raw() as connection:
        connection.sendall(served.head(-1, "transfer-encoding: chunked") + chunk)  # and no last chunk


def test_slow_headers_are_aborted(hasty: Served) -> None:
    with hasty.raw() as connection:
        status, headers, body = answer_of(connection)  # not a byte was sent
        expect(status, body, 408, "too_slow")
        assert headers["connection"] == "close"
        assert connection.recv(10) == b""
    with hasty.raw() as connection:
        connection.sendall(b"POST /v1/batches HTTP/1.1\r\nhost:")
        status, _, body = answer_of(connection)
        expect(status, body, 408, "too_slow")


def test_slow_headers_of_a_second_request_are_aborted(hasty: Served) -> None:
    with hasty.raw() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert answer_of(connection)[0] == 200
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        status, _, body = answer_of(connection)
        expect(status, body, 408, "too_slow")
        assert connection.recv(10) == b""


def test_a_slow_body_is_aborted(hasty: Served) -> None:
    body = frame()
    with hasty.raw() as connection:
        connection.sendall(hasty.head(body) + body[:-1])
        status, headers, reply = answer_of(connection)
        expect(status, reply, 408, "too_slow")
        assert int(headers["retry-after"]) >= 1
        assert connection.recv(10) == b"", "and the connection ends, whatever is still to come"


def test_a_declared_length_is_refused_before_a_byte_is_sent(served: Served) -> None:
    status, _, body = exchange(served, served.head(10**12, "expect: 100-continue"))
    expect(status, body, 413, "body_too_large")
    status, _, body = exchange(served, served.head(10**30))
    expect(status, body, 400, "bad_request")


def test_a_foreign_token_is_refused_before_a_byte_is_sent(served: Served) -> None:
    status, _, body = exchange(served, served.head(1000, token="agent-b"))
    expect(status, body, 403, "foreign_agent")


def test_an_endless_body_gets_a_response_and_is_aborted(hasty: Served) -> None:
    """The sender can read why, though it never stops sending; and it cannot send for ever."""
    with hasty.raw() as connection:
        connection.sendall(hasty.head(-1, "transfer-encoding: chunked"))
        sent = 0
        try:
            while sent < 4_000_000_000:
                sent += connection.send(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
        except OSError:
            pass
        else:
            pytest.fail("it was let go on")
        status, _, body = answer_of(connection)
    expect(status, body, 413, "body_too_large")


def test_the_connection_survives_a_small_refused_body(served: Served) -> None:
    with served.raw() as connection:
        connection.sendall(served.head(5001) + b"x" * 5001 + b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert answer_of(connection)[0] == 413
        assert answer_of(connection)[0] == 200


def test_pipelined_requests_are_answered_in_order(served: Served) -> None:
    with served.raw() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /none HTTP/1.1\r\nhost: x\r\n\r\n")
        data = b""
        while data.count(b"HTTP/1.1") < 2 or not data.endswith(b"\n"):
            data += connection.recv(65536)
    assert data.index(b"HTTP/1.1 200") < data.index(b"HTTP/1.1 404")


def test_an_upgrade_is_ignored(served: Served) -> None:
    head = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    assert exchange(served, head)[0] == 200
