"""What operations cost in the runs explored: how often what, the most of it, and what was promised.

The most is exact where everything was explored, see `sim.world.costs`: there also those runs are looked at
that were given up at a known state, for what ended before. The median is one of the runs to their end.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fencepost.sim.world.costs import AtMost, Spent, ended_since, spent

UNITS = ("requests", "hops")

Row = dict[str, Any]


@dataclass
class Costs:
    """Operations that came to their end."""

    ended: Counter[Spent] = field(default_factory=Counter)
    """How many of them cost the same in runs to their end; 0 for what only other runs showed."""
    bounds: set[AtMost] = field(default_factory=set)

    def look(self, world: Any) -> None:
        """Take up a run that came to its end."""
        self.ended.update(spent(world))
        if world.bounds:
            self.bounds.update(world.bounds)

    def look_since(self, world: Any, place: int) -> None:
        """Take up a run that was given up; what ended before `place` other runs have shown."""
        if ended_since(world, place):
            for one in spent(world):
                self.ended.setdefault(one, 0)

    def add(self, other: "Costs") -> None:
        self.ended.update(other.ended)
        self.bounds |= other.bounds

    def findings(self) -> list[str]:
        """Bounds that held nothing."""
        ended = {one.name for one in self.ended}
        return [
            f"{bound.property}: no process and no operation of this name ever came to its end"
            for bound in sorted(self.bounds, key=str)
            if bound.name not in ended
        ]

    def table(self) -> dict[str, Row]:
        """By operation: the most of all, the bounds, and both by the number of faults."""
        return {name: self._row(name) for name in sorted({one.name for one in self.ended})}

    def _row(self, name: str) -> Row:
        mine = {one: count for one, count in self.ended.items() if one.name == name}
        row = {unit: max(getattr(one, unit) for one in mine) for unit in (*UNITS, "bytes")}
        return {**row, **self._promised(name, None), "faults": list(self._by_faults(name, mine))}

    def _by_faults(self, name: str, mine: dict[Spent, int]) -> Iterator[Row]:
        for faults in sorted({one.faults for one in mine}):
            row: Row = {"faults": faults, "ended": sum(n for one, n in mine.items() if one.faults == faults)}
            for unit in UNITS:
                row[unit] = max(getattr(one, unit) for one in mine if one.faults <= faults)
                row[f"{unit}_median"] = _median(
                    Counter({one: n for one, n in mine.items() if one.faults == faults}), unit
                )
            yield {**row, **self._promised(name, faults)}

    def _promised(self, name: str, faults: int | None) -> Row:
        """The lowest bounds for runs with so many faults; None: with any number."""
        found: Row = {}
        for unit in UNITS:
            stated = [
                most
                for bound in self.bounds
                if bound.name == name
                and (most := getattr(bound, unit)) is not None
                and (bound.faults is None or (faults is not None and faults <= bound.faults))
            ]
            if stated:
                found[f"{unit}_max"] = min(stated)
        return found

    def packed(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "ended": [[*one, count] for one, count in self.ended.items()],
            "bounds": [list(bound) for bound in self.bounds],
        }

    @classmethod
    def unpacked(cls, data: dict[str, Any]) -> "Costs":
        ended = Counter({Spent(*one): count for *one, count in data["ended"]})
        return cls(ended, {AtMost(*bound) for bound in data["bounds"]})


def _median(ended: Counter[Spent], unit: str) -> int:
    """The lower one, where two are in the middle."""
    counts = ended if ended.total() else Counter(ended.keys())
    left = (counts.total() + 1) // 2
    for one in sorted(counts, key=lambda one: getattr(one, unit)):
        left -= counts[one]
        if left <= 0:
            return int(getattr(one, unit))
    raise AssertionError("something ended")
