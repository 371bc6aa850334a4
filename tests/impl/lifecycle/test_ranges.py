"""A range of keys is divided between its first and its last key, with few listings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.impl.lifecycle.ranges import middle

KEYS = st.lists(
    st.text(st.sampled_from("ab/0~é\uffee\U0001f600"), min_size=1, max_size=6), max_size=12, unique=True
)


class Listed:
    def __init__(self, keys: list[str]) -> None:
        self.keys = sorted(keys)
        self.listings = 0

    def first_behind(self, text: str) -> str | None:
        self.listings += 1
        return next((key for key in self.keys if key > text), None)


@given(KEYS, st.data())
def test_both_halves_have_keys(keys: list[str], data: st.DataObject) -> None:
    listed = Listed(keys)
    after = data.draw(st.sampled_from(["", *listed.keys]))
    until = data.draw(st.sampled_from(["", *(key for key in listed.keys if key > after)]))
    inside = [key for key in listed.keys if key > after and (not until or key <= until)]
    half = middle(listed.first_behind, after, until)
    assert (half is None) == (len(inside) < 2)
    if half is not None:
        first = [key for key in inside if key <= half]
        assert 0 < len(first) < len(inside)
        assert after < half
        assert not until or half < until


@pytest.mark.parametrize("prefix", ["", "data/2026/11/20/", "x" * 1000])
def test_a_range_is_divided_in_half_with_few_listings(prefix: str) -> None:
    listed = Listed([f"{prefix}{number:06d}" for number in range(0, 900_000, 1000)])
    half = middle(listed.first_behind, "")
    assert half is not None
    first = sum(key <= half for key in listed.keys)
    assert 0.4 < first / len(listed.keys) < 0.6
    assert listed.listings < 30
