"""Writers that are killed at any moment, as operating-system processes on a directory.

No acknowledged commit is lost, without manual repair. FENCEPOST_KILLS sets the number of kills.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fencepost.impl.publish import Catalog, verify

WRITER = """
import sys
from fencepost.impl.publish import Catalog
url, number = sys.argv[1], int(sys.argv[2])
with Catalog.open(url, author=f"writer {number}") as catalog:
    for count in range(10**6):
        key = number * 10**6 + count
        with catalog.transaction() as txn:
            txn.append("a", [{"id": key, "n": count}])
            txn.append("b", [{"id": key, "of": key}])
        print(txn.result.id, key, flush=True)  # the first one is late, because it imports libraries
        # Each writer at another commit, so that short runs reach both. Else the tables grow with every kill.
        if count % 20 == number % 20:
            catalog.cleanup(keep=10)
        if count % 10 == number % 10:
            catalog.compact("a")
            catalog.compact("b")
"""


@pytest.mark.server
def test_nothing_acknowledged_is_lost_to_kills(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/catalog"
    with Catalog.open(url, create=True) as catalog, catalog.transaction() as txn:
        txn.create_table("a", {"id": "int64", "n": "int64"}, key="id")
        txn.create_table("b", {"id": "int64", "of": "int64"}, key="id", edges={"of": "a"})
    dice = random.Random(5)
    acknowledged: set[int] = set()
    for number in range(int(os.environ.get("FENCEPOST_KILLS", "30"))):
        acknowledged |= _killed(url, number, dice.random() * 0.3, tmp_path / "printed")
    with Catalog.open(url, author="last") as catalog:
        rows = {row["id"] for row in catalog.snapshot().rows("a")}
        assert acknowledged, "a run without a commit proves nothing"
        assert acknowledged <= rows
        assert rows == {row["id"] for row in catalog.snapshot().rows("b")}, "whole plans"
        assert verify(catalog).faults == ()
        assert all(notice.done != "left" for notice in catalog.notices)


def _killed(url: str, number: int, after_s: float, printed: Path) -> set[int]:
    """The commits that a writer acknowledged before it was killed, `after_s` after its first."""
    with printed.open("w") as out:
        child = subprocess.Popen([sys.executable, "-c", WRITER, url, str(number)], stdout=out)
    try:
        while not printed.read_text():
            assert child.poll() is None, "the writer ended by itself"
            time.sleep(0.005)
        time.sleep(after_s)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=30)
    # The last line may be cut off.
    return {int(line.split()[1]) for line in printed.read_text().split("\n")[:-1]}
