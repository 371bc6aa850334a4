"""The guide to adding a system: what it shows is in the example, and each command works on the example."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
GUIDE = (ROOT / "docs" / "guides" / "add-a-system.md").read_text()
FILES = sorted((ROOT / "examples" / "fenced_counter").glob("*.*"))
COMMANDS = re.findall(r"^fencepost (.*)$", GUIDE, re.MULTILINE)


def run(folder: Path, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "fencepost", *words],
        cwd=folder,
        env={**os.environ, "FENCEPOST_SYSTEMS": "fencepost.examples.fenced_counter"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_example_is_small() -> None:
    assert len(FILES) <= 10
    assert sum(len(file.read_text().splitlines()) for file in FILES) <= 400


@pytest.mark.parametrize("block", re.findall(r"^```py\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE))
def test_what_the_guide_shows_is_in_the_example(block: str) -> None:
    assert any(block in file.read_text() for file in FILES)


def test_every_command_of_the_guide_works(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    printed = {words: run(tmp_path, *words.split()) for words in COMMANDS}
    assert "2 of 2 mutants found" in printed["audit fenced-counter --mutants --faults none"]
    assert "1 accepted" in printed["replay run.jsonl --model fenced-counter"]
    assert "audit fenced-counter" in run(tmp_path, "report", "out", "--list")


@pytest.mark.parametrize("command", ["check", "zoo", "audit", "replay", "simulate"])
def test_every_command_lists_the_system(command: str, tmp_path: Path) -> None:
    name = "turns" if command == "simulate" else "fenced-counter"
    assert re.search(rf"^(model )?{name}\b", run(tmp_path, command, "--list"), re.MULTILINE)
