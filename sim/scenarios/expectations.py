"""What a scenario asks of its results: objectives, and checks against measurements."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.sim.scenarios import units
from fencepost.sim.scenarios.errors import BadValue
from fencepost.sim.scenarios.reading import Source, suggestion
from fencepost.sim.scenarios.scenario import Check, Formula, Objective

STATISTICS = {
    "p50": "ms",
    "p90": "ms",
    "p99": "ms",
    "max": "ms",
    "mean": "ms",
    "requests": "",
    "serial_hops": "",
    "count": "",
    "retries": "",
}
"""Of an operation; in milliseconds where there is a unit."""
OF_A_RUN = ("throughput", "throughput_per_writer", "dollars_month", "dollars_million", "failed")
CHECK = ("name", "measure", "at", "measured", "tolerance", "slope_over", "relative_to", "says")


def unit_of(name: str, measures: Sequence[str]) -> str:
    """The unit of a measure, which must be one of those that the runs will have."""
    if name not in measures:
        raise BadValue(f"{name!r} is no measure of these runs; {suggestion(str(name), measures)}")
    operation, _, statistic = name.rpartition(".")
    return STATISTICS.get(statistic, "") if operation not in ("", "part", "counter") else ""


def read_objectives(
    source: Source, given: Mapping[str, Any], measures: Sequence[str]
) -> tuple[Objective, ...]:
    flat = {}
    for name, value in given.items():
        flat.update(
            {f"{name}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {name: value}
        )
    return tuple(_objective(source, name, value, measures) for name, value in flat.items())


def _objective(source: Source, name: str, value: Any, measures: Sequence[str]) -> Objective:
    where = f"objectives.{name}"
    unit = source.parse(where, lambda known: unit_of(known, measures), name)
    found = re.fullmatch(r"([<>])\s*(.+)", value.strip()) if isinstance(value, str) else None
    if found is None:
        source.fail(
            where, f'{units.shown(value)} is no objective; write it like "< 500 ms" or "> 50 % of first"'
        )
    relative = re.fullmatch(r"(.+%) of first", found[2].strip())
    parse = units.share if relative else lambda text: _bound(text, unit, name)
    bound = source.parse(where, parse, relative[1] if relative else found[2])
    text = f"{name} {value.strip()}"
    return Objective(name, below=found[1] == "<", bound=bound, text=text, relative=relative is not None)


def _bound(text: str, unit: str, name: str) -> float:
    if unit == "ms":
        return units.duration(text) / 1e6
    if name.startswith("throughput"):
        return units.rate(text)
    text = text.removeprefix("$").strip() if name.startswith("dollars_") else text
    try:
        return float(text)
    except ValueError:
        raise BadValue(f"{units.shown(text)} is no number") from None


def read_checks(
    source: Source, given: Any, full: Callable[[str], str], measures: Sequence[str]
) -> tuple[Check, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not given:
        source.fail("check", "is a list of tables, written [[check]]")
    return tuple(
        _check(source, f"check.{at}", source.table(f"check.{at}", value), full, measures)
        for at, value in enumerate(given)
    )


def _check(
    source: Source, where: str, found: dict[str, Any], full: Callable[[str], str], measures: Sequence[str]
) -> Check:
    source.only(where, found, CHECK)
    for needed in ("name", "measure", "measured", "tolerance"):
        if needed not in found:
            source.fail(where, f"a check needs {needed}")
    unit = source.parse(f"{where}.measure", lambda name: unit_of(name, measures), found["measure"])
    measured = found["measured"]
    relative = found.get("relative_to")
    slope = found.get("slope_over", "")
    if isinstance(measured, str) and unit == "ms" and relative is None and not slope:
        measured = source.parse(f"{where}.measured", units.duration, measured) / 1e6
    elif isinstance(measured, str):
        source.fail(f"{where}.measured", f"{units.shown(measured)} must be a plain number here")
    elif unit == "ms" and relative is None and not slope:
        source.fail(f"{where}.measured", 'needs its unit, as in "5.9 s"')

    def at(name: str) -> dict[str, Any]:
        table = source.table(f"{where}.{name}", found.get(name, {}))
        return {
            key if key == "case" else source.parse(f"{where}.{name}.{key}", full, key): v
            for key, v in table.items()
        }

    return Check(
        name=source.parse(f"{where}.name", units.text, found["name"]),
        measure=found["measure"],
        at=at("at"),
        measured=source.parse(f"{where}.measured", units.number, measured),
        tolerance=source.parse(f"{where}.tolerance", units.share, found["tolerance"]),
        unit="" if slope or relative is not None else unit,
        slope_over=source.parse(f"{where}.slope_over", full, slope) if slope else "",
        relative_to=at("relative_to") if relative is not None else None,
        says=source.parse(f"{where}.says", units.text, found["says"]) if "says" in found else "",
    )


def read_formula(source: Source, given: Any) -> Formula | None:
    if given is None:
        return None
    found = source.table("formula", given)
    source.only("formula", found, ("operation", "tolerance"))
    for needed in ("operation", "tolerance"):
        if needed not in found:
            source.fail("formula", f"needs {needed}")
    return Formula(
        operation=source.parse("formula.operation", units.text, found["operation"]),
        tolerance=source.parse("formula.tolerance", units.share, found["tolerance"]),
    )
