"""Collectors as processes that are killed and restarted, and agents that do not notice."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.tokens import Principal
from fencepost.impl.ingest.service.requests import token_file

AGENT = Path(__file__).with_name("ingest_agent.py")
SECONDS_MAX = 60
ENV = SystemEnvironment()


@dataclass
class Fleet:
    """Collectors of one store, each on a port that it keeps through all its lives."""

    url: str
    folder: Path
    ports: list[int]
    options: tuple[str, ...] = ()
    """More options for every collector."""
    lives: list["subprocess.Popen[str] | None"] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)

    @property
    def addresses(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.json"

    def enrol(self, name: str, role: str = "agent") -> Path:
        """A new token, in a file."""
        file = self.folder / f"{name}.token"
        file.write_text(token_file(self.tokens).enrol(Principal(role, name), ENV))
        return file

    def start(self, at: int) -> None:
        words = ["ingest", "serve", "--store", self.url, "--agents", str(self.tokens)]
        words += [
            "--listen",
            f"127.0.0.1:{self.ports[at]}",
            "--collector-id",
            f"collector-{at}",
            *self.options,
        ]
        with (self.folder / f"collector-{at}.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "fencepost", *words], stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.lives[at] = process

    def listening(self, at: int) -> None:
        """Return when it listens."""
        process = self.lives[at]
        assert process is not None
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on"), self.log(at)

    def end(self, at: int, how: signal.Signals) -> None:
        """By SIGKILL, or by SIGTERM: then it must end by itself with exit code 0."""
        process = self.lives[at]
        assert process is not None
        process.send_signal(how)
        code = process.wait(SECONDS_MAX)
        assert code == (-how if how is signal.SIGKILL else 0), self.log(at)
        self.ended[how.name] += 1
        if process.stdout is not None:
            process.stdout.close()

    def log(self, at: int) -> str:
        return (self.folder / f"collector-{at}.log").read_text()[-3000:]


@contextlib.contextmanager
def fleet(url: str, folder: Path, count: int, *options: str) -> Iterator[Fleet]:
    """`count` listening collectors; those alive at the end are killed."""
    made = Fleet(url, folder, _free_ports(count), options, [None] * count)
    made.enrol("ops", "operator")
    try:
        for at in range(count):
            made.start(at)
        for at in range(count):
            made.listening(at)
        yield made
    finally:
        for process in made.lives:
            if process is not None:
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()


@contextlib.contextmanager
def chaos(made: Fleet, seed: int, pause_s: tuple[float, float]) -> Iterator[None]:
    """Collectors end at random and restart, one after another, while the block runs."""
    dice = random.Random(seed)
    stop = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            while not stop.wait(dice.uniform(*pause_s)):
                at = dice.randrange(len(made.ports))
                made.end(at, signal.SIGTERM if dice.random() < 0.25 else signal.SIGKILL)
                made.start(at)
                made.listening(at)
        except BaseException as error:  # noqa: BLE001 - handed to the test below
            failed.append(error)

    thread = threading.Thread(target=run, name="chaos")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


def run_agents(made: Fleet, counts: dict[str, int], seconds_max: float) -> list[dict[str, Any]]:
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


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]
