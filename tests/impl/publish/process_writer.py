"""Run by `test_processes`: one writer, alone in its process.

    python process_writer.py race URL NUMBER claim|join START  publishes a row, when the file START is there
    python process_writer.py halt URL SAFEGUARD FOLDER         stops before its head, then before its manifest
    python process_writer.py gated URL NUMBER SAFEGUARD FOLDER the same, as one of many in one epoch

`race` and `gated` print the result of their publish as JSON. `halt` and `gated` replace SAFEGUARD by its
mutant ("" replaces none), create a file in FOLDER at each stop (`head`, `manifest`; `gated` adds its number)
and continue when the file `go-` and the same name exists. The test kills `halt` after its second stop.
"""

import json
import sys
import time
from pathlib import Path

# Run as a script, so that the folder that holds `tests` is not on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from fencepost.impl.publish import Catalog, Published, PublishError
from fencepost.impl.store import open_store
from tests.impl.publish.scripted import Scripted, name_of, without

SECONDS_MAX = 120


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} was not created"
        time.sleep(0.002)


def race(url: str, number: str, mode: str, start: str) -> None:
    Path(f"{start}.ready-{number}").touch()
    wait_for(Path(start))
    outcome = {"number": int(number), "ended": "", "text": ""}
    try:
        with Catalog.open(url, author=f"writer {number}", mode=mode) as catalog:
            row = {"id": int(number), "name": "x"}
            ended = catalog.write(lambda txn: txn.append("person", [row]))
            outcome["ended"] = name_of(ended)
            outcome["text"] = str(ended.id) if isinstance(ended, Published) else ended.why
    except PublishError as error:
        outcome.update(ended=type(error).__name__, text=str(error))
    sys.stdout.write(f"{json.dumps(outcome)}\n")


def gated(url: str, number: str, safeguard: str, folder: str) -> None:
    store = Scripted(open_store(url))

    def stop(name: str) -> None:
        Path(folder, f"{name}-{number}").touch()
        wait_for(Path(folder, f"go-{name}-{number}"))

    author, safeguards = f"writer {number}", without(safeguard or None)
    with Catalog.open(store, author=author, mode="join", safeguards=safeguards) as catalog:
        store.before("put", "table/person", lambda: stop("head"))
        store.before("put", "branch/main/manifest/", lambda: stop("manifest"))
        draft = catalog.draft()
        draft.append("person", [{"id": int(number), "name": "x"}])
        try:
            ended = name_of(catalog.publish(draft))
        except PublishError as error:
            ended = type(error).__name__
    sys.stdout.write(f"{json.dumps({'number': int(number), 'ended': ended})}\n")


def halt(url: str, safeguard: str, folder: str) -> None:
    store = Scripted(open_store(url))

    def stop(name: str) -> None:
        Path(folder, name).touch()
        wait_for(Path(folder, f"go-{name}"))

    with Catalog.open(store, author="old", safeguards=without(safeguard or None)) as catalog:
        store.before("put", "table/person", lambda: stop("head"))
        store.before("put", "branch/main/manifest/", lambda: stop("manifest"))
        catalog.write(lambda txn: txn.append("person", [{"id": 1, "name": "old"}]))


if __name__ == "__main__":
    {"race": race, "halt": halt, "gated": gated}[sys.argv[1]](*sys.argv[2:])
