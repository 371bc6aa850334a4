"""Blockers: what a worker of a lifecycle does with an event that it cannot work on.

A stream has a position of its own: a cursor of one delay and one shard, the tags of a shard, the walk of a
bucket, the pending objects of an action. A worker takes the next event of a stream. An event that fails
because something else is out of order is tried again in a later batch, and each try is counted, durably. An
event that can never succeed, or that was tried too often, becomes a blocker: a durable record, after which
the stream waits for an operator. Only an operator ever skips an event, because skipping loses a deletion.

    an event      waiting --work--> resolved, and the cursor passes
                  waiting --try_later--> waiting, counted          the store does not answer
                  waiting --block--> blocked                       it failed for good, or too often
                  blocked --pause--> blocked                       left alone for the rest of the batch
                  blocked --retry--> resolved                      an operator has repaired it
                  blocked --resume--> waiting                      the worker tries again
                  blocked --quarantine--> skipped                  an operator gives it up

A batch has read ahead: events of a stream that was blocked a moment ago still arrive (`arrive`).

The events of a sweep may be of several actions, each event of its own (`shared`). Then a blocker would stop
actions that could go on. Instead the cursor forgets the action of the event, which so begins anew with the
walk of its bucket; the walk looks at the object, and waits for an operator where that fails.

    an event      waiting --hand_over--> left to the walk, and the cursor passes
                  left to the walk --walk--> resolved
                  left to the walk --give_up--> skipped
"""

from fencepost.model import *
from fencepost.model.lifecycle_observed import LifecycleObserved
from fencepost.model.store import Budget


