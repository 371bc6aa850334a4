"""The rollups of a deployment as a Spark DataFrame: a data source of PySpark 4, written in Python.

    from fencepost.impl.ingest.spark import RollupSource

    spark.dataSource.register(RollupSource)
    sums = spark.read.format("fencepost-rollups").option("store", "s3://metrics/prod").load()

A row is the sum of one series in one hour, of the batches of one entry (see `rollups`). A series has several
rows where batches were late or many: group by metric, hour and labels, and add up. The entries are those that
existed when the DataFrame was loaded. Each task reads some chunks (option `chunks`, 200 by default); the
executors open the store themselves.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from fencepost.impl.http.numbers import whole_number
from fencepost.impl.ingest.context import IngestContext, portions
from fencepost.impl.ingest.errors import Damaged, QueryError
from fencepost.impl.ingest.rollups import entries, place_of_chunk, unpack
from fencepost.impl.store.urls import open_store

OPTIONS = ("store", "chunks")
CHUNKS = 200
SCHEMA = (
    "metric string, hour timestamp, labels map<string,string>, "
    "count bigint, sum double, min double, max double, nan bigint"
)


class RollupSource(DataSource):
    """All rollups of one store. The source fixes the entries before Spark plans anything."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        for name in options:
            if name not in OPTIONS:
                raise QueryError(f"option {name!r}: fencepost-rollups has {', '.join(OPTIONS)}")
        if not options.get("store"):
            raise QueryError("fencepost-rollups needs option 'store', the URL of the deployment's bucket")
        self._url = options["store"]
        at_once = whole_number(options.get("chunks", str(CHUNKS)), 10**6)
        if not at_once:
            raise QueryError(
                f"option 'chunks' is {options['chunks']!r}; give the chunks of a task as a number"
            )
        self._at_once = at_once
        store = open_store(self._url)
        try:
            context = IngestContext(store, store.env)
            self._chunks = sorted({key for entry in entries(context) for key in entry.chunks})
        finally:
            store.close()

    @classmethod
    def name(cls) -> str:
        return "fencepost-rollups"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self._url, [tuple(some) for some in portions(self._chunks, self._at_once)])


@dataclass
class _Task(InputPartition):
    chunks: tuple[str, ...]


@dataclass
class _Reader(DataSourceReader):
    url: str
    tasks: Sequence[tuple[str, ...]]

    def partitions(self) -> Sequence[InputPartition]:
        return [_Task(chunks) for chunks in self.tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Task)
        store = open_store(self.url)
        try:
            for key, reply in IngestContext(store, store.env).read_objects(partition.chunks):
                if reply.info is None:
                    raise Damaged(f"{key} is missing, which an entry names")
                metric, hour = place_of_chunk(key)
                for labels, one in unpack(reply.body, key).items():
                    least, most = (one.min, one.max) if one.count else (None, None)
                    yield metric, _moment(hour), dict(labels), one.count, one.sum, least, most, one.nan
        finally:
            store.close()


def _moment(hour: str) -> dt.datetime:
    """The start of `date=2026-11-20/hour=07/`."""
    return dt.datetime.strptime(hour, "date=%Y-%m-%d/hour=%H/").replace(tzinfo=dt.UTC)
