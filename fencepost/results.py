"""Results of the commands: frozen dataclasses with one JSON form.

`to_json(result)` is what `--json` writes, and `from_json(CheckResult, data)` reads it back. Commands build
these values, and the text, HTML, SARIF and JUnit reports render them. The JSON schemas in
docs/reference/schemas are generated from these classes.

A field whose default is None is left out of the JSON while it is None. `from_json` ignores keys that it does
not know, so that a report can include results of a newer version, and names the first value that does not
fit.
"""

import enum
import functools
import json
import shlex
import types
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Verdict = Literal["holds", "violated", "undecided"]
AuditVerdict = Literal["holds", "violated", "undecided", "error"]
StoreVerdict = Literal["safe", "unsafe", "unsupported", "undecided"]
Object = Mapping[str, Any]
Counts = Mapping[str, int]


@dataclass(frozen=True)
class Provenance:
    """How a result was made: enough to make it again."""

    command: str
    fencepost: str = ""
    commit: str = ""
    uncommitted_changes: bool = False
    python: str = ""
    system: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What the results of all commands have."""

    provenance: Provenance | None = None

    def _repr_html_(self) -> str:
        """The report's page of this one result, for notebooks."""
        from fencepost.reports.page.notebook import notebook_html  # what reads results is loaded when needed

        return notebook_html(self)


# fencepost check


@dataclass(frozen=True)
class Step:
    """One step of a model's counterexample. The first has the whole state, the others what they change."""

    step: int
    action: str | None
    parameters: Object = field(default_factory=dict)
    state: Object | None = None
    changes: Object | None = None
    back_to: int | None = None


@dataclass(frozen=True)
class Proof:
    """The exploration that decided a refinement: both machines side by side, at the sizes of the proof."""

    refines: str
    parameters: Object
    other_parameters: Object
    """The sizes of the other machine."""
    distinct: int
    generated: int
    depth: int
    seconds: float


@dataclass(frozen=True)
class PropertyResult:
    name: str
    kind: str
    verdict: Verdict
    trace: tuple[Step, ...] = ()
    doc: str = ""
    reason: str = ""
    proof: Proof | None = None


@dataclass(frozen=True)
class GraphState:
    text: str
    initial: bool


@dataclass(frozen=True)
class Graph:
    """All states of a small model; a step is `[source, target, label]`."""

    states: tuple[GraphState, ...]
    steps: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, kw_only=True)
class CheckResult(Result):
    model: str
    parameters: Object
    without: tuple[str, ...]
    verdict: Verdict
    distinct: int
    generated: int
    depth: int
    seconds: float
    peak_bytes: int
    properties: tuple[PropertyResult, ...]
    coverage: Counts
    words: int = 0
    collision_odds: float = 0.0
    stopped_by: str = ""
    notes: tuple[str, ...] = ()
    vacuity_warnings: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Actions and fields that do nothing at these sizes, as the machine declares: what they need."""
    cut: int = 0
    graph: Graph | None = None


# fencepost zoo, fencepost audit --mutants


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model or program with one safeguard off, or with none off."""

    safeguard: str
    kind: str
    """`model`, `safeguard` or `assumption` of a model; `broken` or `fixed` of a program."""
    verdict: Verdict
    found: bool
    unexpected: bool = False
    property: str = ""
    length: int = 0
    seconds: float = 0.0
    model: Any = None
    """The model's name in a zoo; the model's counterexample in a table of mutants."""
    system: str = ""
    schedules: int = 0
    bound: str = ""
    findings: tuple[str, ...] = ()
    counterexample: tuple[str, ...] = ()
    token: str = ""
    moves: int = 0
    times: float | None = None
    long: bool = False
    parameters: Object = field(default_factory=dict)
    file: str = ""
    """Of a mutant of the user's own code: where the step is that it leaves out."""
    line: int = 0
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class ZooResult(Result):
    rows: tuple[Row, ...]
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class MutantsResult(Result):
    system: str
    rows: tuple[Row, ...]
    verdict: Verdict


# fencepost audit


