"""Faults as rates: the kinds of `sim.faults`, drawn instead of explored.

`reply_lost`, `request_lost`, `late`, `conflict` and `throttled` are shares of all requests to which they can
happen. After the first three the sender learns `unknown` at its time-out. Crashes are a rate in time, for
each actor; skew is how far clocks are off, drawn once for each actor.
"""

from dataclasses import dataclass
from typing import Any

from fencepost.impl.store import requests as ask


@dataclass(frozen=True, slots=True)
class Faults:
    """See the top of this module. Shares are between 0 and 1, times in nanoseconds."""

    reply_lost: float = 0.0
    request_lost: float = 0.0
    late: float = 0.0
    late_by_ns: int = 30_000_000_000
    """The mean of how long after the time-out a late write lands."""
    conflict: float = 0.0
    throttled: float = 0.0
    crashes_per_hour: float = 0.0
    restart_ns: int = 5_000_000_000
    skew_ns: int = 0
    """The standard deviation of the clocks."""

    @property
    def per_request(self) -> bool:
        """True if any fault can happen to a request."""
        return any((self.reply_lost, self.request_lost, self.late, self.conflict, self.throttled))


def fate(faults: Faults, request: Any, dice: Any) -> str:
    """The fault that is drawn for `request`; empty for none."""
    u = dice.random()
    for name, share in (
        ("reply_lost", faults.reply_lost),
        ("request_lost", faults.request_lost),
        ("throttled", faults.throttled),
    ):
        if u < share:
            return name
        u -= share
    if not request.reads and u < faults.late:
        return "late"
    u -= faults.late
    conditional = isinstance(getattr(request, "when", None), ask.Absent | ask.Matches)
    return "conflict" if conditional and 0 <= u < faults.conflict else ""
