"""The batch frame: a self-describing binary file (`.lmbatch`), stored exactly as it was sent.

The hash of a batch is taken over these bytes, so only the agent writes them, and a collector only reads.
All numbers are big-endian.

    bytes  what
        8  magic: 89 4C 4D 42 0D 0A 1A 0A (converting line ends or stripping the eighth bit breaks it)
        2  frame version, 1
        2  wire version, 1
        2  flags: bit 0 the points are compressed (zlib); the other bits are 0
        4  length of the header
        4  length of the points as stored here
        4  length of the points unpacked
        .  header: agent and boot (2 bytes of length and UTF-8 each), seq_start, seq_end (8 each), count (4)
        .  points: name (1 + text), number of labels (1), labels (1 + text, 2 + text each),
           unix ns (8, signed), value (8, IEEE 754)
        4  CRC-32 of everything before

    body = encode(identity, [Point("cpu.load", {"host": "a"}, 1_700_000_000_000_000_000, 0.5)])
    read(body).points[0].value

The work of reading a frame is bounded by the bytes of the frame, not by the largest frame allowed. The points
unpack to at most `UNPACKED_RATIO` times the bytes of the frame and `UNPACKED_FREE` more. A count of points
that cannot fit into the claimed bytes is refused before anything is unpacked. `read` checks every point and
builds none: a point whose name and labels repeat those of an earlier one costs one comparison of bytes. Each
other point or label costs one step, at most one for 4 unpacked bytes. `points` and `each_point` build the
points when they are wanted.

A frame whose points would unpack to more is encoded with Huffman codes alone, which pack at most 8 to 1.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.impl.ingest.errors import FrameError, IdentityError
from fencepost.impl.ingest.keys import Identity

MAGIC = b"\x89LMB\r\n\x1a\n"
FRAME_VERSION = 1
WIRE_VERSION = 1
COMPRESSED = 1

_TOP = struct.Struct(">8sHHHIII")
_RANGE = struct.Struct(">QQI")
_TAIL = struct.Struct(">qd")
_CRC = struct.Struct(">I")
_POINT_BYTES_MIN = 3 + _TAIL.size
"""A name of one letter, and no labels."""

METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,119}")
"""The names of metrics, which are parts of keys."""
LABELS_MAX = 64
LABEL_NAME_BYTES_MAX = 255
LABEL_VALUE_BYTES_MAX = 4096
HEADER_BYTES_MAX = 1024
UNPACKED_RATIO = 8
"""The bytes of the points for each byte of the frame: the most that Huffman codes alone reach."""
UNPACKED_FREE = 64 * 1024
"""Bytes of points that a frame of any size may unpack to: small batches pack better than 8 to 1."""
STEPS_PER_TURN = 8192
"""Points and labels read between two calls of `turn`: about 4 milliseconds."""
REMEMBERED_MAX = 8192
"""Names and labels that one reading remembers, to recognise repetitions: about 1 MiB of memory."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A reader refuses a frame that claims more before it unpacks anything."""

    frame_bytes: int = 32 * 1024 * 1024
    points: int = 1_000_000
    is_bounded: bool = True
    """The unpacked bytes are bounded by those of the frame."""

    @classmethod
    def for_body(cls, body_bytes: int) -> "Limits":
        """The limits of a server that takes bodies of this size."""
        return cls(frame_bytes=body_bytes)

    def unpacked_bytes(self, frame_bytes: int) -> int:
        """The greatest number of bytes to which the points of a frame of this size may unpack."""
        return UNPACKED_RATIO * frame_bytes + UNPACKED_FREE if self.is_bounded else 2**32


