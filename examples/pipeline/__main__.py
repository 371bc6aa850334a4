"""Run the pipeline below a folder: `python -m fencepost.examples.pipeline FOLDER`.

    agents --> batches in FOLDER/metrics --> sums by hour in the catalog FOLDER/catalog --> a report by Spark

Each step may be killed and repeated. A batch is accepted once. A row of the catalog is the sum of one series
in one whole hour, written by its key: publishing an hour again replaces the row by the same or a more
complete one.
"""

import datetime as dt
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fencepost.commands.messages import say
from fencepost.impl.environment import Environment, SystemEnvironment
from fencepost.impl.ingest import Accepted, Authority, Identity, Point, encode, roll_up
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.query import HOUR_NS, Window, metrics_in, sum_row, sums_by_hour
from fencepost.impl.publish import Catalog, Published
from fencepost.store import Store, open_store

START = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**9
HOURS = 4
COLUMNS = {
    "id": "string",
    "metric": "string",
    "host": "string",
    "hour": "string",
    "count": "int64",
    "sum": "float64",
}


def measure(store: Store, env: Environment) -> None:
    """Two agents send a batch an hour, and the first one of each a second time."""
    collector = Authority(store, env, "collector-1")
    for agent in ("agent-a", "agent-b"):
        for number in (0, *range(HOURS)):
            moment = START + number * HOUR_NS
            points = [Point("cpu.load", {"host": agent}, moment + at, 0.5 * number + at) for at in range(10)]
            identity = Identity(agent, "boot-1", number * 10, number * 10 + 9)
            answer = collector.accept(identity, encode(identity, points))
            if not isinstance(answer, Accepted):
                raise SystemExit(f"batch {identity} was not accepted: {answer}")
            collector.follow_up(answer.manifest)


def publish(store: Store, env: Environment, catalog: Catalog, start_ns: int, end_ns: int) -> int:
    """Write the sums of every series in these hours in one commit; returns how many."""
    roll_up(store, env)
    rows = list(_rows(IngestContext(store, env), start_ns, end_ns))

    def change(txn: Any) -> None:
        if "sums" not in txn.snapshot.tables:
            txn.create_table("sums", COLUMNS, key="id")
        txn.upsert("sums", rows)

    done = catalog.write(change, message="sums by hour")
    if not isinstance(done, Published):
        raise SystemExit("it is unknown whether the sums were published: run the pipeline again")
    return len(rows)


def _rows(context: IngestContext, start_ns: int, end_ns: int) -> Iterator[dict[str, Any]]:
    for metric in metrics_in(context, start_ns, end_ns):
        for one in sums_by_hour(context, Window(metric, start_ns, end_ns)).rows:
            row = sum_row(one)
            host = row["labels"].get("host", "")
            named = {"metric": metric, "host": host, "hour": row["hour"]}
            yield {"id": "/".join(named.values()), **named, "count": row["count"], "sum": row["sum"]}


def report(spark: Any, url: str) -> list[Any]:
    """The mean load of each host, by Spark, from the newest commit of the catalog."""
    from fencepost.impl.publish.spark import CatalogSource

    spark.dataSource.register(CatalogSource)
    sums = spark.read.format("fencepost-catalog").options(url=url, table="sums").load()
    sums.createOrReplaceTempView("sums")
    mean = "select host, sum(sum) / sum(count) mean, sum(count) points from sums group by host order by host"
    found: list[Any] = spark.sql(mean).collect()
    return found


def main(folder: Path) -> None:
    from fencepost.sim.spark import start

    env = SystemEnvironment()
    (folder / "metrics").mkdir(parents=True, exist_ok=True)
    url = (folder / "catalog").absolute().as_uri()
    with open_store((folder / "metrics").absolute().as_uri()) as store:
        measure(store, env)
        with Catalog.open(url, author="pipeline", create=True) as catalog:
            count = publish(store, env, catalog, START, START + HOURS * HOUR_NS)
    say(f"{count} sums of {HOURS} hours published to {url}")
    with start("local[1]") as spark:
        for row in report(spark, url):
            say(f"{row.host}: mean {row['mean']:.2f} of {row.points} points")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name a folder: python -m fencepost.examples.pipeline FOLDER")
    main(Path(sys.argv[1]))
