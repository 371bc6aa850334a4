"""A JSON stream stores what was sent, and nothing that is not JSON."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fencepost.impl.streams.json_text import DEPTH_MAX, NotJson, length_of, messages
from tests.depth import examples

SPACE = st.text(" \t\n\r", max_size=3)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
NUMBER = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
STRING = st.one_of(
    TEXT.map(lambda text: json.dumps(text, ensure_ascii=False)),
    TEXT.map(json.dumps),
    st.sampled_from([r'"\ud800"', r'"\/\b\f"', '"[,]"', r'"\\\"]"', '"\u2028"', r'"\u0000"']),
)


def _spaced(parts: list[Any]) -> Any:
    return st.tuples(*(st.tuples(SPACE, st.just(part), SPACE).map("".join) for part in parts))


def _array(items: Any) -> Any:
    return st.lists(items, max_size=4).flatmap(_spaced).map(lambda found: f"[{','.join(found) or ' '}]")


def _object(items: Any) -> Any:
    member = st.tuples(st.sampled_from(['"a"', '"b"', '""']), SPACE, items).map(
        lambda one: f"{one[0]}{one[1]}:{one[2]}"
    )
    return st.lists(member, max_size=4).flatmap(_spaced).map(lambda found: f"{{{','.join(found) or ' '}}}")


VALUE = st.recursive(
    st.one_of(NUMBER, STRING, st.sampled_from(["true", "false", "null"])),
    lambda items: st.one_of(_array(items), _object(items)),
    max_leaves=12,
)


class Seen(list[tuple[str, Any]]):
    """The pairs of an object: a dictionary loses duplicates."""


def strictly(text: str) -> Any:
    """What a strict decoder reads, with every digit and every pair; raises ValueError."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(
        text, parse_constant=refuse, parse_int=lambda digits: ("int", digits),
        parse_float=lambda digits: ("float", digits), object_pairs_hook=Seen,
    )  # fmt: skip


@settings(max_examples=examples(40))
@given(before=SPACE, values=st.lists(st.tuples(SPACE, VALUE, SPACE), max_size=5), after=SPACE)
def test_an_array_becomes_its_elements_as_they_were_sent(before: str, values: Any, after: str) -> None:
    """Long numbers would lose digits, and duplicate keys would vanish, if they were encoded anew."""
    body = f"{before}[{','.join(map(''.join, values)) or ' '}]{after}"
    stored = messages(body.encode())
    assert stored == "".join(f"{value}," for _, value, _ in values).encode()
    for count in range(len(values) + 1):
        whole = "".join(f"{value}," for _, value, _ in values[:count]).encode()
        assert length_of(stored, count) == len(whole)
    assert length_of(stored, len(values) + 1) is None


@settings(max_examples=examples(30))
@given(before=SPACE, value=VALUE.filter(lambda text: not text.startswith("[")), after=SPACE)
def test_another_value_is_one_message(before: str, value: str, after: str) -> None:
    assert messages(f"{before}{value}{after}".encode()) == f"{value},".encode()


BROKEN = st.one_of(
    st.tuples(
        VALUE,
        st.integers(0, 60),
        st.sampled_from([*'[]{},:"\\ \n0-+.eE1tn', "\ufeff", "\x00", "NaN", "Infinity"]),
    ).map(lambda one: one[0][: one[1]] + one[2] + one[0][one[1] :]),
    st.tuples(VALUE, st.integers(0, 60)).map(lambda one: one[0][: one[1]] + one[0][one[1] + 1 :]),
    st.tuples(VALUE, st.integers(0, 60)).map(lambda one: one[0][: one[1]]),
    st.text('[]{},:"\\ 01-.eEtrufalsn', max_size=12),
)


@settings(max_examples=examples(100))
@given(text=BROKEN)
@example(text="")
@example(text=" ")
@example(text="[1,]")
@example(text="[,1]")
@example(text="[1 2]")
@example(text="01")
@example(text="[1],[2]")
@example(text='["\n"]')
@example(text="[-Infinity]")
@example(text='{"a":NaN}')
def test_what_a_strict_decoder_refuses_is_refused_and_nothing_else(text: str) -> None:
    try:
        value = strictly(text)
    except ValueError:
        with pytest.raises(NotJson):
            messages(text.encode())
        return
    shown = strictly(f"[{messages(text.encode()).decode().removesuffix(',')}]")
    assert shown == (value if isinstance(value, list) and not isinstance(value, Seen) else [value])


def test_what_no_decoder_keeps_is_kept() -> None:
    """`1e999` became Infinity, which no reader could read, and a long number lost its last digits."""
    for value in (
        "1e999",
        "0.1000000000000000055511151231257827",
        "9" * 5000,
        '{"a":1,"a":2}',
        r'"\ud800"',
        "-0",
    ):
        assert messages(f"[{value}]".encode()) == f"{value},".encode()
    assert Decimal("1e999") == json.loads(messages(b"1e999")[:-1], parse_float=Decimal)


@pytest.mark.parametrize(
    "body", [b'"\xff"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf1", '"a"'.encode("utf-16"), b"\x001", b'"\xc0\x80"']
)
def test_bytes_that_are_not_utf_8_are_refused(body: bytes) -> None:
    with pytest.raises(NotJson):
        messages(body)


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}"), ('[{"b":', "}]")])
def test_depth_has_a_limit_that_is_the_same_everywhere(begin: str, end: str) -> None:
    """The decoder's own limit depends on the stack, so what one server accepted another could not read."""
    per = begin.count("[") + begin.count("{")
    for depth, accepted in ((DEPTH_MAX, True), (DEPTH_MAX + 1, False), (400_000, False)):
        body = f"{begin * (depth // per)}{'[' * (depth % per)}1{']' * (depth % per)}{end * (depth // per)}"
        if accepted:
            assert messages(body.encode())
        else:
            with pytest.raises(NotJson):
                messages(body.encode())
    deep_strings = json.dumps(["[" * 1000] * 3).encode()
    assert messages(deep_strings)
    with pytest.raises(NotJson):
        messages(b"[" * 1_000_000)


def test_a_number_may_have_any_length() -> None:
    """A limit of digits is no reason to refuse."""
    assert len(messages(b"[" + b"1" * 200_000 + b"]")) == 200_001
