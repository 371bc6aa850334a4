"""`fencepost ingest ... --settings FILE`: one file for all commands of a deployment."""

import json
from pathlib import Path

import pytest

from fencepost.commands.ingest.settings_file import read_settings
from fencepost.impl.ingest import keys
from fencepost.impl.store import open_store
from tests.commands.running import Run
from tests.impl.ingest.given import accepted

HOUR_MS = 3_600_000


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"file://{tmp_path}/store"
    with open_store(url) as opened:
        accepted(opened)
    return url


def written(folder: Path, text: str) -> str:
    file = folder / "ingest.toml"
    file.write_text(text)
    return str(file)


def agreed(url: str) -> float:
    with open_store(url) as opened:
        return float(json.loads(opened.get(keys.AGREEMENT).body)["horizon_s"])


def test_a_file_has_the_settings_of_the_document(tmp_path: Path) -> None:
    text = '[ingest]\nacceptance = "local_spool"\nobject_landing_interval_ms = 250\nhorizon_ms = 3_600_000\n'
    assert read_settings(written(tmp_path, text)) == {
        "acceptance": "local_spool", "landing_s": 0.25, "horizon_s": 3600.0,
    }  # fmt: skip


def test_a_command_takes_what_it_has_an_option_for(ran: Run, tmp_path: Path, store: str) -> None:
    """The store, and the horizon on which the deployment then agrees."""
    text = f'[ingest]\nstore = "{store}"\nhorizon_ms = {2 * HOUR_MS}\nobject_landing_interval_ms = 1\n'
    file = written(tmp_path, text)
    assert ran("ingest", "gc", "--settings", file)[0] == 0
    assert agreed(store) == 7200.0
    code, _, error = ran("ingest", "gc", "--settings", file, "--horizon", "3600")
    assert (code, "horizon_s is 3600.0" in error) == (2, True), "the command line wins"


def test_the_mode_of_a_collector_is_in_the_file(ran: Run, tmp_path: Path, store: str) -> None:
    file = written(tmp_path, f'[ingest]\nstore = "{store}"\nacceptance = "local_spool"\n')
    code, _, error = ran("ingest", "serve", "--settings", file, "--agents", str(tmp_path / "tokens.json"))
    assert (code, "local_spool needs --spool" in error) == (2, True)
    file = written(tmp_path, f'[ingest]\nstore = "{store}"\nacceptance = "perhaps"\n')
    code, _, error = ran("ingest", "serve", "--settings", file, "--agents", str(tmp_path / "tokens.json"))
    assert (code, "perhaps" in error) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "one table"),
        ("[ingest]\n[other]\n", "one table"),
        ("ingest = 1\n", "one table"),
        ("[ingest\n", "is no TOML"),
        ("[ingest]\nhorizon_s = 1\n", "'horizon_s' is no setting"),
        ("[ingest]\nhorizon_ms = true\n", "write milliseconds"),
        ("[ingest]\nhorizon_ms = -1\n", "write milliseconds"),
        ("[ingest]\nhorizon_ms = nan\n", "write milliseconds"),
        ('[ingest]\nhorizon_ms = "1"\n', "write milliseconds"),
        ("[ingest]\nstore = 1\n", "write a text"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_one_line(
    ran: Run, tmp_path: Path, store: str, text: str, message: str
) -> None:
    code, _, error = ran("ingest", "gc", "--store", store, "--settings", written(tmp_path, text))
    assert (code, error.count("\n")) == (2, 1)
    assert message in error
    assert "ingest.toml" in error


def test_a_missing_file_is_refused_in_one_line(ran: Run, tmp_path: Path, store: str) -> None:
    code, _, error = ran("ingest", "gc", "--store", store, "--settings", str(tmp_path / "none"))
    assert (code, error.count("\n"), "cannot read" in error) == (2, 1, True)