LIMITS = Limits()
ANY_SIZE = Limits(frame_bytes=2**40, points=2**40, is_bounded=False)
"""For frames that were accepted before, under whatever limits."""


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    labels: Mapping[str, str]
    unix_ns: int
    value: float


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that was checked whole."""

    identity: Identity
    count: int
    """The number of its points."""
    body: bytes = field(repr=False)
    frame_version: int = FRAME_VERSION
    wire_version: int = WIRE_VERSION
    plain: bytes = field(repr=False, default=b"", compare=False)
    """The points, unpacked."""

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(self.each_point())

    def each_point(self) -> Iterator[Point]:
        """The points, each built when it is its turn; those of one series share their labels."""
        for end, (name, labels) in _Points(self.plain, self.count):
            yield Point(name, labels, *_TAIL.unpack_from(self.plain, end))


def encode(identity: Identity, points: Iterable[Point], *, compress: bool = True) -> bytes:
    """The frame of a batch. Keep its bytes: another machine may encode the same batch differently."""
    packed = [_pack(point) for point in points]
    agent, boot = identity.agent.encode(), identity.boot.encode()
    header = b"".join(
        [
            len(agent).to_bytes(2, "big") + agent,
            len(boot).to_bytes(2, "big") + boot,
            _RANGE.pack(identity.seq_start, identity.seq_end, len(packed)),
        ]
    )
    plain = b"".join(packed)
    stored = _compressed(plain) if compress else plain
    flags = COMPRESSED if compress else 0
    top = _TOP.pack(MAGIC, FRAME_VERSION, WIRE_VERSION, flags, len(header), len(stored), len(plain))
    whole = top + header + stored
    return whole + _CRC.pack(zlib.crc32(whole))


def _compressed(plain: bytes) -> bytes:
    stored = zlib.compress(plain)
    if len(plain) <= LIMITS.unpacked_bytes(len(stored)):
        return stored
    packer = zlib.compressobj(strategy=zlib.Z_HUFFMAN_ONLY)
    return packer.compress(plain) + packer.flush()


def read(body: bytes, limits: Limits = LIMITS, turn: Callable[[], None] = lambda: None) -> Frame:
    """The frame in `body`; raises `FrameError` when it is not one. Calls `turn` again and again, so that the
    caller can let others run."""
    identity, count, stored, plain_bytes, flags = _opened(body, limits)
    plain = _unpack(stored, plain_bytes, body) if flags & COMPRESSED else stored
    if len(plain) != plain_bytes:
        raise FrameError(f"byte 22: the points have {len(plain)} bytes, the frame declares {plain_bytes}")
    reader = _Points(plain, count)
    turn_at = STEPS_PER_TURN
    for _ in reader:
        if reader.steps >= turn_at:
            turn()
            turn_at = reader.steps + STEPS_PER_TURN
    return Frame(identity, count, body, plain=plain)


def read_identity(body: bytes) -> Identity:
    """The identity in a frame of any size, whose points are not read."""
    return _opened(body, ANY_SIZE)[0]


def _opened(body: bytes, limits: Limits) -> tuple[Identity, int, bytes, int, int]:
    """The identity, the number of points, the points as stored, their bytes when unpacked, and the flags."""
    header_bytes, stored_bytes, plain_bytes, flags = _check_top(body, limits)
    begin = _TOP.size + header_bytes
    identity, count = _read_header(body[_TOP.size : begin], limits)
    if count * _POINT_BYTES_MIN > plain_bytes:
        raise FrameError(f"the frame claims {count} points, which do not fit into {plain_bytes} bytes")
    return identity, count, body[begin : begin + stored_bytes], plain_bytes, flags


def _check_top(body: bytes, limits: Limits) -> tuple[int, int, int, int]:
    if len(body) > limits.frame_bytes:
        raise FrameError(f"the frame has {len(body)} bytes, the limit is {limits.frame_bytes}")
    if not body.startswith(MAGIC[: len(body)]) or not body:
        raise FrameError(
            f"byte 0: this is not a batch frame: it starts with {body[:8].hex(' ') or 'nothing'}"
        )
    if len(body) < _TOP.size + _CRC.size:
        raise FrameError(f"byte {len(body)}: the frame is truncated inside its first {_TOP.size} bytes")
    _, version, wire, flags, header_bytes, stored_bytes, plain_bytes = _TOP.unpack_from(body)
    if version != FRAME_VERSION:
        raise FrameError(f"byte 8: frame version {version} is not known here; send version {FRAME_VERSION}")
    if wire != WIRE_VERSION:
        raise FrameError(f"byte 10: wire version {wire} is not known here; send version {WIRE_VERSION}")
    if flags & ~COMPRESSED:
        raise FrameError(f"byte 12: flags {flags:#06x} are not known here; only bit 0 is")
    if header_bytes > HEADER_BYTES_MAX:
        raise FrameError(f"byte 14: the header claims {header_bytes} bytes, the limit is {HEADER_BYTES_MAX}")
    most = limits.unpacked_bytes(len(body))
    if plain_bytes > most:
        raise FrameError(
            f"byte 22: the points claim {plain_bytes} bytes unpacked, the limit for a frame of {len(body)} "
            f"bytes is {most}; send fewer points, or compress them less"
        )
    whole = _TOP.size + header_bytes + stored_bytes + _CRC.size
    if len(body) < whole:
        raise FrameError(f"byte {len(body)}: the frame is truncated; it should have {whole} bytes")
    if len(body) > whole:
        raise FrameError(f"byte {whole}: {len(body) - whole} bytes follow the end of the frame")
    (declared,) = _CRC.unpack_from(body, whole - _CRC.size)
    computed = zlib.crc32(memoryview(body)[: whole - _CRC.size])
    if declared != computed:
        raise FrameError(
            f"byte {whole - _CRC.size}: the CRC is {declared:08x}, the bytes have {computed:08x}"
        )
    return header_bytes, stored_bytes, plain_bytes, flags


def _read_header(header: bytes, limits: Limits) -> tuple[Identity, int]:
    at, names = 0, []
    for what in ("agent", "boot"):
        text, at = _text(header, at, 2, f"the {what}", _TOP.size)
        names.append(text)
    if len(header) != at + _RANGE.size:
        needed = at + _RANGE.size
        raise FrameError(
            f"byte {_TOP.size + at}: the header has {len(header)} bytes, its fields need {needed}"
        )
    start, end, count = _RANGE.unpack_from(header, at)
    if count > limits.points:
        raise FrameError(f"the frame claims {count} points, the limit is {limits.points}")
    try:
        return Identity(names[0], names[1], start, end), count
    except IdentityError as error:
        raise FrameError(f"byte {_TOP.size}: {error}") from None


def _unpack(stored: bytes, plain_bytes: int, body: bytes) -> bytes:
    """Unpacks at most one byte more than the frame claims: with more it is not a frame."""
    at = len(body) - _CRC.size - len(stored)
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(stored, plain_bytes + 1)
    except zlib.error as error:
        raise FrameError(f"byte {at}: the points cannot be unpacked: {error}") from None
    if len(plain) > plain_bytes or not unpacker.eof or unpacker.unused_data:
        raise FrameError(f"byte {at}: the points do not unpack to the {plain_bytes} bytes the frame claims")
    return plain


_Series = tuple[str, dict[str, str]]
"""The name and the labels of a point."""


class _Points:
    """Iterates over the points: the place behind the labels of each, and its name and labels.

    The encoding of a name with its labels shows its own end, so no series begins with another series. So a
    point that begins with the bytes of a known series has that series. Agents send their series in the same
    order again and again: the series that followed the last one before is compared first.
    """

    def __init__(self, plain: bytes, count: int) -> None:
        self._plain = plain
        self._count = count
        self.steps = 0
        """Points and labels that were read."""

    def __iter__(self) -> Iterator[tuple[int, _Series]]:
        plain = self._plain
        known: dict[bytes, _Series] = {}
        following: dict[bytes, bytes] = {}
        at = remembered = 0
        before = b""
        for number in range(self._count):
            raw = following.get(before, before)
            if raw and plain.startswith(raw, at):
                end, series = at + len(raw), known[raw]
                self.steps += 1
            else:
                series, end = _read_series(plain, at, number)
                self.steps += 1 + len(series[1])
                raw = plain[at:end]
                if raw not in known:
                    remembered += 1 + len(series[1])
                    if remembered > REMEMBERED_MAX:
                        known.clear()
                        following.clear()
                        remembered = 1 + len(series[1])
                    known[raw] = series
                following[before] = raw
            before = raw
            at = end + _TAIL.size
            if at > len(plain):
                raise FrameError(f"byte {end} of the points: truncated in point {number}")
            yield end, series
        if at != len(plain):
            raise FrameError(f"{len(plain) - at} bytes follow the last of {self._count} points")


def _read_series(plain: bytes, at: int, number: int) -> tuple[_Series, int]:
    """The name and labels of the point that begins here, and their end."""
    what = f"point {number}"
    total = len(plain)
    name, at = _text(plain, at, 1, f"the name of {what}")
    if not METRIC.fullmatch(name):
        raise FrameError(f"{what}: {name[:80]!a} is not the name of a metric: letters, digits and _.:/- only")
    if at >= total:
        raise FrameError(f"byte {at} of the points: truncated in {what}")
    labels: dict[str, str] = {}
    size, at = plain[at], at + 1
    if size > LABELS_MAX:
        raise FrameError(f"{what} has {size} labels, the limit is {LABELS_MAX}")
    try:
        for _ in range(size):
            key_end = at + 1 + plain[at]
            begin = key_end + 2
            end = begin + (plain[key_end] << 8 | plain[key_end + 1])
            if end > total:
                raise IndexError
            labels[plain[at + 1 : key_end].decode()] = plain[begin:end].decode()
            at = end
    except IndexError:
        raise FrameError(f"byte {at} of the points: a label of {what} is truncated") from None
    except UnicodeDecodeError:
        raise FrameError(f"byte {at} of the points: a label of {what} is not UTF-8") from None
    if len(labels) != size:
        raise FrameError(f"{what} has a label twice")
    return (name, labels), at


def _text(data: bytes, at: int, width: int, what: str, base: int = 0) -> tuple[str, int]:
    begin = at + width
    end = begin + int.from_bytes(data[at:begin], "big")
    if end > len(data) or begin > len(data):
        raise FrameError(f"byte {base + at}: {what} is truncated")
    try:
        return data[begin:end].decode(), end
    except UnicodeDecodeError:
        raise FrameError(f"byte {base + begin}: {what} is not UTF-8") from None


def _pack(point: Point) -> bytes:
    if not METRIC.fullmatch(point.name):
        raise FrameError(f"{point.name[:80]!a} is not the name of a metric: letters, digits and _.:/- only")
    if len(point.labels) > LABELS_MAX:
        raise FrameError(f"metric {point.name} has {len(point.labels)} labels, the limit is {LABELS_MAX}")
    parts = [_short(point.name, 1, "a metric"), bytes([len(point.labels)])]
    for key, value in sorted(point.labels.items()):
        parts.append(_short(key, 1, f"label of {point.name}"))
        parts.append(_short(value, 2, f"label {key!a} of {point.name}"))
    try:
        parts.append(_TAIL.pack(point.unix_ns, point.value))
    except struct.error:
        raise FrameError(
            f"metric {point.name}: time {point.unix_ns!a} and value {point.value!a} must be 64-bit numbers"
        ) from None
    return b"".join(parts)


def _short(text: str, width: int, what: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise FrameError(f"{what} is {text[:40]!a}, which is not valid Unicode (a lone surrogate)") from None
    longest = LABEL_NAME_BYTES_MAX if width == 1 else LABEL_VALUE_BYTES_MAX
    if len(data) > longest:
        raise FrameError(f"{what} has {len(data)} bytes, the limit is {longest}")
    return len(data).to_bytes(width, "big") + data
