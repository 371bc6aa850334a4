"""The notebook of the guide runs from the first cell to the last, on the tables of a real replay."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench.planted import plant
from bench.traces import driven, random_choice
from fencepost.sim.replay.tables import VERDICTS, VIOLATIONS
from fencepost.sim.trace import table_of, write_parquet
from tests.commands.running import exit_of

NOTEBOOK = Path(__file__).parents[2] / "docs" / "guides" / "explore-verdicts.ipynb"


def cells() -> list[str]:
    """The code of the notebook, cell by cell."""
    read: dict[str, Any] = json.loads(NOTEBOOK.read_text())
    assert (read["nbformat"], read["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in read["cells"]}) == len(read["cells"])
    assert all(not cell["outputs"] for cell in read["cells"] if cell["cell_type"] == "code")
    return ["".join(cell["source"]) for cell in read["cells"] if cell["cell_type"] == "code"]


def test_every_cell_of_the_notebook_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = driven(4, ("skew",))
    spoilt = plant("create-only-manifest", runs[0], random_choice(1))
    assert spoilt is not None
    rows = [event for run in runs for event in run]
    rows += [replace(event, run="spoilt") for event in spoilt.events]
    (tmp_path / "traces").mkdir()
    write_parquet(tmp_path / "traces" / "t.parquet", table_of(rows))
    monkeypatch.chdir(tmp_path)
    assert exit_of("replay", "traces", "--model", "publish", "--set", "writers=3", "--out", "night") == 1
    capsys.readouterr()
    shown = []
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells()):
        exec(compile(cell, f"cell {number}", "exec"), names)
        shown.append(capsys.readouterr().out)
    assert all(shown), "a cell shows nothing"
    whole = "\n".join(shown)
    assert "rejected          1 runs" in whole
    assert "accepted          4 runs" in whole
    assert f"{spoilt.at:>6} " in shown[-1], "the event of the violation is shown"
    assert shown[-1].startswith("spoilt\n")


@pytest.mark.parametrize(("table", "schema"), [("verdicts", VERDICTS), ("violations", VIOLATIONS)])
def test_the_guide_lists_the_columns_of_the_tables(table: str, schema: pa.Schema) -> None:
    text = NOTEBOOK.with_name("replay-production-logs.md").read_text()
    rows = text.split(f"`{table}.parquet`, a row", 1)[1].split("\n\n")[1].splitlines()[2:]
    shown = [tuple(cell.strip(" `") for cell in row.split("|")[1:3]) for row in rows]
    assert shown == [(field.name, str(field.type)) for field in schema]
