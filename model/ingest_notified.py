"""Notifications of accepted batches: what may be promised over events that come at least once, in any order.

The store of a deployment sends a notification for each manifest that is created, again until it is
acknowledged, late, in no order, or never. A receiver writes the index objects of the batch, and acknowledges
the notification then. So receivers need no journal and no cursor of their own: what is not acknowledged comes
again, and every write is one that any process may repeat. (A log with an order, such as the change log of an
object server, has a cursor besides, which is `model/cursor.py`: it passes an entry only once the batch is
repaired.)

The rollups are what makes a late notification dangerous. Their cursor passes places in time, and a place that
is written behind it is never listed again. So who writes a place more than the overlap after its time, or
finds one there, marks the hour.

    a notification   none --accept--> sent --receive, repair, settle, acknowledge--> acknowledged
                     sent --vanish--> lost            the source gives up (`lost`)
    a receiver       idle --receive--> holds --repair--> repaired --settle--> settled --acknowledge--> idle
                     any --crash--> idle              the notification comes again
    the collector    idle --accept--> follows --follow_up--> gone, or --die--> gone
    the rollups      idle --begin_pass--> begun --list_places--> listed --save_pass--> idle
    the search       idle --begin_search--> searches --end_search--> idle

The promise of notifications: the batch of an acknowledged one has its index objects, and is counted, or will
be. They cannot promise that every batch was notified. So the search of all manifests goes on, and it
bounds the time: a batch has its index objects `EVERY + LENGTH` after it was accepted, whatever is lost.

One batch: what others do to it is that the cursor of the rollups moves on, which it may do at any time.
"""

from fencepost.model import *
from fencepost.model.ingest_observed import YOUNG, IngestObserved
from fencepost.model.store import Budget

OVERLAP = 1
"""Ticks before its cursor at which a pass of the rollups begins."""
EVERY = 2
"""Ticks between the beginnings of two searches."""
LENGTH = 1
"""Ticks that a search takes at most."""
SETTLED = 1
"""Ticks that a collector has for the indexes of a batch before a search checks it."""


