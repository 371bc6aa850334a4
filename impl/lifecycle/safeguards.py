"""The protective steps of lifecycles, each a small function of its own name, in one table.

An audit gives a worker a table with one of them replaced, and must then find the failure that it prevents.
The counterexample of each is what `fencepost zoo` prints for the machines of `model/lifecycle*.py`;
`strict-past` and `whole-positions` are of `model/cursor.py`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from fencepost.impl.lifecycle.blockers import Blockers, Count
from fencepost.impl.lifecycle.engine import Change, Class, Seen, Snapshot, classify
from fencepost.impl.lifecycle.policy import ActionKey, Rule, Version
from fencepost.impl.lifecycle.records import ActionState
from fencepost.impl.lifecycle.target import Live

T = TypeVar("T")


# A look and its deletion.


def identity(looked_at: Live, live: Live) -> bool:
    """Return True if the version to delete is the one that was looked at."""
    return looked_at.identity == live.identity


def look_again(is_changed: bool) -> bool:
    """Return True if an object that changed after the look is looked at again."""
    return is_changed


def policy(is_in_force: bool) -> bool:
    """Return True if the action may still delete."""
    return is_in_force


def policy_per_action(action: ActionKey, rules: Sequence[Rule]) -> bool:
    """Return True if the action is in force under these rules; edits of other rules do not matter."""
    return any(rule.is_enabled and action in rule.actions() for rule in rules)


def lock(is_locked: bool) -> bool:
    """Return True if the object is protected from deletion."""
    return is_locked


def due_again(version: Version, _event: Seen | None) -> Version:
    """Return the version with the time from which its age counts: its own, not that of the event."""
    return version


def live_evaluation(version: Version, _event: Seen | None) -> Version:
    """Return the version that filters evaluate: as it is, not as the event had it."""
    return version


# A walk.


def listed_due(may_be_due: bool) -> bool:
    """Return True if an object is looked at: something that is listed there may be due."""
    return may_be_due


def every_part(is_last: bool) -> bool:
    """Return True if the walk may end: every range of its keys is done."""
    return is_last


def one_write_split(is_whole: bool) -> bool:
    """Return True if both halves of a range that is divided are recorded in one write."""
    return is_whole


def same_walk(is_same: bool) -> bool:
    """Return True if the place of a worker is one in the walk that is under way."""
    return is_same


def rules_after_walk(_before: Snapshot, read: Callable[[], Snapshot]) -> Snapshot:
    """Return the rules for a worker that joins a walk: it reads them after it has seen the walk."""
    return read()


# A sweep.


def overwrites_are_ages(change: Change) -> bool:
    """Return True if an age begins with the event."""
    return classify(change) is Class.AGE


def wait_until_due(is_early: bool) -> bool:
    """Return True if the event must wait, because its own object is not due yet."""
    return is_early


def tag_cutoff(small_delay_ns: int, _delays: Sequence[int]) -> int:
    """Return the delay behind the clock, in nanoseconds, at which changes of tags are followed."""
    return small_delay_ns


def pending_first(waiting: Sequence[T]) -> Sequence[T]:
    """Return the versions to make pending, durably, before their event is passed."""
    return waiting


def demotion_first(is_full: bool) -> bool:
    """Return True if the action is left to scans, durably, before the event is passed."""
    return is_full


def flush_lag(until_ns: int, settled_ns: int) -> int:
    """Return the time up to which events are read: none can become visible before it any more."""
    return min(until_ns, settled_ns)


def worker_epoch(epoch: int | None) -> int | None:
    """Return the epoch below which no worker changes what the present one holds."""
    return epoch


def strict_past(position: str) -> str:
    """Return the position strictly after which a pass begins."""
    return position


def whole_positions(position: str) -> str:
    """Return the position with its offset, which distinguishes events of one time."""
    return position


# The beginning of an action, and its state after a loss.


def seed_before_activate(is_named: bool) -> bool:
    """Return True if an action that its record calls complete is active: all its cursors name it."""
    return is_named


def walk_began(began_ns: int, _now_ns: int) -> int:
    """Return the time before which the walk has visited everything."""
    return began_ns


def delay_back(back_ns: int) -> int:
    """Return the time, in nanoseconds, by which a cursor begins before the walk."""
    return back_ns


def rewind_for_new_only(beginning: Sequence[T], _enabled: Sequence[T]) -> Sequence[T]:
    """Return the actions whose cursors a walk moves back: of all enabled ones, those that begin with it."""
    return beginning


def loss_degrades(is_lost: bool) -> bool:
    """Return True if the actions of a cursor are left to scans, durably, before it passes a loss."""
    return is_lost


def returns_by_walk(reaches_back: bool) -> bool:
    """Return True if an action that lost its log begins anew with a walk: the log has every event that the
    walk leaves to it."""
    return reaches_back


def lag_degrades(is_late: bool) -> bool:
    """Return True if a stream's actions are left to scans before the log loses unread events."""
    return is_late


# Shards that departed.


def drained_marker(is_drained: bool) -> bool:
    """Return True if a cursor whose log vanished is removed: a record says that it was read to its end."""
    return is_drained


