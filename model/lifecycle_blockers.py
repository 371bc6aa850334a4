"""Blockers: what a worker of a lifecycle does with an event that it cannot work on.

A stream is what has a position of its own: a cursor of one delay and one shard, the tags of a shard, the
walk of a bucket, the pending objects of an action. A worker takes the next event of a stream. An event that
fails because something else is out of order is tried again in a later batch, and each try is counted,
durably; one that can never succeed, or was tried too often, becomes a blocker: a durable record, after
which the stream waits for an operator. Nothing is ever skipped but by an operator, because skipping loses a
deletion.

A batch has read ahead: events of a stream that was blocked a moment ago still arrive (`arrive`).
"""

from fencepost.model import *
from fencepost.model.lifecycle_observed import LifecycleObserved
from fencepost.model.store import Budget


def _pass_one(s, k: int, observed: LifecycleObserved) -> Does:
    """The cursor is saved behind its next event."""
    to = s.cursor[k] + 1
    return does("saved", k=k, n=0, to=to - 1, past=observed.item[k] < to, current=1)


def _pass_two(s, k: int, observed: LifecycleObserved) -> Does:
    to = s.cursor[k] + 2
    return does("saved", k=k, n=0, to=to - 1, past=observed.item[k] < to, current=1)


def _clear_count(before, after, k: int) -> Does:
    return does("cleared", k=k, when=(before.count[k] > 0) & (after.count[k] == 0))


