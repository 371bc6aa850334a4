"""Renaming what is over changes nothing that can still be seen: in every state of a small machine.

Let R be a renaming that is possible in a state s, and e a step that names nothing which R removes. Then s
allows e exactly if R(s) allows R(e), and R leads from the state after e to the state after R(e). So R(s)
allows the same runs as s. States are saturated: everything that some opener may know by now is recorded.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fencepost.model import Label, Property, Truth
from fencepost.model.kernel.language.layout import U64, Mask, whole_states
from fencepost.model.publish_observed import TABLES
from fencepost.properties.publish.refinement import RENAMING, PublishRefinement
from fencepost.properties.publish.replayed import PublishReplayed

OWN_HEADS = ("move_head", "head_lands", "undo_own_head")
HEADS = (*OWN_HEADS, "recovery_undoes_head")
MANIFESTS = (
    "claim",
    "create_manifest",
    "manifest_lands",
    "undo_own_commit",
    "recovery_rolls_forward",
    "recovery_commits_undo",
    "finish_undo",
)
"""Actions that append a manifest."""
USES = {"link": TABLES, "drop": TABLES, "add": ("nodes",), "both": TABLES}
"""The tables that a plan of each kind touches or reads."""
Condition = Callable[[Any], Any]


def always(s: Any) -> Any:
    return s.last > 0


class Explored:
    """The machine of replay at a small size, and its saturated states."""

    def __init__(
        self, writers: int, claims: int, refinement: type[PublishRefinement] = PublishRefinement
    ) -> None:
        self.map = refinement(writers, claims)
        self.model = self.map.model
        self.ids = self.map.ids
        self.by_text = {(x.action, x.parameters): x for x in self.model.labels}
        self.steps = [x for x in self.model.labels if x.action not in (*self.map.eager, *RENAMING)]
        self.renamings = [x for x in self.model.labels if x.action in RENAMING]

    def where(self, states: U64, condition: Condition) -> Mask:
        found = self.model.holds(Property("condition", "invariant", condition, ""), states)
        return np.broadcast_to(found, states.shape[1])

    def after(self, states: U64, label: Label) -> tuple[U64, "np.ndarray[Any, Any]"]:
        """The states after a label, and the row of each; where the machine has room for it."""
        rows = np.arange(states.shape[1])
        if label.action in MANIFESTS:
            rows = np.flatnonzero(self.where(states, lambda s: s.last < self.ids))
        found = self.model.successors(states.take(rows, axis=1), label)
        return self.saturated(found.states), rows[found.origin]

    def saturated(self, states: U64) -> U64:
        return self.map.saturated(self.map.forgotten(states)) if states.shape[1] else states

    def reachable(self) -> U64:
        known = frontier = self.saturated(self.model.initial())
        names = whole_states(known)
        while frontier.shape[1]:
            found = np.concatenate([self.after(frontier, label)[0] for label in self.steps], axis=1)
            new, first = np.unique(whole_states(found), return_index=True)
            frontier = found.take(first[~np.isin(new, names)], axis=1)
            names = np.union1d(names, new)
            known = np.concatenate([known, frontier], axis=1)
        return known

    def like(self, label: Label, **changed: object) -> Label:
        given = tuple((name, changed.get(name, value)) for name, value in label.parameters)
        return self.by_text[label.action, given]

    def renamed(self, label: Label, renaming: Label) -> tuple[Label, Condition] | None:
        """The label after a renaming, and where it names nothing that was removed; None for nowhere."""
        given: dict[str, Any] = dict(label.parameters)
        by: dict[str, Any] = dict(renaming.parameters)
        if renaming.action in ("forget", "leave"):
            return None if given.get("w") == by["w"] else (label, always)
        if renaming.action == "slide_versions":
            return self._renamed_version(label, given, by["table"])
        if renaming.action == "slide_manifests":
            return self._renamed_manifest(label, given)
        return self._renamed_epoch(label, given)

    def _renamed_version(self, label: Label, given: Any, table: str) -> tuple[Label, Condition] | None:
        w = given.get("w")
        if label.action == "stage":
            is_used = table in USES[given["kind"]]
            return label, (lambda s: s.pins_at[given["parent"]][table] > 1) if is_used else always
        if label.action == "delete_version" and given["table"] == table:
            number = given["number"]
            return (self.like(label, number=number - 1), always) if number else None
        if label.action in HEADS and given["table"] == table:
            return label, lambda s: (s.plan[w].base[table] > 1) & ~s.is_settled(w)
        return label, always if w is None else lambda s: ~s.is_settled(w)

    def _renamed_manifest(self, label: Label, given: Any) -> tuple[Label, Condition] | None:
        match label.action:
            case "stage":
                parent = given["parent"]
                return (self.like(label, parent=parent - 1), always) if parent else None
            case "move_boundary":
                to = given["to"]
                return (self.like(label, to=to - 1), always) if to > 1 else None
            case "delete_manifests":
                return label, lambda s: s.boundary > 1
            case "create_manifest":
                return label, lambda s: s.writer[given["w"]].parent > 0
            case "delete_version":  # `long_runs` judges deletions behind the window
                return (
                    label,
                    lambda s: (s.boundary > 0) | (s.pins_at[0][given["table"]] != given["number"] + 1),
                )
        return label, always

    def _renamed_epoch(self, label: Label, given: Any) -> tuple[Label, Condition] | None:
        w = given.get("w")
        if label.action == "stage":
            return label, lambda s: s.epoch_at[given["parent"]] > 1
        if label.action == "claim":
            return label, lambda s: s.epoch < s.claims
        if "epoch" in given:
            epoch = given["epoch"]
            return (self.like(label, epoch=epoch - 1), lambda s: ~s.is_settled(w)) if epoch > 1 else None
        if label.action in OWN_HEADS or label.action in self.map.hidden:
            # A writer of an epoch that leaves names it in all that its decisions lead to.
            return label, lambda s: (s.plan[w].began > 1) & ~s.is_settled(w)
        return label, always if w is None else lambda s: ~s.is_settled(w)


def compared(explored: Explored) -> Iterator[tuple[str, str, int, int]]:
    """For each renaming and step: the pairs that were compared, and how many differ."""
    everything = explored.reachable()
    for renaming in explored.renamings:
        after, origin = explored.after(everything, renaming)
        before = everything.take(origin, axis=1)
        for step in explored.steps:
            found = explored.renamed(step, renaming)
            if found is None or not len(origin):
                continue
            name, condition = found
            in_sight = explored.where(before, condition)
            if step.action in MANIFESTS:
                in_sight = in_sight & explored.where(before, lambda s: s.last < explored.ids)
            rows = np.flatnonzero(in_sight)
            pairs, differ = _compare(
                explored, before.take(rows, axis=1), after.take(rows, axis=1), step, name, renaming
            )
            yield str(renaming), str(step), pairs, differ


def _compare(
    explored: Explored, one: U64, other: U64, step: Label, name: Label, renaming: Label
) -> tuple[int, int]:
    here, origin = explored.after(one, step)
    there, origin_there = explored.after(other, name)
    allows, allows_there = (np.zeros(one.shape[1], np.bool_) for _ in range(2))
    allows[origin] = True
    allows_there[origin_there] = True
    both = allows & allows_there
    here = here.take(np.flatnonzero(both[origin]), axis=1)
    there = there.take(np.flatnonzero(both[origin_there]), axis=1)
    renamed, rows = explored.after(here, renaming)
    unlike = (renamed != there.take(rows, axis=1)).any(axis=0)
    return one.shape[1], int((allows != allows_there).sum() + unlike.sum())


@pytest.mark.parametrize(
    ("claims", "pairs"), [(1, 1_150_000), pytest.param(2, 23_000_000, marks=pytest.mark.slow)]
)
def test_a_renaming_changes_nothing_in_any_state(claims: int, pairs: int) -> None:
    found = list(compared(Explored(1, claims)))
    assert [(renaming, step, differ) for renaming, step, _, differ in found if differ] == []
    assert sum(count for _, _, count, _ in found) > pairs
    assert {renaming.partition("(")[0] for renaming, *_ in found} >= {*RENAMING} - {"slide_epochs"}


class Careless(PublishReplayed):
    """Numbers slide although a plan would still find its place at the first one."""

    def is_beyond_first(s, w: int, t: str) -> Truth:
        is_seen = s.version[t][0].holds(plan=w)
        return (s.writer[w].at == "new") | ~s.touches(w, t) | (s.plan[w].base[t] > 1) | ~is_seen


class CarelessRefinement(PublishRefinement):
    machine = Careless


def test_a_renaming_with_a_weaker_guard_is_noticed() -> None:
    """The first number is free once cleanup has deleted the version there: a late head may still land."""
    explored = Explored(1, 1, CarelessRefinement)
    assert {renaming for renaming, _, _, differ in compared(explored) if differ} == {
        "slide_versions(table=nodes)",
        "slide_versions(table=edges)",
    }
