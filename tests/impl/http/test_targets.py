"""A target has one meaning, on every server: what its bytes decode to, once."""

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fencepost.impl.environment import SeededEnvironment, SystemEnvironment
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.http.service import Service
from fencepost.impl.http.targets import BadTarget, encoded, path_of, text_path
from fencepost.impl.http.tokens import Principal, Roles, TokenFile, Tokens
from fencepost.impl.ingest.authority import Authority
from fencepost.impl.ingest.operator import Blocklist
from fencepost.impl.ingest.service.acceptance import Strict
from fencepost.impl.ingest.service.app import Collector
from fencepost.impl.ingest.service.background import FollowUps
from fencepost.impl.lifecycle.app import LifecycleServer
from fencepost.impl.lifecycle.opening import open_lifecycle
from fencepost.impl.lifecycle.policy import Timing
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.objects.app import ObjectServer
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import Credentials
from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import Node
from fencepost.impl.streams.app import StreamServer
from tests.depth import examples

ROOT_TOKEN = "a root token of the tests"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/a%2Fb", "/a/b"),
        (b"/a%252Fb", "/a%2Fb"),
        (b"/%E2%82%AC?x=%FF", "/\u20ac"),
        (b"/a/../b//", "/a/../b//"),
        (b"/+", "/+"),
    ],
)
def test_a_target_is_decoded_once(target: bytes, path: str) -> None:
    assert path_of(target) == path
    assert path_of(encoded(path).encode()) == path


@pytest.mark.parametrize(
    "target", [b"", b"a", b"*", b"http://h/a", b"/%", b"/%2", b"/%zz", b"/%FF", b"/a#b", b"/%C0%AF"]
)
def test_what_has_no_one_meaning_is_refused(target: bytes) -> None:
    with pytest.raises(BadTarget):
        path_of(target)
    with pytest.raises(Refusal):
        text_path(target)


@pytest.mark.parametrize("code", [*range(32), *range(0x7F, 0xA0)])
def test_control_characters_are_refused_where_paths_are_text(code: int) -> None:
    with pytest.raises(Refusal):
        text_path(encoded(f"/a{chr(code)}").encode())


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_path_has_a_target(text: str) -> None:
    assert path_of(encoded(f"/{text}").encode()) == f"/{text}"


# All servers.

Ask = Callable[[str, bytes], tuple[int, dict[bytes, bytes], bytes]]
"""Method and target -> status, headers, body."""


def client_of(service: Service, loop: asyncio.AbstractEventLoop, headers: dict[str, str]) -> Ask:
    raw = [(name.encode(), text.encode()) for name, text in headers.items()]

    def ask(method: str, target: bytes, body: bytes = b"") -> tuple[int, dict[bytes, bytes], bytes]:
        raw_path, _, query = target.partition(b"?")
        length = [(b"content-length", str(len(body)).encode())] if method in ("PUT", "POST") else []
        scope = {
            "type": "http", "method": method, "raw_path": raw_path, "query_string": query, "root_path": "",
            # As the server gives it to logs:
            "path": unquote_to_bytes(raw_path).decode(errors="replace"),
            "headers": [(b"host", b"here"), *raw, *length], "client": ("127.0.0.1", 1), "scheme": "http",
            "server": ("127.0.0.1", 80), "http_version": "1.1",
        }  # fmt: skip
        status: list[int] = []
        found: dict[bytes, bytes] = {}
        pieces: list[bytes] = []
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            return await loop.create_future()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
                found.update(message["headers"])
            pieces.append(bytes(message.get("body", b"")))

        loop.run_until_complete(service(scope, receive, send))
        return status[0], found, b"".join(pieces)

    return ask  # type: ignore[return-value]  # the body has a default


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(scope="module")
def streams(loop: asyncio.AbstractEventLoop) -> Iterator[Any]:
    env = SeededEnvironment()
    server = StreamServer(Node(MemoryStore(env=env), env))
    yield client_of(server, loop, {"content-type": "text/plain"})
    server.close()


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    buckets = Buckets(str(tmp_path_factory.mktemp("objects")))
    buckets.create("data")
    server = ObjectServer(buckets, Credentials(ROOT_TOKEN))
    yield server
    server.close()
    buckets.close()


@pytest.fixture(scope="module")
def rest(loop: asyncio.AbstractEventLoop, s3: ObjectServer) -> Any:
    return client_of(s3, loop, {"authorization": f"Bearer {ROOT_TOKEN}"})


