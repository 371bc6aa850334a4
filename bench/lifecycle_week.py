"""Live a week with faults of every kind in simulated time, and compare it with the oracle all along.

    python -m bench.lifecycle_week [--days N] [--seed N] [--tick S] [--without FAULT] [--mistake SAFEGUARD]

The buckets and faults are those of `tests/impl/lifecycle/week.py`; the workers are the ones that ship. Beside
the JSON it writes the plot: the lag of the streams, requests, objects and what is due, hour by hour, with the
times of the faults. With a safeguard left out (`--mistake`, a name of `fencepost audit lifecycle
--mutants`) the run has to end with a violation.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench import report
from fencepost.impl.lifecycle.safeguards import STANDARD
from fencepost.reports import timeline
from fencepost.sim.systems.lifecycle.mutants import MUTANTS
from tests.impl.lifecycle.history import Violation
from tests.impl.lifecycle.week import KINDS, TICK_S, Sample, Week

NAME = "lifecycle-week"
SHOWN = {
    "workers": "workers killed and paused",
    "endpoints": "endpoints down",
    "disk": "disk of the state full",
    "objects": "objects unreadable",
    "log": "log pruned",
    "clocks": "clocks skewed",
}
KIND_NAMES = {"state": "state", "rules": "rules", "list": "LIST", "look": "HEAD", "delete": "DELETE"}


def charts(samples: list[Sample]) -> list[timeline.Chart]:
    def lines(pick: Callable[[Sample], dict[str, float]]) -> dict[str, list[tuple[float, float]]]:
        names = dict.fromkeys(name for one in samples for name in pick(one))
        return {name: [(one.hour / 24, pick(one).get(name, 0.0)) for one in samples] for name in names}

    return [
        timeline.Chart(
            "lag of the streams", "hours", lines(lambda one: {k: v / 3600 for k, v in one.lag_s.items()})
        ),
        timeline.Chart(
            "requests in an hour",
            "",
            lines(lambda one: {KIND_NAMES[k]: float(v) for k, v in one.requests.items()}),
        ),
        timeline.Chart(
            "objects",
            "",
            lines(lambda one: {"there": float(one.objects), "due, not deleted yet": float(one.due)}),
        ),
        timeline.Chart(
            "the longest time that a deleted object can have been due",
            "hours",
            lines(lambda one: {"longest of the hour": one.late_s / 3600}),
        ),
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.lifecycle_week", description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--tick", type=int, default=TICK_S, help="seconds between two rounds")
    parser.add_argument("--without", action="append", default=[], choices=KINDS)
    parser.add_argument(
        "--mistake", choices=[name for name in MUTANTS if callable(MUTANTS[name].replacement)]
    )
    options = parser.parse_args(arguments)
    broken: dict[str, Any] = {}
    if options.mistake:
        broken = {options.mistake.replace("-", "_"): MUTANTS[options.mistake].replacement}
    faults = [kind for kind in KINDS if kind not in options.without]
    week = Week(options.seed, tick_s=options.tick, faults=faults, safeguards=replace(STANDARD, **broken))
    began, violation = time.process_time(), ""
    try:
        week.run(options.days)
    except Violation as error:
        violation = str(error)
    by_kind = {
        kind: sorted(group) for kind, group in itertools.groupby(sorted(week.spans), lambda one: one[0])
    }
    figures = {
        "days": options.days,
        "seed": options.seed,
        "rounds_every_s": options.tick,
        "violation": violation,
        "written": sum(life.written for life in week.lives.values()),
        "deleted": sum(life.deletions for life in week.lives.values()),
        "late_h_most": round(week.worst_late_s / 3600, 2),
        "lag_h_most": {
            kind: round(max(one.lag_s.get(kind, 0.0) for one in week.samples) / 3600, 2)
            for kind in ("ages", "near")
        },
        "requests": {
            shown: sum(one.requests.get(kind, 0) for one in week.samples)
            for kind, shown in KIND_NAMES.items()
        },
        "kills": week.crashes,
        "pauses": week.taken_over,
        "log_lost": len(week.losses),
        "faults": {
            kind: {"times": len(spans), "hours": round(sum(to - since for _, since, to in spans), 1)}
            for kind, spans in by_kind.items()
        },
        "processor_s": round(time.process_time() - began, 1),
        "hours": [vars(one) for one in week.samples],
    }
    spans = [(SHOWN[kind], since / 24, to / 24) for kind, since, to in week.spans]
    report.OUT.mkdir(parents=True, exist_ok=True)
    title = f"{options.days:g} days with faults, seed {options.seed}: {violation or 'as the oracle has it'}"
    for name, content in timeline.figures(title, "days", charts(week.samples), spans).items():
        (report.OUT / f"{NAME}.{name}").write_bytes(content)
    return report.tell(NAME, figures, ok=bool(violation) == bool(options.mistake))


if __name__ == "__main__":
    sys.exit(main())
