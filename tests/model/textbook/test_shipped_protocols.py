"""The protocols that people know from TLA+: what each safeguard prevents. `bench.tla` has their counts."""

from bench.tla.raft_election import RaftElection
from bench.tla.snapshots import Snapshots
from fencepost.model import check
from fencepost.model.textbook.allocator import Allocator
from fencepost.model.textbook.paxos import Paxos, Voting


def test_paxos_that_ignores_the_highest_vote_does_not_refine_voting() -> None:
    result = check(Paxos, without=["highest-vote"])
    found = result["voting"].counterexample
    assert result["voting"].verdict == "violated"
    assert found is not None
    assert found.steps[-1].action == "vote"


def test_voting_without_a_safe_quorum_does_not_refine_consensus() -> None:
    class Unsafe(Voting):
        def shows_safe(s, b, v, q):
            return s.joined[q_of(q)] >= -1

    assert check(Unsafe)["consensus"].verdict == "violated"


def q_of(q: frozenset[int]) -> int:
    return min(q)


def test_clients_that_get_part_of_what_they_asked_for_wait_for_each_other() -> None:
    result = check(Allocator, without=["all-at-once"], keep_going=True)
    assert result["no-deadlock"].verdict == "violated"
    assert result["served"].verdict == "violated"
    assert check(Allocator, {"clients": 3})["served"].verdict == "violated"


def test_symmetry_changes_no_verdict_of_the_allocator() -> None:
    result = check(Allocator, symmetry=True)
    assert (result.verdict, result["served"].verdict) == ("holds", "holds")


def test_servers_that_vote_twice_in_a_term_elect_two_leaders() -> None:
    result = check(RaftElection, {"servers": 2}, without=["one-vote"])
    assert result["one_leader"].verdict == "violated"
    assert check(RaftElection, {"servers": 2}).verdict == "holds"


def test_transactions_that_commit_over_others_lose_updates() -> None:
    """With a size of 1 each for keys and values a transaction can still remove what another one wrote."""
    result = check(Snapshots, {"keys": 1, "values": 1}, without=["first-committer-wins"])
    assert result["no_lost_update"].verdict == "violated"
