"""A key-value store: a transaction reads a snapshot, and commits if no other one wrote the same keys."""

from fencepost.model import *


class Snapshots(Machine):
    """Snapshot isolation; what a transaction writes is seen when it commits."""

    keys, values, transactions = Size(2), Size(2), Size(2)
    symmetric = ("transactions",)
    safeguards = {"first-committer-wins": "a transaction commits only if nobody has written what it wrote"}

    store = Each(keys, Id(values, nobody=True))
    open = Flags(transactions)
    seen = Each(transactions, Each(keys, Id(values, nobody=True)))
    written, missed = Each(transactions, Flags(keys)), Each(transactions, Flags(keys))

    @action(t=transactions)
    def begin(s, t: int) -> None:
        s.require(~s.open.has(t))
        s.open, s.seen[t] = s.open.plus(t), s.store

    @action(t=transactions, k=keys, v=values)
    def write(s, t: int, k: int, v: int) -> None:
        s.require(s.open.has(t), s.seen[t][k] != v)
        s.seen[t][k], s.written[t] = v, s.written[t].plus(k)

    @action(t=transactions, k=keys)
    def remove(s, t: int, k: int) -> None:
        s.require(s.open.has(t), s.seen[t][k] != -1)
        s.seen[t][k], s.written[t] = -1, s.written[t].plus(k)

    def is_first(s, t: int) -> Truth:
        return (s.written[t] & s.missed[t]).is_empty()

    @without("first-committer-wins", replaces=is_first)
    def last_wins(s, t: int) -> bool:
        return True

    @action(t=transactions)
    def commit(s, t: int) -> None:
        s.require(s.open.has(t), s.is_first(t))
        for other in range(s.transactions):
            now = s.missed[other] | s.written[t]
            s.missed[other] = pick(s.open.has(other) & (other != t), now, s.missed[other])
        s.store = [pick(s.written[t].has(k), s.seen[t][k], s.store[k]) for k in range(s.keys)]
        s.forget(t)

    @action(t=transactions)
    def roll_back(s, t: int) -> None:
        s.require(s.open.has(t))
        s.forget(t)

    def forget(s, t: int) -> None:
        s.open, s.seen[t] = s.open.minus(t), (-1,) * s.keys
        s.written[t], s.missed[t] = set(), set()

    @invariant(t=transactions, k=keys)
    def snapshot(s, t: int, k: int) -> Truth:
        """A transaction reads a key that was not written since it began as the store has it."""
        unwritten = s.open.has(t) & ~s.written[t].has(k) & ~s.missed[t].has(k)
        return implies(unwritten, s.seen[t][k] == s.store[k])

    @step(t=transactions, k=keys)
    def no_lost_update(before, after: "Snapshots", t: int, k: int) -> Truth:
        """A commit overwrites nothing that another one wrote since it began."""
        commits = before.open.has(t) & ~after.open.has(t) & before.missed[t].has(k)
        return implies(commits, before.store[k] == after.store[k])
