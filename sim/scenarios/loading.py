"""From a file to a `Scenario` and its runs: every case with every combination of swept values.

Every key is known, every value has its unit, and no run contradicts itself, or the error names the line.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path as File
from typing import Any, NoReturn

from fencepost.sim.des.paths import Path
from fencepost.sim.des.result import MEASURES
from fencepost.sim.des.simulate import WORKLOADS
from fencepost.sim.scenarios import units
from fencepost.sim.scenarios.judging import (
    OF_A_CLIENT,
    OF_A_RUN,
    read_checks,
    read_formula,
    read_objectives,
)
from fencepost.sim.scenarios.keys import KEYS, OPEN_TABLES, PRICES
from fencepost.sim.scenarios.pathfiles import LIBRARY, find_path
from fencepost.sim.scenarios.scenario import Case, Point, Scenario
from fencepost.sim.scenarios.source import BadScenario, BadValue, Source, line_of, suggestion
from fencepost.sim.systems import SYSTEMS

TABLES = ("store", "client", "workload", "faults")
TOP = ("title", "about", "seed", *TABLES, "sweep", "case", "objectives", "prices", "check", "formula")


def shipped() -> dict[str, File]:
    """The scenarios that come with Fencepost, by name: those of each system are in its folder."""
    folders = (LIBRARY, *(system.folder for system in SYSTEMS.values()))
    found = {file.stem: file for folder in folders for file in folder.glob("*.toml")}
    return dict(sorted(found.items()))


def load(name: str) -> Scenario:
    """A scenario by the path of its file, or by the name of one that is shipped."""
    file = File(name)
    if file.suffix != ".toml" and name in shipped():
        file = shipped()[name]
    elif not file.exists() and file.suffix != ".toml" and "/" not in name:
        raise BadScenario(
            f"{name}: no scenario of this name is shipped, and there is no such file; "
            f"{suggestion(name, shipped())}"
        )
    return read(file)


def read(file: File) -> Scenario:
    source = Source(file)
    top = source.tables
    source.only("", top, TOP)
    shown = _settings(source, top)
    settings = {key: source.parse(key, parser(key), value) for key, value in shown.items()}
    if "workload.system" not in settings:
        source.fail(
            "workload", "says no system; there are " + KEYS["workload.system"].says.removeprefix("one of ")
        )
    path = None
    if "workload.path" in settings:
        path = source.parse(
            "workload.path", lambda name: find_path(name, file.parent), settings["workload.path"]
        )
    sweep = _sweep(source, top.get("sweep"))
    cases = _cases(source, top.get("case"))
    _names_of_path(source, path, [shown, sweep, *(case.shown for case in cases)])
    seed = source.parse("seed", units.whole, top.get("seed", 0))
    keys = {*KEYS, *sweep, *shown}
    measures = _measures(settings["workload.system"], path)
    return Scenario(
        name=file.stem,
        title=source.parse("title", units.text, top.get("title", file.stem)),
        about=source.parse("about", units.text, top.get("about", file.stem)),
        seed=seed,
        settings=settings,
        shown=shown,
        sweep=sweep,
        cases=tuple(cases),
        objectives=read_objectives(source, source.table("objectives", top.get("objectives", {})), measures),
        prices={**PRICES, **_prices(source, source.table("prices", top.get("prices", {})))},
        checks=read_checks(source, top.get("check"), lambda key: full_key(key, keys), measures),
        formula=read_formula(source, top.get("formula")),
        path=path,
        folder=str(file.parent),
        file=source.name,
        lines=source.lines,
    )


def parser(key: str) -> Any:
    """Return the parser of the values of `key`, which is known."""
    table = key.rpartition(".")[0]
    return OPEN_TABLES[table] if table in OPEN_TABLES else KEYS[key].parse


def full_key(key: str, known: Iterable[str] = KEYS) -> str:
    """`workload.writers` for `writers`, where only one key ends so; `workload.maintenance.x` for
    `maintenance.x`."""
    known = list(known)
    if key in known or key.rpartition(".")[0] in OPEN_TABLES:
        return key
    if any(table.endswith(f".{key.rpartition('.')[0]}") for table in OPEN_TABLES):
        return f"workload.{key}"
    ends = [name for name in known if name.endswith(f".{key}")]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise BadValue(f"{key!r} may be {' or '.join(sorted(ends))}; write it in full")
    raise BadValue(f"there is no such key; {suggestion(key, known)}")


def _settings(source: Source, top: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as the file writes them, by full key."""
    found: dict[str, Any] = {}
    for table in TABLES:
        given = source.table(table, top.get(table, {}))
        names = [key.split(".", 1)[1] for key in (*KEYS, *OPEN_TABLES) if key.startswith(f"{table}.")]
        source.only(table, given, names)
        for name, value in given.items():
            key = f"{table}.{name}"
            if key in OPEN_TABLES:
                found.update({f"{key}.{inner}": v for inner, v in source.table(key, value).items()})
            else:
                found[key] = value
    return found


