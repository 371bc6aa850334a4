"""Defaults of options in pyproject.toml, and `--watch`."""

import os
from pathlib import Path

import pytest

from fencepost.commands import watching
from fencepost.commands.entry import PURPOSES, SUMMARIES
from fencepost.commands.exit_codes import BadRequest, Exit
from tests.commands.running import exit_of

TABLE = """[tool.fencepost.check]
max-states = 5
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    return tmp_path / "pyproject.toml"


def test_a_default_holds_below_its_file_and_the_command_line_wins(project: Path) -> None:
    assert exit_of("check", "peterson") == Exit.HOLDS
    project.write_text(TABLE)
    assert exit_of("check", "peterson") == Exit.UNDECIDED
    assert exit_of("check", "peterson", "--max-states", "1000") == Exit.HOLDS
    assert exit_of("zoo", "peterson") == Exit.HOLDS, "the table of another command"


def test_options_that_may_be_repeated_are_lists(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project.write_text('[tool.fencepost.check]\nset = ["managers=2"]\n')
    assert exit_of("check", "two-phase") == Exit.HOLDS
    assert "managers=2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[tool.fencepost.check]\nmax-stats = 5\n",
            "[tool.fencepost.check] max-stats: fencepost check has no",
        ),
        ("[tool.fencepost]\ncheck = 5\n", "[tool.fencepost] check is no table"),
        ("[tool.fencepost", "pyproject.toml: "),
    ],
)
def test_a_mistake_in_the_file_is_one_line(
    text: str, message: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(text)
    assert exit_of("check", "peterson") == Exit.BAD_REQUEST
    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1


def test_a_change_of_a_file_runs_again_until_ctrl_c(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("")
    codes = [1, 0]

    def wait(_seconds: float) -> None:
        if not codes:
            raise KeyboardInterrupt
        os.utime(file, ns=(1, 1))

    def run() -> int:
        return codes.pop(0)

    assert watching.watch(tmp_path, run, wait=wait) == 0


def test_what_is_shipped_is_not_watched(capsys: pytest.CaptureFixture[str]) -> None:
    assert watching.folder_of(["check", "a/mine.py:M", "--strict"]) == Path("a")
    with pytest.raises(BadRequest, match="a file of yours"):
        watching.folder_of(["check", "peterson"])
    assert exit_of("check", "peterson", "--watch") == Exit.BAD_REQUEST
    assert "--watch needs a file of yours" in capsys.readouterr().err


def test_every_command_has_a_purpose() -> None:
    assert sorted(name for names in PURPOSES.values() for name in names) == sorted(SUMMARIES)
