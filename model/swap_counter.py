"""A counter that is an object, raised by reading it and writing it back over what was read.

Every client is counted exactly once, whichever messages are lost and whichever clients crash. A plain put
loses counts. An if-match put does not, but a missing reply doubles them: the write was applied, the client
does not know it, and repeats it over its own result. So the object lists the clients that are counted in it.
Naming only the last one is not enough: the next one writes over that, and "I am not in it" no longer means "I
was not counted".

A refusal (412) is no proof either: an SDK that repeats a request by itself gets 412 because of its own first
attempt. The client reads again, and finds itself.
"""

from fencepost.model import *
from fencepost.model.store import UNKNOWN, Key, Late, Reply, Trouble, restart

SWAP = ("done", "changed")
"""Never "missing": nothing is ever deleted."""


class SwapCounter(Machine):
    """Clients that each raise one counter by one, through read and compare-and-swap."""

    clients = Size(2, most=6)

    safeguards = {
        "if-match": "the counter is written only over what was read",
        "look-for-own-mark": "a client that reads itself among the counted writes no more",
        "keep-all-marks": "a write keeps the marks of all before it, instead of its own alone",
    }
    symmetric = ("clients",)

    counter = Key(count=Int(0, clients + 1), counted=Flags(clients), etag="count")
    late = Late(counter, only=("replace", "put"))
    trouble = Trouble()  # what is lost, and who crashes, until it is over
    at = Each(clients, Enum("begins", "has-read", "counted"))
    seen = Each(clients, Int(0, clients + 1))
    marks = Each(clients, Flags(clients))  # those it read among the counted
    tried = Flags(clients)  # ghost: who ever tried to be counted

    @initial
    def nobody_counted(s) -> None:
        s.counter.put(count=0, counted=frozenset())

    def finds_itself(s, c: int) -> Truth:
        return s.counter.counted.has(c)

    @without("look-for-own-mark", replaces=finds_itself)
    def never_looks(s, c: int) -> bool:
        return False

    @action(c=clients)
    def read(s, c: int) -> None:
        s.require(s.at[c] == "begins", ~s.finds_itself(c))
        s.at[c] = "has-read"
        s.seen[c] = s.counter.count
        s.marks[c] = s.counter.counted

    @action(c=clients)
    def find_itself(s, c: int) -> None:
        s.require(s.at[c] == "begins", s.finds_itself(c))
        s.at[c] = "counted"

    @action(c=clients, answer=(*SWAP, "conflict", *UNKNOWN))
    def write(s, c: int, answer: str) -> None:
        s.require(s.at[c] == "has-read")
        s.trouble.may(answer)
        s.require(s.seen[c] <= s.clients)  # a run that has counted too many has failed already
        s.tried = s.tried.plus(c)
        reply = s.write_back(c, answer)
        s.at[c] = reply.to(done="counted", refused="begins", conflict="begins", unknown="begins")
        s.seen[c] = 0
        s.marks[c] = frozenset()

    def write_back(s, c: int, answer: str) -> Reply:
        count, marks = s.seen[c] + 1, s.new_marks(c)
        return s.counter.replace(answer, match=s.seen[c], count=count, counted=marks, late=s.late)

    @without("if-match", replaces=write_back)
    def write_over(s, c: int, answer: str) -> Reply:
        s.require(answer not in ("changed", "conflict"))
        return s.counter.put(answer, count=s.seen[c] + 1, counted=s.new_marks(c), late=s.late)

    def new_marks(s, c: int) -> Members | frozenset[int]:
        return s.marks[c].plus(c)

    @without("keep-all-marks", replaces=new_marks)
    def only_own_mark(s, c: int) -> Members | frozenset[int]:
        return frozenset({c})

    @action(c=clients)
    def crash(s, c: int) -> None:
        s.require(s.at[c] != "begins")
        s.trouble.may()
        restart(s, c, "at", "seen", "marks")

    @action
    def lands(s) -> None:
        s.late.land()

    @action
    def trouble_ends(s) -> None:
        s.trouble.end()

    @invariant
    def none_lost(s) -> Truth:
        """Every client that knows it is counted is counted."""
        return s.at.count("counted") <= s.counter.count

    @invariant
    def none_doubled(s) -> Truth:
        """No client is counted twice."""
        return s.counter.count <= s.tried.size()

    @step
    def never_back(before, after: "SwapCounter") -> Truth:
        """The counter never goes down."""
        return after.counter.count >= before.counter.count

    @reachable
    def counted_unawares(s) -> Truth:
        """A client can be counted without knowing it."""
        return any_of((s.at[c] == "begins") & s.counter.counted.has(c) for c in range(s.clients))

    @always_recoverable
    def all_counted(s) -> Truth:
        """Whatever was lost, all clients can be counted, and know it, once nothing more is."""
        return s.at.all("counted")

    @may_end
    def nobody_is_left(s) -> Truth:
        return s.at.all("counted")
