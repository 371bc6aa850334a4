"""`fencepost check --explore`: a person walks a model, and a stream of answers walks it the same way."""

import io

import pytest

from fencepost.commands.exit_codes import Exit
from tests.commands.running import exit_of


def walked(
    answers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: str
) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    words = ["check", "two-phase", "--set", "managers=1", "--explore", *more]
    assert exit_of(*words) == Exit.HOLDS
    return capsys.readouterr().out


def test_steps_back_and_the_counterexample(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = walked("1\n0\nb\nt\nq\n", monkeypatch, capsys)
    assert "1  prepare(m=0)  manager[0]: working -> prepared" in output
    counterexample = output[output.index("0. start") :]
    assert "1. prepare(m=0)" in counterexample
    assert "2. " not in counterexample


def test_state_and_properties(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    output = walked("s\np\nq\n", monkeypatch, capsys)
    assert "decision: init" in output
    assert "agreement: holds here" in output
    assert "all_commit (reachable): not met here" in output


def test_a_broken_property_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("commit\n0\nq\n"))
    words = ["check", "two-phase", "--set", "managers=2", "--without", "all-prepared", "--explore"]
    assert exit_of(*words) == Exit.HOLDS
    output = capsys.readouterr().out
    assert "'commit' is not offered" in output
    assert "BROKEN" not in output


def test_the_end_of_the_input_ends_the_walk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nothing can happen here" not in walked("", monkeypatch, capsys)


def test_what_is_not_offered_is_refused_with_what_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = walked("99\nx\nb\nq\n", monkeypatch, capsys)
    assert "'99' is not offered" in output
    assert "'x' is not offered" in output
    assert "this is the start" in output