def _sweep(source: Source, given: Any) -> dict[str, list[tuple[Any, Any]]]:
    if given is None:
        return {}
    table = _flat(source.table("sweep", given))
    if not table:
        source.fail(
            "sweep",
            "sweeps over nothing; name a key and its values, as in writers = [1, 2, 4], or leave it out",
        )
    found: dict[str, list[tuple[Any, Any]]] = {}
    for short, values in table.items():
        key = source.parse(f"sweep.{short}", full_key, short)
        if key in ("workload.system", "workload.path"):
            source.fail(f"sweep.{short}", "cannot be swept; write a scenario for each")
        check_values(values, lambda why, at=short: source.fail(f"sweep.{at}", why))
        if key in found:
            source.fail(f"sweep.{short}", f"is swept twice, as {key} too")
        found[key] = [(value, source.parse(f"sweep.{short}", parser(key), value)) for value in values]
    return found


def check_values(values: Any, fail: Any) -> None:
    """A sweep has values, and each of them once."""
    if not isinstance(values, list):
        fail("a sweep needs a list of values, as in [1, 2, 4]")
    if not values:
        fail("sweeps over nothing: the list is empty")
    seen: set[str] = set()
    for value in values:
        if repr(value) in seen:
            fail(f"has {units.shown(value)} twice")
        seen.add(repr(value))


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys, however the file nests them."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = value
    return found


def _cases(source: Source, given: Any) -> list[Case]:
    cases: list[Case] = []
    for where, case in source.tables_of("case", given):
        source.only(where, case, ("name", "set"))
        name = source.parse(f"{where}.name", units.text, case.get("name"))
        if name in [other.name for other in cases]:
            source.fail(f"{where}.name", f"{name!r} is the name of two cases")
        made = Case(name, {}, {})
        for short, wanted in source.table(f"{where}.set", case.get("set", {})).items():
            key = source.parse(f"{where}.set.{short}", full_key, short)
            made.shown[key] = wanted
            made.settings[key] = source.parse(f"{where}.set.{short}", parser(key), wanted)
        cases.append(made)
    return cases


def _prices(source: Source, given: Mapping[str, Any]) -> dict[str, float]:
    source.only("prices", given, PRICES)
    return {kind: source.parse(f"prices.{kind}", units.price, value) for kind, value in given.items()}


def _measures(system: str, path: Path | None) -> list[str]:
    """Everything that can be measured of the runs of this system."""
    found = [*OF_A_RUN, *(f"client.{name}" for name in OF_A_CLIENT)]
    operations = [*WORKLOADS[system].operations]
    if path is not None:
        operations = [path.operation, *path.others, *path.maintenance]
    found += [f"{operation}.{statistic}" for operation in operations for statistic in MEASURES]
    if path is None:
        return [*found, *(f"counter.{name}" for name in WORKLOADS[system].counters)]
    steps = [step for steps in (path.steps, *path.others.values()) for step in steps]
    found += dict.fromkeys(f"part.{name}" for step in steps for name in step.counted)
    return found + [f"counter.{name}{end}" for name in path.counters for end in ("", "_max")]


def _names_of_path(source: Source, path: Any, tables: Sequence[Mapping[str, Any]]) -> None:
    """Counters, parameters and maintenance that the described path does not have."""
    system = source.tables["workload"]["system"]
    known = {
        "workload.counters": list(path.counters) if path else [],
        "workload.parameters": list(path.parameters if path else WORKLOADS[system].parameters),
        "workload.maintenance": list(path.maintenance if path else WORKLOADS[system].maintenance),
    }
    who = f"the path {path.name!r}" if path else f"the system {system!r}"
    for table in tables:
        for key in table:
            head, _, name = key.rpartition(".")
            if head in known and name not in known[head]:
                source.fail(key, f"{who} has none of this name; {suggestion(name, known[head])}")


SPECIFIC = (
    "workload.operation",
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
    swept = dict(scenario.sweep)
    for text in sweeps:
        key, values = _asked(text)
        swept[key] = values
    count = len(scenario.cases or [None])
    for values in swept.values():
        count *= len(values)
    if count > RUNS_MAX:
        raise BadScenario(f"{scenario.name}: the sweeps make {count} runs; at most {RUNS_MAX} are possible")
    found: list[Point] = []
    for case, combination in itertools.product(scenario.cases or [None], itertools.product(*swept.values())):
        shown: dict[str, Any] = {"case": case.name, **case.shown} if case is not None else {}
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
    """Raise with a place in the file: the key, its sweep, or the table that it would be in."""
    short = key.rpartition(".")[2]
    named = [path for path in (key, f"sweep.{key}", f"sweep.{short}") if path in scenario.lines]
    line = line_of(scenario.lines, named[0] if named else key)
    of = ", ".join(f"{name} = {value}" for name, value in shown.items())
    raise BadScenario(f"{scenario.file}:{line}: {key}: {why}" + (f" (in the run with {of})" if of else ""))


def timeless(settings: Mapping[str, Any], path: Path | None) -> bool:
    """Return true if operations follow one another without any time passing."""
    given = settings.get("store.latency", KEYS["store.latency"].default)
    computed = path is not None and (
        path.compute_per_request_ns
        or any(step.compute_ns for step in path.steps_of(settings.get("workload.operation") or ""))
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
    wanted = get("workload.operation")
    if path is not None and wanted and wanted not in (path.operation, *path.others):
        fail(
            "workload.operation",
            f"the path {path.name!r} has no {wanted!r}; {suggestion(wanted, path.others)}",
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
