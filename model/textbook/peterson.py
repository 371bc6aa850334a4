"""Peterson's lock: mutual exclusion of two processes with nothing but reads and writes.

Each process raises its flag, gives the turn away, and waits while the other's flag is up and the
turn is the other's. Every read and write of a shared variable is a step of its own; the wait reads
the two shared variables in two steps as well, because that is what the hardware does.
"""

from fencepost.model import *

PROCESSES = 2
"""The protocol's own limit: the turn names the one other process."""


class Peterson(Machine):
    """Two processes that take turns in a critical section."""

    safeguards = {
        "raise-flag": "a process raises its flag before it waits",
        "give-turn": "a process gives the turn to the other before it waits",
    }

    at = Each(PROCESSES, Enum("idle", "raised", "look-flag", "look-turn", "critical"))
    flag = Each(PROCESSES, Bool())
    turn = Int(0, 1)

    @action(p=PROCESSES)
    def raise_flag(s, p: int) -> None:
        s.require(s.at[p] == "idle")
        s.flag[p] = True
        s.at[p] = "raised"

    @without("raise-flag", replaces=raise_flag)
    def leave_flag_down(s, p: int) -> None:
        s.require(s.at[p] == "idle")
        s.at[p] = "raised"

    @action(p=PROCESSES)
    def give_turn(s, p: int) -> None:
        s.require(s.at[p] == "raised")
        s.turn = 1 - p
        s.at[p] = "look-flag"

    @without("give-turn", replaces=give_turn)
    def keep_turn(s, p: int) -> None:
        s.require(s.at[p] == "raised")
        s.at[p] = "look-flag"

    @action(p=PROCESSES)
    def see_flag_down(s, p: int) -> None:
        s.require((s.at[p] == "look-flag") & ~s.flag[1 - p])
        s.at[p] = "critical"

    @action(p=PROCESSES)
    def see_flag_up(s, p: int) -> None:
        s.require((s.at[p] == "look-flag") & s.flag[1 - p])
        s.at[p] = "look-turn"

    @action(p=PROCESSES)
    def see_own_turn(s, p: int) -> None:
        s.require((s.at[p] == "look-turn") & (s.turn == p))
        s.at[p] = "critical"

    @action(p=PROCESSES)
    def see_other_turn(s, p: int) -> None:
        s.require((s.at[p] == "look-turn") & (s.turn != p))
        s.at[p] = "look-flag"

    @action(p=PROCESSES)
    def leave(s, p: int) -> None:
        s.require(s.at[p] == "critical")
        s.flag[p] = False
        s.at[p] = "idle"

    @invariant
    def exclusion(s) -> Truth:
        """The two processes are never both in the critical section."""
        return ~((s.at[0] == "critical") & (s.at[1] == "critical"))

    @reachable
    def second_enters_after_waiting(s) -> Truth:
        """A process gets in while the other is already competing again."""
        return (s.at[0] == "critical") & (s.at[1] == "look-turn")

    @eventually(fair=("raise_flag", "give_turn", "see_flag_down", "see_flag_up", "see_own_turn", "leave"))
    def first_enters(s) -> Truth:
        """The first process gets into the critical section."""
        return s.at[0] == "critical"
