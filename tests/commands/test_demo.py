"""The tour shows what it promises, and says so when something did not end as it should."""

import json
from pathlib import Path

import pytest

from fencepost.commands import demo
from fencepost.commands.demo import Stop
from fencepost.commands.exit_codes import Exit
from tests.commands.running import exit_of

LINES_MAX = 75
"""Of the tour, which is read once, from top to bottom. A whole counterexample takes 20 of them."""


def toured(monkeypatch: pytest.MonkeyPatch, folder: Path, *tour: Stop, words: tuple[str, ...] = ()) -> int:
    monkeypatch.setattr(demo, "stops", lambda _: list(tour))
    return exit_of("demo", "--out", str(folder), *words)


def stop(folder: Path, ends: Exit, *words: str, needs: str = "") -> Stop:
    name = "-".join(words[-1:]) or "all"
    made = ["check", "two-phase", "--set", "managers=2", *words, "--json", str(folder / f"{name}.json")]
    return Stop("A model.", made, ends, needs)


def test_every_command_is_shown_before_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = stop(tmp_path, Exit.HOLDS)
    bad = stop(tmp_path, Exit.VIOLATED, "--without", "all-prepared")
    assert toured(monkeypatch, tmp_path, good, bad) == Exit.HOLDS
    output = capsys.readouterr().out
    assert output.index("$ fencepost check two-phase --set managers=2") < output.index("56 distinct states")
    assert "[2/2] A model." in output
    assert f"The report: {tmp_path / 'report.html'}" in output
    assert all(words in output for words in demo.after(tmp_path))
    assert "which needs Java" in output
    assert "two-phase without all-prepared" in (tmp_path / "report.html").read_text()


def test_a_surprise_is_reported_and_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tour that hides a failure would be the worst first impression."""
    unexpected = stop(tmp_path, Exit.HOLDS, "--without", "all-prepared")
    assert toured(monkeypatch, tmp_path, unexpected) == Exit.VIOLATED
    assert "ended with 1, expected 0" in capsys.readouterr().err


def test_what_the_machine_lacks_is_left_out_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = stop(tmp_path, Exit.VIOLATED, "--without", "all-prepared")
    missing = stop(tmp_path, Exit.HOLDS, needs="no_such_library")
    assert toured(monkeypatch, tmp_path, bad, missing, words=("--json", "-")) == Exit.HOLDS
    output = capsys.readouterr()
    assert json.loads(output.out)["left_out"] == ["check two-phase"]
    assert "[2/2] left out: no_such_library is not installed" in output.err
    assert "Left out without no_such_library" in output.err


def test_a_broken_program_is_shown_whole_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, the tour hides the counterexample, or calls the exit code of the report a surprise."""
    words = ["audit", f"{tmp_path / 'sold.py'}:two_sales", "--json", str(tmp_path / "sold.json")]
    first = demo.stops(tmp_path)[0]
    assert first.words[:2] == words[:2]
    assert toured(monkeypatch, tmp_path, Stop("Code.", words, Exit.VIOLATED, broken=True)) == Exit.HOLDS
    output = capsys.readouterr()
    assert "applied, but the reply is LOST" in output.out
    assert "lines more in" not in output.out.partition("[last]")[0]
    assert "unexpected" not in output.err


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert exit_of("demo", "--out", str(file)) == Exit.BAD_REQUEST
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_the_real_tour_ends_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of("demo", "--out", str(tmp_path)) == Exit.HOLDS
    output = capsys.readouterr().out
    assert len(output.splitlines()) < LINES_MAX
    assert output.count("\n$ fencepost ") == len(demo.stops(tmp_path)) + 1
    assert output.index("applied, but the reply is LOST") < output.index("[2/")
    page = (tmp_path / "report.html").read_text()
    for shown in ("publish without create-only-manifest", "simulate rfc-013-capped", 'class="sequence"'):
        assert shown in page
