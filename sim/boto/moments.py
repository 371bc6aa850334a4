"""The times of modification that the SDK hands out: datetimes that report when somebody looks at them.

The SDK parses the time of every object it lists or reads, so parsing is no look. Comparing is one, and so is
everything that turns the time into a number, a text or another time. See `sim.world.stamps`.
"""

import datetime
import functools
from collections.abc import Callable
from typing import Any

from botocore.utils import parse_timestamp

from fencepost.sim.world.stamps import look


def _looking(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def looks(self: Any, *args: Any, **kwargs: Any) -> Any:
        look()
        return method(self, *args, **kwargs)

    return looks


SECOND_NS = 1_000_000_000

_METHODS = (
    "__lt__ __le__ __gt__ __ge__ __eq__ __ne__ __hash__ __add__ __radd__ __sub__ __rsub__ __str__ __repr__ "
    "__format__ timestamp isoformat strftime ctime timetuple utctimetuple toordinal date time timetz replace "
    "astimezone weekday isoweekday isocalendar"
).split()
_FIELDS = "year month day hour minute second microsecond".split()


class Moment(datetime.datetime):
    """A datetime that a reply carried."""


for _name in _METHODS:
    setattr(Moment, _name, _looking(getattr(datetime.datetime, _name)))
for _name in _FIELDS:
    setattr(Moment, _name, property(_looking(getattr(datetime.datetime, _name).__get__)))
Moment.__name__ = Moment.__qualname__ = "datetime"
Moment.__module__ = "datetime"


def to_second(ns: int) -> int:
    """Return a time to the second, which is S3's resolution."""
    return ns // SECOND_NS * SECOND_NS


@functools.lru_cache(4096)
def parse(value: Any) -> datetime.datetime:
    """Parse a time of a response of the SDK."""
    found = parse_timestamp(value)
    return Moment(
        found.year,
        found.month,
        found.day,
        found.hour,
        found.minute,
        found.second,
        found.microsecond,
        found.tzinfo,
    )
