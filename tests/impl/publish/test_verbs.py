"""What users write and read: verbs, keys, edges, schema changes, time travel and errors."""

from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Absent, Catalog, Damaged, Dangling, Draft, Invalid, Published, StaleView
from fencepost.impl.publish.schema import decode_rows
from fencepost.impl.publish.tables import KEYS_INLINE_MAX
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.memory import MemoryStore

from .scripted import PERSON, graph


def change(catalog: Catalog, act: Any) -> Any:
    draft = catalog.draft()
    act(draft)
    return catalog.publish(draft)


def test_verbs_and_a_cold_reader_agree() -> None:
    """A reader without a cache finds in the store what a warm handle shows."""
    store = graph()
    catalog = Catalog.open(store)
    acts = [
        lambda txn: txn.append("person", [{"id": 3, "name": None}]),
        lambda txn: txn.upsert("person", [{"id": 3, "name": "Cyd"}, {"id": 4, "name": "Dan"}]),
        lambda txn: txn.delete("person", [4, 77]),
        lambda txn: txn.append("knows", [{"id": 1, "a": 1, "b": 3}]),
        lambda txn: txn.add_column("person", "age", "float64"),
        lambda txn: txn.upsert("person", [{"id": 1, "name": "Ada", "age": 36}]),
        lambda txn: txn.drop_column("person", "name"),
        lambda txn: txn.add_column("person", "name", "bytes"),
        lambda txn: txn.overwrite("place", [{"id": 1, "name": "Rome"}]),
        lambda txn: (txn.drop_table("knows"), txn.delete("person", [1])),
    ]
    for act in acts:
        assert isinstance(change(catalog, act), Published)
        assert Catalog.open(store, mode="read").snapshot().load() == catalog.snapshot().load()
    assert catalog.snapshot().load() == {
        "person": [{"id": 2, "age": None, "name": None}, {"id": 3, "age": None, "name": None}],
        "place": [{"id": 1, "name": "Rome"}],
    }


def test_time_travel() -> None:
    catalog = Catalog.open(graph())
    then = catalog.manifest.id
    change(catalog, lambda txn: txn.overwrite("person", PERSON[:1]))
    assert catalog.snapshot(then).rows("person") == PERSON
    assert catalog.snapshot().rows("person") == PERSON[:1]
    assert catalog.snapshot(then).get("person", 2) == PERSON[1]
    with pytest.raises(Absent, match="no manifest 99"):
        catalog.snapshot(99)


def test_edges_within_one_transaction_may_come_in_any_order() -> None:
    catalog = Catalog.open(graph())
    with catalog.transaction() as txn:
        txn.append("knows", [{"id": 1, "a": 3, "b": 1}])
        txn.append("person", [{"id": 3, "name": "Cyd"}])
    with catalog.transaction() as txn:
        txn.delete("person", [3])
        txn.delete("knows", [1])
    assert catalog.snapshot().rows("knows") == []


INVALID = [
    (lambda d: d.append("person", [{"id": 1}]), Invalid, "has a row 1 already"),
    (lambda d: d.append("person", [{"id": 9}, {"id": 9}]), Invalid, "has a row 9 already"),
    (lambda d: d.append("nobody", [{"id": 1}]), Absent, "no table 'nobody'"),
    (lambda d: d.append("person", [{"id": "x"}]), Invalid, "is int64 and cannot hold 'x'"),
    (lambda d: d.append("person", [{"name": "x"}]), Invalid, "cannot hold None"),
    (lambda d: d.append("person", [{"id": True}]), Invalid, "cannot hold True"),
    (lambda d: d.append("person", [{"id": 2**63}]), Invalid, "cannot hold"),
    (lambda d: d.append("person", [{"id": 5, "nam": "x"}]), Invalid, "no column 'nam'"),
    (lambda d: d.append("person", [{"id": 5, "name": "\ud800"}]), Invalid, "cannot hold"),
    (lambda d: d.append("knows", [{"id": 1, "a": 7, "b": 1}]), Dangling, "person has no row 7"),
    (lambda d: d.create_table("person", {"id": "int64"}, key="id"), Invalid, "already"),
    (lambda d: d.create_table("x/y", {"id": "int64"}, key="id"), Invalid, "table name"),
    (lambda d: d.create_table("x", {"id": "int"}, key="id"), Invalid, "known are int64"),
    (lambda d: d.create_table("x", {"id": "int64"}, key="no"), Invalid, "key 'no'"),
    (lambda d: d.create_table("x", {"id": "int64"}, key="id", edges={"z": "person"}), Invalid, "edge 'z'"),
    (lambda d: d.create_table("x", {"id": "int64", "z": "int64"}, key="id", edges={"z": "q"}), Absent, "'q'"),
    (lambda d: d.drop_table("person"), Invalid, "points at it"),
    (lambda d: d.drop_column("person", "id"), Invalid, "key 'id'"),
    (lambda d: d.drop_column("person", "z"), Absent, "no column 'z'"),
    (lambda d: d.drop_edge("person", "name"), Absent, "no edge 'name'"),
    (lambda d: d.add_column("person", "name", "string"), Invalid, "already"),
    (lambda d: d.delete("person", [99]), Invalid, "nothing to publish"),
    (lambda d: None, Invalid, "nothing to publish"),
]


@pytest.mark.parametrize(("act", "error", "text"), INVALID)
def test_invalid_drafts_are_refused_with_a_sentence(act: Any, error: type, text: str) -> None:
    store = graph()
    catalog = Catalog.open(store)
    before = dict(store.contents())
    draft = Draft()
    act(draft)
    with pytest.raises(error, match=text):
        catalog.publish(draft)
    assert store.contents() == before, "nothing was written"


