"""The changes of CONTRIBUTING.md's table "To add ... edit ...", made as the table says, and their effect.

Each test makes one change in the registry that the table names and sees it work. Other rows are followed in
tests/test_contributing.py, which lists the test of every row.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, cast

import click
import numpy as np
import pytest

from fencepost.commands import entry
from fencepost.commands.exit_codes import Exit
from fencepost.examples import zoo
from fencepost.impl.store import ABSENT, Outcome
from fencepost.impl.store.bucket import Bucket
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Reply, Request
from fencepost.reports.folder import Findings
from fencepost.reports.page import page
from fencepost.sim.des import Profile, Setup, StoreModel, Workload, simulate
from fencepost.sim.probe import Feature
from fencepost.sim.probe import features as probed
from fencepost.sim.scenarios import loading
from tests.commands.running import exit_of


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
        answering: ClassVar[Mapping[type, str]] = {**Bucket.answering, Touch: "_touch"}

        def _touch(self, request: Touch, _now_ns: int) -> Reply:
            return request.ends(Outcome.DONE if request.key in self.contents() else Outcome.MISSING)

    store = MemoryStore()
    monkeypatch.setattr(store, "_bucket", Touching())
    store.put("k", b"", when=ABSENT)
    assert [store.send(Touch(key)).outcome for key in ("k", "other")] == [Outcome.DONE, Outcome.MISSING]


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
