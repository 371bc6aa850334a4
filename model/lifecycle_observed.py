"""A lifecycle as its store shows it: cursors, the records of buckets, what cannot be worked on.

No request shows which object a worker looked at, nor what it found. The store shows the documents that the
workers write, each by compare-and-swap. This machine is the specification in these terms. The machines that
decide refine it, each the part that is its own; replay and the audits judge runs by it:

    cursor                the position of one cursor: saves and rewinds
    lifecycle             the cursors of all passes, and the record of the bucket, while rules and leases change
    lifecycle-seeding     the cursors and the record of one action that begins, is left to scans, begins anew
    lifecycle-blockers    positions, counted failures, blockers and what an operator does

A stream has a position of its own: a cursor, the walk of a bucket, a pending list.

    a cursor        absent --created--> names actions --saved, rewound, named, forgot, fenced--> ... --removed-->
    a bucket        no walk --walk_began--> walk --walk_went_on--> walk --walk_ended--> no walk --demoted--> no walk
    a failure       none --counted--> counted --blocked--> waits for an operator --unblocked, given_up--> none

Every write of a cursor but `saved` begins a new generation of it. A trace shows whether it did, and whether the
epoch of the writer's lease is the one in the cursor: the refinement map reads the actions from that.

`relative=1` is the machine for traces. Positions rise without end, so a trace shows only how one compares with
the last one of its cursor. There every position is named anew after each write: the last one is 1, what is
before it is 0, what is beyond it is 2. Guards compare positions with the last one only, so they allow the same.
"""

from fencepost.model import *


