"""Whatever a transaction has read is pinned: no way to read lets an acknowledged update be lost.

If this fails, two transactions are acknowledged although one of them decided on what the other changed.
"""

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.publish import (
    Absent,
    Catalog,
    Dangling,
    Draft,
    Invalid,
    Mode,
    Published,
    StaleView,
    Transaction,
)
from tests.impl.publish.scripted import Scripted, graph

READS: dict[str, Callable[[Transaction], object]] = {
    "read": lambda txn: txn.read("person"),
    "rows": lambda txn: txn.snapshot.rows("person"),
    "get": lambda txn: txn.snapshot.get("person", 1),
    "get of an absent row": lambda txn: txn.snapshot.get("person", 77),
    "arrow": lambda txn: txn.snapshot.arrow("person"),
    "load": lambda txn: txn.snapshot.load(),
    "schema": lambda txn: txn.snapshot.schema("person"),
    "rely_on": lambda txn: txn.rely_on(["person"]),
}


def place(key: int = 1) -> list[dict[str, Any]]:
    return [{"id": key, "name": "decided on what was read"}]


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_is_refused_when_an_earlier_draft_of_the_group_changed_the_table(read: Any) -> None:
    catalog = Catalog.open(graph())
    reader, blind = catalog.draft(), Draft()
    read(reader)
    reader.append("place", place())
    blind.upsert("person", [{"id": 1, "name": "changed"}])
    first, second = catalog.publish_all([blind, reader])
    assert isinstance(first, Published)
    assert isinstance(second, StaleView)
    assert catalog.snapshot().rows("place") == []


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_is_refused_when_another_commit_changed_the_table(read: Any) -> None:
    """Both when the handle knows the commit and when only the store does."""
    store = graph()
    catalog = Catalog.open(store)
    for refreshes in (True, False):
        reader = catalog.draft()
        read(reader)
        reader.append("place", place())
        rival = Catalog.open(store, mode=Mode.JOIN)
        rival.write(lambda txn: txn.upsert("person", [{"id": 1, "name": "changed"}]))
        if refreshes:
            catalog.refresh()
        with pytest.raises(StaleView):
            catalog.publish(reader)
    assert catalog.snapshot().rows("place") == []


def test_the_list_of_tables_counts_as_read() -> None:
    """A decision on the absence of a table, in a group and between commits."""
    store = graph()
    catalog = Catalog.open(store)

    def decide() -> Transaction:
        reader = catalog.draft()
        assert "audit" not in reader.snapshot.tables
        reader.append("place", place())
        return reader

    def create(draft: Draft) -> None:
        draft.create_table("audit", {"id": "int64"}, key="id")

    grouped, creates = decide(), Draft()
    create(creates)
    first, second = catalog.publish_all([creates, grouped])
    assert isinstance(first, Published)
    assert isinstance(second, StaleView)
    catalog.write(lambda txn: txn.drop_table("audit"))
    alone = decide()
    Catalog.open(store, mode=Mode.JOIN).write(create)
    with pytest.raises(StaleView):
        catalog.publish(alone)
    assert catalog.snapshot().rows("place") == []


def test_a_transaction_that_reads_the_list_of_tables_and_finds_it_unchanged_is_published() -> None:
    catalog = Catalog.open(graph())
    reader, blind = catalog.draft(), Draft()
    assert reader.snapshot.tables == ["knows", "person", "place"]
    reader.append("place", place())
    blind.upsert("person", [{"id": 1, "name": "changed"}])
    assert all(isinstance(result, Published) for result in catalog.publish_all([blind, reader]))


def test_a_draft_without_a_snapshot_cannot_claim_to_have_read() -> None:
    """It would be compared with the snapshot that it is planned on, and so with nothing."""
    assert not hasattr(Draft(), "rely_on")


def test_a_transaction_of_another_branch_is_compared_by_pins_and_not_by_manifest_ids() -> None:
    """Both branches have a manifest of this id, with different rows."""
    catalog = Catalog.open(graph())
    catalog.create_branch("dev")
    dev = catalog.on("dev")
    while dev.manifest.id != catalog.manifest.id:
        behind = dev if dev.manifest.id < catalog.manifest.id else catalog
        behind.write(lambda txn: txn.upsert("place", place()))
    dev.write(lambda txn: txn.upsert("person", [{"id": 1, "name": "of dev"}]))
    catalog.write(lambda txn: txn.upsert("person", [{"id": 1, "name": "of main"}]))
    draft = dev.draft()
    [*_, row] = [row for row in draft.read("person") if row["id"] == 1]
    draft.upsert("person", [{"id": 1, "name": f"{row['name']}, seen"}])
    assert draft.snapshot.id == catalog.manifest.id
    with pytest.raises(StaleView):
        catalog.publish(draft)
    current = catalog.snapshot().get("person", 1)
    assert current is not None
    assert current["name"] == "of main"


def test_a_refresh_while_the_plan_is_staged_hides_no_commit_of_others() -> None:
    """Another thread that shares the handle refreshes it after the probe found nothing.

    The plan is then created behind a manifest that it was never compared with.
    """
    inner = graph()
    store = Scripted(inner)
    catalog = Catalog.open(store)
    rival = Catalog.open(inner, mode=Mode.JOIN)
    reader = catalog.draft()
    reader.read("person")
    reader.append("place", place())

    def interfere() -> None:
        rival.write(lambda txn: txn.upsert("person", [{"id": 1, "name": "changed"}]))
        catalog.refresh()

    store.after("put", "data/place/", interfere)
    with pytest.raises(StaleView):
        catalog.publish(reader)
    assert store.spent
    assert catalog.snapshot().rows("place") == []


def test_a_refresh_while_an_edge_is_staged_leaves_no_dangling_edge() -> None:
    inner = graph()
    store = Scripted(inner)
    catalog = Catalog.open(store)
    rival = Catalog.open(inner, mode=Mode.JOIN)

    def interfere() -> None:
        rival.write(lambda txn: txn.delete("person", [2]))
        catalog.refresh()

    store.after("put", "data/knows/", interfere)
    draft = Draft()
    draft.append("knows", [{"id": 1, "a": 1, "b": 2}])
    with pytest.raises(StaleView):
        catalog.publish(draft)
    assert store.spent
    with pytest.raises(Dangling):
        catalog.publish(draft)


BAD_DRAFTS: dict[str, Callable[[Draft], None]] = {
    "a key that is a list": lambda draft: draft.delete("person", [[1]]),
    "a row that is a number": lambda draft: draft.append("person", [5]),  # type: ignore[list-item]  # on purpose
    "text that is no Unicode": lambda draft: draft.append("person", [{"id": 9, "name": "\ud800"}]),
    "a read of an absent table": lambda draft: draft.append("nowhere", place()),
}


@pytest.mark.parametrize("spoil", BAD_DRAFTS.values(), ids=BAD_DRAFTS)
def test_a_bad_draft_is_refused_alone(spoil: Any) -> None:
    """If it fails the whole group, every thread raises the error of a draft that it does not know."""
    catalog = Catalog.open(graph())
    good, bad = Draft(), Draft()
    good.append("place", place())
    spoil(bad)
    refused, published = catalog.publish_all([bad, good])
    assert isinstance(refused, Invalid)
    assert isinstance(published, Published)


def test_a_transaction_that_read_an_absent_table_is_refused() -> None:
    catalog = Catalog.open(graph())
    draft = catalog.draft()
    with pytest.raises(Absent):
        draft.read("nowhere")
    draft.append("place", place())
    with pytest.raises(Absent):
        catalog.publish(draft)
