"""The JSON of every command: it has the published schema, and what is read back is what was written."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

import fencepost.results
from fencepost.reports.command_lines import drop_options
from fencepost.results import (
    COMMANDS,
    DEFINED_IN,
    Row,
    command_of,
    from_json,
    hints_of,
    recorded,
    result_class,
    to_json,
)
from tests.commands.running import exit_of
from tests.reports import samples

SCHEMAS = Path(__file__).parent.parent.parent / "docs" / "reference" / "schemas"
RUNS = {
    "check": ["check", "two-phase", "--without", "all-prepared"],
    "zoo": ["zoo", "two-phase"],
    "audit": ["audit", "election", "--mutant", "check-then-create"],
    "mutants": ["audit", "election", "--mutants"],
    "probe": ["probe", "memory://", "--quick", "--only", "create-only-put,etags"],
    "simulate": ["simulate", "cap-tail", "--sweep", "store.in_flight=20,32", "--jobs", "1"],
}


def checked(command: str, data: Any) -> Any:
    schema = json.loads((SCHEMAS / f"{command}.json").read_text())
    jsonschema.validate(data, schema, cls=jsonschema.Draft202012Validator)
    return recorded(result_class(command), data)


@pytest.mark.parametrize("command", RUNS)
def test_the_output_of_a_command_has_its_schema(command: str, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    assert exit_of(*RUNS[command], "--json", str(file)) in (0, 1, 3)
    data = json.loads(file.read_text())
    assert command_of(data) == command
    result = checked(command, data)
    assert to_json(result) == data
    assert result.provenance.command.startswith(f"fencepost {RUNS[command][0]} ")


def test_a_real_run_on_a_store_has_the_schema_of_an_audit(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    exit_of("audit", "counter", "--store", "memory://", "--rounds", "2", "--json", str(file))
    assert checked("audit", json.loads(file.read_text())).result.real.threads == 3


def test_a_replay_has_its_schema(tmp_path: Path) -> None:
    trace, file = tmp_path / "t.jsonl", tmp_path / "r.json"
    words = [
        "--set",
        "scenario=takeover",
        "--set",
        "coverage=off",
        "--max-schedules",
        "1",
        "--trace",
        str(trace),
    ]
    exit_of("audit", "publish", *words)
    assert exit_of("replay", str(trace), "--model", "publish", "--json", str(file)) == 0
    assert checked("replay", json.loads(file.read_text())).result.accepted == 1


def test_every_command_has_a_schema_and_no_schema_is_left_over() -> None:
    assert {file.stem for file in SCHEMAS.glob("*.json")} == {*COMMANDS, "lifecycle-status"}
    for file in SCHEMAS.glob("*.json"):
        jsonschema.Draft202012Validator.check_schema(json.loads(file.read_text()))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"verdict": "maybe"}, "verdict is 'maybe'"),
        ({"features": [{"verdict": "safe", "detail": ""}]}, "features[0] has no 'name'"),
        ({"latency": {"put": {"p50": "fast"}}}, "latency.put.p50 is 'fast', expected float"),
        ({"requests": True}, "requests is 'True', expected int"),
        ({"url": None}, "url is 'None', expected str"),
    ],
)
def test_a_value_that_does_not_fit_is_named_and_fails_the_schema(change: dict[str, Any], place: str) -> None:
    """A report must not print a number that is none."""
    data = {**samples.PROBE, **change}
    with pytest.raises(ValueError, match="^" + place.replace("[", r"\[").replace("]", r"\]")):
        from_json(result_class("probe"), data)
    with pytest.raises(jsonschema.ValidationError):
        checked("probe", data)


def test_keys_of_a_newer_version_are_ignored() -> None:
    row = from_json(Row, {"safeguard": "", "kind": "model", "verdict": "holds", "found": False, "new": 1})
    assert row.model is None
    assert "model" not in to_json(row), "None is left out"


def test_options_are_dropped_with_their_values() -> None:
    words = ["fencepost", "check", "m", "--json", "a b", "--set", "x=1", "--json=c", "-v"]
    assert drop_options(words, ("--json",), ("-v",)) == "fencepost check m --set x=1"


def test_every_class_of_results_is_defined_in_one_place() -> None:
    """If this fails, a result has two classes again, and one is copied into the other field by field."""
    listed = [name for names in DEFINED_IN.values() for name in names]
    assert len(listed) == len(set(listed))
    for module, names in DEFINED_IN.items():
        for name in names:
            found = getattr(fencepost.results, name)
            assert (found.__module__, found.__name__) == (f"fencepost.{module}", name)
    assert set(COMMANDS.values()) <= set(listed)


def test_a_type_checker_sees_the_same_classes() -> None:
    tree = ast.parse(Path(fencepost.results.__file__).read_text())
    seen = {
        (node.module.removeprefix("fencepost."), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fencepost.")
        for alias in node.names
        if alias.asname == alias.name
    }
    assert seen == {(module, name) for module, names in DEFINED_IN.items() for name in names}


def test_reading_results_loads_no_layer() -> None:
    code = "import sys, fencepost.results; print([m for m in sys.modules if m.startswith('fencepost.')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['fencepost.results']"


def test_a_result_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="undecided without a reason"):
        from_json(result_class("check"), {**CHECK, "properties": [UNREASONED]})


UNREASONED = {"name": "p", "kind": "invariant", "verdict": "undecided"}
CHECK = {
    "model": "m",
    "parameters": {},
    "without": [],
    "verdict": "undecided",
    "coverage": {},
    "distinct": 1,
    "generated": 1,
    "depth": 0,
    "seconds": 0.0,
    "peak_bytes": 0,
}


RELIED_ON = {
    "check": "model parameters without verdict distinct generated depth seconds peak_bytes coverage"
    " properties.name properties.kind properties.verdict properties.trace",
    "zoo": "rows.model rows.safeguard rows.property rows.length rows.seconds rows.found",
    "audit": "system strategy parameters verdict bound schedules pruned seconds coverage"
    " violations.property violations.token",
    "probe": "url verdict latency features.name features.verdict features.detail",
    "simulate": "scenario runs.parameters runs.operations runs.throughput runs.dollars_month"
    " checks.name checks.reference checks.simulated checks.error checks.ok",
    "replay": "model engine runs events accepted rejected undecided seconds events_per_second"
    " violations.run violations.seq violations.event violations.reason",
}
"""Keys that scripts rely on; more may be added, these are never renamed."""


@pytest.mark.parametrize("command", RELIED_ON)
def test_the_keys_that_scripts_rely_on_stay(command: str) -> None:
    for path in RELIED_ON[command].split():
        kind = result_class(command)
        for name in path.split("."):
            hints = hints_of(kind)
            assert name in hints, path
            inner = [one for one in get_args(hints[name]) if isinstance(one, type)]
            kind = inner[0] if inner else hints[name]
