"""Reliable broadcast by folklore: a process that accepts sends to all, so all correct ones accept or none."""

from fencepost.model import *


class Folklore(Machine):
    """Some processes begin with the message; up to a few crash, perhaps before all have it."""

    processes, crashes = Size(3), Size(1, least=0)
    symmetric = ("processes",)

    at = Each(processes, Enum("waits", "has", "accepted", "crashed"))
    sent = Flags(processes)
    heard = Each(processes, Flags(processes))

    @initial
    def begin(s) -> None:
        s.at = anything("waits", "has")

    @action(p=processes, sender=processes)
    def hear(s, p: int, sender: int) -> None:
        s.require(s.at[p] != "crashed", s.sent.has(sender), ~s.heard[p].has(sender))
        s.heard[p] = s.heard[p].plus(sender)

    @action(p=processes)
    def accept(s, p: int) -> None:
        s.require((s.at[p] == "has") | (s.at[p] == "waits") & ~s.heard[p].is_empty())
        s.at[p], s.sent = "accepted", s.sent.plus(p)

    @action(p=processes)
    def crash(s, p: int) -> None:
        s.require(s.at[p] != "crashed", s.at.count("crashed") < s.crashes)
        s.at[p] = "crashed"

    @step
    def no_message_from_nothing(before, after: "Folklore") -> Truth:
        """If no process has the message, none accepts it."""
        return implies(before.at.all("waits"), ~after.at.any("accepted"))

    @may_end
    def over(s) -> Truth:
        everybody = s.at.all(lambda at: at.is_in("accepted", "crashed"))
        return everybody | s.sent.is_empty() & ~s.at.any("has")

    @leads_to(fair=("hear", "accept"))
    def relay(s) -> tuple[Truth, Truth]:
        """If one process accepts, all accept that do not crash."""
        return s.at.any("accepted"), s.at.all(lambda at: at.is_in("accepted", "crashed"))
