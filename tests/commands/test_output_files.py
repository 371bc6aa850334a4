"""A file that a command will write in the end: refused at once when it cannot be; nothing is left behind."""

import os
from pathlib import Path

import click
import pytest

from fencepost.commands.entry import SUMMARIES, group
from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.output_files import TARGET, Target, obstacle
from tests.commands.running import exit_of


def test_what_can_be_written_is_taken_and_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.json").write_text("old")
    for target in ("new.json", "old.json", str(tmp_path / "new.json"), "-"):
        assert obstacle(target) == ""
    assert [file.name for file in tmp_path.iterdir()] == ["old.json"]
    assert (tmp_path / "old.json").read_text() == "old"


def test_what_cannot_be_written_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for target, why in {
        "": "Invalid argument",
        "a\0b": "Invalid argument",
        str(tmp_path): "Is a directory",
        str(tmp_path / "none" / "r.json"): "No such file or directory",
        str(tmp_path / "file" / "r.json"): "Not a directory",
    }.items():
        assert obstacle(target) == why
    with pytest.raises(BadRequest, match=r"^cannot write '': Invalid argument; give --json another file$"):
        TARGET.convert("", None, None)


def test_a_pipe_is_taken_although_nothing_can_be_made_beside_it(tmp_path: Path) -> None:
    """`fencepost check two-phase --json >(jq .verdict)` names one in /proc/self/fd."""
    reading, writing = os.pipe()
    try:
        assert obstacle(f"/dev/fd/{writing}") == ""
        assert obstacle("/dev/null") == ""
    finally:
        os.close(reading)
        os.close(writing)


def test_a_file_in_a_folder_that_the_command_makes_is_taken(tmp_path: Path) -> None:
    """`fencepost simulate mine.toml --out new --json new/result.json`"""
    assert obstacle(str(tmp_path / "none" / "r.json"), makes_folders=True) == ""
    assert obstacle(str(tmp_path), makes_folders=True) == "Is a directory"


def test_it_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, half an hour of search ends with a result that nobody has."""
    assert exit_of("check", "publish", "--json", str(tmp_path)) == Exit.BAD_REQUEST
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == f"fencepost: cannot write {tmp_path}: Is a directory; give --json another file\n"


def commands(command: click.Command) -> list[click.Command]:
    if not isinstance(command, click.Group):
        return [command]
    context = click.Context(command)
    found = [command.get_command(context, name) for name in command.list_commands(context)]
    return [deeper for each in found if each is not None for deeper in commands(each)]


@pytest.mark.parametrize("name", [name for name in SUMMARIES if name != "report"])
def test_every_command_that_writes_a_result_checks_first(name: str) -> None:
    """`report` takes no time, and makes folders for all it writes."""
    found = group.get_command(click.Context(group), name)
    assert found is not None
    for command in commands(found):
        for option in command.params:
            if "--json" in option.opts:
                assert isinstance(option.type, Target), command.name
