"""Results of the commands: their JSON form, and where each class is defined.

A result is one frozen dataclass, defined in the module that computes it. `to_json(result)` is its JSON, and
`from_json(CheckResult, data)` reads it back; the text, HTML, SARIF and JUnit reports render either. The JSON
schemas in docs/reference/schemas are generated from the classes.

The fields of a class are the keys, in this order. A field whose default is None is left out of the JSON while
it is None, and so is a field with the metadata `{"serialized": False}`. `from_json` ignores keys that it does
not know, so that a report can include results of a newer version, and names the first value that does not
fit.

The classes are attributes of this module too, so that a reader of results needs one import. They are imported
when they are used: reading the result of an audit loads no model checker.
"""

import enum
import functools
import importlib
import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from fencepost.commands.rows import MutantsResult as MutantsResult
    from fencepost.commands.rows import Row as Row
    from fencepost.commands.rows import ZooResult as ZooResult
    from fencepost.comparing import Change as Change
    from fencepost.comparing import CompareResult as CompareResult
    from fencepost.comparing import Comparison as Comparison
    from fencepost.comparing import Unnoticed as Unnoticed
    from fencepost.model.kernel.report.counterexample import TraceStep as TraceStep
    from fencepost.model.kernel.report.result import CheckResult as CheckResult
    from fencepost.model.kernel.report.result import GraphState as GraphState
    from fencepost.model.kernel.report.result import Proof as Proof
    from fencepost.model.kernel.report.result import PropertyResult as PropertyResult
    from fencepost.model.kernel.report.result import StateGraph as StateGraph
    from fencepost.properties.driven_share import Gap as Gap
    from fencepost.properties.driven_share import Share as Share
    from fencepost.sim.des.result import OperationStats as OperationStats
    from fencepost.sim.explore.result import AuditCoverage as AuditCoverage
    from fencepost.sim.explore.result import AuditResult as AuditResult
    from fencepost.sim.explore.result import CounterexampleStep as CounterexampleStep
    from fencepost.sim.explore.result import NearestPass as NearestPass
    from fencepost.sim.explore.result import ProgramError as ProgramError
    from fencepost.sim.explore.result import RealRun as RealRun
    from fencepost.sim.explore.result import RequestLine as RequestLine
    from fencepost.sim.explore.result import StageResult as StageResult
    from fencepost.sim.explore.result import Violation as Violation
    from fencepost.sim.probe.history import HistoryStep as HistoryStep
    from fencepost.sim.probe.verdict import Finding as Finding
    from fencepost.sim.probe.verdict import ProbeResult as ProbeResult
    from fencepost.sim.replay.result import ContinuityFinding as ContinuityFinding
    from fencepost.sim.replay.result import ContinuityResult as ContinuityResult
    from fencepost.sim.replay.result import LabelCoverage as LabelCoverage
    from fencepost.sim.replay.result import PromiseVerdict as PromiseVerdict
    from fencepost.sim.replay.result import ReplayResult as ReplayResult
    from fencepost.sim.replay.result import RunVerdict as RunVerdict
    from fencepost.sim.scenarios.result import ObjectiveResult as ObjectiveResult
    from fencepost.sim.scenarios.result import SimulatedRun as SimulatedRun
    from fencepost.sim.scenarios.result import SimulateResult as SimulateResult
    from fencepost.sim.scenarios.result import SimulationCheck as SimulationCheck

Verdict = Literal["holds", "violated", "undecided"]
R = TypeVar("R")

