"""Lifecycle: objects expire by what the change log says, and nothing is forgotten or deleted too early.

One object, because objects share nothing but cursors, and two rules: rule 0 is for every object, rule 1 for
tagged ones. Every change of the object is an event of the log, numbered in the order of the changes (`others`
are events of another object). An event has the time of its shard. The object's own time, by which it is due,
may be later (`skew`), as where due times are rounded up.

Three passes follow the log. Pass 0 and pass 1 follow the ages, each behind the clock by the delay of its
rule. Pass 2 follows the changes of tags, close behind the clock. `cursor[pass][shard]` counts the events that
a pass has finished. A worker has one event at a time:

    a worker      idle --pass_over--> idle                     nothing is to be deleted: the cursor passes
                  idle --look--> looked                        the object is to be deleted
                  looked --delete--> resolved                  it was what was looked at, for a rule in force
                  looked --refuse--> resolved, or idle         it was not, or the object changed: look again
                  resolved --advance--> idle                   the cursor passes
                  any --crash--> idle

    an object     absent --write--> there --toggle_tag, lock, write--> there --delete, drain, scan--> absent

    a tag         that makes an object match which is not due yet: --set_aside--> pending --drain--> gone,
                  or, where nothing may be pending: --set_aside--> the action is demoted --scan--> gone

Other machines model cursors under crashes, rewinds and losses (`cursor`), the beginning of an action
(`lifecycle_seeding`), and events that cannot be worked on (`lifecycle_blockers`). Here the cursors of a rule
that is added begin with the first event, in the same step. `lifecycle_merged` has a design with one cursor
for all shards.
"""

from collections.abc import Iterable

from fencepost.model import *
from fencepost.model.lifecycle_observed import LifecycleObserved
from fencepost.model.store import Budget, restart