def test_add_edge_checks_every_row() -> None:
    catalog = Catalog.open(graph())
    change(catalog, lambda d: d.create_table("pet", {"id": "int64", "of": "int64"}, key="id"))
    change(catalog, lambda d: d.append("pet", [{"id": 1, "of": 9}]))
    with pytest.raises(Dangling, match="person has no row 9"):
        change(catalog, lambda d: d.add_edge("pet", "of", "person"))
    change(catalog, lambda d: d.upsert("pet", [{"id": 1, "of": 2}]))
    change(catalog, lambda d: d.add_edge("pet", "of", "person"))
    with pytest.raises(Dangling, match="pet"):
        change(catalog, lambda d: d.delete("person", [2]))


def test_a_transaction_relies_on_what_it_read() -> None:
    """Read, decide, write: if the rows read have changed, the decision is made again."""
    store = graph()
    first, second = Catalog.open(store, mode="join"), Catalog.open(store, mode="join")
    txn = first.draft()
    txn.append("place", [{"id": len(txn.read("person")), "name": "as many as persons"}])
    change(second, lambda d: d.append("person", [{"id": 3, "name": "Cyd"}]))
    with pytest.raises(StaleView, match="person"):
        first.publish(txn)
    result = first.write(
        lambda txn: txn.append("place", [{"id": len(txn.read("person")), "name": "as many as persons"}])
    )
    assert isinstance(result, Published)
    assert first.snapshot().rows("place")[0]["id"] == 3


def test_disjoint_writers_of_one_epoch_both_commit() -> None:
    store = graph()
    first, second = Catalog.open(store, mode="join"), Catalog.open(store, mode="join")
    change(first, lambda d: d.append("person", [{"id": 3, "name": "Cyd"}]))
    change(second, lambda d: d.append("place", [{"id": 1, "name": "Rome"}]))
    tables = Catalog.open(store, mode="read").snapshot().load()
    assert (len(tables["person"]), len(tables["place"])) == (3, 1)


def test_many_deleted_keys_go_to_a_fragment() -> None:
    """Few keys are in the version document, many are not, and with new rows the table is rewritten."""
    store = MemoryStore(env=SeededEnvironment(1))
    catalog = Catalog.open(store, create=True)
    change(catalog, lambda d: d.create_table("t", {"id": "int64"}, key="id"))
    many = [{"id": number} for number in range(3 * KEYS_INLINE_MAX)]
    change(catalog, lambda d: d.append("t", many))
    change(catalog, lambda d: d.delete("t", range(KEYS_INLINE_MAX + 1)))
    assert [run["holds"] for run in catalog.snapshot().runs("t")] == ["rows", "keys"]
    cold = Catalog.open(store, mode="read")
    assert len(cold.snapshot().rows("t")) == 2 * KEYS_INLINE_MAX - 1
    change(
        catalog,
        lambda d: (d.delete("t", range(3 * KEYS_INLINE_MAX - 5)), d.append("t", [{"id": -1}])),
    )
    assert [run["holds"] for run in catalog.snapshot().runs("t")] == ["rows"]
    assert len(Catalog.open(store, mode="read").snapshot().rows("t")) == 6


def test_opening_a_missing_catalog() -> None:
    store = MemoryStore(env=SeededEnvironment(1))
    with pytest.raises(Absent, match="no branch 'main'"):
        Catalog.open(store)
    with pytest.raises(Invalid, match="choose one of claim, join, read"):
        Catalog.open(store, mode="write")
    Catalog.open(store, create=True)
    Catalog.open(store, create=True)
    reader = Catalog.open(store, mode="read")
    with pytest.raises(Invalid, match="opened for reading"):
        change(reader, lambda d: d.drop_table("t"))


def test_damage_is_named() -> None:
    store = graph()
    (version,) = [key for key in store.contents() if key.startswith("table/person")]
    body = store.contents()[version]
    store.put(version, body.replace(b"name", b"nome"), when=ANYTHING)
    with pytest.raises(Damaged, match="is not what the manifest pins"):
        Catalog.open(store, mode="read").snapshot().rows("person")
    store.put(version, body, when=ANYTHING)
    (fragment,) = [key for key in store.contents() if key.startswith("data/person")]
    store.put(fragment, b"PAR1", when=ANYTHING)
    with pytest.raises(Damaged, match="is not what was published"):
        Catalog.open(store, mode="read").snapshot().rows("person")
    with pytest.raises(Damaged, match="cannot be read as Parquet"):
        decode_rows(b"PAR1", "a")
    manifest = max(key for key in store.contents() if "/manifest/" in key)
    store.put(manifest, b"{}", when=ANYTHING)
    with pytest.raises(Damaged, match="not a document of format 1"):
        Catalog.open(store, mode="read")


def test_a_catalog_on_disk_is_found_again(tmp_path: Any) -> None:
    pytest.importorskip("fencepost.impl.store.files")
    url = f"file://{tmp_path}/graph"
    with Catalog.open(url, create=True, author="ann") as catalog, catalog.transaction("hello") as txn:
        txn.create_table("t", {"id": "string", "blob": "bytes", "ok": "bool"}, key="id")
        txn.append("t", [{"id": "a", "blob": b"\x00\xff", "ok": True}, {"id": "b"}])
    with Catalog.open(url, mode="read") as catalog:
        assert catalog.snapshot().arrow("t").to_pylist() == [
            {"id": "a", "blob": b"\x00\xff", "ok": True},
            {"id": "b", "blob": None, "ok": None},
        ]
        assert [(m.kind, m.author, m.message) for m in catalog.log()] == [
            ("publish", "ann", "hello"),
            ("claim", "ann", ""),
            ("init", "ann", ""),
        ]
