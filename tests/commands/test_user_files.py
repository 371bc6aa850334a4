"""A user's own file: what it can import, and the message when it cannot be used."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.user_files import load
from tests.commands.running import exit_of as ends

CLAIM = "def claim(world):\n    world.spawn(lambda: None, name='idle')\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user stands in the folder of a project whose code is not installed, with its tests in a folder."""
    (tmp_path / "leader_app").mkdir()
    (tmp_path / "leader_app" / "__init__.py").write_text(CLAIM)
    (tmp_path / "tests").mkdir()
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("leader_app", None)


def test_code_in_the_folder_one_stands_in_is_found(project: Path) -> None:
    """As `python -m pytest` finds it: the same file must not be fine there and unloadable here."""
    (project / "tests" / "test_it.py").write_text(
        "import leader_app\n\n\ndef program(world):\n    leader_app.claim(world)\n"
    )
    before = list(sys.path)
    assert ends("audit", "tests/test_it.py:program") == Exit.UNDECIDED, "one idle process covers nothing"
    assert sys.path == before


def test_what_is_installed_is_not_hidden_by_that_folder(project: Path) -> None:
    (project / "json.py").write_text("raise RuntimeError('hidden')\n")
    sys.modules.pop("json.tool", None)
    (project / "tests" / "it.py").write_text("import json.tool\n" + CLAIM)
    load(project / "tests" / "it.py", "program")


def test_a_module_that_is_nowhere_is_named_with_where_it_was_looked_for(project: Path) -> None:
    (project / "tests" / "it.py").write_text("\nimport leader_ap\n")
    with pytest.raises(BadRequest, match=r"it.py:2: .*'leader_ap' beside it, in the folder you are"):
        load(project / "tests" / "it.py", "program")


@pytest.mark.parametrize("ending", ["raise SystemExit(0)", "import sys\n\nsys.exit()", "sys_exit()"])
@pytest.mark.parametrize("command", ["check", "audit"])
def test_a_file_that_ends_the_program_is_refused_and_not_passed(
    project: Path, command: str, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a script without its guard is a check that passes without having looked at anything."""
    (project / "script.py").write_text(ending.replace("sys_exit()", "def main():\n    exit(0)\n\n\nmain()"))
    assert ends(command, "script.py") == Exit.BAD_REQUEST
    output = capsys.readouterr().err
    assert "script.py:" in output
    assert "__main__" in output
    assert output.count("\n") == 1


@pytest.mark.parametrize("text", ["exit(0)", "world.spawn(exit, 0, name='a')"])
def test_a_program_that_ends_the_program_does_not_hold(project: Path, text: str) -> None:
    """If this fails, `sys.exit(0)` anywhere in a program is a verdict: holds."""
    (project / "it.py").write_text(f"def p(world):\n    {text}\n")
    assert ends("audit", "it.py:p") == (Exit.BAD_REQUEST if "world." not in text else Exit.VIOLATED)


@pytest.mark.parametrize(
    ("text", "named", "says"),
    [
        ("", "", "it holds: none (a program is a function with a parameter `world`)"),
        ("async def p(world): ...", ":p", "'p': p is async"),
        ("def p(s3): ...", ":p", "'p': p needs a parameter `world`"),
        ("def p(world): yield", ":p", "'p': p yields"),
        ("p = 3", ":p", "holds no program 'p': an audit needs a function of world"),
        ("def p(world): ...", ":q", "holds no program 'q'; it holds: p"),
    ],
)
def test_why_something_is_no_program_is_reported(
    project: Path, text: str, named: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "it.py").write_text(text + "\n")
    assert ends("audit", f"it.py{named}") == Exit.BAD_REQUEST
    assert says in capsys.readouterr().err
