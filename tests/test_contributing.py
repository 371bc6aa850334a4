"""The table "To add ... edit ..." of CONTRIBUTING.md leads a newcomer to the right place."""

import ast
import contextlib
import csv
import importlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from fencepost.commands import replay
from fencepost.impl.objects.wire import errors
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.events import Event
from fencepost.impl.store.requests import ANYTHING, Request
from fencepost.impl.store.s3 import endings
from fencepost.impl.store.s3.endings import Ending
from fencepost.reports import simulate_text
from fencepost.sim import faults
from fencepost.sim.boto.buckets import Buckets
from fencepost.sim.boto.sdk_requests import Refused
from fencepost.sim.des import result
from fencepost.sim.explore import audit
from fencepost.sim.trace import table_of, write_parquet
from fencepost.sim.world import NO_FAULTS, World
from fencepost.sim.world.properties import Property
from tests.commands.running import exit_of
from tests.commands.test_replay import BAD, GOOD, MAP, traced
from tests.sim.boto.test_same_as_s3_store import Driven
from tests.sim.boto.worlds import setting_up

ROOT = Path(__file__).parent.parent
COLUMNS = ("to add", "edit", "registry", "listed by")


def rows() -> list[dict[str, str]]:
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## To add ... edit ...")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    assert cells[0] == list(COLUMNS)
    return [dict(zip(COLUMNS, row, strict=True)) for row in cells[2:]]


ROWS = rows()


def module_of(path: str) -> Any:
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return importlib.import_module(dotted if dotted.startswith("fencepost.") else f"fencepost.{dotted}")


def names(registry: Any) -> set[str]:
    """The names of the entries: keys of a table, texts, or the `name` of objects."""
    if isinstance(registry, dict):
        return set(registry)
    return {entry if isinstance(entry, str) else entry.name for entry in registry}


def test_every_kind_of_change_of_the_house_is_there() -> None:
    assert len(ROWS) == len({row["to add"] for row in ROWS}) >= 12


