"""Lengths of pauses and errors of clocks, learnt from comparisons with the clock.

Theory. A pause matters when it changes a comparison: `time.time() > expires`, `now - modified > older_than`.
Which length changes it is known at the moment of the comparison, see `times`: it is the *deadline*. For every
deadline a pause that ends just before it and one that ends just after it are tried. A skewed clock matters
for the same reason. For every deadline a clock that is ahead, and one that is behind, by a little more is
tried.

Deadlines are kept by comparison in the code, the longest of each: a loop compares again and again in one
place, and comes nearer to its deadline in every round. A search that learns a new length starts over.

A pause moves the clock, and ends sleeps. Sleeps end at any step without one (see `scheduler`). So as long as
no process has read the clock, or got a time in another way, pauses change nothing, and runs have none. The
first time that a process gets to know the time, the search starts over with them.
"""

from typing import Any

from fencepost.sim.faults import pause_named, skews_named

LENGTHS_MAX = 8
"""Different deadlines that are tried."""
GROWTHS_MAX = 3
"""Number of times that the deadline of one line may grow."""
MARGIN_NS = 1_000_000
"""Time between a deadline and the end of a pause before or after it, in nanoseconds."""
ALIKE = 0.01
"""Deadlines that differ by a smaller part are one: time passed between two comparisons with it."""
_LONGEST_NS = 100 * 365 * 86_400 * 10**9
_FARTHEST_NS = 400 * 86_400 * 10**9
"""Errors of a clock beyond this, in nanoseconds, come from comparisons with no time, such as with 0."""

Site = tuple[Any, ...]
"""File, line, instruction, line of the caller and a number."""


class Lengths:
    """The longest distance of every line that compares."""

    def __init__(self, longest_ns: int) -> None:
        self._longest_ns = longest_ns
        self._found: dict[Site, tuple[int, int]] = {}
        """By line of code: how far away the deadline was, and how often that grew."""
        self.left_out = 0
        """Number of lines whose deadlines are not tried."""

    def learn(self, site: Site, distance_ns: int) -> None:
        """Keep the distance of a line, if it is longer than before."""
        if not MARGIN_NS < distance_ns < self._longest_ns:
            return
        before, grown = self._found.get(site, (0, -1))
        if distance_ns <= before * (1 + ALIKE) or grown >= GROWTHS_MAX:
            return
        if not before and not self._is_known(distance_ns) and len(self.groups()) >= LENGTHS_MAX:
            self.left_out += 1
            return
        self._found[site] = (distance_ns, grown + 1)

    def _is_known(self, distance_ns: int) -> bool:
        return any(first <= distance_ns <= last * (1 + ALIKE) for first, last in self.groups())

    def groups(self) -> list[tuple[int, int]]:
        """Return the distances: the shortest and the longest of those that are alike."""
        found: list[tuple[int, int]] = []
        for distance in sorted({distance for distance, _ in self._found.values()}):
            if found and distance <= found[-1][1] * (1 + ALIKE):
                found[-1] = (found[-1][0], distance)
            else:
                found.append((distance, distance))
        return found

    def packed(self) -> list[Any]:
        """Return them as plain data."""
        return [[*site, *found] for site, found in self._found.items()]

    def add(self, data: list[Any]) -> None:
        """Take up distances that another process learnt."""
        for *site, distance, grown in data:
            if distance > self._found.get(tuple(site), (0, 0))[0]:
                self._found[tuple(site)] = (distance, grown)


class Deadlines:
    """The deadlines that a search has met, and the pauses and errors of clocks that follow from them."""

    def __init__(self) -> None:
        self._pauses = Lengths(_LONGEST_NS)
        self._skews = Lengths(_FARTHEST_NS)
        self.tried: tuple[str, ...] = ()
        """The alternatives that pauses have in runs that begin now, besides the usual one."""
        self.skews: tuple[str, ...] = ()
        """The alternatives that a skewed clock has, besides the usual ones."""
        self._is_shown = False
        self.is_shown = False
        """True if processes may know the time, so that runs that begin now have pauses."""

    def show(self) -> None:
        """Take up that a process got to know the time."""
        self._is_shown = True

    @property
    def left_out(self) -> int:
        """Number of lines whose deadlines are not tried."""
        return self._pauses.left_out + self._skews.left_out

    def learn(self, site: Site, distance_ns: int) -> None:
        """Take up that a comparison at this line turns after `distance_ns`."""
        self._pauses.learn(site, distance_ns)

    def learn_skew(self, site: Site, distance_ns: int) -> None:
        """Take up that a comparison at this line turns with a clock that is wrong by `distance_ns`."""
        self._skews.learn(site, distance_ns)

    def adopt(self) -> bool:
        """Try the deadlines learnt so far from the next run on. Returns True if there are new ones."""
        before = self.tried, self.skews, self.is_shown
        self.is_shown = self._is_shown
        pauses = ((first - MARGIN_NS, last + MARGIN_NS) for first, last in self._pauses.groups())
        self.tried = tuple(pause_named(ns) for pair in pauses for ns in pair)
        self.skews = tuple(name for _, last in self._skews.groups() for name in skews_named(last + MARGIN_NS))
        return (self.tried, self.skews, self.is_shown) != before

    def packed(self) -> list[Any]:
        """Return them as plain data."""
        return [self._pauses.packed(), self._skews.packed(), self._is_shown]

    def add(self, data: list[Any]) -> None:
        """Take up what another process learnt."""
        pauses, skews, is_shown = data
        self._is_shown = self._is_shown or is_shown
        self._pauses.add(pauses)
        self._skews.add(skews)