DEFINED_IN = {
    "commands.rows": ("MutantsResult", "Row", "ZooResult"),
    "comparing": ("Change", "CompareResult", "Comparison", "Unnoticed"),
    "model.kernel.report.counterexample": ("TraceStep",),
    "model.kernel.report.result": ("CheckResult", "GraphState", "Proof", "PropertyResult", "StateGraph"),
    "properties.driven_share": ("Gap", "Share"),
    "sim.des.result": ("OperationStats",),
    "sim.explore.result": (
        *("AuditCoverage", "AuditResult", "CounterexampleStep", "NearestPass"),
        *("ProgramError", "RealRun", "RequestLine", "StageResult", "Violation"),
    ),
    "sim.probe.history": ("HistoryStep",),
    "sim.probe.verdict": ("Finding", "ProbeResult"),
    "sim.replay.result": (
        *(
            "ContinuityFinding",
            "ContinuityResult",
            "LabelCoverage",
            "PromiseVerdict",
            "ReplayResult",
            "RunVerdict",
        ),
    ),
    "sim.scenarios.result": ("ObjectiveResult", "SimulateResult", "SimulatedRun", "SimulationCheck"),
}
"""The classes of results by module."""
COMMANDS: Mapping[str, str] = {
    "compare": "CompareResult",
    "audit": "AuditResult",
    "check": "CheckResult",
    "mutants": "MutantsResult",
    "zoo": "ZooResult",
    "probe": "ProbeResult",
    "simulate": "SimulateResult",
    "replay": "ReplayResult",
}
"""The class of each command's result, by name: `result_class` imports it."""
KEYS: Mapping[str, set[str]] = {
    "compare": {"system", "base", "changes"},
    "audit": {"system", "strategy", "schedules", "violations"},
    "check": {"model", "distinct", "properties"},
    "mutants": {"system", "rows", "verdict"},
    "zoo": {"rows", "verdict"},
    "probe": {"url", "verdict", "features"},
    "simulate": {"scenario", "runs"},
    "replay": {"model", "engine", "accepted", "rejected"},
}
"""The keys by which a command's results are recognized: the first command whose keys are all there."""
_MODULES = {name: module for module, names in DEFINED_IN.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the class of a result from the module that defines it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"fencepost.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def result_class(command: str) -> type[Any]:
    """Return the class of a command's results."""
    found = COMMANDS[command]
    kind: type[Any] = globals().get(found) or __getattr__(found)
    return kind


@dataclass(frozen=True)
class Provenance:
    """The origin of a result: enough to compute it again."""

    command: str
    fencepost: str = ""
    commit: str = ""
    uncommitted_changes: bool = False
    python: str = ""
    system: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded(Generic[R]):
    """A result as a command wrote it, with its provenance, which is one more key in JSON."""

    result: R
    provenance: Provenance | None = None

    def _repr_html_(self) -> str:
        """Return the report's page of this one result, for notebooks."""
        from fencepost.reports.page.notebook import notebook_html  # the report is loaded on demand

        return notebook_html(self)


def read_result(path: str | Path) -> Recorded[Any]:
    """Read a result that a command wrote with --json; raise ValueError if the file holds none."""
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    command = command_of(data) if isinstance(data, dict) else ""
    if not command:
        raise ValueError(f"{path} is no result of a fencepost command")
    return recorded(result_class(command), data)


def recorded(kind: type[R], data: Mapping[str, Any]) -> Recorded[R]:
    """Read a result of the class `kind`, and its provenance if the data has one."""
    made = data.get("provenance")
    provenance = None if made is None else from_json(Provenance, made, "provenance")
    return Recorded(from_json(kind, data), provenance)


def is_serialized(one: Field[Any]) -> bool:
    """Return False for a field of a result that no JSON has."""
    return bool(one.metadata.get("serialized", True))


def to_json(value: Any) -> Any:
    """Return `value` as plain JSON data."""
    if isinstance(value, Recorded):
        made = {} if value.provenance is None else {"provenance": to_json(value.provenance)}
        return {**made, **to_json(value.result)}
    if is_dataclass(value):
        return {
            one.name: to_json(inner)
            for one in fields(value)
            if is_serialized(one)
            and ((inner := getattr(value, one.name)) is not None or one.default is not None)
        }
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: to_json(inner) for key, inner in value.items()}
    return [to_json(inner) for inner in value] if isinstance(value, tuple | list) else value


def from_json(kind: Any, data: Any, place: str = "") -> Any:
    """Read plain data as a value of the type `kind`; a ValueError names the first place that does not fit."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return data
    if origin is Recorded:
        return recorded(args[0], data) if isinstance(data, Mapping) else _misfit(args[0], data, place)
    if origin in (Union, types.UnionType):
        chosen = [one for one in args if (one is type(None)) == (data is None)]
        return from_json(chosen[0], data, place) if chosen else _misfit(kind, data, place)
    if is_dataclass(kind):
        return _read_object(kind, data, place)
    if origin is Literal:
        return data if data in args else _misfit(kind, data, place)
    if origin is tuple and isinstance(data, tuple | list):
        return tuple(from_json(args[0], inner, f"{place}[{at}]") for at, inner in enumerate(data))
    if origin is Mapping and isinstance(data, Mapping):
        return {key: from_json(args[1], inner, f"{place}.{key}") for key, inner in data.items()}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data) if data in set(kind) else _misfit(kind, data, place)
    if isinstance(kind, type) and isinstance(data, (int, float) if kind is float else kind):
        return data if kind is bool or not isinstance(data, bool) else _misfit(kind, data, place)
    return _misfit(kind, data, place)


def _read_object(kind: Any, data: Any, place: str) -> Any:
    if not isinstance(data, Mapping):
        return _misfit(kind, data, place)
    hints = hints_of(kind)
    for name in required(kind):
        if name not in data:
            raise ValueError(f"{place.lstrip('.') or 'it'} has no {name!r}")
    values = {
        one.name: from_json(hints[one.name], data[one.name], f"{place}.{one.name}")
        for one in fields(kind)
        if one.name in data and is_serialized(one)
    }
    try:
        return kind(**values)
    except (
        AssertionError
    ) as error:  # a result that contradicts itself, as "holds" with a search that was stopped
        raise ValueError(f"{place.lstrip('.') or 'it'} cannot be: {error}") from error


def _misfit(kind: Any, data: Any, place: str) -> Any:
    expected = getattr(kind, "__name__", str(kind)) if get_origin(kind) is None else str(kind)
    raise ValueError(f"{place.lstrip('.') or 'it'} is {str(data)[:40]!r}, expected {expected}")


@functools.cache
def hints_of(kind: Any) -> dict[str, Any]:
    """The types of the fields of a dataclass."""
    return get_type_hints(kind)


def required(kind: Any) -> list[str]:
    """The fields that have no default."""
    return [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]


def command_of(data: Mapping[str, Any]) -> str:
    """The command that writes such results; empty when none does."""
    return next((command for command, keys in KEYS.items() if data.keys() >= keys), "")
