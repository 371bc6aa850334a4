r"""Protocols in both languages: NAME.tla beside NAME.py, or beside a model that ships in model/.

Both texts are our own, action by action alike. `RUNS` has for each the sizes, the checks, and what TLC and
Fencepost find: `python -m bench.tlaplus` runs both, tests/docs/test_from_tla.py ours alone.

Two differences of counting are avoided. TLC generates a successor, or a start, once for each witness of an
existential quantifier, and we once for each choice of a parameter: the texts quantify over the same things.
And TLC generates it once for each disjunct of a guard that holds: a guard is written `(p \/ q) = TRUE`.
"""

from dataclasses import dataclass, field
from pathlib import Path

HOME = Path(__file__).parent


@dataclass(frozen=True)
class Counts:
    """The result of both where all properties hold."""

    distinct: int
    generated: int
    depth: int


@dataclass(frozen=True)
class Violated:
    """The result of both for a faulty protocol: the states of the counterexample; 0 for one with a loop."""

    states: int = 0


@dataclass(frozen=True)
class Run:
    """A model as `fencepost check` takes it, and what TLC is to check in NAME.tla."""

    model: str
    found: Counts | Violated
    constants: str = ""
    checks: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    text: str = ""
    """The name of the TLA+ text, if it is not the run's."""
    spec: str = "Spec"

    def module(self, name: str) -> str:
        """The TLA+ text."""
        return (HOME / f"{(self.text or name).replace('-', '_')}.tla").read_text()


_PAXOS = "Acceptors = {a0, a1, a2} Values = {v0, v1} Ballots = {0, 1}"
_MUTEX = "INVARIANT Exclusion\nPROPERTY Served"
_ALTERNATING = ("Data = {d0, d1} Room = 2", "INVARIANT InStep\nPROPERTY Delivered")
_EWD = ("N = 3 Most = 1", "INVARIANT Truthful\nPROPERTY Detected")


def _own(name: str) -> str:
    """The model of a file beside this one."""
    stem, _, machine = name.partition(":")
    return f"bench/tla/{stem}.py:{machine}"