class IngestNotified(Machine):
    """A source of notifications, receivers that write indexes, the rollups, the search of all manifests."""

    # Constants.

    receivers = Size(2, most=3, doc="processes that receive notifications")
    ticks = Size(4, most=8, doc="how far the clock goes")
    crashes = Size(1, least=0, most=2, doc="crashes of receivers in one run")
    lost = Size(1, least=0, most=1, doc="notifications that the source gives up")

    safeguards = {
        "repair-before-acknowledge": "the index objects exist before the notification is acknowledged",
        "mark-late": "the hour of a batch whose place in time is late is marked for the rollups",
        "mark-what-exists": "so is that of a place that exists: its writer may have died before the mark",
        "search-late-places": "the search takes a place that was written late for none",
        "cursor-overlap": "a pass of the rollups begins before its cursor",
    }
    assumptions = {
        "searches-go-on": "some process searches all manifests, at its intervals, whatever is notified",
    }
    symmetric = ("receivers",)

    # State: the batch.

    clock = Int(0, ticks)
    accepted = Bool()
    stamp = Int(0, ticks)  # when it was accepted
    place = Bool()  # accepted-by-time
    is_behind = Bool()  # that was written late
    reference = Bool()  # accepted-by-blob
    collector = Enum("idle", "follows", "gone")
    sent = Enum("none", "sent", "acknowledged", "lost")

    # State: receivers.

    receiver = Role(
        receivers,
        at=Enum("idle", "holds", "repaired", "settled"),
        wrote=Bool(),  # it has written the place itself
    )
    crash_left = Budget(crashes)
    lost_left = Budget(lost)

    # State: the rollups.

    rollups = Enum("idle", "begun", "listed")
    began = Int(0, ticks)  # the present pass
    cursor = Int(0, ticks + 1)  # earlier places are passed
    marked = Bool()  # the hour, in the queue
    counted = Bool()

    # State: the search.

    searches = Bool()
    searched = Int(0, ticks)  # when the last search began
    sees_place = Bool()  # the present search has found a place that was written in time
    covered = Int(0, ticks)  # everything accepted before is covered by a search that ended

    # Definitions.

    def is_late(s) -> Truth:
        """A pass of the rollups may have gone by before the place was written."""
        return s.clock >= s.stamp + OVERLAP

    def overlap(s) -> Number:
        return s.clock * 0 + OVERLAP

    no_overlap = without("cursor-overlap", replaces=overlap)(lambda s: s.clock * 0)

    def write_indexes(s) -> None:
        s.is_behind |= ~s.place & s.is_late()
        s.place = True
        s.reference = True

    # Actions: the collector, the source, time.

    @action
    def accept(s) -> None:
        s.require(~s.accepted)
        s.accepted = True
        s.stamp = s.clock
        s.collector = "follows"
        s.sent = "sent"

    @action
    def follow_up(s) -> None:
        """At any time: a collector may be slow, and it marks nothing."""
        s.require(s.collector == "follows")
        s.write_indexes()
        s.collector = "gone"

    @action
    def die(s) -> None:
        s.require(s.collector == "follows")
        s.collector = "gone"

    @action
    def vanish(s) -> None:
        s.require(s.sent == "sent")
        s.lost_left.spend()
        s.sent = "lost"

    @action
    def time_passes(s) -> None:
        s.require(s.clock < s.ticks, s.is_searched_in_time())
        s.clock += 1

    def is_searched_in_time(s) -> Truth:
        """No search is overdue, neither its beginning nor its end."""
        is_begun = s.searches | (s.clock < s.due())
        return is_begun & (~s.searches | (s.clock < s.searched + LENGTH))

    def due(s) -> Number:
        """When the next search begins."""
        return least([s.searched + EVERY, s.ticks])

    never_searched = without("searches-go-on", replaces=is_searched_in_time)(lambda s: True)

    # Actions: a receiver.

    @action(r=among(receiver, at="idle"))
    def receive(s, r: int) -> None:
        """Others may receive it too: it is sent until it is acknowledged."""
        s.require(s.may_receive())
        s.receiver[r].at = "holds"

    def may_receive(s) -> Truth:
        return s.sent == "sent"

    @action(r=among(receiver, at="holds"))
    def repair(s, r: int) -> None:
        """Write the index objects that are missing."""
        me = s.receiver[r]
        me.wrote = ~s.place
        s.write_indexes()
        me.at = "repaired"

    @action(r=among(receiver, at="repaired"))
    def settle(s, r: int) -> None:
        """Mark the hour of a late batch."""
        s.marked |= s.has_to_mark(r)
        s.receiver[r].at = "settled"

    def has_to_mark(s, r: int) -> Truth:
        return s.is_late()

    never_marks = without("mark-late", replaces=has_to_mark)(lambda s, r: False)
    marks_its_own = without("mark-what-exists", replaces=has_to_mark)(
        lambda s, r: s.is_late() & s.receiver[r].wrote
    )

    @action(r=receiver)
    def acknowledge(s, r: int) -> None:
        me = s.receiver[r]
        s.require(s.may_acknowledge(r))
        s.sent = pick(s.sent == "sent", "acknowledged", s.sent)
        me.at = "idle"
        me.wrote = False

    def may_acknowledge(s, r: int) -> Truth:
        return s.receiver[r].at == "settled"

    @without("repair-before-acknowledge", replaces=may_acknowledge)
    def may_acknowledge_at_once(s, r: int) -> Truth:
        return s.receiver[r].at == "holds"

    @action(r=receiver)
    def crash(s, r: int) -> None:
        s.require(s.receiver[r].at != "idle")
        s.crash_left.spend()
        s.receiver[r].at = "idle"
        s.receiver[r].wrote = False

    # Actions: the rollups.

    @action
    def begin_pass(s) -> None:
        s.require(s.rollups == "idle")
        s.rollups = "begun"
        s.began = s.clock

    @action
    def list_places(s) -> None:
        """Count what is listed, from an overlap before the cursor on."""
        s.require(s.rollups == "begun")
        s.counted |= s.is_ahead()
        s.rollups = "listed"

    @action
    def save_pass(s) -> None:
        """Never past the beginning of the pass, however long that takes."""
        s.require(s.rollups == "listed")
        s.cursor = s.began + 1
        s.rollups = "idle"

    @action
    def roll_marked(s) -> None:
        """The batches of a marked hour; the mark goes in the version that was read before."""
        s.require(s.marked)
        s.counted |= s.place
        s.marked = False

    # Actions: the search.

    @action
    def begin_search(s) -> None:
        """Read the places in time, before the manifests."""
        s.require(~s.searches, s.clock >= s.due())
        s.searches = True
        s.searched = s.clock
        s.sees_place = s.place & s.is_in_time()

    def is_in_time(s) -> Truth:
        """The place was written before a pass of the rollups could have gone by."""
        return ~s.is_behind

    any_place = without("search-late-places", replaces=is_in_time)(lambda s: True)

    @action
    def end_search(s) -> None:
        """Repair manifests stored since the last search that have no place in time; mark their hours."""
        s.require(s.searches)
        is_covered = s.accepted & (s.stamp < s.searched)
        if is_covered & ~s.sees_place & (s.stamp + SETTLED >= s.covered):
            s.write_indexes()
            s.marked = True
        s.covered = s.searched
        s.searches = False

    # Properties.

    def is_indexed(s) -> Truth:
        return s.place & s.reference

    def is_ahead(s) -> Truth:
        """The next pass of the rollups lists the place; so does the present one, or it moves no further."""
        return s.place & (s.stamp + s.overlap() >= s.cursor)

    @invariant
    def acknowledged_repaired(s) -> Truth:
        """The batch of an acknowledged notification has its index objects."""
        return implies(s.sent == "acknowledged", s.is_indexed())

    @invariant
    def acknowledged_counted(s) -> Truth:
        """The batch of an acknowledged notification is counted, ahead of the rollups, or marked."""
        return implies(s.sent == "acknowledged", s.counted | s.marked | s.is_ahead())

    @invariant
    def bounded_search(s) -> Truth:
        """Whatever is lost, a batch has its index objects an interval and a search after its acceptance."""
        return implies(s.accepted & (s.clock > s.stamp + EVERY + LENGTH), s.is_indexed())

    @always_recoverable
    def counted_in_the_end(s) -> Truth:
        """Every accepted batch is indexed and counted in the end, if a search can still come."""
        return implies(s.accepted & (s.stamp < s.ticks), s.is_indexed() & s.counted)

    @reachable
    def twice(s) -> Truth:
        """Two receivers can work on one notification."""
        return all_of(me.at != "idle" for me in s.receiver)

    @reachable
    def late(s) -> Truth:
        """A batch can be counted by the mark of its hour, behind the cursor of the rollups."""
        return s.counted & ~s.is_ahead() & (s.sent == "acknowledged") & ~s.marked

    @may_end
    def at_the_end(s) -> Truth:
        return s.clock == s.ticks

    # Refinement: what the store shows.

    def shows_acceptance(s) -> list[Does]:
        return [does("blob_stands", h=0, generation=YOUNG), does("accepted", h=0, generation=YOUNG)]

    def shows_indexes(before, after: "IngestNotified") -> list[Does]:
        return [
            does("indexed", entry="listing", when=after.place & ~before.place),
            does("indexed", entry="reference", when=after.reference & ~before.reference),
        ]

    @refines(
        IngestObserved,
        {
            "accept": shows_acceptance,
            "follow_up": shows_indexes,
            "repair": shows_indexes,
            "end_search": shows_indexes,
        },
        part=("blob_stands", "accepted", "indexed"),
        contents=1,
    )
    def observed(s, observed: IngestObserved) -> dict[str, object]:
        """Every index object that is written is one that the protocol allows."""
        return {
            "manifest": related(observed.manifest.is_there == s.accepted),
            "derived": related(
                (observed.derived["listing"] == s.place) & (observed.derived["reference"] == s.reference)
            ),
        }

    # Where the checker shows what.

    shown_at = {switch: {"receivers": 1} for switch in ("mark-late", "mark-what-exists", "cursor-overlap")}
