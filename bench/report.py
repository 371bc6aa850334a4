"""Shared parts of the benchmarks: medians, the machine, the JSON file, and the page of all.

    python -m bench.report      # takes over what out/bench/*.json measured, and writes the page

The page, docs/explanations/performance.md, is made of docs/explanations/performance.json alone, which keeps
the JSON of each benchmark of `PAGE` as it was last taken over. A benchmark's `headline` makes its rows.
"""

import importlib
import json
import os
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).parent.parent / "out" / "bench"


PAGE = {
    "kernel": "Exploring a model",
    "explore": "Exploring schedules of real code",
    "replay": "Replaying traces",
    "shapes": "Replaying runs of new shapes",
    "million-runs": "Replaying runs with names of their own",
    "objects": "Serving objects",
}
"""The benchmarks on the page, and what they measure."""
DOCS = Path(__file__).parent.parent / "docs" / "explanations"


def median(values: Sequence[float]) -> float:
    """The middle measurement: one disturbed run does not move it."""
    return statistics.median(values)


def machine() -> dict[str, Any]:
    """Where the figures were measured."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 1),
    }


def write(name: str, figures: dict[str, Any]) -> Path:
    """Write `out/bench/NAME.json` and answer where it is."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps({"benchmark": name, "machine": machine(), **figures}, indent=2) + "\n")
    return path


def tell(name: str, figures: dict[str, Any], *, ok: bool) -> int:
    """Write the figures and show them; return 0 if they are as promised."""
    path = write(name, figures)
    sys.stdout.write(json.dumps(figures, indent=2) + f"\nwritten to {path}\n")
    return 0 if ok else 1


def page(measured: Mapping[str, Any]) -> str:
    """The page on performance, of what each benchmark wrote."""
    rows = ["| benchmark | what | figure |", "|---|---|---|"]
    machines = []
    for name, title in PAGE.items():
        module = f"bench.{name.replace('-', '_')}"
        if name not in measured:
            rows.append(f"| {title} | not measured: `python -m {module}` | |")
            continue
        found = measured[name]
        for what, figure in importlib.import_module(module).headline(found):
            rows.append(f"| {title} | {what} | {figure} |")
        at = found["machine"]
        load = f", load {at['load']} at the end" if "load" in at else ""
        rounds = f", {found['rounds']} round(s)" if "rounds" in found else ""
        machines.append(
            f"- {title} (`python -m {module}`): {at['processor']}, {at['cores']} cores, "
            f"Python {at['python']}, NumPy {at['numpy']}{load}{rounds}."
        )
    return "\n".join([_INTRODUCTION, *rows, "", "Measured on:", "", *machines, ""])


_INTRODUCTION = """# Performance

<!-- Written by `python -m bench.report` from performance.json; run the benchmarks, not an editor. -->

Checkers are compared at equal sizes only, and each judges the same invariant and deadlocks: before the
contest the peers must report a planted violation and a planted deadlock. Cores are stated for each. A load
above the number of cores means that other programs shared the machine: rates are then too low, and ratios
are noisy.
"""


def main() -> None:
    """Take over what was measured, and write the page."""
    kept = DOCS / "performance.json"
    measured = json.loads(kept.read_text()) if kept.exists() else {}
    for name in PAGE:
        fresh = OUT / f"{name}.json"
        if fresh.exists():
            measured[name] = json.loads(fresh.read_text())
    kept.write_text(json.dumps(measured, indent=1) + "\n")
    (DOCS / "performance.md").write_text(page(measured))


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
