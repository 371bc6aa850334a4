"""Seeding: how an action of a lifecycle begins, goes on after a loss, and is enforced meanwhile.

An action begins with a walk over the bucket, which deletes what is due. An event must find later what is not
due yet. So the cursors are moved back to the beginning of the walk less the delay: the walk cannot have been
too early for anything before that. Only then are events routed to the action. Sweeps go on all the time,
because other actions of the same delay were there before. They move the cursors over what is routed to no
action.

    an action     new --end_walk--> walked --seed (each cursor), activate--> event_driven
                  walked --crash--> new                            its walk begins again
                  walked, event_driven --degrade--> scan_only      the log has lost something
                  scan_only --reseed--> new                        an operator accepts the loss
                  scan_only --return_by_walk--> new                the log has all that a walk leaves to it

    the walk      none --begin_walk--> walks --visit (each object)--> walks --end_walk--> none
                  walks --divide--> walks in two parts --visit, visit_second--> walks; it ends with both

    a cursor      there --seed--> there, and serves the action --sweep, skip_lost--> further on
                  there --drain--> drained, of a shard that gets no more events --collect--> removed

Each action has a delay of its own, and a cursor for each shard. Time is in ticks. An event has the time of
its object. A cursor is the tick that the sweep looks at next, and it names the actions that it is swept for,
so that moving it back and beginning to route are one write. One walk serves all actions. The log may lose its
oldest ticks, and the log of a shard that gets no more events may vanish as a whole (`departs`).

docs/decisions/rejected_lifecycle.py has the design in which a record calls an action active, not each cursor.
"""

from fencepost.model import *
from fencepost.model.lifecycle_observed import LifecycleObserved

DELAYS = (2, 1)
SHARED = {"helpers": 1, "objects": 2, "ticks": 3, "losses": 0, "reseeds": 0}
"""Sizes of the configurations in which two workers share a walk."""
LAST = 0
"""The tick of the last event of the shard that departs."""


