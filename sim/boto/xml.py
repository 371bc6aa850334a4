"""The bodies of S3's answers, written and read."""

import functools
import time
from collections.abc import Iterable
from email.utils import formatdate
from typing import Any
from urllib.parse import quote_plus
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from fencepost.sim.boto.asks import Refused

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
Field = tuple[str, Any]
"""A tag, and its text or the fields inside of it. None leaves it out."""


def document(root: str, fields: Iterable[Field]) -> bytes:
    return f'{_HEAD}<{root} xmlns="{_SPACE}">{_inside(fields)}</{root}>'.encode()


def error(code: str, message: str, fields: Iterable[Field]) -> bytes:
    inside = _inside([("Code", code), ("Message", message), *fields])
    return f"{_HEAD}<Error>{inside}</Error>".encode()


def _inside(fields: Iterable[Field]) -> str:
    return "".join(f"<{tag}>{_text(value)}</{tag}>" for tag, value in fields if value is not None)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return _inside(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return escape(str(value))


def coded(text: str, encoding: str | None) -> str:
    """A key, as the listing was asked to write it."""
    return quote_plus(text, safe="/") if encoding == "url" else text


@functools.lru_cache(4096)
def iso(ns: int) -> str:
    """To the second, as S3 has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(ns // 1_000_000_000))


@functools.lru_cache(4096)
def http_date(ns: int) -> str:
    return formatdate(ns // 1_000_000_000, usegmt=True)


def parse(body: bytes, root: str) -> Any:
    """The root element, its tags without their namespace."""
    try:
        found = ET.fromstring(body)  # noqa: S314 - written by the SDK in this process
    except ET.ParseError:
        raise malformed() from None
    for element in found.iter():
        element.tag = element.tag.rpartition("}")[2]
    if found.tag != root:
        raise malformed()
    return found


def malformed() -> Refused:
    return Refused(
        400,
        "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema",
    )