class LifecycleObserved(Machine):
    """The documents of a lifecycle, and the writes that its workers and operators make."""

    # Constants.
    streams = Size(1, most=20, doc="cursors, walks and pending lists")
    positions = Size(2, least=2, most=8, doc="positions of a cursor, beside the one before all")
    names = Size(1, most=6, doc="actions that are counted one by one: this number stands for more")
    buckets = Size(1, most=3, doc="buckets, each with one record")
    times = Size(1, least=0, most=6, doc="times at which a walk can begin, beside the first")
    tries = Size(1, most=4, doc="failures that are counted one by one: this number stands for more")
    found = Size(0, least=0, most=1, doc="whether the cursors are there from the beginning: 1 or 0")
    relative = Size(0, least=0, most=1, doc="whether positions are relative to the last one: 1 or 0")

    # State: a stream.
    present = Each(streams, Bool())
    position = Each(streams, Int(0, positions))
    serves = Each(streams, Int(0, names))  # the number of actions that the cursor names
    failures = Each(streams, Int(0, tries))  # counted, of one item
    waits = Each(streams, Bool())  # has a blocker
    item = Each(streams, Int(0, positions))  # the position of the blocked item

    # State: the record of a bucket.
    walks = Each(buckets, Bool())
    beginning = Each(buckets, Int(0, names))  # the number of actions that are complete when the walk ends
    driven = Each(buckets, Int(0, names))  # the number of actions that events drive
    seeded = Each(buckets, Bool())  # a cursor was moved back since the walk began
    ever = Bool()  # some action began with a walk
    latest = Int(0, times)  # the latest beginning of a walk

    # State: a part of a run, which began when the lifecycle was there.
    midway = Bool()  # documents that the part has not shown may have any content
    shown = Each(buckets, Bool())  # the record was written in this part

    @initial
    def cursors_found(s) -> None:
        for k in range(s.streams):
            s.present[k] = s.found > 0

    # Definitions.
    def is_unknown(s, k: int) -> Truth:
        return s.midway & ~s.present[k]

    def is_known(s, k: int) -> Truth:
        return s.present[k] | s.midway

    def place(s, k: int, to: int) -> None:
        s.position[k] = 1 if s.relative else to

    def is_right(s, flag: int, condition: Truth) -> Truth:
        """The flag of a label equals the condition; positions that are relative do not show it."""
        return condition == (flag > 0) if not s.relative else s.midway | ~s.midway

    def count_as_seeded(s) -> None:
        for b in range(s.buckets):
            s.seeded[b] = s.seeded[b] | s.walks[b]

    # Actions: a cursor.
    @action(k=streams, n=names + 1, to=positions + 1, late=(0, 1))
    def created(s, k: int, n: int, to: int, late: int) -> None:
        """For actions that begin, or because a new shard needs it. `late`: after the latest beginning of a walk."""
        s.require(~s.present[k], n > 0)
        s.require(s.ever | s.midway)
        s.require(s.is_right(late, s.latest < to))
        s.require((late == 0) | any_of(s.driven[b] > 0 for b in range(s.buckets)) | s.midway)
        s.present[k] = True
        s.serves[k] = n
        s.place(k, to)
        s.count_as_seeded()

    @action(k=streams, n=names + 1, to=positions + 1, late=(0, 1))
    def named(s, k: int, n: int, to: int, late: int) -> None:
        """Moved back for actions that begin, which it names from now on; the others stay."""
        s.require(s.is_known(k), n > 0)
        s.require((s.serves[k] < n) | (n == s.names) | s.is_unknown(k))
        s.require((to <= s.position[k]) | s.is_unknown(k))
        s.require(s.ever | s.midway)
        s.require(s.is_right(late, s.latest < to))
        s.require((late == 0) | s.midway)
        s.present[k] = True
        s.serves[k] = n
        s.place(k, to)
        s.count_as_seeded()

    @action(k=streams, n=names + 1, to=positions + 1)
    def rewound(s, k: int, n: int, to: int) -> None:
        """Moved back for what it names already, or not at all."""
        s.require(s.is_known(k))
        s.require((s.serves[k] == n) | s.is_unknown(k))
        s.require((to <= s.position[k]) | s.is_unknown(k))
        s.present[k] = True
        s.serves[k] = n
        s.place(k, to)
        s.count_as_seeded()

    @action(k=streams, n=names + 1)
    def forgot(s, k: int, n: int) -> None:
        """It names fewer actions, and stays where it is."""
        s.require(s.is_known(k))
        s.require((s.serves[k] > n) | ((s.serves[k] == n) & (n == s.names)) | s.is_unknown(k))
        s.present[k] = True
        s.serves[k] = n

    @action(k=streams, n=names + 1)
    def fenced(s, k: int, n: int) -> None:
        """A worker of a higher epoch takes it over."""
        s.require(s.is_known(k))
        s.require((s.serves[k] == n) | s.is_unknown(k))
        s.present[k] = True
        s.serves[k] = n

    @action(k=streams, n=names + 1, to=positions + 1, past=(0, 1), current=(1,))
    def saved(s, k: int, n: int, to: int, past: int, current: int) -> None:
        """Moved on by a reader of its generation and its epoch (`current`). `past`: beyond the last blocked item."""
        s.require(s.is_known(k))
        s.require((s.serves[k] == n) | s.is_unknown(k))
        s.require((to > s.position[k]) | s.is_unknown(k))
        s.require(s.is_right(past, s.item[k] < to))
        s.require(~s.waits[k] | (past == 0))
        s.present[k] = True
        s.serves[k] = n
        s.place(k, to)

    @action(k=streams)
    def removed(s, k: int) -> None:
        """Its shard has vanished, and nothing was left for it, or an operator accepted the loss."""
        s.require(s.is_known(k))
        s.present[k] = False
        s.serves[k] = 0
        s.position[k] = 0

    # Actions: the record of a bucket.
    def write_record(s, b: int, is_allowed: Truth) -> None:
        s.require(is_allowed | (s.midway & ~s.shown[b]))
        s.shown[b] = s.midway

    @action(b=buckets, n=names + 1, d=names + 1, at=times + 1)
    def walk_began(s, b: int, n: int, d: int, at: int) -> None:
        """Or began anew. Actions whose rules are gone are driven no more."""
        s.write_record(b, s.driven[b] >= d)
        s.walks[b] = True
        s.beginning[b] = n
        s.driven[b] = d
        s.seeded[b] = False
        s.ever = s.ever | (n > 0)
        s.latest = most([s.latest, at])

    @action(b=buckets, n=names + 1, d=names + 1)
    def walk_went_on(s, b: int, n: int, d: int) -> None:
        """Some keys more are done; or an action is gone, or is left to scans."""
        s.write_record(b, s.walks[b] & (s.beginning[b] >= n) & (s.driven[b] >= d))
        s.walks[b] = True
        s.beginning[b] = n
        s.driven[b] = d

    @action(b=buckets, d=names + 1)
    def walk_ended(s, b: int, d: int) -> None:
        """Actions of the walk are driven by events if a cursor was moved back for them, or left to scans."""
        is_seeded = (s.driven[b] >= d) | s.seeded[b]
        s.write_record(b, s.walks[b] & (s.driven[b] + s.beginning[b] >= d) & is_seeded)
        s.walks[b] = False
        s.beginning[b] = 0
        s.driven[b] = d

    @action(b=buckets, d=names + 1)
    def demoted(s, b: int, d: int) -> None:
        """An action is left to scans; or something else was recorded."""
        s.write_record(b, ~s.walks[b] & (s.driven[b] >= d))
        s.driven[b] = d

    # Actions: what cannot be worked on.
    @action(k=streams, first=(0, 1))
    def counted(s, k: int, first: int) -> None:
        """The first failure of an item, or one more of the same."""
        s.require((first > 0) | (s.failures[k] > 0) | s.midway)
        s.failures[k] = 1 if first else least([s.failures[k] + 1, s.tries])

    @action(k=streams)
    def cleared(s, k: int) -> None:
        """The item succeeded, or became a blocker, or an operator did something."""
        s.failures[k] = 0

    @action(k=streams, at=positions + 1)
    def blocked(s, k: int, at: int) -> None:
        """After its item has failed; or an operator tried it, in vain."""
        s.require((s.failures[k] > 0) | s.waits[k] | s.midway)
        s.waits[k] = True
        s.item[k] = 0 if s.relative else at

    @action(k=streams)
    def unblocked(s, k: int) -> None:
        s.waits[k] = False
        s.item[k] = 0

    @action(k=streams)
    def given_up(s, k: int) -> None:
        """By an operator, of what waits for one."""
        s.require(s.waits[k] | s.midway)

    # Actions: a part of a run.
    @action
    def begin_midway(s) -> None:
        """The part begins here: nothing was written yet."""
        s.require(~s.midway, ~s.ever)
        for b in range(s.buckets):
            s.require(~s.walks[b])
        for k in range(s.streams):
            s.require(~s.present[k], ~s.waits[k], s.failures[k] == 0)
        s.midway = True

    # Properties.
    named_by_walks = invariant("A cursor names actions only after a walk with which some began.", k=streams)(
        lambda s, k: (s.serves[k] == 0) | s.ever | s.midway
    )
    seed_before_activate = step(
        "A cursor begins to name an action at most at the latest beginning of a walk, less the delay.", k=streams
    )(
        lambda before, after, k: implies(
            before.present[k] & (after.serves[k] > before.serves[k]) & ~after.midway,
            (after.position[k] <= after.latest) | (after.relative > 0),
        )
    )
    walk_before_driven = step("Events begin to drive an action only when a walk ends that moved a cursor back.", b=buckets)(
        lambda before, after, b: implies(
            (after.driven[b] > before.driven[b]) & ~after.midway, before.walks[b] & before.seeded[b] & ~after.walks[b]
        )
    )
    blocker_stands = step("A cursor does not pass an item that has a blocker.", k=streams)(
        lambda before, after, k: implies(
            after.present[k] & before.waits[k] & (after.position[k] > before.position[k]) & (after.relative == 0),
            (after.position[k] <= before.item[k]) | ~before.present[k],
        )
    )
    blocked_for_cause = step("A stream has a blocker only after a failure.", k=streams)(
        lambda before, after, k: implies(
            after.waits[k] & ~before.waits[k] & ~after.midway, before.failures[k] > 0
        )
    )
    activated = reachable("Events can drive an action.", b=buckets)(
        lambda s, b: (s.driven[b] > 0) & ~s.walks[b]
    )
    given_up_past = reachable("A stream can be blocked again at a later item.", k=streams)(
        lambda s, k: s.waits[k] & (s.position[k] > 0)
    )
