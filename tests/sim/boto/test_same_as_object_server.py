"""The audited world and the object server give the same answers to the same requests.

If this fails, one of them parses a request or writes a response by itself, and an audit is of another S3 than
the one that we ship.
"""

import contextlib
import http.client
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.impl.objects.temporary import Unflushed
from fencepost.sim.boto import serve
from fencepost.sim.world.present import outside
from tests.depth import examples
from tests.impl.objects.serving import client, served
from tests.impl.objects.test_hostile import signed
from tests.sim.boto.worlds import setting_up

DIFFERENCES = {
    "LastModified": "the server keeps milliseconds, the world whole seconds, as S3 does",
    "Initiated": "as LastModified",
    "CreationDate": "as LastModified",
    "Owner": "the world has no accounts",
    "Initiator": "the world has no accounts",
    "Resource": "names the bucket, which each side has of its own",
    "RequestId": "a request has one of its side",
    "Location": "the world repeats the URL of the request, as S3 does; the server knows only its path",
    "Name": "the bucket",
    "Bucket": "the bucket",
    "BucketName": "the bucket",
    "NextMarker": "S3 gives it with a delimiter only, and the world is as strict; the server always does",
    "Key": "of an error: the server repeats it",
    "VersionId": "of an error: the server repeats it",
    "UploadId": "of an error: the server repeats it",
    "RangeRequested": "a store's `past-end` has no details",
    "ActualObjectSize": "a store's `past-end` has no details",
    "ArgumentValue": "refused by the store of the world, which has no request",
    "PartNumber": "of an error: which part is refused first is each store's",
    "ETag": "of an error: which part is refused first is each store's",
    "ChecksumType": "the world keeps the checksums of objects, and not how they were made",
}
"""Elements that may differ, each with the reason: all of them in errors, these in results too."""
_OF_RESULTS = DIFFERENCES.keys() & {
    "LastModified",
    "Initiated",
    "CreationDate",
    "Owner",
    "Initiator",
    "Location",
    "Name",
    "Bucket",
    "NextMarker",
    "ChecksumType",
}
HEADERS = re.compile(
    r"etag|content-(type|length|range|encoding|language|disposition)|cache-control|expires|accept-ranges|"
    r"x-amz-(version-id|delete-marker|meta-.*|bucket-region|checksum-(?!type).*)"
)
"""Headers that mean something to a client; others name the server, the request or a time."""

_NO_SUCH_VERSION = (
    b"<?xml version='1.0'?><Error><Code>NoSuchVersion</Code>"
    b"<Message>The specified version does not exist.</Message></Error>"
)

KEYS = ("a", "a/b", "a/c d", "b", "ä+&")
_CHOSEN = re.compile("<[A-Za-z]*?(Upload|Version)Id>(?!null<)(.+?)</")
"""Names that a store chooses."""
_VERSION_TAGS = ("<VersionId>", "</VersionId>")
_COUNT = itertools.count(1)


