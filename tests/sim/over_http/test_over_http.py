"""Real processes under control: what is found, what is never claimed, and that nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.impl.store.errors import Misuse
from fencepost.sim.explore.audit import AuditRequest
from fencepost.sim.explore.like import RecordedStep
from fencepost.sim.explore.reporting import bind
from fencepost.sim.over_http.search import follow_over_http, run_over_http
from fencepost.sim.world.budget import NO_FAULTS
from tests.sim.over_http import programs


def request(program, budget=NO_FAULTS, schedules=40, **parameters):
    return AuditRequest(
        bind(program, program.__name__, parameters),
        program.__name__,
        budget=budget,
        strategy="pct",
        schedules=schedules,
    )


def audited(program, budget=NO_FAULTS, schedules=40, **parameters):
    return run_over_http(request(program, budget, schedules, **parameters))


def found_in(program, name, budget=NO_FAULTS):
    """The counterexample, which a replay of its token shows again."""
    result = audited(program, budget)
    assert result.verdict == "violated"
    counterexample = result.counterexamples[0]
    assert counterexample.property == name
    again = follow_over_http(request(program, budget), counterexample.token)
    assert again.verdict == "violated"
    assert [str(line) for line in again.counterexamples[0].lines] == [
        str(line) for line in counterexample.lines
    ]
    return counterexample


def test_a_lost_update_is_found_and_shown_in_its_shortest_form() -> None:
    """Two real processes, each with requests held until the scheduler lets them land."""
    counterexample = found_in(programs.lost_update, "both are counted")
    steps = [(line.process, line.kind) for line in counterexample.lines if line.kind != "finish"]
    assert len(steps) == 4
    assert [kind for _, kind in steps] == ["get", "get", "put", "put"]


def test_a_recorded_race_is_followed_at_the_first_schedule() -> None:
    """`audit --like TRACE --over-http`: the recorded processes have other names, and keys of their own."""
    orders = {"race": ("p get", "q get", "q put", "p put"), "none": ("p get", "p put", "q get", "q put")}
    for order, verdict in (("race", "violated"), ("none", "undecided")):
        recorded = tuple(
            RecordedStep(process, kind, "counter", "anything" if kind == "put" else "", "done", at, at)
            for at, (process, kind) in enumerate(word.split() for word in orders[order])
        )
        asked = replace(request(programs.lost_update, schedules=1), strategy="like", like=recorded)
        found = run_over_http(asked)
        assert (found.verdict, found.schedules) == (verdict, 1)
        if verdict == "undecided":
            assert "4 of 4 recorded requests were followed at most" in found.findings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "name", "budget"),
    [
        (programs.election, "one leads", NO_FAULTS),
        (programs.half_a_transfer, "all or nothing", replace(NO_FAULTS, crash=1)),
        (programs.own_write, "the claim is known", replace(NO_FAULTS, reply_lost=1)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_broken_is_found_and_its_fixed_form_never_gets_the_verdict_holds(
    program, name, budget
) -> None:
    found_in(program, name, budget)
    fixed = audited(program, budget, 12, safe=True)
    assert fixed.verdict == "undecided"
    assert not fixed.complete
    assert "12 schedules of" in fixed.bound
    assert fixed.coverage.faults or budget == NO_FAULTS


def test_a_hang_ends_the_run_undecided_and_its_process() -> None:
    """A process that never sends anything must not look like one that ended well."""
    result = audited(programs.hangs, schedules=1)
    assert result.verdict == "undecided"
    assert "ann sent no request for 0.2 s" in result.findings[0]


@pytest.mark.slow
def test_requests_of_one_process_at_the_same_time_are_held_at_the_same_time() -> None:
    """Threads of a process: the last of four may land first."""
    result = audited(programs.four_at_once, schedules=25)
    assert result.verdict == "undecided", result
    assert result.coverage.met == {"the last comes first"}


@pytest.mark.slow
def test_a_short_sleep_decides_no_order() -> None:
    result = audited(programs.sleepers, schedules=12)
    assert result.coverage.met == {"bob is first", "ann is first"}


@pytest.mark.slow
@pytest.mark.parametrize(("code", "why"), [(3, "SystemExit: 3"), (0, "ended by SIGABRT")])
def test_a_process_that_fails_breaks_a_property(code, why) -> None:
    result = audited(programs.fails, schedules=1, code=code)
    assert result.verdict == "violated"
    assert result.counterexamples[0].property == "ann ends well"
    assert why in result.counterexamples[0].reason


def test_a_request_that_the_endpoint_does_not_know_is_an_error_and_no_violation() -> None:
    result = audited(programs.unknown, schedules=1)
    assert result.verdict == "error"
    assert "ann sent s3:GetObjectAcl with acl" in result.bound


def test_a_program_that_does_not_exist_is_an_error_and_no_violation() -> None:
    result = audited(programs.not_there, schedules=1)
    assert result.verdict == "error"
    assert "process ann: there-is-no-such-program cannot be started" in result.bound


@pytest.mark.slow
def test_a_run_ends_with_the_time_of_the_audit() -> None:
    """However long its processes sleep."""
    result = run_over_http(replace(request(programs.sleeps_long), schedules=None, seconds=0.3))
    assert result.verdict == "undecided"
    assert "the time was over in the middle of a run" in result.findings[0]


def test_a_process_that_cannot_be_handed_over_is_refused() -> None:
    with pytest.raises(Misuse, match="a function of a module"):
        audited(programs.nested)


@pytest.mark.slow
def test_a_request_of_a_process_that_ended_lands() -> None:
    result = audited(programs.fire_and_forget, schedules=3)
    assert result.verdict == "undecided", result
    assert result.coverage.outcomes == {("put", "done"): 3}


@pytest.mark.slow
def test_a_daemon_does_not_keep_a_run_from_its_end() -> None:
    result = audited(programs.heartbeat, schedules=3)
    assert result.verdict == "undecided", result
    assert not any("given up" in finding for finding in result.findings)


@pytest.mark.slow
def test_a_body_that_is_too_large_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("fencepost.sim.over_http.endpoint.BODY_BYTES_MAX", 1024)
    result = audited(programs.big_body, schedules=1)
    assert result.verdict == "undecided", result


@pytest.mark.slow
def test_a_run_that_nothing_repeats_is_a_violation_and_shows_where_it_parted(tmp_path) -> None:
    """What was seen is true, whether or not it can be had again."""
    result = audited(programs.never_the_same, schedules=1, folder=str(tmp_path))
    assert result.verdict == "violated"
    assert str(result.counterexamples[0].lines[0]).startswith("  1   ann          put jobs/key1")
    assert "did not repeat itself: step 1 was ann:put:jobs/key1:1, and ann:put:jobs/key" in result.findings[0]
    token = result.counterexamples[0].token
    replayed = follow_over_http(request(programs.never_the_same, folder=str(tmp_path)), token)
    assert replayed.verdict == "undecided"
    assert "the run ended before ann:put:jobs/key1:1 (of the token) came about" in replayed.findings[0]


@pytest.mark.slow
def test_a_command_gets_its_endpoint_and_its_end_is_known() -> None:
    """Any program: by variables, by an argument, with notes, output and exit code."""
    result = audited(programs.command, schedules=1)
    assert result.verdict == "undecided", result
    failed = audited(programs.command, schedules=1, code=7)
    assert failed.counterexamples[0].reason.endswith("exit code 7")
    assert audited(programs.command, schedules=1, code=7, may_exit=(7,)).verdict == "undecided"


@pytest.mark.slow
def test_nothing_is_left_behind(tmp_path) -> None:
    """Children in the process group of a process, and children that left it."""
    result = audited(programs.leaves_children, schedules=1, folder=str(tmp_path))
    assert "ann sent no request" in result.findings[0]
    pids = [int(file.name) for file in tmp_path.iterdir()]
    assert len(pids) == 6
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_when_the_driver_ends_its_processes_end(how, tmp_path) -> None:
    """Killed, or interrupted by Ctrl-C."""
    found = tmp_path / "pid"
    driver = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "audit", f"{programs.__file__}:sleeps_for_ever", "--over-http"],
        env={**os.environ, "PID_FILE": str(found)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with driver:
        wait_until(lambda: found.exists() and found.read_text().endswith("\n"))
        pid = int(found.read_text())
        assert Path(f"/proc/{pid}").exists()
        driver.send_signal(how)
        output, _ = driver.communicate(timeout=60)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    if how == signal.SIGINT:
        assert driver.returncode == 3
        assert "interrupted" in output


def wait_until(condition) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "answers"),
    [
        ("request_lost", "['closed', 200]"),
        ("reply_lost", "['closed', 412]"),
        ("late", "['closed', 412]"),
        ("conflict", "[409, 200]"),
        ("throttled", "[503, 200]"),
        ("duplicated", "[412]"),
    ],
)
def test_a_fault_is_what_a_client_sees_of_it(fault, answers) -> None:
    """Applied or not, and answered or not, as in one process."""
    budget = replace(NO_FAULTS, **{fault: 1})
    result = audited(programs.every_fault, budget, 25)
    assert result.verdict == "undecided", result
    assert {"[200]", answers} <= result.coverage.met
    assert result.coverage.met <= {"[200]", answers, "['closed', 200]"}


@pytest.mark.slow
def test_a_crash_is_sigkill_and_the_next_incarnation_starts_from_the_beginning(tmp_path) -> None:
    budget = replace(NO_FAULTS, crash=1)
    result = audited(programs.restarts, budget, 12, folder=str(tmp_path))
    assert result.verdict == "undecided", result
    assert result.coverage.faults["crash"]
    pids = (tmp_path / "pids").read_text().splitlines()
    assert len(pids) == 12 + result.coverage.faults["crash"]
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
