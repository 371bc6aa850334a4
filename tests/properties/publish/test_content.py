"""The real catalog does what the model of its content does, and mutants of it do not.

If this fails, group commit, branches, compaction or a change of the schema can lose data.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fencepost.impl.publish import STANDARD, branches, catalog, commit, tables
from fencepost.impl.publish.planner import Planner
from fencepost.impl.publish.tables import WorkingTable
from fencepost.model import Model, reachable_graph
from fencepost.model.kernel.search.stepper import Stepper
from fencepost.model.publish_content import PublishContent
from tests.properties.publish.content import ContentRun, Divergence, PathStep, Walks


def path_of(*texts: str) -> list[PathStep]:
    """The labels of the model that these texts begin; where several do, the first that is possible."""
    stepper = Stepper(Model(PublishContent, {"drafts": 2}))
    state, path = stepper.initial()[0], []
    for text in texts:
        found = [(one, after) for one, after in stepper.successors(state) if str(one).startswith(text)]
        assert found, f"{text} is not possible in {state}"
        label, state = found[0]
        path.append(PathStep(label, state.values))
    return path


BEGIN = "begin(d={}, kind={}, b={})"
FOUND = "found(declared={}, edge={})"
GROUP = ("join_group(d=0", "join_group(d=1", "stage", "commit")
STAGED = ("join_group(d=0", "stage", "publish_alone(d=1, b=0", "commit(answer=stale)")


def both(one: str, other: str, *, declared: bool, edge: bool) -> tuple[str, ...]:
    """Two drafts of one snapshot of the main branch."""
    return (FOUND.format(declared, edge), BEGIN.format(0, one, 0), BEGIN.format(1, other, 0))


def in_turn(one: str, other: str, *, declared: bool, edge: bool) -> tuple[str, ...]:
    """Two drafts, of which the second begins after the first was published."""
    found, first, second = both(one, other, declared=declared, edge=edge)
    return (found, first, "publish_alone(d=0, b=0", second, "publish_alone(d=1, b=0")


Patch = Callable[[pytest.MonkeyPatch], object]


def follow_all(runs: Sequence[ContentRun]) -> None:
    for run in runs:
        run.follow()


def without(**replaced: Any) -> Any:
    return dataclasses.replace(STANDARD, **replaced)


def replace_check(**fields: Any) -> Patch:
    """Let the commit evaluate the expectations of a plan with these fields."""
    original = vars(commit)["_changed"]

    def changed(context: Any, plan: Any, *rest: Any) -> Any:
        return original(context, dataclasses.replace(plan, **fields), *rest)

    return lambda patch: patch.setitem(vars(commit), "_changed", changed)


def compare_on_one_branch(patch: pytest.MonkeyPatch) -> None:
    original = vars(catalog)["_changed"]
    patch.setitem(
        vars(catalog),
        "_changed",
        lambda then, now, draft: original(then, now, draft) if then.branch == now.branch else None,
    )


def forget_altered_rows(patch: pytest.MonkeyPatch) -> None:
    original = vars(Planner)["_alter"]

    def alter(self: Any, table: Any, verb: str, details: Any, touched: Any) -> None:
        original(self, table, verb, details, touched)
        touched.added.pop(table.table, None)

    patch.setattr(Planner, "_alter", alter)


def check_first_draft_only(patch: pytest.MonkeyPatch) -> None:
    original = vars(Planner)["_check"]
    patch.setattr(Planner, "_check", lambda self, touched: self._members or original(self, touched))


def compact_what_was_there_first(patch: pytest.MonkeyPatch) -> None:
    """Rows that a later run removed appear again."""

    def rewrite(self: WorkingTable) -> None:
        assert self.base is not None
        removed = {
            key: row for layer in self.base.tail for key, row in layer.before.items() if row is not None
        }
        self.fresh, self.changes = True, {**removed, **self.by_key()}
        self._record("rewrite")

    patch.setattr(WorkingTable, "rewrite", rewrite)


def write_own_changes_only(patch: pytest.MonkeyPatch) -> None:
    def rows_before(table: Any, base: Any, _merged: int) -> dict[Any, Any]:
        return {key: base.rows.get(key) for key in table.changes}

    patch.setitem(vars(tables), "_rows_before", rows_before)


def share_lineages(patch: pytest.MonkeyPatch) -> None:
    original = vars(Planner)["_action"]

    def action(self: Any, table: Any, plan_id: str, contents: Any) -> Any:
        made = original(self, table, plan_id, contents)
        entry = dataclasses.replace(made.entry, location=table.entry.location)
        return dataclasses.replace(made, entry=entry)

    patch.setattr(Planner, "_action", action)


def merge_anything(patch: pytest.MonkeyPatch) -> None:
    for module in (branches, commit):
        patch.setitem(vars(module), "tables_digest", lambda _: "the same")


PATHS: dict[str, tuple[Sequence[str], Any, Patch | None]] = {
    "reads-checked-within-group": (
        (*both("count", "count", declared=True, edge=False), *GROUP),
        without(reads_checked_within_group=lambda read, changed: None),
        None,
    ),
    "reads-compared-with-snapshot": (
        (
            *both("count", "count", declared=True, edge=False),
            "publish_alone(d=0, b=0",
            "publish_alone(d=1, b=0",
        ),
        STANDARD,
        lambda patch: patch.setitem(vars(catalog), "_changed", lambda *_: None),
    ),
    "pins-across-branches": (
        (
            *(
                FOUND.format(True, False),
                "create_branch",
                BEGIN.format(0, "count", 0),
                BEGIN.format(1, "count", 1),
            ),
            *("publish_alone(d=1, b=1", "publish_alone(d=0, b=1"),
        ),
        STANDARD,
        compare_on_one_branch,
    ),
    "reads-re-evaluated-on-retry": (
        (*both("link", "drop", declared=True, edge=False), *STAGED),
        without(pins_re_evaluated_on_retry=lambda plan, parent: None),
        None,
    ),
    # Heads block rivals in a lineage that both extend; after a merge nothing but this comparison does.
    "writes-re-evaluated-on-retry": (
        (
            *(
                FOUND.format(True, False),
                "create_branch",
                BEGIN.format(0, "count", 1),
                "publish_alone(d=0, b=1",
            ),
            *(BEGIN.format(1, "count", 0), "join_group(d=1", "stage", "merge_branch", "commit(answer=stale)"),
        ),
        STANDARD,
        replace_check(kind="merge"),
    ),
    "schema-re-evaluated-on-retry": (
        (*(FOUND.format(False, True), BEGIN.format(0, "drop", 0), BEGIN.format(1, "declare", 0)), *STAGED),
        STANDARD,
        replace_check(schema_since=None),
    ),
    "integrity-on-final-rows": (
        in_turn("drop", "link-altered", declared=True, edge=False),
        STANDARD,
        forget_altered_rows,
    ),
    "integrity-within-group": (
        (*both("drop", "link", declared=True, edge=False), *GROUP),
        STANDARD,
        check_first_draft_only,
    ),
    "outbound-check-on-addition": (
        in_turn("drop", "link", declared=True, edge=False),
        STANDARD,
        lambda patch: patch.setattr(Planner, "_check_outbound", lambda *_: None),
    ),
    "inbound-check-on-removal": (
        (FOUND.format(True, True), BEGIN.format(0, "drop", 0), "publish_alone(d=0, b=0"),
        without(inbound_check_on_removal=lambda removed, pointed_at: None),
        None,
    ),
    "compaction-preserves-rows": (
        in_turn("drop", "compact", declared=True, edge=False),
        STANDARD,
        compact_what_was_there_first,
    ),
    "merged-runs-keep-changes": (
        in_turn("count", "count", declared=True, edge=False),
        STANDARD,
        write_own_changes_only,
    ),
    "fork-on-first-write": (
        (FOUND.format(True, True), "create_branch", BEGIN.format(0, "count", 1), "publish_alone(d=0, b=1"),
        STANDARD,
        share_lineages,
    ),
    "fast-forward-only": (
        (FOUND.format(True, True), "create_branch", BEGIN.format(0, "count", 0), "publish_alone(d=0, b=0"),
        STANDARD,
        merge_anything,
    ),
}
"""By safeguard of the model: a path that needs it, and the mutant of the code that lacks it."""


def test_every_safeguard_of_the_model_has_a_mutant() -> None:
    assert set(PATHS) == set(PublishContent.safeguards)


@pytest.mark.parametrize("name", PATHS)
def test_a_mutant_of_the_catalog_leaves_the_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product follows the same path to its end, at every place where a plan can be interrupted."""
    texts, safeguards, patch = PATHS[name]
    path, fan_in = path_of(*texts), 2 if name == "merged-runs-keep-changes" else tables.FAN_IN
    for seed in range(3):
        ContentRun(path, seed=seed, fan_in=fan_in).follow()
    if patch is not None:
        patch(monkeypatch)
    runs = [ContentRun(path, seed=seed, fan_in=fan_in, safeguards=safeguards) for seed in range(8)]
    with pytest.raises(Divergence):
        follow_all(runs)


