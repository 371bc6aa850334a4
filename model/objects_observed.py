"""Objects, as observed: the protocol of `model/objects.py` in terms of what the directory shows.

Every step is a system call on one key, or a finding of the server that starts after a power loss. A reader of
the directory sees the version that the name of the key leads to, the listing index, and the progress of each
request by its calls. The directory does not show what a process has read, which of its bytes are on disk, or
that it was killed: a process that was killed makes no more calls.

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

    writer = Role(
        writers,
        kind=Enum(*KINDS),
        base=Id(writers, nobody=True),  # the version that a replace names
        over=Id(writers, nobody=True),  # ghost: the version that was replaced
        rank=Int(0, writers),  # its place in the order of publication; 0 for none
        at=Enum("new", *AT_WORK, "acknowledged", "refused", "ended"),
    )

    # Definitions.

    def rank_of(s, version: Number) -> Number:
        return case(*((version == w, s.writer[w].rank) for w in range(s.writers)), otherwise=0)

    def is_absent(s, version: Number) -> Truth:
        """A reader answers 404: nothing was ever published, or the newest version is a delete."""
        deleted = [(version == w) & (s.writer[w].kind == "delete") for w in range(s.writers)]
        return (version == NOBODY) | any_of(deleted)

    def is_met(s, w: int) -> Truth:
        """The condition of the request holds in the directory."""
        me = s.writer[w]
        is_there = ~s.is_absent(s.entry)
        return case(
            (me.kind == "create", ~is_there),
            (me.kind == "replace", is_there & (s.entry == me.base)),
            otherwise=True,
        )

    def publish(s, w: int) -> None:
        me = s.writer[w]
        me.over = s.entry
        s.entry = w
        s.last += 1
        me.rank = s.last
        me.at = "published"

    # Actions: a request.

    @action(w=writer, kind=KINDS)
    def staged(s, w: int, kind: str) -> None:
        """A request is there. A replace names the version that was read."""
        me = s.writer[w]
        s.require(me.at == "new")
        if kind == "replace":
            s.require(~s.is_absent(s.entry))
            me.base = s.entry
        me.kind = kind
        me.at = "staged"

    @action(w=writer)
    def created(s, w: int) -> None:
        """`link` gave the key a file."""
        s.require(s.writer[w].at == "staged", s.writer[w].kind == "create")
        s.require(s.is_met(w))
        s.publish(w)

    @action(w=writer)
    def create_refused(s, w: int) -> None:
        """`link` found a file."""
        s.require(s.writer[w].at == "staged", s.writer[w].kind == "create")
        s.require(~s.is_met(w))
        s.writer[w].at = "refused"

    @action(w=writer)
    def locked(s, w: int) -> None:
        """The system gives a lock to one process at a time: the one that had it before has ended."""
        s.require(s.writer[w].at == "staged", s.writer[w].kind != "create")
        for other in s.writer:
            other.at = pick(other.at == "locked", "ended", other.at)
        s.writer[w].at = "locked"

    @action(w=writer)
    def refused(s, w: int) -> None:
        """The condition does not hold while the lock is held."""
        s.require(s.writer[w].at == "locked")
        s.require(~s.is_met(w))
        s.writer[w].at = "refused"

    @action(w=writer)
    def renamed(s, w: int) -> None:
        """`rename` or `unlink` changed the entry. The condition holds until then, as the lock is held."""
        s.require(s.writer[w].at == "locked")
        s.require(s.is_met(w))
        s.publish(w)

    @action(w=writer)
    def flushed(s, w: int) -> None:
        s.require(s.writer[w].at == "published")
        s.durable = s.entry
        s.writer[w].at = "flushed"

    @action(w=writer)
    def indexed(s, w: int) -> None:
        """A transaction of the index records what the directory shows."""
        s.require(s.writer[w].at == "flushed")
        s.index = s.entry
        s.writer[w].at = "indexed"

    @action(w=writer)
    def acknowledged(s, w: int) -> None:
        s.require(s.writer[w].at == "indexed")
        s.writer[w].at = "acknowledged"

    # Actions: a power loss, and the start after one.

    @action
    def power_lost(s) -> None:
        """Every process ends, and the name leads to what the last flush made permanent."""
        s.entry = s.durable
        s.end_all()

    @action(w=writer)
    def power_lost_after(s, w: int) -> None:
        """The same, but a rename or link that nothing has flushed was on disk."""
        s.require(s.writer[w].rank > s.rank_of(s.durable))
        s.entry = w
        s.end_all()

    def end_all(s) -> None:
        s.durable = s.entry
        s.unreconciled = True
        for me in s.writer:
            me.at = pick(any_of(me.at == at for at in AT_WORK), "ended", me.at)

    @action
    def reconciled(s) -> None:
        """A server that starts flushes the directory, and records what it shows."""
        s.durable = s.entry
        s.index = s.entry
        s.unreconciled = False

    # Properties.

    @invariant(w=writer)
    def one_winner(s, w: int) -> Truth:
        """A create succeeds only where there is no object: of concurrent creates exactly one."""
        me = s.writer[w]
        return implies((me.rank > 0) & (me.kind == "create"), s.is_absent(me.over))

    @invariant(w=writer)
    def cas_exact(s, w: int) -> Truth:
        """A conditional write replaces exactly the version that it names."""
        me = s.writer[w]
        return implies((me.rank > 0) & (me.kind == "replace"), me.over == me.base)

    @invariant(w=writer)
    def ack_durable(s, w: int) -> Truth:
        """An acknowledged version is current, or was replaced since; no crash takes it back."""
        return implies(s.writer[w].at == "acknowledged", s.writer[w].rank <= s.rank_of(s.entry))

    @invariant
    def list_true(s) -> Truth:
        """Once no request is at work and a power loss is reconciled, the listing equals the directory."""
        is_quiet = ~s.unreconciled & ~s.writer.any(at=AT_WORK)
        return implies(is_quiet, s.index == s.entry)

    @reachable(w=writer)
    def refused_in_a_race(s, w: int) -> Truth:
        """A conditional write can be refused because another one came first."""
        me = s.writer[w]
        return (me.at == "refused") & (me.kind == "replace") & (me.base != s.entry)

    @reachable(w=writer)
    def rolled_back(s, w: int) -> Truth:
        """A power loss can take back a version that was visible and not yet acknowledged."""
        return (s.writer[w].at == "ended") & (s.writer[w].rank > s.rank_of(s.entry))

    @may_end
    def done(s) -> Truth:
        return ~s.writer.any(at="new")
