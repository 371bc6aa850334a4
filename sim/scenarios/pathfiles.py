"""Described write paths as files: one description, which any number of scenarios use."""

from collections.abc import Mapping
from pathlib import Path as File
from typing import Any

from fencepost.sim.des.expressions import Expression
from fencepost.sim.des.paths import NAMES, READS, WRITES, Counter, Maintenance, Path, Step
from fencepost.sim.scenarios import units
from fencepost.sim.scenarios.source import BadScenario, BadValue, Source, suggestion

LIBRARY = File(__file__).parent / "library"
CONDITIONS = ("absent", "match")
ORDERS = ("serial", "parallel")
TOP = {
    "title": "for people",
    "about": "for people",
    "operation": "what one is called in the results; `write` when not given",
    "compute_per_request": "of the writer, before each request",
    "attempts": "of an operation whose conditional write is refused",
    "retry_pause": "before an operation begins again",
    "parameters": "numbers that expressions use and scenarios sweep; `{ value, from }` names the origin",
    "counters": "a table of what grows: each `starts` at so much and `grows` with every operation",
    "step": "`[[step]]`, one for each step of an operation, in their order",
    "operations": "`[[operations.NAME.step]]`, further operations; `workload.operation` chooses one",
    "maintenance": "`[maintenance.NAME]`, what is done beside the operations",
}
STEP = {
    "name": "must be given",
    "kind": "of the requests; `get` when not given",
    "count": "how many requests: a number or an expression; 1 when not given",
    "order": f"{' or '.join(ORDERS)}, of the requests of this step; serial when not given",
    "repeat": "the whole step so often, one time after another; 1 when not given",
    "beside": "true: together with the parallel step before it",
    "bytes": "of each request, as in `64 KiB`",
    "compute": "of the writer, before the step, as in `5 ms`; not where `repeat` is 0",
    "part": "under which name its requests are counted, or a list of names; the step's when not given",
    "prefix": "where its keys are, for limits by prefix; the step's name when not given",
    "key": "a key that all writers share, for which conditional writes contend",
    "when": f"{' or '.join(CONDITIONS)}, of a put to a `key`: create the next, or replace what was read",
}
MAINTENANCE = {
    "every": "`never`, so many operations, or a time",
    "takes": "a table of what it takes off each counter",
    "step": "`[[maintenance.NAME.step]]`, as the steps of an operation",
}


def shipped_paths() -> list[str]:
    return sorted(file.stem for file in (LIBRARY / "paths").glob("*.toml"))


def find_path(name: str, folder: File) -> Path:
    """The path file of this name: beside the scenario, or shipped."""
    for file in (folder / name, LIBRARY / "paths" / f"{name}.toml"):
        if file.is_file():
            return read_path(file)
    raise BadValue(
        f"there is no file {name!r} beside the scenario, and no path of this name is shipped; "
        f"{suggestion(name, shipped_paths())}"
    )


def read_path(file: File) -> Path:
    source = Source(file)
    top = source.tables
    source.only("", top, TOP)
    parameters: dict[str, float] = {}
    origins: dict[str, str] = {}
    for name, value in source.table("parameters", top.get("parameters", {})).items():
        where = f"parameters.{name}"
        if isinstance(value, dict):
            source.only(where, value, ("value", "from"))
            source.needs(where, value, ("value", "from"))
            origins[name] = source.parse(f"{where}.from", units.text, value["from"])
            value = value["value"]
        parameters[name] = source.parse(where, units.number, value)
    counters = source.table("counters", top.get("counters", {}))
    names = {*NAMES, *parameters, *counters}
    for name in (*parameters, *counters):
        if name in NAMES or not name.isidentifier() or (name in parameters and name in counters):
            source.fail(f"counters.{name}", "cannot be a name here; it is taken, or no plain word")
    steps = _steps(source, "step", top.get("step"), names)
    if not steps:
        raise BadScenario(f"{file}: has no [[step]], so there is nothing to simulate")
    operation = source.parse("operation", units.text, top.get("operation", "write"))
    others: dict[str, tuple[Step, ...]] = {}
    for name, value in source.table("operations", top.get("operations", {})).items():
        where = f"operations.{name}"
        found = source.table(where, value)
        source.only(where, found, ("step",))
        others[name] = _steps(source, f"{where}.step", found.get("step"), names)
        if name == operation or not others[name]:
            source.fail(where, "needs a name of its own, and a [[step]]")
    return Path(
        name=file.stem,
        operation=operation,
        others=others,
        origins=origins,
        parameters=parameters,
        counters={name: _counter(source, name, value, names, parameters) for name, value in counters.items()},
        steps=steps,
        maintenance={
            name: _maintenance(
                source,
                f"maintenance.{name}",
                source.table(f"maintenance.{name}", value),
                names,
                set(counters),
            )
            for name, value in source.table("maintenance", top.get("maintenance", {})).items()
        },
        compute_per_request_ns=source.parse(
            "compute_per_request", units.duration, top.get("compute_per_request", "0 ms")
        ),
        attempts=source.parse("attempts", units.positive, top.get("attempts", 1000)),
        pause_ns=source.parse("retry_pause", units.duration, top.get("retry_pause", "0 ms")),
    )


