"""The requests of a trace as steps that an audit can follow.

An audit does not load the libraries that read traces: what is loaded before it can keep locks of its own. So
`read_apart` reads them in another process, which prints them:

    python -m fencepost.sim.explore.recorded TRACE PATTERN
"""

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fencepost.sim.explore.like import RecordedStep, folder_of

Problems = list[str]


class NoSteps(Exception):
    """A trace cannot be followed: why, and what to do."""


def read_apart(trace: str, keys: str) -> tuple[list[RecordedStep], Problems]:
    """The requests about keys that match, and the problems of the trace, read by another process."""
    command = [sys.executable, "-m", "fencepost.sim.explore.recorded", trace, keys]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603  this program
    if ran.returncode or not ran.stdout:
        raise NoSteps("the trace could not be read; its error is above")
    found = json.loads(ran.stdout)
    if found["error"]:
        raise NoSteps(found["error"])
    return [RecordedStep(**step) for step in found["steps"]], found["problems"]


def main(trace: str, keys: str) -> None:
    """Print the steps of a trace as JSON."""
    from fencepost.sim.trace.reading import discover
    from fencepost.sim.trace.schema import Problem, TraceError

    problems: list[Problem] = []
    steps: list[RecordedStep] = []
    error = ""
    try:
        steps = recorded_steps(discover([trace]), keys, problems.append)
    except (TraceError, NoSteps) as refused:
        error = str(refused)
    found = {"steps": [dataclasses.asdict(step) for step in steps], "error": error}
    sys.stdout.write(json.dumps({**found, "problems": [str(problem) for problem in problems]}))


STEPS_MAX = 5_000


def recorded_steps(files: Iterable[Path], keys: str, report: Callable[[Any], object]) -> list[RecordedStep]:
    """The requests about keys that match, in the order of their times; `NoSteps` if there are none."""
    import pyarrow as pa

    from fencepost.sim.replay.parts import in_order
    from fencepost.sim.trace.reading import batches
    from fencepost.sim.trace.schema import completed

    try:
        pattern = re.compile(keys)
    except re.error as error:
        raise NoSteps(f"{keys!r} is no pattern of keys: {error}") from None
    tables = [completed(table) for table in batches(files, report)]
    if not tables:
        raise NoSteps("the trace has no events")
    whole = in_order(pa.concat_tables(tables, promote_options="permissive"))
    names = ("run", "process", "incarnation", "op", "phase", "kind", "key", "condition", "outcome")
    rows = list(zip(*(whole[name].to_pylist() for name in names), strict=True))
    asked: dict[tuple[object, ...], tuple[int, str, str, str]] = {}
    ends: dict[tuple[object, ...], tuple[int, str]] = {}
    for place, (run, process, life, op, phase, kind, key, condition, outcome) in enumerate(rows):
        if op < 0 or not pattern.search(key):
            continue
        mark = run, process, life, op
        if phase == "request":
            asked[mark] = place, kind, key, condition
        elif phase in ("response", "landed") and mark not in ends:
            ends[mark] = place, outcome
            asked.setdefault(mark, (place, kind, key, condition))
    last = {(mark[1], mark[2]): mark for mark in asked}
    lives = {mark[1]: mark[2] for mark in asked}  # the last of each process
    steps = [
        RecordedStep(
            process=str(mark[1]),
            kind=kind,
            folder=folder_of(key),
            condition=condition,
            outcome=ends.get(mark, (begin, ""))[1],
            begin=begin,
            end=ends.get(mark, (begin, ""))[0],
            killed=last[mark[1], mark[2]] == mark and lives[mark[1]] != mark[2],
        )
        for mark, (begin, kind, key, condition) in asked.items()
    ]
    if not steps:
        raise NoSteps(f"no request of the trace is about a key that matches {keys!r}")
    if len(steps) > STEPS_MAX:
        many = f"{len(steps)} requests are too many to follow"
        raise NoSteps(f"{many}; name the keys that matter: --like-keys")
    return steps


if __name__ == "__main__":
    main(*sys.argv[1:])
