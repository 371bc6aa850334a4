"""Messages and bytes, and the headers of requests."""

import pytest

from fencepost.impl.streams import Refused
from fencepost.impl.streams.framing import inherited, integer, moment_ns, producer, to_shown, to_stored

JSON = "application/json; charset=utf-8"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"a": 1}', b'[{"a": 1}]'),
        (b"[1, [2, 3]]", b"[1,[2, 3]]"),
        (b"[[[1]]]", b"[[[1]]]"),
        ('"\u00e4,"'.encode(), '["\u00e4,"]'.encode()),
    ],
)
def test_an_array_is_flattened_by_one_level(body, shown) -> None:
    assert to_shown(to_stored(body, JSON), JSON) == shown


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff"])
def test_what_is_no_message_is_refused(body) -> None:
    with pytest.raises(Refused):
        to_stored(body, JSON)


def test_sub_offsets_count_messages_or_bytes() -> None:
    stored = to_stored('["\u00e4", 2, 3]'.encode(), JSON)
    assert to_shown(stored[: inherited(stored, JSON, 2)], JSON) == '["\u00e4",2]'.encode()
    assert inherited(b"abc", "text/plain", 2) == 2
    for body, kind in ((stored, JSON), (b"abc", "text/plain")):
        with pytest.raises(Refused):
            inherited(body, kind, 4)


@pytest.mark.parametrize("text", ["+1", "01", "1.0", "1e3", "-1", "", str(2**53)])
def test_numbers_are_plain(text) -> None:
    with pytest.raises(Refused):
        integer("Stream-TTL", text)


def test_a_producer_has_all_of_its_headers_or_none() -> None:
    assert producer([None, None, None]) is None
    assert producer(["p", "1", "0"]) == ("p", 1, 0)
    for some in (["p", None, "0"], ["", "1", "0"]):
        with pytest.raises(Refused):
            producer(some)


def test_a_time_has_a_zone() -> None:
    assert moment_ns("1970-01-01T00:00:01Z") == 10**9
    with pytest.raises(Refused):
        moment_ns("1970-01-01T00:00:01")
