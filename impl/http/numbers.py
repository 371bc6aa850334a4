"""Whole numbers in requests, for every server: decimal ASCII digits and nothing else.

`int()` also reads digits of other scripts, signs, spaces and underscores, and raises on more than 4,300
digits; `str.isdigit` and `\\d` are true of digits that other systems do not read.

    whole_number("17", 100)      17
    whole_number("1_7", 100)     None
    whole_number("101", 100)     None
"""


def whole_number(text: str | bytes, most: int, least: int = 0) -> int | None:
    """The number in `text` if it is from `least` to `most`; None if it is not, or is no number."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(most)):
        return None
    number = int(text)
    return number if least <= number <= most else None
