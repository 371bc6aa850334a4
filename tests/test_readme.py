"""What the README shows is run, so that it cannot drift from what there is."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fencepost.commands.entry import SUMMARIES
from tests.commands.running import exit_of

README = (Path(__file__).parent.parent / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for block in PYTHON[1:]:
        exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out == "leading\n"


def test_the_counterexample_is_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a reader who types the first program sees something else."""
    assert PYTHON[0] == (ROOT / "examples" / "sold.py").read_text()  # the tour shows the same program
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sold.py").write_text(PYTHON[0])
    assert exit_of("audit", "sold.py:two_sales") == 1
    assert without_times(capsys.readouterr().out) == without_times(shown)
    repeated = shlex.split(shown.splitlines()[-1])
    assert exit_of(*repeated[1:]) == 1
    assert "two buyers, two sold is violated" in capsys.readouterr().out


def without_times(output: str) -> str:
    return re.sub(r"[0-9.]+ s$", "T s", output, flags=re.MULTILINE)


def test_every_command_it_names_exists() -> None:
    named = set(re.findall(r"`fencepost ([a-z]+)", README)) | set(
        re.findall(r"&& fencepost ([a-z]+)", README)
    )
    assert "demo" in named
    assert named <= set(SUMMARIES)


SHELL = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
COMMANDS = [shlex.split(command) for line in SHELL for command in line.split("&&")]
ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_its_shell_blocks_use_what_exists() -> None:
    """Run in a quick test as far as that goes without a network: `test_its_commands_run` does the rest."""
    assert [words[0] for words in COMMANDS] == ["pip", "fencepost", "pip", "nox"]
    for words in COMMANDS:
        if words[0] == "pip":
            assert words[1] == "install"
            extras = [extra for word in words for extra in re.findall(r"\[([\w,]+)\]", word)]
            assert set(",".join(extras).split(",")) - {""} <= set(PROJECT["optional-dependencies"])
        elif words[0] == "fencepost":
            assert exit_of(*words[1:], "--help") == 0


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_its_commands_run(words: list[str], tmp_path: Path) -> None:
    """`pip` resolves and builds without installing, `nox` lists the sessions that it would run."""
    program = [sys.executable, "-m", *words]
    if words[0] == "pip":
        program += ["--dry-run", "--no-deps", "--no-build-isolation", "--no-index"]
    if words[0] == "nox" or words[-1] == "nox":
        pytest.importorskip("nox", reason="pip install nox")
        program = [sys.executable, "-m", "nox", "--list"]
    if words[0] == "fencepost":
        program += ["--out", str(tmp_path)]
    ran = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    if program[-1] == "--list":
        assert re.findall(r"^\* (\w+)", ran.stdout, re.MULTILINE) == ["tests", "types", "lint"]
