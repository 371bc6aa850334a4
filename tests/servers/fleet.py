"""Servers as processes that are killed and restarted, each on a port that it keeps through all its lives."""

import contextlib
import random
import signal
import socket
import subprocess
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from .mutated import command

SECONDS_MAX = 60
F = TypeVar("F", bound="Fleet")


@dataclass
class Fleet(ABC):
    """Servers of one store."""

    url: str
    folder: Path
    ports: list[int]
    options: tuple[str, ...] = ()
    """More options for every server."""
    mutant: str = ""
    """`SYSTEM/MUTANT` that every server has, see `mutated`."""
    lives: list["subprocess.Popen[str] | None"] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)

    @abstractmethod
    def words(self, at: int) -> list[str]:
        """The words of `fencepost` that start this server."""

    @property
    def addresses(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def start(self, at: int) -> None:
        with (self.folder / f"server-{at}.log").open("a") as log:
            self.lives[at] = subprocess.Popen(
                [*command("fencepost", self.mutant), *self.words(at), *self.options],
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip

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

    def restart(self, at: int, how: signal.Signals) -> None:
        self.end(at, how)
        self.start(at)
        self.listening(at)

    def log(self, at: int) -> str:
        return (self.folder / f"server-{at}.log").read_text()[-3000:]


@contextlib.contextmanager
def running(made: F) -> Iterator[F]:
    """All servers listen; those alive at the end are killed."""
    made.lives = [None] * len(made.ports)
    try:
        for at in range(len(made.ports)):
            made.start(at)
        for at in range(len(made.ports)):
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
    """Servers end at random and restart, one after another, while the block runs."""
    dice = random.Random(seed)
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(dice.uniform(*pause_s)):
            at = dice.randrange(len(made.ports))
            made.restart(at, signal.SIGTERM if dice.random() < 0.25 else signal.SIGKILL)

    with beside(run, stop):
        yield


@contextlib.contextmanager
def beside(run: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """`run` in a thread; `stop` is set at the end of the block, and what `run` raised is raised."""
    failed: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - handed to the test below
            failed.append(error)

    thread = threading.Thread(target=guarded, name="beside")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]
