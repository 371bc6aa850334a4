"""What the guides show is run, so that they cannot drift.

    ```python file=NAME      writes the file
    ```python edit=NAME      replaces what stands above the line of dashes by what stands below it, once
    ```console               runs every `$ holdfast ...` and compares what follows with what it prints

In what a command prints, times and sizes in bytes may differ, and a line of three dots stands for any lines.
"""

import importlib.util
import re
import shlex
import sys
import unittest
from pathlib import Path

import pytest

from holdfast.commands.entry import group, run

GUIDE = Path(__file__).parent.parent.parent / "docs" / "guides" / "your-first-model.md"
BLOCK = re.compile(r"^```(\w+)(?: (file|edit)=(\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


CODES = {"holds": 0, "violated": 1, "holdfast": 2, "undecided": 3}
"""The exit code, by the first word of the last line."""


def plain(text: str) -> list[str]:
    """Lines without what differs from machine to machine, and without the padding of tables."""
    text = re.sub(r"[\d.,]+ s, [\d.,]+ \w+ \([\d.,]+ bytes a state\)", "TIME, SIZE", text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def agrees(shown: list[str], printed: list[str]) -> bool:
    """Whether what is shown, with dots for any lines, is what was printed."""
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed)) is not None


def commands(block: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with what it is shown to print."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    assert parts[0] == ""
    return list(zip(parts[1::2], parts[2::2], strict=True))


def edited(text: str, block: str) -> str:
    before, after = re.split(r"^---\n", block, flags=re.MULTILINE)
    assert text.count(before) == 1, f"not there exactly once: {before}"
    return text.replace(before, after)


def test_the_guide_runs_as_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    ran = 0
    for language, what, name, block in BLOCK.findall(GUIDE.read_text()):
        if what == "file":
            Path(name).write_text(block)
        elif what == "edit":
            Path(name).write_text(edited(Path(name).read_text(), block))
        else:
            assert language == "console", f"a block that nothing runs: {block}"
            for command, shown in commands(block):
                words = shlex.split(command)
                assert words[0] == "holdfast"
                code = run(lambda words=words: group.main(words[1:], standalone_mode=False))
                captured = capsys.readouterr()
                printed = plain(captured.out + captured.err)
                assert agrees(plain(shown), printed), "\n".join([f"$ {command}", *printed])
                assert code == CODES[re.split(r"\W", printed[-1])[0]]
                ran += 1
    assert ran > 10
    run_tests_of(tmp_path / "test_lock.py", monkeypatch)


def run_tests_of(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a file of tests as pytest would: functions and test cases."""
    monkeypatch.syspath_prepend(str(file.parent))
    monkeypatch.delitem(sys.modules, "lock", raising=False)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    functions = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert len(functions) == 2
    for function in functions:
        function()
    result = unittest.defaultTestLoader.loadTestsFromTestCase(module.TestLock).run(unittest.TestResult())
    assert result is not None
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])
    monkeypatch.delitem(sys.modules, "lock", raising=False)


def test_what_is_shown_is_compared() -> None:
    assert agrees(["a", "...", "d"], ["a", "b", "c", "d"])
    assert agrees(["a", "...", "b"], ["a", "b"])
    assert not agrees(["a", "..."], ["b", "c"])
    assert not agrees(["a", "b"], ["a", "b", "c"])
    assert plain("x 0.01 s, 72 B (24 bytes a state)  \n") == plain("x 12.30 s, 1.2 KiB (116 bytes a state)")
    assert plain("3 distinct states") != plain("4 distinct states")


def test_every_guide_that_shows_machines_is_run() -> None:
    shown = [file for file in GUIDE.parent.glob("*.md") if "```python file=" in file.read_text()]
    assert shown == [GUIDE]
