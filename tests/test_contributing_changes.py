"""The changes of CONTRIBUTING.md's table "To add ... edit ...", made as the table says, and their effect.

Each test makes one change in the registry that the table names and sees it work. Other rows are followed in
tests/test_contributing.py, which lists the test of every row.
"""

import contextlib
import csv
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import click
import numpy as np
import pytest
from botocore.exceptions import ClientError

from fencepost.commands import entry
from fencepost.commands import replay as replaying
from fencepost.commands.exit_codes import Exit
from fencepost.examples import zoo
from fencepost.impl.objects.wire import errors
from fencepost.impl.store import ABSENT, ANYTHING, Outcome
from fencepost.impl.store.bucket import Bucket
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.events import Event
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Put, Reply, Request
from fencepost.impl.store.s3 import endings
from fencepost.impl.store.s3.endings import Ending
from fencepost.reports import simulate_text
from fencepost.reports.folder import Findings
from fencepost.reports.page import page
from fencepost.results import OperationStats, ReplayResult
from fencepost.sim.boto.buckets import Buckets
from fencepost.sim.boto.sdk_requests import Refused
from fencepost.sim.des import Profile, Setup, StoreModel, Workload, result, simulate
from fencepost.sim.probe import Feature
from fencepost.sim.probe import features as probed
from fencepost.sim.scenarios import loading
from fencepost.sim.trace import table_of, write_parquet
from tests.commands.running import exit_of
from tests.commands.test_replay import BAD, GOOD, MAP, traced
from tests.sim.boto.test_same_as_s3_store import Driven
from tests.sim.boto.worlds import setting_up


@dataclass(frozen=True, slots=True)
class Touch(Request[Reply], kind="touch"):
    """A store operation that does not exist: write an object's bytes again."""

    key: str

    @property
    def subject(self) -> str:
        return self.key


