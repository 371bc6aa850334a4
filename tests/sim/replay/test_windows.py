"""Runs that are longer than their model, read in a window: nothing is lost by it, and nothing made up."""

from dataclasses import replace
from typing import Any

import pytest

from bench.mutations import Mutation, mutations
from fencepost.impl.store.events import Event
from fencepost.properties.publish import PublishRefinement
from fencepost.properties.refinement import Automaton
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.parts import in_order
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import events as columns
from tests.depth import DEEP
from tests.sim.replay.lives import as_in_production, lives

Row = dict[str, Any]


@pytest.fixture(scope="module")
def long() -> list[list[Event]]:
    """A catalog's life of some twenty plans, more than any model has room for; with claims and cleanups."""
    return lives(2, plans=7)


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(Automaton(PublishRefinement(6, 3)))


@pytest.fixture(scope="module")
def informed_judge() -> Judge:
    return Judge(Automaton(PublishRefinement(6, 3), slots=8))


def verdicts(judge: Judge, runs: dict[str, list[Event]]) -> dict[str, Row]:
    rows = [replace(event, run=name) for name, run in runs.items() for event in run]
    found = judge.verdicts(columns(in_order(table_of(rows)))).to_pylist()
    return {row["run"]: row for row in found}


def named(runs: list[list[Event]]) -> dict[str, list[Event]]:
    return {run[0].run: run for run in runs}