@pytest.mark.parametrize("row", ROWS, ids=[row["to add"] for row in ROWS])
def test_a_row_leads_to_the_place(row: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the place has moved, or the command reads another registry than the one named."""
    paths = re.findall(r"`([\w./<>]+)`", row["edit"])
    assert paths
    for path in paths:
        assert "<" in path or (ROOT / path).exists(), path
    if row["registry"]:
        registry = getattr(module_of(paths[0]), row["registry"].strip("`"))
        if row["to add"] == "a fault kind":  # an audit lists those of worlds; servers and proxies have more
            registry = faults.names(faults.WORLD)
    if row["listed by"]:
        program, *words = shlex.split(row["listed by"].strip("`"))
        assert program == "fencepost"
        exit_of(*words)
        printed = "".join(capsys.readouterr())
        expected = (
            names(registry) if row["registry"] else {file.stem for file in (ROOT / paths[0]).glob("*.toml")}
        )
        assert expected
        missing = {
            name for name in expected if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", printed)
        }
        assert not missing


def test_an_s3_error_code_is_a_row_of_each_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """The world answers the new code with its status and message; our driver gives it its meaning."""
    monkeypatch.setitem(cast(dict[str, Any], errors.CODES), "OutOfTea", (418, "There is no tea."))
    monkeypatch.setitem(cast(dict[str, Any], endings.CODES), "OutOfTea", Ending(Unusable, "make some"))

    def refused(_buckets: Buckets, request: Request[Any], _now_ns: int) -> Any:
        raise Refused("OutOfTea", pot=request.subject)

    monkeypatch.setattr(Buckets, "_put", refused)
    with contextlib.closing(setting_up()) as world:
        world.boto3_bucket("box")
        with pytest.raises(ClientError) as answered:
            world.boto3_client("s3").put_object(Bucket="box", Key="k")
        assert answered.value.response["ResponseMetadata"]["HTTPStatusCode"] == 418
        answer = answered.value.response["Error"]
        assert (answer["Code"], answer["Message"], answer["Pot"]) == ("OutOfTea", "There is no tea.", "box/k")
        store = Driven("box", "")
        store.world = world
        with store, pytest.raises(Unusable, match=r"There is no tea.*make some"):
            store.put("k", b"", when=ANYTHING)


def test_a_trace_source_is_a_row_and_its_reader(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def from_csv(options: Mapping[str, Any], folder: Path) -> Any:
        numbers = {"seq", "t_ns", "incarnation", "op"}
        events = [
            Event(**{name: int(text) if name in numbers else text for name, text in row.items()})
            for name in options["traces"]
            for row in csv.DictReader(Path(name).read_text(encoding="utf-8").splitlines())
        ]
        write_parquet(folder / "from-csv.parquet", table_of(events))
        return replay.replay_traces({**options, "traces": [str(folder / "from-csv.parquet")]}, folder)

    monkeypatch.setitem(replay.SOURCES, "csv", from_csv)
    [source] = [option for option in replay.command.params if option.name == "source"]
    monkeypatch.setattr(source.type, "choices", tuple(replay.SOURCES))
    columns = ("run", "seq", "t_ns", "process", "incarnation", "op", "phase", "kind", "key")
    columns += ("trace_fields", "outcome")
    for events, code in ((GOOD, 0), (BAD, 1)):
        with (tmp_path / "events.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([getattr(event, name) for name in columns] for event in traced(events))
        (tmp_path / "lock_map.py").write_text(MAP)
        model = f"{tmp_path}/lock_map.py:LockMap"
        assert exit_of("replay", f"{tmp_path}/events.csv", "--from", "csv", "--model", model) == code
    exit_of("replay", "--help")
    assert "|csv]" in capsys.readouterr().out


def test_a_simulate_column_is_a_field_its_measure_and_its_head(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """If this fails, some part of `simulate` has a list of measures besides the table."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Wider(result.OperationStats):
        hops_a_request: float = 0.0

    measure = result.Measure(lambda found: sum(found.samples.hops) / sum(found.samples.requests))
    monkeypatch.setitem(result.MEASURES, "hops_a_request", measure)
    monkeypatch.setattr(result, "OperationStats", Wider)
    monkeypatch.setitem(simulate_text.COLUMNS, "hops/req", lambda stats: cast(Wider, stats).hops_a_request)
    scenario = tmp_path / "mine.toml"
    scenario.write_text(
        'title = "Mine"\n[workload]\nsystem = "described"\npath = "rfc-013"\noperations = 1\n'
        "parameters = { namespace = 0, authenticated = 1 }\n"
        '[objectives]\n"write.hops_a_request" = "< 100"\n'
    )
    assert exit_of("simulate", str(scenario), "--json", "-") == 0
    printed = capsys.readouterr()
    stats = json.loads(printed.out)["runs"][0]["operations"]["write"]
    assert 0 < stats["hops_a_request"] == pytest.approx(stats["serial_hops"] / stats["requests"])
    assert "hops/req" in printed.err


def test_a_name_that_is_missing_would_be_noticed() -> None:
    assert names({"a": 1}) == {"a"}
    assert names(["c"]) == {"c"}


ADDED_FAULT = """
import json
from dataclasses import asdict
from fencepost.impl.store.requests import Outcome
from fencepost.sim import faults

faults.add(faults.FaultKind(
    "refused", "answered 412; not applied", "wrong 412", "wrong 412s", 0, (faults.WORLD,),
    (faults.Alternative("refused", "412 from the ADVERSARY", offered=faults.WRITES),),
))

from fencepost.impl.store import ABSENT
from fencepost.sim.explore import audit, replay
from fencepost.sim.world import NO_FAULTS, Budget
from fencepost.sim.world.effects import effect
from fencepost.commands.audit import read_faults


@effect("refused")
def refuse(steps, record, process, request, number):
    return request.ends(Outcome.EXISTS, "by the adversary")


def create(world):
    world.note("outcome", world.store().put("k", b"", when=ABSENT).outcome.value)


def program(world):
    world.spawn(create, world, name="p")
    world.always("created", lambda view: view.notes("outcome") in ([], ["done"]))


budget = Budget(**{**asdict(NO_FAULTS), **read_faults(["refused=1"])})
found = audit(program, budget=budget)
one = found.counterexamples[0]
print(json.dumps({
    "budget": [budget.sentence(), budget.but(refused=2).sentence(), budget.most()],
    "without": len(audit(program, budget=NO_FAULTS).counterexamples),
    "verdict": found.verdict,
    "bound": found.bound,
    "text": "\\n".join(one.text()),
    "faults": found.result().coverage.faults,
    "token": one.token,
    "replayed": replay(program, one.token, budget=NO_FAULTS).violation.name,
}))
"""


def test_a_fault_kind_is_a_row_and_its_effect() -> None:
    """Modules read the table when they are imported, so the kind is added in an interpreter of its own.

    If this fails, some part of the audit has a list of faults besides the table.
    """
    ran = subprocess.run([sys.executable, "-c", ADDED_FAULT], capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    shown = json.loads(ran.stdout)
    assert shown["budget"] == ["at most 1 wrong 412", "at most 2 wrong 412s", 1]
    assert shown["without"] == 0
    assert shown["verdict"] == "violated"
    assert "at most 1 wrong 412" in shown["bound"]
    assert "412 from the ADVERSARY" in shown["text"]
    assert shown["faults"] == {"refused": 1}
    assert shown["token"] == "p:put:k:1=refused"
    assert shown["replayed"] == "created"


def test_a_kind_of_world_property_is_a_class() -> None:
    """A kind with a decision procedure of its own is judged without a change elsewhere."""

    class Never(Property):
        """The check must stay false."""

        kind = "never"

        __slots__ = ()

        def decide(self, verdict: Any) -> str | None:
            return "it happened" if verdict else None

    def program(world: World) -> None:
        world.spawn(lambda: world.note("seen"), name="p")
        world._promise(Never, "unseen", lambda view: bool(view.notes("seen")))

    result = audit(program, budget=NO_FAULTS)
    assert [(one.property, one.reason) for one in result.counterexamples] == [("unseen", "it happened")]


def test_every_benchmark_is_named() -> None:
    """A benchmark that no session, page or other benchmark names measures nothing that anybody reads."""
    named = (ROOT / "noxfile.py").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    files = sorted((ROOT / "bench").glob("*.py"))
    imported = {
        alias.name
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in ("bench", *(f"bench.{f.stem}" for f in files))
        for alias in (
            node.names if node.module == "bench" else [ast.alias(node.module.removeprefix("bench."))]
        )
    }
    unnamed = [
        file.stem
        for file in files
        if file.stem not in imported
        and f'"{file.stem.replace("_", "-")}"' not in named
        and f"bench.{file.stem}" not in named
        and file.stem != "__init__"
    ]
    assert not unnamed


FOLLOWED = {
    "a fault kind": "tests/test_contributing.py:test_a_fault_kind_is_a_row_and_its_effect",
    "a kind of property of a world": "tests/test_contributing.py:test_a_kind_of_world_property_is_a_class",
    "an S3 error code": "tests/test_contributing.py:test_an_s3_error_code_is_a_row_of_each_side",
    "a simulate column": (
        "tests/test_contributing.py:test_a_simulate_column_is_a_field_its_measure_and_its_head"
    ),
    "a trace source": "tests/test_contributing.py:test_a_trace_source_is_a_row_and_its_reader",
    "a kind of property": "tests/model/test_kinds.py:test_",
    "a store operation": "tests/test_contributing_changes.py:test_a_store_operation",
    "a probe row": "tests/test_contributing_changes.py:test_a_probe_row",
    "a zoo entry": "tests/test_contributing_changes.py:test_a_zoo_entry",
    "a latency distribution": "tests/test_contributing_changes.py:test_a_latency_distribution",
    "a section of the report": "tests/test_contributing_changes.py:test_a_section_of_the_report",
    "a command, or an option of one": "tests/test_contributing_changes.py:test_a_command_and_its_option",
    "a capacity scenario": "tests/test_contributing_changes.py:test_a_capacity_scenario",
    "a system": "tests/docs/test_add_a_system.py:test_every_command_lists_the_system",
}
"""The test that makes the change of each row, by the beginning of the row's first cell."""


@pytest.mark.parametrize("row", ROWS, ids=[row["to add"] for row in ROWS])
def test_a_test_makes_the_change_of_a_row(row: dict[str, str]) -> None:
    """If this fails, a row of the table is a claim that nothing tries."""
    starts = [start for start in FOLLOWED if row["to add"].startswith(start)]
    assert starts
    file, _, function = FOLLOWED[max(starts, key=len)].partition(":")
    assert f"\ndef {function}" in (ROOT / file).read_text()
