"""A catalog's tables as Spark DataFrames: a data source of PySpark 4, written in Python.

    from fencepost.impl.publish.spark import CatalogSource

    spark.dataSource.register(CatalogSource)
    people = spark.read.format("fencepost-catalog").option("url", url).option("table", "person").load()

Options: `url`, `table`, and perhaps `branch`, `at` (the number of a manifest) and `columns` (names, separated
by commas). Without `at` a DataFrame shows the manifest that was the newest when it was loaded, and the same
rows whenever it is evaluated. Read two tables with the same `at` to see them at one commit.

A task reads one run of the table, so a table that was compacted is one task. The executors open the URL
themselves: they need access to it, and credentials in their own environment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from fencepost.impl.publish.catalog import Catalog
from fencepost.impl.publish.context import MAIN, BranchContext, Mode
from fencepost.impl.publish.errors import Invalid
from fencepost.impl.publish.safeguards import STANDARD
from fencepost.impl.publish.scan import Piece
from fencepost.impl.publish.schema import arrow_schema
from fencepost.impl.store.urls import open_store

OPTIONS = ("url", "table", "branch", "at", "columns")


class CatalogSource(DataSource):
    """One table at one manifest. The source fixes the manifest before Spark plans anything."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        for name in options:
            if name not in OPTIONS:
                raise Invalid(f"option {name!r}: fencepost-catalog has {', '.join(OPTIONS)}")
        for name in ("url", "table"):
            if not options.get(name):
                raise Invalid(f"fencepost-catalog needs option {name!r}")
        self._url = options["url"]
        self._branch = options.get("branch", MAIN)
        columns = [name.strip() for name in options["columns"].split(",")] if "columns" in options else None
        with Catalog.open(self._url, branch=self._branch, mode=Mode.READ) as catalog:
            scan = catalog.snapshot(_manifest(options.get("at"))).scan(options["table"], columns)
        self._columns, self._pieces = scan.columns, scan.pieces

    @classmethod
    def name(cls) -> str:
        return "fencepost-catalog"

    def schema(self) -> StructType:
        return from_arrow_schema(arrow_schema(self._columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self._url, self._branch, self._pieces)


def _manifest(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise Invalid(f"option 'at' is {text!r}; give the number of a manifest, see `fencepost catalog log`")
    return int(text)


@dataclass
class _Task(InputPartition):
    piece: Piece


@dataclass
class _Reader(DataSourceReader):
    url: str
    branch: str
    pieces: Sequence[Piece]

    def partitions(self) -> Sequence[InputPartition]:
        return [_Task(piece) for piece in self.pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Task)
        store = open_store(self.url)
        try:
            context = BranchContext(store, store.env, self.branch, STANDARD)
            yield from partition.piece.batches(context)
        finally:
            store.close()
