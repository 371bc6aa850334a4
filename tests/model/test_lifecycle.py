"""The machines of lifecycles: what holds, what each safeguard is for, what each design needs from the log."""

from typing import Any

import pytest

from fencepost.model import Machine, check
from fencepost.model.lifecycle import LATE, Lifecycle
from fencepost.model.lifecycle_blockers import LifecycleBlockers
from fencepost.model.lifecycle_seeding import LifecycleSeeding
from tests.model.counterexamples import steps, verdicts

MACHINES: tuple[type[Machine], ...] = (Lifecycle, LifecycleSeeding, LifecycleBlockers)


# They hold.


@pytest.mark.parametrize(
    ("machine", "distinct"), [(Lifecycle, 423_478), (LifecycleSeeding, 140_968), (LifecycleBlockers, 8_196)]
)
def test_everything_holds_at_the_default_size(machine: type[Machine], distinct: int) -> None:
    result = check(machine)
    assert (verdicts(result), result.distinct) == ({}, distinct)
    assert set(result.never_fired) == set(machine.fires_at)


CONFIGURATIONS: dict[str, tuple[type[Machine], dict[str, int]]] = {
    "two workers, each of which may have been fenced": (Lifecycle, {"workers": 2, "writes": 1}),
    "the object may be locked at any time": (Lifecycle, {"locks": 1}),
    "nothing may be pending": (Lifecycle, {"room": 0}),
    "workers keep up, so that time waits for them": (Lifecycle, {"prompt": 1}),
    "events are flushed late, a cursor for each shard": (Lifecycle, LATE),
    "events are flushed late, one cursor": (Lifecycle, {**LATE, "merged": 1}),
    "a rule is removed and added again": (Lifecycle, {"edits": 2, "writes": 1}),
    "a shard departs": (LifecycleSeeding, {"departs": 1}),
    "two delays": (LifecycleSeeding, {"actions": 2, "ticks": 3, "losses": 0, "reseeds": 0}),
    "two delays, a shard departs": (
        LifecycleSeeding,
        {"departs": 1, "actions": 2, "ticks": 2, "losses": 0, "reseeds": 0},
    ),
    "outages come again": (LifecycleBlockers, {"outages": 2}),
}


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_everything_holds_where(configuration: str) -> None:
    machine, sizes = CONFIGURATIONS[configuration]
    assert set(verdicts(check(machine, sizes)).values()) == set()


# Each safeguard.

NEEDED: dict[type[Machine], dict[str, tuple[str, int]]] = {
    Lifecycle: {
        "identity": ("identity_and_policy", 5),
        "look-again": ("cursor_honest", 6),
        "policy": ("identity_and_policy", 5),
        "policy-per-action": ("cursor_honest", 6),
        "lock": ("lock_respected", 5),
        "due-again": ("no_early_delete", 4),
        "live-evaluation": ("no_early_delete", 7),
        "overwrites-are-ages": ("cursor_honest", 2),
        "wait-until-due": ("cursor_honest", 3),
        "tag-cutoff": ("on_time", 7),
        "pending-first": ("cursor_honest", 6),
        "demotion-first": ("cursor_honest", 6),
        "flush-lag": ("cursor_honest", 9),
        "worker-epoch": ("one_worker", 6),
        "bounded-flush": ("cursor_honest", 5),
        "shard-order": ("cursor_honest", 9),
    },
    LifecycleSeeding: {
        "seed-before-activate": ("cursor_honest", 5),
        "walk-began": ("cursor_honest", 11),
        "delay-back": ("cursor_honest", 10),
        "rewind-for-new-only": ("replays_for_new_only", 12),
        "loss-degrades": ("no_silent_loss", 10),
        "drained-per-stream": ("no_silent_loss", 12),
        "drained-marker": ("no_silent_loss", 10),
        "drained-position": ("no_silent_loss", 12),
        "forced-reseed": ("cursor_honest", 9),
    },
    LifecycleBlockers: {
        "drop-after-block": ("operator_only_skip", 2),
        "blocker-before-pause": ("blocker_is_seen", 1),
        "one-stream-pauses": ("isolation", 1),
        "no-automatic-skip": ("operator_only_skip", 2),
        "count-durable": ("sustained_is_shown", 4),
        "count-cleared": ("blocked_for_cause", 6),
        "try-limit": ("sustained_is_shown", 3),
        "blocker-guards": ("blocker_stands", 3),
    },
}


@pytest.mark.parametrize("machine", MACHINES)
def test_every_switch_has_an_expected_violation(machine: type[Machine]) -> None:
    assert set(NEEDED[machine]) == {*machine.safeguards, *machine.assumptions}


@pytest.mark.parametrize(
    ("machine", "switch"), [(machine, switch) for machine in MACHINES for switch in NEEDED[machine]]
)
def test_without_a_switch_its_property_is_violated(machine: type[Machine], switch: str) -> None:
    result = check(machine, machine.shown_at.get(switch), without=[switch])
    name, length = NEEDED[machine][switch]
    assert verdicts(result)[name] == "violated"
    assert len(steps(result, name)) == length


# The designs of docs/decisions/0022-lifecycle-cursors.md.


def needed(sizes: dict[str, int], *without: str) -> Any:
    return verdicts(check(Lifecycle, {**LATE, **sizes}, without=without)).get("cursor_honest", "holds")


@pytest.mark.slow
def test_a_cursor_for_each_shard_needs_the_order_within_a_shard_and_no_lag() -> None:
    assert needed({"merged": 0}, "flush-lag") == "holds"
    assert needed({"merged": 0}, "flush-lag", "shard-order") == "violated"


def test_one_cursor_needs_a_bound_on_lateness_and_waits_for_it() -> None:
    assert needed({"merged": 1}, "flush-lag") == "violated"
    assert needed({"merged": 1}, "bounded-flush") == "violated"


def test_the_order_of_seeding_and_activating_is_not_enough() -> None:
    """A sweep in between passes events that are not routed yet, and the object is forgotten."""
    result = check(LifecycleSeeding, {"named": 0, "losses": 0}, keep_going=True)
    assert verdicts(result)["seed_before_activate"] == "violated"
    names = [step.partition("(")[0] for step in steps(result, "cursor_honest")]
    assert names.index("seed") < names.index("sweep") < names.index("activate")
