"""Numbers of the requests that passed through a proxy."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from fencepost.sim.quantiles import percentiles

KEPT_MAX = 100_000
"""Times kept of each kind; beyond that the percentiles are of the first so many."""


@dataclass
class Statistics:
    """Counts and times, while it runs."""

    fates: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By kind: how often a status was passed on, or what was done to the request instead."""
    refused: Counter[str] = field(default_factory=Counter)
    """Connections that a limit ended: no place, too slow, or a reply left unread."""
    landed_late: Counter[str] = field(default_factory=Counter)
    """By kind and status: what was forwarded when its sender had long gone."""
    there_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By kind: from forwarding a request to the upstream's whole reply."""
    whole_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By kind: from the whole request to the whole reply, waiting included."""
    in_flight: int = 0
    in_flight_max: int = 0
    waiting: int = 0
    waiting_max: int = 0

    def enter(self) -> None:
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)

    def leave(self) -> None:
        self.in_flight -= 1

    def wait(self, change: int) -> None:
        self.waiting += change
        self.waiting_max = max(self.waiting_max, self.waiting)

    def took(self, times: defaultdict[str, list[float]], kind: str, seconds: float) -> None:
        if len(times[kind]) < KEPT_MAX:
            times[kind].append(seconds)

    def as_json(self) -> dict[str, Any]:
        """By kind, times in milliseconds."""
        kinds = {
            kind: {
                "requests": sum(fates.values()),
                "fates": dict(sorted(fates.items())),
                "upstream_ms": _quantiles(self.there_s[kind]),
                "whole_ms": _quantiles(self.whole_s[kind]),
            }
            for kind, fates in sorted(self.fates.items())
        }
        total = sum(sum(fates.values()) for fates in self.fates.values())
        return {
            "requests": total,
            "in_flight_max": self.in_flight_max,
            "waiting_max": self.waiting_max,
            "refused": dict(sorted(self.refused.items())),
            "landed_late": dict(sorted(self.landed_late.items())),
            "kinds": kinds,
        }


def _quantiles(seconds: list[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    return {name: round(value * 1e3, 3) for name, value in percentiles(seconds).items()}
