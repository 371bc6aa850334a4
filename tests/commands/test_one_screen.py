"""The default output of a command fits on a screen: the verdict first, and `-v` for the rest."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fencepost.commands.entry import SUMMARIES
from fencepost.reports.check_text import zoo_text
from fencepost.reports.text import SCREEN
from fencepost.results import Row, ZooResult
from tests.commands.running import Run, exit_of

PASSING = {
    "check": ["check", "two-phase"],
    "zoo": ["zoo", "two-phase"],
    "audit": ["audit", "election"],
    "audit --mutants": ["audit", "election", "--mutants"],
    "audit --store": ["audit", "counter", "--store", "memory://", "--rounds", "2"],
    "probe": ["probe", "memory://", "--quick"],
    "simulate": ["simulate", "rfc-013-hops", "--jobs", "1"],
    "replay": ["replay", "{folder}/trace.jsonl", "--model", "publish"],
    "report": ["report", "{folder}"],
}
ANNOUNCED = ("probe", "audit --store")
"""They print what they will write before they write it."""
ELSEWHERE = ("demo", "ingest", "catalog", "objects", "streams", "lifecycle", "proxy", "completion")
"""The demo has a limit of its own; the others serve until they are stopped, list, or print a script."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("results")
    trace = str(made / "trace.jsonl")
    settings = ("--set", "scenario=takeover", "--set", "coverage=off")  # which explores the whole model
    exit_of("audit", "publish", *settings, "--max-schedules", "1", "--trace", trace)
    exit_of("check", "two-phase", "--json", str(made / "check.json"))
    return made


def test_every_command_is_here() -> None:
    assert {words[0] for words in PASSING.values()} | set(ELSEWHERE) == set(SUMMARIES)


@pytest.mark.parametrize("name", PASSING)
def test_a_passing_run_fits_on_a_screen(name: str, folder: Path, ran: Run) -> None:
    code, out, err = ran(*(word.format(folder=folder) for word in PASSING[name]))
    assert code in (0, 3)
    lines = [*out.splitlines(), *err.splitlines()]
    assert len(lines) <= SCREEN, "\n".join(lines)
    verdicts = ("holds", "safe", "undecided")
    assert any(line.startswith(verdicts) for line in lines[: 3 if name in ANNOUNCED else 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["zoo"], ["check", "publish"], ["check", "ingest"], ["simulate", "regions"]]
)
def test_large_results_fit_on_a_screen(words: list[str], ran: Run) -> None:
    _, out, err = ran(*words)
    assert len([*out.splitlines(), *err.splitlines()]) <= SCREEN, out


def test_a_zoo_of_any_size_fits_on_a_screen_and_shows_what_is_unexpected() -> None:
    """If this fails, the next models that ship push the unexpected rows out of sight."""
    rows = [
        Row(model=f"model-{i}", safeguard=f"guard-{j}", kind="safeguard", verdict="violated", found=True)
        for i in range(60)
        for j in range(5)
    ]
    rows.append(replace(rows[0], safeguard="vain", found=False, verdict="holds", unexpected=True))
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(zoo_text(ZooResult(rows=tuple(rows), verdict="violated")))
    lines = console.export_text().splitlines()
    assert len(lines) <= SCREEN, "\n".join(lines)
    assert any("model-0 without vain" in line for line in lines)
    assert all(f"model-{i} (" in " ".join(lines) for i in range(60))


@pytest.mark.parametrize("name", ["check", "audit", "probe", "replay"])
def test_more_is_shown_on_request(name: str, folder: Path, ran: Run) -> None:
    words = [word.format(folder=folder) for word in PASSING[name]]
    brief, whole = (ran(*words, *more)[1].splitlines() for more in ([], ["-v"]))
    assert len(whole) > len(brief)
    assert brief[0].partition(" ")[0] == whole[0].partition(" ")[0]


def test_a_violation_shows_its_trace_and_ends_with_the_command_that_repeats_it(ran: Run) -> None:
    for words in (
        ["check", "two-phase", "--without", "all-prepared"],
        ["audit", "counter", "--mutant", "read-modify-write"],
    ):
        code, out, _ = ran(*words)
        lines = out.splitlines()
        assert code == 1
        assert lines[0].startswith("violated: ")
        assert any(line.lstrip().startswith("1") for line in lines)
        assert lines[-1].startswith(f"fencepost {' '.join(words)}")
