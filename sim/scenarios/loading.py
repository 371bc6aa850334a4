"""From a file to a `Scenario`: every key is known, every value makes sense, nothing contradicts."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as File
from typing import Any

from fencepost.sim.des.paths import Path
from fencepost.sim.des.simulate import WORKLOADS
from fencepost.sim.scenarios import units
from fencepost.sim.scenarios.errors import BadScenario, BadValue
from fencepost.sim.scenarios.expectations import (
    OF_A_RUN,
    STATISTICS,
    read_checks,
    read_formula,
    read_objectives,
)
from fencepost.sim.scenarios.keys import KEYS, OPEN_TABLES, PRICES
from fencepost.sim.scenarios.pathfiles import LIBRARY, find_path
from fencepost.sim.scenarios.reading import Source, suggestion
from fencepost.sim.scenarios.scenario import Case, Scenario

TABLES = ("store", "client", "workload", "faults")
TOP = ("title", "about", "seed", *TABLES, "sweep", "case", "objectives", "prices", "check", "formula")


def shipped() -> dict[str, File]:
    """The scenarios that come with Fencepost, by name."""
    return {file.stem: file for file in sorted(LIBRARY.glob("*.toml"))}


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
    sweep_shown = _sweep(source, top.get("sweep"))
    cases_shown = _cases(source, top.get("case"))
    _names_of_path(source, path, [shown, sweep_shown, *(case["set"] for case in cases_shown)])
    seed = source.parse("seed", units.whole, top.get("seed", 0))
    keys = {*KEYS, *sweep_shown, *shown}
    measures = _measures(settings["workload.system"], path)
    return Scenario(
        name=file.stem,
        title=source.parse("title", units.text, top.get("title", file.stem)),
        about=source.parse("about", units.text, top.get("about", file.stem)),
        seed=seed,
        settings=settings,
        shown=shown,
        sweep={
            key: [source.parse(f"sweep.{key}", parser(key), value) for value in values]
            for key, values in sweep_shown.items()
        },
        sweep_shown=sweep_shown,
        cases=tuple(
            Case(
                case["name"],
                {
                    key: source.parse(f"case.{at}.set.{key}", parser(key), value)
                    for key, value in case["set"].items()
                },
            )
            for at, case in enumerate(cases_shown)
        ),
        cases_shown=tuple(case["set"] for case in cases_shown),
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
    """What parses the values of `key`, which is known."""
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


def _sweep(source: Source, given: Any) -> dict[str, list[Any]]:
    if given is None:
        return {}
    table = _flat(source.table("sweep", given))
    if not table:
        source.fail(
            "sweep",
            "sweeps over nothing; name a key and its values, as in writers = [1, 2, 4], or leave it out",
        )
    found: dict[str, list[Any]] = {}
    for short, values in table.items():
        key = source.parse(f"sweep.{short}", full_key, short)
        if key in ("workload.system", "workload.path"):
            source.fail(f"sweep.{short}", "cannot be swept; write a scenario for each")
        check_values(values, lambda why, at=short: source.fail(f"sweep.{at}", why))  # type: ignore[misc]
        if key in found:
            source.fail(f"sweep.{short}", f"is swept twice, as {key} too")
        found[key] = values
        for value in values:
            source.parse(f"sweep.{short}", parser(key), value)
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


def _cases(source: Source, given: Any) -> list[dict[str, Any]]:
    if given is None:
        return []
    if not isinstance(given, list) or not given:
        source.fail("case", "is a list of tables, written [[case]]")
    cases: list[dict[str, Any]] = []
    for number, value in enumerate(given):
        where = f"case.{number}"
        case = source.table(where, value)
        source.only(where, case, ("name", "set"))
        name = source.parse(f"{where}.name", units.text, case.get("name"))
        if name in [other["name"] for other in cases]:
            source.fail(f"{where}.name", f"{name!r} is the name of two cases")
        settings = {}
        for short, wanted in source.table(f"{where}.set", case.get("set", {})).items():
            settings[source.parse(f"{where}.set.{short}", full_key, short)] = wanted
            source.parse(f"{where}.set.{short}", parser(source.parse(where, full_key, short)), wanted)
        cases.append({"name": name, "set": settings})
    return cases


def _prices(source: Source, given: Mapping[str, Any]) -> dict[str, float]:
    source.only("prices", given, PRICES)
    return {kind: source.parse(f"prices.{kind}", units.price, value) for kind, value in given.items()}


def _measures(system: str, path: Path | None) -> list[str]:
    """Everything that can be measured of the runs of this system."""
    found = [*OF_A_RUN]
    operations = [*WORKLOADS[system].operations] if path is None else [path.operation, *path.maintenance]
    found += [f"{operation}.{statistic}" for operation in operations for statistic in STATISTICS]
    if path is None:
        return [*found, *(f"counter.{name}" for name in WORKLOADS[system].counters)]
    found += dict.fromkeys(f"part.{step.part or step.name}" for step in path.steps)
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
