"""Objects, as observed: the protocol of `model/objects.py` in terms of what the directory shows.

Every step is a system call on one key, or what a server finds that starts after a power loss. A reader of the
directory sees the version that the name of the key leads to, the listing index, and each request's progress
by its calls. It sees neither what a process has read, nor what of its own it has written to a disk cache, nor
whether it still runs: a process that was killed is one that makes no more calls.

                 created
       staged ------------> published --> flushed --> indexed --> acknowledged
          | \\                    ^
          |  `--> locked --------'  renamed
          |          |
          `--------> `--> refused

`Objects` refines this machine, so every run of it is a run of this one. This one allows more: a server may
reconcile at any time, and crashes are not counted. Its properties are those of `Objects` that can be stated
about the directory; `untorn`, `event_complete` and `event_true` cannot.
"""

from fencepost.model import *

NOBODY = -1
KINDS = ("create", "replace", "put", "delete")
AT_WORK = ("staged", "locked", "published", "flushed", "indexed")


class ObjectsObserved(Machine):
    """Writers of one key of an object store that is a directory, by their system calls."""

    writers = Size(3, least=1, most=6, doc="requests in one run, each in its own process")

    # State: the directory.

    entry = Id(writers, nobody=True)  # the version that the name of the key leads to
    durable = Id(writers, nobody=True)  # the version whose entry the last flush made permanent
    index = Id(writers, nobody=True)  # the version that listings show
    unreconciled = Bool()  # since a power loss
    last = Int(0, writers)  # the number of versions that were published

    # State: a request, by its writer.

    kind = Each(writers, Enum(*KINDS))
    base = Each(writers, Id(writers, nobody=True))  # the version that a replace names
    over = Each(writers, Id(writers, nobody=True))  # ghost: the version that was replaced
    rank = Each(writers, Int(0, writers))  # its place in the order of publication; 0 for none
    at = Each(writers, Enum("new", *AT_WORK, "acknowledged", "refused", "ended"))

    # Definitions.

    def rank_of(s, version: Number) -> Number:
        return case(*((version == w, s.rank[w]) for w in range(s.writers)), otherwise=0)

    def is_absent(s, version: Number) -> Truth:
        """A reader answers 404: nothing was ever published, or the newest version is a delete."""
        deleted = [(version == w) & (s.kind[w] == "delete") for w in range(s.writers)]
        return (version == NOBODY) | any_of(deleted)

    def is_met(s, w: int) -> Truth:
        """The condition of the request holds in the directory."""
        is_there = ~s.is_absent(s.entry)
        return case(
            (s.kind[w] == "create", ~is_there),
            (s.kind[w] == "replace", is_there & (s.entry == s.base[w])),
            otherwise=True,
        )

    def publish(s, w: int) -> None:
        s.over[w] = s.entry
        s.entry = w
        s.last += 1
        s.rank[w] = s.last
        s.at[w] = "published"

    # Actions: a request.

    @action(w=writers, kind=KINDS)
    def staged(s, w: int, kind: str) -> None:
        """A request is there. A replace names the version that was read."""
        s.require(s.at[w] == "new")
        if kind == "replace":
            s.require(~s.is_absent(s.entry))
            s.base[w] = s.entry
        s.kind[w] = kind
        s.at[w] = "staged"

    @action(w=writers)
    def created(s, w: int) -> None:
        """`link` gave the key a file."""
        s.require(s.at[w] == "staged", s.kind[w] == "create")
        s.require(s.is_met(w))
        s.publish(w)

    @action(w=writers)
    def create_refused(s, w: int) -> None:
        """`link` found a file."""
        s.require(s.at[w] == "staged", s.kind[w] == "create")
        s.require(~s.is_met(w))
        s.at[w] = "refused"

    @action(w=writers)
    def locked(s, w: int) -> None:
        """The system gives a lock to one process at a time: the one that had it before has ended."""
        s.require(s.at[w] == "staged", s.kind[w] != "create")
        for other in range(s.writers):
            s.at[other] = pick(s.at[other] == "locked", "ended", s.at[other])
        s.at[w] = "locked"

    @action(w=writers)
    def refused(s, w: int) -> None:
        """The condition does not hold while the lock is held."""
        s.require(s.at[w] == "locked")
        s.require(~s.is_met(w))
        s.at[w] = "refused"

    @action(w=writers)
    def renamed(s, w: int) -> None:
        """`rename` or `unlink` changed the entry. The condition holds until then, as the lock is held."""
        s.require(s.at[w] == "locked")
        s.require(s.is_met(w))
        s.publish(w)

    @action(w=writers)
    def flushed(s, w: int) -> None:
        s.require(s.at[w] == "published")
        s.durable = s.entry
        s.at[w] = "flushed"

    @action(w=writers)
    def indexed(s, w: int) -> None:
        """A transaction of the index records what the directory shows."""
        s.require(s.at[w] == "flushed")
        s.index = s.entry
        s.at[w] = "indexed"

    @action(w=writers)
    def acknowledged(s, w: int) -> None:
        s.require(s.at[w] == "indexed")
        s.at[w] = "acknowledged"

    # Actions: a power loss, and the start after one.

    @action
    def power_lost(s) -> None:
        """Every process ends, and the name leads to what the last flush made permanent."""
        s.entry = s.durable
        s.end_all()

    @action(w=writers)
    def power_lost_after(s, w: int) -> None:
        """The same, but a rename or link that nothing has flushed was on disk."""
        s.require(s.rank[w] > s.rank_of(s.durable))
        s.entry = w
        s.end_all()

    def end_all(s) -> None:
        s.durable = s.entry
        s.unreconciled = True
        for w in range(s.writers):
            s.at[w] = pick(s.at[w].is_in(*AT_WORK), "ended", s.at[w])

    @action
    def reconciled(s) -> None:
        """A server that starts flushes the directory, and records what it shows."""
        s.durable = s.entry
        s.index = s.entry
        s.unreconciled = False

    # Properties.

    @invariant(w=writers)
    def one_winner(s, w: int) -> Truth:
        """A create succeeds only where nothing stands: of concurrent creates exactly one."""
        return implies((s.rank[w] > 0) & (s.kind[w] == "create"), s.is_absent(s.over[w]))

    @invariant(w=writers)
    def cas_exact(s, w: int) -> Truth:
        """A conditional write replaces exactly the version that it names."""
        return implies((s.rank[w] > 0) & (s.kind[w] == "replace"), s.over[w] == s.base[w])

    @invariant(w=writers)
    def ack_durable(s, w: int) -> Truth:
        """What was acknowledged stands, or was replaced since; no crash takes it back."""
        return implies(s.at[w] == "acknowledged", s.rank[w] <= s.rank_of(s.entry))

    @invariant
    def list_true(s) -> Truth:
        """Once nobody is at work and a power loss is reconciled, the listing equals the directory."""
        is_quiet = ~s.unreconciled & ~any_of(s.at[w].is_in(*AT_WORK) for w in range(s.writers))
        return implies(is_quiet, s.index == s.entry)

    @reachable
    def refused_in_a_race(s) -> Truth:
        """A conditional write can be refused because another one came first."""
        return any_of(
            (s.at[w] == "refused") & (s.kind[w] == "replace") & (s.base[w] != s.entry)
            for w in range(s.writers)
        )

    @reachable
    def rolled_back(s) -> Truth:
        """A power loss can take back a version that was visible and not yet acknowledged."""
        return any_of((s.at[w] == "ended") & (s.rank[w] > s.rank_of(s.entry)) for w in range(s.writers))

    @may_end
    def done(s) -> Truth:
        return ~s.at.any("new")
