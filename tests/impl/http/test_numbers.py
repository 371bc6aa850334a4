"""A number in a request is decimal ASCII digits, and within its bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.impl.http.numbers import whole_number

NONE = (
    *("", " ", " 1", "1 ", "+1", "-1", "1_0", "0x1", "1e3", "1.0", "\u0661", "\uff11", "\u00b2", "\u4e09"),
    *("1\u0662", "\U0001d7d9", "9" * 5000, "0" * 5000, "1\n", "\x001"),
)


@pytest.mark.parametrize("text", NONE)
def test_anything_else_is_none(text: str) -> None:
    assert whole_number(text, 100) is None
    assert whole_number(text.encode(), 100) is None


@given(st.integers(0, 200), st.integers(0, 100), st.integers(0, 200))
def test_a_number_is_read_within_its_bounds(number: int, least: int, most: int) -> None:
    expected = number if least <= number <= most else None
    assert (
        whole_number(str(number), most, least) == whole_number(str(number).encode(), most, least) == expected
    )
