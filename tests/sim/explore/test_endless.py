"""Processes that never end: heartbeats, servers, loops that wait for nothing."""

import signal
import time
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Outcome
from fencepost.sim.explore import audit, deepening, portfolio, watchdog
from fencepost.sim.explore.endless import judge_endless, try_favourites
from fencepost.sim.explore.liveness import Fair, follow_fair
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.reporting import run_audit
from fencepost.sim.explore.runs import Setting
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.testing import Options, request_of

YEAR_S = 365 * 86_400
ONE_CRASH = Budget(crash=1, reply_lost=0, request_lost=0, pause=0)


def check_then_put(world: World, store: Any, name: str) -> None:
    if store.head("leader").outcome is Outcome.MISSING and store.put("leader", b"", when=ANYTHING).done:
        world.note("leads", name)


def create(world: World, store: Any, name: str) -> None:
    if store.put("leader", name.encode(), when=ABSENT).done:
        world.note("leads", name)


def beat(store: Any) -> None:
    count = 0
    while True:
        count += 1
        store.put("heartbeat", str(count).encode(), when=ANYTHING)
        store.env.sleep(1)


def serve(store: Any) -> None:
    """Looks at what the others fight for."""
    while True:
        store.head("leader")
        store.list("jobs/")


def election(claim: Any, endless: Any, *, first: bool, daemon: bool) -> Any:
    def program(world: World) -> None:
        store = world.store()
        if first:
            world.spawn(endless, store, name="endless", daemon=daemon)
        for name in ("ann", "bob"):
            world.spawn(claim, world, store, name, name=name)
        if not first:
            world.spawn(endless, store, name="endless", daemon=daemon)
        world.always("one leader", lambda view: len(view.notes("leads")) < 2)

    return program