class LifecycleBlockers(Machine):
    """Streams of events, a worker, its blockers and retries, an operator."""

    # Constants.
    streams = Size(2, most=3, doc="what has a position of its own")
    events = Size(2, most=4, doc="events of each stream")
    tries = Size(2, most=4, doc="failures after which an event becomes a blocker")
    crashes = Size(1, least=0, most=3, doc="crashes of the worker in one run")
    outages = Size(1, least=0, most=2, doc="times that nothing can be deleted for a while")

    safeguards = {
        "drop-after-block": "what still arrives of a stream that was blocked in the same batch is dropped",
        "blocker-before-pause": "a stream pauses only once its blocker is durable",
        "one-stream-pauses": "a blocker pauses its own stream and no other",
        "no-automatic-skip": "a worker never moves past a blocker",
        "count-durable": "failures are counted durably",
        "count-cleared": "a success, and everything that an operator does, begins the count anew",
        "try-limit": "an event that was tried too often becomes a blocker",
        "blocker-guards": "a worker that begins reads the blockers, and leaves their streams alone",
    }
    symmetric = ("streams",)
    shown_at = {"count-cleared": {"outages": 2}}
    fires_at = {"arrive": "drop-after-block", "set_aside": "no-automatic-skip"}

    # State.
    poison = Each(streams, Id(events, nobody=True))  # this event can never be worked on, until it is repaired
    outage = Bool()
    cursor = Each(streams, Int(0, events))
    resolved, skipped = Each(streams, Flags(events)), Each(streams, Flags(events))
    blocker = Each(streams, Bool())  # durable: of the event at the cursor
    count = Each(streams, Int(0, tries))  # durable: of the event at the cursor
    paused = Each(streams, Bool())  # in the memory of the worker, for the rest of the batch
    crash_left, outage_left = Budget(crashes), Budget(outages)
    failures = Each(
        streams, Int(0, tries + 1)
    )  # ghost: of the event at the cursor, since anybody did anything
    unjust = Bool()  # ghost: an event was blocked that had neither failed for good nor often

    @initial
    def some_poison(s) -> None:
        for k in range(s.streams):
            s.poison[k] = anything()

    # Definitions.
    fails = define(lambda s, k: s.poison[k] == s.cursor[k])
    is_waiting = define(lambda s, k: s.cursor[k] < s.events)
    leaves_alone = define(lambda s, k: s.blocker[k], without={"blocker-guards": lambda s, k: s.paused[k]})
    may_pause = define(lambda s, k: s.blocker[k], without={"blocker-before-pause": True})
    is_over = define(lambda s, k: s.count[k] + 1 >= s.tries, without={"try-limit": False})

    @define(
        without={
            "one-stream-pauses": lambda s, k: any_of(s.blocker[o] | s.paused[o] for o in range(s.streams))
        }
    )
    def is_stopped(s, k: int) -> Truth:
        return s.leaves_alone(k) | s.paused[k]

    def begin_anew(s, k: int) -> None:
        if s.is_on("count-cleared"):
            s.count[k] = 0
        s.failures[k] = 0

    # Actions: the worker.
    @action(k=streams)
    def work(s, k: int) -> None:
        s.require(s.is_waiting(k), ~s.is_stopped(k), ~s.fails(k), ~s.outage)
        s.resolve(k, s.cursor[k])
        s.cursor[k] += 1
        s.begin_anew(k)

    def resolve(s, k: int, at: Number) -> None:
        for e in range(s.events):
            s.resolved[k] = pick(at == e, s.resolved[k].plus(e), s.resolved[k])

    @action(k=streams)
    def try_later(s, k: int) -> None:
        """The store does not answer: the batch ends, the position stays."""
        s.require(s.is_waiting(k), ~s.is_stopped(k), s.outage, ~s.fails(k), ~s.is_over(k))
        s.require(s.failures[k] <= s.tries, s.count[k] < s.tries)
        s.count[k] += 1
        s.failures[k] += 1

    @action(k=streams)
    def block(s, k: int) -> None:
        """Write the blocker: the event has failed for good, or too often."""
        s.require(s.is_waiting(k), ~s.is_stopped(k), s.fails(k) | (s.outage & s.is_over(k)))
        s.failures[k] = pick(s.fails(k), s.failures[k], s.failures[k] + 1)
        s.unjust = s.unjust | (~s.fails(k) & (s.failures[k] < s.tries))
        s.blocker[k] = True
        s.count[k] = 0

    @action(k=streams)
    def pause(s, k: int) -> None:
        s.require(s.is_waiting(k), ~s.paused[k], s.blocker[k] | s.fails(k), s.may_pause(k))
        s.paused[k] = True

    @action(k=streams)
    def arrive(s, k: int) -> None:
        """An event behind the one that was blocked, which the batch had read before."""
        s.require(s.is_waiting(k), s.blocker[k] | s.paused[k], s.cursor[k] + 1 < s.events, ~s.outage)
        s.require(not s.is_on("drop-after-block"))
        s.resolve(k, s.cursor[k] + 1)
        s.cursor[k] += 2
        s.blocker[k], s.paused[k] = False, False
        s.begin_anew(k)

    @action(k=streams)
    def set_aside(s, k: int) -> None:
        """Rejected: a blocked event is put away, and the stream goes on."""
        s.require(not s.is_on("no-automatic-skip"))
        s.require(s.blocker[k])
        s.cursor[k] += 1
        s.blocker[k], s.paused[k] = False, False
        s.begin_anew(k)

    @action
    def crash(s) -> None:
        s.crash_left.spend()
        for k in range(s.streams):
            s.paused[k] = False
            if not s.is_on("count-durable"):
                s.count[k] = 0

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

    @action(k=streams)
    def repair(s, k: int) -> None:
        s.require(s.poison[k] >= 0)
        s.poison[k] = -1

    # Actions: the operator.
    @action(k=streams)
    def retry(s, k: int) -> None:
        """Work on the event now, and let the stream go on if that succeeds."""
        s.require(s.blocker[k], ~s.fails(k), ~s.outage)
        s.resolve(k, s.cursor[k])
        s.cursor[k] += 1
        s.clear(k)

    @action(k=streams)
    def resume(s, k: int) -> None:
        """Remove the blocker; the worker will try again."""
        s.require(s.blocker[k])
        s.clear(k)

    @action(k=streams)
    def quarantine(s, k: int) -> None:
        """The only way past an event that is not resolved."""
        s.require(s.blocker[k])
        for e in range(s.events):
            s.skipped[k] = pick(s.cursor[k] == e, s.skipped[k].plus(e), s.skipped[k])
        s.cursor[k] += 1
        s.clear(k)

    def clear(s, k: int) -> None:
        s.blocker[k], s.paused[k] = False, False
        s.begin_anew(k)

    # Properties.
    operator_only_skip = invariant(
        "A cursor passes an event only if it is resolved, or an operator quarantined it.", k=streams, e=events
    )(lambda s, k, e: implies(s.cursor[k] > e, s.resolved[k].has(e) | s.skipped[k].has(e)))
    blocker_is_seen = invariant("A stream that pauses has a blocker that an operator can list.", k=streams)(
        lambda s, k: implies(s.paused[k], s.blocker[k])
    )
    isolation = invariant("A stream without a blocker of its own goes on, whatever others do.", k=streams)(
        lambda s, k: implies(
            s.is_waiting(k) & ~s.blocker[k] & ~s.fails(k) & ~s.outage & ~s.paused[k], s.can("work", k=k)
        )
    )
    blocker_stands = step("A stream goes on behind a blocker only when an operator removes it.", k=streams)(
        lambda before, after, k: implies(
            before.blocker[k] & (after.cursor[k] > before.cursor[k]), ~after.blocker[k]
        )
    )
    sustained_is_shown = invariant("An event that has failed too often has a blocker.", k=streams)(
        lambda s, k: implies(s.failures[k] >= s.tries, s.blocker[k])
    )
    blocked_for_cause = invariant("An event has a blocker only if it failed for good, or too often.")(
        lambda s: ~s.unjust
    )
    always_worked_off = always_recoverable("Every event is resolved or quarantined in the end.")(
        lambda s: s.cursor.all(s.events)
    )
    blocked_beside = reachable("A stream can be worked off while another one is blocked.", k=streams)(
        lambda s, k: s.blocker[k] & any_of(s.cursor[o] == s.events for o in range(s.streams))
    )
    worked_off = may_end(lambda s: s.cursor.all(s.events))

    # Refinement: what the store shows.

    @refines(
        LifecycleObserved,
        {
            "work": (_pass_one, _clear_count),
            "try_later": lambda s, k: does("counted", k=k, first=s.count[k] == 0),
            "block": (
                lambda s, k: does("counted", k=k, first=s.count[k] == 0),
                lambda s, k: does("blocked", k=k, at=s.cursor[k] + 1),
                "cleared",
            ),
            "arrive": (_pass_two, "unblocked", "cleared"),
            "set_aside": (_pass_one, "unblocked"),
            "retry": (_pass_one, "unblocked", "cleared"),
            "resume": ("unblocked", "cleared"),
            "quarantine": ("given_up", "unblocked", _pass_one, "cleared"),
        },
        part=("counted", "cleared", "blocked", "unblocked", "given_up", "saved"),
        streams=streams,
        positions=events,
        tries=tries,
        found=1,
    )
    def observed(s, observed: LifecycleObserved) -> dict[str, object]:
        """Every step of a worker or an operator is one that the protocol of a lifecycle allows."""
        return {
            "position": related(all_of(observed.position[k] == s.cursor[k] for k in range(s.streams))),
            "waits": related(all_of(observed.waits[k] == s.blocker[k] for k in range(s.streams))),
            "failures": related(all_of(observed.failures[k] == s.count[k] for k in range(s.streams))),
        }
