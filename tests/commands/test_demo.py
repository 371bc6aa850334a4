"""The tour shows what it promises, and says so when something did not end as it should."""

from pathlib import Path

import pytest

from holdfast.commands import demo
from holdfast.commands.demo import Stop
from holdfast.commands.ending import Exit
from holdfast.commands.entry import group, run


def toured(monkeypatch: pytest.MonkeyPatch, *tour: Stop) -> int:
    monkeypatch.setattr(demo, "stops", lambda _: list(tour))
    return run(lambda: group.main(["demo"], standalone_mode=False))


GOOD = Stop("A model.", ["check", "two-phase", "--set", "managers=2"], Exit.HOLDS)
BAD = Stop("A model.", ["check", "two-phase", "--without", "all-prepared"], Exit.VIOLATED)


def test_every_command_is_shown_before_it_is_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert toured(monkeypatch, GOOD, BAD) == Exit.HOLDS
    said = capsys.readouterr().out
    assert said.index("$ holdfast check two-phase --set managers=2") < said.index("56 distinct states")
    assert "[2/2] A model." in said
    assert all(words in said for words in demo.NEXT)


def test_a_surprise_is_told_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tour that hides a failure would be the worst first impression."""
    unexpected = Stop(BAD.says, BAD.words, Exit.HOLDS)
    assert toured(monkeypatch, unexpected, GOOD) == Exit.VIOLATED
    assert "ended with 1, expected 0" in capsys.readouterr().err


@pytest.mark.slow
def test_the_real_tour_ends_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lambda: group.main(["demo"], standalone_mode=False)) == Exit.HOLDS
    said = capsys.readouterr().out
    assert said.count("\n$ holdfast ") == len(demo.stops(tmp_path))
