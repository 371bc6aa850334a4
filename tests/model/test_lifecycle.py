"""The machines of lifecycles: what holds, what each safeguard is for, what each design needs from the log."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands.models import find_machine
from fencepost.model import *
from fencepost.model import Machine, Model, check
from fencepost.model.cursor import Cursor
from fencepost.model.lifecycle import LATE, Lifecycle
from fencepost.model.lifecycle_blockers import LifecycleBlockers
from fencepost.model.lifecycle_merged import LifecycleMerged
from fencepost.model.lifecycle_notified import LifecycleNotified
from fencepost.model.lifecycle_observed import LifecycleObserved
from fencepost.model.lifecycle_seeding import LifecycleSeeding
from tests.model.counterexamples import steps, verdicts

ROOT = Path(__file__).parents[2]
MACHINES: tuple[type[Machine], ...] = (Lifecycle, LifecycleSeeding, LifecycleBlockers, LifecycleNotified)


# They hold.


@pytest.mark.parametrize(
    ("machine", "distinct"),
    [
        (Lifecycle, 423_478),
        (LifecycleSeeding, 141_098),
        (LifecycleBlockers, 8_196),
        (LifecycleNotified, 944_486),
    ],
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
    "events are flushed late, one cursor": (LifecycleMerged, LATE),
    "a rule is removed and added again": (Lifecycle, {"edits": 2, "writes": 1}),
    "a shard departs": (LifecycleSeeding, {"departs": 1}),
    "two delays": (LifecycleSeeding, {"actions": 2, "ticks": 3, "losses": 0, "reseeds": 0}),
    "two delays, a shard departs": (
        LifecycleSeeding,
        {"departs": 1, "actions": 2, "ticks": 2, "losses": 0, "reseeds": 0},
    ),
    "outages come again": (LifecycleBlockers, {"outages": 2}),
    "a notification is lost": (LifecycleNotified, {"lost": 1}),
    "several actions share a sweep": (LifecycleBlockers, {"shared": 1}),
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
        "worker-epoch": ("one_worker", 6),
        "shard-order": ("cursor_honest", 9),
    },
    LifecycleSeeding: {
        "seed-before-activate": ("cursor_honest", 5),
        "walk-began": ("cursor_honest", 11),
        "delay-back": ("cursor_honest", 10),
        "rewind-for-new-only": ("replays_for_new_only", 12),
        "loss-degrades": ("no_silent_loss", 10),
        "returns-by-walk": ("returns_by_itself", 13),
        "drained-per-stream": ("no_silent_loss", 12),
        "drained-marker": ("no_silent_loss", 10),
        "drained-position": ("no_silent_loss", 12),
        "forced-reseed": ("cursor_honest", 9),
        "listed-due": ("cursor_honest", 11),
        "every-part": ("cursor_honest", 12),
        "one-write-split": ("cursor_honest", 12),
        "same-walk": ("cursor_honest", 17),
        "rules-after-walk": ("cursor_honest", 13),
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
        "hand-over": ("shared_goes_on", 1),
        "forget-first": ("operator_only_skip", 1),
    },
    LifecycleNotified: {
        "append-before-acknowledge": ("cursor_honest", 3),
        "append-once": ("cursor_honest", 7),
        "arrival-order": ("cursor_honest", 10),
        "wait-in-list": ("cursor_honest", 6),
        "live-evaluation": ("no_early_delete", 5),
        "walks-go-on": ("walked_if_lost", 3),
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


def needed(machine: type[Machine], *without: str) -> tuple[Any, int]:
    result = check(machine, LATE, without=without)
    verdict = verdicts(result).get("cursor_honest", "holds")
    return verdict, len(steps(result, "cursor_honest")) if verdict == "violated" else 0


@pytest.mark.slow
def test_a_cursor_for_each_shard_needs_the_order_within_a_shard_and_no_lag() -> None:
    assert needed(Lifecycle) == ("holds", 0)
    assert needed(Lifecycle, "shard-order") == ("violated", 9)


def test_one_cursor_needs_a_bound_on_lateness_and_waits_for_it() -> None:
    assert needed(LifecycleMerged, "flush-lag") == ("violated", 9)
    assert needed(LifecycleMerged, "bounded-flush") == ("violated", 5)


def test_the_order_of_seeding_and_activating_is_not_enough() -> None:
    """A sweep in between passes events that are not routed yet, and the object is forgotten."""
    machine = find_machine(f"{ROOT}/docs/decisions/rejected_lifecycle.py:SeedThenActivate")
    assert issubclass(machine, LifecycleSeeding)
    result = check(machine, {"losses": 0}, keep_going=True)
    assert verdicts(result)["seed_before_activate"] == "violated"
    names = [step.partition("(")[0] for step in steps(result, "cursor_honest")]
    assert names.index("seed") < names.index("sweep") < names.index("activate")


def test_every_rejected_design_is_tried() -> None:
    """And the record quotes its command."""
    source = (ROOT / "docs/decisions/rejected_lifecycle.py").read_text()
    assert re.findall(r"^class (\w+)", source, re.MULTILINE) == ["SeedThenActivate"]
    record = (ROOT / "docs/decisions/0022-lifecycle-cursors.md").read_text()
    assert "rejected_lifecycle.py:SeedThenActivate --set losses=0" in record


# The observed machine.

REFINING: tuple[type[Machine], ...] = (*MACHINES, Cursor)


def proof(result: Any) -> Any:
    (found,) = (one for one in result.properties if one.kind == "refinement")
    return found


def test_the_observed_machine_holds() -> None:
    result = check(LifecycleObserved)
    assert (verdicts(result), result.vacuity_warnings) == ({}, ())


@pytest.mark.parametrize("sizes", [{"streams": 2}, {"names": 2}, {"buckets": 2}, {"found": 1}, {"found": 2}])
def test_the_observed_machine_holds_where(sizes: dict[str, int]) -> None:
    assert set(verdicts(check(LifecycleObserved, {"times": 1, **sizes})).values()) <= {"unreachable"}


@pytest.mark.parametrize(
    ("machine", "pairs"),
    [(Lifecycle, 423_478), (LifecycleSeeding, 919_047), (LifecycleBlockers, 8_196), (Cursor, 167_053)],
)
def test_a_machine_refines_the_observed_one(machine: type[Machine], pairs: int) -> None:
    found = proof(check(machine))
    assert (found.verdict, found.proof.distinct) == ("holds", pairs)


def part_of(machine: type[Machine]) -> tuple[str, ...]:
    (link,) = (one.refines for one in Model(machine).properties if one.refines is not None)
    return tuple(link.part)


def test_every_observed_action_is_a_step_of_some_machine() -> None:
    """But for the creation of a cursor, which is there from the beginning in all of them, and the first write
    of a new lease, which `Lifecycle` performs with two workers only."""
    performed = {name for machine in REFINING for name in part_of(machine)}
    assert {*Model(LifecycleObserved).actions} - performed == {"created", "fenced"}


BREAKS: dict[type[Machine], dict[str, str]] = {
    Cursor: {
        "forward": "saved",
        "compare-and-swap": "saved",
        "generations": "saved",
        "rewind-to-the-earlier": "rewound",
    },
    LifecycleSeeding: {
        "seed-before-activate": "walk_ended",
        "walk-began": "named",
        "delay-back": "named",
        "rewind-for-new-only": "position",
        "forced-reseed": "driven",
    },
    LifecycleBlockers: {"drop-after-block": "saved", "count-durable": "failures"},
}
"""Safeguards without which a machine takes a step that the observed one refuses, and what it refuses."""


@pytest.mark.parametrize(
    ("machine", "safeguard"), [(machine, name) for machine in BREAKS for name in BREAKS[machine]]
)
def test_without_a_safeguard_the_refinement_breaks(machine: type[Machine], safeguard: str) -> None:
    found = proof(check(machine, without=[safeguard], keep_going=True))
    assert found.verdict == "violated"
    assert BREAKS[machine][safeguard] in found.reason


@pytest.mark.slow
def test_without_epochs_a_fenced_worker_saves_a_cursor() -> None:
    sizes = {"workers": 2, "writes": 1, "shards": 1, "tags": 0}
    assert proof(check(Lifecycle, sizes)).verdict == "holds"
    found = proof(check(Lifecycle, sizes, without=["worker-epoch"], keep_going=True))
    assert "current=False" in found.reason


class NeverForgets(LifecycleObserved):
    """Refuses that a cursor forgets an action."""

    @action(k=LifecycleObserved.streams, n=LifecycleObserved.names + 1)
    def forgot(s, k: int, n: int) -> None:
        s.require(s.stream[k].serves < n)


class RefusesBlockers(LifecycleObserved):
    """Refuses that an item is blocked whose failure was counted."""

    def require_before(s, condition: Truth) -> None:
        s.require(~condition)


class StaysBehind(LifecycleObserved):
    """Moves no cursor."""

    def move(s, k: int, to: int) -> None: ...


class SavesAnything(LifecycleObserved):
    """Has cursors go on behind their blockers."""

    def is_later(s, flag: int, one: Number, other: int) -> Truth:
        return Truth.constant(True)


class DrivesUnseeded(LifecycleObserved):
    """Has events drive an action for which no cursor was moved back."""

    @action(b=LifecycleObserved.buckets, d=LifecycleObserved.names + 1)
    def walk_ended(s, b: int, d: int) -> None:
        s.require(s.bucket[b].walks)
        s.bucket[b].walks = False
        s.bucket[b].driven = d


TOO_STRICT = {
    NeverForgets: Lifecycle,
    RefusesBlockers: LifecycleBlockers,
    StaysBehind: Cursor,
}


@pytest.mark.parametrize("mutant", TOO_STRICT)
def test_a_mutant_of_the_observed_machine_is_refined_by_no_model(
    mutant: type[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = TOO_STRICT[mutant]
    model = Model(machine)
    (place,) = (n for n, one in enumerate(model.properties) if one.refines is not None)
    wanted = model.properties[place]
    properties = list(model.properties)
    properties[place] = replace(wanted, refines=replace(wanted.refines, machine=mutant))
    monkeypatch.setattr(model, "properties", tuple(properties))
    assert proof(check(model)).verdict == "violated"


@pytest.mark.parametrize(
    ("mutant", "broken"), [(SavesAnything, "blocker_stands"), (DrivesUnseeded, "driven_by_walks")]
)
def test_a_mutant_of_the_observed_machine_that_allows_more_breaks_its_properties(
    mutant: type[Machine], broken: str
) -> None:
    assert verdicts(check(mutant, keep_going=True))[broken] == "violated"
