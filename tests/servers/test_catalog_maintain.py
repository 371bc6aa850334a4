"""`fencepost catalog maintain` as processes that are killed at any moment, beside writers."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from fencepost.impl.publish import Catalog, verify

pytestmark = pytest.mark.server

WRITER = """
import sys
from fencepost.impl.publish import Catalog, Published
url, number = sys.argv[1], int(sys.argv[2])
with Catalog.open(url, author=f"writer {number}", mode="join") as catalog:
    for count in range(10**6):
        key = number * 10**6 + count
        def add(txn, key=key):
            txn.append("a", [{"id": key}])
            txn.append("b", [{"id": key, "of": key}])
        ended = catalog.write(add, attempts=20)
        # A process that is stopped for longer than --grace may find its plan ended by a maintainer.
        print(key if isinstance(ended, Published) else "unknown", flush=True)
"""


def started(*arguments: str, out: Path | None = None) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-m", "fencepost", "catalog", "maintain", *arguments]
    with (out or Path(os.devnull)).open("w") as stream:
        return subprocess.Popen(words, stdout=stream, stderr=stream)


def founded(folder: Path) -> str:
    url = f"file://{folder}/catalog"
    with Catalog.open(url, create=True) as catalog, catalog.transaction() as txn:
        txn.create_table("a", {"id": "int64"}, key="id")
        txn.create_table("b", {"id": "int64", "of": "int64"}, key="id", edges={"of": "a"})
    return url


BUSY = ("--every", "0.2", "--keep", "2", "--compact-from", "4", "--grace", "1", "--tables", "2")


def test_maintainers_killed_repeatedly_lose_nothing_and_refuse_no_writer(tmp_path: Path) -> None:
    """Two maintainers at work, of which one is killed again and again, beside two writers that never fail."""
    url = founded(tmp_path)
    printed = [tmp_path / f"printed-{number}" for number in range(2)]
    writers = []
    for number, file in enumerate(printed):
        with file.open("w") as out:
            writers.append(subprocess.Popen([sys.executable, "-c", WRITER, url, str(number)], stdout=out))
    dice = random.Random(7)
    reported = [tmp_path / f"maintainer-{number}" for number in range(2)]
    maintainers = [started(url, *BUSY, out=file) for file in reported]
    kills, deadline = 0, time.monotonic() + 400

    def acknowledged() -> set[int]:
        lines = [line for file in printed for line in file.read_text().split("\n")[:-1]]
        return {int(line) for line in lines if line != "unknown"}

    try:
        # On a busy machine a process needs seconds to start: each kill comes after the victim has worked.
        while kills < int(os.environ.get("FENCEPOST_KILLS", "8")) or len(acknowledged()) < 30:
            assert time.monotonic() < deadline, (kills, len(acknowledged()))
            time.sleep(0.2 + dice.random())
            assert [child.poll() for child in writers] == [None, None], "a writer was refused"
            assert [child.poll() for child in maintainers] == [None, None], "a maintainer ended by itself"
            at = dice.randrange(2)
            if reported[at].read_text():
                maintainers[at].kill()
                maintainers[at].wait()
                maintainers[at] = started(url, *BUSY, out=reported[at])
                kills += 1
    finally:
        for child in (*writers, *maintainers):
            child.kill()
            child.wait()
    with Catalog.open(url, author="last") as catalog:
        rows = {row["id"] for row in catalog.snapshot().rows("a")}
        assert acknowledged() <= rows
        assert rows == {row["id"] for row in catalog.snapshot().rows("b")}
        assert verify(catalog).faults == ()
        assert catalog.context.boundary_seen > 20, "it was cleaned"


def test_sigterm_ends_it_and_its_page_shows_what_it_did(tmp_path: Path) -> None:
    url = founded(tmp_path)
    out = tmp_path / "out"
    child = started(url, "--listen", "127.0.0.1:0", "--every", "1000", out=out)
    try:
        deadline = time.monotonic() + 120
        while "listening on" not in out.read_text():
            assert child.poll() is None, out.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        place = out.read_text().split("listening on ")[1].split()[0].rstrip("/")
        text = ""
        while 'fencepost_catalog_debt_manifests{branch="main"} 3.0' not in text:
            assert time.monotonic() < deadline, text
            time.sleep(0.1)
            text = urllib.request.urlopen(f"{place}/metrics").read().decode()
        assert "fencepost_catalog_maintain_rounds_total 1.0" in text
        status = json.loads(urllib.request.urlopen(f"{place}/status.json").read())
        assert status["sums"]["rounds"] == 1
        assert status["last"]["debts"]["main"]["manifests"] == 3
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=60) == 0
    finally:
        child.kill()
        child.wait()
