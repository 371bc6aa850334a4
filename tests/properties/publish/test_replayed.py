"""Renaming what is over changes nothing that can still be seen: the argument of `replayed`."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from fencepost.model import Label
from fencepost.model.kernel.language.layout import U64
from fencepost.model.publish_observed import TABLES
from fencepost.properties import refinement
from fencepost.properties.publish.refinement import RENAMING, PublishRefinement
from fencepost.properties.refinement import Automaton

HEADS = ("move_head", "head_lands", "undo_own_head", "recovery_undoes_head")
AUTOMATON = Automaton(PublishRefinement(2, 2))
MODEL = AUTOMATON.model
SHOWN = [label for label in MODEL.labels if AUTOMATON.refinement.shows(label)]
NUMBERS = {"slide_manifests": ("parent", "to"), "slide_epochs": ("epoch",), "slide_versions": ("number",)}


def label(action: str, **wanted: object) -> Label:
    """The label of an action with these parameters."""
    (found,) = [
        one for one in MODEL.labels if one.action == action and wanted.items() <= dict(one.parameters).items()
    ]
    return found


def closed(states: U64) -> U64:
    (found,) = AUTOMATON._closed(states, np.zeros(states.shape[1], np.int64)).values()
    return AUTOMATON.space.rows(np.array(sorted(found), np.int64))


def after(states: U64, one: Label) -> U64:
    found = MODEL.successors(states, one).states
    return closed(AUTOMATON.refinement.forgotten(found)) if found.shape[1] else found


def walked(*steps: Label) -> U64:
    states = closed(AUTOMATON.refinement.forgotten(MODEL.initial()))
    for one in steps:
        states = after(states, one)
        assert states.shape[1], one
    return states


def value(states: U64, name: str) -> object:
    """A field that is the same in all states of a set."""
    (found,) = {MODEL.unpack(tuple(int(word) for word in column))[name] for column in states.T}
    return found


def may(states: U64, one: Label) -> bool:
    """Whether every state allows a renaming."""
    return len(MODEL.successors(states, one).origin) == states.shape[1]


def renamed(one: Label, renaming: Label, states: U64) -> Label | None:
    """What a label is called after a renaming; None when it names something that the renaming took away."""
    given, by = dict(one.parameters), dict(renaming.parameters)
    if renaming.action in ("forget", "leave"):
        if given.get("w") != by["w"]:
            return one
        return None
    if "table" in by and given.get("table") != by["table"] and one.action != "stage":
        return one
    if not _is_in_sight(one, renaming, states):
        return None
    names = NUMBERS[renaming.action]
    if one.action in HEADS and renaming.action == "slide_epochs" and "epoch" not in given:
        return one
    for name in names:
        if name in given:
            given[name] = int(str(given[name])) - 1
    return label(one.action, **given) if all(int(str(given.get(name, 0))) >= 0 for name in names) else None


def _is_in_sight(one: Label, renaming: Label, states: U64) -> bool:
    """Whether what an event of this label names stays at 1 or above."""
    given = dict(one.parameters)
    if one.action == "stage":
        parent = int(str(given["parent"]))
        if renaming.action == "slide_manifests":
            return parent >= 1
        pins, epochs = value(states, "pins_at"), value(states, "epoch_at")
        if renaming.action == "slide_epochs":
            return epochs[parent] > 1  # type: ignore[index]  # a tuple
        touched = {"link": (0, 1), "drop": (0, 1), "add": (0,), "both": (0, 1)}[str(given["kind"])]
        t = TABLES.index(str(dict(renaming.parameters)["table"]))
        return t not in touched or pins[parent][t] > 1  # type: ignore[index]  # a tuple
    if one.action in HEADS:
        w = int(str(given["w"]))
        if renaming.action == "slide_versions":
            t = TABLES.index(str(given["table"]))
            return value(states, "plan")[w]["base"][t] > 1  # type: ignore[index]  # a tuple
        if renaming.action == "slide_epochs":
            epoch = given["epoch"] if "epoch" in given else value(states, "plan")[w]["began"]  # type: ignore[index]  # a tuple
            return int(str(epoch)) > 1
    if renaming.action == "slide_epochs" and one.action in (
        "recovery_rolls_forward",
        "recovery_commits_undo",
    ):
        return int(str(given["epoch"])) > 1
    if one.action == "delete_manifests" and renaming.action == "slide_manifests":
        return value(states, "boundary") > 1  # type: ignore[operator]  # a number
    if one.action == "claim":
        return value(states, "epoch") < MODEL.sizes["claims"]  # type: ignore[operator]  # there is room for it
    if one.action == "move_boundary" and renaming.action == "slide_manifests":
        return int(str(given["to"])) > 1
    if one.action == "delete_version" and renaming.action == "slide_versions":
        return int(str(given["number"])) >= 1
    return True


def walk(draw: random.Random, length: int) -> Iterator[U64]:
    """The sets of a random run, all sorts of steps equally often."""
    states = walked()
    for _ in range(length):
        open_ = [one for one in SHOWN if MODEL.apply(states, one) is not None]
        sorts: dict[str, list[Label]] = {}
        for one in open_:
            sorts.setdefault(one.action, []).append(one)
        if not sorts:
            return
        states = after(states, draw.choice(sorts[draw.choice(sorted(sorts))]))
        yield states


@pytest.mark.parametrize(
    ("seed", "walks"), [(0, 1), *(pytest.param(seed, 4, marks=pytest.mark.slow) for seed in (0, 1, 2))]
)
def test_a_renaming_keeps_the_possible_next_events(seed: int, walks: int) -> None:
    """And after the next step too, and the one after it: as far as it names nothing that was taken away."""
    draw = random.Random(seed)
    renamings = [one for one in MODEL.labels if one.action in RENAMING]
    tried = 0
    for _ in range(walks):
        for states in walk(draw, 14):
            possible = [one for one in renamings if may(states, one)]
            kinds = sorted({one.action for one in possible})
            if not kinds:
                continue
            renaming = draw.choice([one for one in possible if one.action == draw.choice(kinds)] or possible)
            _compare(draw, states, after(states, renaming), renaming, 2)
            tried += 1
    assert tried > 5


def _compare(draw: random.Random, one: U64, other: U64, renaming: Label, depth: int) -> None:
    both = []
    for shown in SHOWN:
        name = renamed(shown, renaming, one)
        if name is None:
            continue
        here, there = MODEL.apply(one, shown) is not None, MODEL.apply(other, name) is not None
        assert here == there, (str(shown), str(name), str(renaming), _changed(one), _changed(other))
        if here:
            both.append((shown, name))
    if depth and both:
        shown, name = draw.choice(both)
        _compare(draw, after(one, shown), after(other, name), renaming, depth - 1)


def _changed(states: U64) -> dict[str, object]:
    first = MODEL.unpack(tuple(int(word) for word in MODEL.initial()[:, 0]))
    found = MODEL.unpack(tuple(int(word) for word in states[:, 0]))
    return {name: one for name, one in found.items() if one != first[name]}


def begun(w: int, kind: str = "add", parent: int = 0) -> Label:
    return label("stage", w=w, kind=kind, parent=parent)


def moved(w: int, table: str = "nodes") -> Label:
    return label("move_head", w=w, table=table)


def committed(w: int) -> Label:
    return label("create_manifest", w=w)


PUBLISHED = (begun(0), moved(0), committed(0))
AGAIN = (begun(1, parent=1), moved(1), committed(1))
CLAIM = label("claim")


@pytest.mark.parametrize(
    ("steps", "renaming", "allowed"),
    [
        ((begun(0), moved(0)), label("forget", w=0), False),  # a head ahead of its pin is in somebody's way
        (PUBLISHED, label("forget", w=0), True),
        ((begun(0),), label("leave", w=0), False),  # its writer may not delete its sidecar yet
        ((), label("leave", w=0), True),
        (PUBLISHED, label("leave", w=0), True),
        (PUBLISHED, label("slide_versions", table="nodes"), False),  # the pin would be "older than anything"
        ((*PUBLISHED, *AGAIN), label("slide_versions", table="nodes"), True),
        ((*PUBLISHED, *AGAIN), label("slide_versions", table="edges"), False),
        ((), label("slide_manifests"), False),
        ((CLAIM,), label("slide_manifests"), True),
        # Its parent would be 0, and nobody knows any more that the boundary is behind it.
        ((begun(0), CLAIM, CLAIM, label("move_boundary", to=2)), label("slide_manifests"), False),
        ((begun(0), CLAIM, CLAIM, label("move_boundary", to=1)), label("slide_manifests"), True),
        ((CLAIM,), label("slide_epochs"), False),
        ((CLAIM, CLAIM), label("slide_epochs"), True),
        ((begun(0), CLAIM, CLAIM), label("slide_epochs"), True),  # fenced, and so it stays
    ],
)
def test_the_guard_of_a_renaming_allows_no_loss(
    steps: tuple[Label, ...], renaming: Label, *, allowed: bool
) -> None:
    assert may(walked(*steps), renaming) is allowed


def test_a_head_of_a_plan_under_way_does_not_leave_the_window() -> None:
    """A plan of two tables, one of whose heads was overtaken: the other has to be undone yet."""
    overtaken = walked(begun(0, "both"), moved(0), CLAIM)
    undone = label("recovery_undoes_head", w=0, epoch=1, table="nodes")
    overtaken = after(overtaken, undone)
    committed_ = label("recovery_commits_undo", w=0, epoch=1, tables="nodes")
    states = after(overtaken, committed_)
    assert value(states, "pin") == (2, 0)
    assert not may(states, label("slide_versions", table="nodes"))


def test_cleanup_may_delete_an_unpinned_version_between_two_pinned_ones() -> None:
    """Heads of a plan that was undone were never pinned; the version before them still may be."""
    undone = (
        label("recovery_undoes_head", w=1, epoch=1, table="nodes"),
        label("recovery_commits_undo", w=1, epoch=1, tables="nodes"),
    )
    states = walked(*PUBLISHED, begun(1, "both", parent=1), moved(1), CLAIM, *undone)
    assert value(states, "pin") == (3, 0)
    gone = [bool(MODEL.apply(states, label("delete_version", table="nodes", number=n))) for n in range(3)]
    assert gone == [False, True, False]
    states = after(states, label("move_boundary", to=3))
    gone = [bool(MODEL.apply(states, label("delete_version", table="nodes", number=n))) for n in range(3)]
    assert gone == [True, True, False]


def test_cleanup_deletes_no_version_ahead_of_the_pin() -> None:
    states = walked(begun(0), moved(0))
    assert MODEL.apply(states, label("delete_version", table="nodes", number=0)) is None


def test_a_reused_slot_keeps_nothing_of_the_former_plan() -> None:
    """Or the new plan would have the old one's head, and commit without its own."""
    states = walked(*PUBLISHED, label("forget", w=0), begun(0, "both", 1), moved(0, "edges"))
    assert MODEL.apply(states, committed(0)) is None
    assert MODEL.apply(after(states, moved(0)), committed(0)) is not None


def test_a_run_is_undecided_after_a_renaming_that_one_state_does_not_allow() -> None:
    automaton = Automaton(PublishRefinement(2, 2))
    symbol = automaton.symbol(refinement.renaming("slide_manifests", {}, ()), refinement.SymbolKind.RENAMED)
    assert automaton.step(refinement.START, symbol) == refinement.OUTSIDE
    claim = automaton.symbol(refinement.renaming("forget", {"w": 0}, ()), refinement.SymbolKind.RENAMED)
    assert automaton.step(refinement.START, claim) == refinement.START
