"""Workers of a lifecycle that are killed again and again, and a user who changes what they look at.

What vanishes has to be due, see `lifecycle_watch`. When the kills are over, what is due has to vanish too,
though nothing but the log leads there: a cursor that a kill had moved past an object would leave it for ever.
"""

import contextlib
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from .lifecycle_watch import Watched
from .mutated import command

VERSIONED, PLAIN = ("current", "old", "newer", "marker"), ("tmp", "sized", "data", "keep")


class Workers:
    """So many at a time, each killed after a while; `kills` counts those that had begun."""

    def __init__(self, directory: Path, count: int, seed: int, mutant: str = "") -> None:
        self._directory = directory
        self._mutant = mutant
        self._dice = random.Random(seed)
        self._running: list[subprocess.Popen[str]] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._live) for _ in range(count)]
        self._lock = threading.Lock()
        self.kills = 0
        self.failed: list[str] = []

    def _live(self) -> None:
        words = [*command("tests.servers.lifecycle_agent", self._mutant), str(self._directory)]
        while not self._over.is_set():
            with subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process:
                assert process.stdout is not None
                assert process.stderr is not None
                began = process.stdout.readline()
                with self._lock:
                    lasts_s = self._dice.choice((0.05, 0.3, 1.0, 2.0)) * self._dice.random()
                self._over.wait(lasts_s)
                if process.poll() is None and began:
                    process.send_signal(signal.SIGKILL)
                    with self._lock:
                        self.kills += 1
                else:
                    self.failed.append(process.stderr.read())
                    return

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def left_alone(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A worker that nobody kills before the end."""
    words = [*command("tests.servers.lifecycle_agent"), str(directory)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


class User:
    """Writes, tags, removes, begins uploads; a few things at each turn."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def turn(self, made: Watched) -> None:
        made.look()
        for _ in range(self._dice.randint(1, 4)):
            self._act(made)
        made.seen = made.read()  # what is watched is the rest

    def _act(self, made: Watched) -> None:
        pick, client = self._dice, made.client
        folders = (
            ("current", "old", "newer", "marker") if made.versioned else ("tmp", "sized", "data", "keep")
        )
        place = {"Bucket": made.bucket, "Key": f"{pick.choice(folders)}/{pick.randrange(6)}"}
        match pick.choice(("put", "put", "put", "tag", "remove", "upload")):
            case "put":
                tags = pick.choice(("", "t=1", "t=2"))
                client.put_object(**place, Body=b"x" * pick.choice((1, 10)), Tagging=tags)
            case "tag":
                with contextlib.suppress(client.exceptions.ClientError):  # there is no object
                    tagged = [{"Key": "t", "Value": pick.choice("12")}]
                    client.put_object_tagging(**place, Tagging={"TagSet": tagged})
            case "remove":
                client.delete_object(**place)
            case "upload" if not made.versioned and pick.random() < 0.3:
                client.create_multipart_upload(**place)