@dataclass(frozen=True)
class NearestPass:
    """The passing run that shares the longest prefix with a failing one."""

    same_steps: int
    counterexample: tuple[str, ...]
    token: str = ""
    events: tuple[Object, ...] = ()


@dataclass(frozen=True)
class CounterexampleStep:
    """One step of a counterexample as data. Bodies are whole; a `_base64` field holds one that is no UTF-8.

    `body` is what was written or read, `previous` the body of the version of the object before the present
    one. `etag_since` marks an ETag that the object had before, with another in between: the number of the
    step after which it had it, 0 for the beginning. `file`, `line` and `function` are the innermost line of
    the user's code, `stack` the lines that lead to it.
    """

    number: int
    process: str
    kind: str
    """`put`, `get`, `list`, ..., `note`, `sleep`, `clock`, `pick`, `advance` (of the clock), `finish`."""
    operation: str
    outcome: str
    incarnation: int = 0
    subject: str = ""
    condition: str = ""
    fault: str = ""
    time_s: float = 0.0
    body: str | None = None
    body_base64: str | None = None
    previous: str | None = None
    previous_base64: str | None = None
    etag: str = ""
    etag_since: int | None = None
    file: str = ""
    line: int | None = None
    function: str = ""
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class Violation:
    property: str
    reason: str
    counterexample: tuple[str, ...]
    """The lines that are printed; `steps` are the same as data."""
    token: str = ""
    raised_at: tuple[str, ...] = ()
    moves: int | None = None
    events: tuple[Object, ...] = ()
    nearest_pass: NearestPass | None = None
    steps: tuple[CounterexampleStep, ...] = ()
    back_to: int | None = None
    """Of a run without end: the number of the step from which it goes round again."""


@dataclass(frozen=True)
class AuditCoverage:
    outcomes: Counts = field(default_factory=dict)
    faults: Counts = field(default_factory=dict)
    steps: Counts = field(default_factory=dict)
    conflicts: int = 0
    sometimes: Mapping[str, bool] = field(default_factory=dict)
    tested: Counts = field(default_factory=dict)
    """By property: how often it was judged in a state in which its condition (`when`) was met."""


@dataclass(frozen=True)
class Gap:
    """A label of the model that no run drove, and the model's shortest way to it."""

    label: str
    transitions: int
    path: tuple[str, ...]


@dataclass(frozen=True)
class Share:
    """How many of the model's transitions the runs drove."""

    model: str
    transitions: int
    driven: int
    share: float
    parameters: Object = field(default_factory=dict)
    states: int = 0
    runs: int = 0
    runs_beyond_the_bound: int = 0
    actions: Mapping[str, Counts] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True)
class ProgramError:
    """What keeps a program from being audited and is no violation, with the line of the program."""

    message: str
    file: str = ""
    line: int | None = None
    function: str = ""


@dataclass(frozen=True, kw_only=True)
class AuditResult(Result):
    system: str
    strategy: str
    parameters: Object = field(default_factory=dict)
    verdict: AuditVerdict
    bound: str
    schedules: int
    pruned: int = 0
    seconds: float
    violations: tuple[Violation, ...]
    findings: tuple[str, ...] = ()
    coverage: AuditCoverage = AuditCoverage()
    cost: Mapping[str, Object] = field(default_factory=dict)
    complete: bool | None = None
    faults: Counts = field(default_factory=dict)
    seed: int = 0
    model: Share | None = None
    flat: Object | None = None
    counterexample: tuple[str, ...] = ()
    """The steps of the one run that `--replay` repeats."""
    token: str | None = None
    error: ProgramError | None = None
    """With the verdict `error`."""
    real: "RealRun | None" = None
    hash_seeds: tuple[str, ...] = ()
    """The values of PYTHONHASHSEED under which some schedules were compared; empty when it was not varied."""


