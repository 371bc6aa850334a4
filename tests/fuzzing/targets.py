"""The servers under attack, each with its description and with credentials that may do everything."""

import contextlib
import functools
import hmac
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import botocore.loaders

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.limits import Limits
from fencepost.impl.http.service import Service
from fencepost.impl.http.tokens import Principal, Tokens
from fencepost.impl.ingest.authority import Authority
from fencepost.impl.ingest.frames import Point, encode
from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.service.app import Plan, collecting
from fencepost.impl.ingest.service.openapi import document
from fencepost.impl.ingest.service.requests import token_file
from fencepost.impl.ingest.settings import Mode, Settings
from fencepost.impl.lifecycle.app import LifecycleServer
from fencepost.impl.lifecycle.opening import open_lifecycle
from fencepost.impl.lifecycle.policy import Timing
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.objects import rest
from fencepost.impl.objects.app import ObjectServer
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import Credentials
from fencepost.impl.objects.rest_description import describe
from fencepost.impl.objects.surface import KNOWN
from fencepost.impl.objects.temporary import Unflushed
from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.objects.wire.signature import (
    ALGORITHM,
    UNSIGNED,
    Message,
    Scope,
    canonical_request,
    sign,
    signing_key,
)
from fencepost.impl.publish import Catalog
from fencepost.impl.publish.service.app import CatalogServer
from fencepost.impl.publish.service.app import Setup as CatalogSetup
from fencepost.impl.publish.service.openapi import document as catalog_document
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import Node
from fencepost.impl.streams import Settings as StreamSettings
from fencepost.impl.streams.app import StreamServer
from tests.fuzzing.grammar import COMMON, NUMBERS, TEXTS, Operation, Request, from_openapi

ENV = SystemEnvironment()
LIMITS = Limits(body_bytes=1 << 20, requests=1000, client_requests=1000, threads=4, body_s=1.0, header_s=1.0)
ROOT_TOKEN = "a root token of the tests"
BUCKETS = ("bucket-one", "bucket-two", "missing-bucket")
KEYS = ("k", "a/b", "a/c", "\u00e9", "big", "deep/" * 20 + "k")


@dataclass
class Target:
    service: Service
    operations: Sequence[Operation]
    prepare: Callable[[Request], Request] = lambda request: request
    """Signs a request."""
    kept: Callable[[], int] = lambda: 0
    """A number that must not grow with refused requests."""
    allowed: frozenset[int] = field(default_factory=lambda: frozenset({501, 503}))
    """Statuses from 500 on that are no failure."""


# The object server: S3.


@functools.cache
def s3_model() -> Any:
    return botocore.loaders.Loader().load_service_model("s3", "service-2")


FITTING: Mapping[str, Sequence[str]] = {
    "uploadId": ("u" + "0" * 40, "x"),
    "versionId": ("null", "v1"),
    "partNumber": ("1", "2", "10000", "10001"),
    "max-keys": ("1", "1000", "0"),
    "max-uploads": ("1",),
    "max-parts": ("1",),
    "encoding-type": ("url",),
    "delimiter": ("/", "b", "//"),
    "prefix": ("a/", "k", ""),
    "list-type": ("2", "1"),
    "x-amz-copy-source": (
        "/bucket-one/k",
        "bucket-one/%C3%A9",
        "bucket-one/k?versionId=null",
        "bucket-two/x",
    ),
    "x-amz-copy-source-range": ("bytes=0-0", "bytes=0-4"),
    "x-amz-object-attributes": ("ETag,ObjectSize", "ObjectParts,Checksum", "StorageClass"),
    "x-amz-tagging": ("a=b", "a=b&c=d", "a"),
    "x-amz-metadata-directive": ("COPY", "REPLACE"),
    "x-amz-checksum-algorithm": ("CRC32", "SHA256", "CRC64NVME"),
    "x-amz-checksum-crc32": ("AAAAAA==",),
    "x-amz-storage-class": ("STANDARD",),
    "x-amz-acl": ("private", "public-read"),
    "content-md5": ("1B2M2Y8AsgTpgAmY7PhCfg==",),
    "range": ("bytes=0-0", "bytes=-1", "bytes=0-"),
    "if-match": ("*", '"e"'),
    "if-none-match": ("*", '"e"'),
    "x-amz-decoded-content-length": ("5", "0"),
    "content-type": ("text/plain", "application/json"),
}


