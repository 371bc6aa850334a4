"""`fencepost streams serve` as processes: what clients of killed and restarted nodes have at the end."""

import json
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from .streams_conformance import packages
from .streams_fleet import nodes, store

pytestmark = pytest.mark.server
CLIENT = Path(__file__).with_name("streams_client.mjs")
RESTARTS = 4
HUNG_S = 240


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs node and npm")
def test_the_public_client_tails_through_restarts(tmp_path: Path) -> None:
    """Readers by server-sent events, long-poll and catch-up have every message once and in order."""
    work = Path(os.environ.get("FENCEPOST_NPM", tmp_path / "npm"))  # where `nox -s conformance` has it
    packages(work)
    with (
        store("file", tmp_path / "data") as url,
        nodes(url, tmp_path, 1, "--long-poll", "2") as made,
        subprocess.Popen(
            ["node", str(CLIENT), f"{made.addresses[0]}/orders"],
            cwd=work, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as client,
    ):  # fmt: skip
        hung = threading.Timer(HUNG_S, client.kill)
        hung.start()
        try:
            assert client.stdin is not None
            assert client.stdout is not None
            for number in range(RESTARTS):
                client.stdin.write("more\n")
                client.stdin.flush()
                assert client.stdout.readline() == "progress\n"
                made.restart(0, signal.SIGTERM if number % 2 else signal.SIGKILL)
            printed, _ = client.communicate()
        finally:
            hung.cancel()
            client.kill()
        found = json.loads(printed.splitlines()[-1])
    assert made.ended == {"SIGKILL": RESTARTS // 2, "SIGTERM": RESTARTS // 2}
    assert found["errors"] == []
    assert found["stored"]
    assert [(one["live"], one["inOrder"]) for one in found["readers"]] == [
        ("sse", True), ("long-poll", True), (False, True),
    ]  # fmt: skip
    assert found["appended"] > 20 * RESTARTS
