"""Tokens of a file, below /v1: the same as those of streams, with rights below prefixes."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.tokens import RIGHTS, Holder, TokenFile, Tokens, grants_file

from .serving import served
from .test_rest import BUCKET, Client

TEAM = f"/{BUCKET}/team"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> TokenFile[Holder]:
    return grants_file(Path(tmp_path_factory.mktemp("tokens"), "tokens.json"), "fencepost objects enrol")


@pytest.fixture(scope="module")
def address(file: TokenFile[Holder], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    enrol(file, "/unused", "read")
    with served(tmp_path_factory.mktemp("objects"), tokens=Tokens(file)) as found:
        root = Client(found)
        assert root("POST", "/v1/buckets", {"name": BUCKET}).status == 201
        for key in ("team/a", "teamwork/a", "other/a"):
            assert root("PUT", f"/v1/{BUCKET}/{key}", b"secret").status == 200
        yield found


def enrol(file: TokenFile[Holder], prefix: str, *rights: str, name: str = "client") -> str:
    return file.enrol(Holder(name, ((prefix, frozenset(rights)),)), SystemEnvironment())


ETAG = f'"{hashlib.md5(b"secret", usedforsecurity=False).hexdigest()}"'
REQUESTS = [
    ("GET", "team/a", None, {}, {"read"}),
    ("HEAD", "team/a", None, {}, {"read"}),
    ("PUT", "team/b", b"x", {}, {"create", "append"}),
    ("PUT", "team/c", b"x", {"if_none_match": "*"}, {"create"}),
    ("PUT", "team/a", b"secret", {"if_match": ETAG}, {"append"}),
    ("PATCH", "team/a", {"access": "private"}, {}, {"append"}),
    ("POST", "team/d", {"source": "team/a"}, {}, {"read", "create", "append"}),
    ("PATCH", "team/d", {"key": "team/e"}, {}, {"read", "delete", "create", "append"}),
    ("DELETE", "team/b", None, {}, {"delete"}),
]


@pytest.mark.parametrize(("method", "key", "body", "headers", "needed"), REQUESTS)
def test_a_request_needs_its_rights_and_no_others(
    address: str,
    file: TokenFile[Holder],
    method: str,
    key: str,
    body: object,
    headers: dict[str, str],
    needed: set[str],
) -> None:
    for missing in sorted(needed):
        client = Client(address, enrol(file, TEAM, *({*RIGHTS} - {missing})))
        assert client(method, f"/v1/{BUCKET}/{key}", body, **headers).status == 403
    other = Client(address, enrol(file, f"/{BUCKET}/other", *RIGHTS))
    assert other(method, f"/v1/{BUCKET}/{key}", body, **headers).status == 403
    client = Client(address, enrol(file, TEAM, *needed))
    assert client(method, f"/v1/{BUCKET}/{key}", body, **headers).status < 300


def test_a_copy_reads_and_writes_below_prefixes_of_its_token(address: str, file: TokenFile[Holder]) -> None:
    client = Client(address, enrol(file, TEAM, *RIGHTS))
    assert client("POST", f"/v1/{BUCKET}/team/copy", {"source": "other/a"}).status == 403
    assert client("PATCH", f"/v1/{BUCKET}/team/a", {"key": "other/b"}).status == 403
    assert Client(address)("GET", f"/v1/{BUCKET}/team/a").body == b"secret"


def test_a_listing_shows_what_its_token_reads(address: str, file: TokenFile[Holder]) -> None:
    client = Client(address, enrol(file, TEAM, "read"))
    assert client("GET", f"/v1/{BUCKET}?prefix=team/").status == 200
    for prefix in ("", "team", "teamwork/", "t"):
        assert client("GET", f"/v1/{BUCKET}?prefix={prefix}").status == 403


@pytest.mark.parametrize("name", ["root", BUCKET])
def test_the_name_of_a_holder_gives_no_power(address: str, file: TokenFile[Holder], name: str) -> None:
    """`root` is the caller who administers buckets."""
    client = Client(address, enrol(file, "/", *RIGHTS, name=name))
    assert client("GET", "/v1/buckets").status == 403
    assert client("POST", "/v1/buckets", {"name": "bucket-two"}).status == 403
    assert client("DELETE", f"/v1/buckets/{BUCKET}").status == 403


def test_a_token_that_is_revoked_is_refused(address: str, file: TokenFile[Holder]) -> None:
    client = Client(address, enrol(file, TEAM, "read", name="gone"))
    assert client("GET", f"/v1/{BUCKET}/team/a").status == 200
    assert file.revoke("gone") == 1
    assert client("GET", f"/v1/{BUCKET}/team/a").status == 401
