"""The order of sets in an audit: PYTHONHASHSEED is pinned, and varied once.

The interpreter orders a set of texts by a seed that it draws at its start. So the command starts itself again
with a fixed seed, and repeats itself from then on. While it explores a program of the user, a second process
with another seed records a few schedules of the same program; they must be the same as here. If the user
set PYTHONHASHSEED, it stays as it is and nothing is varied.
"""

import json
import os
import subprocess
import sys
from typing import Any, Self

from fencepost.commands.exit_codes import BadRequest

PINNED, OTHER = "0", "1"
ROLE = "FENCEPOST_HASH_SEED"
"""The variable of the environment that marks a process whose seed was pinned, and one that only records."""
SECONDS = 60
"""Seconds to wait for the other process after the search."""


def pin() -> None:
    """Start again with a fixed seed, if this is an audit and the user fixed none."""
    if sys.argv[1:2] != ["audit"] or os.environ.get("PYTHONHASHSEED", "random") != "random":
        return
    if os.name == "posix":
        environment = {**os.environ, "PYTHONHASHSEED": PINNED, ROLE: "pinned"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606  # ourselves


def is_recording() -> bool:
    return os.environ.get(ROLE) == "recording"


def write_records(request: Any) -> None:
    """Print what the schedules did, for the process that compares."""
    sys.stdout.write("\n" + json.dumps(_records(request)) + "\n")


def _records(request: Any) -> list[list[Any]]:
    from fencepost.sim.explore.rehearsal import records
    from fencepost.sim.explore.watchdog import watching
    from fencepost.sim.world.process import Stuck

    try:
        with watching():
            found = records(request.setting)
    except Stuck as error:
        raise BadRequest(str(error)) from None
    return [[list(map(list, record.steps)), record.end] for record in found]


class OtherSeed:
    """A process that records under another seed, while this one searches."""

    def __init__(self, *, wanted: bool) -> None:
        self._process: subprocess.Popen[str] | None = None
        if wanted and os.environ.get(ROLE) == "pinned":
            self._process = subprocess.Popen(  # noqa: S603 - the words that started this process
                [sys.executable, *sys.orig_argv[1:]],
                env={**os.environ, "PYTHONHASHSEED": OTHER, ROLE: "recording"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def compare(self, name: str, request: Any) -> tuple[str, ...]:
        """The seeds under which the schedules were the same; none when the other process did not end well."""
        if self._process is None:
            return ()
        try:
            output, _ = self._process.communicate(timeout=SECONDS)
            theirs = json.loads(output.strip().rpartition("\n")[2] or "null")
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            return ()
        if theirs is None:
            return ()
        _compare(name, _records(request), theirs)
        return (PINNED, OTHER)


def _compare(name: str, ours: list[list[Any]], theirs: list[list[Any]]) -> None:
    for (steps, end), (other_steps, other_end) in zip(ours, theirs, strict=True):
        differing = [pair for pair in zip(steps, other_steps, strict=False) if pair[0] != pair[1]]
        one, other = differing[0] if differing else ([end], [other_end])
        if differing or end != other_end:
            raise BadRequest(
                f"{name} depends on PYTHONHASHSEED: {' '.join(one)[:80]} with {PINNED}, and "
                f"{' '.join(other)[:80]} with {OTHER}. The order of a set, or hash(), decides; sort it"
            )