def drained_per_stream(is_past: bool, _of_shard: Sequence[str]) -> bool:
    """Return True if the cursor itself was past the end of its shard; records of others do not matter."""
    return is_past


def drained_position(last: str) -> str:
    """Return the last position in vanished shards; an action that begins later may need events before it."""
    return last


# Items that cannot be worked on.


def drop_after_block(is_resolved: bool) -> bool:
    """Return True if a sweep goes on with the next event of the stream."""
    return is_resolved


def hand_over(is_shared: bool) -> bool:
    """Return True if an event that cannot be worked on leaves a sweep that other actions share: its actions
    begin anew, with the walk of its bucket, where the object gets its blocker."""
    return is_shared


def forget_first(forget: Callable[[Collection[str]], None], names: Collection[str]) -> bool:
    """Have the cursor forget the actions, durably, in front of the event that is left to their walk; return
    True if the pass ends there."""
    forget(names)
    return True


def blocker_before_pause() -> bool:
    """Return True if a stream gets a durable blocker before it pauses."""
    return True


def one_stream_pauses(blockers: Blockers, stream: str) -> bool:
    """Return True if the stream has a blocker of its own."""
    return blockers.of(stream) is not None


def blocker_guards(is_blocked: bool) -> bool:
    """Return True if a worker leaves the stream alone."""
    return is_blocked


def no_automatic_skip(is_quarantined: bool) -> bool:
    """Return True if an item that fails is passed."""
    return is_quarantined


def count_durable(count: Count) -> Count:
    """Return the count of failures of the item, as the store has it."""
    return count


def forced_reseed(state: ActionState) -> ActionState:
    """Return the state of an action that an operator returns to events: the next walk begins it."""
    return replace(state, is_complete=False)


def count_cleared(has_failed: bool) -> bool:
    """Return True if the count of an item that succeeds is removed."""
    return has_failed


def try_limit(is_over: bool) -> bool:
    """Return True if an item that failed so often becomes a blocker."""
    return is_over


@dataclass(frozen=True)
class Safeguards:
    """The table. A field has the safeguard's name with underscores for dashes."""

    identity: Callable[[Live, Live], bool] = identity
    look_again: Callable[[bool], bool] = look_again
    policy: Callable[[bool], bool] = policy
    policy_per_action: Callable[[ActionKey, Sequence[Rule]], bool] = policy_per_action
    lock: Callable[[bool], bool] = lock
    due_again: Callable[[Version, Seen | None], Version] = due_again
    live_evaluation: Callable[[Version, Seen | None], Version] = live_evaluation
    listed_due: Callable[[bool], bool] = listed_due
    every_part: Callable[[bool], bool] = every_part
    one_write_split: Callable[[bool], bool] = one_write_split
    same_walk: Callable[[bool], bool] = same_walk
    rules_after_walk: Callable[[Snapshot, Callable[[], Snapshot]], Snapshot] = rules_after_walk
    overwrites_are_ages: Callable[[Change], bool] = overwrites_are_ages
    wait_until_due: Callable[[bool], bool] = wait_until_due
    tag_cutoff: Callable[[int, Sequence[int]], int] = tag_cutoff
    pending_first: Callable[[Sequence[Any]], Sequence[Any]] = pending_first
    demotion_first: Callable[[bool], bool] = demotion_first
    flush_lag: Callable[[int, int], int] = flush_lag
    worker_epoch: Callable[[int | None], int | None] = worker_epoch
    strict_past: Callable[[str], str] = strict_past
    whole_positions: Callable[[str], str] = whole_positions
    seed_before_activate: Callable[[bool], bool] = seed_before_activate
    walk_began: Callable[[int, int], int] = walk_began
    delay_back: Callable[[int], int] = delay_back
    rewind_for_new_only: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]] = rewind_for_new_only
    loss_degrades: Callable[[bool], bool] = loss_degrades
    returns_by_walk: Callable[[bool], bool] = returns_by_walk
    lag_degrades: Callable[[bool], bool] = lag_degrades
    drained_marker: Callable[[bool], bool] = drained_marker
    drained_per_stream: Callable[[bool, Sequence[str]], bool] = drained_per_stream
    drained_position: Callable[[str], str] = drained_position
    drop_after_block: Callable[[bool], bool] = drop_after_block
    hand_over: Callable[[bool], bool] = hand_over
    forget_first: Callable[[Callable[[Collection[str]], None], Collection[str]], bool] = forget_first
    blocker_before_pause: Callable[[], bool] = blocker_before_pause
    one_stream_pauses: Callable[[Blockers, str], bool] = one_stream_pauses
    blocker_guards: Callable[[bool], bool] = blocker_guards
    no_automatic_skip: Callable[[bool], bool] = no_automatic_skip
    count_durable: Callable[[Count], Count] = count_durable
    forced_reseed: Callable[[ActionState], ActionState] = forced_reseed
    count_cleared: Callable[[bool], bool] = count_cleared
    try_limit: Callable[[bool], bool] = try_limit


STANDARD = Safeguards()
SAFEGUARDS = tuple(item.name.replace("_", "-") for item in fields(Safeguards))
