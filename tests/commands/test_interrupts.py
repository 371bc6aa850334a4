"""Ctrl-C ends a command and not only the part of it that was running, and it ends it soon."""

import signal
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands import demo, rows
from fencepost.commands.demo import Stop
from fencepost.commands.exit_codes import Exit
from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import AuditOutcome, AuditRequest
from fencepost.sim.explore.reporting import run_audit
from fencepost.testing import Options, request_of
from tests.collecting import Collected
from tests.commands.running import exit_of as ends


@pytest.fixture
def pressed() -> Iterator[Collected]:
    """Presses Ctrl-C in the run of this number; the handlers are as before afterwards."""
    before = signal.getsignal(signal.SIGINT)
    yield Collected([3])
    assert signal.getsignal(signal.SIGINT) is before


def asked(pressed: Collected, reports: list[str]) -> AuditRequest:
    """An audit of two rivals that is interrupted, and compares its runs with something in the end."""

    counter = weakref.ref(pressed)  # not a variable of the program, which would be as before in every run

    def put(store: Any) -> None:
        store.put("k", b"", when=ANYTHING)
        left = counter()
        assert left is not None
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)

    def compare() -> dict[str, Any]:
        reports.append("compared")
        return {"compared": True}

    def program(world: Any) -> None:
        world.report(compare)
        for _ in range(2):
            world.spawn(put, world.store())

    return request_of(program, Options(), {}, "rivals")


def test_who_waits_for_the_end_does_not_wait_for_a_whole_model(pressed: Collected) -> None:
    """If this fails, Ctrl-C on `fencepost audit publish` is followed by fifteen seconds of silence."""
    reports: list[str] = []
    result = run_audit(asked(pressed, reports))
    assert result.interrupted
    assert "compared" not in result.reported
    assert reports == []
    pressed[0] = -1
    assert run_audit(asked(pressed, reports)).reported["compared"], "compared unless interrupted"


def test_all_mutants_end_with_the_one_that_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when that one had been found by then."""
    begun: list[str | None] = []
    run = rows.run_audit

    def interrupted(request: AuditRequest) -> AuditOutcome:
        from dataclasses import replace

        begun.append(request.name)
        result = run(request)
        assert result.counterexamples, "this one is found"
        return replace(result, interrupted=True)

    monkeypatch.setattr(rows, "run_audit", interrupted)
    assert ends("audit", "election", "--mutants") == Exit.UNDECIDED
    assert len(begun) == 1
    assert "undecided" in capsys.readouterr().out


def test_the_tour_ends_with_the_stop_that_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command tells of Ctrl-C by its own end, so the tour has to look."""
    small = ["check", "two-phase", "--set", "managers=2"]
    tour = [Stop("One.", [*small, "--max-states", "5"], Exit.HOLDS), Stop("Two.", small, Exit.HOLDS)]
    monkeypatch.setattr(demo, "stops", lambda _: tour)
    assert ends("demo", "--out", str(tmp_path)) == Exit.UNDECIDED
    output = capsys.readouterr().out
    assert "[1/2] One." in output
    assert "[2/2]" not in output
    assert f"The rest of the tour is left out. What there is: {tmp_path}" in output


def test_the_commands_of_the_tour_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a tour"
    made = ["check", "two-phase", "--set", "managers=2", "--json", str(folder / "r.json")]
    monkeypatch.setattr(demo, "stops", lambda _: [Stop("One.", made, Exit.HOLDS)])
    ends("demo", "--out", str(folder))
    assert f"$ fencepost report '{folder}' --title 'Fencepost demo'" in capsys.readouterr().out
