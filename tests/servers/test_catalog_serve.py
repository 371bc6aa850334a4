"""Servers of a catalog that are killed while many processes write through them, on real S3 servers.

Nothing acknowledged is lost, nothing is committed twice, and every writer succeeds once a server is back.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from fencepost.impl.publish import Catalog, verify

pytestmark = pytest.mark.server

SECONDS_MAX = 600
TABLES = 3
LISTENING = re.compile(r"listening on (http://\S+)")
STORES = ["seaweedfs", "objects"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest) -> str:
    """A new catalog with a few empty tables."""
    url: str = request.getfixturevalue(request.param).bucket()
    with Catalog.open(url, create=True) as catalog, catalog.transaction() as txn:
        for number in range(TABLES):
            txn.create_table(f"t{number}", {"id": "int64", "name": "string"}, key="id")
    return url


class Serving:
    """A server process that can be killed and started again at the same address."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.address = ""
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        listen = self.address.removeprefix("http://") or "127.0.0.1:0"
        words = ["catalog", "serve", self._url, "--listen", listen, "--stuck-after", "0.5"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fencepost", *words], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        found = LISTENING.search(self.process.stdout.readline())
        assert found is not None, "the server did not start"
        self.address = found[1]

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        assert self.process is not None
        with self.process as process:
            process.send_signal(number)
            return process.wait(SECONDS_MAX)


@contextmanager
def writers(
    count: int, rounds: int, *places: str, wait_s: float = 300.0
) -> Iterator[Iterator[dict[str, Any]]]:
    """The ends of the commits of so many processes, as they come."""
    words = [str(count), str(rounds), str(TABLES), "300", *places]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.catalog_agent", *words],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        lines = process.stdout
        try:
            yield (json.loads(line) for line in lines)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def check(url: str, ends: Sequence[dict[str, Any]], expected: set[int]) -> None:
    assert Counter(end["ended"] for end in ends) == {"Published": len(expected)}, ends[-3:]
    with Catalog.open(url, author="last") as last:
        rows = [row["id"] for table in last.snapshot().tables for row in last.snapshot().rows(table)]
        assert sorted(rows) == sorted(expected)
        manifests = {manifest.id: manifest for manifest in last.log()}
        requests = Counter(one.id for manifest in manifests.values() for one in manifest.requests)
        assert set(requests.values()) == {1}, "a request was committed twice"
        assert len(requests) == len(expected)
        assert {end["manifest"] for end in ends} <= set(manifests)
        assert verify(last).faults == ()


@pytest.mark.parametrize(("count", "rounds", "kills"), [(12, 6, 4), (100, 2, 3)])
def test_a_killed_server_loses_nothing_and_commits_nothing_twice(
    url: str, count: int, rounds: int, kills: int
) -> None:
    """A kill at a random moment after a random number of commits; the next server takes its address."""
    dice = random.Random(count)
    expected = {number * 1000 + turn for number in range(count) for turn in range(rounds)}
    due = sorted(dice.sample(range(1, len(expected) * 3 // 4), kills))
    server = Serving(url)
    ends = []
    try:
        with writers(count, rounds, server.address) as found:
            for end in found:
                ends.append(end)
                if due and len(ends) >= due[0]:
                    due.pop(0)
                    time.sleep(dice.random() * 0.1)
                    server.kill()
                    server.start()
    finally:
        code = server.stop()
    check(url, ends, expected)
    assert (code, due) == (0, [])


def test_writers_go_on_at_another_server_while_one_is_killed(url: str) -> None:
    """Two servers, of which one is killed for good; the writers know both."""
    expected = {number * 1000 + turn for number in range(12) for turn in range(4)}
    one, two = Serving(url), Serving(url)
    ends = []
    try:
        with writers(12, 4, one.address, two.address) as found:
            for end in found:
                ends.append(end)
                if len(ends) == 10:
                    one.kill()
    finally:
        two.stop()
    check(url, ends, expected)


def test_a_hundred_writers_with_handles_of_their_own_commit_or_learn_what_to_do(url: str) -> None:
    with writers(100, 1, url) as found:
        ends = list(found)
    counted = Counter(end["ended"] for end in ends)
    assert set(counted) <= {"Published", "StaleView"}
    assert all("fencepost catalog serve" in end["text"] for end in ends if end["ended"] == "StaleView")
    with Catalog.open(url, author="last") as last:
        rows = [row["id"] for table in last.snapshot().tables for row in last.snapshot().rows(table)]
    assert sorted(rows) == sorted(end["id"] for end in ends if end["ended"] == "Published")
    assert counted["Published"] == 100, counted
