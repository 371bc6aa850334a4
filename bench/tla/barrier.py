"""A barrier that can be used again: two turnstiles, of which one is locked while the other is open."""

from fencepost.model import *


class Barrier(Machine):
    """A process passes only after all have come, and comes again only after all have passed."""

    processes = Size(3)
    symmetric = ("processes",)

    process = Process(p=processes)
    inside = Int(0, processes)
    first, second = Bool(), Bool(start=True)  # open

    @process.step
    def come(s, p: int) -> None:
        s.inside += 1
        s.second, s.first = s.second & (s.inside != s.processes), s.inside == s.processes

    @process.step
    def pass_first(s, p: int) -> None:
        s.require(s.first)

    @process.step
    def go(s, p: int) -> None:
        s.inside -= 1
        s.first, s.second = s.first & (s.inside != 0), s.inside == 0

    @process.step(then="come")
    def pass_second(s, p: int) -> None:
        s.require(s.second)

    @invariant
    def together_only(s) -> Truth:
        """No process comes again before all have passed."""
        return ~(s.process.any("come") & s.process.any("go") & s.first)

    @leads_to(fair=(process.fairly(),), p=processes)
    def passes(s, p: int) -> tuple[Truth, Truth]:
        """A process that comes passes."""
        return s.process[p] == "pass_first", s.process[p] == "go"
