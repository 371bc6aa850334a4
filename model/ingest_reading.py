"""Reading what was accepted: who sees a batch, and when, while it is indexed and rolled up.

One batch, the rollups of its hour of acceptance, and queries. A query is many requests, and everything may
happen between two of them.

    the batch    none --accept--> accepted --answer--> answered       its collector may die at any time
                 accepted --write_place--> in the index of time; late, if the rollups have passed it
    an owner     idle --take--> took --write_chunk--> wrote --enter--> idle      another may have entered it
    the cursor   before --pass_hour--> behind the hour, which is counted, or marked before
    a query      idle --begin--> cursor, places, marks, chunks --> entries --> listing --> done
    of sums      (four requests find the hours that matter, two count one of them)

The claim is narrow. Points of an agent are read from the manifests, so a query that begins after the 200 has
the batch. All other queries find it by its place in time, which its collector writes after the 200: a query
in between does not have it (`unseen_yet`). A query that begins when the batch has its place, and its mark if
that was late, counts it once, whatever rolls it up meanwhile. No query counts it twice.
"""

from fencepost.model import *
from fencepost.model.ingest_observed import YOUNG, IngestObserved
from fencepost.model.store import restart


class IngestReading(Machine):
    """A batch that is indexed and rolled up, while queries read."""

    # Constants.

    readers = Size(2, most=3, doc="queries of sums, one after another in each process")
    owners = Size(2, least=1, most=2, doc="processes that roll up, by mistake more than one")

    safeguards = {
        "agent-from-manifests": "points of an agent are read from its manifests, and not from an index",
        "uncounted-before-chunks": "the hours with uncounted batches are found before those with chunks",
        "cursor-before-marks": "the cursor of the rollups is read before the marks",
        "mark-before-pass": "an hour that is not counted is marked before the cursor passes it",
        "named-chunks": "only chunks that an entry names are counted",
        "members-excluded": "a batch that an entry names is not read once more",
    }
    symmetric = ("readers", "owners")

    # State: the batch.

    accepted = Bool()
    answered = Bool()
    place = Bool()  # accepted-by-time
    is_late = Bool()  # the rollups had passed its hour before
    collector = Enum("idle", "works", "gone")
    due = Bool()  # ghost: it has its place, and its mark if that was late

    # State: the rollups.

    owner = Role(owners, at=Enum("idle", "took", "wrote"))
    chunk = Flags(owners)  # whose chunks exist
    entry = Id(owners, nobody=True)  # whose chunk the entry names
    passed = Bool()  # the cursor
    marked = Bool()
    is_skipped = Bool()  # the hour could not be counted, and is to be marked

    # State: queries of sums, and of an agent's points.

    reader = Role(
        readers,
        at=Enum("idle", "cursor", "places", "marks", "chunks", "entries", "listing", "done"),
        has_passed=Bool(),  # the cursor as it was read
        has_hour=Bool(),  # the hour is among those that matter
        is_member=Bool(),  # an entry names the batch
        count=Int(0, 2),
        was_due=Bool(),  # ghost: when it began
    )
    missed = Bool()  # ghost: an agent's query that began after the 200 lacks the batch
    unseen = Bool()  # ghost: a query of sums that began after the 200 lacks the batch

    # Definitions: the order of a query.

    def first(s) -> str:
        return "cursor"

    def after_places(s) -> str:
        return "marks"

    def after_marks(s) -> str:
        return "chunks"

    def after_chunks(s) -> str:
        return "entries"

    chunks_first = without("uncounted-before-chunks", replaces=first)(lambda s: "chunks")
    cursor_after_chunks = without("uncounted-before-chunks", replaces=after_chunks)(lambda s: "cursor")
    entries_after_marks = without("uncounted-before-chunks", replaces=after_marks)(lambda s: "entries")
    marks_first = without("cursor-before-marks", replaces=first)(lambda s: "marks")
    cursor_after_marks = without("cursor-before-marks", replaces=after_marks)(lambda s: "cursor")
    chunks_after_places = without("cursor-before-marks", replaces=after_places)(lambda s: "chunks")

    # Actions: the collector, and the repair.

    @action
    def accept(s) -> None:
        s.require(~s.accepted)
        s.accepted = True
        s.collector = "works"

    @action
    def answer(s) -> None:
        s.require(s.collector == "works", ~s.answered)
        s.answered = True

    @action
    def write_place(s) -> None:
        """The collector after the 200, or the reconciler, a receiver or the search in its place."""
        s.require(s.accepted, ~s.place, s.answered | (s.collector == "gone"))
        s.place = True
        s.is_late = s.passed
        s.due = ~s.passed

    @action
    def mark_late(s) -> None:
        s.require(s.place, s.is_late, ~s.due)
        s.marked = True
        s.due = True

    @action
    def die(s) -> None:
        s.require(s.collector == "works")
        s.collector = "gone"

    # Actions: the rollups.

    @action(o=among(owner, at="idle"))
    def take(s, o: int) -> None:
        """List the places and the entries of the hour: the batch is fresh."""
        s.require(s.place, s.entry < 0)
        s.owner[o].at = "took"

    @action(o=among(owner, at="took"))
    def write_chunk(s, o: int) -> None:
        s.chunk = s.chunk.plus(o)
        s.owner[o].at = "wrote"

    @action(o=among(owner, at="wrote"))
    def enter(s, o: int) -> None:
        """Create the entry, unless another owner was first: then its own chunk counts for nothing."""
        s.entry = pick(s.entry < 0, o, s.entry)
        restart(s.owner[o])

    @action(o=among(owner, at=("took", "wrote")))
    def crash(s, o: int) -> None:
        restart(s.owner[o])

    @action
    def pass_hour(s) -> None:
        """The cursor moves on. A batch without a place will be late."""
        s.require(~s.passed, s.may_pass())
        s.passed = True

    def may_pass(s) -> Truth:
        return ~s.place | (s.entry >= 0) | s.marked

    @without("mark-before-pass", replaces=may_pass)
    def may_pass_and_mark_later(s) -> Truth:
        return ~s.place | (s.entry >= 0) | s.marked | s.is_skipped

    @action
    def skip_hour(s) -> None:
        """Another owner was first too often, or a blob cannot be read."""
        s.require(s.place, s.entry < 0, ~s.is_skipped, ~s.passed)
        s.is_skipped = True

    @action
    def mark_skipped(s) -> None:
        s.require(s.is_skipped)
        s.marked = True
        s.is_skipped = False

    @action
    def unmark(s) -> None:
        """The marked hour is counted."""
        s.require(s.marked, s.entry >= 0)
        s.marked = False

    # Actions: a query of sums.

    @action(r=among(reader, at="idle"))
    def begin(s, r: int) -> None:
        me = s.reader[r]
        me.at = s.first()
        me.was_due = s.due

    @action(r=among(reader, at="cursor"))
    def read_cursor(s, r: int) -> None:
        s.reader[r].has_passed = s.passed
        s.reader[r].at = "places"

    @action(r=among(reader, at="places"))
    def list_places(s, r: int) -> None:
        """Behind the cursor as it was read."""
        me = s.reader[r]
        me.has_hour |= s.place & ~me.has_passed
        me.at = s.after_places()

    @action(r=among(reader, at="marks"))
    def list_marks(s, r: int) -> None:
        s.reader[r].has_hour |= s.marked
        s.reader[r].at = s.after_marks()

    @action(r=among(reader, at="chunks"))
    def list_chunks(s, r: int) -> None:
        s.reader[r].has_hour |= ~s.chunk.is_empty()
        s.reader[r].at = s.after_chunks()

    @action(r=among(reader, at="entries"))
    def read_entries(s, r: int) -> None:
        me = s.reader[r]
        if me.has_hour:
            me.is_member = s.is_excluded()
            me.count += s.named_chunks()
        me.at = "listing"

    def is_excluded(s) -> Truth:
        return s.entry >= 0

    includes_members = without("members-excluded", replaces=is_excluded)(lambda s: False)

    def named_chunks(s) -> Number:
        """The number of counted chunks that have the batch."""
        return pick(s.entry >= 0, 1, 0)

    any_chunks = without("named-chunks", replaces=named_chunks)(lambda s: s.chunk.size())

    @action(r=among(reader, at="listing"))
    def list_hour(s, r: int) -> None:
        """Read the frames of batches that no entry named."""
        me = s.reader[r]
        if me.has_hour & s.place & ~me.is_member & (me.count < 2):
            me.count += 1
        me.at = "done"

    @action(r=among(reader, at="done"))
    def end(s, r: int) -> None:
        restart(s.reader[r])

    # Actions: queries that are one listing.

    @action
    def read_agent(s) -> None:
        """The points of the agent, after the 200."""
        s.require(s.answered)
        s.missed |= ~s.is_found()

    def is_found(s) -> Truth:
        return s.accepted

    from_places = without("agent-from-manifests", replaces=is_found)(lambda s: s.place)

    @action
    def read_points(s) -> None:
        """The points of all agents, after the 200: by places in time."""
        s.require(s.answered)
        s.unseen |= ~s.place

    # Properties.

    @invariant
    def seen_by_agent(s) -> Truth:
        """A query of the agent's points that begins after the 200 has the batch, in whatever process."""
        return ~s.missed

    @invariant(r=reader)
    def counted_once(s, r: int) -> Truth:
        """A query that begins when the batch has its place, and its mark if that was late, counts it once."""
        me = s.reader[r]
        return implies((me.at == "done") & me.was_due, me.count == 1)

    @invariant(r=reader)
    def never_twice(s, r: int) -> Truth:
        """No query counts the batch twice."""
        return s.reader[r].count < 2

    @invariant(r=reader)
    def nothing_early(s, r: int) -> Truth:
        """No query counts a batch that is not accepted."""
        return implies(s.reader[r].count > 0, s.accepted)

    @reachable
    def unseen_yet(s) -> Truth:
        """After the 200 a query by places in time may lack the batch: nothing more is claimed."""
        return s.unseen

    @reachable(r=reader)
    def counted_from_its_frame(s, r: int) -> Truth:
        """A query can count the batch from its frame though it is entered by the end."""
        me = s.reader[r]
        return (me.at == "done") & ~me.is_member & (me.count == 1) & (s.entry >= 0)

    @always_recoverable
    def rolled_up(s) -> Truth:
        """An accepted batch can always still be rolled up."""
        return implies(s.accepted, s.entry >= 0)

    # Refinement: what the store shows.

    def shows_acceptance(s) -> list[Does]:
        return [does("blob_stands", h=0, generation=YOUNG), does("accepted", h=0, generation=YOUNG)]

    @refines(
        IngestObserved,
        {"accept": shows_acceptance, "write_place": lambda s: does("indexed", entry="listing")},
        part=("blob_stands", "accepted", "indexed"),
        contents=1,
    )
    def observed(s, observed: IngestObserved) -> dict[str, object]:
        """Every index object that is written is one that the protocol allows."""
        return {
            "manifest": related(observed.manifest.is_there == s.accepted),
            "derived": related(observed.derived["listing"] == s.place),
        }
