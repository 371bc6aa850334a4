"""`fencepost audit`: verdicts, counterexamples, replay, limits, a user's own file, refused requests."""

import json
import signal
import textwrap
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.commands.audit import progress_text, read_faults
from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.systems import shipped
from fencepost.impl.store.events import Event
from fencepost.sim.world import NO_FAULTS, Budget
from fencepost.testing import FAULTS
from tests.commands.running import exit_of

ELECTION = """
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
    assert len(set(view.notes("leads"))) <= 1, "two lead"


def start(world, claim, processes):
    for number in range(processes):
        world.spawn(claim, world, world.store(), f"p{number}", name=f"p{number}")
    world.always("one leader", one)


def broken(world, processes: int = 2, fast: bool = False):
    start(world, claim, processes)


def fixed(world, processes=2, pace=1.0, label="x"):
    start(world, claim_well, processes)


@fencepost.audit(processes=2, crash=0, reply_lost=0, request_lost=0)
def test_marked(world, processes):
    start(world, claim_well, processes)


def dear(world):
    start(world, claim_well, 2)
    world.at_most("p1", requests=0, faults=0)


def alone(world):
    world.spawn(lambda: None, name="idle")


def long(world):
    start(world, put_many, 3)


def put_many(world, store, name):
    for number in range(40):
        store.put(f"{name}/{number}", b"", when=ANYTHING)
        store.put("all", name.encode(), when=ANYTHING)


def needing(world, jobs):
    pass


def wrong_in_setup(world):
    world.spoon()


def wrong_in_process(world):
    world.spawn(tripping, world.store(), name="tripper")
    world.spawn(tripping, world.store(), name="second")


def tripping(store):
    store.get("x")
    return {}["a"]


def misused(world):
    world.spawn(tripping, name="twin")
    world.spawn(tripping, name="twin")


count = 0


def forgetful(world):
    global count
    count += 1
    world.spawn(tripping_sometimes, world.store(), count, name="a")
    world.spawn(tripping_sometimes, world.store(), count, name="b")


def tripping_sometimes(store, count):
    store.put(f"key{count}", b"", when=ANYTHING)
    store.put("same", b"", when=ANYTHING)


async def later(world):
    pass
"""


ends = partial(exit_of, "audit")


@pytest.fixture
def election(tmp_path: Path) -> str:
    file = tmp_path / "election.py"
    file.write_text(ELECTION)
    return str(file)


