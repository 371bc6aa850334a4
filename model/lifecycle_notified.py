"""A log of notifications: what a cursor may promise over events that come at least once, late, in any order.

A store that has no log may send a notification for each change: to a queue, or to an address. It sends each
again until it is acknowledged, and keeps no order. Receivers, any number of them, append what they receive to
a journal in the store of the state, and acknowledge it then. The journal is the log that a lifecycle reads: a
position is the place in the journal, so it is the order of arrival. Its entries are created one after the
other, each under the next number, which a store does once only.

    a notification   none --write--> sent --receive, append, acknowledge--> acknowledged
                     sent --vanish--> lost            the source gives up (`lost`)
    a receiver       idle --receive--> holds --append--> appended --acknowledge--> idle
                     any --crash--> idle              the notification comes again

An object's own time may be later than the arrival of its notification, by the skew of two clocks. Then its
entry is old enough before the object is, and it waits in a list.

The cursor promises that each notification that was acknowledged is resolved, ahead of the cursor, or in the
list. It cannot promise that every change was notified. So walks go on beside the events.
"""

from fencepost.model import *
from fencepost.model.lifecycle_observed import LifecycleObserved
from fencepost.model.store import Budget

DELAY = 1
"""Ticks after which an object is due."""


class LifecycleNotified(Machine):
    """A source of notifications, receivers that append to a journal, a sweep of the journal, a walk."""

    # Constants.

    objects = Size(2, most=3, doc="objects, each written once")
    receivers = Size(2, most=2, doc="processes that receive")
    ticks = Size(3, most=5, doc="how far the clock goes")
    entries = Size(3, most=4, doc="entries of the journal")
    skew = Size(1, least=0, most=1, doc="ticks by which an object's own time may be ahead")
    crashes = Size(1, least=0, most=2, doc="crashes of receivers in one run")
    lost = Size(0, least=0, most=1, doc="notifications that the source gives up")

    safeguards = {
        "append-before-acknowledge": "a notification is in the journal, durably, before it is acknowledged",
        "append-once": "an entry is created under a number that nobody has used",
        "arrival-order": "the cursor passes the entries by their places, not by the times of the objects",
        "wait-in-list": "an object that is not due when its entry is old enough waits in a list",
        "live-evaluation": "an object is deleted only if it is due as it is, not as its notification has it",
        "walks-go-on": "walks look for what nobody notified",
    }
    symmetric = ("receivers",)

    # State.

    clock = Int(0, ticks)
    item = Role(
        objects,
        there=Bool(),
        mtime=Int(0, ticks + skew),
        sent=Enum("none", "sent", "acknowledged", "lost"),
    )
    entry = Role(
        entries,
        of=Id(objects, nobody=True),
        at=Int(0, ticks),  # when it arrived
    )
    length = Int(0, entries)
    receiver = Role(
        receivers,
        at=Enum("idle", "holds", "appended"),
        holds=Id(objects, nobody=True),
        number=Int(0, entries),  # of the entry that it makes
    )
    cursor = Int(0, entries)
    waiting = Flags(objects)  # the list
    crash_left = Budget(crashes)
    lost_left = Budget(lost)
    top = Int(0, ticks + skew)  # the latest own time of an object that the cursor has passed
    early = Bool()  # ghost: an object was deleted that was not due

    # Definitions.

    def is_due(s, i: int) -> Truth:
        return all_of([s.item[i].there, s.clock >= s.item[i].mtime + DELAY])

    def may_acknowledge(s, r: int) -> Truth:
        return s.receiver[r].at == "appended"

    @without("append-before-acknowledge", replaces=may_acknowledge)
    def may_acknowledge_at_once(s, r: int) -> Truth:
        return s.receiver[r].at != "idle"

    def may_append(s, r: int) -> Truth:
        """The entry does not exist yet."""
        return s.receiver[r].number == s.length

    @without("append-once", replaces=may_append)
    def may_overwrite(s, r: int) -> bool:
        return True

    def is_skipped(s, i: int) -> Truth:
        """The sweep takes the object for one that it has passed."""
        return Truth.constant(False)

    @without("arrival-order", replaces=is_skipped)
    def is_skipped_by_time(s, i: int) -> Truth:
        return s.item[i].mtime < s.top

    def wait(s, i: int) -> None:
        s.waiting = pick(s.item[i].there & ~s.is_due(i), s.waiting.plus(i), s.waiting)

    @without("wait-in-list", replaces=wait)
    def wait_for_nothing(s, i: int) -> None:
        """It is passed."""

    def walks(s) -> Truth:
        return Truth.constant(True)

    @without("walks-go-on", replaces=walks)
    def walks_no_more(s) -> bool:
        return False

    def may_delete(s, i: int) -> Truth:
        """The object is due as it is now."""
        return s.is_due(i)

    @without("live-evaluation", replaces=may_delete)
    def may_delete_anyway(s, i: int) -> Truth:
        return s.item[i].there

    def delete(s, i: int) -> None:
        s.early = s.early | (s.may_delete(i) & ~s.is_due(i))
        s.item[i].there = s.item[i].there & ~s.may_delete(i)

    # Actions: users, time, the source.

    @action(i=item, ahead=(0, 1))
    def write(s, i: int, ahead: int) -> None:
        one = s.item[i]
        s.require(one.sent == "none", ahead <= s.skew)
        one.there = True
        one.mtime = s.clock + ahead
        one.sent = "sent"

    @action
    def time_passes(s) -> None:
        s.require(s.clock < s.ticks)
        s.clock += 1

    @action(i=item)
    def vanish(s, i: int) -> None:
        s.require(s.item[i].sent == "sent")
        s.lost_left.spend()
        s.item[i].sent = "lost"

    # Actions: a receiver.

    @action(r=among(receiver, at="idle"), i=item)
    def receive(s, r: int, i: int) -> None:
        """Others may receive it too: it is sent until it is acknowledged."""
        me = s.receiver[r]
        s.require(s.item[i].sent == "sent")
        me.at = "holds"
        me.holds = i
        me.number = s.length

    @action(r=among(receiver, at="holds"))
    def append(s, r: int) -> None:
        """Create the entry of this number."""
        me = s.receiver[r]
        s.require(me.number < s.entries, s.may_append(r))
        for e in range(s.entries):
            new = s.entry[e]
            new.of = pick(me.number == e, me.holds, new.of)
            new.at = pick(me.number == e, s.clock, new.at)
        s.length = most([s.length, me.number + 1])
        me.at = "appended"

    @action(r=among(receiver, at="holds"))
    def find_taken(s, r: int) -> None:
        """Another receiver has made the entry of this number."""
        s.require(s.receiver[r].number < s.length)
        s.receiver[r].number = s.length

    @action(r=receiver)
    def acknowledge(s, r: int) -> None:
        me = s.receiver[r]
        s.require(s.may_acknowledge(r), me.holds >= 0)
        for i in range(s.objects):
            one = s.item[i]
            one.sent = pick((me.holds == i) & (one.sent == "sent"), "acknowledged", one.sent)
        me.holds = -1
        me.at = "idle"
        me.number = 0

    @action(r=receiver)
    def crash(s, r: int) -> None:
        s.require(s.receiver[r].at != "idle")
        s.crash_left.spend()
        s.receiver[r].at = "idle"
        s.receiver[r].holds = -1
        s.receiver[r].number = 0

    # Actions: the lifecycle.

    @action(e=entries, i=item)
    def sweep(s, e: int, i: int) -> None:
        """The next entry, once it is old enough: look at its object as it is."""
        one = s.entry[e]
        s.require(s.cursor == e, e < s.length, one.of == i, one.at + DELAY <= s.clock)
        if ~s.is_skipped(i):
            s.wait(i)
            s.delete(i)
        s.top = most([s.top, s.item[i].mtime])
        s.cursor += 1

    @action(i=item)
    def drain(s, i: int) -> None:
        s.require(s.waiting.has(i), s.is_due(i))
        s.delete(i)
        s.waiting = s.waiting.minus(i)

    @action(i=item)
    def walk(s, i: int) -> None:
        """A walk finds what is due."""
        s.require(s.walks(), s.is_due(i), s.item[i].sent == "lost")
        s.delete(i)

    # Properties.

    def is_ahead(s, i: int) -> Truth:
        return any_of((s.entry[e].of == i) & (s.cursor <= e) & (s.length > e) for e in range(s.entries))

    @invariant(i=item)
    def cursor_honest(s, i: int) -> Truth:
        """An object whose notification was acknowledged is gone, ahead of the cursor, or in the list."""
        is_acknowledged = s.item[i].there & (s.item[i].sent == "acknowledged")
        return implies(is_acknowledged, s.is_ahead(i) | s.waiting.has(i))

    @invariant
    def no_early_delete(s) -> Truth:
        """No object is deleted before it is due."""
        return ~s.early

    @always_recoverable
    def eventually_expired(s) -> Truth:
        """An object that is due is deleted in the end, unless this journal is too short for its entry."""
        is_full = s.length == s.entries
        waits = [s.is_due(i) & ~((s.item[i].sent == "sent") & is_full) for i in range(s.objects)]
        return ~any_of(waits) | (s.clock == s.ticks)

    @invariant(i=item)
    def walked_if_lost(s, i: int) -> Truth:
        """A walk can delete an object whose notification is lost."""
        is_lost = s.is_due(i) & (s.item[i].sent == "lost")
        return implies(is_lost, s.can("walk", i=i))

    @reachable(i=item)
    def twice(s, i: int) -> Truth:
        """A notification can be in the journal twice."""
        return any_of(
            (s.entry[d].of == i) & (s.entry[e].of == i) & (s.length > e)
            for e in range(s.entries)
            for d in range(e)
        )

    @may_end
    def at_the_end(s) -> Truth:
        return s.clock == s.ticks

    # Refinement: what the store shows of the cursor.

    @refines(
        LifecycleObserved,
        {"sweep": lambda s, e, i: does("saved", k=0, n=0, to=s.cursor, past=1, current=1)},
        part=("saved",),
        positions=entries,
        found=1,
    )
    def observed(s, observed: LifecycleObserved) -> dict[str, object]:
        """Every save is one that the protocol of a lifecycle allows for its cursors."""
        return {"stream.position": related(observed.stream[0].position == s.cursor)}

    # Where the checker shows what.

    shown_at = {"walks-go-on": {"lost": 1}}
    fires_at = {"vanish": {"lost": 1}, "walk": {"lost": 1}}
