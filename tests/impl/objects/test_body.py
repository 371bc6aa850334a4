"""Bodies: what arrives is what was sent however it is cut, and nothing passes that does not agree."""

import base64
import hashlib
import itertools
import zlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.impl.objects.wire import body as bodies
from fencepost.impl.objects.wire.body import DIGESTS, Body
from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.objects.wire.signature import Chain, Scope, Signed, _mac, signing_key

SCOPE = Scope("root", "20261119", "us-east-1")
KEY = signing_key("secret", SCOPE)
SEED = "0" * 64
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"


def crc32(content: bytes) -> str:
    return base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()


def unsigned(chunks: list[bytes], trailer: str | None = None) -> tuple[dict[str, str], bytes]:
    """An `aws-chunked` body as the SDK sends it by default."""
    content = b"".join(chunks)
    lines = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    sum_ = crc32(content) if trailer is None else trailer
    headers = {
        "x-amz-content-sha256": UNSIGNED_TRAILER,
        "x-amz-decoded-content-length": str(len(content)),
        "x-amz-trailer": "x-amz-checksum-crc32",
    }
    return headers, lines + b"0\r\nx-amz-checksum-crc32:" + sum_.encode() + b"\r\n\r\n"


class Signing(Chain):
    """The client's side of the chain."""

    def next(self, kind: str, rest: str) -> str:
        signed = self._signed
        self._previous = _mac(
            signed.key,
            f"AWS4-HMAC-SHA256-{kind}\n{signed.moment}\n{signed.scope.text}\n{self._previous}\n{rest}",
        )
        return self._previous


def signed_body(chunks: list[bytes], *, trailer: bool = False) -> tuple[dict[str, str], bytes, Signed]:
    payload = SIGNED + ("-TRAILER" if trailer else "")
    signed = Signed(SCOPE, "20261119T000000Z", SEED, KEY, payload)
    chain, lines = Signing(signed), b""
    empty = hashlib.sha256(b"").hexdigest()
    for chunk in [*(chunk for chunk in chunks if chunk), b""]:
        signature = chain.next("PAYLOAD", f"{empty}\n{hashlib.sha256(chunk).hexdigest()}")
        lines += b"%x;chunk-signature=%s\r\n" % (len(chunk), signature.encode())
        lines += chunk + b"\r\n" if chunk else b""
    headers = {"x-amz-content-sha256": payload, "x-amz-decoded-content-length": str(len(b"".join(chunks)))}
    if trailer:
        line = b"x-amz-checksum-crc32:" + crc32(b"".join(chunks)).encode() + b"\n"
        signature = chain.next("TRAILER", hashlib.sha256(line).hexdigest())
        lines += line.strip() + b"\r\nx-amz-trailer-signature:" + signature.encode() + b"\r\n"
        headers["x-amz-trailer"] = "x-amz-checksum-crc32"
    return headers, lines + b"\r\n", signed


def received(headers: Mapping[str, str], pieces: list[bytes], signed: Signed | None = None) -> bytes:
    body = Body(headers, signed)
    content = b"".join(part for piece in pieces for part in body.feed(piece))
    body.finish()
    return content


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[left:right] for left, right in itertools.pairwise(bounds)]


CHUNKS = st.lists(st.binary(max_size=40), max_size=4)
PLACES = st.lists(st.integers(0, 10_000), max_size=6)


@given(CHUNKS, PLACES)
def test_an_unsigned_body_arrives_however_it_is_cut(chunks: list[bytes], places: list[int]) -> None:
    headers, data = unsigned(chunks)
    assert received(headers, cut(data, places)) == b"".join(chunks)


@given(CHUNKS, PLACES, st.booleans())
def test_a_signed_body_arrives_however_it_is_cut(
    chunks: list[bytes], places: list[int], trailer: bool
) -> None:
    headers, data, signed = signed_body(chunks, trailer=trailer)
    assert received(headers, cut(data, places), signed) == b"".join(chunks)


@given(
    st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=3),
    st.integers(0, 10_000),
    st.integers(1, 255),
    st.booleans(),
)
def test_no_changed_byte_of_a_signed_body_passes(
    chunks: list[bytes], at: int, flip: int, trailer: bool
) -> None:
    """But for the case of a length in hex, and spaces around a checksum, which mean the same."""
    headers, data, signed = signed_body(chunks, trailer=trailer)
    at %= len(data)
    changed = data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
    try:
        found = received(headers, [changed], signed)
    except S3Error:
        return
    assert found == b"".join(chunks)


