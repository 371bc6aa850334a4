"""A lock with a lease, and the fence that makes it safe.

A lease is given for a time: its holder checks its clock and then writes, and in between come pauses, slow
requests, a request that lands an hour later. So a lease alone protects nothing; it only makes it rare that
two clients write. The data are protected because each write names the version that it is based on. Before a
new leader relies on anything that it reads, it writes its epoch into the data (the fence), over the version
that it has read. An earlier write is based on another version then, and is refused, whenever it lands.

Time appears as one bit: whether the lease that was last given has run out. No property needs a bound on
clocks, pauses or landings.
"""

from fencepost.model import *
from fencepost.model.store import UNKNOWN, Key, Late, Reply, restart

SWAP = ("done", "changed")
"""Never "missing": nothing is ever deleted."""


class FencedLease(Machine):
    """Clients that lead one after the other, each of which may believe for any time that it still does."""

    clients = Size(2, most=6)
    epochs = Size(2, most=16, doc="times that the lease is given: keeps the space finite")
    writes = Size(3, most=60, doc="writes to the data, fences included: keeps the space finite")

    safeguards = {
        "swap-the-lease": "the lease is taken only over the one that was seen to have run out",
        "fence": "the data is written only over what was read, by a client that believes it leads",
        "fence-first": "a new leader writes its epoch into the data before it relies on what it reads there",
    }
    assumptions = {
        "honest-swap": "the store never writes over anything but what If-Match names, not even in a race",
    }

    symmetric = ("clients",)

    lease = Key(epoch=Int(0, epochs))  # the epochs of the clients show whose it is
    data = Key(epoch=Int(0, epochs), number=Int(0, writes), etag="number")
    late = Late(data, only=("replace", "put"))
    run_out = Enum("running", "run-out", start="run-out")
    at = Each(clients, Enum("idle", "has-looked", "claimed", "has-read", "leads", "writes"))
    epoch = Each(clients, Int(0, epochs))  # the epoch it saw, then its own
    number = Each(clients, Int(0, writes))  # of the data that it has read or written last

    @initial
    def never_given(s) -> None:
        s.lease.put(epoch=0)
        s.data.put(epoch=0, number=0)

    def is_running(s, c: int) -> Truth:
        """True where the lease of c has not run out, by c's clock at this moment."""
        return (s.run_out == "running") & (s.epoch[c] == s.lease.epoch)

    @action
    def time_passes(s) -> None:
        s.require(s.run_out == "running")
        s.run_out = "run-out"

    @action(c=clients)
    def look(s, c: int) -> None:
        s.require((s.at[c] == "idle") & (s.run_out == "run-out"))
        s.require(s.lease.epoch < s.epochs)
        s.at[c] = "has-looked"
        s.epoch[c] = s.lease.epoch

    @action(c=clients, answer=(*SWAP, "reply_lost", "request_lost"))
    def claim(s, c: int, answer: str) -> None:
        s.require(s.at[c] == "has-looked")
        epoch = s.epoch[c] + 1
        reply = s.take_lease(c, answer)
        if reply.applied:
            s.run_out = "running"
        # After an unknown outcome it looks again when the lease that it may have been given has run out.
        s.at[c] = reply.to(done="claimed", refused="idle", unknown="idle")
        s.epoch[c] = reply.to(done=epoch, refused=0, unknown=0)

    def take_lease(s, c: int, answer: str) -> Reply:
        return s.lease.replace(answer, match=s.epoch[c], epoch=s.epoch[c] + 1)

    @without("swap-the-lease", "honest-swap", replaces=take_lease)
    def overwrite_lease(s, c: int, answer: str) -> Reply:
        s.require(answer != "changed")
        return s.lease.put(answer, epoch=s.epoch[c] + 1)

    @action(c=clients)
    def read(s, c: int) -> None:
        s.require(s.at[c] == "claimed")
        s.require(s.data.epoch <= s.epoch[c])
        s.at[c] = "has-read"
        s.number[c] = s.data.number

    @without("fence-first", replaces=read)
    def read_and_lead(s, c: int) -> None:
        FencedLease.read(s, c)
        s.at[c] = "leads"

    @action(c=clients)
    def read_a_later_epoch(s, c: int) -> None:
        s.require(s.at[c] == "claimed")
        s.require(s.data.epoch > s.epoch[c])
        s.rest(c)

    @action(c=clients, answer=(*SWAP, *UNKNOWN))
    def put_fence(s, c: int, answer: str) -> None:
        s.require((s.at[c] == "has-read") & (s.number[c] < s.writes))
        reply = s.data.replace(
            answer, match=s.number[c], epoch=s.epoch[c], number=s.number[c] + 1, late=s.late
        )
        s.at[c] = reply.to(done="leads", refused="claimed", unknown="claimed")
        s.number[c] = reply.to(done=s.number[c] + 1, refused=0, unknown=0)

    @action(c=clients)
    def check_clock(s, c: int) -> None:
        s.require((s.at[c] == "leads") & (s.number[c] < s.writes))
        s.require(s.is_running(c))
        s.at[c] = "writes"

    @action(c=clients)
    def step_down(s, c: int) -> None:
        s.require(s.at[c] == "leads")
        s.require(~s.is_running(c))
        s.rest(c)

    @action(c=clients, answer=(*SWAP, *UNKNOWN))
    def write(s, c: int, answer: str) -> None:
        s.require(s.at[c] == "writes")
        number = s.number[c] + 1
        reply = s.write_data(c, answer)
        if reply == "changed":
            s.rest(c)
        else:
            s.at[c] = reply.to(done="leads", missing="idle", unknown="claimed")
            s.number[c] = reply.to(done=number, missing=0, unknown=0)

    def write_data(s, c: int, answer: str) -> Reply:
        read, epoch = s.number[c], s.epoch[c]
        return s.data.replace(answer, match=read, epoch=epoch, number=read + 1, late=s.late)

    @without("fence", "honest-swap", replaces=write_data)
    def overwrite_data(s, c: int, answer: str) -> Reply:
        s.require(answer != "changed")
        return s.data.put(answer, epoch=s.epoch[c], number=s.number[c] + 1, late=s.late)

    @action(c=clients)
    def crash(s, c: int) -> None:
        s.require(s.at[c] != "idle")
        s.rest(c)

    def rest(s, c: int) -> None:
        restart(s, c, "at", "epoch", "number")

    @action
    def lands(s) -> None:
        s.late.land()

    @invariant
    def one_an_epoch(s) -> Truth:
        """Never two clients that were given the same epoch."""
        given = [~s.at[c].is_in("idle", "has-looked") for c in range(s.clients)]
        return ~any_of(
            given[c] & given[other] & (s.epoch[c] == s.epoch[other])
            for c in range(s.clients)
            for other in range(c)
        )

    @step
    def epochs_never_go_back(before, after: "FencedLease") -> Truth:
        """No write of an earlier leader lands over one of a later leader."""
        return after.data.epoch >= before.data.epoch

    @invariant
    def leader_has_read_what_stands(s) -> Truth:
        """The newest leader has read the present data."""
        return all_of(
            ~(s.at[c].is_in("leads", "writes") & (s.epoch[c] == s.lease.epoch))
            | (s.number[c] == s.data.number)
            for c in range(s.clients)
        )

    @reachable
    def writes_on(s) -> Truth:
        """A client can be about to write though a later one leads."""
        return any_of(
            (s.at[c] == "writes") & (s.at[other] == "leads") & (s.epoch[c] < s.epoch[other])
            for c in range(s.clients)
            for other in range(s.clients)
        )

    @may_end
    def epochs_used_up(s) -> Truth:
        return s.at.all("idle") & (s.lease.epoch == s.epochs)