@dataclass(frozen=True)
class RealRun:
    """What only a run on a real store (`--store`) has."""

    store: str
    threads: int
    requests: int
    at_once: int
    looks: int
    unconfirmed: int = 0
    prefix: str = ""
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """One difference between the audits of two revisions."""

    judged: Literal["worse", "better", "other"]
    what: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class CompareResult(Result):
    """`fencepost audit --base`."""

    system: str
    base: str
    verdict: Verdict
    changes: tuple[Change, ...]
    before: AuditResult | None = None
    after: AuditResult | None = None


# fencepost probe


@dataclass(frozen=True)
class HistoryStep:
    number: int
    worker: str
    request: str
    outcome: str
    started_ms: float
    ended_ms: float


@dataclass(frozen=True)
class Feature:
    name: str
    verdict: StoreVerdict
    detail: str
    core: bool = False
    applies: bool = True
    rounds: int = 0
    bad: int = 0
    bound: float | None = None
    seconds: float = 0.0
    history: tuple[HistoryStep, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProbeResult(Result):
    url: str
    verdict: StoreVerdict
    features: tuple[Feature, ...]
    latency: Mapping[str, Mapping[str, float]]
    """Milliseconds by operation: p50, p90, p99."""
    prefix: str = ""
    left: tuple[str, ...] = ()
    """Objects that could not be removed."""
    requests: int = 0
    seconds: float = 0.0
    options: Object = field(default_factory=dict)


# fencepost simulate


@dataclass(frozen=True, kw_only=True)
class OperationStats:
    """Of one operation of one run; latencies in milliseconds."""

    count: int
    p50: float
    p99: float
    requests: float
    serial_hops: float
    p90: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    requests_max: int = 0
    serial_hops_max: int = 0
    retries: float = 0.0
    bytes_sent: float = 0.0
    bytes_received: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SimulatedRun:
    parameters: Object
    operations: Mapping[str, OperationStats]
    throughput: float
    dollars_month: float
    run: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    """The parameters as numbers, times in milliseconds."""
    throughput_per_writer: float = 0.0
    dollars_million: float = 0.0
    failed: Counts = field(default_factory=dict)
    window_s: float = 0.0
    requests: Counts = field(default_factory=dict)
    outcomes: Counts = field(default_factory=dict)
    faults: Counts = field(default_factory=dict)
    saturation: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulationCheck:
    """A measured number of the real system, beside the simulated one."""

    name: str
    reference: float
    simulated: float
    error: float
    ok: bool
    tolerance: float = 0.0
    unit: str = ""
    says: str = ""


@dataclass(frozen=True)
class Objective:
    objective: str
    broken_runs: int
    runs: int
    first_broken: Object | None = None
    first_value: float | None = None
    violated: bool = False


@dataclass(frozen=True, kw_only=True)
class SimulateResult(Result):
    scenario: str
    runs: tuple[SimulatedRun, ...]
    checks: tuple[SimulationCheck, ...]
    verdict: Verdict
    title: str = ""
    about: str = ""
    seed: int = 0
    settings: Object = field(default_factory=dict)
    planned: int = 0
    units: Mapping[str, str] = field(default_factory=dict)
    case_keys: tuple[str, ...] = ()
    objectives: tuple[Objective, ...] = ()


# fencepost replay


@dataclass(frozen=True)
class RunVerdict:
    """A run that the model does not allow, or about which the trace has too little."""

    run: str
    seq: int
    event: str
    reason: str
    rule: str = ""
    state: str = ""
    possible: str = ""
    file: str = ""
    """The file that holds the event, where it was found again."""
    line: int = 0
    """Its line, or its row in a Parquet file, counted from 1."""
    time: str = ""
    """When it happened, in UTC."""


@dataclass(frozen=True)
class LabelCoverage:
    """The labels of the model that the replayed runs took, and optionally the transitions they drove."""

    taken: int
    of: int
    actions: Object = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    model: Share | None = None


@dataclass(frozen=True, kw_only=True)
class ReplayResult(Result):
    model: str
    engine: Literal["local", "spark"]
    runs: int
    events: int
    accepted: int
    rejected: int
    undecided: int
    seconds: float
    events_per_second: float
    violations: tuple[RunVerdict, ...]
    verdict: Verdict
    source: Literal["traces", "access-log"] = "traces"
    undecided_runs: tuple[RunVerdict, ...] = ()
    problems: tuple[str, ...] = ()
    """Why parts of the input could not be read."""
    damaged_lines: int = 0
    """Lines that are no events."""
    left_out: int = 0
    events_read: int = 0
    grouped_by: str = ""
    started_seconds: float = 0.0
    coverage: LabelCoverage | None = None
    statistics: Object = field(default_factory=dict)
    not_judged: tuple[str, ...] = ()
    """What the verdict says nothing about."""
    judged_by: str = ""
    """The machine that judges the runs, as `fencepost check` names it."""
    properties: tuple[str, ...] = ()
    """The properties that hold in every run that is accepted: those of this machine."""
    properties_not_judged: tuple[str, ...] = ()
    """The properties of the model that this machine does not state."""


COMMANDS: Mapping[str, type[Result]] = {
    "compare": CompareResult,
    "audit": AuditResult,
    "check": CheckResult,
    "mutants": MutantsResult,
    "zoo": ZooResult,
    "probe": ProbeResult,
    "simulate": SimulateResult,
    "replay": ReplayResult,
}
"""The type of each command's result."""
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


def read_result(path: str | Path) -> Result:
    """A result that a command wrote with --json; ValueError when it is none."""
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    command = command_of(data) if isinstance(data, dict) else ""
    if not command:
        raise ValueError(f"{path} is no result of a fencepost command")
    found: Result = from_json(COMMANDS[command], data)
    return found


def to_json(value: Any) -> Any:
    """`value` as plain JSON data."""
    if is_dataclass(value):
        return {
            one.name: to_json(inner)
            for one in fields(value)
            if (inner := getattr(value, one.name)) is not None or one.default is not None
        }
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: to_json(inner) for key, inner in value.items()}
    return [to_json(inner) for inner in value] if isinstance(value, tuple | list) else value


