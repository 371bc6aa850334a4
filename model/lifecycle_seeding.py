"""Seeding: how an action of a lifecycle begins, goes on after a loss, and is enforced meanwhile.

An action begins with a walk over the bucket, which deletes what is due. What is not due yet must be found
by its event later, so the cursors are moved back to where the walk cannot have been too early: its
beginning less the delay. Only then are events routed to the action. Sweeps go on all the time, because
other actions of the same delay have been there before; they move the cursors over what is not routed to
anybody.

Each action has a delay of its own, and a cursor for each shard. Time is in ticks; an event has the time of
its object, a cursor is the tick that the sweep looks at next. One walk serves all actions. The log may lose
its oldest ticks, and a shard that gets no more events may lose its log as a whole (`departs`).

`named=1`: the object that holds a cursor names the actions that it is swept for, so that moving it back and
beginning to route are one write. `named=0`: all cursors are moved back, then the record of the action says
that it is active, in this order. That is not enough: a sweep in between passes events that are not routed
yet.
"""

from fencepost.model import *
from fencepost.model.lifecycle_observed import LifecycleObserved

DELAYS = (2, 1)
LAST = 0
"""The tick of the last event of the shard that departs."""


RECORDS = ("walk_began", "walk_went_on", "walk_ended", "demoted")


def _walk_begins(s) -> Does:
    """The record names action 0, unless it is complete."""
    begins = s.mode[0].is_in("new", "walked")
    return does("walk_began", b=0, n=begins, d=s.mode[0] == "event_driven", at=s.clock)


def _walk_of_others_ends(s) -> Does:
    """A walk with which action 0 does not begin. Otherwise it is complete when its cursors are moved back."""
    is_complete = s.mode[0].is_in("event_driven", "scan_only")
    return does("walk_ended", b=0, d=s.mode[0] == "event_driven", when=is_complete)


def _cursor_is_seeded(before, after, a: int, k: int) -> tuple[Does, ...]:
    return () if a else (does("named", k=k, n=0, to=after.reach(k), late=0),)


def _action_is_driven(s, a: int) -> tuple[Does, ...]:
    """Cursors that named the action before a crash are named anew, where they are."""
    if a:
        return ()
    again = (
        does("rewound", k=k, n=1, to=s.reach(k), when=s.serves[0][k] & s.has_cursor(0, k))
        for k in range(s.shards)
    )
    others = does("walk_began", b=0, n=0, d=1, at=s.began, when=s.walk == "walks")
    return (*again, does("walk_ended", b=0, d=1), others)


def _cursor_moves(before, after, a: int, k: int) -> tuple[Does, ...]:
    if a:
        return ()
    is_moved = after.reach(k) > before.reach(k)
    n = pick(before.serves[0][k], 1, 0)
    return (does("saved", k=k, n=n, to=after.reach(k) - 1, past=1, current=1, when=is_moved),)


def _action_is_demoted(s, a: int) -> tuple[Does, ...]:
    """When its walk ends, or while events drive it."""
    if a:
        return ()
    begins, walks = s.mode[0] == "walked", s.walk == "walks"
    return (
        does("walk_ended", b=0, d=0, when=begins),
        does("walk_began", b=0, n=0, d=0, at=s.began, when=begins & walks),
        does("walk_went_on", b=0, n=0, d=0, when=~begins & walks),
        does("demoted", b=0, d=0, when=~begins & ~walks),
    )


def _action_begins_anew(before, after, a: int) -> tuple[Does, ...]:
    """The cursors forget it, and go on from where the log begins. A walk under way begins anew."""
    if a:
        return ()
    found = [does("walk_began", b=0, n=1, d=0, at=before.clock, when=before.walk == "walks")]
    for k in range(before.shards):
        here = before.has_cursor(0, k)
        found.append(does("forgot", k=k, n=0, when=here & before.serves[0][k] & ~after.serves[0][k]))
        is_moved = after.reach(k) > before.reach(k)
        found.append(does("saved", k=k, n=0, to=after.reach(k) - 1, past=1, current=1, when=is_moved))
        found.append(does("removed", k=k, when=here & ~after.has_cursor(0, k)))
    return tuple(found)


