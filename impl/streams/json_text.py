"""JSON texts, split into messages without a change of their bytes.

A message that is stored as it was sent keeps what a decoder loses: the digits of a long number, `1e999`,
duplicate keys, the escape of a lone surrogate. Accepted is what RFC 8259 calls a JSON text in UTF-8, nested
at most `DEPTH_MAX` deep; `NaN`, `Infinity`, a byte order mark and bytes that are not UTF-8 are refused.

The decoder of the standard library finds the end of each value. Its results are dropped:
numbers and objects become their lengths, so that no limit of digits applies and little memory is used.
"""

import json
import re
import threading
from array import array
from collections.abc import Iterator
from itertools import accumulate
from typing import NoReturn

DEPTH_MAX = 512
"""Arrays and objects in each other, the outermost included. Most decoders allow so many."""
_SPACE = re.compile(r"[ \t\n\r]*")
_COMMA = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STEPS = bytes.maketrans(b"[{]}", b"\1\1\xff\xff")
"""One deeper, or one less as a signed byte."""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_AT_A_TIME = threading.Lock()
"""The decoder holds the lock of the interpreter anyway. An array of many small arrays takes 20 times its
bytes while it is decoded: with this lock that is so once, and not for each thread."""


class NotJson(ValueError):
    """The message has the reason."""


def _constant(text: str) -> NoReturn:
    raise NotJson(f"{text} is not a JSON value")


_decoder = json.JSONDecoder(object_pairs_hook=len, parse_float=len, parse_int=len, parse_constant=_constant)


def messages(body: bytes) -> bytes:
    """The elements of an array, or any other value: each as it was sent, and followed by a comma."""
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX:
        _check_depth(body)
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise NotJson(f"byte {error.start} is not UTF-8") from None
    with _ONE_AT_A_TIME:
        found = [text[start:end] for start, end in _runs(text)]
    return "".join(f"{one}," for one in found).encode()


def length_of(stored: bytes, count: int) -> int | None:
    """The length of the first `count` of stored messages; None if there are fewer."""
    text, end = stored.decode(), 0
    with _ONE_AT_A_TIME:
        for _ in range(count):
            if end >= len(text):
                return None
            end = _end(text, end) + 1
    return end if text.isascii() else len(text[:end].encode())


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """The places of messages; those with nothing but a comma between them are one run."""
    begin = _after_space(text, 0)
    if not text.startswith("[", begin):
        end = _end(text, begin)
        yield begin, end
    else:
        begin = end = _after_space(text, begin + 1)
        if not text.startswith("]", end):
            while True:
                end = _end(text, end)
                if text.startswith(",", end) and text[end + 1 : end + 2] not in " \t\n\r":
                    end += 1
                    continue
                yield begin, end
                comma = _COMMA.match(text, end)
                if comma is None:
                    break
                begin = end = comma.end()
            end = _after_space(text, end)
            if not text.startswith("]", end):
                raise NotJson(f"a comma or the end of the array is missing at character {end}")
        end += 1
    end = _after_space(text, end)
    if end < len(text):
        raise NotJson(f"something follows the value at character {end}")


def _end(text: str, begin: int) -> int:
    """The end of the value that begins there."""
    try:
        end: int = _decoder.raw_decode(text, begin)[1]
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} at character {error.pos}") from None
    return end


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "it matches nothing, too"
    return found.end()


def _check_depth(body: bytes) -> None:
    """Without this the decoder's own limit would apply, which depends on the stack of the thread."""
    steps = array("b", _STRING.sub(b"", body).translate(_STEPS, _NO_BRACKETS))
    if max(accumulate(steps), default=0) > DEPTH_MAX:
        raise NotJson(f"arrays and objects are nested more than {DEPTH_MAX} deep")