@dataclass
class Sent:
    method: str
    key: str = ""
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Side:
    """One of the two stores. Names that it chose itself are replaced by the order in which they appeared."""

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket
        self.names: dict[str, str] = {}
        self._count: Counter[str] = Counter()

    def send(self, request: Sent) -> tuple[int, dict[str, str], Any]:
        query = {name: self._real(text) for name, text in request.query.items()}
        path = quote(f"/{self.bucket}/{request.key}" if request.key else f"/{self.bucket}")
        path += f"?{urlencode(query, quote_via=quote, safe='')}" if query else ""
        headers = {name: self._real(text) for name, text in request.headers.items()}
        body = self._real(request.body.decode("latin-1")).encode("latin-1")
        status, found, content = self.exchange(request.method, path, headers, body)
        kept = {n.lower(): t for n, t in found.items() if HEADERS.fullmatch(n.lower())}
        if status < 300:
            text = content.decode("latin-1") + kept.get("x-amz-version-id", "").join(_VERSION_TAGS)
            for kind, name in _CHOSEN.findall(text):
                self._count[kind] += name not in self.names
                self.names.setdefault(name, f"{kind.lower()}-{self._count[kind] - 1}")
        is_xml = content.startswith(b"<?xml")
        if status >= 300 or is_xml or status == 204:  # its length is that of names and times
            kept.pop("content-length", None)
        if status >= 300 or not content:
            kept.pop("content-type", None)
        if status == 405 and "x-amz-delete-marker" in kept:  # the interface of stores knows `missing` only
            status, content = 404, _NO_SUCH_VERSION * bool(content)
        if status == 404:  # a store's `missing` has no details: the server names a delete marker
            kept = {}
        if kept.get("content-type") == "application/octet-stream":  # files have no other default
            kept["content-type"] = "binary/octet-stream"
        named = {name: self._named(text) for name, text in kept.items()}
        if not is_xml:
            return status, named, content
        parsed = self._named_in(_parsed(ET.fromstring(content)))
        if (
            "x-amz-copy-source" in headers
        ):  # a store's `changed` does not tell the source from the destination
            parsed = [(tag, inside) for tag, inside in parsed if tag != "Condition"]
        return status, named, parsed

    def exchange(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        raise NotImplementedError

    def _real(self, text: str) -> str:
        for real, name in self.names.items():
            text = text.replace(f"{{{name}}}", real)
        return text.replace("{bucket}", self.bucket)

    def _named(self, text: str) -> str:
        return self.names.get(text, text.replace(self.bucket, "{bucket}"))

    def _named_in(self, value: Any) -> Any:
        if isinstance(value, list):
            return [(tag, self._named_in(inside)) for tag, inside in value]
        return self._named(value)


def _parsed(element: ET.Element, *, error: bool = False) -> Any:
    """Tags with their texts, or with what is inside of them; without what may differ."""
    error = error or element.tag == "Error"
    tags = [(child.tag.rpartition("}")[2], child) for child in element]
    if not tags:
        return element.text or ""
    dropped = DIFFERENCES.keys() if error else _OF_RESULTS
    inside = [(tag, _parsed(child, error=tag == "Error")) for tag, child in tags if tag not in dropped]
    # The order of elements of different names has no meaning, but for versions and delete markers. S3 lists
    # uploads of one key as they began, each store by names of its own.
    if any(tag == "Upload" for tag, _ in inside):
        return sorted(inside, key=str)
    return sorted(inside, key=lambda pair: "Version" if pair[0] == "DeleteMarker" else pair[0])


class Served(Side):
    def __init__(self, address: str, bucket: str) -> None:
        super().__init__(bucket)
        self._address = address

    def exchange(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        with outside():  # or the world would answer this client too
            connection = http.client.HTTPConnection(self._address.removeprefix("http://"), timeout=60)
            raw = {name: text.encode() for name, text in signed(self._address, method, path, headers).items()}
            with contextlib.closing(connection):
                connection.request(method, path, body, raw)
                response = connection.getresponse()
                return response.status, dict(response.getheaders()), response.read()


class Audited(Side):
    def __init__(self, bucket: str, *, versioned: bool) -> None:
        super().__init__(bucket)
        self.world = setting_up()
        self.world.boto3_bucket(bucket, versioned=versioned)

    def exchange(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        headers = {
            **headers,
            "content-length": str(len(body)),
            "x-amz-content-sha256": "UNSIGNED-PAYLOAD",  # as the signed request has it
        }
        request = SimpleNamespace(method=method, url=f"http://s3.test{path}", headers=headers, body=body)
        return serve.reply(request, "s3.test")


# Requests.

_KEY = st.sampled_from(KEYS)
_BODY = st.sampled_from((b"", b"1", b"22", b"hello"))
_ETAG = st.sampled_from(
    ('"c4ca4238a0b923820dcc509a6f75849b"', "c4ca4238a0b923820dcc509a6f75849b", '"x"', "*")
)
_DATE = st.sampled_from(("Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT", "never"))
_VERSION = st.sampled_from(("null", "{version-0}", "{version-1}", "none"))
_UPLOAD = st.sampled_from(("{upload-0}", "{upload-1}", "none"))
_NUMBER = st.sampled_from(("1", "2", "0", "10001", "x"))
_PUT_HEADERS = {
    "content-type": st.sampled_from(("text/plain", "a/b")),
    "x-amz-meta-who": st.sampled_from(("ann", "b" * 2046)),
    "cache-control": st.just("no-store"),
    "content-encoding": st.sampled_from(("gzip", "gzip,aws-chunked")),
    "content-md5": st.sampled_from(("xMpCOKC5I4INzFCab3WEmw==", "x")),
    "x-amz-checksum-crc32": st.sampled_from(("g9zvtw==", "AAAAAA==")),
}
_CONDITIONS = {"if-match": _ETAG, "if-none-match": st.sampled_from(("*", '"x"'))}
"""Apart from the others: which of two refusals comes first is each side's."""
_GET_HEADERS = {
    "if-match": _ETAG,
    "if-none-match": _ETAG,
    "if-modified-since": _DATE,
    "if-unmodified-since": _DATE,
    "range": st.sampled_from(("bytes=0-0", "bytes=1-", "bytes=-2", "bytes=9-", "bytes=2-1", "bytes=-0", "x")),
    "x-amz-checksum-mode": st.just("ENABLED"),
}
_COPY_HEADERS = {
    "x-amz-copy-source": st.sampled_from(
        ("{bucket}/a", "/{bucket}/a/c%20d", "{bucket}/b?versionId=null", "{bucket}", "elsewhere/a")
    ),
    "x-amz-copy-source-if-match": _ETAG.filter(lambda tag: tag != "*"),
}
_LISTING = {
    "prefix": st.sampled_from(("", "a", "a/", "z")),
    "delimiter": st.sampled_from(("", "/")),
    "encoding-type": st.sampled_from(("url", "x")),
}
_PAGE = {"max-keys": st.sampled_from(("0", "1", "2", "2000", "-1", "x"))}


def _few(every: dict[str, Any]) -> st.SearchStrategy[dict[str, str]]:
    """At most two of these: with more, the first refusal hides the rest."""
    pairs = st.one_of(*(st.tuples(st.just(name), values) for name, values in every.items()))
    return st.lists(pairs, max_size=2).map(dict)


_NOTHING: st.SearchStrategy[dict[str, str]] = st.just({})
_EMPTY = st.just(b"")


def _sent(method: str, key: Any, query: Any = _NOTHING, headers: Any = _NOTHING, body: Any = _EMPTY) -> Any:
    return st.builds(Sent, st.just(method), key, query, headers, body)


def _merged(fixed: Any, more: Any) -> Any:
    return st.builds(lambda one, other: {**one, **other}, fixed, more)


_PART = st.fixed_dictionaries({"uploadId": _UPLOAD, "partNumber": _NUMBER})
_NONE = st.just("")
_DELETED = st.sampled_from(
    (
        b"<Delete><Object><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>",
        b"<Delete><Quiet>true</Quiet><Object><Key>a</Key><ETag>x</ETag></Object></Delete>",
        b"<Delete><Object><Key>a</Key><Size>1</Size></Object></Delete>",
        b"<Delete></Delete>",
        b"<Delete>",
    )
)
_COMPLETED = st.sampled_from(
    [
        b"<CompleteMultipartUpload>%b</CompleteMultipartUpload>"
        % b"".join(
            b"<Part><PartNumber>%d</PartNumber><ETag>%b</ETag></Part>" % (number, etag)
            for number, etag in parts
        )
        for one in [b"c4ca4238a0b923820dcc509a6f75849b"]
        for parts in ([(1, one)], [(1, one), (2, one)], [(2, one), (1, one)], [(1, b"x")], [])
    ]
)
REQUESTS = st.one_of(
    _sent("PUT", _KEY, headers=_few(_PUT_HEADERS), body=_BODY),
    _sent("PUT", _KEY, headers=_few(_CONDITIONS), body=_BODY),
    _sent(
        "GET",
        _KEY,
        _few({"versionId": _VERSION, "response-content-type": st.just("x/y")}),
        _few(_GET_HEADERS),
    ),
    _sent("HEAD", _KEY, _few({"versionId": _VERSION}), _few(_GET_HEADERS)),
    _sent("DELETE", _KEY, headers=_few({"if-match": _ETAG})),
    _sent("DELETE", _KEY, _few({"versionId": _VERSION})),
    _sent(
        "PUT",
        _KEY,
        headers=_merged(
            st.fixed_dictionaries({"x-amz-copy-source": _COPY_HEADERS["x-amz-copy-source"]}),
            _few(
                {
                    "x-amz-copy-source-if-match": _COPY_HEADERS["x-amz-copy-source-if-match"],
                    "x-amz-metadata-directive": st.sampled_from(("COPY", "REPLACE", "x")),
                    "x-amz-meta-who": st.just("bob"),
                    "if-none-match": st.just("*"),
                }
            ),
        ),
    ),
    _sent("POST", _KEY, st.just({"uploads": ""}), _few({"content-type": st.just("text/plain")})),
    _sent("PUT", _KEY, _PART, body=_BODY),
    _sent(
        "PUT",
        _KEY,
        _PART,
        st.fixed_dictionaries(
            {
                "x-amz-copy-source": st.just("{bucket}/a"),
                "x-amz-copy-source-range": st.sampled_from(("bytes=0-0", "bytes=0-99", "bytes=1-0", "x")),
            }
        ),
    ),
    _sent("GET", _KEY, _merged(st.fixed_dictionaries({"uploadId": _UPLOAD}), _few({"max-parts": _NUMBER}))),
    _sent("POST", _KEY, st.fixed_dictionaries({"uploadId": _UPLOAD}), body=_COMPLETED),
    _sent("DELETE", _KEY, st.fixed_dictionaries({"uploadId": _UPLOAD})),
    _sent("POST", _NONE, st.just({"delete": ""}), body=_DELETED),
    _sent(
        "GET", _NONE, _merged(st.just({"list-type": "2"}), _few({**_LISTING, **_PAGE, "start-after": _KEY}))
    ),
    _sent("GET", _NONE, _few({**_LISTING, **_PAGE, "marker": _KEY})),
    _sent("GET", _NONE, _merged(st.just({"versions": ""}), _few({**_LISTING, **_PAGE, "key-marker": _KEY}))),
    _sent("GET", _NONE, _merged(st.just({"uploads": ""}), _few({**_LISTING, "key-marker": _KEY}))),
    _sent("GET", _NONE, st.sampled_from(({"location": ""}, {"versioning": ""}))),
    _sent("HEAD", _NONE),
)
LOOKS = [
    Sent("GET", query={"list-type": "2"}),
    Sent("GET", query={"list-type": "2", "delimiter": "/", "encoding-type": "url", "max-keys": "2"}),
    Sent("GET", query={"versions": ""}),
    Sent("GET", query={"uploads": "", "delimiter": "/"}),
    *(Sent("GET", key, headers={"x-amz-checksum-mode": "ENABLED"}) for key in KEYS),
]
"""Sent after the others, so that a difference in the stores cannot go unseen."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("objects"), disk=Unflushed()) as found:
        yield found


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
def test_every_answer_is_the_same(address: str, *, versioned: bool) -> None:
    aws = client(address)

    @settings(
        max_examples=examples(60),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.lists(REQUESTS, min_size=1, max_size=12))
    def check(requests: list[Sent]) -> None:
        bucket = f"same-{next(_COUNT)}"
        aws.create_bucket(Bucket=bucket)
        if versioned:
            aws.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        ours, theirs = Audited(bucket, versioned=versioned), Served(address, bucket)
        with contextlib.closing(ours.world):
            for request in [*requests, *LOOKS]:
                assert ours.send(request) == theirs.send(request), request

    check()


def test_a_difference_is_seen(address: str) -> None:
    """The comparison must fail where the stores hold different objects."""
    client(address).create_bucket(Bucket="differs")
    ours, theirs = Audited("differs", versioned=False), Served(address, "differs")
    with contextlib.closing(ours.world):
        ours.send(Sent("PUT", "a", body=b"1"))
        theirs.send(Sent("PUT", "a", body=b"2"))
        for request in (Sent("GET", "a"), Sent("HEAD", "a"), LOOKS[0]):
            assert ours.send(request) != theirs.send(request)
