"""The page for people who come from TLA+ names only what is there, and shows texts that are run."""

import ast
import io
import re
import tokenize
from dataclasses import asdict
from pathlib import Path

import pytest

import fencepost.model
from bench.tla import HOME, RUNS, Violated
from fencepost.commands.models import find_machine
from fencepost.model import Model, check

PAGE = Path("docs/explanations/from-tla.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")]


def test_every_word_of_ours_exists() -> None:
    ours = [line.rsplit("|", 2)[1] for line in ROWS]
    words = {word for cell in ours for word in re.findall(r"(?:(?<=`)|(?<= )|(?<=@))([A-Za-z_]+)\(", cell)}
    words |= {word for cell in ours for word in re.findall(r"`@(\w+)", cell)} - {"process"}
    assert {"Record", "Channel", "pick", "anything", "leads_to"} <= words
    assert [word for word in words if not hasattr(fencepost.model, word)] == []


def test_the_texts_of_the_page_are_those_that_are_run() -> None:
    shown = re.findall(r"`((?:bench|model)/[\w/]+\.\w+)`\n\n```\w+\n(.*?)\n```", PAGE, re.DOTALL)
    assert len(shown) == 10
    assert [file for file, text in shown if Path(file).read_text() != f"{text}\n"] == []
    run = {f"bench/tla/{(each.text or name).replace('-', '_')}.tla" for name, each in RUNS.items()}
    assert {file for file, _ in shown if file.endswith(".tla")} <= run


def test_the_page_counts_the_runs_and_the_lines() -> None:
    assert re.findall(r"the (\d+) runs of `bench/tla/`", PAGE) == [str(len(RUNS))]
    counted = {"German": "german", "Raft": "raft_election", "EWD": "ewd998"}
    for title, stem in counted.items():
        row = next(line for line in ROWS if line.startswith(f"| {title}"))
        ours, public = (int(cell) for cell in row.split("|")[2:4])
        assert (stem, ours) == (stem, _code_lines(HOME / f"{stem}.py"))
        assert ours <= public
    texts = [(HOME / f"{stem}.tla").read_text().splitlines() for stem in counted.values()]
    dense = tuple(str(sum(bool(line) and not line.startswith("\\*") for line in text)) for text in texts)
    assert re.findall(r"have (\d+), (\d+) and (\d+) lines", PAGE) == [dense]


def _code_lines(path: Path) -> int:
    """Lines with code: no blank ones, no comments, no docstrings."""
    text, lines = path.read_text(), set()
    nothing = (tokenize.NL, tokenize.COMMENT, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in nothing and token.string:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            lines -= {*range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    return len(lines)


@pytest.mark.parametrize("name", RUNS)
def test_every_run_finds_what_tlc_finds(name: str) -> None:
    """`nox -s bench -- tlaplus` runs TLC on the same text, and compares it with the same figures."""
    run = RUNS[name]
    assert run.module(name).startswith("---- MODULE ")
    result = check(Model(find_machine(run.model), run.sizes))
    if isinstance(run.found, Violated):
        found = next(each.counterexample for each in result.properties if each.verdict == "violated")
        assert found is not None
        assert result.verdict == "violated"
        assert run.found.states in (0, len(found.steps) + 1)
    else:
        counts = {"distinct": result.distinct, "generated": result.generated, "depth": result.depth}
        assert (result.verdict, counts) == ("holds", asdict(run.found))


def test_every_text_is_run() -> None:
    used = {f"{(run.text or name).replace('-', '_')}.tla" for name, run in RUNS.items()}
    assert {path.name for path in HOME.glob("*.tla")} == used
