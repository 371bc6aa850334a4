"""A table of a catalog as a DataFrame: the same rows as the catalog shows, read by tasks."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.publish import Catalog

pytestmark = pytest.mark.spark


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A catalog whose table consists of four runs: rows, rows that replace some, keys, rows."""
    url = f"file://{tmp_path}/catalog"
    with Catalog.open(url, create=True) as catalog:
        columns = {"id": "int64", "n": "string", "x": "float64", "b": "bytes", "t": "bool"}
        catalog.write(lambda txn: txn.create_table("t", columns, key="id"))
        rows = [
            {"id": id_, "n": f"n{id_}", "x": id_ / 4, "b": b"\x00\xff", "t": id_ % 2 == 0}
            for id_ in range(500)
        ]
        catalog.write(lambda txn: txn.append("t", rows))
        catalog.write(lambda txn: txn.upsert("t", [{"id": 7, "n": "seven"}, {"id": 500, "n": "last"}]))
        catalog.write(lambda txn: txn.delete("t", [8, 500]))
        catalog.write(lambda txn: txn.append("t", [{"id": 8, "n": "again"}]))
    return url


def load(session: Any, url: str, **options: str) -> Any:
    from fencepost.impl.publish.spark import CatalogSource

    session.dataSource.register(CatalogSource)
    return session.read.format("fencepost-catalog").options(url=url, table="t", **options).load()


def rows(frame: Any) -> list[dict[str, Any]]:
    found = [row.asDict() for row in frame.collect()]
    plain = [{**row, "b": None if row["b"] is None else bytes(row["b"])} for row in found]
    return sorted(plain, key=lambda row: row["id"])


def test_a_dataframe_has_the_rows_and_types_of_the_table(session: Any, url: str) -> None:
    frame = load(session, url)
    kinds = [(field.name, field.dataType.simpleString()) for field in frame.schema]
    assert kinds == [("id", "bigint"), ("n", "string"), ("x", "double"), ("b", "binary"), ("t", "boolean")]
    with Catalog.open(url, mode="read") as catalog:
        assert rows(frame) == catalog.snapshot().rows("t")
        assert frame.rdd.getNumPartitions() == len(catalog.snapshot().scan("t").pieces) > 1


def test_a_dataframe_stays_at_its_manifest_while_others_write(session: Any, url: str) -> None:
    """Otherwise two evaluations of one frame would differ, and a join could see two versions."""
    frame = load(session, url)
    with Catalog.open(url) as catalog:
        before = catalog.snapshot().rows("t")
        at = catalog.snapshot().id
        catalog.write(lambda txn: txn.overwrite("t", [{"id": 1, "n": "only"}]))
    assert rows(frame) == before
    assert rows(load(session, url, at=str(at))) == before
    assert load(session, url).count() == 1


def test_a_frame_of_some_columns(session: Any, url: str) -> None:
    frame = load(session, url, columns="n, id")
    assert frame.columns == ["n", "id"]
    assert frame.filter("id = 8").collect()[0].n == "again"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at": "x"}, "give the number of a manifest"),
        ({"at": "99"}, "has no manifest 99"),
        ({"tabel": "t"}, "option 'tabel'"),
        ({"columns": "nothing"}, "has no column 'nothing'"),
        ({"branch": "none"}, "there is no branch 'none'"),
    ],
)
def test_an_unknown_option_is_refused_with_its_reason(
    session: Any, url: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        load(session, url, **options)
