"""Results as the commands write them, made by running the commands once."""

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.commands.running import exit_of

COMMANDS = {
    "check-without.json": ["check", "two-phase", "--without", "all-prepared"],
    "check.json": ["check", "peterson"],
    "deep/audit.json": ["audit", "election", "--mutant", "check-then-create"],
    "zoo.json": ["zoo", "two-phase"],
}


def write_samples(folder: Path) -> None:
    """One result of each of the quick commands."""
    for name, words in COMMANDS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(_result(*words))


@functools.cache
def _result(*words: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "result.json")
        exit_of(*words, "--json", str(file))
        return file.read_text()


def write_everything(folder: Path) -> None:
    """A result of every command."""
    write_samples(folder)
    found = json.loads((folder / "deep" / "audit.json").read_text())
    write(folder, "found.json", {**found, "system": "src/claim.py:claim", "provenance": None})
    write(folder, "probe.json", PROBE)
    write(folder, "sim.json", SIMULATE)
    write(folder, "replay.json", REPLAY)
    write(folder, "compared.json", COMPARE)
    write(folder, "publish.json", AUDIT)
    write(folder, "mutants.json", MUTANTS)


def write(folder: Path, name: str, data: Any) -> None:
    (folder / name).write_text(json.dumps(data))


PROBE = {
    "url": "memory://",
    "verdict": "unsafe",
    "features": [
        {"name": "create-only-put", "verdict": "unsafe", "detail": "two of two racing creates were done"},
        {"name": "ranges", "verdict": "safe", "detail": ""},
        {"name": "versions", "verdict": "unsupported", "detail": "501"},
    ],
    "latency": {"put": {"p50": 1.5, "p90": 2.5, "p99": 12.25}},
}

SIMULATE = {
    "scenario": "cap",
    "verdict": "violated",
    "runs": [
        {
            "parameters": {"cap": cap, "mode": "a"},
            "operations": {
                "publish": {
                    "count": 100,
                    "p50": 90.0 - cap,
                    "p90": 95.0,
                    "p99": 200.0 - cap,
                    "max": 300.0,
                    "requests": 5,
                    "serial_hops": 4,
                }
            },
            "throughput": 10.0 * cap,
            "dollars_month": 3.0 * cap,
        }
        for cap in (1, 2, 4, 8, 16)
    ],
    "checks": [
        {"name": "requests at depth 1", "reference": 107, "simulated": 110.0, "error": 0.028, "ok": True},
        {"name": "wall", "reference": 5.9, "simulated": 9.0, "error": 0.525, "ok": False},
    ],
}

REPLAY = {
    "model": "publish",
    "engine": "local",
    "runs": 1_000_000,
    "events": 10_000_000,
    "accepted": 999_999,
    "rejected": 1,
    "undecided": 0,
    "verdict": "violated",
    "seconds": 8.0,
    "events_per_second": 1_250_000.0,
    "violations": [
        {"run": "catalog-7", "seq": 12, "event": "put manifest/8", "reason": "epoch 3 was fenced"}
    ],
    "statistics": {"throttled": {"a/": 3}},
}

AUDIT = {
    "system": "publish",
    "strategy": "exhaustive",
    "parameters": {},
    "verdict": "holds",
    "bound": "every schedule of 2 processes",
    "schedules": 12_345,
    "seconds": 60.0,
    "violations": [],
    "findings": [],
    "coverage": {"outcomes": {"put done": 3}, "conflicts": 7, "sometimes": {"two race": False}},
    "cost": {
        "append": {"bytes": 11_758, "hops": 23, "requests": 26},
        "ann": {
            "requests": 26,
            "hops": 23,
            "bytes": 1_234,
            "requests_max": 30,
            "faults": [
                {
                    "faults": faults,
                    "ended": 100,
                    "requests": 19 + 7 * faults,
                    "requests_median": 14,
                    "hops": 17 + 6 * faults,
                    "hops_median": 13,
                    "requests_max": 30,
                }
                for faults in (0, 1)
            ],
        },
    },
    "model": {
        "model": "publish",
        "states": 905_043,
        "transitions": 3_264_210,
        "driven": 23_320,
        "share": 0.007144,
        "runs_beyond_the_bound": 1050,
        "gaps": [{"label": "move_boundary()", "transitions": 62_099, "path": ["claim()", "move_boundary()"]}],
    },
}

COMPARE = {
    "system": "tests/audits.py:election",
    "base": "0123456789abcdef0123456789abcdef01234567",
    "verdict": "violated",
    "changes": [
        {"judged": "worse", "what": "at most, append requests", "before": "7", "after": "8"},
        {"judged": "other", "what": "schedules", "before": "21", "after": "30"},
    ],
    "programs": [
        {
            "system": "tests/audits.py:election",
            "verdict": "holds",
            "unnoticed": [{"file": "app/lead.py", "line": 5, "kind": "guard", "code": "if found.done:"}],
            "untried": "the budget ran out before it",
            "after": AUDIT,
        },
        {
            "system": "tests/more.py:second",
            "verdict": "undecided",
            "touched": False,
            "left_out": "the budget ran out before it",
        },
    ],
}

MUTANTS = {
    "system": "publish",
    "verdict": "holds",
    "rows": [
        {
            "system": "publish",
            "safeguard": "late-head",
            "kind": "broken",
            "verdict": "violated",
            "found": True,
            "unexpected": False,
            "property": "no-wedge at rest",
            "length": 15,
            "moves": 6,
            "model": {"model": "publish", "property": "no_wedge", "length": 7},
            "schedules": 4321,
            "seconds": 2.5,
        },
        {
            "system": "publish",
            "safeguard": "",
            "kind": "fixed",
            "verdict": "holds",
            "found": False,
            "unexpected": False,
            "property": "",
            "length": 0,
            "schedules": 67_881,
            "seconds": 65.0,
        },
    ],
}
