"""The object store: one narrow interface in memory, on a directory and on S3.

    from fencepost.store import ABSENT, Outcome, open_store

    store = open_store("s3://bucket/prefix")
    if store.put("leader", b"node-a", when=ABSENT).outcome is Outcome.DONE:
        print("leading")

Every write names its condition; every reply has an `Outcome`, of which `UNKNOWN` (the reply was lost) is one.
"""

from fencepost.impl.store import (
    ABSENT,
    ANYTHING,
    BrokenPromise,
    Matches,
    Misuse,
    Outcome,
    Store,
    StoreError,
    Unsupported,
    Unusable,
    open_store,
)
from fencepost.impl.store.events import Event
from fencepost.impl.store.files import Disk, FileStore
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Absent, Condition, Head, Metadata, ObjectInfo, Put, Reply

__all__ = [
    "ABSENT",
    "ANYTHING",
    "Absent",
    "BrokenPromise",
    "Condition",
    "Disk",
    "Event",
    "FileStore",
    "Head",
    "Matches",
    "MemoryStore",
    "Metadata",
    "Misuse",
    "ObjectInfo",
    "Outcome",
    "Put",
    "Reply",
    "Store",
    "StoreError",
    "Unsupported",
    "Unusable",
    "open_store",
]
