"""The native REST interface: objects, listings, buckets, tokens, and a JSON refusal for everything else."""

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fencepost.impl.http.limits import Gate
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.objects import rest
from fencepost.impl.objects.index import Index
from fencepost.impl.objects.rest import Rest
from fencepost.impl.objects.wire.errors import refuse
from tests.impl.objects.serving import ROOT_TOKEN, client, served

BUCKET = "bucket-one"


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> tuple[int, str]:
        return self.status, self.json["error"]


@dataclass
class Client:
    address: str
    token: str | None = ROOT_TOKEN

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection(self.address.removeprefix("http://"), timeout=30)
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        if self.token is not None:
            sent["authorization"] = f"Bearer {self.token}"
        connection.request(method, path, content, sent)
        response = connection.getresponse()
        found = Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        connection.close()
        return found


def bucket_token(bucket: str) -> str:
    return hmac.digest(ROOT_TOKEN.encode(), bucket.encode(), "sha256").hex()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("objects")) as found:
        assert Client(found)("POST", "/v1/buckets", {"name": BUCKET}).status == 201
        yield found


@pytest.fixture
def root(address: str) -> Client:
    send = Client(address)
    listed = send("GET", f"/v1/{BUCKET}?limit=1000")
    assert listed.status == 200, listed
    for one in listed.json["objects"]:
        send("DELETE", f"/v1/{BUCKET}/{one['key']}")
    return send


