"""Collectors as processes that are killed and restarted, and agents that do not notice."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.tokens import Principal
from fencepost.impl.ingest import Identity, Point, encode
from fencepost.impl.ingest.service.requests import token_file
from fencepost.impl.ingest.service.spool import Spool

from .fleet import Fleet, free_ports, running
from .ingest_agent import METRIC, POINTS

AGENT = Path(__file__).with_name("ingest_agent.py")
ENV = SystemEnvironment()


class Collectors(Fleet):
    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.json"

    def enrol(self, name: str, role: str = "agent") -> Path:
        """A new token, in a file."""
        file = self.folder / f"{name}.token"
        file.write_text(token_file(self.tokens).enrol(Principal(role, name), ENV))
        return file

    def words(self, at: int) -> list[str]:
        listen = f"127.0.0.1:{self.ports[at]}"
        return [
            *("ingest", "serve", "--store", self.url, "--agents", str(self.tokens)),
            *("--listen", listen, "--collector-id", f"collector-{at}"),
        ]


@contextlib.contextmanager
def fleet(url: str, folder: Path, count: int, *options: str, mutant: str = "") -> Iterator[Collectors]:
    """`count` listening collectors; those alive at the end are killed."""
    made = Collectors(url, folder, free_ports(count), options, mutant)
    made.enrol("ops", "operator")
    with running(made):
        yield made


def run_agents(made: Collectors, counts: dict[str, int], seconds_max: float) -> list[dict[str, Any]]:
    """One process per agent, all at once; returns their output."""
    running = []
    for name, count in counts.items():
        words = [str(made.folder / f"spool-{name}"), name, str(made.enrol(name)), str(count), *made.addresses]
        running.append(
            subprocess.Popen([sys.executable, str(AGENT), *words], stdout=subprocess.PIPE, text=True)
        )
    deadline = time.monotonic() + seconds_max
    try:
        printed = [agent.communicate(timeout=deadline - time.monotonic())[0] for agent in running]
    finally:
        for agent in running:
            agent.kill()
            agent.communicate()
    return [json.loads(line) for line in printed]


def send_conflict(made: Collectors, victim: dict[str, Any]) -> tuple[list[str], Identity, bytes]:
    """Prepare a spool of an agent with a copied disk, which has other bytes under an accepted identity.

    Returns the words of `fencepost ingest` that send it, the identity, and the bytes.
    """
    agent, spool = victim["agent"], made.folder / "copied-disk"
    identity = Identity(agent, victim["boot"], 1, POINTS)
    other = encode(identity, [Point(METRIC, {}, 0, 666.0)])
    with Spool(spool, agent) as copied:
        batch = copied.add(POINTS, lambda *_: other)
        name = batch.name.replace(copied.boot_id, victim["boot"])
        (spool / "queue" / batch.name).rename(spool / "queue" / name)
        copied.add(POINTS, lambda start, end: encode(Identity(agent, copied.boot_id, start, end), []))
    send = ["send", "--spool", str(spool), "--agent", agent, "--give-up-after", "60"]
    send += ["--token-file", str(made.folder / f"{agent}.token")]
    return send + [word for address in made.addresses for word in ("--collector", address)], identity, other


def command(*words: str) -> tuple[int, dict[str, Any]]:
    """Runs `fencepost ingest WORDS --json -` in a process; returns exit code and result."""
    ran = subprocess.run(
        [sys.executable, "-m", "fencepost", "ingest", *words, "--json", "-"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert ran.returncode in (0, 1, 3), ran.stderr
    return ran.returncode, json.loads(ran.stdout)
