"""Who may do what: tokens below prefixes, forks, pages of other origins; and what no log shows."""

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.impl.environment import SeededEnvironment, SystemEnvironment
from fencepost.impl.http.tokens import RIGHTS, Holder, TokenFile, Tokens, grants_file
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import Configuration, Node
from fencepost.impl.streams.access import Access
from fencepost.impl.streams.app import StreamServer

from .requests import Answer, ask

TEXT = {"content_type": "text/plain"}
METHODS = {"read": "GET", "append": "POST", "create": "PUT", "delete": "DELETE"}


@pytest.fixture
def file(tmp_path: Path) -> TokenFile[Holder]:
    return grants_file(tmp_path / "tokens.json", "fencepost streams enrol")


@pytest.fixture
def server(file: TokenFile[Holder]) -> Iterator[StreamServer]:
    env = SeededEnvironment()
    node = Node(MemoryStore(env=env), env)
    for name in ("/team/a", "/teamwork/a", "/other/a"):
        node.create(name, Configuration("text/plain"), b"secret")
    made = StreamServer(node, sse_s=0.0, access=Access(_tokens(file)))
    yield made
    made.close()


def _tokens(file: TokenFile[Holder]) -> Tokens[Holder]:
    enrol(file, ("/unused", frozenset({"read"})))
    return Tokens(file)


def enrol(file: TokenFile[Holder], *grants: tuple[str, frozenset[str]], name: str = "client") -> str:
    return file.enrol(Holder(name, grants), SystemEnvironment())


def acting(server: StreamServer, right: str, target: str, token: str) -> Answer:
    body = b"x" if right == "append" else b""
    return ask(server, METHODS[right], target, body, authorization=f"Bearer {token}", **TEXT)


@pytest.mark.parametrize(
    ("granted", "wanted"), list(itertools.product(RIGHTS, RIGHTS)), ids=lambda right: right
)
def test_a_right_allows_its_method_below_its_prefix_and_nothing_else(
    server: StreamServer, file: TokenFile[Holder], granted: str, wanted: str
) -> None:
    token = enrol(file, ("/team", frozenset({granted})))
    assert (acting(server, wanted, "/team/a", token).status < 300) == (granted == wanted)
    for target in ("/teamwork/a", "/other/a", "/other/none", "/"):
        refused = acting(server, wanted, target, token)
        assert refused.status == (400 if target == "/" else 403)
        assert b"secret" not in refused.body


def test_a_prefix_is_whole_segments_of_the_decoded_name(
    server: StreamServer, file: TokenFile[Holder]
) -> None:
    """Otherwise /team would open /teamwork, and a spelling of a name would open what the name does not."""
    token = enrol(file, ("/team/", frozenset({"read"})))
    for target, status in (
        ("/team/a", 200), ("/%74eam/a", 200), ("/team%2Fa", 200), ("/team", 404), ("/teamwork/a", 403),
        ("/team/../other/a", 400), ("/team/%2e%2e/other/a", 400), ("//team/a", 400), ("/other/a?/team/a",
        403), ("/team%252Fa", 403),
    ):  # fmt: skip
        assert acting(server, "read", target, token).status == status, target


def test_a_name_that_is_not_covered_is_answered_alike_whether_it_exists(
    server: StreamServer, file: TokenFile[Holder]
) -> None:
    token = enrol(file, ("/team", frozenset(RIGHTS)))
    for right in RIGHTS:
        there, none = (acting(server, right, name, token) for name in ("/other/a", "/other/b"))
        assert there.status == none.status == 403
        assert there.body.replace(b"/a", b"/b") == none.body


@pytest.mark.parametrize(
    "given", ["", "Bearer ", "Bearer x", "Basic eDp5", "Bearer " + "x" * 600, "Bearer \u00e9.\u00e9"]
)
def test_without_a_token_that_is_known_nothing_is_answered(server: StreamServer, given: str) -> None:
    for method in METHODS.values():
        answer = ask(server, method, "/team/a", **({"authorization": given} if given else {}))
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert b"secret" not in answer.body
    assert ask(server, "GET", "/healthz").status == 200


def test_a_token_that_is_revoked_is_refused_at_the_next_request(
    server: StreamServer, file: TokenFile[Holder]
) -> None:
    token = enrol(file, ("/", frozenset({"read"})), name="gone")
    assert acting(server, "read", "/team/a", token).status == 200
    assert file.revoke("gone") == 1
    assert acting(server, "read", "/team/a", token).status == 401


def test_a_token_may_have_several_prefixes_with_rights_of_their_own(
    server: StreamServer, file: TokenFile[Holder]
) -> None:
    token = enrol(file, ("/team", frozenset({"read"})), ("/other", frozenset({"delete"})))
    assert acting(server, "read", "/team/a", token).status == 200
    assert acting(server, "delete", "/team/a", token).status == 403
    assert acting(server, "read", "/other/a", token).status == 403
    assert acting(server, "delete", "/other/a", token).status == 204