def from_json(kind: Any, data: Any, place: str = "") -> Any:
    """`data`, plain or a dataclass of the same fields, as a value of the type `kind`.

    ValueError names the first place that does not fit.
    """
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return data
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
    if isinstance(kind, type) and isinstance(data, (int, float) if kind is float else kind):
        return data if kind is bool or not isinstance(data, bool) else _misfit(kind, data, place)
    return _misfit(kind, data, place)


def _read_object(kind: Any, data: Any, place: str) -> Any:
    if isinstance(data, kind):
        return data
    data = to_json(data)
    if not isinstance(data, Mapping):
        return _misfit(kind, data, place)
    hints = hints_of(kind)
    for name in required(kind):
        if name not in data:
            raise ValueError(f"{place.lstrip('.') or 'it'} has no {name!r}")
    values = {
        one.name: from_json(hints[one.name], data[one.name], f"{place}.{one.name}")
        for one in fields(kind)
        if one.name in data
    }
    return kind(**values)


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


SEARCHING = (
    *("--json", "--trace", "--strategy", "--budget", "--max-schedules", "--max-steps"),
    *("--depth", "--jobs", "--resume", "--replay", "--base"),
)
"""Options of an audit's search, each with a value: they have no place beside --replay."""
PRINTING = ("--quiet", "--gaps", "-v", "--verbose")
"""Flags that change only what is printed."""


def with_token(command: str, token: str) -> str:
    """The command that runs the one schedule of a token."""
    return f"{command} --replay {shlex.quote(token)}"


def drop_options(words: Iterable[str], valued: Collection[str], flags: Collection[str] = ()) -> str:
    """A command line without the options in `valued`, each with its value, and without `flags`."""
    kept: list[str] = []
    skipping = False
    for word in words:
        option, equals, _ = word.partition("=")
        if skipping:
            skipping = False
        elif option in valued:
            skipping = not equals
        elif option not in flags:
            kept.append(word)
    return shlex.join(kept)


def command_of(data: Mapping[str, Any]) -> str:
    """The command that writes such results; empty when none does."""
    return next((command for command, keys in KEYS.items() if data.keys() >= keys), "")
