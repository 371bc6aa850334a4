"""Branches share everything until they are written, and no commit of one changes another."""

from typing import Any

import pytest

from fencepost.impl.publish import Absent, Catalog, Invalid, Published, StaleView
from fencepost.impl.store.layers import Effect, Fault, Faulty

from .scripted import Crashed, Scripted, graph

CYD = {"id": 3, "name": "Cyd"}


def add(catalog: Catalog, row: dict[str, Any], table: str = "person") -> Any:
    with catalog.transaction() as txn:
        txn.append(table, [row])
    return txn.result


def names(catalog: Catalog) -> list[str]:
    return [row["name"] for row in catalog.snapshot().rows("person")]


def test_write_on_a_branch_and_fast_forward() -> None:
    main = Catalog.open(graph())
    main.create_branch("dev")
    dev = main.on("dev")
    add(dev, CYD)
    assert (names(main), names(dev)) == (["Ada", "Bob"], ["Ada", "Bob", "Cyd"])
    assert isinstance(main.merge("dev"), Published)
    assert names(main) == ["Ada", "Bob", "Cyd"]
    add(dev, {"id": 4, "name": "Dan"})
    assert isinstance(main.merge("dev"), Published), "again, since main did not move"
    assert names(main) == ["Ada", "Bob", "Cyd", "Dan"]
    add(main, {"id": 5, "name": "Eve"})
    assert names(dev) == ["Ada", "Bob", "Cyd", "Dan"], "main writes to a lineage of its own again"


def test_first_write_forks_only_the_table_it_touches() -> None:
    main = Catalog.open(graph())
    main.create_branch("dev")
    dev = main.on("dev")
    before = dict(dev.manifest.tables)
    add(dev, CYD)
    after = dev.manifest.tables
    assert [table for table in after if after[table] != before[table]] == ["person"]
    assert after["person"].location != before["person"].location
    assert after["person"].version == before["person"].version + 1
    forked = after["person"].location
    add(dev, {"id": 4, "name": "Dan"})
    assert dev.manifest.tables["person"].location == forked


def test_tables_are_adopted_by_a_fast_forward_only() -> None:
    """A branch with commits of its own keeps them: the rows of the other are added to its own lineage."""
    main = Catalog.open(graph())
    main.create_branch("dev")
    add(main, CYD)
    add(main.on("dev"), {"id": 4, "name": "Dan"})
    before = main.manifest.tables["person"]
    main.merge("dev")
    assert names(main) == ["Ada", "Bob", "Cyd", "Dan"]
    after = main.manifest.tables["person"]
    assert (after.location, after.version) == (before.location, before.version + 1)
    assert main.manifest.kind == "publish"


def test_a_merge_that_loses_its_race_is_refused() -> None:
    """Another writer commits to main between the check and the commit: no longer a fast-forward."""
    store = graph()
    script = Scripted(store)
    main, other = Catalog.open(script, mode="join"), Catalog.open(store, mode="join")
    main.create_branch("dev")
    add(main.on("dev"), CYD)
    script.before("put", "branch/main/manifest/", lambda: add(other, {"id": 4, "name": "Dan"}))
    with pytest.raises(StaleView, match="no fast-forward"):
        main.merge("dev")
    assert names(Catalog.open(store, mode="read")) == ["Ada", "Bob", "Dan"]


def test_deleting_a_branch_changes_no_other() -> None:
    store = graph()
    main = Catalog.open(store)
    main.create_branch("dev")
    dev = main.on("dev")
    add(dev, CYD)
    dev.create_branch("sub")
    main.delete_branch("dev")
    assert main.branches() == ["main", "sub"]
    store.env.sleep(100)
    main.cleanup(keep=1)
    sub = main.on("sub")
    assert names(sub) == ["Ada", "Bob", "Cyd"]
    add(sub, {"id": 4, "name": "Dan"})
    assert names(main) == ["Ada", "Bob"]
    with pytest.raises(Absent, match="was deleted"):
        main.on("dev")
    with pytest.raises(StaleView, match="branch dev was deleted"):
        dev.publish(_draft(dev))


def _draft(catalog: Catalog) -> Any:
    draft = catalog.draft()
    draft.append("person", [{"id": 77, "name": "late"}])
    return draft


def test_a_recreated_branch_is_another_branch() -> None:
    """A stalled writer of the first one must not commit to the second, whose ids continue."""
    store = graph()
    main = Catalog.open(store)
    main.create_branch("dev")
    script = Scripted(store)
    stalled = Catalog.open(script, branch="dev", mode="join")

    def replaced() -> None:
        main.delete_branch("dev")
        main.create_branch("dev")

    script.before("put", "branch/dev/manifest/", replaced)
    with pytest.raises(StaleView, match="was deleted"):
        stalled.publish(_draft(stalled))
    assert names(main.on("dev")) == ["Ada", "Bob"]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_crash_while_a_branch_is_created(where: str) -> None:
    store = graph()
    script = Scripted(store)
    dying = Catalog.open(script)
    getattr(script, f"crash_{where}")("put", "branch/dev/")
    with pytest.raises(Crashed):
        dying.create_branch("dev")
    main = Catalog.open(store)
    assert [notice.done for notice in main.notices] == ["rolled-forward" if where == "before" else "retired"]
    assert main.branches() == ["dev", "main"]
    assert not [key for key in store.contents() if key.startswith("recovery/")]


def test_cleanup_keeps_the_versions_a_new_branch_adopts() -> None:
    """The branch's create is late; meanwhile its source advances and is cleaned up."""
    store = graph()
    main = Catalog.open(store)
    faulty = Faulty(store, [Fault(Effect.LATE, kinds={"put"}, prefix="branch/dev/", times=1, delay=10**6)])
    script = Scripted(faulty)
    slow = Catalog.open(script, mode="join")
    script.crash_after("put", "branch/dev/")
    with pytest.raises(Crashed):
        slow.create_branch("dev")
    for number in range(3, 6):
        with main.transaction() as txn:
            txn.overwrite("person", [{"id": number, "name": "x"}])
    main.cleanup(keep=1)
    faulty.land_all()
    assert names(main.on("dev", "read")) == ["Ada", "Bob"], "held while its create was on its way"


def test_a_branch_from_a_cleaned_up_manifest_is_refused() -> None:
    store = graph()
    script = Scripted(store)
    slow, main = Catalog.open(script, mode="join"), Catalog.open(store, mode="join")

    def cleaned() -> None:
        for number in range(3, 6):
            with main.transaction() as txn:
                txn.overwrite("person", [{"id": number, "name": "x"}])
        main.cleanup(keep=1)

    script.before("put", "recovery/", cleaned)
    with pytest.raises(Absent, match="was cleaned up"):
        slow.create_branch("dev")
    assert main.branches() == ["main"]


def test_main_cannot_be_deleted_and_names_are_plain() -> None:
    main = Catalog.open(graph())
    with pytest.raises(Invalid, match="main cannot be deleted"):
        main.delete_branch("main")
    with pytest.raises(Invalid, match="branch name"):
        main.create_branch("../x")
    main.create_branch("dev")
    with pytest.raises(Invalid, match="already"):
        main.create_branch("dev")