def test_pages_of_the_directory_are_those_of_the_index(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a start the directory answers until the index was compared: with the largest page, too."""
    keys = [f"k{number}" for number in range(5)]
    for key in keys:
        root("PUT", f"/v1/{BUCKET}/{key}", b"x")
    monkeypatch.setattr(Index, "entries", lambda *_: None)
    whole = root("GET", f"/v1/{BUCKET}?limit=1000")
    assert (whole.status, [one["key"] for one in whole.json["objects"]]) == (200, keys)
    assert whole.json["next_cursor"] is None
    first = root("GET", f"/v1/{BUCKET}?limit=3").json
    assert ([one["key"] for one in first["objects"]], first["next_cursor"]) == (keys[:3], "k2")
    rest = root("GET", f"/v1/{BUCKET}?limit=2&cursor=k2").json
    assert ([one["key"] for one in rest["objects"]], rest["next_cursor"]) == (keys[3:], None)


def test_an_object_that_vanishes_during_a_listing_hides_no_later_one(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("a", "b", "c"):
        root("PUT", f"/v1/{BUCKET}/{key}", b"x")
    monkeypatch.setattr(Index, "entries", lambda *_: None)
    described = Rest._described

    def vanished(self: Rest, bucket: str, key: str) -> dict[str, Any]:
        if key == "a":
            refuse("NoSuchKey")
        return described(self, bucket, key)

    monkeypatch.setattr(Rest, "_described", vanished)
    page = root("GET", f"/v1/{BUCKET}?limit=2").json
    assert ([one["key"] for one in page["objects"]], page["next_cursor"]) == (["b"], "b")


def test_an_object_comes_back_with_everything(root: Client, address: str) -> None:
    put = root("PUT", f"/v1/{BUCKET}/a/b%20c", b"hello", content_type="text/x", x_object_meta_a="b")
    etag = hashlib.md5(b"hello").hexdigest()
    assert put.json == {"key": "a/b c", "etag": etag, "size": 5, "access": "private"}
    got = root("GET", f"/v1/{BUCKET}/a/b%20c")
    assert (got.status, got.body) == (200, b"hello")
    names = ("etag", "content-type", "x-object-meta-a", "x-object-access", "content-length")
    assert [got.headers[name] for name in names] == [f'"{etag}"', "text/x", "b", "private", "5"]
    head = root("HEAD", f"/v1/{BUCKET}/a/b%20c")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "5")
    s3 = client(address).get_object(Bucket=BUCKET, Key="a/b c")
    assert (s3["Body"].read(), s3["Metadata"], s3["ContentType"]) == (b"hello", {"a": "b"}, "text/x")
    assert root("DELETE", f"/v1/{BUCKET}/a/b%20c").status == 204
    assert root("GET", f"/v1/{BUCKET}/a/b%20c").kind == (404, "not_found")


def test_large_bodies_and_ranges(root: Client) -> None:
    body = bytes(range(256)) * 20_000
    assert root("PUT", f"/v1/{BUCKET}/big", body).status == 200
    assert root("GET", f"/v1/{BUCKET}/big").body == body
    part = root("GET", f"/v1/{BUCKET}/big", range="bytes=100-199")
    assert (part.status, part.body) == (206, body[100:200])
    assert part.headers["content-range"] == f"bytes 100-199/{len(body)}"
    assert root("GET", f"/v1/{BUCKET}/big", range="bytes=99999999-").kind == (416, "range_not_satisfiable")


def test_conditions(root: Client) -> None:
    at = f"/v1/{BUCKET}/k"
    etag = root("PUT", at, b"1", if_none_match="*").headers["etag"]
    assert root("PUT", at, b"2", if_none_match="*").kind == (412, "precondition_failed")
    assert root("GET", at, if_none_match=etag).status == 304
    assert root("GET", at, if_match='"x"').kind == (412, "precondition_failed")
    assert root("PUT", at, b"2", if_match=etag).status == 200
    assert root("DELETE", at, if_match=etag).kind == (412, "precondition_failed")
    assert root("PATCH", at, {"access": "public"}, if_match=etag).kind == (412, "precondition_failed")
    assert root("GET", at).body == b"2"


def test_content_md5_is_compared_before_anything_is_seen(root: Client) -> None:
    at = f"/v1/{BUCKET}/k"
    digest = base64.b64encode(hashlib.md5(b"1").digest()).decode()
    assert root("PUT", at, b"2", content_md5=digest).kind == (400, "bad_request")
    assert root("PUT", at, b"2", content_md5="nonsense").kind == (400, "bad_request")
    assert root("GET", at).status == 404
    assert root("PUT", at, b"1", content_md5=digest).status == 200


def test_copy_and_move(root: Client) -> None:
    root("PUT", f"/v1/{BUCKET}/a", b"body", x_object_meta_x="y", x_object_access="public")
    copied = root("POST", f"/v1/{BUCKET}/b/c", {"source": "a"})
    assert (copied.json["key"], copied.json["access"], copied.json["metadata"]) == (
        "b/c",
        "public",
        {"x": "y"},
    )
    moved = root("PATCH", f"/v1/{BUCKET}/a", {"key": "d"})
    assert moved.json["key"] == "d"
    assert [one["key"] for one in root("GET", f"/v1/{BUCKET}").json["objects"]] == ["b/c", "d"]
    assert root("PATCH", f"/v1/{BUCKET}/d", {"key": "b/c"}, if_none_match="*").kind[0] == 412
    assert root("GET", f"/v1/{BUCKET}/d").body == b"body"
    assert root("PATCH", f"/v1/{BUCKET}/none", {"key": "e"}).kind == (404, "not_found")
    assert root("POST", f"/v1/{BUCKET}/e", {"source": "none"}).kind == (404, "not_found")


def test_public_objects_need_no_token(root: Client, address: str) -> None:
    at, anybody = f"/v1/{BUCKET}/p", Client(address, None)
    root("PUT", at, b"1")
    assert anybody("GET", at).kind == (401, "unauthenticated")
    assert anybody("GET", f"/v1/{BUCKET}/none").kind == (401, "unauthenticated")
    assert anybody("GET", "/v1/no-such-bucket/x").kind == (401, "unauthenticated")
    assert root("PATCH", at, {"access": "public"}).json["access"] == "public"
    assert anybody("GET", at).body == b"1"
    assert anybody("HEAD", at).status == 200
    for method, path in (("PUT", at), ("DELETE", at), ("PATCH", at), ("POST", at), ("GET", f"/v1/{BUCKET}")):
        assert anybody(method, path, b"").kind == (401, "unauthenticated"), method
    assert Client(address, "nonsense")("GET", at).kind == (401, "unauthenticated")
    root("PATCH", at, {"access": "private"})
    assert anybody("GET", at).kind == (401, "unauthenticated")


def test_a_token_sees_its_bucket_only(root: Client, address: str) -> None:
    root("POST", "/v1/buckets", {"name": "bucket-two"})
    mine = Client(address, bucket_token(BUCKET))
    assert mine("PUT", f"/v1/{BUCKET}/k", b"1").status == 200
    assert mine("GET", f"/v1/{BUCKET}").status == 200
    for method, path in (
        ("PUT", "/v1/bucket-two/k"), ("GET", "/v1/bucket-two/k"), ("GET", "/v1/bucket-two"),
        ("GET", "/v1/buckets"), ("POST", "/v1/buckets"),
    ):  # fmt: skip
        assert mine(method, path, b"").kind == (401, "unauthenticated"), path
    assert mine("GET", f"/v1/buckets/{BUCKET}").kind == (403, "forbidden")
    assert mine("DELETE", f"/v1/buckets/{BUCKET}").kind == (403, "forbidden")


def test_pages_of_a_listing(root: Client) -> None:
    names = ["a", "b/1", "b/2", "b/3", "c"]
    for name in names:
        root("PUT", f"/v1/{BUCKET}/{name}", name.encode())
    first = root("GET", f"/v1/{BUCKET}?prefix=b/&limit=2").json
    assert [one["key"] for one in first["objects"]] == ["b/1", "b/2"]
    assert first["next_cursor"] == "b/2"
    last = root("GET", f"/v1/{BUCKET}?prefix=b/&limit=2&cursor=b/2").json
    assert ([one["key"] for one in last["objects"]], last["next_cursor"]) == (["b/3"], None)
    for limit in ("0", "1001", "x"):
        assert root("GET", f"/v1/{BUCKET}?limit={limit}").kind == (400, "bad_request")
    assert root("GET", "/v1/no-such-bucket").kind == (404, "not_found")


def test_buckets_are_administered(root: Client, address: str) -> None:
    created = root("POST", "/v1/buckets", {"name": "bucket-three", "access": "public"})
    assert (created.status, created.json["access"]) == (201, "public")
    assert root("POST", "/v1/buckets", {"name": "bucket-three"}).kind == (409, "conflict")
    assert root("POST", "/v1/buckets", {"name": "X"}).kind == (400, "bad_request")
    assert root("POST", "/v1/buckets", {"name": "buckets"}).kind == (400, "bad_request")
    root("PUT", "/v1/bucket-three/k", b"1")
    assert Client(address, None)("GET", "/v1/bucket-three/k").body == b"1"
    assert root("PATCH", "/v1/buckets/bucket-three", {"access": "private"}).json["access"] == "private"
    assert root("GET", "/v1/buckets/bucket-three").json["access"] == "private"
    assert root("DELETE", "/v1/buckets/bucket-three").kind == (409, "conflict")
    root("DELETE", "/v1/bucket-three/k")
    assert root("DELETE", "/v1/buckets/bucket-three").status == 204
    assert "bucket-three" not in [one["name"] for one in root("GET", "/v1/buckets").json["buckets"]]
    assert root("GET", "/v1/buckets/bucket-three").kind == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("PATCH", f"/v1/{BUCKET}/k", b"nonsense", (400, "bad_request")),
        ("PATCH", f"/v1/{BUCKET}/k", {}, (400, "bad_request")),
        ("PATCH", f"/v1/{BUCKET}/k", {"key": "a", "access": "public"}, (400, "bad_request")),
        ("PATCH", f"/v1/{BUCKET}/k", {"access": "secret"}, (400, "bad_request")),
        ("POST", f"/v1/{BUCKET}/k", {"other": "a"}, (400, "bad_request")),
        ("PATCH", f"/v1/{BUCKET}/k", {"key": "x" * 70_000}, (413, "body_too_large")),
        ("PUT", f"/v1/{BUCKET}/" + "x" * 1100, b"", (400, "bad_request")),
        ("PUT", f"/v1/{BUCKET}/%00", b"", (400, "bad_request")),
        ("PUT", f"/v1/{BUCKET}/%FF", b"", (400, "bad_request")),
        ("PUT", f"/v1/{BUCKET}", b"", (405, "method_not_allowed")),
        ("PUT", "/v1/buckets", b"", (405, "method_not_allowed")),
    ],
)
def test_bad_requests_are_refused_in_json(
    root: Client, method: str, path: str, body: Any, kind: tuple[int, str]
) -> None:
    refused = root(method, path, body)
    assert refused.kind == kind
    assert refused.json["request_id"] == refused.headers["x-request-id"]


def test_no_key_leaves_the_directory(root: Client, tmp_path: Path) -> None:
    for key in ("../escape", "%2E%2E/escape", "a/../../escape", ".fencepost/x"):
        assert root("PUT", f"/v1/{BUCKET}/{key}", b"x").status in (200, 400)
    assert not list(tmp_path.parent.rglob("escape"))


def test_request_ids(root: Client) -> None:
    assert root("GET", f"/v1/{BUCKET}", x_request_id="mine.1").headers["x-request-id"] == "mine.1"
    made = root("GET", f"/v1/{BUCKET}", x_request_id="no id").headers["x-request-id"]
    assert len(made) == 32


def test_a_request_ends_in_time(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(rest, "TIME_S", 0.05)
    monkeypatch.setattr(rest.Rest, "_page", lambda *_: release.wait(10))
    assert root("GET", f"/v1/{BUCKET}").kind == (408, "too_slow")
    release.set()


def test_a_full_server_refuses(root: Client, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def full(*_: object) -> Iterator[None]:
        raise Refusal("busy", "full", retry_after_s=1)
        yield

    monkeypatch.setattr(Gate, "enter", full)
    refused = root("GET", f"/v1/{BUCKET}")
    assert (refused.kind, refused.headers["retry-after"]) == ((503, "busy"), "1")
    with pytest.raises(Exception, match="SlowDown"):
        client(address).list_buckets()


def test_the_description_is_that_of_the_responses(root: Client, address: str) -> None:
    document = Client(address, None)("GET", "/v1/openapi.json").json
    schemas = document["components"]["schemas"]

    def check(name: str, body: Any) -> None:
        jsonschema.validate(
            body, {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
        )

    check("Written", root("PUT", f"/v1/{BUCKET}/k", b"1").json)
    check("Object", root("PATCH", f"/v1/{BUCKET}/k", {"access": "public"}).json)
    check("Page", root("GET", f"/v1/{BUCKET}").json)
    check("Buckets", root("GET", "/v1/buckets").json)
    check("Refusal", root("GET", f"/v1/{BUCKET}/none").json)
    assert {(path, method) for path, methods in document["paths"].items() for method in methods} >= {
        ("/v1/{bucket}/{key}", "patch"), ("/v1/{bucket}", "get"), ("/v1/buckets/{name}", "delete"),
    }  # fmt: skip


def test_probes_and_metrics(root: Client, address: str) -> None:
    anybody = Client(address, None)
    assert anybody("GET", "/livez").json == anybody("GET", "/readyz").json == {"status": "ok"}
    before = _count(anybody, 'fencepost_objects_requests_total{status="404"}')
    root("GET", f"/v1/{BUCKET}/none")
    with pytest.raises(Exception, match="NoSuchKey"):
        client(address).get_object(Bucket=BUCKET, Key="none")
    assert _count(anybody, 'fencepost_objects_requests_total{status="404"}') == before + 2
    assert _count(anybody, "fencepost_objects_request_seconds_count") > before


def _count(send: Client, name: str) -> float:
    lines = send("GET", "/metrics").body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))
