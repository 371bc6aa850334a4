"""Domains that are made of sizes: sets of members, majorities, powers."""

from itertools import combinations

from fencepost.model import (
    Bool,
    Each,
    Int,
    Machine,
    Majorities,
    Model,
    Size,
    Subsets,
    action,
    all_of,
    check,
    invariant,
)


class Votes(Machine):
    acceptors = Size(3)
    voted = Each(acceptors, Bool())
    chosen = Int(0, 2**acceptors - 1)

    @action(q=Subsets(acceptors))
    def vote(s, q: frozenset[int]) -> None:
        for a in q:
            s.voted[a] = True

    @action(q=Majorities(acceptors))
    def choose(s, q: frozenset[int]) -> None:
        s.require(all_of(s.voted[a] for a in q), s.chosen == 0)
        s.chosen = sum(2**a for a in q)

    @invariant(q=Majorities(acceptors))
    def has_voted(s, q: frozenset[int]) -> object:
        """What is chosen has the votes of a majority."""
        chosen = s.chosen == sum(2**a for a in q)
        return ~chosen | all_of(s.voted[a] for a in q)


def test_a_domain_of_sets_has_every_set_once() -> None:
    for members in (1, 2, 3, 4):
        labels = Model(Votes, {"acceptors": members}).labels
        sets = [each for size in range(members + 1) for each in combinations(range(members), size)]
        votes = [set(dict(label.parameters)["q"]) for label in labels if label.action == "vote"]
        assert votes == [set(each) for each in sets]
        chosen = [set(dict(label.parameters)["q"]) for label in labels if label.action == "choose"]
        assert chosen == [set(each) for each in sets if 2 * len(each) > members]


def test_a_label_prints_its_set() -> None:
    assert [str(label) for label in Model(Votes).labels if label.action == "choose"] == [
        "choose(q={0, 1})",
        "choose(q={0, 2})",
        "choose(q={1, 2})",
        "choose(q={0, 1, 2})",
    ]


def test_a_machine_with_sets_is_explored() -> None:
    result = check(Votes, deadlock=False)
    assert result.verdict == "holds"
    # Every set of votes, and with each majority that it contains what was chosen.
    sets = [set(each) for size in range(4) for each in combinations(range(3), size)]
    assert result.distinct == sum(1 + sum(2 * len(q) > 3 and q <= votes for q in sets) for votes in sets)