RUNS = {
    "consensus": Run(
        "model/textbook/paxos.py:Consensus",
        Counts(4, 4, 2),
        "Values = {v0, v1, v2}",
        "INVARIANT Agreement",
        {"values": 3},
    ),
    "voting": Run("voting", Counts(599, 3_214, 11), _PAXOS, "PROPERTY Refines"),
    "paxos": Run("paxos", Counts(3_921, 23_703, 17), _PAXOS, "PROPERTY Refines"),
    "two-phase": Run(
        "two-phase",
        Counts(8_832, 58_146, 17),
        "Managers = {m0, m1, m2, m3, m4}",
        "INVARIANT Agreement",
        {"managers": 5},
    ),
    "transaction-commit": Run(
        _own("transaction_commit:TransactionCommit"),
        Counts(274, 1_296, 11),
        "Managers = {m0, m1, m2, m3, m4}",
        "INVARIANT Agreement",
    ),
    "german": Run(
        _own("german:German"),
        Counts(60_237, 245_917, 35),
        "Nodes = {n0, n1, n2} Values = {v0, v1}",
        "INVARIANT Coherence\nINVARIANT Freshness",
    ),
    "raft-election": Run(
        _own("raft_election:RaftElection"),
        Counts(535_491, 2_796_181, 34),
        "Servers = {n0, n1, n2} Terms = 1 Room = 1",
        "INVARIANT OneLeader",
    ),
    "snapshots": Run(
        _own("snapshots:Snapshots"),
        Counts(28_305, 314_965, 17),
        "Keys = {k0, k1} Values = {v0, v1} Transactions = {t0, t1}",
        "INVARIANT Snapshot\nPROPERTY NoLostUpdate",
    ),
    "alternating-bit": Run("alternating-bit", Counts(252, 1_297, 16), *_ALTERNATING),
    "alternating-bit-weak": Run(
        _own("unfair:WeaklyFairBit"), Violated(), *_ALTERNATING, text="alternating-bit", spec="WeakSpec"
    ),
    "allocator": Run("allocator", Counts(42, 115, 5), "Clients = {c0, c1} Resources = {r0, r1}", _MUTEX),
    "allocator-of-three": Run(
        "allocator",
        Violated(),
        "Clients = {c0, c1, c2} Resources = {r0, r1}",
        _MUTEX,
        {"clients": 3},
        text="allocator",
    ),
    "readers-writers": Run("readers-writers", Counts(869, 2_395, 10), "Actors = {p0, p1, p2}", _MUTEX),
    "readers-writers-stay": Run(
        _own("unfair:ReadersWritersStay"),
        Violated(),
        "Actors = {p0, p1, p2}",
        _MUTEX,
        text="readers-writers",
        spec="StaySpec",
    ),
    "ewd998": Run(_own("ewd998:Ewd998"), Counts(19_474, 81_162, 25), *_EWD),
    "ewd998-unfair": Run(_own("unfair:UnfairEwd998"), Violated(), *_EWD, text="ewd998", spec="UnfairSpec"),
    "token-ring": Run(
        _own("token_ring:TokenRing"),
        Counts(1_566, 14_962, 12),
        "N = 4",
        "INVARIANT Truthful\nPROPERTY Detected",
    ),
    "chang-roberts": Run(
        _own("chang_roberts:ChangRoberts"),
        Counts(1_057, 2_218, 18),
        "N = 4",
        "INVARIANT OneWins\nPROPERTY Won",
    ),
    "spanning-tree": Run(
        _own("spanning_tree:SpanningTree"),
        Counts(700, 4_959, 5),
        "N = 5",
        "INVARIANT Nearer\nPROPERTY Settled",
    ),
    "folklore": Run(
        _own("folklore:Folklore"),
        Counts(3_700, 14_720, 14),
        "Processes = {p0, p1, p2} Crashes = 1",
        "PROPERTY FromNothing\nPROPERTY Relay",
    ),
    "peterson": Run(_own("peterson:Peterson"), Counts(26, 45, 8), "", _MUTEX),
    "bakery": Run(
        _own("bakery:Bakery"),
        Counts(133, 195, 28),
        "N = 2 Numbers = 4",
        "INVARIANT Exclusion\nPROPERTY IsServed",
    ),
    "barrier": Run(
        _own("barrier:Barrier"),
        Counts(52, 109, 14),
        "Processes = {p0, p1, p2}",
        "INVARIANT TogetherOnly\nPROPERTY Passes",
    ),
    "philosophers": Run("philosophers", Counts(70, 220, 6), "N = 5", "INVARIANT Neighbours", {"seats": 5}),
    "smokers": Run(
        _own("smokers:Smokers"),
        Counts(6, 15, 2),
        "Smokers = {s0, s1, s2}",
        "INVARIANT OneSmokes\nPROPERTY SmokeAgain",
    ),
    "prisoners": Run(
        _own("prisoners:Prisoners"), Counts(70, 214, 10), "N = 3", "INVARIANT Truthful\nPROPERTY Knowing"
    ),
    "bounded-queue": Run(
        "bounded-queue", Counts(30, 46, 17), "Places = 3", "INVARIANT InOrder\nPROPERTY OneEndMoves"
    ),
    "blocking-queue": Run(
        _own("blocking_queue:BlockingQueue"),
        Violated(10),
        "Producers = {t0, t1, t2} Consumers = {t3, t4} Room = 1",
    ),
    "fifo": Run(_own("fifo:Fifo"), Counts(180, 351, 12), "Data = {d0, d1} Room = 3", "INVARIANT Bounded"),
    "teaching": Run(_own("teaching:Teaching"), Counts(193, 389, 9), "N = 4", "INVARIANT OneIsSeen"),
    "coffee-can": Run(
        _own("coffee_can:CoffeeCan"), Counts(230, 800, 1), "Beans = 20", "PROPERTY Parity\nPROPERTY Ends"
    ),
    "life": Run(_own("life:Life"), Counts(512, 1_024, 1), "N = 3"),
    "hour-clock": Run(_own("hour_clock:HourClock"), Counts(12, 24, 1), "", "INVARIANT InRange"),
    "die-hard": Run(_own("die_hard:DieHard"), Violated(7), "", "INVARIANT NotFour"),
    "river": Run(_own("river:River"), Violated(12), "Each = 3", "INVARIANT Unsolved"),
    "hanoi": Run(_own("hanoi:Hanoi"), Violated(32), "N = 5", "INVARIANT Unsolved"),
    "sliding-puzzle": Run(_own("sliding_puzzle:SlidingPuzzle"), Violated(20), "", "INVARIANT Unsolved"),
}
"""The runs by name. The five that are known for their fairness come with a run that is not fair enough."""
