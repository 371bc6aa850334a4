"""A writer of a catalog, recorded, until it is killed.

python -m tests.servers.publish_agent URL TRACES NAME [MUTANT]     # a line for each commit
"""

import sys

from fencepost.impl.publish import Catalog
from fencepost.impl.publish.errors import PublishError
from fencepost.impl.publish.safeguards import STANDARD
from fencepost.impl.publish.trace_fields import trace_fields
from fencepost.impl.recording import Recorder
from fencepost.impl.recording.layer import RecordedStore
from fencepost.impl.store import open_store
from fencepost.sim.systems import SYSTEMS


def main(url: str, traces: str, name: str, mutant: str = "") -> None:
    store = RecordedStore(open_store(url), Recorder(traces, name), run="shop", trace_fields=trace_fields)
    safeguards = SYSTEMS["publish"].without(mutant) if mutant else STANDARD
    catalog = Catalog.open(store, author=name, mode="join", safeguards=safeguards)
    number = 0
    while True:
        try:
            with catalog.transaction(f"{name} {number}") as txn:
                txn.append("person", [{"id": hash((name, number)) & 0xFFFFFFFF, "name": name}])
        except PublishError as error:  # a conflict: the next one
            sys.stderr.write(f"{error}\n")
        number += 1
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