def test_a_fork_needs_to_read_its_source(server: StreamServer, file: TokenFile[Holder]) -> None:
    """With the right to create a copy anywhere, everything could be read."""
    creating = enrol(file, ("/team", frozenset({"create", "read"})))
    for source in ("/other/a", "/%6fther/a", "/other%2Fa", "/other/none"):
        forked = ask(
            server, "PUT", "/team/fork", authorization=f"Bearer {creating}", stream_forked_from=source
        )
        assert forked.status == 403
        assert acting(server, "read", "/team/fork", creating).status == 404
    both = enrol(file, ("/team", frozenset({"create", "read"})), ("/other", frozenset({"read"})))
    assert (
        ask(server, "PUT", "/team/fork", authorization=f"Bearer {both}", stream_forked_from="/other/a").status
        == 201
    )
    assert acting(server, "read", "/team/fork", creating).body == b"secret"


def test_the_source_of_a_fork_is_a_name_like_every_other(
    server: StreamServer, file: TokenFile[Holder]
) -> None:
    token = enrol(file, ("/", frozenset(RIGHTS)))
    for source in ("/team/%61", "/te%0Aam/a", "team/a", "/team//a", "/%FF", "/team/../team/a"):
        forked = ask(server, "PUT", "/fork", authorization=f"Bearer {token}", stream_forked_from=source)
        assert forked.status == (201 if source == "/team/%61" else 400), source


def test_an_event_source_gives_its_token_in_the_query_and_no_log_has_it(
    server: StreamServer, file: TokenFile[Holder], caplog: pytest.LogCaptureFixture
) -> None:
    token = enrol(file, ("/team", frozenset({"read"})))
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="fencepost.streams"):
        followed = ask(server, "GET", f"/team/a?live=sse&offset=-1&token={token}")
        assert followed.status == 200
        assert b"data:secret" in followed.body
        for query in (
            f"offset=-1&token={token}",
            f"live=long-poll&offset=-1&token={token}",
            f"live=sse&offset=-1&%74oken={token}",
            f"live=sse&offset=-1&token={token}&token={token}",
            f"live=sse&offset=-1&TOKEN={token}",
        ):
            assert ask(server, "GET", f"/team/a?{query}").status == 401
        assert ask(server, "POST", f"/team/a?live=sse&token={token}", b"x", **TEXT).status == 401
        assert ask(server, "GET", f"/other/a?live=sse&offset=-1&token={token}").status == 403
    assert "/team/a" in caplog.text
    assert token.partition(".")[2] not in caplog.text


def test_what_a_token_opened_is_cached_by_nobody_else(server: StreamServer, file: TokenFile[Holder]) -> None:
    token = enrol(file, ("/team", frozenset({"read"})))
    answer = acting(server, "read", "/team/a", token)
    assert answer.headers["cache-control"].startswith("private")
    assert "authorization" in answer.headers["vary"]


# Pages in browsers.


def open_server(*origins: str) -> StreamServer:
    env = SeededEnvironment()
    node = Node(MemoryStore(env=env), env)
    node.create("/a", Configuration("text/plain"), b"x")
    return StreamServer(node, access=Access(origins=origins))


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://here.evil.example", "http://here:81"]
)
def test_pages_of_other_origins_only_read(origin: str) -> None:
    """A browser sends a POST of text/plain for any page, without a preflight: it would append, or delete."""
    server = open_server()
    assert ask(server, "GET", "/a", origin=origin).headers["access-control-allow-origin"] == "*"
    asked = ask(server, "OPTIONS", "/a", origin=origin, access_control_request_method="DELETE")
    assert asked.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    for method in ("POST", "PUT", "DELETE"):
        answer = ask(server, method, "/a", b"x", origin=origin, **TEXT)
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers
    assert ask(server, "GET", "/a").body == b"x"
    server.close()


def test_pages_of_this_server_and_programs_write() -> None:
    server = open_server()
    for headers in ({}, {"origin": "http://here"}, {"origin": "https://here"}):
        assert ask(server, "POST", "/a", b"x", **TEXT, **headers).status == 204
    server.close()


def test_pages_of_origins_that_are_configured_write_and_others_do_not() -> None:
    server = open_server("https://app.example")
    allowed, other = ({"origin": f"https://{name}.example"} for name in ("app", "evil"))
    assert ask(server, "POST", "/a", b"x", **TEXT, **allowed).status == 204
    assert ask(server, "POST", "/a", b"x", **TEXT, **other).status == 403
    asked = ask(server, "OPTIONS", "/a", **allowed)
    assert "DELETE" in asked.headers["access-control-allow-methods"]
    assert "authorization" in asked.headers["access-control-allow-headers"], "* does not cover it"
    assert "origin" in asked.headers["vary"]
    assert "DELETE" not in ask(server, "OPTIONS", "/a", **other).headers["access-control-allow-methods"]
    server.close()
    everyone = open_server("*")
    assert ask(everyone, "POST", "/a", b"x", **TEXT, **other).status == 204
    everyone.close()
