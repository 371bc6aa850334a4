"""Consensus, voting and Paxos: each refines the one before, as Lamport explains Paxos.

Consensus is one step: a value is chosen. In `Voting`, acceptors vote in numbered ballots, and a value is
chosen when a majority votes for it in one ballot. `Paxos` finds out by messages what an acceptor of `Voting`
sees at once. No message is lost for good: it may be received never, or many times.
"""

from typing import Any

from fencepost.model import *


class Consensus(Machine):
    """One value is chosen, once."""

    values = Size(2, doc="values that may be chosen")

    chosen = Each(values, Bool())

    @action(v=values)
    def choose(s, v: int) -> None:
        s.require(~s.chosen.any(True))
        s.chosen[v] = True

    @invariant
    def agreement(s) -> Truth:
        """At most one value is chosen."""
        return s.chosen.count(True) <= 1

    @may_end
    def decided(s) -> Truth:
        return s.chosen.any(True)


class Voting(Machine):
    """Acceptors vote in ballots; each sees the votes of all others."""

    acceptors = Size(3, doc="acceptors, of which any majority decides")
    values = Size(2, doc="values that may be chosen")
    ballots = Size(2, doc="ballots")

    symmetric = ("acceptors", "values")

    votes = Each(acceptors, Set(Record(ballot=Int(0, ballots - 1), value=Id(values))))
    joined = Each(acceptors, Int(-1, ballots - 1))  # no votes in lower ballots any more

    @action(a=acceptors, b=ballots)
    def join(s, a: int, b: int) -> None:
        s.require(s.joined[a] < b)
        s.joined[a] = b

    @action(a=acceptors, b=ballots, v=values, q=Majorities(acceptors))
    def vote(s, a: int, b: int, v: int, q: frozenset[int]) -> None:
        s.require((s.joined[a] <= b) & ~s.votes[a].has(ballot=b))
        s.require(s.nobody_votes_for_another(b, v), s.shows_safe(b, v, q))
        s.votes[a].add(ballot=b, value=v)
        s.joined[a] = b

    def nobody_votes_for_another(s, b: int, v: int) -> Truth:
        others = [w for w in range(s.values) if w != v]
        return ~any_of(s.votes[a].has(ballot=b, value=w) for a in range(s.acceptors) for w in others)

    def shows_safe(s, b: int, v: int, q: frozenset[int]) -> Truth:
        """No value but v was or will be chosen in a ballot below b: this quorum shows it."""

        def nobody_voted(first: int) -> Truth:
            return ~any_of(s.votes[a].has(ballot=c) for a in q for c in range(first, b))

        last_vote = [
            any_of(s.votes[a].has(ballot=c, value=v) for a in q) & nobody_voted(c + 1) for c in range(b)
        ]
        return all_of(s.joined[a] >= b for a in q) & any_of([nobody_voted(0), *last_vote])

    @refines(Consensus, values=values)
    def consensus(s) -> dict[str, object]:
        """A value that a majority votes for in one ballot is chosen."""
        return {"chosen": [s.is_chosen(v) for v in range(s.values)]}

    def is_chosen(s, v: int) -> Truth:
        majority = s.acceptors // 2 + 1
        return any_of(
            count_of(s.votes[a].has(ballot=b, value=v) for a in range(s.acceptors)) >= majority
            for b in range(s.ballots)
        )

    @reachable
    def chooses(s) -> Truth:
        """A value can be chosen."""
        return any_of(s.is_chosen(v) for v in range(s.values))

    @may_end
    def over(s) -> Truth:
        return s.joined.all(s.ballots - 1)


class Paxos(Machine):
    """Leaders of ballots ask acceptors what they voted for, and propose what is safe."""

    acceptors = Size(3, doc="acceptors, of which any majority decides")
    values = Size(2, doc="values that may be chosen")
    ballots = Size(2, doc="ballots")

    safeguards = {
        "highest-vote": "a leader proposes the value of the highest vote that a majority reports",
    }

    joined = Each(acceptors, Int(-1, ballots - 1))  # the highest ballot that each promised or voted in
    voted = Each(acceptors, Record(ballot=Int(-1, ballots - 1), value=Id(values, nobody=True)))  # last
    # The messages: 1a, 1b, 2a, 2b. A vote is its own message.
    asked = Set(Int(0, ballots - 1))
    promised = Set(
        Record(
            acceptor=Id(acceptors),
            ballot=Int(0, ballots - 1),
            voted=Int(-1, ballots - 1),
            value=Id(values, nobody=True),
        )
    )
    proposed = Set(Record(ballot=Int(0, ballots - 1), value=Id(values)))
    votes = Each(acceptors, Set(Record(ballot=Int(0, ballots - 1), value=Id(values))))

    @action(b=ballots)
    def ask(s, b: int) -> None:
        s.asked.add(b)

    @action(a=acceptors, b=asked)
    def promise(s, a: int, b: int) -> None:
        s.require(s.joined[a] < b)
        s.joined[a] = b
        last = s.voted[a]
        s.promised.add(acceptor=a, ballot=b, voted=last.ballot, value=last.value)

    @action(b=ballots, v=values, q=Majorities(acceptors))
    def propose(s, b: int, v: int, q: frozenset[int]) -> None:
        s.require(~s.proposed.has(ballot=b))
        s.require(*(s.promised.has(acceptor=a, ballot=b) for a in q))
        s.require(s.is_safe(b, v, q))
        s.proposed.add(ballot=b, value=v)

    @action(a=acceptors, m=proposed)
    def vote(s, a: int, m: Any) -> None:
        s.require(s.joined[a] <= m.ballot)
        s.joined[a] = m.ballot
        s.voted[a] = m
        s.votes[a].add(m)

    def is_safe(s, b: int, v: int, q: frozenset[int]) -> Truth:
        return s.nobody_voted(b, q, 0) | s.is_highest(b, v, q)

    @without("highest-vote", replaces=is_safe)
    def any_value(s, b: int, v: int, q: frozenset[int]) -> bool:
        return True

    def nobody_voted(s, b: int, q: frozenset[int], first: int) -> Truth:
        """No member of q promised b with a vote in ballot `first` or a higher one."""
        reported = range(first, s.ballots)
        return ~any_of(s.promised.has(acceptor=a, ballot=b, voted=c) for a in q for c in reported)

    def is_highest(s, b: int, v: int, q: frozenset[int]) -> Truth:
        return any_of(
            s.promised.has(acceptor=a, ballot=b, voted=c, value=v) & s.nobody_voted(b, q, c + 1)
            for a in q
            for c in range(s.ballots)
        )

    @refines(Voting, acceptors=acceptors, values=values, ballots=ballots)
    def voting(s) -> dict[str, object]:
        """Each step of the acceptors is one of Voting."""
        return {}

    @may_end
    def over(s) -> Truth:
        return s.joined.all(s.ballots - 1)