class LifecycleSeeding(Machine):
    """A bucket with two actions: walks, cursors, losses of the log, reseeding."""

    # Constants.

    objects = Size(1, most=3, doc="objects, each written once")
    actions = Size(1, most=2, doc="actions, each with a delay of its own")
    shards = Size(2, most=2, doc="writers of the log")
    ticks = Size(4, most=6, doc="how far the clock goes")
    losses = Size(1, least=0, most=3, doc="ticks that the log loses, oldest first")
    reseeds = Size(1, least=0, most=2, doc="times that an operator returns an action to events")
    helpers = Size(0, least=0, most=1, doc="whether a second worker shares the walk: 1 or 0")
    departs = Size(0, least=0, most=1, doc="whether the log of shard 0 may vanish as a whole: 1 or 0")

    safeguards = {
        "seed-before-activate": "an action is active only when all its cursors are moved back",
        "walk-began": "cursors are moved back by the time at which the walk began, not at which it ended",
        "delay-back": "cursors are moved back by the delay too",
        "rewind-for-new-only": "a walk moves cursors back only for actions that begin",
        "loss-degrades": "a loss makes the action scan-only, durably, before a cursor passes it",
        "drained-per-stream": "that a shard was drained is recorded for each cursor of it",
        "drained-marker": "a cursor whose log vanished is removed only if it was drained before",
        "drained-position": "the record of a drained shard has its last position, which an action may need",
        "returns-by-walk": "an action that lost its log begins anew once the log reaches back far enough",
        "every-part": "a walk ends when every range of its keys is done",
        "one-write-split": "a range that is divided is replaced by both halves in one write",
        "same-walk": "a place is saved only in the walk in which it was reached",
        "rules-after-walk": "a worker that joins a walk reads the rules after it has seen the walk",
        "listed-due": "an object is passed without a look only if nothing that is listed of it can be due",
        "forced-reseed": "an action returns to events by a walk that moves its cursors back",
    }

    # State: the objects.

    clock = Int(0, ticks)
    item = Role(
        objects,
        there=Bool(),
        written=Bool(),
        mtime=Int(0, ticks),
        of=Id(actions),  # the action that it matches
        shard=Id(shards),
    )

    # State: the log.

    start = Int(0, losses)  # the log begins with this tick
    vanished = Bool()  # the log of shard 0

    # State: the walk.

    walk = Enum("none", "walks")
    visited = Int(0, objects)  # the number of objects that it has visited, in its first part
    bound = Int(0, objects)  # the first object of the second part; there is none behind the last object
    place = Int(0, objects)  # the object that the second part visits next
    late = Int(0, objects)  # a place that a paused worker reached and has not saved
    is_old = Bool()  # in an earlier walk
    began = Int(0, ticks)

    # State: the actions and their cursors.

    act = Role(
        actions,
        mode=Enum("new", "walked", "event_driven", "scan_only"),
        floor=Int(0, ticks),  # the tick to which the cursors are moved back
        cursor=Each(shards, Int(0, ticks + 1)),
        serves=Each(shards, Bool()),
        drained=Bool(),  # recorded: its cursor was past all events of shard 0, which gets no more
        collected=Bool(),  # its cursor of shard 0 is removed
    )
    reseeded = Int(0, reseeds)

    # Definitions.

    def delay_of(s, i: int) -> Number:
        return DELAYS[0] - s.item[i].of

    def is_due(s, i: int) -> Truth:
        return all_of([s.item[i].there, s.clock >= s.item[i].mtime + s.delay_of(i)])

    def routes(s, a: int, k: int) -> Truth:
        """A sweep of the cursor works for the action."""
        return all_of([s.act[a].serves[k], s.act[a].mode != "scan_only"])

    def origin(s) -> Number:
        """The time from which a walk that ends now cannot have been too early."""
        return s.began

    @without("walk-began", replaces=origin)
    def origin_at_the_end(s) -> Number:
        return s.clock

    def back(s, a: int) -> int:
        """The ticks by which the cursors of the action begin before the walk."""
        return DELAYS[a]

    @without("delay-back", replaces=back)
    def not_back(s, a: int) -> int:
        return 0

    def has_cursor(s, a: int, k: int) -> Truth:
        return ~s.act[a].collected if k == 0 else s.clock >= 0

    def was_drained(s, a: int) -> Truth:
        """The cursor of shard 0 had been read to its end."""
        return s.act[a].drained

    @without("drained-per-stream", replaces=was_drained)
    def was_any_drained(s, a: int) -> Truth:
        return s.act.any(drained=True)

    @without("drained-marker", replaces=was_drained)
    def was_surely_drained(s, a: int) -> bool:
        return True

    def is_lost(s, a: int, k: int) -> Truth:
        """The log of the shard begins after the cursor; or it is gone, and was not read to its end."""
        is_gone = s.vanished & ~s.was_drained(a) if k == 0 else s.clock < 0
        return s.has_cursor(a, k) & ((s.start > s.act[a].cursor[k]) | is_gone)

    def may_pass_loss(s, a: int, k: int) -> Truth:
        """No action loses anything if the cursor passes what the log has lost."""
        return ~s.routes(a, k)

    @without("loss-degrades", replaces=may_pass_loss)
    def may_pass_any_loss(s, a: int, k: int) -> bool:
        return True

    def is_past(s, a: int) -> Truth:
        """The action needs no event that shard 0 held."""
        return s.act[a].floor > LAST

    @without("drained-position", replaces=is_past)
    def is_taken_as_past(s, a: int) -> bool:
        return True

    def is_last_part(s) -> Truth:
        """No range of keys is left."""
        return (s.visited == s.bound) & (s.place == s.objects)

    @without("every-part", replaces=is_last_part)
    def is_own_part_done(s) -> Truth:
        return s.visited == s.bound

    def recorded_place(s, i: int) -> int:
        """The place of a second part from this object on, as the write of the first part has it."""
        return i

    @without("one-write-split", replaces=recorded_place)
    def no_place_yet(s, i: int) -> int:
        return s.objects

    def saved_late(s) -> Number:
        """The place in the first part after a worker of an earlier walk has saved its own."""
        return s.visited

    @without("same-walk", replaces=saved_late)
    def saved_in_any_walk(s) -> Number:
        return most([s.visited, least([s.late, s.bound])])

    def knows(s, a: Number) -> Truth:
        """A worker that joins the walk has the rule of the action."""
        return s.clock >= 0

    @without("rules-after-walk", replaces=knows)
    def knew_before(s, a: Number) -> Truth:
        return any_of((a == b) & (s.act[b].mode != "new") for b in range(s.actions))

    def seems_due(s, i: int) -> Truth:
        """By the listing."""
        return s.is_due(i)

    @without("listed-due", replaces=seems_due)
    def never_seems_due(s, i: int) -> Truth:
        return s.clock < 0

    def is_seeded(s, a: int) -> Truth:
        """Every cursor of the action names it."""
        return all_of(s.act[a].serves[k] | (~s.has_cursor(a, k) & s.is_past(a)) for k in range(s.shards))

    @without("seed-before-activate", replaces=is_seeded)
    def is_taken_as_seeded(s, a: int) -> bool:
        return True

    # Actions: users, time, the log.

    @action(i=item, a=act, k=shards)
    def write(s, i: int, a: int, k: int) -> None:
        """The object is written, with an event in a shard. A shard that departs has early events only."""
        new = s.item[i]
        s.require(~new.written)
        if s.departs and k == 0:
            s.require(s.clock == 0)
        new.there = True
        new.written = True
        new.mtime = s.clock
        new.of = a
        new.shard = k

    @action
    def time_passes(s) -> None:
        s.require(s.clock < s.ticks)
        s.clock += 1

    @action
    def lose_oldest(s) -> None:
        s.require(s.start < s.losses, s.start < s.clock)
        s.start += 1

    @action
    def vanish(s) -> None:
        s.require(s.departs > 0, ~s.vanished, s.clock > 0)
        s.vanished = True

    # Actions: the walk.

    @action
    def begin_walk(s) -> None:
        s.require(s.walk == "none")
        s.walk = "walks"
        s.visited = 0
        s.bound = s.objects
        s.place = s.objects
        s.is_old = s.late > 0
        s.began = s.clock

    @action(i=item)
    def visit(s, i: int) -> None:
        """The walk deletes an object that is due."""
        s.require(s.walk == "walks", s.visited == i, s.bound > i)
        s.item[i].there = s.item[i].there & ~s.seems_due(i)
        s.visited += 1

    @action(i=item)
    def divide(s, i: int) -> None:
        """A second worker takes over the objects from this one on."""
        s.require(s.helpers > 0, s.walk == "walks", s.bound == s.objects, s.visited < i)
        s.bound = i
        s.place = s.recorded_place(i)

    @action(i=item)
    def visit_second(s, i: int) -> None:
        s.require(s.walk == "walks", s.place == i)
        s.item[i].there = s.item[i].there & ~(s.seems_due(i) & s.knows(s.item[i].of))
        s.place += 1

    @action
    def pause(s) -> None:
        """The worker of the first part has visited an object, and saves that only later."""
        s.require(s.helpers > 0, s.walk == "walks", s.late == 0, s.visited < s.bound)
        s.late = s.visited + 1
        s.is_old = False

    @action
    def save_late(s) -> None:
        s.require(s.walk == "walks", s.late > 0, s.is_old)
        s.visited = s.saved_late()
        s.late = 0
        s.is_old = False

    @action
    def end_walk(s) -> None:
        """Actions that are new get their floors. Nothing changes for the others."""
        s.require(s.walk == "walks", s.is_last_part())
        for a in range(s.actions):
            s.set_floor(a)
            s.move_others(a)
        s.walk = "none"
        s.visited = 0
        s.bound = 0
        s.place = 0
        s.began = 0

    def set_floor(s, a: int) -> None:
        me = s.act[a]
        is_new = me.mode == "new"
        me.floor = pick(is_new, most([s.origin() - s.back(a), 0]), me.floor)
        me.mode = pick(is_new, "walked", me.mode)

    def move_others(s, a: int) -> None:
        """The cursors of an action that does not begin stay."""

    @without("rewind-for-new-only", replaces=move_others)
    def move_all(s, a: int) -> None:
        me = s.act[a]
        for k in range(s.shards):
            me.cursor[k] = pick(me.mode == "event_driven", least([me.cursor[k], s.began]), me.cursor[k])

    @action(a=act, k=shards)
    def seed(s, a: int, k: int) -> None:
        """Move the cursor back, and have it name the action, in one write."""
        me = s.act[a]
        s.require(me.mode == "walked", ~me.serves[k], s.has_cursor(a, k))
        me.cursor[k] = least([me.cursor[k], me.floor])
        me.serves[k] = True
        if k == 0:
            me.drained = me.drained & (me.cursor[0] > LAST)

    @action(a=act)
    def activate(s, a: int) -> None:
        """The record says that events drive the action."""
        s.require(s.act[a].mode == "walked", s.is_seeded(a))
        s.act[a].mode = "event_driven"

    @action(a=act)
    def crash(s, a: int) -> None:
        """Before the record says that the action is active: its walk begins again."""
        s.require(s.act[a].mode == "walked")
        s.act[a].mode = "new"

    # Actions: sweeps.

    @action(a=act, k=shards)
    def sweep(s, a: int, k: int) -> None:
        """One tick of one shard: delete what is due and routed. The cursor passes what is not routed."""
        at = s.act[a].cursor[k]
        s.require(at + DELAYS[a] <= s.clock, s.has_cursor(a, k), ~s.is_lost(a, k))
        for one in s.item:
            is_found = (one.mtime == at) & (one.of == a) & (one.shard == k) & s.routes(a, k)
            one.there = one.there & ~is_found
        s.act[a].cursor[k] += 1

    @action(a=act, k=shards)
    def degrade(s, a: int, k: int) -> None:
        """The log cannot show any more that nothing was missed."""
        me = s.act[a]
        s.require((me.mode == "walked") | (me.mode == "event_driven"))
        lost_events = me.serves[k] & s.is_lost(a, k)
        needs_more = (me.mode == "walked") & ~s.has_cursor(a, k) & ~s.is_past(a)
        s.require(lost_events | needs_more)
        me.mode = "scan_only"

    @action(a=act, k=shards)
    def skip_lost(s, a: int, k: int) -> None:
        """The cursor goes on where the log begins."""
        me = s.act[a]
        s.require(s.start > me.cursor[k], s.has_cursor(a, k), s.may_pass_loss(a, k))
        me.cursor[k] = s.start

    @action(a=act)
    def drain(s, a: int) -> None:
        """This cursor has passed all events of shard 0, which gets no more."""
        me = s.act[a]
        s.require(s.departs > 0, ~s.vanished, ~me.drained, me.cursor[0] > LAST)
        me.drained = True

    @action(a=act)
    def collect(s, a: int) -> None:
        """The log of shard 0 has vanished, and nothing was left for this cursor."""
        s.require(s.vanished, ~s.act[a].collected, s.was_drained(a))
        s.act[a].collected = True

    @action(a=act)
    def reseed(s, a: int) -> None:
        """An operator accepts the loss and returns the action to events."""
        s.require(s.act[a].mode == "scan_only", s.reseeded < s.reseeds)
        s.reseeded += 1
        s.begin_anew(a)

    def reaches_back(s, a: int) -> Truth:
        """A walk that begins now leaves nothing to events that the log has lost."""
        return all_of([s.clock >= s.start + DELAYS[a], ~(s.vanished & ~s.was_drained(a))])

    @without("returns-by-walk", replaces=reaches_back)
    def never_reaches_back(s, a: int) -> bool:
        return False

    @action(a=act)
    def return_by_walk(s, a: int) -> None:
        """The next walk proves what the events would have, so no operator has to accept the loss."""
        s.require(s.act[a].mode == "scan_only", s.reaches_back(a))
        s.begin_anew(a)

    def begin_anew(s, a: int) -> None:
        """By a walk that moves the cursors back."""
        me = s.act[a]
        me.mode = "new"
        for k in range(s.shards):
            me.serves[k] = False
            me.cursor[k] = most([me.cursor[k], s.start])
        me.collected = me.collected | s.vanished

    @without("forced-reseed", replaces=begin_anew)
    def go_on(s, a: int) -> None:
        s.act[a].mode = "event_driven"

    # Properties.

    def is_awaited(s, i: int) -> Truth:
        """The cursor of the object's action and shard is not past its event, and will work for it."""
        one = s.item[i]
        return any_of(
            (one.of == a)
            & (one.shard == k)
            & s.has_cursor(a, k)
            & s.act[a].serves[k]
            & (s.act[a].cursor[k] <= one.mtime)
            for a in range(s.actions)
            for k in range(s.shards)
        )

    def follows_events(s, i: int) -> Truth:
        """The object is there, and events drive its action."""
        one = s.item[i]
        is_driven = [(one.of == a) & (s.act[a].mode == "event_driven") for a in range(s.actions)]
        return all_of([one.there, any_of(is_driven)])

    def is_in_log(s, i: int) -> Truth:
        return all_of([s.item[i].mtime >= s.start, ~(s.vanished & (s.item[i].shard == 0))])

    @invariant(i=item)
    def cursor_honest(s, i: int) -> Truth:
        """An object of an active action has its event ahead of a cursor."""
        return implies(s.follows_events(i) & s.is_in_log(i), s.is_awaited(i))

    @invariant(i=item)
    def no_silent_loss(s, i: int) -> Truth:
        """If the log lost an event, its cursor shows that, or the action is scan-only."""
        return implies(s.follows_events(i) & ~s.is_in_log(i), s.is_awaited(i))

    @step(a=act, k=shards)
    def seed_before_activate(before, after: "LifecycleSeeding", a: int, k: int) -> Truth:
        """Where events begin to be routed to an action the cursor is not past its floor."""
        begins = ~before.routes(a, k) & after.routes(a, k)
        return implies(begins, after.act[a].cursor[k] <= after.act[a].floor)

    @step(a=act, k=shards)
    def replays_for_new_only(before, after: "LifecycleSeeding", a: int, k: int) -> Truth:
        """A cursor goes back only for an action that begins."""
        goes_back = after.act[a].cursor[k] < before.act[a].cursor[k]
        return implies(goes_back, before.act[a].mode == "walked")

    @always_recoverable
    def eventually_expired(s) -> Truth:
        """Whatever happened, what is due is deleted."""
        return ~any_of(s.is_due(i) for i in range(s.objects))

    @always_recoverable
    def returns_by_itself(s) -> Truth:
        """No action stays left to scans for want of an operator, but for a shard that vanished unread."""
        is_driven = [s.act[a].mode != "scan_only" for a in range(s.actions)]
        return any_of([all_of(is_driven), s.vanished])

    @reachable(i=item)
    def by_events(s, i: int) -> Truth:
        """An object can be gone when its action is active and the cursor has passed it."""
        is_gone = s.item[i].written & ~s.item[i].there
        return all_of([is_gone, s.act[0].mode == "event_driven", s.act[0].cursor[0] > 0])

    # Refinement: what the store shows of action 0, of its cursors and of the record of the bucket.

    def reach(s, k: int) -> Number:
        """The position of a cursor of action 0, with the delay of the action.

        It is 0 before all events, and where there is no cursor.
        """
        at = s.act[0].cursor[k]
        return pick(s.has_cursor(0, k) & (at > 0), at + DELAYS[0], 0)

    def shows_walk(s) -> Does:
        """The record names action 0, unless it is complete."""
        mode = s.act[0].mode
        return does(
            "walk_began", b=0, n=(mode == "new") | (mode == "walked"), d=mode == "event_driven", at=s.clock
        )

    def shows_end(s) -> Does:
        """A walk ends with which action 0 does not begin. Else it ends when the cursors are moved back."""
        mode = s.act[0].mode
        is_complete = (mode == "event_driven") | (mode == "scan_only")
        return does("walk_ended", b=0, d=mode == "event_driven", when=is_complete)

    def shows_seed(before, after: "LifecycleSeeding", a: int, k: int) -> tuple[Does, ...]:
        return () if a else (does("named", k=k, n=0, to=after.reach(k), late=0),)

    def shows_activation(s, a: int) -> tuple[Does, ...]:
        """The walk ends. Cursors that named the action before a crash are named anew, where they are."""
        if a:
            return ()
        me = s.act[0]
        again = (
            does("rewound", k=k, n=1, to=s.reach(k), when=me.serves[k] & s.has_cursor(0, k))
            for k in range(s.shards)
        )
        another = does("walk_began", b=0, n=0, d=1, at=s.began, when=s.walk == "walks")
        return (*again, does("walk_ended", b=0, d=1), another)

    def shows_move(before, after: "LifecycleSeeding", a: int, k: int) -> tuple[Does, ...]:
        if a:
            return ()
        to = after.reach(k)
        n = pick(before.act[0].serves[k], 1, 0)
        return (does("saved", k=k, n=n, to=to - 1, past=1, current=1, when=to > before.reach(k)),)

    def shows_demotion(s, a: int) -> tuple[Does, ...]:
        """At the end of its walk; or while events drive it, beside a walk or not."""
        if a:
            return ()
        begins = s.act[0].mode == "walked"
        walks = s.walk == "walks"
        return (
            does("walk_ended", b=0, d=0, when=begins),
            does("walk_began", b=0, n=0, d=0, at=s.began, when=begins & walks),
            does("walk_went_on", b=0, n=0, d=0, when=~begins & walks),
            does("demoted", b=0, d=0, when=~begins & ~walks),
        )

    def shows_reseed(before, after: "LifecycleSeeding", a: int) -> tuple[Does, ...]:
        """A walk under way begins anew. The cursors forget the action, and go on where the log begins."""
        if a:
            return ()
        shown = [does("walk_began", b=0, n=1, d=0, at=before.clock, when=before.walk == "walks")]
        for k in range(before.shards):
            is_there = before.has_cursor(0, k)
            forgets = before.act[0].serves[k] & ~after.act[0].serves[k]
            to = after.reach(k)
            shown.append(does("forgot", k=k, n=0, when=is_there & forgets))
            shown.append(does("saved", k=k, n=0, to=to - 1, past=1, current=1, when=to > before.reach(k)))
            shown.append(does("removed", k=k, when=is_there & ~after.has_cursor(0, k)))
        return tuple(shown)

    @refines(
        LifecycleObserved,
        {
            "begin_walk": shows_walk,
            "end_walk": shows_end,
            "seed": shows_seed,
            "activate": shows_activation,
            "sweep": shows_move,
            "skip_lost": shows_move,
            "degrade": shows_demotion,
            "collect": lambda s, a: () if a else does("removed", k=0),
            "reseed": shows_reseed,
            "return_by_walk": shows_reseed,
        },
        at={"departs": 1},
        part=(
            "named",
            "rewound",
            "forgot",
            "saved",
            "removed",
            "walk_began",
            "walk_went_on",
            "walk_ended",
            "demoted",
        ),
        streams=shards,
        positions=ticks + 3,
        times=ticks,
        found=1,
    )
    def observed(s, observed: LifecycleObserved) -> dict[str, object]:
        """Every write for action 0 is one that the protocol of a lifecycle allows."""
        names = [s.act[0].serves[k] & s.has_cursor(0, k) for k in range(s.shards)]
        return {
            "stream.position": related(
                all_of(observed.stream[k].position == s.reach(k) for k in range(s.shards))
            ),
            "stream.present": related(
                all_of(observed.stream[k].present == s.has_cursor(0, k) for k in range(s.shards))
            ),
            "stream.serves": related(
                all_of((observed.stream[k].serves > 0) == names[k] for k in range(s.shards))
            ),
            "bucket.driven": related((observed.bucket[0].driven > 0) == (s.act[0].mode == "event_driven")),
        }

    # Where the checker shows what.

    shown_at = {
        **dict.fromkeys(("every-part", "one-write-split", "same-walk", "rules-after-walk"), SHARED),
        **{name: {"departs": 1} for name in ("drained-marker", "drained-position")},
        "drained-per-stream": {"departs": 1, "actions": 2, "ticks": 3, "losses": 0, "reseeds": 0},
    }
    fires_at = {
        **{name: {"departs": 1} for name in ("vanish", "drain", "collect")},
        **dict.fromkeys(("divide", "visit_second", "pause", "save_late"), SHARED),
    }
