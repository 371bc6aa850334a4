"""Clients that send half a head on every connection the server allows shut nobody out: real processes."""

import contextlib
import http.client
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.tokens import Principal
from fencepost.impl.ingest.service.requests import token_file
from tests.servers.fleet import free_ports
from tests.sim.proxy.upstream import upstream

pytestmark = pytest.mark.server

COUNT = 2005
"""More than the default limit on connections; from several addresses, so that no address has too many."""
ANSWER_S = 2.0
"""Much less than `header_s`, after which all of them end anyway."""


@pytest.fixture
def _many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = COUNT + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the system allows only {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def words(server: str, folder: Path, port: int, behind: str) -> list[str]:
    listen = ["--listen", f"127.0.0.1:{port}"]
    if server == "proxy":
        return ["proxy", behind, *listen]
    if server == "streams":
        return ["streams", "serve", (folder / "store").as_uri(), *listen]
    if server == "ingest":
        tokens = folder / "tokens.json"
        token_file(tokens).enrol(Principal("agent", "a"), SystemEnvironment())
        return ["ingest", "serve", "--store", (folder / "store").as_uri(), "--agents", str(tokens), *listen]
    return ["objects", "serve", str(folder / "root"), *listen]


def healthy(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    with contextlib.closing(connection):
        connection.request("GET", "/healthz")
        return connection.getresponse().status


@contextlib.contextmanager
def running(server: str, folder: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    log = folder / "log"
    environment = {"FENCEPOST_OBJECTS_ROOT_TOKEN": "a token of the tests", "PATH": "/usr/bin:/bin"}
    with contextlib.ExitStack() as parts:
        behind = parts.enter_context(upstream()).url if server == "proxy" else ""
        command = [sys.executable, "-m", "fencepost", *words(server, folder, port, behind)]
        out = parts.enter_context(log.open("wb"))
        process = parts.enter_context(subprocess.Popen(command, stdout=out, stderr=out, env=environment))
        try:
            deadline = time.monotonic() + 60
            while True:
                with contextlib.suppress(OSError):
                    if healthy(port) == 200:
                        break
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            yield port
            assert "Traceback" not in log.read_text()
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.usefixtures("_many_files")
@pytest.mark.parametrize("server", ["ingest", "objects", "proxy", "streams"])
def test_half_sent_heads_shut_nobody_out(server: str, tmp_path: Path) -> None:
    with running(server, tmp_path) as port, contextlib.ExitStack() as held:
        slowest = 0.0
        for number in range(COUNT):
            address = (f"127.0.0.{2 + number % 8}", 0)
            half = held.enter_context(
                socket.create_connection(("127.0.0.1", port), timeout=5, source_address=address)
            )
            half.sendall(b"GET /healthz HTTP/1.1\r\nhost:")
            if number > COUNT - 20 or number % 500 == 0:
                begun = time.monotonic()
                assert healthy(port) == 200, f"after {number} half-sent heads"
                slowest = max(slowest, time.monotonic() - begun)
        assert slowest < ANSWER_S
