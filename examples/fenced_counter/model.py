"""The fenced counter as a machine: one object, writers that claim an epoch and then add one."""

from typing import ClassVar

from fencepost.model import *


class FencedCounter(Machine):
    """See the top of this module."""

    writers = Size(2, most=4)
    claims = Size(3, most=8)

    safeguards: ClassVar = {
        "compare-and-swap": "the object is written only over what was read",
        "epoch-check": "a writer that reads a later epoch than its own adds nothing",
    }

    epoch = Int(0, claims)
    count = Int(0, claims)
    version = Int(0, 2 * claims)  # how often the object was written; its etag
    at = Each(writers, Enum("begins", "claiming", "claimed", "adding", "added", "fenced"))
    mine = Each(writers, Int(0, claims))
    seen_epoch = Each(writers, Int(0, claims))
    seen_count = Each(writers, Int(0, claims))
    seen_version = Each(writers, Int(0, 2 * claims))

    def may_write(s, w: int) -> Truth:
        """The object is as the writer has read it."""
        return s.version == s.seen_version[w]

    @without("compare-and-swap", replaces=may_write)
    def writes_over_anything(s, w: int) -> bool:
        return True

    def may_add(s, w: int) -> Truth:
        return s.epoch == s.mine[w]

    @without("epoch-check", replaces=may_add)
    def adds_in_any_epoch(s, w: int) -> bool:
        return True

    @action(w=writers)
    def read_to_claim(s, w: int) -> None:
        s.require(s.at[w] == "begins", s.epoch < s.claims)
        s.at[w] = "claiming"
        s.read(w)

    @action(w=writers)
    def claim(s, w: int) -> None:
        s.require(s.at[w] == "claiming", s.seen_epoch[w] < s.claims, s.may_write(w))
        s.write(w, s.seen_epoch[w] + 1, s.seen_count[w])
        s.mine[w] = s.seen_epoch[w] + 1
        s.at[w] = "claimed"

    @action(w=writers)
    def read_to_add(s, w: int) -> None:
        s.require(s.at[w] == "claimed", s.may_add(w))
        s.at[w] = "adding"
        s.read(w)

    @action(w=writers)
    def add(s, w: int) -> None:
        s.require(s.at[w] == "adding", s.seen_count[w] < s.claims, s.may_write(w))
        s.write(w, s.seen_epoch[w], s.seen_count[w] + 1)
        s.at[w] = "added"

    @action(w=writers)
    def find_a_later_epoch(s, w: int) -> None:
        s.require(s.at[w] == "claimed", not s.may_add(w))
        s.at[w] = "fenced"

    @action(w=writers)
    def lose_claim(s, w: int) -> None:
        s.require(s.at[w] == "claiming", not s.may_write(w))
        s.at[w] = "begins"

    @action(w=writers)
    def lose_add(s, w: int) -> None:
        s.require(s.at[w] == "adding", not s.may_write(w))
        s.at[w] = "claimed"

    @action(w=writers)
    def restart(s, w: int) -> None:
        """After a crash or a lost reply: the writer knows nothing of what it did."""
        s.require(s.at[w] != "begins")
        s.at[w] = "begins"

    def read(s, w: int) -> None:
        s.seen_epoch[w] = s.epoch
        s.seen_count[w] = s.count
        s.seen_version[w] = s.version

    def write(s, w: int, epoch: object, count: object) -> None:
        s.require(s.version < 2 * s.claims)
        s.epoch = epoch
        s.count = count
        s.version = s.version + 1

    @invariant
    def no_lost_increment(s) -> Truth:
        """Every writer that has added is counted."""
        return s.at.count("added") <= s.count

    @step
    def fenced(before, after: "FencedCounter") -> Truth:
        """No writer adds once a later epoch is claimed."""
        return all_of(
            implies((before.at[w] == "adding") & (after.at[w] == "added"), before.epoch <= before.mine[w])
            for w in range(before.writers)
        )

    @may_end
    def done(s) -> Truth:
        """Each writer has added or is fenced, or the claims that the bound allows are used up."""
        return (s.at.count("added") + s.at.count("fenced") == s.writers) | (s.epoch == s.claims)
