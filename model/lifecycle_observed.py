"""A lifecycle as its store shows it: cursors, the records of buckets, what cannot be worked on.

No request shows which object a worker looked at, nor what it found. The store shows the documents that the
workers write, each by compare-and-swap, and this machine is the protocol in terms of them. The machines that
model what a worker does refine it, each the part that it has:

    lifecycle             the cursors of all passes, and the record of the bucket, while rules change
    lifecycle-seeding     the cursors and the record of one action: it begins, loses its log, begins anew
    lifecycle-blockers    positions, counted failures, blockers, and what an operator does
    cursor                the position of one cursor: saves and rewinds

A stream has a position of its own: a cursor, the walk of a bucket, a pending list.

    a cursor       absent --created--> there --saved, rewound, named, forgot, fenced--> there --removed--> ...
    a bucket       idle --walk_began--> walks --walk_went_on--> walks --walk_ended--> idle --demoted--> idle
    an item        fine --counted--> failing --blocked--> waits --given_up--> waits --unblocked--> fine
                                     failing --cleared--> fine

Every write of a cursor but `saved` begins a new generation of it: a pass that began before saves nothing any
more. An action names a cursor, and so events of the cursor's shard are looked at for it, only after a walk.
"""

from fencepost.model import *


class LifecycleObserved(Machine):
    """The documents of a lifecycle, as its workers and operators write them."""

    # Constants.

    streams = Size(1, most=20, doc="cursors, walks and pending lists")
    positions = Size(2, most=10, doc="positions of a cursor, beside the one before all")
    names = Size(1, most=6, doc="actions that are counted one by one: this number stands for more")
    buckets = Size(1, most=3, doc="buckets, each with one record")
    times = Size(2, least=0, most=6, doc="times at which a walk can begin, beside the first")
    tries = Size(1, most=4, doc="failures that are counted one by one: this number stands for more")
    found = Size(
        0, least=0, most=2, doc="what is there when a run begins: 1 for cursors, 2 also for driven actions"
    )

    # State: the streams.

    stream = Role(
        streams,
        present=Bool(),  # the cursor is there
        position=Int(0, positions),
        serves=Int(0, names),  # the number of actions that the cursor names
        failures=Int(0, tries),  # counted, of one item
        waits=Bool(),  # the item has a blocker
        item=Int(0, positions),  # the position of the blocked item
    )

    # State: the records of buckets.

    bucket = Role(
        buckets,
        walks=Bool(),
        beginning=Int(0, names),  # the number of actions that are complete when the walk ends
        driven=Int(0, names),  # the number of actions that events drive
        seeded=Bool(),  # a cursor was moved back since the walk began
    )
    ever = Bool()  # some action began with a walk
    latest = Int(0, times)  # the latest beginning of a walk

    @initial
    def found_at_first(s) -> None:
        for k in range(s.streams):
            s.stream[k].present = s.found > 0
            s.stream[k].serves = anything() if s.found > 1 else 0
        for b in range(s.buckets):
            s.bucket[b].driven = anything() if s.found > 1 else 0
        s.ever = s.found > 1

    # Definitions.

    def require_cursor(s, k: int, *conditions: Truth) -> None:
        """The cursor is there, and meets the conditions."""
        s.require(s.stream[k].present, *conditions)

    def require_record(s, b: int, condition: Truth) -> None:
        """The record of the bucket meets the condition."""
        s.require(condition)

    def require_before(s, condition: Truth) -> None:
        """An earlier write of another document has made the condition true."""
        s.require(condition)

    def move(s, k: int, to: int) -> None:
        s.stream[k].position = to

    def is_later(s, flag: int, one: Number, other: int) -> Truth | bool:
        """The flag of the label is right: it states that `other` is later than `one`."""
        return (one < other) == (flag > 0)

    def is_driven(s) -> Truth:
        """Events drive some action."""
        return any_of(s.bucket[b].driven > 0 for b in range(s.buckets))

    def note_seeding(s) -> None:
        for b in range(s.buckets):
            s.bucket[b].seeded = s.bucket[b].seeded | s.bucket[b].walks

    # Actions: a cursor. Each but `saved` begins a new generation.

    @action(k=streams, n=names, to=positions + 1, late=(0, 1))
    def created(s, k: int, n: int, to: int, late: int) -> None:
        """A cursor that names n + 1 actions, which begin; or one of a new shard, for actions that are driven.

        `late`: its position is later than the beginning of every walk, less the delay.
        """
        s.require(~s.stream[k].present)
        s.require(s.is_later(late, s.latest, to))
        s.require_before(s.ever)
        s.require_before((late == 0) | s.is_driven())
        s.stream[k].present = True
        s.stream[k].serves = n + 1
        s.move(k, to)
        s.note_seeding()

    @action(k=streams, n=names, to=positions + 1, late=(0,))
    def named(s, k: int, n: int, to: int, late: int) -> None:
        """It is moved back for actions that begin, and names n + 1 with them. The others stay.

        `late`: its position is never later than the beginning of every walk, less the delay.
        """
        is_added = (s.stream[k].serves < n + 1) | ((s.stream[k].serves == n + 1) & (n + 1 == s.names))
        s.require_cursor(k, is_added, to <= s.stream[k].position)
        s.require(s.is_later(late, s.latest, to))
        s.require_before(s.ever)
        s.stream[k].present = True
        s.stream[k].serves = n + 1
        s.move(k, to)
        s.note_seeding()

    @action(k=streams, n=names + 1, to=positions + 1)
    def rewound(s, k: int, n: int, to: int) -> None:
        """It is moved back, or stays, for the actions that it names."""
        s.require_cursor(k, s.stream[k].serves == n, to <= s.stream[k].position)
        s.stream[k].present = True
        s.stream[k].serves = n
        s.move(k, to)
        s.note_seeding()

    @action(k=streams, n=names + 1)
    def forgot(s, k: int, n: int) -> None:
        """It names fewer actions, and stays where it is."""
        is_fewer = (s.stream[k].serves > n) | ((s.stream[k].serves == n) & (n == s.names))
        s.require_cursor(k, is_fewer)
        s.stream[k].present = True
        s.stream[k].serves = n

    @action(k=streams, n=names + 1)
    def fenced(s, k: int, n: int) -> None:
        """A worker with a newer lease takes it over: the epoch of its lease is in the cursor from now on."""
        s.require_cursor(k, s.stream[k].serves == n)
        s.stream[k].present = True
        s.stream[k].serves = n

    @action(k=streams, n=names + 1, to=positions, past=(0, 1), current=(1,))
    def saved(s, k: int, n: int, to: int, past: int, current: int) -> None:
        """A pass has finished everything up to a further position, to + 1.

        `current`: the pass has the generation and the epoch of the cursor. `past`: it has passed the position
        of the item that has a blocker.
        """
        s.require_cursor(k, s.stream[k].serves == n, to + 1 > s.stream[k].position)
        s.require(s.is_later(past, s.stream[k].item, to + 1))
        s.require(~s.stream[k].waits | (past == 0))
        s.stream[k].present = True
        s.stream[k].serves = n
        s.move(k, to + 1)

    @action(k=streams)
    def removed(s, k: int) -> None:
        """Its shard has vanished, and nothing was left for it; or an operator has accepted the loss."""
        s.require_cursor(k)
        s.stream[k].present = False
        s.stream[k].serves = 0
        s.stream[k].position = 0

    # Actions: the record of a bucket.

    @action(b=buckets, n=names + 1, d=names + 1, at=times + 1)
    def walk_began(s, b: int, n: int, d: int, at: int) -> None:
        """Or it began anew. Actions whose rules are gone are driven no more."""
        s.require_record(b, s.bucket[b].driven >= d)
        s.bucket[b].walks = True
        s.bucket[b].beginning = n
        s.bucket[b].driven = d
        s.bucket[b].seeded = False
        s.ever = s.ever | (n > 0)
        s.latest = most([s.latest, at])

    @action(b=buckets, n=names + 1, d=names + 1)
    def walk_went_on(s, b: int, n: int, d: int) -> None:
        """Some more keys are done; or an action is gone, or is left to scans."""
        s.require_record(b, s.bucket[b].walks & (s.bucket[b].beginning >= n) & (s.bucket[b].driven >= d))
        s.bucket[b].walks = True
        s.bucket[b].beginning = n
        s.bucket[b].driven = d

    @action(b=buckets, d=names + 1)
    def walk_ended(s, b: int, d: int) -> None:
        """Its actions are driven by events, which needs a cursor that was moved back, or left to scans."""
        is_seeded = s.bucket[b].seeded | (s.bucket[b].driven >= d)
        s.require_record(b, s.bucket[b].walks & (s.bucket[b].driven + s.bucket[b].beginning >= d) & is_seeded)
        s.bucket[b].walks = False
        s.bucket[b].beginning = 0
        s.bucket[b].driven = d

    @action(b=buckets, d=names + 1)
    def demoted(s, b: int, d: int) -> None:
        """An action is left to scans; or something else is recorded, such as a pause."""
        s.require_record(b, ~s.bucket[b].walks & (s.bucket[b].driven >= d))
        s.bucket[b].walks = False
        s.bucket[b].driven = d

    # Actions: what cannot be worked on.

    @action(k=streams, first=(0, 1))
    def counted(s, k: int, first: int) -> None:
        """The first failure of an item, or one more of the same."""
        s.require_before((s.stream[k].failures > 0) | (first > 0))
        s.stream[k].failures = 1 if first else least([s.stream[k].failures + 1, s.tries])

    @action(k=streams)
    def cleared(s, k: int) -> None:
        """The item succeeded, or has a blocker now, or an operator began its count anew."""
        s.stream[k].failures = 0

    @action(k=streams, at=positions + 1)
    def blocked(s, k: int, at: int) -> None:
        """The item has failed too often; or an operator has tried it in vain."""
        s.require_before((s.stream[k].failures > 0) | s.stream[k].waits)
        s.stream[k].waits = True
        s.stream[k].item = at

    @action(k=streams)
    def unblocked(s, k: int) -> None:
        s.stream[k].waits = False
        s.stream[k].item = 0

    @action(k=streams)
    def given_up(s, k: int) -> None:
        """An operator gives up the item that has a blocker: the only way past it but a success."""
        s.require_before(s.stream[k].waits)

    # Properties.

    @invariant(k=streams)
    def named_by_walks(s, k: int) -> Truth:
        """A cursor names actions only after a walk with which some began."""
        return (s.stream[k].serves == 0) | s.ever

    @step(k=streams)
    def seed_before_activate(before, after: "LifecycleObserved", k: int) -> Truth:
        """A cursor that begins to name an action is not past the beginning of every walk, less the delay."""
        begins = before.stream[k].present & (after.stream[k].serves > before.stream[k].serves)
        return implies(begins, after.stream[k].position <= after.latest)

    @step(b=buckets)
    def driven_by_walks(before, after: "LifecycleObserved", b: int) -> Truth:
        """Events begin to drive an action only when a walk ends that moved a cursor back."""
        begins = after.bucket[b].driven > before.bucket[b].driven
        return implies(begins, before.bucket[b].walks & before.bucket[b].seeded & ~after.bucket[b].walks)

    @step(k=streams)
    def blocker_stands(before, after: "LifecycleObserved", k: int) -> Truth:
        """A stream goes on behind a blocker only when an operator removes it."""
        goes_on = before.stream[k].present & (after.stream[k].position > before.stream[k].position)
        return implies(before.stream[k].waits & goes_on, after.stream[k].position <= before.stream[k].item)

    @step(k=streams)
    def blocked_for_cause(before, after: "LifecycleObserved", k: int) -> Truth:
        """An event has a blocker only if it failed."""
        return implies(after.stream[k].waits & ~before.stream[k].waits, before.stream[k].failures > 0)

    @reachable(b=buckets)
    def activated(s, b: int) -> Truth:
        """Events can drive an action."""
        return (s.bucket[b].driven > 0) & ~s.bucket[b].walks

    @reachable(k=streams)
    def blocked_further_on(s, k: int) -> Truth:
        """A stream can be blocked after it has made progress."""
        return all_of([s.stream[k].waits, s.stream[k].position > 0])
