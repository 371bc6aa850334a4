"""Frames: a collector reads what an agent encodes, and refuses everything else."""

import contextlib
import dataclasses
import math
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.impl.ingest import FrameError, Identity, Limits, Point, encode, read
from fencepost.impl.ingest.frames import METRIC

IDENTITY = Identity("agent-a", "boot-1", 10, 19)
words = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
points = st.builds(
    Point,
    st.from_regex(METRIC, fullmatch=True),
    st.dictionaries(words, words, max_size=3),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
)
GOOD = encode(IDENTITY, [Point("cpu.load", {"host": "a"}, 17, 0.5), Point("mem", {}, 18, -1.0)])


def same(one: Point, other: Point) -> bool:
    values = struct.pack(">d", one.value) == struct.pack(">d", other.value)
    both_nan = math.isnan(one.value) and math.isnan(other.value)
    rest = dataclasses.replace(one, value=0.0) == dataclasses.replace(other, value=0.0)
    return rest and (values or both_nan)


@given(st.lists(points, max_size=5), st.booleans())
def test_encoded_frames_are_read_back(packed: list[Point], compress: bool) -> None:
    body = encode(IDENTITY, packed, compress=compress)
    frame = read(body)
    assert (frame.identity, frame.body) == (IDENTITY, body)
    assert len(frame.points) == len(packed)
    assert all(map(same, frame.points, packed))


def test_the_same_batch_is_the_same_bytes() -> None:
    again = encode(IDENTITY, [Point("cpu.load", {"host": "a"}, 17, 0.5), Point("mem", {}, 18, -1.0)])
    assert again == GOOD
    one = encode(IDENTITY, [Point("m", {"a": "1", "b": "2"}, 1, 1.0)])
    assert one == encode(IDENTITY, [Point("m", {"b": "2", "a": "1"}, 1, 1.0)])


@pytest.mark.parametrize("size", range(len(GOOD)))
def test_a_frame_truncated_anywhere_is_refused(size: int) -> None:
    with pytest.raises(FrameError, match=r"truncated|starts with"):
        read(GOOD[:size])


@pytest.mark.parametrize("at", range(len(GOOD)))
def test_a_frame_with_one_byte_changed_is_refused(at: int) -> None:
    """The hash covers the bytes as sent; the CRC covers them as encoded."""
    with pytest.raises(FrameError):
        read(GOOD[:at] + bytes([GOOD[at] ^ 0x41]) + GOOD[at + 1 :])


def sealed(body: bytes) -> bytes:
    """Like an attacker: with a valid CRC."""
    return body + struct.pack(">I", zlib.crc32(body))


@settings(max_examples=300)
@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_with_a_crc_are_a_frame_or_refused(noise: bytes, at: int) -> None:
    """The reader raises only FrameError, however well formed the outside is."""
    inner = GOOD[:-4]
    for body in (sealed(inner[:at] + noise + inner[at + len(noise) :]), sealed(inner[:26] + noise), noise):
        with contextlib.suppress(FrameError):
            assert read(body).body == body


POINT = b"\x01m\x00" + b"\x00" * 16


def packed(plain: bytes, count: int, *, claims: int = -1, flags: int = 0, stored: bytes = b"") -> bytes:
    header = b"\x00\x01a\x00\x01b" + struct.pack(">QQI", 1, 2, count)
    stored = stored or plain
    claims = len(plain) if claims < 0 else claims
    sizes = (len(header), len(stored), claims)
    return sealed(struct.pack(">8sHHHIII", b"\x89LMB\r\n\x1a\n", 1, 1, flags, *sizes) + header + stored)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "starts with nothing"),
        (b"GET / HTTP/1.1\r\n", "byte 0: this is not a batch frame"),
        (GOOD + b"x", "1 bytes follow the end of the frame"),
        (GOOD.replace(b"\r\n", b"\n"), "byte 0"),
        (sealed(b"\x89LMB\r\n\x1a\n\x00\x02" + GOOD[10:-4]), "frame version 2 is not known"),
        (sealed(GOOD[:10] + b"\x00\x09" + GOOD[12:-4]), "wire version 9 is not known"),
        (sealed(GOOD[:12] + b"\x00\x03" + GOOD[14:-4]), "flags 0x0003 are not known"),
        (packed(b"", 1), "claims 1 points, which do not fit into 0 bytes"),
        (packed(POINT, 2), "claims 2 points, which do not fit into 19 bytes"),
        (packed(b"\x30" + bytes(18), 1), "the name of point 0 is truncated"),
        (packed(b"\x01m\x00" + b"\x00" * 16, 0), "19 bytes follow the last of 0 points"),
        (packed(b"\x02mm\x00" + b"\x00" * 15, 1), "truncated in point 0"),
        (packed(b"\x01 \x00" + b"\x00" * 16, 1), "is not the name of a metric"),
        (packed(b"\x01m\xff" + bytes(16), 1), "has 255 labels, the limit is 64"),
        (packed(b"\x01m\x02\x01k\x00\x01v\x01k\x00\x01w" + b"\x00" * 16, 1), "has a label twice"),
        (packed(b"\x01m\x01\x01\xff\x00\x01v" + b"\x00" * 16, 1), "is not UTF-8"),
        (packed(POINT, 1, claims=20), "the points have 19 bytes, the frame declares 20"),
        (packed(POINT, 1, flags=1), "cannot be unpacked"),
        (packed(POINT, 1, flags=1, stored=zlib.compress(POINT)[:-4]), "do not unpack to the"),
        (packed(POINT, 1, flags=1, stored=zlib.compress(POINT) + b"x"), "do not unpack to the"),
        (packed(b"", 2**31), "claims 2147483648 points, the limit is 1000000"),
        (packed(b"", 0, claims=2**31), "the limit for a frame of 56 bytes is 65984"),
    ],
)
def test_the_message_has_the_reason(body: bytes, says: str) -> None:
    with pytest.raises(FrameError) as caught:
        read(body)
    assert says in str(caught.value)


def test_a_decompression_bomb_is_not_unpacked() -> None:
    """A few kilobytes that claim little and hold a gigabyte are refused without unpacking them."""
    bomb = zlib.compress(bytes(50_000_000))
    body = packed(bytes(100), 5, flags=1, stored=bomb)
    with pytest.raises(FrameError, match="do not unpack to the 100 bytes"):
        read(body)


def test_a_frame_above_the_limit_is_refused() -> None:
    with pytest.raises(FrameError, match="the limit is 20"):
        read(GOOD, Limits(frame_bytes=20))


@pytest.mark.parametrize(
    ("point", "says"),
    [
        (Point("no spaces", {}, 1, 1.0), "is not the name of a metric"),
        (Point("a" * 121, {}, 1, 1.0), "is not the name of a metric"),
        (Point("m", {"k" * 256: "v"}, 1, 1.0), "the limit is 255"),
        (Point("m", {"k": "v" * 4097}, 1, 1.0), "the limit is 4096"),
        (Point("m", {str(n): "" for n in range(65)}, 1, 1.0), "has 65 labels"),
        (Point("m", {}, 2**63, 1.0), "must be 64-bit numbers"),
    ],
)
def test_points_that_no_reader_accepts_are_not_encoded(point: Any, says: str) -> None:
    with pytest.raises(FrameError, match=says):
        encode(IDENTITY, [point])


def test_lone_surrogates_are_not_encoded() -> None:
    with pytest.raises(FrameError, match="Unicode"):
        encode(IDENTITY, [Point("m", {"k": "\ud800"}, 1, 1.0)])
