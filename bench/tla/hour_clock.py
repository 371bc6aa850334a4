"""A clock that shows the hours, from any of them on."""

from fencepost.model import *


class HourClock(Machine):
    """A clock that shows the hours, from any of them on."""

    hour = Int(1, 12)

    @initial(h=range(1, 13))
    def begin(s, h: int) -> None:
        s.hour = h

    @action
    def tick(s) -> None:
        s.hour = s.hour % 12 + 1

    @invariant
    def in_range(s) -> Truth:
        """From 1 to 12."""
        return (s.hour >= 1) & (s.hour <= 12)
