"""The command line as a whole: exit codes, one clear line for an error, never a traceback."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from fencepost.commands import entry
from fencepost.commands.entry import SUMMARIES, group, run
from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.output_files import write_json
from fencepost.impl.store import Unusable
from tests.commands.running import exit_of as ends
from tests.commands.test_in_a_terminal import INPUTS


def raising(error: BaseException) -> int:
    def act() -> None:
        raise error

    return run(act)


def test_help_names_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("--help") == Exit.HOLDS
    text = capsys.readouterr().out
    for name in SUMMARIES:
        assert name in text
    assert "3 not decided" in text


def test_every_command_of_the_table_can_be_loaded() -> None:
    """The table of summaries is written by hand, so nothing else would notice an invalid name."""
    for name in SUMMARIES:
        command = group.get_command(click.Context(group), name)
        assert isinstance(command, click.Command)
        assert ends(name, "--help") == Exit.HOLDS


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["chek"], "No such command 'chek'. Did you mean 'check'? Try '"),
        (["tell"], "No such command 'tell'. Try '"),
        (["demo", "now"], "unexpected extra argument (now). Try '"),
        (["--verbos"], "No such option"),
        (["probe", "memory://", "--no-such-option"], "No such option"),
        (["probe"], "name the store"),
        (["probe", "gopher://x"], "known: memory://"),
    ],
)
def test_an_invalid_request_is_one_line_and_exits_with_2(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(*words) == Exit.BAD_REQUEST
    output = capsys.readouterr()
    assert says in output.err
    assert output.err.startswith("fencepost: ")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("name", SUMMARIES)
def test_an_unknown_option_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(name, "--no-such-option") == Exit.BAD_REQUEST
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "--no-such-option" in shown
    assert "--help" in shown


@pytest.mark.parametrize("name", [name for name in INPUTS if name in SUMMARIES])
def test_a_file_that_is_not_there_is_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.format(file=tmp_path / "missing.py") for word in INPUTS[name]]
    assert ends(*words) == Exit.BAD_REQUEST
    shown = capsys.readouterr()
    assert "missing.py" in shown.err
    assert (shown.out + shown.err).count("\n") == 1


def test_nothing_asked_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends() == Exit.BAD_REQUEST
    assert "Prove:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (BadRequest("no model named 'x'; see --list"), Exit.BAD_REQUEST, "no model named 'x'; see --list"),
        (Unusable("bucket 'b'\nis missing"), Exit.BAD_REQUEST, "bucket 'b' is missing"),
        (KeyboardInterrupt(), Exit.UNDECIDED, "interrupted"),
    ],
)
def test_errors_end_with_their_code_and_one_line(
    error: BaseException, code: Exit, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(error) == code
    assert capsys.readouterr().err == f"fencepost: {says}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("words", [["check", "two-phase"], ["check", "two-phase", "--json", "-"], ["--help"]])
def test_output_that_finds_no_room_is_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`fencepost ... > file` on a full disk."""
    full = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115 - it cannot be closed without the same error
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", full)
        assert ends(*words) == Exit.BAD_REQUEST
    with contextlib.suppress(OSError):
        full.close()
    output = capsys.readouterr().err.splitlines()[-1]
    assert output.startswith("fencepost: cannot write: No space left on device")


def test_another_error_of_the_system_is_not_taken_for_that() -> None:
    with pytest.raises(ProcessLookupError):
        raising(ProcessLookupError(3, "No such process"))


def test_a_bug_of_ours_is_not_hidden() -> None:
    """A traceback is for bugs, not for invalid input."""
    with pytest.raises(ZeroDivisionError):
        raising(ZeroDivisionError())


def test_what_a_command_returns_is_the_exit_code() -> None:
    assert run(lambda: Exit.VIOLATED) == 1
    assert run(lambda: None) == 0


def test_the_console_script_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["fencepost", "--version"])
    with pytest.raises(SystemExit) as exited:
        entry.main()
    assert exited.value.code == 0


def test_json_goes_to_a_file_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    write_json({"verdict": "holds"}, str(target))
    assert json.loads(target.read_text()) == {"verdict": "holds"}
    with pytest.raises(ValueError, match="Out of range float"):
        write_json({"rate": float("nan")}, str(target))
    assert json.loads(target.read_text()) == {"verdict": "holds"}
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


def test_json_to_a_place_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"cannot write .*: No such file"):
        write_json({}, str(tmp_path / "missing" / "result.json"))


def test_json_to_standard_output_is_all_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"a": 1}, "-")
    assert json.loads(capsys.readouterr().out) == {"a": 1}


@pytest.mark.parametrize("command", ["check --help", "objects serve folder"])
@pytest.mark.parametrize("added", ["no.such.module", "json"])
def test_a_system_that_cannot_be_loaded_is_one_line(command: str, added: str, tmp_path: Path) -> None:
    """A server refuses it before it binds: its workers would end, and be started again, for ever."""
    ran = subprocess.run(
        [sys.executable, "-m", "fencepost", *command.split(), *["--workers", "2"] * ("serve" in command)],
        cwd=tmp_path,
        env={**os.environ, "FENCEPOST_SYSTEMS": added, "FENCEPOST_OBJECTS_ROOT_TOKEN": "0123456789abcdef"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == Exit.BAD_REQUEST, ran.stderr
    assert ran.stderr.startswith(f"fencepost: FENCEPOST_SYSTEMS names {added}, which cannot be loaded: ")
    assert len(ran.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