def result(target: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(target.read_text())
    return found


def test_a_program_that_holds_says_for_what_it_was_proven(
    election: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "r.json"
    assert ends(f"{election}:fixed", "--json", str(target)) == Exit.HOLDS
    output = capsys.readouterr().out
    assert output.splitlines()[0] == (
        "holds: every schedule of 2 processes with at most 1 crash, 1 lost reply or request, 1 pause; "
        "not tried: late landing, 409, 503, retry by the SDK"
    )
    found = result(target)
    assert list(found)[:10] == [
        "system", "strategy", "parameters", "verdict", "bound",
        "schedules", "pruned", "seconds", "violations", "findings",
    ]  # fmt: skip
    assert found["system"] == f"{election}:fixed"
    assert found["strategy"] == "portfolio"
    assert found["parameters"] == {"processes": 2, "pace": 1.0, "label": "x"}
    assert found["violations"] == []
    assert found["schedules"] > 5
    assert found["coverage"]["conflicts"] > 0
    assert set(found["coverage"]["steps"]) == {"p0", "p1"}
    assert found["coverage"]["outcomes"]["put exists"] > 0
    assert found["faults"]["crash"] == 1


def test_a_failure_ends_with_the_command_that_replays_it(
    election: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The counterexample of the classic mistake, to the letter, and the same again from its token."""
    target = tmp_path / "r.json"
    assert ends(f"{election}:broken", "--json", str(target)) == Exit.VIOLATED
    output = capsys.readouterr().out
    counterexample = [
        "    1   p0           head leader                              -> missing",
        "    2   p1           head leader                              -> missing",
        "    3   p1           put leader unconditionally b'p1'         -> done (17be76)",
        "    4   p1           note leads: 'p1'",
        "    5   p0           put leader unconditionally b'p0'         -> done (ebb6e0)",
        "    6   p0           note leads: 'p0'",
        "    => one leader: two lead",
    ]
    lines = output.splitlines()
    assert "one leader is violated: two lead" in lines
    start = lines.index("one leader is violated: two lead") + 2
    assert [line[:56].rstrip() for line in lines[start : start + 7]] == [
        line[:56].rstrip() for line in counterexample
    ]
    violation = result(target)["violations"][0]
    assert (violation["property"], violation["reason"]) == ("one leader", "two lead")
    assert len(violation["counterexample"]) == 7
    again = f"fencepost audit {election}:broken --replay {violation['token']}"
    assert lines[-1] == again
    assert any(line.startswith("violated: a schedule of 2 processes with") for line in lines)

    assert ends(*again.split()[2:], "--json", str(target)) == Exit.VIOLATED
    repeated = capsys.readouterr().out
    assert repeated.splitlines()[-1] == again
    assert result(target)["violations"][0]["counterexample"] == violation["counterexample"]


def test_what_a_program_costs_is_reported_and_a_bound_that_is_broken_has_its_counterexample(
    election: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.json"
    assert ends(f"{election}:fixed", "-v", "--json", str(file)) == Exit.HOLDS
    output = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(output) if line.startswith("  cost  "))
    head = "cost requests/hops at most (median) without faults with 1 fault with 2 faults"
    assert [line.split() for line in output[at : at + 3]] == [
        head.split(),
        ["p0", *["1/1", "(1/1)"] * 3],
        ["p1", *["1/1", "(1/1)"] * 3],
    ]
    assert json.loads(file.read_text())["cost"]["p0"]["faults"][0]["requests"] == 1
    assert ends(f"{election}:dear") == Exit.VIOLATED
    out = capsys.readouterr().out
    error = "it took 1 request and 1 serial hop without faults, and may take 0 requests without faults"
    assert f"cost of p1 is violated: {error}" in out
    again = out.splitlines()[-1].split(" --replay ")[1]
    assert ends(f"{election}:dear", "--replay", again) == Exit.VIOLATED
    assert f"=> cost of p1: {error}" in capsys.readouterr().out


def test_what_the_program_prints_is_heard_for_the_failing_run_alone(
    election: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A print in the code is how people look into a failure; thousands of schedules would drown it."""
    assert ends(f"{election}:broken") == Exit.VIOLATED
    assert capsys.readouterr().out.count("claiming p0") == 1
    assert ends(f"{election}:broken", "--json", "-") == Exit.VIOLATED
    output = capsys.readouterr()
    assert json.loads(output.out)["verdict"] == "violated"
    assert "claiming p0" in output.err


def test_a_failure_stands_beside_the_nearest_run_that_passes(tmp_path: Path, election: str) -> None:
    """What is different between the two is the failure; alone, a counterexample does not say which step it
    was."""
    target = tmp_path / "out.json"
    assert ends(f"{election}:broken", "--json", str(target)) == Exit.VIOLATED
    (violation,) = result(target)["violations"]
    near = violation["nearest_pass"]
    same = near["same_steps"]
    assert 0 < same < len(near["counterexample"])
    assert near["counterexample"][:same] == violation["counterexample"][:same]
    assert near["counterexample"][same] != violation["counterexample"][same]
    assert ends(f"{election}:broken", "--replay", near["token"]) == Exit.HOLDS
    landed = [row["process"] for row in violation["events"] if row["phase"] == "landed"]
    assert landed == ["p0", "p1", "p0", "p1"] or landed == ["p0", "p1", "p1", "p0"]


def test_a_token_that_breaks_nothing_holds_for_its_one_schedule(
    election: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that `git bisect run fencepost audit ... --replay TOKEN` works."""
    assert ends(f"{election}:fixed", "--replay", "p1:put:leader:1") == Exit.HOLDS
    output = capsys.readouterr().out
    assert "put leader if absent b'p1'" in output
    assert output.splitlines()[0] == "holds: this one schedule, and nothing is claimed about any other"


def test_a_token_that_no_longer_fits_says_what_is_missing(
    election: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(f"{election}:fixed", "--replay", "p1:head:leader:1") == Exit.UNDECIDED
    assert "the token no longer fits" in capsys.readouterr().out


def test_the_trace_holds_the_events_of_the_failing_run(election: str, tmp_path: Path) -> None:
    target = tmp_path / "t.jsonl"
    assert ends(f"{election}:broken", "--trace", str(target)) == Exit.VIOLATED
    events = [Event(**json.loads(line)) for line in target.read_text().splitlines()]
    assert [event.seq for event in events] == list(range(len(events)))
    landed = [(event.process, event.kind, event.key) for event in events if event.phase == "landed"]
    assert landed == [
        ("p0", "head", "leader"),
        ("p1", "head", "leader"),
        ("p1", "put", "leader"),
        ("p0", "put", "leader"),
    ]
    assert ends(f"{election}:fixed", "--trace", str(target)) == Exit.HOLDS
    assert '"outcome":"exists"' in target.read_text()


def test_options_that_a_test_carries_are_used_and_given_way_to(
    election: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "r.json"
    assert ends(f"{election}:test_marked", "--json", str(target)) == Exit.HOLDS
    assert result(target)["bound"].startswith(
        "every schedule of 2 processes with at most 1 pause; not tried: crash"
    )
    for three in (["--processes", "3"], ["--set", "processes=3"]):
        words = [f"{election}:test_marked", *three, "--faults", "crash=1", "--json", str(target)]
        assert ends(*words) == Exit.HOLDS
        bound = "every schedule of 3 processes with at most 1 crash, 1 pause; not tried: lost reply"
        assert result(target)["bound"].startswith(bound)


def test_parameters_are_read_by_their_type(election: str, tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    words = ["--set", "processes=1", "--set", "pace=0.5", "--set", "label=3", "--json", str(target)]
    assert ends(f"{election}:fixed", *words) == Exit.HOLDS
    assert result(target)["parameters"] == {"processes": 1, "pace": 0.5, "label": "3"}
    assert ends(f"{election}:broken", "--set", "fast=yes", "--json", str(target)) == Exit.VIOLATED
    assert result(target)["parameters"] == {"processes": 2, "fast": True}


def test_a_limit_decides_nothing(election: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(f"{election}:long", "--max-schedules", "20") == Exit.UNDECIDED
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("undecided: 3 processes: without faults: undecided, about ")
    assert ends(f"{election}:long", "--budget", "0.2", "--quiet") == Exit.UNDECIDED
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize("strategy", ["random", "pct", "hypothesis"])
def test_samples_find_and_never_prove(
    strategy: str, election: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--strategy", strategy, "--max-schedules", "300"]
    assert ends(f"{election}:broken", *words, "--seed", "1") == Exit.VIOLATED
    assert " --seed 1 --replay " in capsys.readouterr().out.splitlines()[-1]
    assert ends(f"{election}:fixed", *words) == Exit.UNDECIDED


def test_a_run_that_covers_nothing_is_no_pass(election: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing failed, and nothing could have: the classic way to be fooled by a green check."""
    assert ends(f"{election}:alone", "--faults", "none") == Exit.UNDECIDED
    assert "finding: nothing was covered" in capsys.readouterr().out


def test_a_search_is_put_down_and_taken_up_again(
    election: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "search.json"
    counts = []
    for limit in ("15", "30"):
        words = [f"{election}:fixed", "--processes", "3", "--max-schedules", limit, "--resume", str(file)]
        target = tmp_path / "r.json"
        assert ends(*words, "--json", str(target)) == Exit.UNDECIDED
        assert capsys.readouterr().out.splitlines()[-1] == (
            f"fencepost audit {election}:fixed --processes 3 --max-schedules {limit} --resume {file}"
        )
        found = result(target)
        counts.append(found["schedules"] + found["pruned"])
    assert counts == [15, 30]
    assert ends(f"{election}:fixed", "--processes", "3", "--resume", str(file)) == Exit.HOLDS
    assert f"; continued from {file}, which is trusted" in capsys.readouterr().out
    assert ends(f"{election}:fixed", "--processes", "2", "--resume", str(file)) == Exit.BAD_REQUEST
    assert "belongs to" in capsys.readouterr().err


def test_an_exception_of_a_process_is_reported_with_its_place(
    election: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(f"{election}:wrong_in_process") == Exit.VIOLATED
    output = capsys.readouterr().out
    assert "tripper ends well is violated: it raised KeyError: 'a'" in output
    line = 1 + ELECTION.splitlines().index('    return {}["a"]')
    assert f'     at {election}:{line} in tripping: return {{}}["a"]' in output.splitlines()


def test_the_list_names_systems_and_their_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("--list") == Exit.HOLDS
    output = capsys.readouterr().out
    assert "counter  A counter that several writers increment" in output
    assert "  mutant read-modify-write" in output


def test_shipped_systems_are_audited_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"counter", "election", "lock", "log", "queue"} <= set(shipped())
    assert ends("election") == Exit.HOLDS
    assert ends("election", "--mutant", "check-then-create") == Exit.VIOLATED
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("fencepost audit election --mutant check-then-create --replay ")
    assert ends(*last.split()[2:]) == Exit.VIOLATED


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name the system to audit"),
        (["counterr"], "no system is called 'counterr'; known: "),
        (["no/such.py:f"], "there is no file no/such.py"),
        (["counter", "--mutant", "x"], "counter has no mutant 'x'; it has: read-modify-write"),
        (["ELECTION:fixed", "--mutant", "x"], "has no mutant 'x'; --mutate makes: "),
        (["ELECTION"], "choose a program of"),
        (["ELECTION:one"], "holds no program 'one': one needs a parameter `world`"),
        (["ELECTION:later"], "holds no program 'later'"),
        (["ELECTION:needing"], "needs jobs; give --set jobs=..."),
        (["ELECTION:fixed", "--set", "processes"], "must read NAME=VALUE"),
        (["ELECTION:fixed", "--set", "processes=many"], "'many' is not a whole number"),
        (["ELECTION:fixed", "--set", "pace=1", "--set", "pace=2"], "gives pace twice"),
        (["ELECTION:fixed", "--set", "pace=fast"], "'fast' is not a number"),
        (["ELECTION:broken", "--set", "fast=perhaps"], "give true or false"),
        (["ELECTION:fixed", "--set", "size=1"], "takes no size; it takes: processes, pace, label"),
        (["ELECTION:alone", "--processes", "2"], "takes no processes; it takes: none"),
        (["ELECTION:fixed", "--processes", "2", "--set", "processes=2"], "processes is given twice"),
        (["counter", "--faults", "lost=1"], "no fault is called 'lost'; known: crash, reply_lost"),
        (["counter", "--faults", "crash"], "give a whole number, as in crash=1"),
        (["counter", "--faults", "crash=-1"], "give a whole number, as in crash=1"),
        (["counter", "--faults", "late=1,late=2"], "gives late twice"),
        (["counter", "--faults", "late=1", "--faults", "none"], "none comes first"),
        (["counter", "--replay", "x"], "is not process:operation:key:occurrence"),
        (["counter", "--replay", ""], "--replay is given an empty token"),
        (["counter", "--resume", "/no/such/dir/s"], "cannot write /no/such/dir/s: No such file"),
        (["counter", "--replay", "default", "--budget", "3"], "--budget is about a search"),
        (
            ["counter", "--strategy", "pct", "--jobs", "2"],
            "--jobs is for the exhaustive strategy, not for pct",
        ),
        (["counter", "--strategy", "random", "--resume", "f"], "--resume is for the exhaustive strategy"),
        (["counter", "--depth", "2"], "give --strategy pct with it"),
        (["counter", "--strategy", "clever"], "'clever' is not one of"),
        (["election", "--resume", "ELECTION"], "is no checkpoint"),
        (["election", "--trace", "/no/such/dir/t"], "cannot write /no/such/dir/t"),
        (["election", "--json", "/no/such/dir/r.json"], "cannot write /no/such/dir/r.json"),
        (["ELECTION:wrong_in_setup"], "the program cannot set the world up: AttributeError: "),
        (["ELECTION:misused"], "two processes cannot both be called 'twin'"),
        (["ELECTION:forgetful"], "does not repeat itself: "),
    ],
)
def test_an_invalid_request_is_one_line(
    words: list[str], says: str, election: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(*(word.replace("ELECTION", election) for word in words)) == Exit.BAD_REQUEST
    output = capsys.readouterr().err
    assert says in output
    assert output.count("\n") == 1


def test_a_mistake_in_setting_up_names_the_line(election: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = 1 + ELECTION.splitlines().index("    world.spoon()")
    assert ends(f"{election}:wrong_in_setup") == Exit.BAD_REQUEST
    assert capsys.readouterr().err.startswith(f"fencepost: {election}:{line}: ")


def test_the_only_program_of_a_file_needs_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Helpers that take a world and more are no programs; what lies beside the file is found."""
    (tmp_path / "beside.py").write_text("NAME = 'leader'\n")
    file = tmp_path / "own.py"
    file.write_text(
        textwrap.dedent("""
            from fencepost.impl.store import ABSENT

            def claim(world, store, name):
                import beside
                store.put(beside.NAME, name.encode(), when=ABSENT)

            def program(world):
                for name in "ab":
                    world.spawn(claim, world, world.store(), name, name=name)
        """)
    )
    assert ends(str(file)) == Exit.HOLDS
    assert f"{file}:program (portfolio)" in capsys.readouterr().out


def test_faults_not_named_stay_as_they_are() -> None:
    assert read_faults(["late=2, reply_lost=0"]) == {"late": 2, "reply_lost": 0}
    assert read_faults([]) == {}
    assert set(read_faults(["none"]).values()) == {0}
    with pytest.raises(BadRequest):
        read_faults([""])


@pytest.mark.parametrize("words", [["none", "pause=1"], ["none,pause=1"]])
def test_none_is_not_undone_by_a_later_fault(words: list[str]) -> None:
    assert Budget(**read_faults(words)) == replace(NO_FAULTS, pause=1)


def test_every_fault_of_the_budget_can_be_named() -> None:
    from dataclasses import fields

    from fencepost.sim.world import Budget

    assert list(FAULTS) == [field.name for field in fields(Budget)]


def test_progress_claims_no_end_that_nobody_knows() -> None:
    """An estimate of the runs that are left was off by a factor of four hundred."""
    assert progress_text(SimpleNamespace(runs=5000), 2.0) == "5,000 runs, 2,500/s, 2 s"
    assert progress_text(SimpleNamespace(schedules=10), 0.0) == "10 runs, 0/s, 0 s"


def test_several_jobs_find_the_same(election: str, tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    assert ends(f"{election}:fixed", "--jobs", "2", "--json", str(target)) == Exit.HOLDS
    assert result(target)["schedules"] > 5
    assert ends(f"{election}:broken", "--jobs", "2", "--json", str(target)) == Exit.VIOLATED
    assert result(target)["violations"][0]["property"] == "one leader"


def test_an_interrupt_ends_with_what_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C comes while a process of the world runs as often as not, and must not look like its failure."""
    file = tmp_path / "long.py"
    file.write_text(
        textwrap.dedent("""
            from fencepost.impl.store import ANYTHING

            def put_ten(store):
                for _ in range(10):
                    store.put("same", b"", when=ANYTHING)

            def program(world):
                for _ in range(3):
                    world.spawn(put_ten, world.store())
        """)
    )
    target, search = tmp_path / "r.json", tmp_path / "search.json"
    before = signal.getsignal(signal.SIGINT)
    own = signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        signal.setitimer(signal.ITIMER_PROF, 0.5)  # of processor time: some schedules have ended by then
        assert ends(str(file), "--json", str(target), "--resume", str(search)) == Exit.UNDECIDED
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, own)
    assert signal.getsignal(signal.SIGINT) is before
    assert "finding: interrupted: this is what was found so far" in capsys.readouterr().out
    assert result(target)["verdict"] == "undecided"
    assert result(target)["schedules"] > 0
    assert search.exists()


def test_examples_are_code_of_users_and_not_of_the_harness() -> None:
    """They ship inside of the package, and yet the world must own the time and randomness they ask for."""
    from fencepost.sim.world.present import REAL, STEP, classify

    assert classify("fencepost.examples.audit.counter") == STEP
    assert classify("fencepost.sim.world.world") == REAL
