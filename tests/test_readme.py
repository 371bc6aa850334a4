"""What the README shows is run, so that it cannot drift from what there is."""

import re
from pathlib import Path

import pytest

from fencepost.commands.entry import SUMMARIES

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out == "leading\n"


def test_every_command_it_names_exists() -> None:
    named = set(re.findall(r"`fencepost ([a-z]+)", README)) | set(
        re.findall(r"&& fencepost ([a-z]+)", README)
    )
    assert "demo" in named
    assert named <= set(SUMMARIES)
