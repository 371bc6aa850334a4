"""Fill a bucket on a directory with many objects at the cost of few: links to one empty file, and index rows.

    fill_bucket(buckets, "listed", [f"list/{number}" for number in range(1_000_000)])

The rows of the index are those that reconciling would make. Their transaction is the only other cost, so a
million objects take seconds.
"""

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.tables import entry_of
from fencepost.impl.store.requests import ANYTHING

LINKS_MAX = 1000
"""Names of one file: file systems allow only so many."""


def fill_bucket(buckets: Buckets, bucket: str, keys: Iterable[str], modified_ns: int | None = None) -> None:
    """Create an object of no bytes at each key; the bucket exists and has no other user.

    `modified_ns` is the time of all objects, or None for the present.
    """
    store = buckets.store(bucket)
    rows: list[tuple[Any, ...]] = []
    waiting = iter(keys)
    while (first := next(waiting, None)) is not None:
        store.put(first, b"", when=ANYTHING)
        path = Path(store.path, first)
        if modified_ns is not None:
            os.utime(path, ns=(modified_ns, modified_ns))
        others = list(itertools.islice(waiting, LINKS_MAX - 1))
        for key in others:
            other = Path(store.path, key)
            other.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, other)
        with store.opened(first) as opened:
            assert opened is not None, "the first file was written above"
            entry = entry_of(opened.found, opened.attributes)
        about = (entry.etag, entry.size, entry.modified_ns, entry.file, entry.attributes)
        rows += [(bucket, key.encode(), "", *about) for key in others]
    with buckets.index.writing() as table:
        table.connection.executemany("insert or replace into objects values (?,?,?,?,?,?,?,?)", rows)
