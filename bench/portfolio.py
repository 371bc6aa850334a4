"""Measure what audits of ordinary programs decide, and in which stage: the trials of the tests.

    python -m bench.portfolio                       # writes out/bench/portfolio.json
    python -m bench.portfolio --base REV            # the same programs with the code of a revision beside it
    python -m bench.portfolio --only work_queue     # programs whose name has this in it
    python -m bench.portfolio --jobs 2              # each audit in two processes

Seconds are of the processor, of the whole command, so that the load of the machine hardly counts. A violated
program shows the length of its counterexample. The stage is the last that was decided; `samples` means that a
drawn schedule showed the violation.
"""

import argparse
import ast
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.report import write
from fencepost.commands.audit_base import packages, write_tree
from fencepost.commands.changed_code import Repository

ROOT = Path(__file__).parent.parent
TRIALS = ROOT / "tests" / "trust" / "trials"
SECONDS = 60.0
REAL_TIMES = 8
"""Real time of one audit, as a multiple of its limit, after which it is ended."""
WRITERS = ((), ("n=2", "k=2"), ("n=3", "k=1"), ("n=3", "k=2"))
SIZES: dict[str, tuple[tuple[str, ...], ...]] = {
    "several_writers:swap_fixed": WRITERS,
    "several_writers:register_fixed": WRITERS,
    "several_writers:log_fixed": WRITERS,
    "work_queue:fixed": ((), ("jobs=2",)),
}
"""Parameters of the programs that are audited in several sizes."""


@dataclass(frozen=True)
class Measured:
    """One audit of one program."""

    program: str
    verdict: str
    stage: str
    stages: tuple[str, ...]
    schedules: int
    seconds: float
    length: int | None


def programs(only: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the functions of the trials that declare a world, with the parameters to set."""
    for path in sorted(TRIALS.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or not node.args.args:
                continue
            free = len(node.args.args) - len(node.args.defaults)
            name = f"{path.stem}:{node.name}"
            if node.args.args[0].arg == "world" and free == 1 and only in name:
                yield from ((name, sizes) for sizes in SIZES.get(name, ((),)))


def audited(
    name: str, sizes: tuple[str, ...], seconds: float, environment: dict[str, str], jobs: int = 1
) -> Measured:
    """Audit a program in a process of its own, with the code that the environment names."""
    stem, _, function = name.partition(":")
    words = [sys.executable, "-P", "-m", "fencepost", "audit", f"{TRIALS / stem}.py:{function}", "--quiet"]
    for size in sizes:
        words += ["--set", size]
    if jobs > 1:
        words += ["--jobs", str(jobs)]
    label = " ".join([name, *sizes])
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "result.json"
        before = _used()
        try:
            subprocess.run(  # noqa: S603 - this interpreter
                [*words, "--budget", str(seconds), "--json", str(target)],
                env={**environment, "PYTHONHASHSEED": "0"},
                capture_output=True,
                check=False,
                timeout=seconds * REAL_TIMES,
            )
        except subprocess.TimeoutExpired:
            return Measured(label, "not ended", "", (), 0, _used() - before, None)
        used = _used() - before
        if not target.exists():
            return Measured(label, "refused", "", (), 0, used, None)
        found: dict[str, Any] = json.loads(target.read_text())
    stages = found.get("stages", [])
    steps = [len(one["steps"]) for one in found["violations"][:1]]
    return Measured(
        label,
        found["verdict"],
        _stage(found["verdict"], stages),
        tuple(f"{one['name']}: {one['verdict']}" for one in stages),
        found["schedules"],
        used,
        steps[0] if steps else None,
    )


def _stage(verdict: str, stages: list[dict[str, Any]]) -> str:
    if not stages:
        return ""
    if verdict == "violated":
        return next((one["name"] for one in stages if one["verdict"] == "violated"), "samples")
    held = [one["name"] for one in stages if one["verdict"] == "holds"]
    return held[-1] if held else ""


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(rows: list[tuple[Measured, Measured | None]]) -> str:
    """Return the measurements as lines of text."""
    lines = [
        f"{'program':48} {'verdict':10} {'stage':11} {'seconds':>8} {'schedules':>9} {'length':>6}  before"
    ]
    for now, before in rows:
        length = "" if now.length is None else str(now.length)
        old = ""
        if before is not None:
            old = f"{before.verdict}, {before.seconds:.1f} s, {before.schedules}, {before.length or ''}"
        lines.append(
            f"{now.program:48} {now.verdict:10} {now.stage:11} {now.seconds:8.1f} {now.schedules:9} "
            f"{length:>6}  {old}"
        )
    return "\n".join(lines)


def of_revision(revision: str, folder: Path) -> dict[str, str]:
    """Return the environment in which the code of a revision runs."""
    tree = write_tree(Repository(ROOT, revision, revision), folder / "tree")
    paths = [*packages(tree, folder / "packages"), tree]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    words.add_argument("--base", help="a revision to compare with")
    words.add_argument("--only", default="", help="a part of the names of the programs")
    words.add_argument("--jobs", type=int, default=1, help="processes that share each audit")
    words.add_argument("--seconds", type=float, default=SECONDS, help="limit of each audit")
    given = words.parse_args()
    rows: list[tuple[Measured, Measured | None]] = []
    with tempfile.TemporaryDirectory(prefix="fencepost-portfolio-") as scratch:
        old = of_revision(given.base, Path(scratch)) if given.base else None
        for name, sizes in programs(given.only):
            now = audited(name, sizes, given.seconds, dict(os.environ), given.jobs)
            before = None if old is None else audited(name, sizes, given.seconds, old, given.jobs)
            rows.append((now, before))
            print(table(rows[-1:]).splitlines()[-1], flush=True)  # noqa: T201 - a benchmark prints
    print(table(rows))  # noqa: T201 - a benchmark prints
    figures = [{"now": asdict(now), "before": before and asdict(before)} for now, before in rows]
    write("portfolio", {"seconds": given.seconds, "jobs": given.jobs, "base": given.base, "rows": figures})


if __name__ == "__main__":
    main()
