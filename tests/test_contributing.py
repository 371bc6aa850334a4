"""The table "To add ... edit ..." of CONTRIBUTING.md leads a newcomer to the right place."""

import ast
import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.commands.running import exit_of

ROOT = Path(__file__).parent.parent
COLUMNS = ("to add", "edit", "registry", "listed by")


def rows() -> list[dict[str, str]]:
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## To add ... edit ...")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    assert cells[0] == list(COLUMNS)
    return [dict(zip(COLUMNS, row, strict=True)) for row in cells[2:]]


ROWS = rows()


def module_of(path: str) -> Any:
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return importlib.import_module(dotted if dotted.startswith("fencepost.") else f"fencepost.{dotted}")


def names(registry: Any) -> set[str]:
    """The names of the entries: keys of a table, texts, or the `name` of objects."""
    if isinstance(registry, dict):
        return set(registry)
    return {entry if isinstance(entry, str) else entry.name for entry in registry}


def test_every_kind_of_change_of_the_house_is_there() -> None:
    assert len(ROWS) == len({row["to add"] for row in ROWS}) >= 12


@pytest.mark.parametrize("row", ROWS, ids=[row["to add"] for row in ROWS])
def test_a_row_leads_to_the_place(row: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the place has moved, or the command reads another registry than the one named."""
    paths = re.findall(r"`([\w./<>]+)`", row["edit"])
    assert paths
    for path in paths:
        assert "<" in path or (ROOT / path).exists(), path
    if row["registry"]:
        registry = getattr(module_of(paths[0]), row["registry"].strip("`"))
    if row["listed by"]:
        program, *words = shlex.split(row["listed by"].strip("`"))
        assert program == "fencepost"
        exit_of(*words)
        printed = "".join(capsys.readouterr())
        expected = (
            names(registry) if row["registry"] else {file.stem for file in (ROOT / paths[0]).glob("*.toml")}
        )
        assert expected
        missing = {
            name for name in expected if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", printed)
        }
        assert not missing


def test_a_name_that_is_missing_would_be_noticed() -> None:
    assert names({"a": 1}) == {"a"}
    assert names(["c"]) == {"c"}


def test_every_benchmark_is_named() -> None:
    """A benchmark that no session, page or other benchmark names measures nothing that anybody reads."""
    named = (ROOT / "noxfile.py").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    files = sorted((ROOT / "bench").glob("*.py"))
    imported = {
        alias.name
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in ("bench", *(f"bench.{f.stem}" for f in files))
        for alias in (
            node.names if node.module == "bench" else [ast.alias(node.module.removeprefix("bench."))]
        )
    }
    unnamed = [
        file.stem
        for file in files
        if file.stem not in imported
        and f'"{file.stem.replace("_", "-")}"' not in named
        and f"bench.{file.stem}" not in named
        and file.stem != "__init__"
    ]
    assert not unnamed
