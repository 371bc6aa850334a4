"""The guide to adding a system: what it shows is in the example, and each command works on the example."""

import json
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


LISTS = [f"{command} --list" for command in ("check", "zoo", "audit", "replay", "simulate")]
IN_ONE_PROCESS = """
import contextlib, io, json, sys
from fencepost.commands import entry
printed = {}
for words in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = entry.run(lambda: entry.group.main(words.split(), standalone_mode=False))
    printed[words] = out.getvalue()
    assert code == 0, (words, code, printed[words])
json.dump(printed, sys.stdout)
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command of the guide prints, and the lists, in a process that knows the system."""
    folder = tmp_path_factory.mktemp("guide")
    (folder / "out").mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS],
        input=json.dumps([*COMMANDS, "report out --list", *LISTS]),
        cwd=folder,
        env={**os.environ, "FENCEPOST_SYSTEMS": "fencepost.examples.fenced_counter"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found: dict[str, str] = json.loads(ran.stdout)
    return found


def test_the_example_is_small() -> None:
    assert len(FILES) <= 10
    assert sum(len(file.read_text().splitlines()) for file in FILES) <= 400


@pytest.mark.parametrize("block", re.findall(r"^```py\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE))
def test_what_the_guide_shows_is_in_the_example(block: str) -> None:
    assert any(block in file.read_text() for file in FILES)


def test_every_command_of_the_guide_works(printed: dict[str, str]) -> None:
    assert "2 of 2 mutants found" in printed["audit fenced-counter --mutants --faults none"]
    assert "1 accepted" in printed["replay run.jsonl --model fenced-counter"]
    assert "audit fenced-counter" in printed["report out --list"]


@pytest.mark.parametrize("words", LISTS)
def test_every_command_lists_the_system(words: str, printed: dict[str, str]) -> None:
    name = "turns" if words.startswith("simulate") else "fenced-counter"
    assert re.search(rf"^(model )?{name}\b", printed[words], re.MULTILINE)
