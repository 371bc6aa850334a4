"""Raft's leader election: terms, votes, and messages that are lost, repeated and reordered."""

from typing import Any

from fencepost.model import *

TYPES = ("ask", "vote", "refuse")


class RaftElection(Machine):
    """Servers that elect at most one leader in each term."""

    servers = Size(3, doc="servers, of which any majority elects")
    terms = Size(1, doc="terms after the first one", most=4)
    room = Size(1, doc="messages on their way", most=6)
    symmetric = ("servers",)
    safeguards = {"one-vote": "a server votes once in a term"}

    term = Each(servers, Int(0, terms))
    role = Each(servers, Enum("follower", "candidate", "leader"))
    voted_for = Each(servers, Id(servers, nobody=True))
    votes, heard = Each(servers, Flags(servers)), Each(servers, Flags(servers))
    network = Channel(
        room,
        Record(type=Enum(*TYPES), term=Int(0, terms), source=Id(servers), target=Id(servers)),
        lossy=True,
        duplicating=True,
        reordering=True,
    )

    @action(n=servers)
    def restart(s, n: int) -> None:
        s.role[n], s.votes[n], s.heard[n] = "follower", set(), set()

    @action(n=servers)
    def time_out(s, n: int) -> None:
        s.require(s.role[n].is_in("follower", "candidate"), s.term[n] < s.terms)
        s.term[n] += 1
        s.role[n], s.voted_for[n], s.votes[n], s.heard[n] = "candidate", -1, set(), set()

    @action(n=servers, to=servers)
    def ask(s, n: int, to: int) -> None:
        s.require(s.role[n] == "candidate", ~s.heard[n].has(to), ~s.network.is_full())
        s.network.send(type="ask", term=s.term[n], source=n, target=to)

    @action(n=servers)
    def lead(s, n: int) -> None:
        s.require(s.role[n] == "candidate", 2 * s.votes[n].size() > s.servers)
        s.role[n] = "leader"

    @action(m=network)
    def learn_term(s, m: Any) -> None:
        s.require(m.term > s.term[m.target])
        s.term[m.target], s.role[m.target], s.voted_for[m.target] = m.term, "follower", -1

    @action(m=network)
    def answer(s, m: Any) -> None:
        n = m.target
        s.require(m.type == "ask", m.term <= s.term[n])
        grants = (m.term == s.term[n]) & s.may_vote(n, m.source)
        s.network.remove(m)
        s.voted_for[n] = pick(grants, m.source, s.voted_for[n])
        s.network.send(type=pick(grants, "vote", "refuse"), term=s.term[n], source=n, target=m.source)

    def may_vote(s, n: Number, candidate: Number) -> Truth:
        return (s.voted_for[n] == -1) | (s.voted_for[n] == candidate)

    @without("one-vote", replaces=may_vote)
    def votes_again(s, n: Number, candidate: Number) -> bool:
        return True

    @action(m=network)
    def count(s, m: Any) -> None:
        n = m.target
        s.require(m.type != "ask", m.term <= s.term[n])
        s.network.remove(m)
        now = m.term == s.term[n]
        s.heard[n] = pick(now, s.heard[n].plus(m.source), s.heard[n])
        s.votes[n] = pick(now & (m.type == "vote"), s.votes[n].plus(m.source), s.votes[n])

    @invariant(m=servers, n=servers)
    def one_leader(s, m: int, n: int) -> Truth:
        """No term has two leaders."""
        both = (s.role[m] == "leader") & (s.role[n] == "leader")
        return (m == n) | ~(both & (s.term[m] == s.term[n]))