class LifecycleSeeding(Machine):
    """A bucket with two actions: walks, cursors, losses of the log, reseeding."""

    # Constants.
    objects = Size(1, most=3, doc="objects, each written once")
    actions = Size(1, most=2, doc="actions, each with a delay of its own")
    shards = Size(2, most=2, doc="writers of the log")
    ticks = Size(4, most=6, doc="how far the clock goes")
    losses = Size(1, least=0, most=3, doc="ticks that the log loses, oldest first")
    reseeds = Size(1, least=0, most=2, doc="times that an operator returns an action to events")
    departs = Size(0, least=0, most=1, doc="whether the log of shard 0 may vanish as a whole: 1 or 0")
    named = Size(1, least=0, most=1, doc="whether a cursor names the actions that it is swept for: 1 or 0")

    safeguards = {
        "seed-before-activate": "an action is active only when all its cursors are moved back",
        "walk-began": "cursors are moved back by the time at which the walk began, not at which it ended",
        "delay-back": "cursors are moved back by the delay too",
        "rewind-for-new-only": "a walk moves cursors back only for actions that begin",
        "loss-degrades": "a loss makes the action scan-only, durably, before a cursor passes it",
        "drained-per-stream": "that a shard was drained is recorded for each cursor of it",
        "drained-marker": "a cursor whose log vanished is removed only if it was drained before",
        "drained-position": "the record of a drained shard has its last position, which an action may need",
        "forced-reseed": "an action returns to events by a walk that moves its cursors back",
    }

    shown_at = {
        **{name: {"departs": 1} for name in ("drained-marker", "drained-position")},
        "drained-per-stream": {"departs": 1, "actions": 2, "ticks": 3, "losses": 0, "reseeds": 0},
    }

    fires_at = {name: {"departs": 1} for name in ("vanish", "drain", "collect")}

    # State.
    clock = Int(0, ticks)
    there, written = Each(objects, Bool()), Each(objects, Bool())
    mtime = Each(objects, Int(0, ticks))
    of = Each(objects, Id(actions))  # the action that it matches
    shard = Each(objects, Id(shards))
    start = Int(0, losses)  # the log begins with this tick
    vanished = Bool()  # the log of shard 0
    walk = Enum("none", "walks")
    place, began = Int(0, objects), Int(0, ticks)
    mode = Each(actions, Enum("new", "walked", "event_driven", "scan_only"))
    floor = Each(actions, Int(0, ticks))
    cursor = Each(actions, Each(shards, Int(0, ticks + 1)))
    serves = Each(actions, Each(shards, Bool()))
    drained = Flags(actions)  # recorded: these cursors were past all events of shard 0, which gets no more
    collected = Flags(actions)  # these cursors of shard 0 are removed
    reseeded = Int(0, reseeds)

    # Definitions.
    is_due = define(lambda s, i: s.there[i] & (s.clock >= s.mtime[i] + s.delay_of(i)))

    def delay_of(s, i: int) -> Number:
        return DELAYS[0] - s.of[i]

    def routes(s, a: int, k: int) -> Truth:
        """Whether a sweep works for the action."""
        active = ("new", "walked", "event_driven") if s.named else ("event_driven",)
        return s.serves[a][k] & s.mode[a].is_in(*active)

    @define(without={"walk-began": lambda s: s.clock})
    def origin(s) -> Number:
        return s.began

    back = define(lambda s, a: DELAYS[a], without={"delay-back": 0})

    def is_lost(s, a: int, k: int) -> Truth:
        """The log of the shard begins after the cursor, or is gone and nobody knows that it was read."""
        gone = s.vanished & ~s.was_drained(a) if k == 0 else s.clock < 0
        return s.has_cursor(a, k) & ((s.start > s.cursor[a][k]) | gone)

    @define(without={"drained-per-stream": lambda s, a: ~s.drained.is_empty(), "drained-marker": True})
    def was_drained(s, a: int) -> Truth:
        return s.drained.has(a)

    # Actions: users, time, the log.
    @action(i=objects, a=actions, k=shards)
    def write(s, i: int, a: int, k: int) -> None:
        s.require(~s.written[i])
        if s.departs and k == 0:
            s.require(s.clock == 0)  # then the shard gets no more events
        s.there[i], s.written[i], s.mtime[i], s.of[i], s.shard[i] = True, True, s.clock, a, k

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
        s.walk, s.place, s.began = "walks", 0, s.clock

    @action(i=objects)
    def visit(s, i: int) -> None:
        s.require(s.walk == "walks", s.place == i)
        s.there[i] = s.there[i] & ~s.is_due(i)
        s.place += 1

    @action
    def end_walk(s) -> None:
        """Actions that are new get their floors; nothing changes for the others."""
        s.require(s.walk == "walks", s.place == s.objects)
        for a in range(s.actions):
            new = s.mode[a] == "new"
            s.floor[a] = pick(new, most([s.origin() - s.back(a), 0]), s.floor[a])
            s.mode[a] = pick(new, "walked", s.mode[a])
            for k in range(s.shards):
                at = s.cursor[a][k]
                if not s.is_on("rewind-for-new-only"):
                    at = pick(s.mode[a] == "event_driven", least([at, s.began]), at)
                s.cursor[a][k] = at
        s.walk, s.place, s.began = "none", 0, 0

    @action(a=actions, k=shards)
    def seed(s, a: int, k: int) -> None:
        """Move the cursor back, in one write; it names the action if cursors do."""
        s.require(s.mode[a] == "walked", ~s.serves[a][k], s.has_cursor(a, k))
        s.cursor[a][k] = least([s.cursor[a][k], s.floor[a]])
        s.serves[a][k] = True
        if k == 0:
            s.drained = pick(s.cursor[a][0] <= LAST, s.drained.minus(a), s.drained)

    @action(a=actions)
    def activate(s, a: int) -> None:
        s.require(s.mode[a] == "walked")
        s.guard("seed-before-activate", s.is_seeded(a))
        s.mode[a] = "event_driven"

    def is_seeded(s, a: int) -> Truth:
        return all_of(s.serves[a][k] | (~s.has_cursor(a, k) & s.is_past(a)) for k in range(s.shards))

    is_past = define(lambda s, a: s.floor[a] > LAST, without={"drained-position": True})

    def has_cursor(s, a: int, k: int) -> Truth:
        return ~s.collected.has(a) if k == 0 else s.clock >= 0

    @action(a=actions)
    def crash(s, a: int) -> None:
        """Before the record of the action says that it is active: its walk begins again."""
        s.require(s.mode[a] == "walked")
        s.mode[a] = "new"
        if not s.named:
            for k in range(s.shards):
                s.serves[a][k] = False

    # Actions: sweeps.
    @action(a=actions, k=shards)
    def sweep(s, a: int, k: int) -> None:
        """One tick of one shard: delete what is due and routed; what is not routed is passed."""
        s.require(s.cursor[a][k] + DELAYS[a] <= s.clock, s.has_cursor(a, k), ~s.is_lost(a, k))
        for i in range(s.objects):
            found = (s.mtime[i] == s.cursor[a][k]) & (s.of[i] == a) & (s.shard[i] == k) & s.routes(a, k)
            s.there[i] = s.there[i] & ~found
        s.cursor[a][k] += 1

    @action(a=actions, k=shards)
    def degrade(s, a: int, k: int) -> None:
        """The log cannot show any more that nothing was missed."""
        s.require(s.mode[a].is_in("walked", "event_driven"))
        served = s.serves[a][k] & s.is_lost(a, k)
        late = (s.mode[a] == "walked") & ~s.has_cursor(a, k) & ~s.is_past(a)
        s.require(served | late)
        s.mode[a] = "scan_only"

    @action(a=actions, k=shards)
    def skip_lost(s, a: int, k: int) -> None:
        s.require(s.start > s.cursor[a][k], s.has_cursor(a, k))
        s.guard("loss-degrades", ~s.routes(a, k))
        s.cursor[a][k] = s.start

    @action(a=actions)
    def drain(s, a: int) -> None:
        """This cursor has passed all events of shard 0, which gets no more."""
        s.require(s.departs > 0, ~s.vanished, ~s.drained.has(a), s.cursor[a][0] > LAST)
        s.drained = s.drained.plus(a)

    @action(a=actions)
    def collect(s, a: int) -> None:
        """The log of shard 0 has vanished, and nothing was left for this cursor."""
        s.require(s.vanished, ~s.collected.has(a), s.was_drained(a))
        s.collected = s.collected.plus(a)

    @action(a=actions)
    def reseed(s, a: int) -> None:
        """An operator accepts the loss and returns the action to events."""
        s.require(s.mode[a] == "scan_only", s.reseeded < s.reseeds)
        s.reseeded += 1
        if s.is_on("forced-reseed"):
            s.mode[a] = "new"
            for k in range(s.shards):
                s.serves[a][k] = False
                s.cursor[a][k] = most([s.cursor[a][k], s.start])
            s.collected = pick(s.vanished, s.collected.plus(a), s.collected)
        else:
            s.mode[a] = "event_driven"

    # Properties.
    def is_awaited(s, i: int) -> Truth:
        """The cursor of the object's action and shard is not past its event, and will work for it."""
        ways = []
        for a in range(s.actions):
            for k in range(s.shards):
                here = (s.of[i] == a) & (s.shard[i] == k) & s.has_cursor(a, k)
                ways.append(here & s.serves[a][k] & (s.cursor[a][k] <= s.mtime[i]))
        return any_of(ways)

    def follows_events(s, i: int) -> Truth:
        return s.there[i] & any_of((s.of[i] == a) & (s.mode[a] == "event_driven") for a in range(s.actions))

    def is_in_log(s, i: int) -> Truth:
        return (s.mtime[i] >= s.start) & ~(s.vanished & (s.shard[i] == 0))

    cursor_honest = invariant("An object of an active action has its event ahead of a cursor.", i=objects)(
        lambda s, i: implies(s.follows_events(i) & s.is_in_log(i), s.is_awaited(i))
    )
    no_silent_loss = invariant(
        "If the log lost an event, its cursor shows that, or the action is scan-only.", i=objects
    )(lambda s, i: implies(s.follows_events(i) & ~s.is_in_log(i), s.is_awaited(i)))
    seed_before_activate = step(
        "Where events begin to be routed to an action the cursor is not past its floor.", a=actions, k=shards
    )(
        lambda before, after, a, k: implies(
            ~before.routes(a, k) & after.routes(a, k), after.cursor[a][k] <= after.floor[a]
        )
    )
    replays_for_new_only = step("A cursor goes back only for an action that begins.", a=actions, k=shards)(
        lambda before, after, a, k: implies(
            after.cursor[a][k] < before.cursor[a][k], before.mode[a] == "walked"
        )
    )
    eventually_expired = always_recoverable("Whatever happened, what is due is deleted.")(
        lambda s: ~any_of(s.is_due(i) for i in range(s.objects))
    )
    by_events = reachable(
        "An object can be gone when its action is active and the cursor has passed it.", i=objects
    )(lambda s, i: s.written[i] & ~s.there[i] & (s.mode[0] == "event_driven") & (s.cursor[0][0] > 0))

    # Refinement: what the store shows of action 0, of its cursors and of the record of the bucket.

    def reach(s, k: int) -> Number:
        """The position of a cursor of action 0 with the delay of the action; 0 for none, and before all events."""
        at = s.cursor[0][k]
        return pick(s.has_cursor(0, k) & (at > 0), at + DELAYS[0], 0)

    @refines(
        LifecycleObserved,
        {
            "begin_walk": _walk_begins,
            "end_walk": _walk_of_others_ends,
            "seed": _cursor_is_seeded,
            "activate": _action_is_driven,
            "sweep": _cursor_moves,
            "skip_lost": _cursor_moves,
            "degrade": _action_is_demoted,
            "collect": lambda s, a: () if a else does("removed", k=0),
            "reseed": _action_begins_anew,
        },
        at={"departs": 1},
        part=("named", "rewound", "forgot", "saved", "removed", *RECORDS),
        streams=shards,
        positions=ticks + 3,
        times=ticks,
        found=1,
    )
    def observed(s, observed: LifecycleObserved) -> dict[str, object]:
        """Every write for action 0 is one that the protocol of a lifecycle allows."""
        shards = range(s.shards)
        return {
            "position": related(all_of(observed.position[k] == s.reach(k) for k in shards)),
            "present": related(all_of(observed.present[k] == s.has_cursor(0, k) for k in shards)),
            "serves": related(
                all_of((observed.serves[k] > 0) == (s.serves[0][k] & s.has_cursor(0, k)) for k in shards)
            ),
            "driven": related((observed.driven[0] > 0) == (s.mode[0] == "event_driven")),
        }