@pytest.fixture(scope="module")
def collector(loop: asyncio.AbstractEventLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder: Path = tmp_path_factory.mktemp("tokens")
    env = SystemEnvironment()
    file = TokenFile(folder / "tokens.json", "fencepost.ingest_tokens.v1", Roles("agent", "operator"), "")
    token = file.enrol(Principal("operator", "ops"), env)
    authority = Authority(MemoryStore(env=env), env, "collector")
    follow_ups = FollowUps(authority, on_dropped=lambda *_: None)
    blocklist = Blocklist(authority.store, env, authority.settings)
    server = Collector(Strict(authority, follow_ups, blocklist), Tokens(file))
    yield client_of(server, loop, {"authorization": f"Bearer {token}"})
    server.close()
    follow_ups.close()


def written(text: str, how: str) -> bytes:
    """A spelling of a path: `how` says for each byte whether it is encoded, and in which case."""
    parts = []
    for place, byte in enumerate(text.encode()):
        kind = how[place % len(how)]
        plain = chr(byte) if 32 < byte < 127 and chr(byte) not in "?#%" else ""
        parts.append(plain if kind == "p" and plain else f"%{byte:02X}" if kind != "l" else f"%{byte:02x}")
    return "".join(parts).encode()


SPELLING = st.text("pul", min_size=1, max_size=6)
PIECES = st.sampled_from(
    ["a", "b", "A", "/", "//", "/../", "/./", "%", "%2F", "%61", "%25", "\n", "\r", "\t", "\x00", "\x7f",
    "\x85",
     "?", "#", "+", " ", ";", "\u20ac", "\u00e9", "e\u0301", "\ufffd", "\\", ".", "..", "healthz", "metrics"]
)  # fmt: skip
PATH = st.lists(PIECES, max_size=6).map(lambda pieces: "/" + "".join(pieces))
RAW = st.one_of(
    st.tuples(PATH, SPELLING).map(lambda one: b"/" + written(one[0][1:], one[1])),
    st.sampled_from(
        [b"/a%0A", b"/%2561", b"/%61", b"/a", b"/%FF", b"/%FE", b"/a%", b"/healthz%0A", b"/%68ealthz"]
    ),
)
MANY = settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])


def decoded(target: bytes) -> str | None:
    try:
        return path_of(target)
    except BadTarget:
        return None


@MANY
@given(one=RAW, two=RAW)
@example(one=b"/vic%0Atim", two=b"/victim")
@example(one=b"/%2573ecret", two=b"/secret")
@example(one=b"/secret", two=b"/%73ecret")
def test_two_targets_of_streams_are_one_stream_only_if_they_decode_to_one_path(
    streams: Any, one: bytes, two: bytes
) -> None:
    """`DELETE /vic%0Atim` deleted /victim, and a prefix that a proxy admits would not be the one that is
    used."""
    mark = hashlib.sha256(one + b" " + two).hexdigest().encode()
    reserved = ("/healthz", "/readyz", "/metrics", "/openapi.json")
    made, headers, _ = streams("PUT", one, mark)
    status, _, body = streams("GET", two)
    if made == 201:
        assert decoded(one) not in (None, *reserved)
        assert path_of(headers[b"location"].removeprefix(b"http://here")) == decoded(one), "it leads there"
        assert (status == 200 and body == mark) == (decoded(one) == decoded(two))
        assert streams("DELETE", one)[0] == 204
    else:
        assert made in (400, 405)
    assert status in (200, 400, 404)


@MANY
@given(one=RAW, two=RAW)
def test_two_targets_of_objects_are_one_object_only_if_they_decode_to_one_path(
    rest: Any, one: bytes, two: bytes
) -> None:
    mark = hashlib.sha256(one + b" " + two).hexdigest().encode()
    made, _, _ = rest("PUT", b"/v1/data" + one, mark)
    status, _, body = rest("GET", b"/v1/data" + two)
    if made == 200:
        assert decoded(one) is not None
        assert (status == 200 and body == mark) == (decoded(one) == decoded(two))
        assert rest("DELETE", b"/v1/data" + one)[0] == 204
    else:
        assert made in (400, 405), "no key, or one that no directory can have"
    assert status in (200, 400, 404)


@MANY
@given(one=RAW, two=RAW)
def test_two_targets_of_s3_are_one_object_only_if_they_decode_to_one_path(
    s3: ObjectServer, one: bytes, two: bytes
) -> None:
    def place(target: bytes) -> tuple[str, str] | None:
        try:
            found = s3.take_apart("GET", b"/data" + target, b"", [(b"host", b"here")])
        except S3Error:
            return None
        return found.bucket, found.key

    first, second = place(one), place(two)
    assert (first is None, second is None) == (decoded(one) is None, decoded(two) is None)
    if first is not None:
        assert (first == second) == (decoded(one) == decoded(two))


@pytest.fixture(scope="module")
def lifecycle(loop: asyncio.AbstractEventLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = str(tmp_path_factory.mktemp("lifecycle"))
    buckets = Buckets(folder)
    buckets.create("data")
    buckets.close()
    with open_lifecycle(folder, SystemEnvironment()) as opened:
        worker = Worker(opened.context, opened.target, opened.log, Timing(1000, 1000, 1000))
        server = LifecycleServer(worker, "store")
        yield client_of(server, loop, {})
        server.close()


COMMON = {"/healthz", "/readyz", "/openapi.json", "/metrics"}
COLLECTING = {*COMMON, "/v1/conflicts", "/v1/blocks"}
SHOWING = {*COMMON, "/", "/status.json"}
ENDS = st.sampled_from(["", "\n", "\r", "/", "\t", " ", "\x00", "/.", "\u0085"])
AROUND = st.one_of(
    st.tuples(st.sampled_from(sorted(COLLECTING | SHOWING)), SPELLING, ENDS).map(
        lambda one: b"/" + written(one[0][1:] + one[2], one[1])
    ),
    RAW,
)


@MANY
@given(target=AROUND)
@example(target=b"/healthz%0A")
@example(target=b"/v1/blocks%0A")
@example(target=b"/status.json%0A")
@example(target=b"/%0A")
def test_a_target_is_a_route_only_if_it_decodes_to_its_path(
    collector: Any, lifecycle: Any, target: bytes
) -> None:
    """A router whose pattern ends with `$` takes a path with a line feed for the one without."""
    path = decoded(target)
    for server, routes in ((collector, COLLECTING), (lifecycle, SHOWING)):
        status, _, _ = server("GET", target)
        assert (status == 200) == (path in routes)
        assert status in (200, 400, 404, 405)
