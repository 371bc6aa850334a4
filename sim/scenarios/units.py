"""Values with their units, as people write them: "20 ms", "5 MiB", "100/s", "1 %", "$0.005/1000".

Every parser takes what TOML holds and answers a number in one fixed unit, or raises `BadValue` with a
clause that says what was found, what was wanted and how that is written.
"""

import math
import re
from collections.abc import Callable
from typing import Any

from fencepost.sim.scenarios.source import BadValue

DURATIONS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
PERIODS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
WHOLE_MAX = 10**9
"""Larger counts cannot be simulated, and are likely a slip."""
UNLIMITED = "unlimited"

_QUANTITY = re.compile(r"([+-]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*(.*)")


def _split(value: Any, what: str, example: str) -> tuple[float, str]:
    """A number and its unit."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadValue(f"{shown(value)} is no {what}; write it like {example}")
    found = _QUANTITY.fullmatch(str(value).strip())
    if found is None:
        raise BadValue(f"{shown(value)} is no {what}; write it like {example}")
    number = float(found[1].replace("_", ""))
    if not math.isfinite(number):
        raise BadValue(f"{shown(value)} is too large; write it like {example}")
    return number, found[2].strip()


def _with_unit(value: Any, what: str, units: dict[str, int], example: str) -> float:
    number, unit = _split(value, what, example)
    if not unit:
        raise BadValue(f"{shown(value)} has no unit; a {what} is written like {example} ({', '.join(units)})")
    if unit not in units:
        raise BadValue(
            f"{shown(value)} is no {what}: its unit {unit!r} is none of {', '.join(units)}; {_hint(unit)}"
            f"write it like {example}"
        )
    if number < 0:
        raise BadValue(f"{shown(value)} is below zero")
    return number * units[unit]


def _hint(unit: str) -> str:
    for what, units in (("duration", DURATIONS), ("size", SIZES)):
        if unit in units:
            return f"that is a {what}; "
        if unit.lower() in {known.lower() for known in units}:
            right = next(known for known in units if known.lower() == unit.lower())
            return f"perhaps {right!r}; "
    return ""


def duration(value: Any) -> int:
    """Nanoseconds."""
    found = _with_unit(value, "duration", DURATIONS, '"20 ms"')
    if found > 10**18:
        raise BadValue(f"{shown(value)} is longer than thirty years")
    return round(found)


def positive_duration(value: Any) -> int:
    found = duration(value)
    if found <= 0:
        raise BadValue(f"{shown(value)} must be longer than nothing")
    return found


def size(value: Any) -> int:
    """Bytes."""
    return round(_with_unit(value, "size", SIZES, '"5 MiB"'))


def rate(value: Any) -> float:
    """A second."""
    number, rest = _split(value, "rate", '"100/s"')
    period = rest.removeprefix("/").strip()
    if not rest.startswith("/") or period not in PERIODS:
        raise BadValue(f'{shown(value)} is no rate; write it like "100/s" (/s, /min, /h, /d)')
    return _above_zero(value, number) / PERIODS[period]


def bandwidth(value: Any) -> float:
    """Bytes a second."""
    number, rest = _split(value, "bandwidth", '"100 MiB/s"')
    unit, slash, period = (part.strip() for part in rest.partition("/"))
    if not slash or unit not in SIZES or period != "s":
        raise BadValue(f'{shown(value)} is no bandwidth; write it like "100 MiB/s"')
    return _above_zero(value, number) * SIZES[unit]


def _above_zero(value: Any, number: float) -> float:
    if number <= 0:
        raise BadValue(f"{shown(value)} must be above zero")
    return number


def share(value: Any) -> float:
    """Between 0 and 1."""
    number, unit = _split(value, "share", '"1 %"')
    if unit != "%":
        raise BadValue(f'{shown(value)} is no share; write it in percent, like "1 %"')
    if not 0 <= number <= 100:
        raise BadValue(f"{shown(value)} is impossible: a share is between 0 % and 100 %")
    return number / 100


def price(value: Any) -> float:
    """Dollars a request."""
    text = value.strip() if isinstance(value, str) else value
    found = (
        re.fullmatch(r"\$\s*([0-9]+(?:\.[0-9]+)?)\s*/\s*([0-9][0-9_]*)", text)
        if isinstance(text, str)
        else None
    )
    if found is None or not int(found[2].replace("_", "")):
        raise BadValue(f'{shown(value)} is no price; write dollars for so many requests, like "$0.005/1000"')
    return float(found[1]) / int(found[2].replace("_", ""))


def whole(value: Any, *, least: int = 0, most: int = WHOLE_MAX) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValue(
            f"{shown(value)} is no whole number; write it without quotes and unit, like {max(least, 8)}"
        )
    if not least <= value <= most:
        raise BadValue(f"{value} is impossible: at least {least}, at most {most}")
    return value


def positive(value: Any) -> int:
    return whole(value, least=1)


def up_to(most: int) -> Callable[[Any], int]:
    """At least one, and no more than can be simulated."""
    return lambda value: whole(value, least=1, most=most)


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadValue(f"{shown(value)} is no number")
    return float(value)


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadValue(f"{shown(value)} is neither true nor false")
    return value


def pace(value: Any) -> tuple[int | None, int | None]:
    """Every so many operations, every so often, or never."""
    if value == "never":
        return None, None
    if isinstance(value, str):
        return None, positive_duration(value)
    return positive(value), None


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadValue(f"{shown(value)} is no text")
    return value


def unlimited_or(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Parse a value with `parse`, or the word for no limit, which is None."""
    return lambda value: None if value == UNLIMITED else parse(value)


def one_of(*words: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in words:
            raise BadValue(f"{shown(value)} is none of {', '.join(words)}")
        return str(value)

    return parse


def shown(value: Any) -> str:
    """A value as the file has it, cut short."""
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = text.lower() if isinstance(value, bool) else text
    return text if len(text) <= 60 else text[:57] + "..."
