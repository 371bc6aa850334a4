"""Create-only puts of 4 KiB into a directory, against the plainest loop that keeps the same promise.

`plain` is what one writes by hand: a temporary file, write, fsync, link, fsync of the folder, unlink. It
computes no ETag and keeps no attributes. Both go through the same `Disk`, so that a delay injected into
every fsync hits both, and take turns in the same run, so that what else the machine does hits both.

The interpreter's lock bounds sixteen threads on a quick disk: a put of ours takes it once and
one of plain seven times, for less each (docs/decisions/0013). Installed without a compiler, ours takes it
six times, and the second bar is missed.

Files that were deleted nearby in the last minutes slow ext4's search for a free inode down a hundredfold, and
that search, not the stores, is then what is compared. Measure where no files are deleted: best in a new
directory right below the root of the file system, which gets inodes far from all others. A pace of a few
thousand a second and not ten thousand is a sign of it.

    python -m bench.files [--directory DIR] [--turns N]
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import report
from bench.loop import for_turns
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.store import ABSENT
from fencepost.impl.store.files import Disk, FileStore

THREADS = 16
DELAY_S = 0.005
BODY = bytes(range(256)) * 16

Put = Callable[[str], None]


class SlowDisk(Disk):
    """Every fsync takes 5 ms longer, as on a network volume."""

    one_call = False
    _sleep = staticmethod(SystemEnvironment().sleep)

    def fsync(self, fd: int) -> None:
        super().fsync(fd)
        self._sleep(DELAY_S)

    def fsync_folder(self, fd: int) -> None:
        super().fsync_folder(fd)
        self._sleep(DELAY_S)


def plain(root: str, disk: Disk) -> Put:
    """Writes a file under a new name, durably, with as little as that takes."""
    Path(root).mkdir()
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)

    def put(name: str) -> None:
        draft = f".{name}"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
        disk.write(fd, BODY)
        disk.fsync(fd)
        os.close(fd)
        disk.link(draft, folder, name, folder)
        disk.fsync_folder(folder)
        disk.unlink(draft, folder)

    return put


def ours(root: str, disk: Disk) -> Put:
    store = FileStore(root, disk=disk)

    def put(name: str) -> None:
        assert store.put(name, BODY, when=ABSENT).done

    put("first")  # makes the directory and what belongs in it
    return put


Turns = list[tuple[float, float]]
"""Puts a second of both, measured right after one another: only within one turn do they compare."""


def one_thread(left: Put, right: Put, turns: int) -> Turns:
    """By one thread, put by put in turn; the median of 50 makes one turn."""
    found: Turns = []
    for turn in range(turns):
        took: tuple[list[float], list[float]] = ([], [])
        for number in range(50):
            for put, times in zip((left, right), took, strict=True):
                started = time.perf_counter()
                put(f"one-{turn}-{number}")
                times.append(time.perf_counter() - started)
        found.append((1 / report.median(took[0]), 1 / report.median(took[1])))
    return found


def puts_a_second(put: Put, threads: int, puts: int, names: "itertools.count[int]") -> float:
    """With `threads` threads that put `puts` objects each, as fast as they can."""
    batch = next(names)
    return for_turns(lambda worker, turn: put(f"many-{batch}-{worker}-{turn}"), threads, puts).per_second


def many_threads(left: Put, right: Put, puts: int, turns: int) -> Turns:
    """By 16 threads each, in the order A B B A, so that a drift of the machine favours neither."""
    names = itertools.count()
    found: Turns = []
    for _ in range(turns):
        paces = [puts_a_second(put, THREADS, puts, names) for put in (left, right, right, left)]
        found.append((report.median([paces[0], paces[3]]), report.median(paces[1:3])))
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.files", description=__doc__)
    parser.add_argument("--directory", help="on the disk to measure; default: the system's temporary one")
    parser.add_argument("--turns", type=int, default=15, help="how often the two take turns")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=chosen.directory) as root:
        fast = plain(f"{root}/plain", Disk()), ours(f"{root}/ours", Disk())
        slow = plain(f"{root}/slow-plain", SlowDisk()), ours(f"{root}/slow-ours", SlowDisk())
        one = one_thread(*fast, chosen.turns)
        many = many_threads(*fast, 25, chosen.turns)
        slow_one = puts_a_second(slow[0], 1, 30, itertools.count(1000))
        slow_many = many_threads(*slow, 12, 5)
    bars = [
        _bar("one thread, ours to plain", _ratio(one), 0.9),
        _bar("16 threads, ours to plain", _ratio(many), 1.0),
        _bar("5 ms fsync, our 16 threads to one plain", _middle(slow_many)["ours"] / slow_one, 8.0),
    ]
    figures = {
        "body_bytes": len(BODY),
        "compiled": Disk.creates,
        "puts_per_s": {
            "one_thread": _middle(one),
            "sixteen_threads": _middle(many),
            "one_thread_slow": {"plain": slow_one},
            "sixteen_threads_slow": _middle(slow_many),
        },
        "bars": bars,
    }
    sys.stdout.write(f"written to {report.write('files', figures)}\n")
    return 0 if all(bar["ok"] for bar in bars) else 1


def _ratio(turns: Turns) -> float:
    """Ours to plain: the median of the turns, because a busy disk changes its pace between them."""
    return report.median([ours / plain for plain, ours in turns])


def _middle(turns: Turns) -> dict[str, float]:
    plain, ours = zip(*turns, strict=True)
    return {"plain": report.median(plain), "ours": report.median(ours)}


def _bar(name: str, value: float, least: float) -> dict[str, Any]:
    """One promise about a figure: at least so much."""
    sys.stdout.write(f"{'ok' if value >= least else 'MISSED':7} {name}: {value:.2f} (at least {least})\n")
    return {"name": name, "value": value, "least": least, "ok": value >= least}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