@given(CHUNKS, st.integers(0, 10_000))
def test_no_body_passes_that_ends_early(chunks: list[bytes], end: int) -> None:
    for headers, data, signed in ((*unsigned(chunks), None), signed_body(chunks)):
        with pytest.raises(S3Error):
            received(headers, [data[: end % len(data)]], signed)


def refusal(headers: Mapping[str, str], data: bytes = b"content", signed: Signed | None = None) -> str:
    with pytest.raises(S3Error) as raised:
        received(headers, [data], signed)
    return raised.value.code


MD5 = base64.b64encode(hashlib.md5(b"content").digest()).decode()


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "MissingContentLength"),
        ({"content-length": "-1"}, "MissingContentLength"),
        ({"content-length": "6"}, "IncompleteBody"),
        ({"content-length": "8"}, "IncompleteBody"),
        ({"content-length": "7", "content-md5": MD5[::-1]}, "InvalidDigest"),
        ({"content-length": "7", "content-md5": "YWJj"}, "InvalidDigest"),
        ({"content-length": "7", "content-md5": base64.b64encode(bytes(16)).decode()}, "BadDigest"),
        ({"content-length": "7", "x-amz-checksum-crc32": "AAAAAA=="}, "BadDigest"),
        ({"content-length": "7", "x-amz-checksum-md4": "AAAAAA=="}, "InvalidRequest"),
        ({"content-length": "7", "x-amz-content-sha256": "0" * 64}, "XAmzContentSHA256Mismatch"),
        ({"content-length": "7", "x-amz-content-sha256": "UNSIGNED"}, "InvalidArgument"),
        ({"content-length": "7", "x-amz-trailer": "x-amz-checksum-crc32"}, "BadDigest"),
        ({"x-amz-decoded-content-length": "7", "x-amz-content-sha256": "STREAMING-NEW"}, "InvalidRequest"),
        (unsigned([b"content"], trailer="AAAAAA==")[0] | {"x-amz-trailer": "x-amz-meta-x"}, "InvalidRequest"),
    ],
)
def test_a_body_that_does_not_agree_is_refused(headers: dict[str, str], code: str) -> None:
    assert refusal(headers) == code


def test_a_trailer_with_another_checksum_is_refused() -> None:
    headers, data = unsigned([b"content"], trailer="AAAAAA==")
    assert refusal(headers, data) == "BadDigest"


def test_a_trailer_that_is_missing_is_refused() -> None:
    headers, _ = unsigned([b"content"])
    assert refusal(headers, b"7\r\ncontent\r\n0\r\n\r\n") == "InvalidRequest"


def test_a_signed_chunk_is_not_kept() -> None:
    """A chunk may be as large as the body; one whose signature is false is refused at its end."""
    headers, data, signed = signed_body([b"content"])
    end = data.index(b"content") + 7
    body = Body(headers, signed)
    assert list(body.feed(data[:end])) == [b"content"]
    body = Body(headers, signed)
    assert list(body.feed(data[:end].replace(b"content", b"c0ntent"))) == [b"c0ntent"]
    with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
        list(body.feed(data[end:]))


@pytest.mark.parametrize(
    ("name", "value"),
    [  # of b"123456789", the check value of the catalogue of CRC algorithms; the others by hashlib
        ("crc32", "cbf43926"),
        ("crc32c", "e3069283"),
        ("crc64nvme", "ae8b14860a799888"),
        ("sha1", hashlib.sha1(b"123456789").hexdigest()),
        ("sha256", hashlib.sha256(b"123456789").hexdigest()),
    ],
)
def test_a_checksum_has_its_published_value_in_any_number_of_pieces(name: str, value: str) -> None:
    assert set(DIGESTS) == {"crc32", "crc32c", "crc64nvme", "sha1", "sha256"}
    for pieces in ([b"123456789"], [b"1234", b"", b"56789"]):
        digest = DIGESTS[name]()
        for piece in pieces:
            digest.update(piece)
        assert digest.digest().hex() == value


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_the_plain_crcs_continue_like_the_compiled_ones(left: bytes, right: bytes) -> None:
    for polynomial, bits in ((0x82F63B78, 32), (0x9A6C9329AC4BC9B5, 64)):
        crc = bodies._reflected(polynomial, bits)
        assert crc(right, crc(left, 0)) == crc(left + right, 0)
