"""The mutants of lifecycles: a replacement that breaks each safeguard, and a scenario that needs it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fencepost.impl.lifecycle.blockers import Blockers, Count
from fencepost.impl.lifecycle.engine import Change, Class, Seen, Snapshot, classify
from fencepost.impl.lifecycle.policy import ActionKey, Mode, Rule, Version
from fencepost.impl.lifecycle.records import ActionState
from fencepost.sim.systems.system import Mutant


def identity(_looked_at: Any, _live: Any) -> bool:
    """Delete whichever version is there."""
    return True


def look_again(_is_changed: bool) -> bool:
    """Take an object that changed for resolved: its change has an event."""
    return False


def policy(_is_in_force: bool) -> bool:
    """Delete by the rule as it was when the sweep began."""
    return True


def policy_per_action(action: ActionKey, rules: Sequence[Rule]) -> bool:
    """Take every edit for the end of all actions."""
    return len(rules) == 2 and any(action in rule.actions() for rule in rules)


def lock(_is_locked: bool) -> bool:
    """Rely on what the look has shown."""
    return False


def due_again(version: Version, event: Seen | None) -> Version:
    """Count the age from the event."""
    return version if event is None else replace(version, mtime_ns=event.mtime_ns)


def live_evaluation(version: Version, event: Seen | None) -> Version:
    """Evaluate filters on what the event has."""
    return version if event is None else replace(version, tags=event.tags)


def listed_due(_may_be_due: bool) -> bool:
    """Take what is listed for not due."""
    return False


def every_part(_is_last: bool) -> bool:
    """End the walk when the own part is done."""
    return True


def one_write_split(_is_whole: bool) -> bool:
    """Shorten the first half, then record the second one."""
    return False


def same_walk(_is_same: bool) -> bool:
    """Save the place in whatever walk is under way."""
    return True


def rules_after_walk(before: Snapshot, _read: Callable[[], Snapshot]) -> Snapshot:
    """Join with the rules of the last round."""
    return before


def overwrites_are_ages(change: Change) -> bool:
    """Follow creations only."""
    return classify(change) is Class.AGE and change.old is None


def wait_until_due(_is_early: bool) -> bool:
    """Pass an event as soon as it is old enough."""
    return False


def tag_cutoff(small_delay_ns: int, delays: Sequence[int]) -> int:
    """Follow tags as far behind the clock as the ages."""
    return max((small_delay_ns, *delays))


def pending_first(_waiting: Sequence[Any]) -> Sequence[Any]:
    """Pass what is not due yet."""
    return []


def demotion_first(_is_full: bool) -> bool:
    """Where the list is full, drop what does not fit."""
    return False


def flush_lag(until_ns: int, _settled_ns: int) -> int:
    """Read up to the clock."""
    return until_ns


def worker_epoch(_epoch: int | None) -> None:
    """Rely on the lease."""
    return


def strict_past(position: str) -> str:
    """Begin with the time of the position."""
    return position.partition("-")[0]


def whole_positions(position: str) -> str:
    """Begin after the time of the position."""
    time, _, offset = position.partition("-")
    return f"{time}-~" if offset else position


def seed_before_activate(_is_named: bool) -> bool:
    """Believe the record of the action."""
    return True


def walk_began(_began_ns: int, now_ns: int) -> int:
    """Count from the end of the walk."""
    return now_ns


def delay_back(_back_ns: int) -> int:
    """Begin where the walk began."""
    return 0


def rewind_for_new_only(_beginning: Sequence[Any], enabled: Sequence[Any]) -> Sequence[Any]:
    """Move all cursors back."""
    return enabled


def loss_degrades(_is_lost: bool) -> bool:
    """Go on with the oldest event that is left."""
    return False


def returns_by_walk(_reaches_back: bool) -> bool:
    """Never return: an operator has to."""
    return False


def lag_degrades(_is_late: bool) -> bool:
    """Hope to catch up."""
    return False


def drained_marker(_is_drained: bool) -> bool:
    """Take the cursor of a vanished shard for needless."""
    return True


def drained_per_stream(_is_past: bool, of_shard: Sequence[str]) -> bool:
    """Take one cursor that was read to its end for all."""
    return bool(of_shard)


def drained_position(_last: str) -> str:
    """Forget what a vanished shard held."""
    return ""


def forced_reseed(_state: ActionState) -> ActionState:
    """Go on where the cursors are."""
    return ActionState(Mode.EVENT_DRIVEN, is_complete=True)


def drop_after_block(_is_resolved: bool) -> bool:
    """Go on with what still arrives."""
    return True


def blocker_before_pause() -> bool:
    """Pause in memory."""
    return False


def one_stream_pauses(blockers: Blockers, _stream: str) -> bool:
    """Pause all streams."""
    return bool(blockers.every())


def hand_over(_is_shared: bool) -> bool:
    """Block the sweep, whatever it serves."""
    return False


def forget_first(_forget: Any, _names: Any) -> bool:
    """Leave the event to a walk that nothing makes begin."""
    return False


def blocker_guards(_is_blocked: bool) -> bool:
    """Look at no blockers."""
    return False


def no_automatic_skip(_is_quarantined: bool) -> bool:
    """Put away what fails."""
    return True


def count_durable(count: Count) -> Count:
    """Count in memory."""
    return replace(count, tries=1, fatal=min(count.fatal, 1))


def count_cleared(_has_failed: bool) -> bool:
    """Go on counting."""
    return False


def try_limit(_is_over: bool) -> bool:
    """Try for ever."""
    return False


MUTANTS = {
    "identity": Mutant(identity, "changed"),
    "look-again": Mutant(look_again, "changed"),
    "policy": Mutant(policy, "changed"),
    "policy-per-action": Mutant(policy_per_action, "changed"),
    "lock": Mutant(lock, "changed"),
    "due-again": Mutant(due_again, "changed"),
    "live-evaluation": Mutant(live_evaluation, "untagged"),
    "listed-due": Mutant(listed_due, "beginning"),
    "every-part": Mutant(every_part, "taken"),
    "one-write-split": Mutant(one_write_split, "divided"),
    "same-walk": Mutant(same_walk, "restarted"),
    "rules-after-walk": Mutant(rules_after_walk, "joined"),
    "overwrites-are-ages": Mutant(overwrites_are_ages, "overwritten"),
    "wait-until-due": Mutant(wait_until_due, "early"),
    "tag-cutoff": Mutant(tag_cutoff, "tagged"),
    "pending-first": Mutant(pending_first, "skewed"),
    "demotion-first": Mutant(demotion_first, "full"),
    "flush-lag": Mutant(flush_lag, "late"),
    "worker-epoch": Mutant(worker_epoch, "rivals"),
    "strict-past": Mutant(strict_past, "same-time"),
    "whole-positions": Mutant(whole_positions, "same-time"),
    "seed-before-activate": Mutant(seed_before_activate, "returning"),
    "walk-began": Mutant(walk_began, "beginning"),
    "delay-back": Mutant(delay_back, "beginning"),
    "rewind-for-new-only": Mutant(rewind_for_new_only, "interrupted"),
    "loss-degrades": Mutant(loss_degrades, "pruned"),
    "returns-by-walk": Mutant(returns_by_walk, "regained"),
    "lag-degrades": Mutant(lag_degrades, "lagging"),
    "drained-marker": Mutant(drained_marker, "departing"),
    "drained-per-stream": Mutant(drained_per_stream, "departing"),
    "drained-position": Mutant(drained_position, "departed"),
    "forced-reseed": Mutant(forced_reseed, "reseeded"),
    "drop-after-block": Mutant(drop_after_block, "blocked"),
    "blocker-before-pause": Mutant(blocker_before_pause, "blocked"),
    "one-stream-pauses": Mutant(one_stream_pauses, "beside"),
    "hand-over": Mutant(hand_over, "shared"),
    "forget-first": Mutant(forget_first, "shared"),
    "blocker-guards": Mutant(blocker_guards, "repaired"),
    "no-automatic-skip": Mutant(no_automatic_skip, "blocked"),
    "count-durable": Mutant(count_durable, "blocked"),
    "count-cleared": Mutant(count_cleared, "failing-again"),
    "try-limit": Mutant(try_limit, "blocked"),
}
