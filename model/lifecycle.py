"""Lifecycle: objects expire by what the change log says, and nothing is forgotten or deleted too early.

One object, as objects share nothing but cursors (`others` are events of another one), and two rules, one
for each delay: rule 0 is for every object, rule 1 for tagged ones. Each change of the object is an event of
the log, numbered in the order of the changes. An event has the time of its shard; the object's own time, by
which it is due, may be later (`skew`), as where due times are rounded up. Two passes follow the ages, each
behind the clock by its rule's delay, one follows the tags, close behind the clock. `cursor[pass][shard]`
counts the events that are passed. `fresh[w]` says that the object is what worker w looked at: its identity.

What is modelled elsewhere: cursors under crashes, rewinds and losses in `cursor`, how an action that begins
gets its cursors in `lifecycle_seeding`, what cannot be worked on in `lifecycle_blockers`. Here a rule that
is added has its cursors before the first event in the same step.

`merged=1` is the design with one subscription: the shards are one stream with one cursor, in the order of
the times. It needs what the other does not: that no event becomes visible behind what was read
(`flush-lag`).
"""

from collections.abc import Iterator

from fencepost.model import *
from fencepost.model.lifecycle_observed import LifecycleObserved
from fencepost.model.store import Budget, restart

AGES = (0, 1)
TAGS = 2
RULES = (0, 1)
DELAYS = (1, 2)
LATE = {"lag": 1, "others": 1, "writes": 1}
"""Sizes of the configurations in which events become visible late."""


def _cursor_passes(
    s, e: Number, shard: Number, p: int, observed: LifecycleObserved, *, current: Truth, when: Truth | bool = True
) -> Iterator[Does]:
    """The cursor of a pass is saved behind an event, unless it is there."""
    for k in range(s.shards):
        at = s.number(p, k)
        is_moved = (shard == k) & (s.cursor[p][s.stream(k)] <= e) & when
        yield does(
            "saved", k=at, n=observed.serves[at], to=e, past=1, current=current, when=is_moved
        )


def _object_is_passed(s, w: int, observed: LifecycleObserved) -> tuple[Does, ...]:
    """The worker saves by the epoch of its lease, which is the cursor's until another worker has the lease."""
    e, shard = s.event[w], case(*((s.event[w] == e, s.shard[e]) for e in range(s.writes + s.tags + s.others)), otherwise=-1)
    return tuple(
        one
        for p in (*AGES, TAGS)
        for one in _cursor_passes(
            s, e, shard, p, observed, current=s.owner == w, when=(s.doing[w] == p) & ~s.void[w]
        )
    )


def _rule_is_edited(before, after, rule: int) -> tuple[Does, ...]:
    """What is removed is forgotten; what is added begins with a walk, and with the first event."""
    is_added, found = after.policy[rule], []
    found.append(does("walk_began", b=0, n=1, d=before.driven(), at=0, when=is_added))
    found.append(does("demoted", b=0, d=after.driven(), when=~is_added))
    for p in (0,) if rule == 0 else (1, TAGS):
        for k in {before.stream(k) for k in range(before.shards)}:
            at = before.number(p, k)
            found.append(does("named", k=at, n=0, to=0, late=0, when=is_added))
            found.append(does("forgot", k=at, n=0, when=~is_added))
            found.append(does("rewound", k=at, n=0, to=0, when=~is_added))
    found.append(does("walk_ended", b=0, d=after.driven(), when=is_added))
    return tuple(found)