@pytest.mark.parametrize("daemon", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("endless", [beat, serve])
def test_a_race_beside_an_endless_process_is_found(endless: Any, first: bool, daemon: bool) -> None:
    """Before, the endless process starved the others, or was cut at the end of every run."""
    program = election(check_then_put, endless, first=first, daemon=daemon)
    result = audit(program, budget=ONE_CRASH, schedules=20_000, minimise_seconds=20.0)
    assert result.verdict == "violated"
    (found,) = result.counterexamples
    assert found.property == "one leader"
    assert {line.process for line in found.lines} == {"ann", "bob"}, "what the endless one does is left out"
    assert result.bound.startswith("a schedule of 3 processes")


@pytest.mark.parametrize("endless", [beat, serve])
def test_beside_a_daemon_a_good_program_holds(endless: Any) -> None:
    result = audit(election(create, endless, first=True, daemon=True), budget=NO_FAULTS)
    assert result.verdict == "holds"
    assert "a daemon takes 8 steps while others can go on" in result.bound


def test_what_only_a_daemon_breaks_is_found() -> None:
    """The daemon may go on after every step of the others but the last."""

    def program(world: World) -> None:
        store = world.store()

        def sweep() -> None:
            while True:
                for found in store.list("tmp/").objects:
                    store.delete(found.key, when=ANYTHING)

        def work() -> None:
            store.put("tmp/a", b"", when=ANYTHING)
            world.note("kept", store.head("tmp/a").done)

        world.spawn(sweep, name="sweeper", daemon=True)
        world.spawn(work, name="worker")
        world.always("work is kept", lambda view: all(view.notes("kept")))

    assert audit(program, budget=NO_FAULTS).verdict == "violated"


@pytest.mark.parametrize(("rounds", "verdict"), [(700, "undecided"), (None, "violated")])
def test_a_loop_with_many_rounds_breaks_no_promise(rounds: int | None, verdict: str) -> None:
    """It counts as endless in the search, and is followed before it is blamed."""

    def program(world: World) -> None:
        store = world.store()

        def wait() -> None:
            count = 0
            while not store.head("go").done and count != rounds:
                count += 1
            store.put("over", b"", when=ANYTHING)

        world.spawn(wait, name="ann")
        world.eventually("it ends", lambda view: view.get("over") is not None)

    assert audit(program, budget=NO_FAULTS).verdict == verdict


@pytest.mark.parametrize(
    ("search", "reads_clock"),
    [(ReducedSearch, False), (Plain, False), (follow_fair, False), (follow_fair, True)],
)
@pytest.mark.parametrize("years", [None, 9])
def test_a_promise_that_only_takes_time_is_kept(years: int | None, reads_clock: bool, search: Any) -> None:
    """A wait without end is followed far into the future, and the promise is judged there."""

    def program(world: World) -> None:
        store = world.store()

        def wait() -> None:
            while not store.head("go").done:
                if reads_clock:
                    time.time_ns()
                if search is follow_fair:
                    time.sleep(1)

        def promise(view: Any) -> bool:
            return years is not None and view.now_ns() > (1_700_000_000 + years * YEAR_S) * 10**9

        world.spawn(wait, name="ann")
        world.eventually("so much time passes", promise)
        if years is not None:
            world.eventually("it goes", lambda view: view.get("go") is not None)

    setting = Setting(program, NO_FAULTS)
    if search is follow_fair:
        lasso = follow_fair(setting, Fair(1, 1, 0))
        names = [] if lasso is None else [lasso.property]
    else:
        found = search(setting)
        found.explore(lambda at: at.schedules + at.cut >= 5)
        names = [failure.violation.name for failure in found.failures]
    assert names == ["so much time passes" if years is None else "it goes"]


def test_a_wait_of_a_few_rounds_is_not_blamed() -> None:
    """Where it is not followed, a loop that is known to be endless elsewhere may end here after a few."""

    def program(world: World) -> None:
        store = world.store()

        def wait() -> None:
            while not store.head("go").done:
                time.sleep(1)

        world.spawn(wait, name="ann")
        world.eventually("it goes", lambda view: view.get("go") is not None)

    world = Setting(program, NO_FAULTS).world()
    try:
        world.start(program)
        for _ in range(60):
            enabled = world.enabled()
            judge_endless(world, enabled, steps=0)
            if world.violation is not None:
                break
            world.step(enabled[0], world.alternatives(enabled[0])[0])
        assert world.violation is not None
        assert world.processes[0].spins == world.run.settings.wait_rounds
    finally:
        world.close()


@pytest.mark.parametrize("daemon", [True, False])
def test_a_daemon_is_no_loop_that_starves_others(daemon: bool) -> None:
    """Its steps beside others are limited already, and the bound names loops without a limit only."""

    def program(world: World) -> None:
        world.configure(daemon_steps=1_000)
        election(create, beat, first=True, daemon=daemon)(world)

    setting = Setting(program, NO_FAULTS)
    try_favourites(setting)
    assert {name for name, _ in setting.loops.starving} == (set() if daemon else {"endless"})


def test_others_may_wait_for_a_daemon() -> None:
    """It has taken all its steps, and goes on because nobody else can."""

    def program(world: World) -> None:
        world.configure(daemon_steps=2)
        store = world.store()

        def serve() -> None:
            for number in range(1000):
                store.head("idle")
                store.list("idle")
                store.put(f"reply/{number}", b"", when=ANYTHING)

        def wait() -> None:
            while not store.head("reply/1").done:
                pass

        world.spawn(serve, name="server", daemon=True)
        world.spawn(wait, name="client")
        world.finally_("it was answered", lambda view: view.get("reply/1") is not None)

    assert audit(program, budget=NO_FAULTS).verdict == "holds"


def test_a_cut_run_names_the_process_and_the_option() -> None:
    def program(world: World) -> None:
        world.spawn(beat, world.store(), name="beats")
        world.spawn(create, world, world.store(), "ann", name="ann")
        world.eventually("ann leads", lambda view: bool(view.notes("leads")))
        world.finally_("somebody leads", lambda view: bool(view.notes("leads")))

    result = audit(program, budget=NO_FAULTS, schedules=500, steps_max=50)
    assert result.verdict == "undecided"
    text = "\n".join(result.findings)
    assert "steps, and beats went on" in text
    assert "--max-steps" in text
    assert "daemon=True" in text
    assert "not judged in runs that were cut: " in text
    assert "somebody leads" in text


def spin(world: World) -> None:
    world.store().put("k", b"", when=ANYTHING)
    flag: list[int] = []
    while not flag:  # the busy line
        pass


def late_spin(world: World) -> None:
    """Compute without end where the others came first in another order than that of the first run."""
    if world.store().get("leader").body == b"bob":
        spin(world)


def spinning(world: World) -> None:
    world.spawn(spin, world, name="spins")
    world.spawn(create, world, world.store(), "ann", name="ann")


def test_a_busy_loop_is_an_error_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, only SIGKILL ended the command."""
    monkeypatch.setattr(watchdog, "SECONDS", 0.3)
    result = audit(spinning, budget=NO_FAULTS)
    assert result.verdict == "error"
    assert "spins computed without a request or a sleep" in result.bound
    assert result.error_at is not None
    line = Path(__file__).read_text().splitlines()[result.error_at.line - 1]
    assert "the busy line" in line or "pass" in line
    assert result.result().error.file.endswith("test_endless.py")


def test_a_busy_loop_ends_with_the_time_of_the_audit() -> None:
    result = audit(spinning, budget=NO_FAULTS, seconds=0.5)
    assert result.verdict == "undecided"
    assert "a run was left when the time was over, while spins was computing, at " in result.findings[0]


def test_code_that_is_slow_once_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection of garbage, or a machine that swaps, is no busy loop: the search is repeated."""
    monkeypatch.setattr(watchdog, "SECONDS", 0.4)
    slow = iter([True])

    def work(world: World) -> None:
        until = thread_time() + (1.5 if next(slow, False) else 0.0)
        while thread_time() < until:
            pass
        create(world, world.store(), world.me)

    def program(world: World) -> None:
        for name in ("ann", "bob"):
            world.spawn(work, world, name=name)

    result = audit(program, budget=NO_FAULTS)
    assert result.verdict == "holds"
    assert not result.findings
    assert next(slow, None) is None, "it was slow once"


@pytest.mark.parametrize(
    ("real_s", "computed_s", "waited_s", "debugged", "counts_s"),
    [
        (12.0, 12.0, 0.0, False, 12.0),  # a busy loop
        (0.25, 0.0, 0.0, False, 0.25),  # blocked in a lock
        (12.0, 0.1, 11.9, False, 0.1),  # starved by other programs
        (3600.0, 0.0, 0.0, False, 2 * watchdog.LOOK_S),  # a machine that was suspended
        (12.0, 0.2, 0.0, True, 0.2),  # a person at a debugger
    ],
)
def test_the_load_of_the_machine_does_not_count(
    real_s: float, computed_s: float, waited_s: float, debugged: bool, counts_s: float
) -> None:
    now = (100.0 + real_s, 5.0 + computed_s, 7.0 + waited_s)
    assert watchdog.counted((100.0, 5.0, 7.0), now, debugged=debugged) == pytest.approx(counts_s)


def test_an_audit_that_ran_out_of_time_shows_the_races_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (deepening, portfolio):
        monkeypatch.setattr(module, "try_favourites", lambda _: None)  # its runs would meet the loop first

    def program(world: World) -> None:
        for name in ("ann", "bob"):
            world.spawn(create, world, world.store(), name, name=name)
        world.spawn(late_spin, world, name="spins")

    result = audit(program, budget=NO_FAULTS, seconds=1.5)
    assert result.verdict == "undecided"
    assert result.coverage.conflicts


def test_a_busy_loop_ends_with_ctrl_c() -> None:
    def interrupt(world: World) -> None:
        spinning(world)
        world.spawn(lambda: signal.raise_signal(signal.SIGINT), name="presses Ctrl-C")

    result = run_audit(request_of(interrupt, Options(faults={"crash": 0}), {}, "spinning"))
    assert result.verdict == "undecided"
    assert result.interrupted
    assert "when it was interrupted" in result.findings[0]
