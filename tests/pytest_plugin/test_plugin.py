"""Audited tests in somebody's project: what pytest reports, replays, refuses, and sums up."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost import pytest_plugin, testing

pytest_plugins = ["pytester"]

HELPERS = """
import pytest
import fencepost
from fencepost.impl.store import ABSENT, ANYTHING, Outcome

def claim(world, store, name):
    if store.head("leader").outcome is Outcome.MISSING:
        print("claiming", name)
        if store.put("leader", name.encode(), when=ANYTHING).done:
            world.note("leads", name)

def claim_well(world, store, name):
    if store.put("leader", name.encode(), when=ABSENT).done:
        world.note("leads", name)

def one(view):
    assert len(set(view.notes("leads"))) <= 1

def start(world, claim, count=2):
    for name in ("ann", "bob", "cid")[:count]:
        world.spawn(claim, world, world.store(), name, name=name)
    world.always("one leader", one)
"""
GOOD = """
@fencepost.audit(processes=2, crash=1)
def test_good(world):
    start(world, claim_well)
"""
BAD = """
@fencepost.audit(processes=2, crash=1)
def test_bad(world):
    start(world, claim)
"""
LONG = """
def put_many(world, store, name):
    for number in range(30):
        store.put("all", b"", when=ANYTHING)
"""
TOKEN = "ann:head:leader:1,bob:finish::1"
"""One that leads both past the look before either writes. What is printed may name the same otherwise."""

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest on a file of the helpers and `text`."""
    monkeypatch.setattr("sys.argv", ["/usr/bin/pytest"])

    def run(text: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=HELPERS + text)
        # The plugin of Schemathesis takes longer than most tests here.
        without = ("-p", "no:cacheprovider", "-p", "no:schemathesis")
        return pytester.runpytest_inprocess(*without, *options, no_reraise_ctrlc=True)

    return run


def lines_after(result: pytest.RunResult, start: str) -> list[str]:
    lines = result.outlines
    at = next(number for number, line in enumerate(lines) if start in line)
    return lines[at:]


