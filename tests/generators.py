"""Seeded generators: which programs a test run compares, and the counts at its end.

A generator makes a program from a seed, and an oracle computes its outcomes. The quick tests take few seeds,
the same in every run. The slow ones take the range `FENCEPOST_SEEDS=FIRST:END` of each generator, or one of
their own. The end of a test run names every generator with its counts:

    generators: requests: 400 programs, 5,113 outcomes, 3 left out, 0 differences
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

SEEDS = os.environ.get("FENCEPOST_SEEDS", "")
FIRST = 1_000
"""The first seed of the slow tests: smaller ones belong to the quick tests."""
BATCH = 20
"""Seeds of one slow test; a few batches for each process of pytest-xdist keep all of them busy."""
_PROPERTY = "generator"


class Compared(NamedTuple):
    """One program, compared with its oracle."""

    outcomes: int
    """Number of outcomes that the oracle gives; 0 if the program was too large to compare."""
    differences: list[str]


def batches(count: int) -> list[range]:
    """Return the seeds of a slow test in batches: `count` of them, or the range of `FENCEPOST_SEEDS`."""
    first, end = map(int, SEEDS.split(":")) if SEEDS else (FIRST, FIRST + count)
    return [range(at, min(at + BATCH, end)) for at in range(first, end, BATCH)]


class Generator:
    """Compares the programs of some seeds, and records the counts."""

    def __init__(self, record_property: Callable[[str, Any], None]) -> None:
        self._record = record_property

    def compare(self, name: str, seeds: Iterable[int], one: Callable[[int], Compared]) -> None:
        """Call `one` with every seed, and fail with all differences that it returns."""
        found: list[str] = []
        counts: Counter[str] = Counter()
        for seed in seeds:
            compared = one(seed)
            counts["programs"] += 1
            counts["outcomes"] += compared.outcomes
            counts["left out"] += not compared.outcomes
            counts["differences"] += bool(compared.differences)
            found += [f"{name}, seed {seed}: {text}" for text in compared.differences]
        self._record(_PROPERTY, [name, dict(counts)])
        assert not found, "\n".join(found)


@pytest.fixture
def generator(record_property: Any) -> Generator:
    return Generator(record_property)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the counts of every generator that ran."""
    total: dict[str, Counter[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "call":
                continue
            for name, value in report.user_properties:
                if name == _PROPERTY:
                    total.setdefault(value[0], Counter()).update(value[1])
    for name, counts in sorted(total.items()):
        text = ", ".join(
            f"{counts[kind]:,} {kind}" for kind in ("programs", "outcomes", "left out", "differences")
        )
        terminalreporter.write_line(f"generators: {name}: {text}")