def s3_operations() -> list[Operation]:
    """The operations that the server knows, with the parameters that S3's own model gives them."""
    model = s3_model()
    found = []
    for name in KNOWN:
        operation = model["operations"][name]
        shape = model["shapes"].get(operation.get("input", {}).get("shape"), {"members": {}})
        query: dict[str, Sequence[str]] = {}
        headers: dict[str, Sequence[str]] = {**COMMON, "content-md5": FITTING["content-md5"]}
        for member in shape["members"].values():
            wire_name = member.get("locationName", "")
            match member.get("location"):
                case "querystring":
                    query[wire_name] = FITTING.get(wire_name, ())
                case "header":
                    headers[wire_name.lower()] = FITTING.get(wire_name.lower(), ())
                case "headers":
                    headers[f"{wire_name}a"] = ()
        headers.pop("content-length", None)
        headers.pop("host", None)
        headers["x-amz-content-sha256"] = (
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "e" * 64,
        )  # fmt: skip
        headers["x-amz-decoded-content-length"] = FITTING["x-amz-decoded-content-length"]
        headers["x-amz-trailer"] = ("x-amz-checksum-crc32",)
        path, _, fixed = operation["http"]["requestUri"].partition("?")
        path = path.replace("{Key+}", "{Key}")
        if fixed:
            path = f"{path}?{fixed}"
        bodies = [s3_body(shape, number) for number in range(12)] if "payload" in shape else []
        if name in ("PutObject", "UploadPart"):
            bodies = [
                b"hello",
                b"x" * 5000,
                b"5\r\nhello\r\n0\r\n\r\n",
                b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
            ]
        names = {"Bucket": BUCKETS, "Key": KEYS}
        found.append(Operation(operation["http"]["method"], path, names, query, headers, {}, bodies))
    return found


def s3_body(shape: Mapping[str, Any], number: int) -> bytes:
    """XML of the payload's shape."""
    model = s3_model()
    member = shape["members"][shape["payload"]]
    chance = random.Random(f"{shape['payload']} {number}")
    name = member.get("locationName", shape["payload"])
    return _xml(model["shapes"], member["shape"], name, chance, 0).encode("utf-8", "surrogatepass")


def _xml(shapes: Mapping[str, Any], kind: str, name: str, chance: random.Random, depth: int) -> str:
    shape = shapes[kind]
    match shape["type"]:
        case "structure":
            chosen = [one for one in shape["members"].items() if depth == 0 or chance.random() < 0.6]
            inner = "".join(
                _xml(shapes, one["shape"], one.get("locationName", known), chance, depth + 1)
                for known, one in chosen
                if depth < 5
            )
        case "list":
            member = shape["member"]
            inside = member.get("locationName", "member")
            if shape.get("flattened"):
                return "".join(
                    _xml(shapes, member["shape"], name, chance, depth + 1) for _ in range(chance.randrange(4))
                )
            inner = "".join(
                _xml(shapes, member["shape"], inside, chance, depth + 1) for _ in range(chance.randrange(4))
            )
        case "integer" | "long":
            inner = chance.choice(("1", "2", "30", *NUMBERS))
        case "boolean":
            inner = chance.choice(("true", "false", "1", ""))
        case "timestamp":
            inner = chance.choice(("2030-01-01T00:00:00Z", *TEXTS))
        case _:
            values = shape.get("enum") or ("k", "a/b", "Enabled", "Suspended", "null", "rule", *TEXTS)
            inner = (
                chance.choice((*values, *NUMBERS)) if chance.random() < 0.3 else chance.choice(tuple(values))
            )
            inner = inner.replace("&", "&amp;").replace("<", "&lt;")
    return f"<{name}>{inner}</{name}>"


class Signer:
    """Signs by the rules of the server, so that a request reaches what is behind the signature."""

    def __init__(self, server: ObjectServer) -> None:
        self._server = server
        self._secret = hmac.digest(ROOT_TOKEN.encode(), b"root", "sha256").hex()

    def __call__(self, request: Request) -> Request:
        moment = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        names = {name for name, _ in request.headers}
        headers = [(b"host", b"h"), *request.headers, (b"x-amz-date", moment.encode())]
        if b"x-amz-content-sha256" not in names:
            headers.append((b"x-amz-content-sha256", UNSIGNED.encode()))
        path, _, query = request.target.partition(b"?")
        try:
            found = self._server.take_apart(request.method.decode(), path, query, [
                (name.lower(), value.strip()) for name, value in headers
            ])  # fmt: skip
        except S3Error:
            return Request(request.method, request.target, headers, request.body, request.is_chunked)
        scope = Scope("root", moment[:8], "us-east-1")
        signed = sorted(name for name in found.headers if name == "host" or name.startswith("x-amz-"))
        message = Message(found.method, found.path, found.query, found.headers)
        canonical = canonical_request(message, signed, found.headers["x-amz-content-sha256"])
        signature = sign(signing_key(self._secret, scope), moment, scope, canonical)
        parts = [
            f"Credential=root/{scope.text}",
            f"SignedHeaders={';'.join(signed)}",
            f"Signature={signature}",
        ]
        headers.append((b"authorization", f"{ALGORITHM} {', '.join(parts)}".encode()))
        return Request(request.method, request.target, headers, request.body, request.is_chunked)


