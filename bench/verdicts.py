"""Verdicts, state counts and schedule counts of everything that ships, as one table.

A change that must not alter behaviour is checked by running this before and after it:

    python -m bench.verdicts --out before.json
    python -m bench.verdicts --out after.json --against before.json

The second run prints the rows that differ and ends with 1 when there are any. `--command` runs another
installation's program, for example that of an older checkout. Rows are the default run of every model
(`check`),
every safeguard of every model (`zoo`), every system, example and mutant (`audit`), every capacity scenario
(`simulate`, its traces left out) and the traces of one short simulation of each system (`replay`).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Rows = dict[str, list[Any]]

# Systems with a trace to replay: the scenario that writes one, and the model that judges it.
REPLAYED = (("history-publish", "publish"), ("lost-ingest", "ingest"))


def run(command: list[str], *arguments: str) -> Any:
    """The JSON result of one command; a command without a result is a row of its own."""
    ended = subprocess.run([*command, *arguments, "--json", "-"], capture_output=True, text=True, check=False)  # noqa: S603  the program under comparison
    try:
        return json.loads(ended.stdout)
    except ValueError:
        return {"exit": ended.returncode, "error": ended.stderr.strip()[-200:]}


def listed(command: list[str], what: str) -> Iterator[tuple[str, list[str]]]:
    """Each name that a command lists, with its mutants."""
    text = subprocess.run([*command, what, "--list"], capture_output=True, text=True, check=True).stdout  # noqa: S603  the same program
    name, mutants = "", list[str]()
    for line in text.splitlines():
        if line[:1].strip():
            if name:
                yield name, mutants
            name, mutants = line.split()[0], []
        elif line.split()[:1] == ["mutant"]:
            mutants.append(line.split()[1])
    if name:
        yield name, mutants


def checks(command: list[str]) -> Rows:
    rows: Rows = {}
    for name, _ in listed(command, "check"):
        got = run(command, "check", name)
        properties = sorted((p["name"], p["verdict"]) for p in got.get("properties", []))
        rows[f"check {name}"] = [
            got.get("verdict"),
            got.get("distinct"),
            got.get("generated"),
            got.get("depth"),
            properties,
        ]
    for row in run(command, "zoo")["rows"]:
        rows[f"zoo {row['model']} --without {row['safeguard']}"] = [
            row["found"],
            row["property"],
            row["length"],
        ]
    return rows


def audits(command: list[str], names: set[str] | None) -> Rows:
    rows: Rows = {}
    for name, mutants in listed(command, "audit"):
        if names and name not in names:
            continue
        for mutant in (None, *mutants):
            got = run(command, "audit", name, *(("--mutant", mutant) if mutant else ()))
            lengths = [len(found.get("trace", ())) for found in got.get("violations", [])]
            broken = [found.get("property") for found in got.get("violations", [])]
            key = f"audit {name}" + (f" --mutant {mutant}" if mutant else "")
            rows[key] = [
                got.get("verdict", got),
                got.get("schedules"),
                got.get("pruned"),
                broken,
                lengths,
            ]
    return rows


def simulations(command: list[str]) -> Rows:
    rows: Rows = {}
    for name, _ in listed(command, "simulate"):
        got = run(command, "simulate", name)
        operations = [
            sorted(
                (op, value["count"], value["requests"], value["p50"])
                for op, value in one["operations"].items()
            )
            for one in got.get("runs", [])
        ]
        verdicts = [(check["name"], check["simulated"], check["ok"]) for check in got.get("checks", [])]
        rows[f"simulate {name}"] = [operations, verdicts] if "runs" in got else [got]
    return rows


def replays(command: list[str]) -> Rows:
    rows: Rows = {}
    for scenario, model in REPLAYED:
        with tempfile.TemporaryDirectory() as folder:
            run(command, "simulate", scenario, "--out", folder, "--no-plots")
            got = run(command, "replay", folder, "--model", model)
        rows[f"replay {scenario} --model {model}"] = [
            got.get(key) for key in ("verdict", "runs", "events", "accepted", "rejected", "undecided")
        ]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", default=f"{sys.executable} -m fencepost")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--parts", default="check,simulate,replay,audit")
    parser.add_argument("--systems", help="only these systems are audited, separated by commas")
    options = parser.parse_args()
    command = options.command.split()
    parts = options.parts.split(",")
    rows: Rows = {}
    systems = set(options.systems.split(",")) if options.systems else None
    if "check" in parts:
        rows |= checks(command)
    if "simulate" in parts:
        rows |= simulations(command)
    if "replay" in parts:
        rows |= replays(command)
    if "audit" in parts:
        rows |= audits(command, systems)
    rows = json.loads(json.dumps(rows))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n")
    before = json.loads(options.against.read_text()) if options.against else rows
    shared = rows.keys() & before.keys()
    different = sorted(key for key in shared if rows[key] != before[key])
    for key in different:
        sys.stdout.write(f"{key}\n  before {before[key]}\n  after  {rows[key]}\n")
    for key in sorted(before.keys() ^ rows.keys()):
        sys.stdout.write(f"{key}: only {'before' if key in before else 'after'}\n")
    sys.stdout.write(f"{len(rows)} rows, {len(shared)} compared, {len(different)} differ\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