@pytest.mark.slow
def test_the_line_that_replays_begins_as_the_user_began(
    project: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `python -m pytest` code is found that `pytest` alone does not find."""
    for argv, begins in (
        (
            "/lib/python3/site-packages/pytest/__main__.py",
            f"{Path(sys.executable).name} -m pytest test_it.py::",
        ),
        ("-c", "pytest test_it.py::"),
    ):
        monkeypatch.setattr("sys.argv", [argv])
        assert any(line.startswith(begins) and "--fencepost-token=" in line for line in project(BAD).outlines)


def test_a_pass_says_what_was_proven(project: Run) -> None:
    result = project(GOOD)
    result.assert_outcomes(passed=1)
    printed = lines_after(result, "= fencepost =")
    assert printed[1].startswith("holds      test_it.py::test_good: ")
    assert printed[1].endswith(
        "every schedule of 2 processes with at most 1 crash, 1 lost reply or request, 1 pause; "
        "not tried: late landing, 409, 503, retry by the SDK"
    )
    assert printed[2].strip() == "requests/hops at most: ann 1/1 without faults; bob 1/1 without faults"
    assert printed[3].startswith("1 hold; ")


def test_a_failure_shows_the_shortest_counterexample_and_how_to_replay_it(project: Run) -> None:
    result = project(BAD)
    result.assert_outcomes(failed=1)
    printed = lines_after(result, "_ test_bad _")
    assert printed[1] == "E   one leader: assert 2 <= 1"
    assert "- fencepost -" in printed[2]
    assert printed[3].split() == ["1", "ann", "head", "leader", "->", "missing", "test_it.py:6"]
    assert printed[9].strip() == "=> one leader: assert 2 <= 1"
    again = next(
        line for line in printed if line.startswith("pytest test_it.py::test_bad --fencepost-token=")
    )
    replayed = project(BAD, *again.split()[2:])
    assert [line.split() for line in lines_after(replayed, "_ test_bad _")[3:10]] == [
        line.split() for line in printed[3:10]
    ]
    assert "FAILED test_it.py::test_bad - one leader: assert 2 <= 1" in result.outlines
    assert not any("testing.py" in line for line in result.outlines), "no line of the harness is shown"
    captured = lines_after(result, "Captured stdout call")
    assert captured[1:3] == ["claiming ann", "claiming bob"]
    assert captured[3].startswith("=")


def test_a_token_replays_one_test(project: Run) -> None:
    result = project(BAD, f"--fencepost-token={TOKEN}")
    result.assert_outcomes(failed=1)
    printed = result.outlines
    assert "violated: this schedule breaks a property" in printed
    assert f"pytest test_it.py::test_bad --fencepost-token={TOKEN}" in printed
    assert "1 violated; 1 interleavings run" in printed


@pytest.mark.slow
def test_a_token_passes_once_the_code_is_fixed(project: Run) -> None:
    fixed = BAD.replace("claim)", "claim_well)")
    project(fixed, "--fencepost-token=bob:put:leader:1").assert_outcomes(passed=1)
    result = project(fixed, f"--fencepost-token={TOKEN}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   the token no longer fits: *ann:head:leader:1*"])


def test_a_token_without_the_name_of_its_test_is_refused(project: Run) -> None:
    result = project(GOOD + BAD, f"--fencepost-token={TOKEN}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "replays one test, and 2 audited tests are selected" in result.stderr.str()
    project(GOOD + BAD, f"--fencepost-token={TOKEN}", "-k", "bad").assert_outcomes(failed=1, deselected=1)


def test_a_text_that_is_no_token_is_one_line(project: Run) -> None:
    result = project(BAD, "--fencepost-token=nonsense")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   *'nonsense' in the token is not process:operation:key:occurrence*"])


def test_the_command_line_is_over_the_decorator_and_the_decorator_over_the_file(
    project: Run, pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\nfencepost_strategy = random\nfencepost_seed = 7\n")
    marked = GOOD.replace("crash=1", 'crash=1, strategy="pct", schedules=50')
    printed = project(GOOD, "--fencepost-budget=0.1").outlines
    assert any("tried (random), which proves nothing about the rest" in line for line in printed)
    assert any("sampled; a failure of depth 3" in line for line in project(marked).outlines)
    result = project(marked, "--fencepost-strategy=exhaustive")
    assert any(line.startswith("holds ") for line in result.outlines)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("fencepost_budget = soon", "fencepost_budget = soon in the configuration is no number"),
        ("fencepost_budget = 0", "fencepost_budget = 0 in the configuration is no number"),
        (
            "fencepost_strategy = best",
            "fencepost_strategy = best in the configuration; choose from portfolio, exhaustive",
        ),
        ("fencepost_undecided = no", "fencepost_undecided = no in the configuration; choose from fail, pass"),
    ],
)
def test_an_invalid_setting_is_one_line(
    setting: str, says: str, project: Run, pytester: pytest.Pytester
) -> None:
    pytester.makeini(f"[pytest]\n{setting}\n")
    result = project(GOOD)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert says in result.stderr.str()


def test_a_profile_is_over_the_file_and_below_the_decorator(
    project: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line chooses it, else the environment, else the file."""
    pytester.makepyprojecttoml(
        '[tool.pytest.ini_options]\nfencepost_profile = "mine"\nfencepost_strategy = "pct"\n'
        '[tool.fencepost.profiles.mine]\nstrategy = "random"\nschedules = 20\n'
        '[tool.fencepost.profiles.fast]\nstrategy = "exhaustive"\nreply_lost = 0\n'
    )
    plain = GOOD.replace(", crash=1", "")

    def shown(text: str, *options: str) -> str:
        return next(line for line in project(text, *options).outlines if "test_it.py::" in line)

    assert "(random)" in shown(plain)
    assert "1 crash, 1 lost request, 1 pause" in shown(plain, "--fencepost-profile=fast")
    monkeypatch.setenv("FENCEPOST_PROFILE", "ci")
    assert "sampled; a failure of depth 3" in shown(plain.replace("processes=2", "processes=2, schedules=20"))
    assert "(random)" in shown(plain, "--fencepost-profile=mine")
    decorated = plain.replace("processes=2", 'processes=2, strategy="exhaustive", reply_lost=1')
    assert "1 lost reply or request" in shown(decorated, "--fencepost-profile=fast")


def test_the_profiles_that_there_are_change_what_they_say() -> None:
    assert testing.profile_of("fast", {}) == testing.Options(faults={}, seconds=5.0, undecided="pass")
    assert testing.profile_of("fast", {"fast": {"seconds": 9, "crash": 0}}) == testing.Options(
        faults={"crash": 0}, seconds=9, undecided="pass"
    )
    times = [testing.profile_of(name, {}).seconds or 0.0 for name in ("fast", "ci", "deep")]
    assert times == sorted(times)
    assert testing.profile_of("ci", {}).seconds == testing.TEST_SECONDS


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("", "there is no profile 'mine'; there are fast, ci, deep, and [tool.fencepost.profiles.mine]"),
        ("[tool.fencepost.profiles.mine]\nsecond = 3", "the profile 'mine': audit knows no 'second'"),
        (
            "[tool.fencepost.profiles.mine]\nseconds = 0",
            "the profile 'mine': seconds=0: give a number above 0",
        ),
        ("[tool.fencepost.profiles]\nmine = 3", "write [tool.fencepost.profiles.mine]"),
    ],
)
def test_an_invalid_profile_is_one_line(
    table: str, says: str, project: Run, pytester: pytest.Pytester
) -> None:
    pytester.makepyprojecttoml(f"{table}\n")
    result = project(GOOD, "--fencepost-profile=mine")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert says in result.stderr.str()