AGES = (0, 1)
TAGS = 2
PASSES = (*AGES, TAGS)
RULES = (0, 1)
PASSES_OF = ((0,), (1, TAGS))
"""The passes that work for each rule."""
DELAYS = (1, 2)
LATE = {"lag": 1, "others": 1, "writes": 1}
"""Sizes of the configurations in which events become visible late."""


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
        "worker-epoch": "only the worker with the newest epoch changes the state of the lifecycle",
    }
    assumptions = {"shard-order": "the events of one shard become visible in their order"}
    symmetric = ("workers",)

    # State: the object.

    clock = Int(0, ticks)
    there = Bool()
    tagged = Bool()
    locked = Bool()
    mtime = Int(0, ticks + skew)
    own = Id(writes + tags + others, nobody=True)  # the event of the present content

    # State: the log.

    count = Int(0, writes + tags + others)
    event = Role(
        writes + tags + others,
        kind=Enum("none", "age", "tag", "neither", "another"),
        time=Int(0, ticks),
        shard=Id(shards, nobody=True),
        visible=Bool(),
        had_tag=Bool(),  # the event had the object tagged
    )

    # State: what users may still do.

    written = Int(0, writes)
    toggled = Int(0, tags)
    edited = Int(0, edits)
    changed = Int(0, others)
    lock_left = Budget(locks)

    # State: the lifecycle.

    policy = Each(2, Bool())
    demoted = Bool()  # rule 1 is enforced by scans
    pending = Id(writes + tags + others, nobody=True)  # for rule 1: the content, by its event
    cursor = Each(3, Each(shards, Int(0, writes + tags + others)))
    owner = Id(workers)  # the worker with the lease

    # State: the workers.

    worker = Role(
        workers,
        at=Enum("idle", "looked", "resolved"),
        doing=Id(3),  # the pass
        event=Id(writes + tags + others),
        fresh=Bool(),  # the object is what the worker looked at: its identity
        unedited=Bool(),  # no rule was edited since the look
        void=Bool(),  # the cursor began a new generation since the look
    )
    ill = Enum("none", "early", "changed", "policy", "locked", "fenced")  # ghost: what must not have happened

    @initial
    def any_policy(s) -> None:
        s.policy[0] = anything()
        s.policy[1] = True

    # Definitions: the rules and the object.

    def delay_of(s, rule: Number | int) -> Number:
        return case((rule == 0, DELAYS[0]), otherwise=DELAYS[1])

    def matches(s, rule: Number | int) -> Truth:
        return s.there & (s.tagged | (rule == 0))

    def is_due(s, rule: Number | int) -> Truth:
        """By the object's own time."""
        return s.there & (s.clock >= s.mtime + s.delay_of(rule))

    def applies(s, rule: int, e: int) -> Truth:
        """The object that the event named matches the rule."""
        return s.matches(rule)

    @without("live-evaluation", replaces=applies)
    def applied_at_the_event(s, rule: int, e: int) -> Truth:
        return s.there & ((rule == 0) | s.event[e].had_tag)

    def seems_due(s, rule: int, e: int) -> Truth:
        return s.is_due(rule)

    @without("due-again", replaces=seems_due)
    def is_due_by_the_event(s, rule: int, e: int) -> Truth:
        return s.clock >= s.event[e].time + DELAYS[rule]

    def is_wanted(s, rule: int, e: int) -> Truth:
        """The rule deletes the object that the event named, now or later."""
        return s.policy[rule] & s.applies(rule, e) & (s.event[e].kind != "another")

    # Definitions: the log and the passes.

    def events(s) -> range:
        return range(s.writes + s.tags + s.others)

    def stream(s, k: int) -> int:
        """The number of the cursor that a pass has for a shard."""
        return k

    def is_of(s, e: int, p: int) -> Truth:
        """The pass looks at events of this kind."""
        kind = s.event[e].kind
        return (kind == ("tag" if p == TAGS else "age")) | (kind == "another")

    def flush_lag(s) -> int:
        """The ticks that a pass stays behind the clock which follows it closely."""
        return 0

    def tag_cutoff(s) -> int:
        return s.flush_lag()

    @without("tag-cutoff", replaces=tag_cutoff)
    def tag_cutoff_by_delay(s) -> int:
        return DELAYS[1]

    def cutoff(s, p: int) -> int:
        """The ticks that a pass is behind the clock."""
        return s.tag_cutoff() if p == TAGS else DELAYS[p]

    def is_behind(s, e: int, p: int) -> Truth:
        """The cursor of the pass is beyond the event."""
        return any_of((s.event[e].shard == k) & (s.cursor[p][s.stream(k)] > e) for k in range(s.shards))

    def share_a_stream(s, e: int, o: int) -> Truth:
        """One reader sees both events, in their order."""
        return s.event[o].shard == s.event[e].shard

    def is_open(s, e: int, p: int) -> Truth:
        """The pass sees the event, and has not passed it."""
        return s.is_of(e, p) & ~s.is_behind(e, p) & s.event[e].visible

    def is_ready(s, e: int, p: int) -> Truth:
        """The event is the next one of the pass, and old enough."""
        earlier = [s.is_open(o, p) & s.share_a_stream(e, o) for o in range(e)]
        return s.is_open(e, p) & ~any_of(earlier) & (s.clock >= s.event[e].time + s.cutoff(p))

    def waits(s, e: int, p: int) -> Truth:
        """The event's own object matches the rule of the pass, and is not due yet."""
        if p == TAGS:
            return s.event[e].kind == "none"
        return s.policy[p] & s.applies(p, e) & (s.own == e) & ~s.seems_due(p, e)

    def is_flushed(s) -> Truth:
        """Every event is visible that would be too late in the next tick."""
        return all_of(
            s.event[e].visible | (s.count <= e) | (s.clock + 1 < s.event[e].time + s.lag) for e in s.events()
        )

    def is_in_order(s, e: int) -> Truth:
        """All earlier events of the shard are visible."""
        return all_of(s.event[o].visible | (s.event[o].shard != s.event[e].shard) for o in range(e))

    @without("shard-order", replaces=is_in_order)
    def is_in_any_order(s, e: int) -> bool:
        return True

    # Definitions: what a worker must find before it acts. Each is a safeguard.

    def kind_of_write(s) -> str | Choice:
        """The kind of the event of a write."""
        return "age"

    @without("overwrites-are-ages", replaces=kind_of_write)
    def kind_of_first_write(s) -> str | Choice:
        return pick(s.there, "neither", "age")

    def waits_until_due(s, e: int, p: int) -> Truth:
        """A pass of the ages leaves the event for later."""
        return s.waits(e, p)

    @without("wait-until-due", replaces=waits_until_due)
    def never_waits(s, e: int, p: int) -> bool:
        return False

    def is_pending(s) -> Truth:
        """The object is recorded, to be looked at again."""
        return s.pending == s.own

    @without("pending-first", replaces=is_pending)
    def need_not_be_pending(s) -> bool:
        return True

    def is_scanned(s) -> Truth:
        return s.demoted

    @without("demotion-first", replaces=is_scanned)
    def need_not_be_scanned(s) -> bool:
        return True

    def is_kept(s, e: int, p: int) -> Truth:
        """If the cursor passes the event, its object will be looked at again when that is needed."""
        if p != TAGS:
            return ~s.waits_until_due(e, p)
        is_set_aside = s.is_pending() if s.room else s.is_scanned()
        return ~s.is_wanted(1, e) | is_set_aside

    def is_as_looked_at(s, w: int) -> Truth:
        return s.worker[w].fresh

    @without("identity", replaces=is_as_looked_at)
    def is_taken_as_looked_at(s, w: int) -> bool:
        return True

    def rule_of(s, w: int) -> Number:
        """The rule that the worker looked at the object for."""
        return least([s.worker[w].doing, 1])

    def is_in_policy(s, w: int) -> Truth:
        return pick(s.rule_of(w) == 0, s.policy[0], s.policy[1])

    def is_stale(s, w: int) -> Truth:
        """The action that the worker looked at the object for is in force no more."""
        return ~s.is_in_policy(w)

    @without("policy-per-action", replaces=is_stale)
    def is_stale_by_any_edit(s, w: int) -> Truth:
        return ~s.worker[w].unedited

    def is_in_force(s, w: int) -> Truth:
        return ~s.is_stale(w)

    @without("policy", replaces=is_in_force)
    def is_taken_as_in_force(s, w: int) -> bool:
        return True

    def is_unlocked(s) -> Truth:
        return ~s.locked

    @without("lock", replaces=is_unlocked)
    def is_taken_as_unlocked(s) -> bool:
        return True

    def after_a_change(s) -> str:
        """The next state of a worker whose object has changed since the look."""
        return "idle"

    @without("look-again", replaces=after_a_change)
    def after_a_change_once(s) -> str:
        return "resolved"

    def holds_lease(s, w: int) -> Truth:
        return s.owner == w

    @without("worker-epoch", replaces=holds_lease)
    def is_taken_as_holder(s, w: int) -> bool:
        return True

    # Actions: users.

    def add_event(s, kind: str | Choice, k: int) -> None:
        for e in s.events():
            new = s.event[e]
            here = s.count == e
            new.kind = pick(here, kind, new.kind)
            new.time = pick(here, s.clock, new.time)
            new.shard = pick(here, k, new.shard)
            new.visible = new.visible | (here & (s.lag == 0))
            new.had_tag = new.had_tag | (here & s.tagged)
        s.count += 1

    def change(s) -> None:
        """No worker has looked at the object as it is now."""
        for me in s.worker:
            me.fresh = False

    @action(k=shards, late=(0, 1))
    def write(s, k: int, late: int) -> None:
        """Create or overwrite. The object's time is the event's, or later."""
        s.require(s.written < s.writes, s.skew >= late, s.clock + s.lag <= s.ticks)
        s.written += 1
        s.tagged = False
        s.own = s.count
        s.mtime = s.clock + late
        s.add_event(s.kind_of_write(), k)
        s.there = True
        s.change()

    @action(k=shards)
    def toggle_tag(s, k: int) -> None:
        s.require(s.there, s.toggled < s.tags, s.clock + s.lag <= s.ticks)
        s.toggled += 1
        s.tagged = ~s.tagged
        s.add_event("tag", k)
        s.change()

    @action(k=shards)
    def change_another(s, k: int) -> None:
        """Another object changes."""
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
        s.edited += 1
        s.policy[rule] = ~s.policy[rule]
        for p in PASSES_OF[rule]:
            for k in range(s.shards):
                s.cursor[p][k] = 0
        if rule == 1:
            s.demoted = False
            s.pending = -1
        for w in range(s.workers):
            me = s.worker[w]
            me.unedited = False
            me.void = me.void | ((me.at != "idle") & (s.rule_of(w) == rule))

    # Actions: time and the log.

    @action
    def time_passes(s) -> None:
        s.require(s.clock < s.ticks, s.is_flushed())
        if s.prompt:
            s.require(~s.is_any_ready(), s.worker.all(at="idle"), ~s.may_drain())
        s.clock += 1

    def is_any_ready(s) -> Truth:
        """Some event can be worked on now."""
        return any_of(s.is_ready(e, p) & ~s.waits(e, p) for e in s.events() for p in PASSES)

    @action(e=writes + tags + others)
    def flush(s, e: int) -> None:
        """An event becomes visible."""
        s.require(s.count > e, ~s.event[e].visible, s.is_in_order(e))
        s.event[e].visible = True

    # Actions: a worker and an event.

    def move(s, p: int, e: int, when: Truth | bool = True) -> None:
        """The cursor of the pass has passed the event."""
        for k in range(s.shards):
            at = s.cursor[p][s.stream(k)]
            s.cursor[p][s.stream(k)] = pick((s.event[e].shard == k) & when, most([at, e + 1]), at)

    @action(w=among(worker, at="idle"), p=PASSES, e=writes + tags + others)
    def pass_over(s, w: int, p: int, e: int) -> None:
        """Fetch the object, evaluate the rule: nothing is to be deleted now, so the cursor passes."""
        rule = min(p, 1)
        s.require(s.owner == w, s.is_ready(e, p))
        s.require(~(s.is_wanted(rule, e) & s.seems_due(rule, e)))
        s.require(s.is_kept(e, p))
        s.move(p, e)

    @action(w=among(worker, at="idle"), p=PASSES, e=writes + tags + others)
    def look(s, w: int, p: int, e: int) -> None:
        """Fetch the object, evaluate the rule: it is to be deleted."""
        rule = min(p, 1)
        s.require(s.owner == w, s.is_ready(e, p))
        s.require(s.is_wanted(rule, e), s.seems_due(rule, e))
        me = s.worker[w]
        me.at = "looked"
        me.doing = p
        me.event = e
        me.fresh = True
        me.unedited = True

    @action(w=among(worker, at="idle"), e=writes + tags + others)
    def set_aside(s, w: int, e: int) -> None:
        """A tag made an object match that is not due yet: record it, or leave the rule to scans."""
        s.require(s.owner == w, s.is_ready(e, TAGS), s.event[e].kind == "tag")
        s.require(s.is_wanted(1, e), ~s.seems_due(1, e))
        if s.room:
            s.require(s.pending != s.own)
            s.pending = s.own
        else:
            s.require(~s.demoted)
            s.demoted = True

    @action(w=among(worker, at="looked"))
    def delete(s, w: int) -> None:
        """Under a guard that looks at the object, its lock and the policy in the moment of the deletion."""
        s.require(s.there, s.is_as_looked_at(w), s.is_in_force(w), s.is_unlocked())
        rule = s.rule_of(w)
        if ~s.worker[w].fresh:
            s.ill = "changed"
        elif ~s.is_in_policy(w):
            s.ill = "policy"
        elif s.locked:
            s.ill = "locked"
        elif ~s.is_due(rule) | ~s.matches(rule):
            s.ill = "early"
        s.remove()
        s.worker[w].at = "resolved"

    def remove(s) -> None:
        s.there = False
        s.tagged = False
        s.locked = False
        s.own = -1
        s.mtime = 0
        s.change()

    @action(w=among(worker, at="looked"))
    def refuse(s, w: int) -> None:
        """Nothing is deleted: the object changed, or is locked, or the rule is in the policy no more."""
        me = s.worker[w]
        s.require(~me.fresh | s.is_stale(w) | s.locked)
        if ~me.fresh & ~s.is_stale(w):
            me.at = s.after_a_change()
        else:
            me.at = "resolved"

    @action(w=among(worker, at="resolved"))
    def advance(s, w: int) -> None:
        """The cursor passes the event, unless it began a new generation since."""
        s.require(s.holds_lease(w))
        if s.owner != w:
            s.ill = "fenced"
        me = s.worker[w]
        for p in PASSES:
            for e in s.events():
                s.move(p, e, (me.doing == p) & (me.event == e) & ~me.void)
        restart(me)

    @action(w=worker)
    def crash(s, w: int) -> None:
        """Or its pass ends, because another worker has the lease."""
        s.require(s.worker[w].at != "idle")
        restart(s.worker[w])

    @action(w=worker)
    def take_lease(s, w: int) -> None:
        """By a newer epoch; the worker before may not know."""
        s.require(s.owner != w)
        s.owner = w

    # Actions: pending objects and scans.

    def may_drain(s) -> Truth:
        """A pending object is due, or has changed."""
        return (s.pending >= 0) & s.policy[1] & (s.is_due(1) | (s.own != s.pending))

    @action
    def drain(s) -> None:
        """Fetch a pending object again: delete it, or drop the entry of what has changed."""
        s.require(s.may_drain())
        is_gone = (s.own == s.pending) & s.matches(1) & s.is_due(1) & ~s.locked
        s.pending = -1
        if is_gone:
            s.remove()

    @action
    def scan(s) -> None:
        """A walk for an action that is demoted deletes the object."""
        s.require(s.demoted, s.policy[1], s.matches(1), s.is_due(1), ~s.locked)
        s.remove()

    # Properties.

    def is_ahead(s, rule: int) -> Truth:
        """An event that will have the object looked at for the rule is ahead of a cursor."""
        ages = [(s.own == e) & (s.event[e].kind == "age") & ~s.is_behind(e, rule) for e in s.events()]
        if rule == 0:
            return any_of(ages)
        changes = [
            (s.event[e].kind == "tag") & (s.own < e) & ~s.is_behind(e, TAGS) & s.policy[1] for e in s.events()
        ]
        return any_of([*ages, *changes])

    @invariant(rule=RULES)
    def cursor_honest(s, rule: int) -> Truth:
        """An object that a rule matches has an event ahead of a cursor, or is pending, or is scanned for."""
        is_kept = (s.demoted | (s.pending == s.own)) & (rule == 1)
        return implies(s.policy[rule] & s.matches(rule) & ~s.locked, s.is_ahead(rule) | is_kept)

    @invariant
    def no_early_delete(s) -> Truth:
        """Nothing is deleted that is not due or does not match."""
        return s.ill != "early"

    @invariant
    def identity_and_policy(s) -> Truth:
        """Only an object that was looked at is deleted, as it was then, for a rule that is in force."""
        return ~s.ill.is_in("changed", "policy")

    @invariant
    def lock_respected(s) -> Truth:
        """Nothing locked is deleted."""
        return s.ill != "locked"

    @invariant
    def one_worker(s) -> Truth:
        """A worker that was fenced changes no state of the lifecycle."""
        return s.ill != "fenced"

    @step(rule=RULES)
    def on_time(before, after: "Lifecycle", rule: int) -> Truth:
        """While workers keep up, an object is deleted in the tick in which it is due."""
        return implies(
            (before.prompt > 0) & (after.clock > before.clock) & before.policy[rule],
            ~before.matches(rule) | ~before.is_due(rule) | before.locked,
        )

    @always_recoverable
    def eventually_expired(s) -> Truth:
        """Whatever happened, what is due is deleted."""
        return all_of(~(s.policy[r] & s.matches(r) & s.is_due(r)) | s.locked for r in RULES)

    @may_end
    def done(s) -> Truth:
        return s.clock == s.ticks

    # Refinement: what the store shows of the cursors of the three passes, and of the record of the bucket.

    def number(s, p: int, k: int) -> int:
        """The number of a cursor among the streams."""
        return p * s.shards + s.stream(k)

    def streams_of(s, passes: Iterable[int]) -> list[int]:
        return sorted({s.number(p, k) for p in passes for k in range(s.shards)})

    def driven(s) -> Number:
        """The number of actions that events drive."""
        return pick(s.policy[0], 1, 0) + pick(s.policy[1] & ~s.demoted, 1, 0)

    def saves(
        s,
        p: int,
        e: Number | int,
        shard: Choice | Number,
        observed: LifecycleObserved,
        current: Truth | int,
        when: Truth | bool,
    ) -> list[Does]:
        """The cursor of the pass is saved behind an event, unless it is there."""
        return [
            does(
                "saved",
                k=s.number(p, k),
                n=observed.stream[s.number(p, k)].serves,
                to=e,
                past=1,
                current=current,
                when=(shard == k) & (s.cursor[p][s.stream(k)] <= e) & when,
            )
            for k in range(s.shards)
        ]

    def shows_pass(s, p: int, e: int, observed: LifecycleObserved) -> list[Does]:
        return s.saves(p, e, s.event[e].shard, observed, 1, True)

    def shows_advance(s, w: int, observed: LifecycleObserved) -> list[Does]:
        """The epoch of the worker's lease is that of the cursor until another worker has the lease."""
        me = s.worker[w]
        shard = case(*((me.event == e, s.event[e].shard) for e in s.events()), otherwise=-1)
        return [
            save
            for p in PASSES
            for save in s.saves(p, me.event, shard, observed, s.owner == w, (me.doing == p) & ~me.void)
        ]

    def shows_edit(before, after: "Lifecycle", rule: int) -> list[Does]:
        """A rule that is removed is forgotten. One that is added begins with a walk, and the first event."""
        cursors = before.streams_of(PASSES_OF[rule])
        is_added = after.policy[rule]
        return [
            does("walk_began", b=0, n=1, d=before.driven(), at=0, when=is_added),
            *(does("named", k=k, n=0, to=0, late=0, when=is_added) for k in cursors),
            does("walk_ended", b=0, d=after.driven(), when=is_added),
            does("demoted", b=0, d=after.driven(), when=~is_added),
            *(does("forgot", k=k, n=0, when=~is_added) for k in cursors),
            *(does("rewound", k=k, n=0, to=0, when=~is_added) for k in cursors),
        ]

    def shows_lease(s, observed: LifecycleObserved) -> list[Does]:
        return [does("fenced", k=k, n=observed.stream[k].serves) for k in s.streams_of(PASSES)]

    @refines(
        LifecycleObserved,
        {
            "edit": shows_edit,
            "pass_over": shows_pass,
            "set_aside": lambda before, after: does("demoted", b=0, d=after.driven(), when=after.room == 0),
            "advance": shows_advance,
            "take_lease": shows_lease,
        },
        part=("named", "rewound", "forgot", "saved", "walk_began", "walk_ended", "demoted"),
        streams=3 * shards,
        positions=writes + tags + others,
        names=2,
        times=0,
        found=2,
    )
    def observed(s, observed: LifecycleObserved) -> dict[str, object]:
        """Every write of a worker is one that the protocol of a lifecycle allows."""
        cursors = [(p, s.stream(k), s.number(p, k)) for p in PASSES for k in range(s.shards)]
        serves = {rule: pick(s.policy[rule], 1, 0) for rule in RULES}
        return {
            "stream.position": related(
                all_of(observed.stream[at].position == s.cursor[p][k] for p, k, at in cursors)
            ),
            "stream.serves": related(
                all_of(observed.stream[at].serves == serves[min(p, 1)] for p, _, at in cursors)
            ),
            "bucket.driven": related(observed.bucket[0].driven == s.driven()),
        }

    # Where the checker shows what.

    shown_at = {
        "lock": {"locks": 1},
        "tag-cutoff": {"prompt": 1},
        "demotion-first": {"room": 0},
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
