"""The stages of an audit on the command line: verdict, exit code, progress, and the end by a signal.

If this fails, a job that a runner stops says nothing about what it explored, or a pass means another stage
than the one that was asked for.
"""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands import audit as command
from fencepost.commands.exit_codes import Exit
from fencepost.impl.store import ANYTHING
from fencepost.results import AuditResult, recorded
from fencepost.testing import AuditFailed, Options, run
from tests.commands.running import Run


def result_in(target: Path) -> AuditResult:
    return recorded(AuditResult, json.loads(target.read_text())).result


@pytest.mark.parametrize(
    ("enough", "code"), [("no-faults", Exit.HOLDS), ("one-fault", Exit.UNDECIDED), ("all", Exit.UNDECIDED)]
)
def test_the_stage_that_is_enough_decides_the_exit_code(
    ran: Run, tmp_path: Path, enough: str, code: int
) -> None:
    target = tmp_path / "result.json"
    words = ["audit", "counter", "--max-schedules", "80", "--enough", enough, "--json", str(target)]
    ended, output, _ = ran(*words)
    assert ended == code
    assert "holds without faults; with any one fault: undecided" in output
    found = result_in(target)
    assert found.verdict == "undecided"
    assert found.passes == (code == Exit.HOLDS)
    assert [stage.verdict for stage in found.stages] == ["holds", *["undecided"] * 3]
    assert found.stages[0].explored == 1.0 > found.stages[1].explored


def test_without_limits_the_search_ends_with_the_stage_that_is_enough(ran: Run, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    words = ["audit", "counter", "--enough", "no-faults", "--json", str(target)]
    assert ran(*words)[0] == Exit.HOLDS
    assert [stage.runs > 0 for stage in result_in(target).stages] == [True, False, False, False]


def test_a_stage_that_is_enough_is_no_pass_when_a_later_one_is_violated(ran: Run, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    mutant = ["audit", "election", "--mutant", "own-write-taken-as-a-loss"]
    words = [*mutant, "--enough", "no-faults", "--max-schedules", "5000"]
    ended, output, _ = ran(*words, "--json", str(target))
    assert (ended, result_in(target).passes) == (Exit.VIOLATED, False)
    assert "breaks a property; it holds without faults" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--strategy", "exhaustive"], "--enough names a stage of the portfolio"),
        (["--replay", "default"], "leave out either"),
    ],
)
def test_a_stage_needs_stages(ran: Run, words: list[str], message: str) -> None:
    ended, _, error = ran("audit", "counter", "--enough", "no-faults", *words)
    assert ended == Exit.BAD_REQUEST
    assert message in error


def test_a_test_accepts_the_stage_that_is_enough() -> None:
    def single(world: Any) -> None:
        store = world.store()
        for name in ("ann", "bob"):
            world.spawn(store.put, "k", b"", when=ANYTHING, name=name)

    assert run(single, Options(schedules=4, enough="no-faults"), {}).passes
    with pytest.raises(AuditFailed, match="undecided"):
        run(single, Options(schedules=4), {})


PROGRAM = """
from fencepost.impl.store import ANYTHING

def put_ten(store):
    for _ in range(10):
        store.put("same", b"", when=ANYTHING)

def program(world):
    for _ in range(3):
        world.spawn(put_ten, world.store())
"""


def test_a_job_that_is_terminated_writes_what_it_found(
    ran: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner sends SIGTERM and waits some seconds. The lines before show that the audit goes on."""
    monkeypatch.setattr(command, "LINE_S", 0.1)
    file, target = tmp_path / "long.py", tmp_path / "result.json"
    file.write_text(PROGRAM)
    own = signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.setitimer(signal.ITIMER_PROF, 0.5)
        ended, output, error = ran("audit", str(file), "--json", str(target))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, own)
    assert ended == Exit.UNDECIDED
    assert signal.getsignal(signal.SIGTERM) is before
    assert "without faults: undecided" in output
    assert "interrupted: this is what was found so far" in output
    assert result_in(target).stages[0].runs > 0
    lines = [line for line in error.splitlines() if line.startswith("fencepost: ")]
    assert lines
    assert "without faults: " in lines[-1]