@contextlib.contextmanager
def object_server(folder: Path, *, is_s3: bool) -> Iterator[Target]:
    buckets = Buckets(str(folder / "root"), disk=Unflushed())
    for name in BUCKETS[:2]:
        buckets.create(name)
    service = ObjectServer(buckets, Credentials(ROOT_TOKEN), limits=LIMITS)

    def drafts() -> int:
        return sum(path.is_file() for path in (folder / "root").glob("*/.fencepost/tmp/**/*"))

    try:
        if is_s3:
            yield Target(service, s3_operations(), Signer(service), drafts)
        else:
            operations = from_openapi(
                describe(list(rest.RestRefusal.kinds.items())),
                {"bucket": BUCKETS, "name": BUCKETS, "key": KEYS},
                {"authorization": f"Bearer {ROOT_TOKEN}"},
                {"limit": ("1", "1000"), "cursor": ("x",), "prefix": ("a/",)},
                (b'{"source": "k"}', b'{"access": "public"}', b'{"key": "a/c"}', b'{"name": "bucket-three"}'),
            )
            extra = {"x-object-access": ("public", "private"), "x-object-meta-a": ("b",)}
            yield Target(
                service,
                [Operation(**{**vars_of(one), "headers": {**one.headers, **extra}}) for one in operations],
                kept=drafts,
            )
    finally:
        service.close()
        buckets.close()


def vars_of(operation: Operation) -> dict[str, Any]:
    return {name: getattr(operation, name) for name in operation.__dataclass_fields__}


# The collector.


@contextlib.contextmanager
def collector(folder: Path, *, mode: Mode = Mode.S3_MANIFEST) -> Iterator[Target]:
    file = token_file(folder / "tokens.json")
    agent = file.enrol(Principal("agent", "agent-a"), ENV)
    operator = file.enrol(Principal("operator", "ops"), ENV)
    store = MemoryStore()
    settings = Settings(acceptance=mode, pause_s=0.001, attempts_max=2)
    identity = Identity("agent-a", "boot-1", 1, 2)
    frames = [
        encode(identity, [Point("cpu.load", {"host": "a"}, 17, float(value))], compress=bool(value))
        for value in range(3)
    ]
    Authority(store, ENV, "another", settings).accept(identity, frames[0])
    spool = folder / "spool" if mode is Mode.LOCAL_SPOOL else None
    plan = Plan(store, ENV, Tokens(file), "collector-1", settings, LIMITS, spool, landing_s=0.05)
    known = {
        "agent_id": ("agent-a",),
        "boot_id": ("boot-1",),
        "seq_start": ("1", "2"),
        "seq_end": ("2", "3"),
        "submitted_frame_sha256": ("0" * 64,),
    }
    conflict = {"agent_id": "agent-a", "boot_id": "boot-1", "seq_start": 1, "seq_end": 2}
    bodies = [json.dumps({**conflict, "submitted_frame_sha256": "0" * 64, "note": "x"}).encode()]
    operations = []
    for one in from_openapi(document(LIMITS), {}, {}, known):
        is_agents = one.path in ("/v1/batches", "/v1/resolution")
        token = agent if is_agents else operator
        query = ["agent_id=agent-a", "boot_id=boot-1", "seq_start=1", "seq_end=2"]
        complete = f"{one.path}?{'&'.join(query)}" if is_agents else one.path
        extra = {"authorization": f"Bearer {token}", **one.always}
        made = frames if one.path == "/v1/batches" else [*one.bodies, *bodies]
        for path in {one.path, complete}:
            operations.append(Operation(**{**vars_of(one), "path": path, "always": extra, "bodies": made}))
    with collecting(plan) as service:
        yield Target(service, operations)


# The server of a catalog.


