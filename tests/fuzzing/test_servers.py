"""No request makes a server fail: no 500, no traceback in a log, no growth, whatever is sent.

The requests follow each server's own description, see `grammar`; a tenth of them have bytes changed anywhere.
`nox -s deep` sends 50,000 over all servers.
"""

import asyncio
import gc
import logging
import re
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httptools
import pytest

from fencepost.impl.streams import app as streams_app
from tests.fuzzing.connection import Log, Wire
from tests.fuzzing.grammar import Maker, changed
from tests.fuzzing.targets import LIMITS, STREAM_HEADERS, STREAM_QUERY, TARGETS, Target

SHARES = {
    "s3": 18_000,
    "v1": 8_000,
    "ingest": 8_000,
    "spool": 4_000,
    "streams": 10_000,
    "lifecycle": 1_000,
    "catalog": 1_000,
}
QUICK = {"s3": 300, "v1": 200, "ingest": 200, "spool": 60, "streams": 250, "lifecycle": 40, "catalog": 60}
TOGETHER = 8
"""Requests in flight at once."""
CACHED_FILES = 256
"""Files that a server may keep open, whatever the number of requests."""
GROWTH_BYTES_MAX = 64
"""For each request of the second half: objects that are kept between requests cost at least this."""


@pytest.fixture
def log() -> Iterator[Log]:
    found = Log()
    root = logging.getLogger()
    root.addHandler(found)
    yield found
    root.removeHandler(found)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Attack:
    def __init__(self, name: str, target: Target, log: Log) -> None:
        self.name = name
        self.target = target
        self.log = log
        self.maker = Maker(target.operations)
        self.statuses: Counter[int] = Counter()
        self.failures: list[str] = []

    async def one(self, wire: Wire, seed: int) -> None:
        request = self.target.prepare(self.maker.request(seed))
        raw = changed(request, seed) if seed % 10 == 0 else request.raw
        is_cut = seed % 10 == 0
        before = len(self.log.failures)
        method = b"" if is_cut else request.method
        try:
            answer = await wire.send(raw, method)
        except (httptools.HttpParserError, AssertionError, TimeoutError) as error:
            if not (is_cut and isinstance(error, TimeoutError)):
                self.failures.append(f"seed {seed}: {error!r} for {raw[:400]!r}")
            return
        except Exception as error:  # noqa: BLE001  what a server lets out of a connection
            self.failures.append(f"seed {seed}: {type(error).__name__}: {error} for {raw[:400]!r}")
            return
        self.statuses[answer.status] += 1
        if answer.status >= 500 and answer.status not in self.target.allowed:
            self.failures.append(f"seed {seed}: {answer.status} {answer.body[:200]!r} for {raw[:400]!r}")
        for text in self.log.failures[before:]:
            self.failures.append(f"seed {seed}: in the log: {text[-600:]} for {raw[:400]!r}")
        if (
            not answer.is_whole
            and answer.status != 304
            and "event-stream" not in answer.header("content-type")
        ):
            self.failures.append(f"seed {seed}: the response ends early, for {raw[:400]!r}")

    async def run(self, seeds: range) -> None:
        wire = Wire(self.target.service)
        places = asyncio.Semaphore(TOGETHER)

        async def placed(seed: int) -> None:
            async with places:
                await self.one(wire, seed)

        for start in range(seeds.start, seeds.stop, 500):
            await asyncio.gather(*(placed(seed) for seed in range(start, min(start + 500, seeds.stop))))
            if len(self.failures) > 20:
                break
        for _ in range(100):
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            if not others and not self.target.service.gate.inside:
                break
            await asyncio.sleep(0.05)
        assert self.target.service.gate.inside == 0, "requests are still counted as in flight"
        assert others == [], "tasks are left behind"
        assert not wire.state.connections

    def verdict(self) -> None:
        assert self.failures == [], f"{len(self.failures)} failures of {self.name}, first:\n" + "\n".join(
            self.failures[:10]
        )


def attack(name: str, folder: Path, log: Log, first: int, count: int) -> Attack:
    with TARGETS[name](folder) as target, asyncio.Runner() as runner:
        made = Attack(name, target, log)
        runner.run(made.run(range(first, first + count // 2)))
        gc.collect()
        files, threads = open_files(), threading.active_count()
        runner.run(made.run(range(first + count // 2, first + count)))
        gc.collect()
        assert open_files() <= files + CACHED_FILES, "files are left open"
        # A pool starts its threads one by one, up to its size.
        assert threading.active_count() <= threads + LIMITS.threads, "threads are left behind"
        assert target.kept() == 0, "unfinished files are left behind"
    made.verdict()
    return made


@pytest.mark.parametrize("name", TARGETS)
def test_no_request_makes_a_server_fail(name: str, tmp_path: Path, log: Log) -> None:
    made = attack(name, tmp_path, log, 0, QUICK[name])
    good = sum(count for status, count in made.statuses.items() if status < 300)
    assert good > QUICK[name] / 50, f"hardly a request was served: {made.statuses}"
    assert sum(made.statuses.values()) - good > QUICK[name] / 50


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_no_request_of_very_many_makes_a_server_fail(name: str, tmp_path: Path, log: Log) -> None:
    made = attack(name, tmp_path, log, 1_000_000, SHARES[name])
    assert sum(made.statuses.values()) > SHARES[name] * 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v1", "ingest", "streams", "lifecycle"])
def test_memory_does_not_grow_with_refused_requests(
    name: str, tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same requests again and again leave nothing behind.

    What another thread of this process allocates meanwhile counts too, but it does not every time.
    """
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "disabled", True)  # pytest would keep every line
    with TARGETS[name](tmp_path) as target, asyncio.Runner() as runner:
        made = Attack(name, target, log)
        count = 300
        for _ in range(3):
            runner.run(made.run(range(count)))
        gc.collect()
        tracemalloc.start()
        grown = []
        try:
            while len(grown) < 3 and not (grown and grown[-1] < 3 * count * GROWTH_BYTES_MAX):
                before = tracemalloc.get_traced_memory()[0]
                for _ in range(3):
                    runner.run(made.run(range(count)))
                gc.collect()
                grown.append(tracemalloc.get_traced_memory()[0] - before)
        finally:
            tracemalloc.stop()
    assert grown[-1] < 3 * count * GROWTH_BYTES_MAX, grown


def test_every_header_and_parameter_that_streams_read_is_tried() -> None:
    source = Path(streams_app.__file__).read_text()
    headers = set(re.findall(r'headers(?:\.get\(|\[)"([a-z-]+)"(?!\] =)', source))
    headers |= set(re.findall(r'"(producer-[a-z]+)"', source))
    assert headers >= {"stream-ttl", "content-type"}
    assert headers <= {*STREAM_HEADERS, "content-length", "transfer-encoding"}
    assert set(re.findall(r'given\.get\("(\w+)"', source)) <= {*STREAM_QUERY}