def spoilt(run: list[Event], of_each: int) -> dict[str, Mutation]:
    """Some of a run's mutations that change what it means, of each kind, from its beginning to its end."""
    sure = [one for one in mutations(run) if one.sure]
    kinds = {one.kind: [other for other in sure if other.kind == one.kind] for one in sure}
    return {
        f"{kind}-{at:04d}": those[at]
        for kind, those in kinds.items()
        for at in range(0, len(those), max(1, -(-len(those) // of_each)))
    }


def landed(run: list[Event], *words: str) -> list[int]:
    """The places of writes that landed and whose key and trace fields have all these words."""
    return [
        at
        for at, event in enumerate(run)
        if event.phase == "landed"
        and event.outcome == "done"
        and all(word in f"{event.kind} {event.key} {event.trace_fields}" for word in words)
    ]


def numbered(run: list[Event]) -> list[Event]:
    return [replace(event, seq=seq) for seq, event in enumerate(run)]


def test_a_life_longer_than_the_model_is_accepted_to_its_end(long: list[list[Event]], judge: Judge) -> None:
    found = verdicts(judge, named(long))
    assert {(row["verdict"], row["reason"]) for row in found.values()} == {("accepted", "")}
    plans = {event.key for event in long[0] if "recovery/" in event.key and event.kind == "put"}
    assert len(plans) > 2 * 6


@pytest.mark.slow
def test_the_same_holds_when_only_requests_and_responses_are_recorded(
    long: list[list[Event]], informed_judge: Judge
) -> None:
    found = verdicts(informed_judge, named([as_in_production(run) for run in (long if DEEP else long[:1])]))
    assert {(row["verdict"], row["reason"]) for row in found.values()} == {("accepted", "")}


def test_what_was_spoilt_is_found_at_the_right_event_however_late(
    long: list[list[Event]], judge: Judge
) -> None:
    made = spoilt(long[0], 3 if DEEP else 1)
    assert {one.kind for one in made.values()} == {"drop", "flip", "swap", "epoch"}
    found = verdicts(judge, {name: one.events for name, one in made.items()})
    for name, row in found.items():
        assert row["verdict"] == "rejected", (name, row)
        assert row["seq"] in made[name].right, (name, row)


@pytest.mark.slow
def test_a_small_window_agrees_with_a_large_model() -> None:
    """The window against room for everything: where both decide, they decide the same, at the same event."""
    (run,) = lives(1, plans=2, claims=2, cleans=0, seed=4)
    runs = {"as it was": run, **{name: one.events for name, one in spoilt(run, 4).items()}}
    small = verdicts(Judge(Automaton(PublishRefinement(3, 2))), runs)
    large = verdicts(Judge(Automaton(PublishRefinement(6, 5))), runs)
    decided = [name for name in runs if "undecided" not in (small[name]["verdict"], large[name]["verdict"])]
    assert len(decided) > len(runs) // 2
    for name in decided:
        assert (small[name]["verdict"], small[name]["seq"]) == (large[name]["verdict"], large[name]["seq"])


def test_many_lives_of_one_part_do_not_disturb_each_other(long: list[list[Event]], judge: Judge) -> None:
    error = next(iter(spoilt(long[0], 1).values()))
    runs = {"a": long[0], "b": error.events, "c": long[1], "d": long[0][:40], "e": long[1]}
    found = verdicts(judge, runs)
    each = [found[name]["verdict"] for name in "abcde"]
    assert each == ["accepted", "rejected", "accepted", "accepted", "accepted"]


def test_where_more_plans_are_under_way_than_there_is_room_for_they_are_named(
    long: list[list[Event]],
) -> None:
    found = verdicts(Judge(Automaton(PublishRefinement(1, 3))), named(long[:1]))
    (row,) = found.values()
    assert row["verdict"] == "undecided"
    assert "the model has no room for this plan; under way: recovery/" in row["reason"]
    assert row["reason"].count("(event ") == 2


def test_a_version_that_a_retained_manifest_pins_may_not_be_deleted_behind_the_window(
    long: list[list[Event]], judge: Judge
) -> None:
    run = lives(1, plans=7, cleans=0)[0]
    for at in landed(run, "put table/"):
        number = int(run[at].key[-25:-5])
        table = "nodes" if "person~" in run[at].key else "edges"
        pinned = landed(run, "put branch/main/manifest/", f"{table}_number={number} ")
        if pinned:
            break
    late = replace(run[-1], kind="delete", key=run[at].key, phase="landed", outcome="done", trace_fields="")
    late = replace(late, op=10**6, condition="anything")
    (row,) = verdicts(judge, {"x": numbered([*run, late])}).values()
    assert row["verdict"] == "rejected"
    assert row["seq"] == len(run)
    assert "what is still needed" in row["reason"]
    newest = int(run[pinned[-1]].key[-25:-5])
    by_distance = {}
    for boundary in (newest - 1, newest):
        moved = replace(
            late, kind="put", key="branch/main/boundary.json", trace_fields=f"boundary={boundary}"
        )
        moved = replace(moved, condition="matches")
        (row,) = verdicts(judge, {"x": numbered([*run, moved, late])}).values()
        by_distance[boundary - newest] = row["verdict"]
    assert by_distance == {-1: "rejected", 0: "accepted"}


def test_a_manifest_above_the_boundary_may_not_be_deleted(long: list[list[Event]], judge: Judge) -> None:
    run = long[0]
    last = landed(run, "put branch/main/boundary.json")[-1]
    boundary = int(run[last].trace_fields.partition("boundary=")[2].split()[0])
    manifests = {int(run[at].key[-25:-5]): run[at].key for at in landed(run, "put branch/main/manifest/")}
    gone = replace(
        run[-1],
        kind="delete",
        phase="landed",
        outcome="done",
        trace_fields="",
        op=10**6,
        condition="anything",
    )
    runs = {}
    for name, number in (("may", boundary), ("may not", boundary + 1)):
        key = f"branch/main/manifest/{number:020d}.json"
        assert number in manifests
        runs[name] = numbered([*run, replace(gone, key=key)])
    found = verdicts(judge, runs)
    assert (found["may"]["verdict"], found["may not"]["verdict"]) == ("accepted", "rejected")
    assert found["may not"]["seq"] == len(run)


def test_a_manifest_from_before_the_run_may_be_deleted_unless_a_boundary_below_it_is_shown(
    judge: Judge,
) -> None:
    """The boundary may have passed it before the trace begins; once the trace shows one, that one counts."""
    run = lives(1, plans=7, cleans=0)[0]
    oldest = min(int(run[at].key[-25:-5]) for at in landed(run, "put branch/main/manifest/"))
    assert oldest > 2
    plain = replace(run[-1], phase="landed", outcome="done", trace_fields="", condition="anything", op=10**6)
    moved = replace(plain, kind="put", key="branch/main/boundary.json", trace_fields="boundary=1")
    runs = {}
    for number in (1, 2):
        gone = replace(plain, kind="delete", key=f"branch/main/manifest/{number:020d}.json", op=10**7)
        runs[f"{number} without"] = numbered([*run, gone])
        runs[f"{number} with"] = numbered([*run, replace(moved, condition="matches"), gone])
    found = {name: row["verdict"] for name, row in verdicts(judge, runs).items()}
    assert found == {
        "1 without": "accepted",
        "1 with": "accepted",
        "2 without": "accepted",
        "2 with": "rejected",
    }


def test_a_plan_whose_head_is_ahead_keeps_its_slot_though_no_event_names_it_again(
    long: list[list[Event]], judge: Judge
) -> None:
    run = long[0]
    claim = run[landed(run, "put branch/main/manifest/", "kind=claim")[-1]]
    last = run[landed(run, "put branch/main/manifest/")[-1]]
    number, nodes = int(last.key[-25:-5]), int(last.trace_fields.partition("nodes_number=")[2].split()[0])
    fields = dict(word.partition("=")[::2] for word in last.trace_fields.split())
    base = f"epoch={fields['epoch']} nodes={fields['nodes']} nodes_base={nodes} plan=NEW"
    plain = replace(last, process="new", op=-1, kind="put")
    more = [
        replace(
            plain, key="recovery/NEW.json", trace_fields=f"base={number} kind=publish moves=nodes {base}"
        ),
        replace(
            plain,
            key=f"table/{fields['nodes']}/version/{nodes + 1:020d}.json",
            trace_fields=f"{base} nodes_number={nodes + 1}",
        ),
        replace(
            claim,
            key=f"branch/main/manifest/{number + 1:020d}.json",
            trace_fields=f"before={fields['epoch']} edges={fields['edges']} "
            f"edges_number={fields['edges_number']} epoch={int(fields['epoch']) + 1} kind=claim "
            f"nodes={fields['nodes']} nodes_number={nodes} parent={number}",
        ),
    ]
    (row,) = verdicts(judge, {"x": numbered([*run, *more])}).values()
    assert (row["verdict"], row["reason"]) == ("accepted", "")


def test_a_cleanup_that_deletes_all_at_once_needs_no_room_for_what_is_in_flight() -> None:
    (run,) = lives(1, writers=1, plans=14, claims=0, cleans=6, faults=0)
    deleted = [event for event in run if event.phase == "request" and event.kind == "delete"]
    assert len([event for event in deleted if "/manifest/" in event.key]) > 4
    run = as_in_production(run)
    (row,) = verdicts(Judge(Automaton(PublishRefinement(3, 3), slots=3)), {"x": run}).values()
    assert (row["verdict"], row["reason"]) == ("accepted", "")


def test_a_deletion_that_is_not_allowed_is_rejected_at_its_response() -> None:
    (run,) = lives(1, writers=1, plans=9, claims=0, cleans=0, faults=0)
    recorded = as_in_production(run)
    newest = run[landed(run, "put branch/main/manifest/")[-2]]
    request = replace(
        recorded[-1], phase="request", kind="delete", key=newest.key, trace_fields="", outcome="", op=10**6
    )
    response = replace(request, phase="response", outcome="done")
    judge = Judge(Automaton(PublishRefinement(3, 3), slots=3))
    (row,) = verdicts(judge, {"x": numbered([*recorded, request, response])}).values()
    assert (row["verdict"], row["seq"]) == ("rejected", len(recorded) + 1)


def test_a_plan_that_is_not_settled_keeps_its_heads_in_the_window(judge: Judge) -> None:
    """One table of it was overtaken, its head there passed; of the other its writer has yet to decide."""
    found = verdicts(judge, named(lives(1, plans=8, claims=0, cleans=0, seed=5)))
    assert {(row["verdict"], row["reason"]) for row in found.values()} == {("accepted", "")}
