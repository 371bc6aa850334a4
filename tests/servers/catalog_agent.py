"""Writers of a catalog, as processes that were forked from one, each with commits one after another.

python -m tests.servers.catalog_agent COUNT ROUNDS TABLES WAIT PLACE...     # a line of JSON for each commit

With `PLACE`s that are addresses of servers they send their commits there; else each has a handle of its own.
"""

import json
import multiprocessing
import sys

from fencepost.impl.publish import Catalog, Published, PublishError

FORK = multiprocessing.get_context("fork")


def write(number: int, rounds: int, tables: int, wait_s: float, places: list[str], results: object) -> None:
    """Keys are of one writer and one round: what is committed twice is refused the second time."""
    put = results.put  # type: ignore[attr-defined]  # a queue
    try:
        where = places if places[0].startswith("http") else places[0]
        with Catalog.open(where, author=f"writer {number}", mode="join", wait_s=wait_s) as catalog:
            for turn in range(rounds):
                row = {"id": number * 1000 + turn, "name": f"{number}"}
                ended = catalog.write(lambda txn, row=row: txn.append(f"t{number % tables}", [row]))
                manifest = ended.id if isinstance(ended, Published) else 0
                put({"id": row["id"], "ended": "Published" if manifest else "Unknown", "manifest": manifest})
    except PublishError as error:
        put({"id": number * 1000, "ended": type(error).__name__, "text": str(error)})
    put(None)


def main(count: str, rounds: str, tables: str, wait: str, *places: str) -> None:
    import pyarrow.parquet  # noqa: F401 - before the forks, which then need not load it

    results = FORK.Queue()
    settings = (int(rounds), int(tables), float(wait), [*places], results)
    writers = [FORK.Process(target=write, args=(number, *settings)) for number in range(int(count))]
    for writer in writers:
        writer.start()
    left = len(writers)
    while left:
        found = results.get()
        left -= found is None
        if found is not None:
            sys.stdout.write(f"{json.dumps(found)}\n")
            sys.stdout.flush()
    for writer in writers:
        writer.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
