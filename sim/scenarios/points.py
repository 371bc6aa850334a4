"""The runs of a scenario: every case with every combination of swept values, each free of contradictions."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from fencepost.sim.des.paths import Path
from fencepost.sim.des.simulate import WORKLOADS
from fencepost.sim.scenarios import units
from fencepost.sim.scenarios.errors import BadScenario, BadValue
from fencepost.sim.scenarios.keys import KEYS
from fencepost.sim.scenarios.loading import check_values, full_key, parser
from fencepost.sim.scenarios.places import line_of
from fencepost.sim.scenarios.scenario import Point, Scenario

SPECIFIC = (
    "workload.tables",
    "workload.rows",
    "workload.attempts",
    "workload.depth",
    "workload.bytes",
    "workload.follow_up",
    "workload.window",
    "faults.crash",
)
"""Settings that have a meaning for some workloads only. Of the last two, 0 is what others do anyway."""
RUNS_MAX = 100_000
"""More is a slip: the product of the sweeps."""


def points(scenario: Scenario, sweeps: Sequence[str] = ()) -> list[Point]:
    """The runs, in the order of the file; `sweeps` are `KEY=a,b,c` from the command line, which go first."""
    swept = {
        key: list(zip(scenario.sweep_shown[key], values, strict=True))
        for key, values in scenario.sweep.items()
    }
    for text in sweeps:
        key, values = _asked(text)
        swept[key] = values
    count = len(scenario.cases or [None])
    for values in swept.values():
        count *= len(values)
    if count > RUNS_MAX:
        raise BadScenario(f"{scenario.name}: the sweeps make {count} runs; at most {RUNS_MAX} are possible")
    found: list[Point] = []
    cases: list[Any] = list(zip(scenario.cases, scenario.cases_shown, strict=True)) or [(None, {})]
    for (case, case_shown), combination in itertools.product(cases, itertools.product(*swept.values())):
        shown: dict[str, Any] = {"case": case.name, **case_shown} if case is not None else {}
        settings = {**scenario.settings, **(case.settings if case is not None else {})}
        for key, (as_written, value) in zip(swept, combination, strict=True):
            shown[key] = as_written
            settings[key] = value
        check_settings(
            settings,
            lambda key, why, shown=shown: _contradiction(scenario, key, why, shown),  # type: ignore[misc]
            scenario.path,
        )
        found.append(Point(len(found), shown, settings))
    return found


def _asked(text: str) -> tuple[str, list[tuple[Any, Any]]]:
    """`writers=1,2,4`, with the values as a file would write them."""
    short, equals, rest = text.partition("=")
    if not equals or not short.strip():
        raise BadScenario(f"--sweep {text}: must read KEY=a,b,c, as in --sweep writers=1,2,4")
    written = [_plain(word.strip()) for word in rest.split(",") if word.strip()]

    def fail(why: str) -> Any:
        raise BadScenario(f"--sweep {text}: {why}")

    check_values(written, fail)
    try:
        key = full_key(short.strip())
        if key in ("workload.system", "workload.path"):
            fail("cannot be swept; write a scenario for each")
        return key, [(word, parser(key)(word)) for word in written]
    except BadValue as error:
        raise BadScenario(f"--sweep {text}: {error}") from None


def _plain(word: str) -> Any:
    try:
        return int(word)
    except ValueError:
        try:
            return float(word)
        except ValueError:
            return word


NEEDS = (
    ("faults.late_by", "faults.late", "says by how much writes land late, but none do"),
    ("faults.restart", "faults.crash", "says how long a restart takes, but nobody crashes"),
    ("workload.rate", "workload.arrival", 'is of arrivals; say arrival = "poisson"'),
    (
        "store.prefix_segments",
        "store.writes_per_prefix|store.reads_per_prefix",
        "says what a prefix is, but no rate is by prefix",
    ),
    ("client.pause", "client.attempts", "is between attempts, but there is only one"),
    ("client.pause_max", "client.attempts", "is between attempts, but there is only one"),
)
"""A key, what it needs, and why."""


def _contradiction(scenario: Scenario, key: str, why: str, shown: Mapping[str, Any]) -> NoReturn:
    """Say it with its place: of the key, of where it is swept, or of the table it would stand in."""
    short = key.rpartition(".")[2]
    named = [path for path in (key, f"sweep.{key}", f"sweep.{short}") if path in scenario.lines]
    line = line_of(scenario.lines, named[0] if named else key)
    of = ", ".join(f"{name} = {value}" for name, value in shown.items())
    raise BadScenario(f"{scenario.file}:{line}: {key}: {why}" + (f" (in the run with {of})" if of else ""))


def timeless(settings: Mapping[str, Any], path: Path | None) -> bool:
    """Whether operations follow one another without any time passing."""
    given = settings.get("store.latency", KEYS["store.latency"].default)
    computed = path is not None and (
        path.compute_per_request_ns or any(step.compute_ns for step in path.steps)
    )
    waits = any(settings.get(f"workload.{name}") for name in ("think", "compute", "window"))
    return not any(given.values()) and not waits and not computed


def check_settings(
    settings: Mapping[str, Any], fail: Callable[[str, str], NoReturn], path: Path | None = None
) -> None:
    """Refuse what contradicts itself, in one line."""

    def get(key: str) -> Any:
        return settings.get(key)

    for key, needed, why in NEEDS:
        if key in settings and not any(
            settings.get(name) not in (None, 0, 0.0, 1) for name in needed.split("|")
        ):
            fail(key, why)
    system, arrival = get("workload.system"), get("workload.arrival") or "closed"
    if (get("workload.operations") is None) == (get("workload.duration") is None):
        both = get("workload.operations") is not None
        fail(
            "workload.operations" if both else "workload",
            "contradicts workload.duration; keep one of them"
            if both
            else "says no end; give operations or duration",
        )
    if arrival == "poisson" and get("workload.rate") is None:
        fail("workload.arrival", 'poisson arrivals need a rate, as in rate = "100/s"')
    if arrival == "closed" and get("workload.rate") is not None:
        fail(
            "workload.rate",
            'contradicts closed arrivals: there the writers\' own pace is the rate; say arrival = "poisson"',
        )
    if arrival == "poisson" and get("workload.think"):
        fail("workload.think", "is between the operations of closed writers; arrivals do not think")
    if (system == "described") != (get("workload.path") is not None):
        fail(
            "workload.path" if system != "described" else "workload",
            'belongs to system = "described"' if system != "described" else "a described system needs a path",
        )
    workload = WORKLOADS[system]
    for key in SPECIFIC:
        given = get(key) if key in SPECIFIC[-2:] else key in settings
        if given and key not in workload.keys:
            others = ", ".join(name for name, other in WORKLOADS.items() if key in other.keys)
            fail(key, f'has no meaning for system = "{system}"; it is for {others}')
    if workload.depth_max and (get("workload.depth") or 0) > workload.depth_max:
        fail(
            "workload.depth",
            f"is so many operations executed before the run; at most {workload.depth_max} here",
        )
    if get("workload.duration") is not None and arrival == "closed" and timeless(settings, path):
        fail("workload.duration", "never ends: nothing takes any time; give the store a latency, or think")
    shares = sum(
        settings.get(f"faults.{name}", 0.0)
        for name in ("reply_lost", "request_lost", "late", "conflict", "throttled")
    )
    if shares > 1:
        fail(
            "faults",
            f"the shares come to {units.shown(f'{100 * shares:g} %')}; no more than all requests can fail",
        )


def find(points_: Sequence[Point], at: Mapping[str, Any]) -> list[Point]:
    """The runs whose parameters (or settings that all share) are these."""
    return [
        point for point in points_ if all(point.parameters.get(key) == value for key, value in at.items())
    ]
