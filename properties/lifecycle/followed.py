"""The protocol of the lifecycle's machines as a run of a worker is followed through it: what the store shows.

No event shows what a worker has looked at, nor what it found; deletions are made in the bucket. So this
machine has the cursors, the record of a bucket, and what waits for an operator. Labels stand for labels of
the models:

    created, rewound          seed (lifecycle_seeding), rewind (cursor)
    saved                     save (cursor), sweep (lifecycle_seeding), advance and pass_over (lifecycle)
    forgot                    edit (lifecycle), degrade (lifecycle_seeding), reseed
    fenced                    take_lease (lifecycle)
    walk_began, walk_went_on, walk_ended   begin_walk, visit, end_walk with activate (lifecycle_seeding)
    counted, cleared          try_later, work (lifecycle_blockers)
    blocked, unblocked, given_up           block, resume and retry, quarantine (lifecycle_blockers)
"""

from fencepost.model import Bool, Each, Flags, Int, Machine, Size, Truth, action, invariant, reachable


class Followed(Machine):
    cursors = Size(2, most=20, doc="cursors in one run")
    names = Size(2, most=6, doc="actions that are counted one by one: this number stands for more")
    buckets = Size(1, most=3, doc="buckets in one run")
    items = Size(2, most=6, doc="streams of which an item failed")

    serves = Each(
        cursors, Int(0, names + 1)
    )  # how many actions it names, and one; 0 where there is no cursor
    odd = Flags(cursors)  # of an odd generation
    walks, ever = Flags(buckets), Flags(buckets)  # walks under way; of some walk so far actions began
    beginning, driven = Each(buckets, Int(0, names)), Each(buckets, Int(0, names))
    seeded = Flags(buckets)  # a cursor was moved back since the walk began
    failing, waits = Flags(items), Flags(items)  # has a count of failures; has a blocker
    midway = Bool()  # the run began when the lifecycle was there: what it does not show may have been
    shown = Flags(buckets)  # their records have been written in the run

    @action
    def begin_midway(s) -> None:
        s.require(~s.midway, s.serves.all(0), s.ever.is_empty(), s.shown.is_empty())
        s.require(s.failing.is_empty(), s.waits.is_empty())
        s.midway = True

    def is_unknown(s, k: int) -> Truth:
        return s.midway & (s.serves[k] == 0)

    # A cursor: its generation changes with every write but those of the readers of one generation.

    def seed(s, k: int, n: int) -> None:
        s.require(~s.ever.is_empty() | s.midway)
        s.serves[k] = n + 1
        s.seeded = s.seeded | s.walks

    def turn(s, k: int, odd: int) -> None:
        s.require(s.is_unknown(k) | ((s.serves[k] > 0) & (s.odd.has(k) != (odd > 0))))
        s.odd = s.odd.plus(k) if odd else s.odd.minus(k)

    @action(k=cursors, n=names + 1, odd=(0, 1))
    def created(s, k: int, n: int, odd: int) -> None:
        """For actions that begin."""
        s.require(s.serves[k] == 0, n > 0)
        s.seed(k, n)
        s.odd = s.odd.plus(k) if odd else s.odd.minus(k)

    @action(k=cursors, n=names + 1, odd=(0, 1))
    def rewound(s, k: int, n: int, odd: int) -> None:
        """For actions that begin; those that it named before stay."""
        s.turn(k, odd)
        s.require(s.serves[k] <= n + 1)
        s.seed(k, n)

    @action(k=cursors, n=names + 1, odd=(0, 1))
    def forgot(s, k: int, n: int, odd: int) -> None:
        s.turn(k, odd)
        s.require((s.serves[k] > n + 1) | (n == s.names) | s.is_unknown(k))
        s.serves[k] = n + 1

    @action(k=cursors, n=names + 1, odd=(0, 1))
    def fenced(s, k: int, n: int, odd: int) -> None:
        """A worker of a higher epoch takes it over."""
        s.turn(k, odd)
        s.require((s.serves[k] == n + 1) | s.is_unknown(k))
        s.serves[k] = n + 1

    @action(k=cursors, n=names + 1, odd=(0, 1))
    def saved(s, k: int, n: int, odd: int) -> None:
        """By a reader of its generation."""
        s.require(s.is_unknown(k) | ((s.serves[k] == n + 1) & (s.odd.has(k) == (odd > 0))))
        s.serves[k], s.odd = n + 1, s.odd.plus(k) if odd else s.odd.minus(k)

    # The record of a bucket.

    def record(s, b: int, is_so: Truth) -> None:
        s.require(is_so | (s.midway & ~s.shown.has(b)))
        s.shown = s.shown.plus(b)

    @action(b=buckets, n=names + 1, d=names + 1)
    def walk_began(s, b: int, n: int, d: int) -> None:
        """Or began anew; actions that are gone are driven no more."""
        s.record(b, s.driven[b] >= d)
        s.walks, s.seeded, s.beginning[b], s.driven[b] = s.walks.plus(b), s.seeded.minus(b), n, d
        s.ever = s.ever.plus(b) if n else s.ever

    @action(b=buckets, n=names + 1, d=names + 1)
    def walk_went_on(s, b: int, n: int, d: int) -> None:
        s.record(b, s.walks.has(b) & (s.beginning[b] >= n) & (s.driven[b] >= d))
        s.walks, s.beginning[b], s.driven[b] = s.walks.plus(b), n, d

    @action(b=buckets, d=names + 1)
    def walk_ended(s, b: int, d: int) -> None:
        """What begins is driven by events only after a cursor was moved back for it."""
        begun = (s.driven[b] >= d) | s.seeded.has(b)
        s.record(b, s.walks.has(b) & (s.driven[b] + s.beginning[b] >= d) & begun)
        s.walks, s.beginning[b], s.driven[b] = s.walks.minus(b), 0, d

    @action(b=buckets, d=names + 1)
    def demoted(s, b: int, d: int) -> None:
        """Or something else was recorded."""
        s.record(b, ~s.walks.has(b) & (s.driven[b] >= d))
        s.driven[b] = d

    # What cannot be worked on.

    @action(i=items, first=(0, 1))
    def counted(s, i: int, first: int) -> None:
        """The first failure of an item, or one more."""
        s.require(s.failing.has(i) | (first > 0) | s.midway)
        s.failing = s.failing.plus(i)

    @action(i=items)
    def cleared(s, i: int) -> None:
        s.failing = s.failing.minus(i)

    @action(i=items)
    def blocked(s, i: int) -> None:
        """After it has failed; or an operator tried it, in vain."""
        s.require(s.failing.has(i) | s.waits.has(i) | s.midway)
        s.waits = s.waits.plus(i)

    @action(i=items)
    def unblocked(s, i: int) -> None:
        s.waits = s.waits.minus(i)

    @action(i=items)
    def given_up(s, i: int) -> None:
        """By an operator, of what waits for one."""
        s.require(s.waits.has(i) | s.midway)
        s.waits = s.waits.plus(i)

    named_by_walks = invariant("A cursor names actions only after a walk with which some began.", k=cursors)(
        lambda s, k: (s.serves[k] == 0) | ~s.ever.is_empty() | s.midway
    )
    activated = reachable("Events can drive an action.", b=buckets)(
        lambda s, b: (s.driven[b] > 0) & ~s.walks.has(b)
    )