def test_a_sample_of_walks_is_followed() -> None:
    walks = Walks(reachable_graph(Model(PublishContent, {"drafts": 1})), seed=1)
    for seed in range(20):
        ContentRun(walks.next(), seed=seed, fan_in=2 if seed % 2 else tables.FAN_IN).follow()
    assert (walks.driven, walks.transitions) == (98, 1118)


@pytest.mark.slow
@pytest.mark.parametrize("fan_in", [2, tables.FAN_IN])
def test_every_transition_of_the_model_of_one_draft_is_followed(fan_in: int) -> None:
    walks = Walks(reachable_graph(Model(PublishContent, {"drafts": 1})), seed=1)
    runs = 0
    while walks.is_open:
        runs += 1
        ContentRun(walks.next(), seed=runs, fan_in=fan_in).follow()
    assert (walks.driven, walks.transitions) == (1118, 1118)


@pytest.mark.slow
def test_two_drafts_are_followed_through_every_label() -> None:
    """The denominator is all transitions of the model of two drafts."""
    graph = reachable_graph(Model(PublishContent, {"drafts": 2}))
    walks = Walks(graph, seed=1)
    for seed in range(2000):
        ContentRun(walks.next(), seed=seed, fan_in=2 if seed % 2 else tables.FAN_IN).follow()
    fired = {str(graph.model.labels[number]) for number in set(graph.labels.tolist())}
    assert walks.labels == fired
    assert walks.driven >= 9_000
    assert walks.transitions == 101_356
