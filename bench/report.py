"""What the benchmarks share: medians, the machine they ran on, and the JSON file they write."""

import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).parent.parent / "out" / "bench"


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
    }


def write(name: str, figures: dict[str, Any]) -> Path:
    """Write `out/bench/NAME.json` and answer where it is."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps({"benchmark": name, "machine": machine(), **figures}, indent=2) + "\n")
    return path


def tell(name: str, figures: dict[str, Any], *, ok: bool) -> int:
    """Write the figures and show them; the exit code says whether they are as promised."""
    path = write(name, figures)
    sys.stdout.write(json.dumps(figures, indent=2) + f"\nwritten to {path}\n")
    return 0 if ok else 1


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
