"""Results are found whatever else a folder holds, and what cannot be read is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.reports.folder import read_folder
from tests.commands.running import exit_of
from tests.reports.samples import PROBE, REPLAY, SIMULATE, write, write_samples


def test_every_command_is_known_again(tmp_path: Path) -> None:
    write_samples(tmp_path)
    write(tmp_path, "probe.json", PROBE)
    write(tmp_path, "sim.json", SIMULATE)
    write(tmp_path, "replay.json", REPLAY)
    found = read_folder(tmp_path)
    assert [(r.file, r.command, r.verdict) for r in found.results] == [
        ("check-without.json", "check", "violated"),
        ("check.json", "check", "holds"),
        ("deep/audit.json", "audit", "violated"),
        ("probe.json", "probe", "unsafe"),
        ("replay.json", "replay", "violated"),
        ("sim.json", "simulate", "violated"),
        ("zoo.json", "zoo", "holds"),
    ]
    assert not found.unread
    assert [r.title for r in found.results][:3] == [
        "check two-phase without all-prepared",
        "check peterson",
        "audit election without check-then-create",
    ]
    assert [r.expected for r in found.results] == [True, False, True, False, False, False, False]


def test_what_is_no_result_is_passed_over(tmp_path: Path) -> None:
    """A folder of results also holds profiles, packages, and hidden files of editors."""
    write(tmp_path, "package.json", {"name": "mine"})
    write(tmp_path, "list.json", [1, 2])
    write(tmp_path, ".hidden.json", PROBE)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "notes.txt").write_text("{")
    found = read_folder(tmp_path)
    assert not found.results
    assert not found.unread


def test_what_cannot_be_read_is_named_and_hides_nothing(tmp_path: Path) -> None:
    write(tmp_path, "good.json", PROBE)
    (tmp_path / "cut.json").write_text('{"model": "x",\n "dist')
    (tmp_path / "bytes.json").write_bytes(b'{"a": "\xff"}')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    found = read_folder(tmp_path)
    assert [r.file for r in found.results] == ["good.json"]
    assert set(found.unread) == {"bytes.json", "cut.json", "deep.json"}
    assert found.unread["cut.json"].startswith("line 2: it is not whole JSON")
    assert found.unread["bytes.json"] == "it is not text: byte 7 is no UTF-8"


def missed(folder: Path, **more: Any) -> Path:
    """The audit of a mutant in which nothing was found."""
    data = {
        "strategy": "exhaustive",
        "schedules": 7,
        "verdict": "holds",
        "bound": "every schedule",
        "seconds": 1.0,
    }
    made = {"command": "fencepost audit election --mutant check-then-create"}
    write(folder, "missed.json", {"system": "election", **data, "violations": [], "provenance": made, **more})
    return folder


def test_a_mutant_that_is_not_found_is_a_violation_of_every_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A green report would say that the audit can find what it cannot."""
    words = ["--junit", str(tmp_path / "j.xml"), "--sarif", str(tmp_path / "s.json"), "--annotations", "-"]
    assert exit_of("report", str(missed(tmp_path)), "--markdown", str(tmp_path / "m.md"), *words) == 1
    output = capsys.readouterr()
    assert output.err.startswith("violated: 1 result in")
    title = "title=audit election without check-then-create%3A check-then-create"
    assert output.out == f"::error {title}::the mutant was not found: every schedule\n"
    text = (tmp_path / "report.html").read_text()
    assert 'class="banner bad"' in text
    assert "the mutant was not found: every schedule (7 schedules)" in text
    assert "Switched off on purpose" not in text
    assert "| ❌ violated | the mutant was not found" in (tmp_path / "m.md").read_text()
    assert '<failure message="the mutant was not found' in (tmp_path / "j.xml").read_text()
    (row,) = json.loads((tmp_path / "s.json").read_text())["runs"][0]["results"]
    assert row["ruleId"] == "check-then-create"
    assert row["message"]["text"].endswith("the mutant was not found: every schedule")


@pytest.mark.parametrize(
    ("more", "verdict"), [({"verdict": "undecided"}, "undecided"), ({"token": "default"}, "holds")]
)
def test_a_mutant_that_was_not_searched_for_to_the_end_is_not_missed(
    tmp_path: Path, more: dict[str, Any], verdict: str
) -> None:
    assert read_folder(missed(tmp_path, **more)).verdict == verdict