def test_invalid_options_are_refused(project: Run) -> None:
    for option in ("--fencepost-budget=soon", "--fencepost-budget=0", "--fencepost-strategy=x"):
        assert project(GOOD, option).ret == pytest.ExitCode.USAGE_ERROR


def test_time_that_runs_out_is_no_pass_unless_it_is_accepted(project: Run) -> None:
    text = LONG + GOOD.replace("claim_well", "put_many")
    result = project(text, "--fencepost-budget=0.2")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   undecided: the limit was reached before every schedule was explored*"])
    accepted = project(text, "--fencepost-budget=0.2", "--fencepost-undecided=pass")
    accepted.assert_outcomes(passed=1)
    assert any(line.startswith("1 undecided; ") for line in accepted.outlines)
    text = text.replace("crash=1", 'seconds=0.2, undecided="pass"')
    project(text).assert_outcomes(passed=1)


def test_a_test_that_covers_nothing_fails(project: Run) -> None:
    result = project("""
@fencepost.audit(crash=0, reply_lost=0, request_lost=0)
def test_alone(world):
    start(world, claim_well, 1)

@fencepost.audit(crash=0, reply_lost=0, request_lost=0, strategy="random", schedules=10)
def test_alone_at_random(world):
    start(world, claim_well, 1)
""")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["E   nothing was covered: no two steps of different processes conflicted*"])


