"""A scan shows the rows of the table: whole, by pieces, in columns, at old versions, after every change."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Absent, Catalog, Damaged, Invalid, Snapshot, StaleView, tables
from fencepost.impl.publish.scan import Scan
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.memory import MemoryStore
from tests.depth import examples

VERBS = ("append", "upsert", "delete", "overwrite", "add_column", "drop_column", "compact", "drop")


def opened(store: MemoryStore | None = None) -> Catalog:
    catalog = Catalog.open(store or MemoryStore(env=SeededEnvironment(1)), create=True)
    catalog.write(lambda txn: txn.create_table("t", {"id": "int64", "n": "string"}, key="id"))
    return catalog


def change(catalog: Catalog, verb: str, ids: list[int], draw: random.Random) -> None:
    """Make one commit; a change that does not fit leaves the table as it is."""
    columns = dict(catalog.snapshot().schema("t").columns) if "t" in catalog.snapshot().tables else {}
    values = {"string": "s", "int64": 7, "float64": 0.5}

    def rows() -> list[dict[str, Any]]:
        others = {name: values[kind] for name, kind in columns.items() if name != "id"}
        return [{"id": id_, **{name: draw.choice([None, v]) for name, v in others.items()}} for id_ in ids]

    def act(txn: Any) -> None:
        if not columns:
            txn.create_table("t", {"id": "int64", "n": "string"}, key="id")
        elif verb in ("append", "upsert", "overwrite"):
            getattr(txn, verb)("t", rows())
        elif verb == "delete":
            txn.delete("t", ids)
        elif verb == "add_column":
            name = draw.choice(["n", "m"])
            txn.add_column("t", name, draw.choice(["string", "int64", "float64"]))
        elif verb == "drop_column":
            txn.drop_column("t", draw.choice(["n", "m"]))
        elif verb == "drop":
            txn.drop_table("t")

    try:
        if verb == "compact" and columns:
            catalog.compact("t")
        else:
            catalog.write(act)
    except Invalid:
        pass


def sorted_rows(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def by_pieces(catalog: Catalog, scan: Scan) -> list[dict[str, Any]]:
    """The rows as tasks of a cluster read them: each piece by itself."""
    found = [
        row for piece in scan.pieces for batch in piece.batches(catalog.context) for row in batch.to_pylist()
    ]
    return sorted(found, key=lambda row: row["id"])


def check(catalog: Catalog, snapshot: Snapshot) -> None:
    if "t" not in snapshot.tables:
        return
    expected = [dict(row) for row in snapshot.rows("t")]
    scan = snapshot.scan("t")
    assert sorted_rows(scan.arrow()) == expected
    assert by_pieces(catalog, scan) == expected
    assert scan.schema.names == [name for name, _ in snapshot.schema("t").columns]


@given(st.data())
@settings(max_examples=examples(20))
def test_a_scan_shows_the_rows_of_the_table(data: st.DataObject) -> None:
    """Also with runs of keys in fragments (a small limit), and at every retained version."""
    draw = random.Random(data.draw(st.integers(0, 2**32)))
    catalog = opened()
    inline = tables.KEYS_INLINE_MAX
    tables.KEYS_INLINE_MAX = data.draw(st.sampled_from([2, inline]))
    try:
        for verb in data.draw(st.lists(st.sampled_from((*VERBS, "upsert", "delete", "append")), max_size=25)):
            change(catalog, verb, sorted({draw.randrange(30) for _ in range(draw.randrange(1, 12))}), draw)
        check(catalog, catalog.snapshot())
        for manifest in catalog.log():
            check(catalog, catalog.snapshot(manifest.id))
    finally:
        tables.KEYS_INLINE_MAX = inline


def many_runs(catalog: Catalog) -> None:
    catalog.write(lambda txn: txn.append("t", [{"id": id_, "n": str(id_)} for id_ in range(100)]))
    catalog.write(lambda txn: txn.upsert("t", [{"id": 3, "n": "three"}, {"id": 100, "n": "new"}]))
    catalog.write(lambda txn: txn.delete("t", [4, 100]))


def test_a_scan_returns_the_columns_in_the_order_named() -> None:
    """Without the key, too: the key is needed to hide rows, not to show them."""
    catalog = opened()
    many_runs(catalog)
    scan = catalog.snapshot().scan("t", ["n"])
    assert scan.schema.names == ["n"]
    assert sorted(scan.arrow().column("n").to_pylist()) == sorted(
        "three" if id_ == 3 else str(id_) for id_ in range(100) if id_ != 4
    )
    assert catalog.snapshot().scan("t", ["n", "id"]).schema.names == ["n", "id"]


def test_rows_of_a_column_that_was_added_later_are_empty_and_counted() -> None:
    """A fragment written before has nothing to read: its rows must not vanish."""
    catalog = opened()
    many_runs(catalog)
    catalog.write(lambda txn: txn.add_column("t", "later", "float64"))
    assert catalog.snapshot().scan("t", ["later"]).arrow().column("later").to_pylist() == [None] * 99


def test_each_fragment_is_read_once() -> None:
    catalog = opened()
    many_runs(catalog)
    asked: list[str] = []
    scan = catalog.snapshot().scan("t")
    plain = catalog.context.store.send
    catalog.context.store.send = lambda request: asked.append(request.key) or plain(request)  # type: ignore[assignment,func-returns-value,method-assign]
    assert scan.arrow().num_rows == 99
    assert len(asked) == len(set(asked)) == 2


def test_rows_are_hidden_in_every_batch_of_a_large_fragment() -> None:
    """Arrow reads 65,536 rows at a time: the keys of a later run must be matched with the right ones."""
    catalog = opened()
    catalog.write(lambda txn: txn.append("t", [{"id": id_} for id_ in range(70_000)]))
    gone = [1, 65_535, 65_536, 65_537, 69_999]
    catalog.write(lambda txn: txn.delete("t", gone))
    shown = catalog.snapshot().scan("t", ["id"]).arrow().column("id").to_pylist()
    assert shown == [id_ for id_ in range(70_000) if id_ not in gone]


def test_a_dataset_can_be_scanned_and_filtered_many_times() -> None:
    import pyarrow.dataset as ds

    catalog = opened()
    many_runs(catalog)
    dataset = catalog.snapshot().scan("t").dataset()
    assert dataset.count_rows() == dataset.count_rows() == 99
    assert dataset.to_table(filter=ds.field("id") == 3).to_pylist() == [{"id": 3, "n": "three"}]


def test_columns_that_are_not_there_are_refused() -> None:
    snapshot = opened().snapshot()
    with pytest.raises(Invalid, match="has no column 'x'; it has id, n"):
        snapshot.scan("t", ["x"])
    with pytest.raises(Invalid, match="each once"):
        snapshot.scan("t", ["n", "n"])
    with pytest.raises(Absent, match="no table 'u'"):
        snapshot.scan("u")


@pytest.mark.parametrize("pieces", [False, True])
def test_a_damaged_or_missing_fragment_is_never_shown(pieces: bool) -> None:
    store = MemoryStore(env=SeededEnvironment(1))
    catalog = opened(store)
    many_runs(catalog)
    scan = catalog.snapshot().scan("t")
    path = scan.pieces[0].run["path"]
    body = store.get(path).body

    def read() -> object:
        return by_pieces(catalog, scan) if pieces else scan.arrow()

    store.put(path, body[:-1] + b"?", when=ANYTHING)
    with pytest.raises(Damaged, match="is not what was published"):
        read()
    store.delete(path, when=ANYTHING)
    with pytest.raises(StaleView, match="was cleaned up"):
        read()


def test_a_transaction_relies_on_what_it_scans() -> None:
    """Otherwise a change decided on a scan would be published although the table has changed."""
    catalog = opened()
    many_runs(catalog)
    txn = catalog.draft()
    assert txn.snapshot.scan("t").arrow().num_rows == 99
    txn.create_table("sums", {"id": "int64", "total": "int64"}, key="id")
    other = Catalog.open(catalog.context.store, mode="join")
    other.write(lambda change: change.delete("t", [5]))
    catalog.refresh()
    with pytest.raises(StaleView, match="table t changed"):
        catalog.publish(txn)
