"""The page for people who come from TLA+ names only what is there."""

import re
from pathlib import Path

import pytest

import fencepost.model
from bench.tla_texts import TEXTS
from bench.tlaplus import RUNS
from fencepost.commands.models import find_machine
from fencepost.model import Model, check

PAGE = Path("docs/explanations/from-tla.md").read_text()


def test_every_word_of_ours_exists() -> None:
    ours = [line.rsplit("|", 2)[1] for line in PAGE.splitlines() if line.startswith("| ")]
    words = {word for cell in ours for word in re.findall(r"(?:(?<=`)|(?<= )|(?<=@))([A-Za-z_]+)\(", cell)}
    words |= {word for cell in ours for word in re.findall(r"`@(\w+)", cell)} - {"process"}
    assert {"Record", "Channel", "pick", "anything", "leads_to"} <= words
    assert [word for word in words if not hasattr(fencepost.model, word)] == []


def test_every_file_of_the_page_exists() -> None:
    files = re.findall(r"`((?:model|bench)/\w+\.py)`", PAGE)
    assert len(files) >= 6
    assert [file for file in files if not Path(file).exists()] == []


def test_every_benchmark_has_its_text() -> None:
    assert set(RUNS) == set(TEXTS)


@pytest.mark.parametrize("name", [name for name in RUNS if name not in ("voting", "paxos", "two-phase")])
def test_every_machine_of_the_benchmark_has_a_verdict(name: str) -> None:
    """TLC's is the same: `nox -s bench -- tlaplus`."""
    run = RUNS[name]
    result = check(Model(find_machine(run.model), run.sizes))
    assert result.verdict == ("violated" if name == "die-hard" else "holds")