def test_what_should_sometimes_happen_and_never_does_fails(project: Run) -> None:
    result = project(
        GOOD + '    world.sometimes("two lead", lambda view: len(set(view.notes("leads"))) == 2)\n'
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   sometimes 'two lead': it never happened in any run"])


@pytest.mark.slow
def test_parameters_and_wide_fixtures_reach_the_test(project: Run) -> None:
    result = project("""
@pytest.fixture(scope="module")
def settings():
    return {"count": 2}

@pytest.mark.parametrize("claim", [claim, claim_well], ids=["broken", "fixed"])
@fencepost.audit(crash=0)
def test_both(world, claim, settings):
    start(world, claim, settings["count"])

class TestInAClass:
    @fencepost.audit(processes=3, reply_lost=0, request_lost=0)
    def test_method(self, world, processes):
        start(world, claim_well, processes)
""")
    result.assert_outcomes(passed=2, failed=1)
    assert any(
        "pytest 'test_it.py::test_both[broken]' --fencepost-token=" in line for line in result.outlines
    )


def test_a_number_of_processes_is_a_promise(project: Run) -> None:
    result = project(GOOD.replace("processes=2", "processes=3"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   test_it.py::test_good: processes=3 is declared, and 2 were spawned"])


def test_a_fixture_that_schedules_would_share_is_refused(project: Run) -> None:
    """One schedule would find what another left in it: the proof would be of nothing."""
    text = """
@pytest.fixture
def box():
    return []

@pytest.fixture(autouse=True)
def around(monkeypatch):
    yield

@fencepost.audit(OPTIONS)
def test_boxed(world, box):
    start(world, claim_well)
"""
    result = project(text.replace("OPTIONS", "crash=0"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   the fixture 'box' is set up once for the test, and not for each*"])
    project(text.replace("OPTIONS", "shared_fixtures=True")).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("async def test_x(world): pass", "test_x is async, and the world runs ordinary blocking functions"),
        ("def test_x(world):\n    yield", "test_x yields; set the world up and return"),
        ("def test_x(view): pass", "test_x needs a parameter `world`"),
        ("def test_x(world, *names): pass", "test_x takes *args or **kwargs"),
        ("class TestX: pass", "an audit needs a function of world, and TestX is none"),
    ],
)
def test_what_cannot_be_audited_is_refused_where_it_stands(text: str, says: str, project: Run) -> None:
    result = project(f"@fencepost.audit\n{text}\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"E   TypeError: {says.replace('[', '[[]')}*"])


def test_an_async_process_is_refused(project: Run) -> None:
    """Calling it would make a coroutine that nobody runs, and everything would hold."""
    result = project("""
async def later(world, store, name):
    await store.put("leader", b"", when=ABSENT)

@fencepost.audit
def test_x(world):
    start(world, later)
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   test_it.py::test_x: later is async or a generator; a process is*"])


def test_a_mistake_in_setting_up_shows_its_line(project: Run) -> None:
    result = project("\n@fencepost.audit\ndef test_x(world):\n    world.spoon()\n")
    result.assert_outcomes(failed=1)
    printed = lines_after(result, "_ test_x _")
    assert ">       world.spoon()" in printed
    assert not any("fencepost/" in line for line in printed), "no line of the harness is shown"


def test_a_test_that_does_not_repeat_itself_says_so(project: Run) -> None:
    result = project("""
runs = []

@fencepost.audit
def test_x(world):
    runs.append(1)
    def put(store):
        store.put(f"key{len(runs)}", b"", when=ANYTHING)
        store.put("same", b"", when=ANYTHING)
    world.spawn(put, world.store())
    world.spawn(put, world.store())
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   test_it.py::test_x does not repeat itself: step *"])


def test_the_fixture_audits_programs_and_gives_the_result(project: Run) -> None:
    result = project("""
def broken(world):
    start(world, claim)

@fencepost.audit(processes=2, crash=0)
def fixed(world):
    start(world, claim_well)

def test_both(fencepost_audit):
    assert fencepost_audit(fixed).verdict == "holds"
    assert "1 crash" in fencepost_audit(fixed, crash=1).bound
    with pytest.raises(fencepost.AuditFailed, match="one leader") as failed:
        fencepost_audit(broken, crash=0)
    assert failed.value.result.violations[0].property == "one leader"
""")
    result.assert_outcomes(passed=1)
    assert any(line.startswith("2 hold, 1 violated; ") for line in result.outlines)


@pytest.mark.slow
def test_a_seed_is_part_of_the_replay(project: Run) -> None:
    result = project(BAD, "--fencepost-seed=3")
    assert any("--fencepost-seed=3 --fencepost-token=" in line for line in result.outlines)


def test_junit_holds_the_bound_and_the_counterexample(project: Run, pytester: pytest.Pytester) -> None:
    project(GOOD + BAD, "--junitxml=out.xml")
    text = Path(pytester.path, "out.xml").read_text()
    assert 'name="fencepost" value="holds: every schedule of 2 processes' in text
    assert "put leader unconditionally" in text


def test_ctrl_c_in_a_process_of_the_world_stops_the_session(project: Run) -> None:
    """It must not be reported as a failure of the process that happened to run."""
    result = project(
        LONG
        + """
import signal

@pytest.fixture(autouse=True)
def interrupted():
    own = signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_PROF, 0.5)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, own)

@fencepost.audit
def test_x(world):
    start(world, put_many)
""",
        "--fencepost-budget=20",
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert not any("is violated" in line for line in result.outlines)


def test_a_session_without_audits_is_left_alone(project: Run) -> None:
    result = project("\ndef test_plain():\n    pass\n")
    result.assert_outcomes(passed=1)
    assert not any("fencepost" in line for line in result.outlines if "plugins:" not in line)


def test_the_plugin_imports_nothing_but_pytest() -> None:
    """It is loaded in every project in which Fencepost is installed."""
    code = (
        "import pytest, sys; before = set(sys.modules); import fencepost.pytest_plugin; "
        "print(*(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {name for name in ran.stdout.split() if name.startswith("fencepost")}
    assert heavy == {"fencepost", "fencepost.pytest_plugin"}


def test_the_strategies_are_those_of_the_audit() -> None:
    """Written twice, because the plugin may not import them."""
    from fencepost.sim.explore import STRATEGIES

    assert pytest_plugin.STRATEGIES == testing.STRATEGIES
    assert set(testing.STRATEGIES) <= set(STRATEGIES)


def test_outside_of_pytest_an_audited_function_is_just_called(tmp_path: Path) -> None:
    file = tmp_path / "alone.py"
    file.write_text(HELPERS + GOOD + BAD + "\nprint(test_good())\ntest_bad()\n")
    ran = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[0] == "None"
    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert last.startswith(f"fencepost audit {file}:test_bad --replay ann:head:leader:1,")
    assert "AuditFailed: one leader: assert" in ran.stderr or "AuditFailed: one leader: " in ran.stderr


@pytest.mark.server
def test_under_xdist_the_summary_is_collected_from_the_workers(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "PYTEST_ADDOPTS", "")
    pytester.makepyfile(test_it=HELPERS + GOOD + BAD)
    result = pytester.runpytest_subprocess("-n", "2")
    result.assert_outcomes(passed=1, failed=1)
    assert any(line.startswith("holds      test_it.py::test_good: ") for line in result.outlines)
    assert any(line.startswith("1 hold, 1 violated; ") for line in result.outlines)
    assert any(line.startswith("pytest test_it.py::test_bad --fencepost-token=") for line in result.outlines)
    refused = pytester.runpytest_subprocess("-n", "2", f"--fencepost-token={TOKEN}")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "leave out -n, or add -n 0" in refused.stderr.str()


@pytest.mark.slow
def test_what_failed_is_tried_first_the_next_time(pytester: pytest.Pytester) -> None:
    """What a sample found by luck is found again until it is fixed; then everything is explored."""
    pytester.makepyfile(test_it=HELPERS + BAD)
    options = ("--fencepost-strategy=random", "--fencepost-seed=4")
    first = pytester.runpytest_inprocess(*options)
    second = pytester.runpytest_inprocess("--fencepost-strategy=random", "--fencepost-seed=5")
    printed = [
        line for result in (first, second) for line in result.outlines if line.startswith("violated   ")
    ]
    assert "no other was tried" not in printed[0]
    assert ": 1 interleavings, " in printed[1]
    assert "a schedule that failed before still breaks a property; no other was tried" in printed[1]
    assert lines_after(first, "_ test_bad _")[3:10] == lines_after(second, "_ test_bad _")[3:10]
    pytester.makepyfile(test_it=HELPERS + BAD.replace("claim)", "claim_well)"))
    fixed = pytester.runpytest_inprocess()
    fixed.assert_outcomes(passed=1)
    assert any("every schedule of 2 processes" in line for line in fixed.outlines)
    assert not list(pytester.path.glob(".pytest_cache/d/fencepost/*"))


def test_the_handler_of_ctrl_c_is_given_back(project: Run) -> None:
    before = signal.getsignal(signal.SIGINT)
    project(GOOD)
    assert signal.getsignal(signal.SIGINT) is before
