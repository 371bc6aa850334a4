"""Values to text: the XML and the headers of a response, and dates, by the shapes of the service model."""

import functools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"


MIXED = ""
"""In place of a member's name: elements of several lists in one order, each as (member, value).

S3 lists versions and delete markers in one order, newest first, which the two lists of the model lose."""


class Rows(NamedTuple):
    """Many structures with the same members, each a string, and others that are the same in all of them."""

    members: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    same: Mapping[str, Any]


Writer = Callable[[Any], str]
"""A value to XML. There is one for each part of the model, made once."""


@functools.cache
def content(shape: Any) -> Writer:
    """Return the function that writes the inside of a structure."""
    parts = {
        member: _member(member, part)
        for member, part in shape.members.items()
        if not part.serialization.get("xmlAttribute")
    }

    @functools.lru_cache(maxsize=32)
    def present(given: tuple[str, ...]) -> list[tuple[str, Writer]]:
        return [(member, write) for member, write in parts.items() if member in given]

    def written(values: Mapping[str, Any]) -> str:
        some = present(tuple(values))
        texts = [write(values[member]) for member, write in some if values[member] is not None]
        if MIXED in values:
            texts += [parts[member]([value]) for member, value in values[MIXED]]
        return "".join(texts)

    return written


def _member(member: str, part: Any) -> Writer:
    name = part.serialization.get("name", member)
    if part.type_name != "list":
        return _element(part, name)
    if part.serialization.get("flattened"):
        name = part.serialization.get("name", part.member.serialization.get("name", member))
        item = _element(part.member, name)

        def items(values: Any) -> str:
            if isinstance(values, Rows):
                return _rows(part.member, name, values)
            return "".join(map(item, values))

        return items
    item = _element(part.member, part.member.serialization.get("name", "member"))
    return lambda items: f"<{name}>{''.join(map(item, items))}</{name}>"


def _rows(shape: Any, name: str, rows: Rows) -> str:
    """One template for all of them: a page has thousands of values."""
    if not rows.rows:
        return ""
    row = _template(shape, name, rows.members, content(shape)(rows.same))
    return "".join(
        [
            row % (values if _SPECIAL("".join(values)) is None else tuple(map(xml_text, values)))
            for values in rows.rows
        ]
    )


@functools.lru_cache(maxsize=64)
def _template(shape: Any, name: str, members: tuple[str, ...], same: str) -> str:
    tags = [shape.members[member].serialization.get("name", member) for member in members]
    same = same.replace("%", "%%")
    return f"<{name}>{''.join(f'<{tag}>%s</{tag}>' for tag in tags)}{same}</{name}>"


def _element(shape: Any, name: str) -> Writer:
    start, end = f"<{name}>", f"</{name}>"
    if shape.type_name != "structure":

        def scalar(value: Any) -> str:
            text = value if type(value) is str else text_of(shape, value, in_header=False)
            if _SPECIAL(text) is not None:
                text = xml_text(text)
            return f"{start}{text}{end}"

        return scalar
    inside = content(shape)
    attributes = {
        member: part.serialization["name"]
        for member, part in shape.members.items()
        if part.serialization.get("xmlAttribute")
    }
    if not attributes:
        return lambda values: f"{start}{inside(values)}{end}"

    def element(values: Mapping[str, Any]) -> str:
        text = "".join(
            f' xmlns:{attribute.partition(":")[0]}="{INSTANCE}" {attribute}="{escape(values[member])}"'
            for member, attribute in attributes.items()
            if values.get(member) is not None
        )
        return f"<{name}{text}>{inside(values)}{end}"

    return element


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")
_SPECIAL = re.compile("[&<>\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]").search


def xml_text(text: str) -> str:
    """Escaped; a character that XML 1.0 cannot hold becomes a reference, as on S3."""
    if _SPECIAL(text) is None:
        return text
    return _CONTROL.sub(lambda found: f"&#x{ord(found[0]):x};", escape(text))


def text_of(shape: Any, value: Any, *, in_header: bool) -> str:
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, datetime):
        form = shape.serialization.get("timestampFormat") or ("rfc822" if in_header else "iso8601")
        return http_date(value) if form == "rfc822" else iso_date(value)
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def http_date(moment: datetime) -> str:
    at = moment.astimezone(UTC)
    return (
        f"{_DAYS[at.weekday()]}, {at.day:02} {_MONTHS[at.month - 1]} {at.year:04}"
        f" {at.hour:02}:{at.minute:02}:{at.second:02} GMT"
    )


def iso_date(moment: datetime) -> str:
    at = moment.astimezone(UTC)
    return f"{_SECOND % at.timetuple()[:6]}.{at.microsecond // 1000:03}Z"


def iso_moment(ns: int) -> str:
    """The same of a time in nanoseconds, for pages of them."""
    second, rest = divmod(ns, 1_000_000_000)
    return f"{_to_second(second)}.{rest // 1_000_000:03}Z"


@functools.lru_cache(maxsize=1024)
def http_moment(second: int) -> str:
    """Return the date of a header; `second` counts from 1970."""
    return http_date(datetime.fromtimestamp(second, UTC))


@functools.lru_cache(maxsize=1024)
def _to_second(second: int) -> str:
    return _SECOND % time.gmtime(second)[:6]


_SECOND = "%04d-%02d-%02dT%02d:%02d:%02d"