def _counter(
    source: Source, name: str, value: Any, names: set[str], parameters: Mapping[str, float]
) -> Counter:
    where = f"counters.{name}"
    found = source.table(where, value)
    source.only(where, found, ("starts", "grows"))
    return Counter(
        starts=source.expression(f"{where}.starts", found.get("starts", "depth"), {"depth", *parameters}),
        grows=source.expression(f"{where}.grows", found.get("grows", 1), names),
    )


def _steps(source: Source, path: str, found: Any, names: set[str]) -> tuple[Step, ...]:
    steps: list[Step] = []
    for where, table in source.tables_of(path, found):
        step = _step(source, where, table, names)
        if step.beside and (not steps or not (steps[-1].parallel or steps[-1].beside)):
            source.fail(where, "stands beside nothing: the step before it must be parallel")
        if step.beside and steps[-1].repeat.text != "1":
            source.fail(where, "cannot stand beside a step that is repeated; write that step out")
        steps.append(step)
    return tuple(steps)


def _step(source: Source, where: str, found: dict[str, Any], names: set[str]) -> Step:
    source.only(where, found, STEP)

    def get(key: str, parse: Any, default: Any) -> Any:
        return source.parse(f"{where}.{key}", parse, found.get(key, default))

    name = get("name", units.text, None) if "name" in found else source.fail(where, "a step needs a name")
    order = get("order", units.one_of(*ORDERS), "serial")
    beside = found.get("beside", False)
    if not isinstance(beside, bool):
        source.fail(f"{where}.beside", "is true or false")
    kind = get("kind", units.one_of(*sorted(READS | WRITES)), "get")
    if "when" in found and (kind not in ("put", "complete-upload") or "key" not in found):
        source.fail(f"{where}.when", 'is the condition of a put to a shared key: give kind = "put" and a key')
    return Step(
        name=name,
        kind=kind,
        key=get("key", units.text, "") if "key" in found else "",
        when=get("when", units.one_of(*CONDITIONS), "") if "when" in found else "",
        count=source.expression(f"{where}.count", found.get("count", 1), names),
        parallel=order == "parallel",
        repeat=source.expression(f"{where}.repeat", found.get("repeat", 1), names),
        beside=beside,
        size=get("bytes", units.size, "0 B"),
        compute_ns=get("compute", units.duration, "0 ms"),
        parts=get("part", _parts, name),
        prefix=get("prefix", units.text, name),
    )


def _parts(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) and value else [value]
    return tuple(units.text(name) for name in names)


def _maintenance(
    source: Source, where: str, found: dict[str, Any], names: set[str], counters: set[str]
) -> Maintenance:
    source.only(where, found, MAINTENANCE)
    takes: dict[str, Expression] = {}
    for name, value in source.table(f"{where}.takes", found.get("takes", {})).items():
        source.only(f"{where}.takes", [name], sorted(counters))
        takes[name] = source.expression(f"{where}.takes.{name}", value, names)
    pace = source.parse(f"{where}.every", units.pace, found.get("every", "never"))
    return Maintenance(
        steps=_steps(source, f"{where}.step", found.get("step"), names),
        takes=takes,
        every=pace[0],
        every_ns=pace[1],
    )