@contextlib.contextmanager
def catalog_server(folder: Path) -> Iterator[Target]:
    store = MemoryStore()
    with Catalog.open(store, create=True) as catalog, catalog.transaction() as txn:
        txn.create_table("t", {"id": "int64", "x": "bytes"}, key="id")
    service = CatalogServer(CatalogSetup(store, limits=LIMITS))
    whole = {"request": "r", "since": 1, "snapshot": None, "author": "a", "message": "m", "wait_s": 1}
    changes: Sequence[Any] = (
        {"table": "t", "verb": "upsert", "rows": [{"id": 1, "x": {"bytes": "AA=="}}]},
        {"table": "t", "verb": "delete", "keys": [1, {"float": "NaN"}]},
        {"table": "u", "verb": "create", "columns": {"id": "string"}, "key": "id", "edges": {}},
        {"table": "t", "verb": "limit", "columns": ["x"], "at_most": None},
        {"table": "*", "verb": "read"},
    )
    bodies = [
        json.dumps({**whole, "request": f"r{number}", "changes": [change]}).encode()
        for number, change in enumerate(changes)
    ]
    keys = ("branch/main/manifest/00000000000000000001.json", "data/t/x", "recovery/../x", "other")
    known = {"prefix": ("branch/", "data/"), "limit": ("1", "0"), "start": ("0", "5"), "stop": ("3",)}
    operations = from_openapi(
        catalog_document(LIMITS), {"branch": ("main", "none", "..", "a/b"), "key": keys}, {}, known, bodies
    )
    try:
        yield Target(service, operations)
    finally:
        service.close()


# Streams.

STREAM_HEADERS: Mapping[str, Sequence[str]] = {
    "content-type": (
        "text/plain",
        "application/json",
        "application/octet-stream",
        "text/plain; charset=utf-8",
    ),
    "stream-ttl": ("0", "1", "3600"),
    "stream-expires-at": ("2030-01-01T00:00:00Z",),
    "stream-closed": ("true", "false"),
    "stream-seq": ("a", "b"),
    "stream-forked-from": ("/a", "/b"),
    "stream-fork-offset": ("-1", "now", "0000000000000000_0000000000000000"),
    "stream-fork-sub-offset": ("0", "1"),
    "producer-id": ("p",),
    "producer-epoch": ("0", "1"),
    "producer-seq": ("0", "1", "2"),
    "if-none-match": ("*", '"e"'),
}
STREAM_QUERY: Mapping[str, Sequence[str]] = {
    "offset": ("-1", "now", "0000000000000000_0000000000000000"),
    "live": ("long-poll", "sse"),
    "cursor": ("1", "99999999"),
}


@contextlib.contextmanager
def stream_server(folder: Path) -> Iterator[Target]:
    node = Node(MemoryStore(), ENV, StreamSettings(landing_bound_s=0.0, skew_bound_s=1.0, backoff_s=0.0))
    service = StreamServer(node, limits=LIMITS, long_poll_s=0.01, poll_s=0.005, sse_s=0.01)
    names = {"name": ("a", "b", "json", "\u00e9", "x/y")}
    bodies = [b"text", b"[1,2]", b'{"a": "b"}', b"[]"]
    operations = [
        Operation(
            method,
            "/{name}",
            names,
            STREAM_QUERY if method == "GET" else {},
            {**COMMON, **STREAM_HEADERS},
            {},
            bodies if method in ("PUT", "POST") else (),
        )
        for method in ("PUT", "POST", "GET", "GET", "HEAD", "DELETE", "OPTIONS")
    ]
    try:
        yield Target(service, operations)
    finally:
        service.close()
        node.close()


# The page of a lifecycle.


@contextlib.contextmanager
def lifecycle_page(folder: Path) -> Iterator[Target]:
    buckets = Buckets(str(folder), disk=Unflushed())
    buckets.create("logs")
    buckets.close()
    with open_lifecycle(str(folder), ENV) as opened:
        rule = {"ID": "<b>", "Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 1}}
        opened.policies.put("logs", [rule])
        worker = Worker(opened.context, opened.target, opened.log, Timing(1000, 1000, 1000))
        service = LifecycleServer(worker, "store", LIMITS)
        pages = ("/", "/status.json", "/healthz", "/readyz", "/metrics", "/openapi.json")
        operations = [Operation("GET", page, {}, {"a": ("b",)}, COMMON) for page in pages]
        try:
            yield Target(service, operations)
        finally:
            service.close()


TARGETS: Mapping[str, Callable[[Path], contextlib.AbstractContextManager[Target]]] = {
    "s3": functools.partial(object_server, is_s3=True),
    "v1": functools.partial(object_server, is_s3=False),
    "ingest": collector,
    "spool": functools.partial(collector, mode=Mode.LOCAL_SPOOL),
    "streams": stream_server,
    "lifecycle": lifecycle_page,
    "catalog": catalog_server,
}