class Lifecycle(Machine):
    """One object, two rules, the passes of the workers over its events."""

    # Constants.
    workers = Size(1, most=3, doc="processes that would run the passes, of which one holds the lease")
    shards = Size(2, most=2, doc="writers of the log")
    writes = Size(2, most=3, doc="times that the object is written")
    tags = Size(1, least=0, most=3, doc="times that its tag is added or removed")
    others = Size(0, least=0, most=2, doc="events of another object, which needs nothing")
    edits = Size(1, least=0, most=2, doc="rules that are added or removed")
    locks = Size(0, least=0, most=1, doc="times that the object is locked")
    ticks = Size(3, most=6, doc="how far the clock goes")
    skew = Size(1, least=0, most=1, doc="how much later than its event an object's time may be")
    room = Size(1, least=0, most=1, doc="places for pending objects")
    merged = Size(0, least=0, most=1, doc="whether the shards are read as one stream with one cursor: 1 or 0")
    lag = Size(0, least=0, most=1, doc="ticks until an event is visible at the latest")
    prompt = Size(0, least=0, most=1, doc="whether time waits for the workers: 1 or 0")

    safeguards = {
        "identity": "what is deleted is what was looked at; otherwise the worker looks again",
        "look-again": "an object that changed after the look is looked at again, not taken for resolved",
        "policy": "an object is deleted only while the action's rule is in the policy",
        "policy-per-action": "an edit of another rule changes nothing for this action",
        "lock": "the deletion looks at the object's lock itself",
        "due-again": "the object's own time decides whether it is due, not the time of the event",
        "live-evaluation": "filters are evaluated on the object as it is, not as the event had it",
        "overwrites-are-ages": "an overwrite is an event of the ages, like the first write",
        "wait-until-due": "an event is not passed while its own object matches and is not due yet",
        "tag-cutoff": "tags are followed close behind the clock, not by the delay of their rule",
        "pending-first": "what is not due yet is pending, durably, before the change of its tag is passed",
        "demotion-first": "where nothing more may be pending the action is demoted to scans before that",
        "flush-lag": "events are read only when no earlier one can become visible any more",
        "worker-epoch": "only the worker with the newest epoch changes the state of the lifecycle",
    }
    assumptions = {
        "bounded-flush": "an event is visible before the tick that is `lag` after its time",
        "shard-order": "the events of one shard become visible in their order",
    }
    symmetric = ("workers",)
    shown_at = {
        "lock": {"locks": 1},
        "tag-cutoff": {"prompt": 1},
        "demotion-first": {"room": 0},
        "flush-lag": {"merged": 1, **LATE},
        "bounded-flush": {"merged": 1, **LATE},
        "shard-order": LATE,
        "worker-epoch": {"workers": 2},
    }
    fires_at = {
        "change_another": {**LATE, "tags": 0, "edits": 0},
        "flush": {**LATE, "tags": 0, "edits": 0},
        "lock": {"locks": 1, "writes": 1, "tags": 0, "edits": 0},
        "take_lease": {"workers": 2, "writes": 1, "tags": 0, "edits": 0},
        "scan": {"room": 0},
    }

    # State: the object, its events, the policy.
    clock = Int(0, ticks)
    there, tagged, locked = Bool(), Bool(), Bool()
    mtime = Int(0, ticks + skew)
    own = Id(writes + tags + others, nobody=True)  # the event of the present content
    count = Int(0, writes + tags + others)
    kind = Each(writes + tags + others, Enum("none", "age", "tag", "neither", "another"))
    time = Each(writes + tags + others, Int(0, ticks))
    shard = Each(writes + tags + others, Id(shards, nobody=True))
    visible = Flags(writes + tags + others)
    had_tag = Flags(writes + tags + others)  # the events that had the object tagged
    written, toggled, edited = Int(0, writes), Int(0, tags), Int(0, edits)
    changed = Int(0, others)
    lock_left = Budget(locks)
    policy = Each(2, Bool())
    demoted = Bool()  # rule 1 is enforced by scans
    pending = Id(writes + tags + others, nobody=True)  # for rule 1: the content, by its event
    cursor = Each(3, Each(shards, Int(0, writes + tags + others)))
    # The workers.
    owner = Id(workers)
    at = Each(workers, Enum("idle", "looked", "resolved"))
    doing = Each(workers, Id(3))
    event = Each(workers, Id(writes + tags + others))
    fresh, unedited = Each(workers, Bool()), Each(workers, Bool())
    void = Each(workers, Bool())  # the cursor began a new generation since
    ill = Enum("none", "early", "changed", "policy", "locked", "fenced")  # ghost: what must not have happened

    @initial
    def any_policy(s) -> None:
        s.policy[0], s.policy[1] = anything(), True

    # Definitions.
    matches = define(lambda s, rule: s.there & (s.tagged if rule else s.there))

    def stream(s, k: int) -> int:
        """The cursor of a shard."""
        return 0 if s.merged else k

    @define(without={"live-evaluation": lambda s, rule, e: s.there & (s.had_tag.has(e) if rule else s.there)})
    def applies(s, rule: int, e: int) -> Truth:
        return s.matches(rule)

    @define(without={"policy-per-action": lambda s, w, is_in: ~s.unedited[w]})
    def is_stale(s, w: int, is_in: Truth) -> Truth:
        """The action that worker w works for is no more in force."""
        return ~is_in

    def is_due(s, rule: int) -> Truth:
        return s.there & (s.clock >= s.mtime + DELAYS[rule])

    @define(without={"due-again": lambda s, rule, e: s.clock >= s.time[e] + DELAYS[rule]})
    def seems_due(s, rule: int, e: int) -> Truth:
        return s.is_due(rule)

    def is_of(s, e: int, p: int) -> Truth:
        return s.kind[e].is_in("tag" if p == TAGS else "age", "another")

    def cutoff(s, p: int) -> int:
        """How far behind the clock a pass is."""
        near = s.lag if s.is_on("flush-lag") and s.merged else 0
        if p == TAGS:
            return near if s.is_on("tag-cutoff") else DELAYS[1]
        return DELAYS[p]

    def is_behind(s, e: int, p: int) -> Truth:
        """The cursor of the pass is beyond the event."""
        return any_of((s.shard[e] == k) & (s.cursor[p][s.stream(k)] > e) for k in range(s.shards))

    def is_next(s, e: int, p: int) -> Truth:
        """No earlier event of the stream that the reader sees is ahead of the cursor of the pass."""
        earlier = [
            s.visible.has(o)
            & s.is_of(o, p)
            & ~s.is_behind(o, p)
            & ((s.shard[o] == s.shard[e]) | (s.merged > 0))
            for o in range(e)
        ]
        return s.visible.has(e) & s.is_of(e, p) & ~s.is_behind(e, p) & ~any_of(earlier)

    def is_ready(s, e: int, p: int) -> Truth:
        return s.is_next(e, p) & (s.clock >= s.time[e] + s.cutoff(p))

    def waits(s, e: int, p: int) -> Truth:
        """The event's own object matches the rule of the pass, and is not due yet."""
        if p == TAGS:
            return s.kind[e] == "none"
        return s.policy[p] & s.applies(p, e) & (s.own == e) & ~s.seems_due(p, e)

    def add_event(s, kind: str | Choice, k: int) -> None:
        for e in range(s.writes + s.tags + s.others):
            here = s.count == e
            s.kind[e] = pick(here, kind, s.kind[e])
            s.time[e] = pick(here, s.clock, s.time[e])
            s.shard[e] = pick(here, k, s.shard[e])
            if not s.lag:
                s.visible = pick(here, s.visible.plus(e), s.visible)
            s.had_tag = pick(here & s.tagged, s.had_tag.plus(e), s.had_tag)
        s.count += 1

    def change(s) -> None:
        for w in range(s.workers):
            s.fresh[w] = False

    # Actions: users.
    @action(k=shards, late=(0, 1))
    def write(s, k: int, late: int) -> None:
        """Create or overwrite; the object's time is the event's, or later."""
        s.require(s.written < s.writes, s.skew >= late, s.clock + s.lag <= s.ticks)
        s.tagged = False
        s.written += 1
        s.own, s.mtime = s.count, s.clock + late
        if s.is_on("overwrites-are-ages"):
            s.add_event("age", k)
        else:
            s.add_event(pick(s.there, "neither", "age"), k)
        s.there = True
        s.change()

    @action(k=shards)
    def toggle_tag(s, k: int) -> None:
        s.require(s.there, s.toggled < s.tags, s.clock + s.lag <= s.ticks)
        s.tagged = ~s.tagged
        s.toggled += 1
        s.add_event("tag", k)
        s.change()

    @action(k=shards)
    def change_another(s, k: int) -> None:
        s.require(s.changed < s.others, s.clock + s.lag <= s.ticks)
        s.changed += 1
        s.add_event("another", k)

    @action
    def lock(s) -> None:
        s.require(s.there, ~s.locked)
        s.lock_left.spend()
        s.locked = True

    @action(rule=RULES)
    def edit(s, rule: int) -> None:
        """Remove the rule, or add it and begin with the first event."""
        s.require(s.edited < s.edits)
        s.policy[rule] = ~s.policy[rule]
        s.edited += 1
        for p in (0,) if rule == 0 else (1, TAGS):
            for k in range(s.shards):
                s.cursor[p][k] = 0
        if rule == 1:
            s.demoted, s.pending = False, -1
        for w in range(s.workers):
            s.unedited[w] = False
            s.void[w] = (s.at[w] != "idle") & (least([s.doing[w], 1]) == rule) | s.void[w]

    @action
    def time_passes(s) -> None:
        s.require(s.clock < s.ticks)
        late = [
            s.visible.has(e) | (s.count <= e) | (s.clock + 1 < s.time[e] + s.lag)
            for e in range(s.writes + s.tags + s.others)
        ]
        s.assume("bounded-flush", all_of(late))
        if s.prompt:
            ready = [
                s.is_ready(e, p) & ~s.waits(e, p)
                for e in range(s.writes + s.tags + s.others)
                for p in (*AGES, TAGS)
            ]
            s.require(~any_of(ready), s.at.all("idle"), ~s.may_drain())
        s.clock += 1

    @action(e=writes + tags + others)
    def flush(s, e: int) -> None:
        """A shard's events become visible in their order."""
        s.require(s.count > e, ~s.visible.has(e))
        s.assume("shard-order", all_of(s.visible.has(o) | (s.shard[o] != s.shard[e]) for o in range(e)))
        s.visible = s.visible.plus(e)

    # Actions: a worker and an event.
    @action(w=among(workers, at="idle"), p=(*AGES, TAGS), e=writes + tags + others)
    def pass_over(s, w: int, p: int, e: int) -> None:
        """Fetch the object, evaluate the candidates: nothing is to be deleted, so the cursor passes."""
        rule = min(p, 1)
        wanted = s.policy[rule] & s.applies(rule, e) & (s.kind[e] != "another")
        due = s.seems_due(rule, e)
        s.require(s.owner == w, s.is_ready(e, p), ~(wanted & due))
        if p == TAGS:
            safe = ~wanted | s.demoted | (s.pending == s.own)
            s.guard("pending-first" if s.room else "demotion-first", safe)
        else:
            s.guard("wait-until-due", ~s.waits(e, p))
        s.move(p, e)

    @action(w=among(workers, at="idle"), p=(*AGES, TAGS), e=writes + tags + others)
    def look(s, w: int, p: int, e: int) -> None:
        """Fetch the object, evaluate the candidates: it is to be deleted."""
        rule = min(p, 1)
        s.require(s.owner == w, s.is_ready(e, p), s.policy[rule] & s.applies(rule, e) & s.seems_due(rule, e))
        s.require(s.kind[e] != "another")
        s.at[w] = "looked"
        s.doing[w], s.event[w], s.fresh[w], s.unedited[w] = p, e, True, True

    @action(w=among(workers, at="idle"), e=writes + tags + others)
    def set_aside(s, w: int, e: int) -> None:
        """The change of a tag made an object match that is not due yet."""
        s.require(s.owner == w, s.is_ready(e, TAGS), s.policy[1] & s.applies(1, e) & ~s.seems_due(1, e))
        s.require(s.kind[e] == "tag")
        if s.room:
            s.require(s.pending != s.own)
            s.pending = s.own
        else:
            s.require(~s.demoted)
            s.demoted = True

    @action(w=among(workers, at="looked"))
    def delete(s, w: int) -> None:
        s.guard("identity", s.fresh[w])
        rule = least([s.doing[w], 1])
        is_in = pick(rule == 0, s.policy[0], s.policy[1])
        s.guard("policy", ~s.is_stale(w, is_in))
        s.guard("lock", ~s.locked)
        due = pick(rule == 0, s.is_due(0), s.is_due(1))
        fits = pick(rule == 0, s.matches(0), s.matches(1))
        s.require(s.there)
        s.ill = case(
            (~s.fresh[w], "changed"),
            (~is_in, "policy"),
            (s.locked, "locked"),
            (~due | ~fits, "early"),
            otherwise=s.ill,
        )
        s.remove()
        s.at[w] = "resolved"

    def remove(s) -> None:
        s.there, s.tagged, s.locked, s.own, s.mtime = False, False, False, -1, 0
        s.change()

    @action(w=among(workers, at="looked"))
    def refuse(s, w: int) -> None:
        """Stale, no more in the policy, or locked: nothing is deleted."""
        rule = least([s.doing[w], 1])
        is_in = pick(rule == 0, s.policy[0], s.policy[1])
        stale = s.is_stale(w, is_in)
        s.require(~s.fresh[w] | stale | s.locked)
        s.at[w] = pick(~s.fresh[w] & ~stale, "idle" if s.is_on("look-again") else "resolved", "resolved")

    @action(w=among(workers, at="resolved"))
    def advance(s, w: int) -> None:
        s.guard("worker-epoch", s.owner == w)
        s.ill = pick(s.owner != w, "fenced", s.ill)
        for p in (*AGES, TAGS):
            for e in range(s.writes + s.tags + s.others):
                s.move(p, e, (s.doing[w] == p) & (s.event[w] == e) & ~s.void[w])
        s.rest(w)

    def move(s, p: int, e: int, when: Truth | bool = True) -> None:
        for k in range(s.shards):
            at = s.cursor[p][s.stream(k)]
            s.cursor[p][s.stream(k)] = pick((s.shard[e] == k) & when, most([at, e + 1]), at)

    def rest(s, w: int) -> None:
        restart(s, w, "at", "doing", "event", "fresh", "unedited", "void")

    @action(w=workers)
    def crash(s, w: int) -> None:
        """Or its pass ends, because another worker has the lease."""
        s.require(s.at[w] != "idle")
        s.rest(w)

    @action(w=workers)
    def take_lease(s, w: int) -> None:
        """By a newer epoch; the worker before may not know."""
        s.require(s.owner != w)
        s.owner = w

    # Actions: pending objects and scans.
    may_drain = define(lambda s: (s.pending >= 0) & s.policy[1] & (s.is_due(1) | (s.own != s.pending)))

    @action
    def drain(s) -> None:
        """Fetch a pending object again; delete it, or drop the entry of what has changed."""
        s.require(s.may_drain())
        gone = (s.own == s.pending) & s.matches(1) & s.is_due(1) & ~s.locked
        s.pending = -1
        s.remove_if(gone)

    def remove_if(s, gone: Truth) -> None:
        s.there, s.tagged, s.locked = s.there & ~gone, s.tagged & ~gone, s.locked & ~gone
        s.own, s.mtime = pick(gone, -1, s.own), pick(gone, 0, s.mtime)
        for w in range(s.workers):
            s.fresh[w] = s.fresh[w] & ~gone

    @action
    def scan(s) -> None:
        """A walk for an action that is demoted."""
        s.require(s.demoted & s.policy[1] & s.matches(1) & s.is_due(1) & ~s.locked)
        s.remove_if(s.there)

    # Properties.
    def is_ahead(s, rule: int) -> Truth:
        """An event that will have the object looked at for the rule is ahead of a cursor."""
        ages = [
            (s.own == e) & (s.kind[e] == "age") & ~s.is_behind(e, rule)
            for e in range(s.writes + s.tags + s.others)
        ]
        changes = [
            (s.kind[e] == "tag") & (s.own < e) & ~s.is_behind(e, TAGS) & s.policy[1]
            for e in range(s.writes + s.tags + s.others)
        ]
        return any_of([*ages, *(changes if rule else [])])

    cursor_honest = invariant(
        "An object that a rule matches has an event ahead of the cursors, or is pending, or is scanned for.",
        rule=RULES,
    )(
        lambda s, rule: implies(
            s.policy[rule] & s.matches(rule) & ~s.locked,
            s.is_ahead(rule) | ((s.demoted | (s.pending == s.own)) if rule else False),
        )
    )
    no_early_delete = invariant("Nothing is deleted that is not due or does not match.")(
        lambda s: s.ill != "early"
    )
    identity_and_policy = invariant("What is deleted is what was looked at, for a rule that is in force.")(
        lambda s: ~s.ill.is_in("changed", "policy")
    )
    lock_respected = invariant("Nothing locked is deleted.")(lambda s: s.ill != "locked")
    one_worker = invariant("A worker that was fenced changes no state of the lifecycle.")(
        lambda s: s.ill != "fenced"
    )
    on_time = step("While workers keep up, an object is deleted in the tick in which it is due.", rule=RULES)(
        lambda before, after, rule: implies(
            (before.prompt > 0) & (after.clock > before.clock) & before.policy[rule],
            ~before.matches(rule) | ~before.is_due(rule) | before.locked,
        )
    )
    eventually_expired = always_recoverable("Whatever happened, what is due is deleted.")(
        lambda s: all_of(~(s.policy[r] & s.matches(r) & s.is_due(r)) | s.locked for r in RULES)
    )
    done = may_end(lambda s: s.clock == s.ticks)

    # Refinement: what the store shows of the cursors of the three passes, and of the record of the bucket.

    def number(s, p: int, k: int) -> int:
        """The number of a cursor among the streams."""
        return p * s.shards + s.stream(k)

    def driven(s) -> Number:
        """The number of actions that events drive."""
        return pick(s.policy[0], 1, 0) + pick(s.policy[1] & ~s.demoted, 1, 0)

    @refines(
        LifecycleObserved,
        {
            "edit": _rule_is_edited,
            "pass_over": lambda s, p, e, observed: tuple(
                _cursor_passes(s, e, s.shard[e], p, observed, current=1)
            ),
            "advance": _object_is_passed,
            "set_aside": lambda before, after: does("demoted", b=0, d=after.driven(), when=after.room == 0),
        },
        part=("named", "rewound", "forgot", "saved", "walk_began", "walk_ended", "demoted"),
        streams=(TAGS + 1) * shards,
        positions=writes + tags + others,
        names=2,
        times=0,
        found=2,
    )
    def observed(s, observed: LifecycleObserved) -> dict[str, object]:
        """Every write of a worker is one that the protocol of a lifecycle allows."""
        cursors = [(p, k, s.number(p, k)) for p in (*AGES, TAGS) for k in range(s.shards)]
        return {
            "position": related(all_of(observed.position[at] == s.cursor[p][s.stream(k)] for p, k, at in cursors)),
            "serves": related(
                all_of(observed.serves[at] == pick(s.policy[min(p, 1)], 1, 0) for p, _, at in cursors)
            ),
            "driven": related(observed.driven[0] == s.driven()),
        }
