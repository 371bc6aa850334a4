"""A writer of a catalog, recorded, until it is killed.

python -m tests.servers.publish_agent URL TRACES NAME PAUSE     # a line for each commit
"""

import sys
import time

from fencepost.impl.publish import Catalog
from fencepost.impl.publish.errors import PublishError
from fencepost.impl.publish.trace_fields import trace_fields
from fencepost.impl.recording import Recorder
from fencepost.impl.recording.layer import RecordedStore
from fencepost.impl.store import open_store


def main(url: str, traces: str, name: str, pause_s: str) -> None:
    """`pause_s`: between two commits. A plan based on many commits ago is beyond the bounds of the model."""
    store = RecordedStore(open_store(url), Recorder(traces, name), run="shop", trace_fields=trace_fields)
    catalog = Catalog.open(store, author=name, mode="join")
    number = 0
    while True:
        try:
            with catalog.transaction(f"{name} {number}") as txn:
                one = hash((name, number)) & 0xFFFFFFFF
                txn.append("person", [{"id": one, "name": name}])
                if number % 2:
                    txn.append("knows", [{"id": one, "a": one}])
        except PublishError as error:  # a conflict: the next one
            sys.stderr.write(f"{error}\n")
        number += 1
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        time.sleep(float(pause_s))


if __name__ == "__main__":
    main(*sys.argv[1:])
