"""Values with units: what is accepted, and the error for everything else."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.sim.scenarios import units
from fencepost.sim.scenarios.source import BadValue


@pytest.mark.parametrize(
    ("parse", "value", "expected"),
    [
        (units.duration, "20 ms", 20_000_000),
        (units.duration, "20ms", 20_000_000),
        (units.duration, "1.5 s", 1_500_000_000),
        (units.duration, "2 min", 120_000_000_000),
        (units.duration, "0 ms", 0),
        (units.size, "5 MiB", 5 * 2**20),
        (units.size, "5 MB", 5_000_000),
        (units.rate, "100/s", 100.0),
        (units.rate, "30 / min", 0.5),
        (units.bandwidth, "100 MiB/s", 100.0 * 2**20),
        (units.share, "1 %", 0.01),
        (units.share, "100%", 1.0),
        (units.price, "$0.005/1000", 0.000005),
        (units.whole, 0, 0),
        (units.positive, 7, 7),
        (units.number, 1.5, 1.5),
        (units.flag, False, False),
        (units.pace, "never", (None, None)),
        (units.pace, 50, (50, None)),
        (units.pace, "10 s", (None, 10_000_000_000)),
        (units.unlimited_or(units.positive), "unlimited", None),
        (units.unlimited_or(units.positive), 8, 8),
    ],
)
def test_what_is_taken(parse: Callable[[Any], Any], value: Any, expected: Any) -> None:
    assert parse(value) == expected


@pytest.mark.parametrize(
    ("parse", "value", "says"),
    [
        (units.duration, 20, '20 has no unit; a duration is written like "20 ms"'),
        (units.duration, "20", '"20" has no unit'),
        (units.duration, "20 MiB", "its unit 'MiB' is none of ns, us, ms, s, min, h, d; that is a size"),
        (units.duration, "20 MS", "perhaps 'ms'"),
        (units.duration, "-1 ms", "is below zero"),
        (units.duration, "soon", '"soon" is no duration; write it like "20 ms"'),
        (units.duration, True, "true is no duration"),
        (units.duration, [1], "[1] is no duration"),
        (units.duration, "1e99 s", "longer than thirty years"),
        (units.duration, "1e999 s", "too large"),
        (units.positive_duration, "0 s", "must be longer than nothing"),
        (units.size, "5 ms", "that is a duration"),
        (units.rate, "100", 'no rate; write it like "100/s"'),
        (units.rate, "100/fortnight", "no rate"),
        (units.rate, "0/s", "must be above zero"),
        (units.rate, "-5/s", "must be above zero"),
        (units.bandwidth, "100 MiB", "no bandwidth"),
        (units.bandwidth, "0 MiB/s", "must be above zero"),
        (units.share, "1", 'write it in percent, like "1 %"'),
        (units.share, 0.01, "write it in percent"),
        (units.share, "101 %", "is impossible: a share is between 0 % and 100 %"),
        (units.share, "-1 %", "is impossible"),
        (units.price, "0.005", "no price"),
        (units.price, "$1/0", "no price"),
        (units.price, 5, "no price"),
        (units.whole, 1.5, "1.5 is no whole number"),
        (units.whole, "8", '"8" is no whole number; write it without quotes'),
        (units.whole, True, "true is no whole number"),
        (units.whole, -1, "-1 is impossible: at least 0"),
        (units.positive, 0, "0 is impossible: at least 1"),
        (units.positive, 10**10, "at most"),
        (units.number, float("nan"), "is no number"),
        (units.text, "  ", "is no text"),
        (units.flag, "yes", "neither true nor false"),
        (units.pace, 0, "impossible"),
        (units.one_of("a", "b"), "c", '"c" is none of a, b'),
        (units.unlimited_or(units.positive), "unlimitd", "no whole number"),
    ],
)
def test_what_is_refused(parse: Callable[[Any], Any], value: Any, says: str) -> None:
    with pytest.raises(BadValue, match=re.escape(says)):
        parse(value)