class LifecycleBlockers(Machine):
    """Streams of events, a worker, its blockers and retries, an operator."""

    # Constants.

    streams = Size(2, most=3, doc="what has a position of its own")
    events = Size(2, most=4, doc="events of each stream")
    tries = Size(2, most=4, doc="failures after which an event becomes a blocker")
    crashes = Size(1, least=0, most=3, doc="crashes of the worker in one run")
    outages = Size(1, least=0, most=2, doc="times that nothing can be deleted for a while")
    shared = Size(0, least=0, most=1, doc="whether the events of a stream are of several actions: 1 or 0")

    safeguards = {
        "drop-after-block": "what still arrives of a stream that was blocked in the same batch is dropped",
        "blocker-before-pause": "a stream pauses only once its blocker is durable",
        "one-stream-pauses": "a blocker pauses its own stream and no other",
        "no-automatic-skip": "a worker never moves past a blocker",
        "count-durable": "failures are counted durably",
        "count-cleared": "a success, and everything that an operator does, begins the count anew",
        "try-limit": "an event that was tried too often becomes a blocker",
        "blocker-guards": "a worker that begins reads the blockers, and leaves their streams alone",
        "hand-over": "an event that cannot be worked on leaves a sweep that other actions share",
        "forget-first": "the cursor forgets the action, durably, before it passes what is left to its walk",
    }
    symmetric = ("streams",)

    # State.

    outage = Bool()  # the store does not answer
    stream = Role(
        streams,
        poison=Id(events, nobody=True),  # this event can never be worked on, until it is repaired
        cursor=Int(0, events),
        resolved=Flags(events),
        skipped=Flags(events),
        left=Flags(events),  # durable: their actions begin anew, with a walk that looks at them
        blocker=Bool(),  # durable: of the event at the cursor
        count=Int(0, tries),  # durable: of the event at the cursor
        paused=Bool(),  # in the memory of the worker, for the rest of the batch
        failures=Int(0, tries + 1),  # ghost: of the event at the cursor, since the last success or repair
    )
    crash_left = Budget(crashes)
    outage_left = Budget(outages)
    unjust = Bool()  # ghost: an event was blocked that had neither failed for good nor often

    @initial
    def some_poison(s) -> None:
        for me in s.stream:
            me.poison = anything()

    # Definitions.

    def fails(s, k: int) -> Truth:
        """The event at the cursor can never be worked on."""
        return s.stream[k].poison == s.stream[k].cursor

    def is_waiting(s, k: int) -> Truth:
        """The stream has an event that is not passed."""
        return s.stream[k].cursor < s.events

    def is_blocked(s, k: int) -> Truth:
        """The worker finds a blocker of the stream."""
        return s.stream[k].blocker

    @without("blocker-guards", replaces=is_blocked)
    def is_remembered(s, k: int) -> Truth:
        return s.stream[k].paused

    def is_stopped(s, k: int) -> Truth:
        """The worker leaves the stream alone."""
        return s.is_blocked(k) | s.stream[k].paused

    @without("one-stream-pauses", replaces=is_stopped)
    def is_any_stopped(s, k: int) -> Truth:
        return any_of(one.blocker | one.paused for one in s.stream)

    def may_pause(s, k: int) -> Truth:
        return s.stream[k].blocker

    @without("blocker-before-pause", replaces=may_pause)
    def may_pause_at_once(s, k: int) -> bool:
        return True

    def is_over(s, k: int) -> Truth:
        """One more failure is one too many."""
        return s.stream[k].count + 1 >= s.tries

    @without("try-limit", replaces=is_over)
    def is_never_over(s, k: int) -> bool:
        return False

    def hands_over(s) -> Truth:
        """A failing event is left to the walk of its bucket."""
        return Truth.constant(s.shared == 1)

    @without("hand-over", replaces=hands_over)
    def hands_nothing_over(s) -> bool:
        return False

    def leave(s, k: int, at: Number) -> None:
        """The walk of its bucket has to look at the event."""
        me = s.stream[k]
        for e in range(s.events):
            me.left = pick(at == e, me.left.plus(e), me.left)

    @without("forget-first", replaces=leave)
    def leave_to_chance(s, k: int, at: Number) -> None:
        """The cursor goes on serving the action."""

    def works_on_arrivals(s) -> Truth:
        """The worker works on what arrives of a stream that was blocked in the same batch."""
        return Truth.constant(False)

    @without("drop-after-block", replaces=works_on_arrivals)
    def works_on_all_arrivals(s) -> bool:
        return True

    def skips_by_itself(s) -> Truth:
        """The worker puts away what is blocked."""
        return Truth.constant(False)

    @without("no-automatic-skip", replaces=skips_by_itself)
    def skips_all_by_itself(s) -> bool:
        return True

    def clear_count(s, k: int) -> None:
        s.stream[k].count = 0

    @without("count-cleared", replaces=clear_count)
    def keep_count(s, k: int) -> None:
        """The count goes on."""

    def lose_memory(s, k: int) -> None:
        """Of a worker that crashes."""
        s.stream[k].paused = False

    @without("count-durable", replaces=lose_memory)
    def lose_memory_and_count(s, k: int) -> None:
        s.stream[k].paused = False
        s.stream[k].count = 0

    # Parts of several actions.

    def resolve(s, k: int, at: Number) -> None:
        """The event is worked on."""
        me = s.stream[k]
        for e in range(s.events):
            me.resolved = pick(at == e, me.resolved.plus(e), me.resolved)

    def begin_anew(s, k: int) -> None:
        """The next failure is the first."""
        s.clear_count(k)
        s.stream[k].failures = 0

    def unblock(s, k: int) -> None:
        s.stream[k].blocker = False
        s.stream[k].paused = False
        s.begin_anew(k)

    # Actions: the worker.

    @action(k=stream)
    def work(s, k: int) -> None:
        """The next event is resolved, and the cursor passes it."""
        s.require(s.is_waiting(k), ~s.is_stopped(k), ~s.fails(k), ~s.outage)
        s.resolve(k, s.stream[k].cursor)
        s.stream[k].cursor += 1
        s.begin_anew(k)

    @action(k=stream)
    def try_later(s, k: int) -> None:
        """The store does not answer: the batch ends, the position stays."""
        me = s.stream[k]
        s.require(s.is_waiting(k), ~s.is_stopped(k), s.outage, ~s.fails(k), ~s.is_over(k))
        s.require(me.failures <= s.tries, me.count < s.tries)  # keeps the space finite without a safeguard
        me.count += 1
        me.failures += 1

    @action(k=stream)
    def block(s, k: int) -> None:
        """Write the blocker: the event has failed for good, or too often."""
        me = s.stream[k]
        s.require(s.is_waiting(k), ~s.is_stopped(k), s.fails(k) | (s.outage & s.is_over(k)), ~s.hands_over())
        if ~s.fails(k):
            me.failures += 1
            s.unjust = s.unjust | (me.failures < s.tries)
        me.blocker = True
        me.count = 0

    @action(k=stream)
    def hand_over(s, k: int) -> None:
        """Forget the action of the event, which has failed for good or too often, and go on."""
        s.require(s.is_waiting(k), ~s.is_stopped(k), s.fails(k) | (s.outage & s.is_over(k)), s.hands_over())
        s.leave(k, s.stream[k].cursor)
        s.stream[k].cursor += 1
        s.begin_anew(k)

    @action(k=stream, e=events)
    def walk(s, k: int, e: int) -> None:
        """The walk of the bucket resolves what is left to it."""
        me = s.stream[k]
        s.require(me.left.has(e), me.poison != e, ~s.outage)
        me.left = me.left.minus(e)
        me.resolved = me.resolved.plus(e)

    @action(k=stream)
    def pause(s, k: int) -> None:
        """The worker leaves the stream alone for the rest of the batch."""
        me = s.stream[k]
        s.require(s.is_waiting(k), ~me.paused, me.blocker | s.fails(k), s.may_pause(k))
        me.paused = True

    @action(k=stream)
    def arrive(s, k: int) -> None:
        """The worker resolves an event behind the blocked one, which the batch had read before."""
        me = s.stream[k]
        s.require(s.works_on_arrivals())
        s.require(s.is_waiting(k), me.blocker | me.paused, me.cursor + 1 < s.events, ~s.outage)
        s.resolve(k, me.cursor + 1)
        me.cursor += 2
        s.unblock(k)

    @action(k=stream)
    def set_aside(s, k: int) -> None:
        """The worker puts a blocked event away, and the stream goes on."""
        s.require(s.skips_by_itself(), s.stream[k].blocker)
        s.stream[k].cursor += 1
        s.unblock(k)

    @action
    def crash(s) -> None:
        s.crash_left.spend()
        for k in range(s.streams):
            s.lose_memory(k)

    # Actions: the world.

    @action
    def begin_outage(s) -> None:
        s.require(~s.outage)
        s.outage_left.spend()
        s.outage = True

    @action
    def end_outage(s) -> None:
        s.require(s.outage)
        s.outage = False

    @action(k=stream)
    def repair(s, k: int) -> None:
        """The event that could never be worked on can be."""
        s.require(s.stream[k].poison >= 0)
        s.stream[k].poison = -1

    # Actions: the operator.

    @action(k=stream)
    def retry(s, k: int) -> None:
        """Work on the event now, and let the stream go on if that succeeds."""
        s.require(s.stream[k].blocker, ~s.fails(k), ~s.outage)
        s.resolve(k, s.stream[k].cursor)
        s.stream[k].cursor += 1
        s.unblock(k)

    @action(k=stream)
    def resume(s, k: int) -> None:
        """Remove the blocker; the worker will try again."""
        s.require(s.stream[k].blocker)
        s.unblock(k)

    @action(k=stream)
    def quarantine(s, k: int) -> None:
        """Give the event up: the only way past an event that is not resolved."""
        me = s.stream[k]
        s.require(me.blocker)
        for e in range(s.events):
            me.skipped = pick(me.cursor == e, me.skipped.plus(e), me.skipped)
        me.cursor += 1
        s.unblock(k)

    @action(k=stream, e=events)
    def give_up(s, k: int, e: int) -> None:
        """Give up an object at which the walk of its bucket waits."""
        me = s.stream[k]
        s.require(me.left.has(e), me.poison == e)
        me.left = me.left.minus(e)
        me.skipped = me.skipped.plus(e)

    # Properties.

    @invariant(k=stream, e=events)
    def operator_only_skip(s, k: int, e: int) -> Truth:
        """A cursor passes an event only if it is resolved, left to a walk, or quarantined by an operator."""
        me = s.stream[k]
        return implies(me.cursor > e, me.resolved.has(e) | me.left.has(e) | me.skipped.has(e))

    @invariant(k=stream)
    def shared_goes_on(s, k: int) -> Truth:
        """No object stops the sweep of other actions."""
        return implies(s.stream[k].blocker, s.shared == 0)

    @invariant(k=stream)
    def blocker_is_seen(s, k: int) -> Truth:
        """A stream that pauses has a blocker that an operator can list."""
        return implies(s.stream[k].paused, s.stream[k].blocker)

    @invariant(k=stream)
    def isolation(s, k: int) -> Truth:
        """A stream without a blocker of its own goes on, whatever others do."""
        me = s.stream[k]
        is_free = s.is_waiting(k) & ~me.blocker & ~s.fails(k) & ~s.outage & ~me.paused
        return implies(is_free, s.can("work", k=k))

    @step(k=stream)
    def blocker_stands(before, after: "LifecycleBlockers", k: int) -> Truth:
        """A stream goes on behind a blocker only when an operator removes it."""
        goes_on = after.stream[k].cursor > before.stream[k].cursor
        return implies(before.stream[k].blocker & goes_on, ~after.stream[k].blocker)

    @invariant(k=stream)
    def sustained_is_shown(s, k: int) -> Truth:
        """An event that has failed too often has a blocker."""
        return implies(s.stream[k].failures >= s.tries, s.stream[k].blocker)

    @invariant
    def blocked_for_cause(s) -> Truth:
        """An event has a blocker only if it failed for good, or too often."""
        return ~s.unjust

    @always_recoverable
    def always_worked_off(s) -> Truth:
        """Every event is resolved or quarantined in the end."""
        return all_of((one.cursor == s.events) & one.left.is_empty() for one in s.stream)

    @reachable(k=stream)
    def blocked_beside(s, k: int) -> Truth:
        """A stream can be worked off while another one is blocked."""
        is_stuck = s.stream[k].blocker | ~s.stream[k].left.is_empty()
        return all_of([is_stuck, any_of((one.cursor == s.events) & one.left.is_empty() for one in s.stream)])

    @may_end
    def worked_off(s) -> Truth:
        return all_of(one.cursor == s.events for one in s.stream)

    # Refinement: what the store shows. An item's position is the one that the cursor has behind it.

    def shows_count(s, k: int) -> Does:
        return does("counted", k=k, first=s.stream[k].count == 0)

    def shows_blocker(s, k: int) -> Does:
        return does("blocked", k=k, at=s.stream[k].cursor + 1)

    def shows_save(before, after: "LifecycleBlockers", k: int, observed: LifecycleObserved) -> Does:
        to = after.stream[k].cursor
        return does("saved", k=k, n=0, to=to - 1, past=observed.stream[k].item < to, current=1)

    def shows_success(before, after: "LifecycleBlockers", k: int) -> Does:
        begins_anew = (before.stream[k].count > 0) & (after.stream[k].count == 0)
        return does("cleared", k=k, when=begins_anew)

    @refines(
        LifecycleObserved,
        {
            "work": (shows_save, shows_success),
            "try_later": shows_count,
            "block": (shows_count, shows_blocker, "cleared"),
            "hand_over": (shows_count, "cleared", shows_save),
            "arrive": (shows_save, "unblocked", "cleared"),
            "set_aside": (shows_save, "unblocked"),
            "retry": (shows_save, "unblocked", "cleared"),
            "resume": ("unblocked", "cleared"),
            "quarantine": ("given_up", "unblocked", shows_save, "cleared"),
        },
        part=("counted", "cleared", "blocked", "unblocked", "given_up", "saved"),
        streams=streams,
        positions=events,
        tries=tries,
        found=1,
    )
    def observed(s, observed: LifecycleObserved) -> dict[str, object]:
        """Every write of a worker or an operator is one that the protocol of a lifecycle allows."""
        streams = range(s.streams)
        return {
            "stream.position": related(
                all_of(observed.stream[k].position == s.stream[k].cursor for k in streams)
            ),
            "stream.waits": related(all_of(observed.stream[k].waits == s.stream[k].blocker for k in streams)),
            "stream.failures": related(
                all_of(observed.stream[k].failures == s.stream[k].count for k in streams)
            ),
        }

    # Where the checker shows what.

    shown_at = {
        "count-cleared": {"outages": 2},
        **{name: {"shared": 1} for name in ("hand-over", "forget-first")},
    }
    fires_at = {
        "arrive": "drop-after-block",
        "set_aside": "no-automatic-skip",
        **{name: {"shared": 1} for name in ("hand_over", "walk", "give_up")},
    }
