"""Divide a range of keys of which only the beginnings of listings are known.

A store lists keys in the order of their bytes from any text on. It shows neither their number nor the last
one. So the first and the last key are found with a few listings of one key each, and the range is divided
where they first differ, half-way between the two characters. If most keys are in one half, that half can be
divided again.
"""

from collections.abc import Callable

TOP = "\U0010ffff"
"""Behind every key that begins with the text before it."""
ASCII_MAX, CODE_MAX = 0x7F, 0x10FFFF
SURROGATES = range(0xD800, 0xE000)
"""No text has these."""


def middle(first_behind: Callable[[str], str | None], after: str, until: str = "") -> str | None:
    """Return a text between the first and the last key of a range; None if there is none.

    The range begins behind `after` and ends with `until`, if that is not empty. `first_behind` returns the
    first key behind a text.
    """
    first = first_behind(after)
    if first is None or (until and first > until):
        return None

    def is_last_behind(text: str) -> bool:
        found = first_behind(text)
        return found is not None and not (until and found > until)

    # The shortest beginning of the first key that the last one does not have.
    length = _smallest(
        1, len(first) + 1, lambda size: size > len(first) or is_last_behind(first[:size] + TOP)
    )
    common = first[: length - 1]
    low = ord(first[length - 1]) if length <= len(first) else 0
    if length > len(first) and not is_last_behind(first):
        return None
    most = CODE_MAX if is_last_behind(common + chr(ASCII_MAX)) else ASCII_MAX
    high = _smallest(low, most, lambda code: not is_last_behind(common + _character(code) + TOP))
    found = common + _character((low + high - 1) // 2) + TOP
    return None if until and found >= until else found


def _smallest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest number of the range for which it holds, as it does for all behind that."""
    while low < high:
        half = (low + high) // 2
        if holds(half):
            high = half
        else:
            low = half + 1
    return low


def _character(code: int) -> str:
    return chr(SURROGATES.stop if code in SURROGATES else code)
