"""Whatever a client sends is answered with a code of S3 or of REST, and leaves nothing in part."""

import contextlib
import hashlib
import http.client
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.impl.objects.temporary import Unflushed
from tests.depth import examples
from tests.impl.objects.serving import ROOT_TOKEN, client, served
from tests.impl.objects.test_hostile import signed

BUCKET = "bucket-one"
WORDS = (
    "uploads", "uploadId", "partNumber", "versionId", "versions", "tagging", "retention", "legal-hold",
    "attributes", "delete", "list-type", "prefix", "delimiter", "max-keys", "continuation-token", "limit",
    "versioning", "lifecycle", "object-lock", "response-expires", "X-Amz-Expires", "X-Amz-Signature",
)  # fmt: skip
HEADERS = (
    "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "range", "content-md5",
    "x-amz-copy-source", "x-amz-copy-source-range", "x-amz-tagging", "x-amz-acl", "x-amz-checksum-crc32",
    "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date", "x-amz-object-attributes",
    "x-amz-decoded-content-length", "x-amz-trailer", "x-amz-meta-a", "x-amz-date", "x-object-access",
)  # fmt: skip
SPECIAL = """
*|"x"|bytes=0-|bytes=-0|bytes=9-1|0|-1|1|2|9999999999999999999999999|1e5|\u00b2|..|/bucket-one/k|bucket-one/%ff
k?versionId=x|9999-12-31T23:59:59-12:00|2024-02-30T00:00:00Z|Mon, 99 Jan 2024 00:00:00 GMT|98881335547780702
GOVERNANCE|ETag|AAAAAA==
"""
VALUES = st.one_of(
    st.sampled_from(re.split(r"[|\n]", SPECIAL.strip())),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8),
)
BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        (
            b"<Delete><Object><Key>../x</Key></Object></Delete>",
            b"<Tagging><TagSet><Tag/></TagSet></Tagging>",
            b"<CompleteMultipartUpload><Part><PartNumber>x</PartNumber></Part></CompleteMultipartUpload>",
            b"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>x</RetainUntilDate></Retention>",
            b"<a>&b;</a>",
            b'{"key": "\\ud800"}',
            b'{"source": "k"}',
            b'{"access": 1}',
            b"5\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhe",
        )
    ),
)
PAYLOADS = (
    "UNSIGNED-PAYLOAD",
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "x",
)


@st.composite
def requests(draw: Any) -> tuple[str, str, dict[str, Any], bytes]:
    """Method, path with its query, headers and body."""
    is_rest = draw(st.booleans())
    method = draw(st.sampled_from(("GET", "PUT", "POST", "DELETE", "HEAD", "PATCH")))
    key = draw(st.sampled_from(("k", "a/b", "", "..", "a//b", ".fencepost/x", "\u00e9", "x" * 300)))
    words = draw(st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=2))
    query = "&".join(f"{name}={quote(text, safe='')}" for name, text in words.items())
    path = f"{'/v1' * is_rest}/{BUCKET}/{quote(key)}" + f"?{query}" * bool(query)
    headers = draw(st.dictionaries(st.sampled_from(HEADERS), VALUES, max_size=3))
    if not is_rest:
        headers["x-amz-content-sha256"] = draw(st.sampled_from(PAYLOADS))
    return method, path, headers, draw(BODIES)


def test_no_request_makes_the_server_fail(tmp_path: Path) -> None:
    with served(tmp_path, disk=Unflushed()) as address:
        aws = client(address)
        aws.create_bucket(Bucket=BUCKET)

        @settings(
            max_examples=examples(40, 5_000), deadline=None, suppress_health_check=[HealthCheck.too_slow]
        )
        @given(requests())
        def check(request: tuple[str, str, dict[str, Any], bytes]) -> None:
            method, path, headers, body = request
            if path.startswith("/v1/"):
                headers = headers | {"authorization": f"Bearer {ROOT_TOKEN}"}
            else:
                headers = signed(address, method, path, headers)
            raw = {name: text.encode() for name, text in headers.items()}
            connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
            with contextlib.closing(connection):
                connection.request(method, path, body, raw)
                response = connection.getresponse()
                content = response.read()
            assert response.status < 500 or response.status == 501, (response.status, content)
            if response.status >= 400 and method != "HEAD":
                assert re.search(rb"<Code>\w+</Code>|\"error\": \"\w+\"", content), content

        check()
        found = aws.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        for one in found:
            body = aws.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read()
            assert hashlib.md5(body).hexdigest() == one["ETag"].strip('"')
        drafts = tmp_path / BUCKET / ".fencepost" / "tmp"
        assert [path for path in drafts.rglob("*") if path.is_file()] == []