def test_a_store_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is a value; a backend answers it by its type."""

    class Touching(Bucket):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._answers[Touch] = self._touch

        def _touch(self, request: Touch, _now_ns: int) -> Reply:
            return request.ends(Outcome.DONE if request.key in self.contents() else Outcome.MISSING)

    store = MemoryStore()
    monkeypatch.setattr(store, "_bucket", Touching())
    store.put("k", b"", when=ABSENT)
    assert [store.send(Touch(key)).outcome for key in ("k", "other")] == [Outcome.DONE, Outcome.MISSING]


def test_an_s3_error_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A code is a row; without it the same answer is a refusal that a user must look into."""
    response = {"Error": {"Code": "TryLater"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    error = ClientError(cast("Any", response), "PutObject")
    request = Put("k", b"", when=ABSENT)
    with pytest.raises(Exception, match="TryLater"):
        endings.ended(request, error, "s3://b")
    codes = {**endings.CODES, "TryLater": endings.Ending(Outcome.THROTTLED)}
    monkeypatch.setattr(endings, "CODES", codes)
    assert endings.ended(request, error, "s3://b").outcome is Outcome.THROTTLED


def test_a_probe_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One registry lists a feature, estimates its requests and runs it."""
    feature = Feature("echo", "Does a get return what was put?", lambda bench: "seen")
    monkeypatch.setitem(probed.BY_NAME, "echo", feature)
    assert exit_of("probe", "memory://", "--quick", "--only", "echo", "--json", "-") == Exit.HOLDS
    (found,) = json.loads(capsys.readouterr().out)["features"]
    assert (found["name"], found["verdict"], found["detail"]) == ("echo", "safe", "seen")


LEADERS = """
from fencepost.impl.store import ABSENT, ANYTHING


def elect(world, when):
    store = world.store()
    for name in ("ann", "bob"):
        world.spawn(lead, world, store, name, when, name=name)
    world.always("one leads", lambda view: len(view.notes("leads")) < 2)


def lead(world, store, name, when):
    if store.put("leader", name.encode(), when=when).done:
        world.note("leads", name)


def broken(world):
    elect(world, ANYTHING)


def fixed(world):
    elect(world, ABSENT)
"""


def test_a_zoo_entry(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An entry is a row and a program beside it: the broken form must be found, the fixed form holds."""
    (tmp_path / "two_leaders.py").write_text(LEADERS)
    monkeypatch.setattr(zoo, "__path__", [*zoo.__path__, str(tmp_path)])
    monkeypatch.setitem(zoo.ENTRIES, "two-leaders", zoo.Entry("one leads", ("a report",)))
    exit_of("zoo", "--list")
    assert "program two-leaders:" in capsys.readouterr().out
    assert exit_of("zoo", "two-leaders", "--programs", "--json", "-") == Exit.HOLDS
    rows = json.loads(capsys.readouterr().out)["rows"]
    expected = {"broken": ("violated", zoo.ENTRIES["two-leaders"].property), "fixed": ("holds", "")}
    assert {row["kind"]: (row["verdict"], row["property"]) for row in rows} == expected


@dataclass(frozen=True, slots=True)
class Uniform:
    """A latency distribution that does not exist: every latency between two bounds is as likely."""

    low_ns: int
    high_ns: int

    def block(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.integers(self.low_ns, self.high_ns, count)

    @property
    def median_ns(self) -> int:
        return (self.low_ns + self.high_ns) // 2


def test_a_latency_distribution() -> None:
    """A distribution draws a block and has a median; the simulator needs nothing else of it."""
    latency = Profile(default=cast("Any", Uniform(10_000_000, 20_000_000)))
    workload = Workload("ingest", writers=1, operations=50)
    found = simulate(Setup(workload, store=StoreModel(latency=latency)))
    stats = next(iter(found.operations.values()))
    assert 10 * stats.serial_hops <= stats.mean <= 20 * stats.serial_hops
    assert stats.p50 < stats.p99


def test_a_column_of_simulate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A column is a head and a function of the measures of an operation."""
    columns: dict[str, Callable[[OperationStats], float]] = {
        **simulate_text.COLUMNS,
        "kB sent": lambda stats: stats.bytes_sent / 1000,
    }
    monkeypatch.setattr(simulate_text, "COLUMNS", columns)
    exit_of("simulate", "cap-tail", "--sweep", "store.in_flight=20", "--jobs", "1")
    heads, row = capsys.readouterr().out.splitlines()[2:4]
    assert "kB sent" in heads
    assert len(row.split()) > len(simulate_text.COLUMNS)


def test_a_section_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A section is a name, a heading and a function; the navigation follows."""
    added = ("weather", "Weather", lambda found: f"{len(found.results)} clouds")
    monkeypatch.setattr(page, "SECTIONS", (*page.SECTIONS, added))
    text = page.page(Findings())
    assert "0 clouds" in text
    assert 'href="#weather"' in text


def test_a_command_and_its_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command is a summary and a module; an option of it may have a default in pyproject.toml."""

    @click.command("greet", short_help="Greet somebody.")
    @click.option("--name", default="world", help="Who is greeted.")
    def command(name: str) -> int:
        """Greet somebody."""
        click.echo(f"hello {name}")
        return Exit.HOLDS

    module = ModuleType("fencepost.commands.greet")
    module.command = command
    monkeypatch.setitem(sys.modules, "fencepost.commands.greet", module)
    monkeypatch.setitem(entry.SUMMARIES, "greet", "Greet somebody.")
    monkeypatch.setitem(entry.PURPOSES, "Begin", (*entry.PURPOSES["Begin"], "greet"))
    assert exit_of("greet", "--name", "ann") == Exit.HOLDS
    exit_of("--help")
    printed = capsys.readouterr().out
    assert printed.startswith("hello ann\n")
    assert "Greet somebody." in printed


def test_a_capacity_scenario(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A scenario is a file in the library, and nothing else."""
    for file in loading.LIBRARY.glob("*.toml"):
        (tmp_path / file.name).write_text(file.read_text())
    name = next(iter(tmp_path.glob("*.toml")))
    (tmp_path / "my-study.toml").write_text(name.read_text())
    monkeypatch.setattr(loading, "LIBRARY", tmp_path)
    assert exit_of("simulate", "--list") == Exit.HOLDS
    assert "my-study" in capsys.readouterr().out


def test_a_trace_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A source judges its input and refuses what contradicts it; the command does the rest."""

    def judge(options: Any, _folder: Path) -> ReplayResult:
        lines = Path(options["traces"][0]).read_text().splitlines()
        counts: dict[str, Any] = {"events": len(lines), "accepted": 1, "rejected": 0, "undecided": 0}
        return ReplayResult(
            model="none",
            engine="local",
            runs=1,
            seconds=0.0,
            events_per_second=0.0,
            violations=(),
            verdict="holds",
            **counts,
        )

    added = replaying.Source(judge, lambda options: None)
    monkeypatch.setitem(replaying.SOURCES, "journal", added)
    option = next(one for one in replaying.command.params if one.name == "source")
    monkeypatch.setattr(option, "type", click.Choice(replaying.SOURCES))
    file = tmp_path / "journal.txt"
    file.write_text("one\ntwo\n")
    assert exit_of("replay", str(file), "--from", "journal", "--json", "-") == Exit.HOLDS
    assert json.loads(capsys.readouterr().out)["events"] == 2


def test_an_s3_error_code_of_our_server(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_trace_source_with_a_reader(
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
        return replaying._replay({**options, "traces": [str(folder / "from-csv.parquet")]}, folder)

    monkeypatch.setitem(replaying.SOURCES, "csv", replaying.Source(from_csv, replaying._check_traces))
    [source] = [option for option in replaying.command.params if option.name == "source"]
    monkeypatch.setattr(source.type, "choices", tuple(replaying.SOURCES))
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
    assert "[traces|access-log|csv]" in capsys.readouterr().out


def test_a_measure_of_simulate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """If this fails, some part of `simulate` has a list of measures besides the table."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Wider(result.OperationStats):
        hops_a_request: float = 0.0

    measure = result.Measure(lambda found: sum(found.samples.hops) / sum(found.samples.requests))
    monkeypatch.setitem(result.MEASURES, "hops_a_request", measure)
    monkeypatch.setattr(result, "OperationStats", Wider)
    columns = {**simulate_text.COLUMNS, "hops/req": lambda stats: cast(Wider, stats).hops_a_request}
    monkeypatch.setattr(simulate_text, "COLUMNS", columns)
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


def test_a_replaced_field_is_noticed() -> None:
    """The measures of an operation are one class, so a column cannot name one that is gone."""
    stats = OperationStats(count=1, p50=1.0, p99=1.0, requests=1.0, serial_hops=1.0)
    assert simulate_text.COLUMNS["p50 ms"](replace(stats, p50=7.0)) == 7.0
