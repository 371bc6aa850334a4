"""A kill releases what the process held and keeps what it wrote; who waits for its lock goes on."""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fencepost.sim.explore import AuditOutcome, audit, replay
from fencepost.sim.world import NO_FAULTS, Budget, View, World
from fencepost.sim.world.thread_steps import DEADLOCK

CRASH = Budget(crash=1, reply_lost=0, request_lost=0, pause=0, restart=0)


def increment(root: Path, *, locked: bool = True) -> None:
    with open(root / "lock", "w") as lock:
        if locked:
            fcntl.flock(lock, fcntl.LOCK_EX)
        count = int((root / "count").read_text())
        fd = os.open(root / "count", os.O_WRONLY)
        os.pwrite(fd, b"%d" % (count + 1), 0)
        os.close(fd)


def counting(
    code: Callable[..., None], wanted: Callable[[View], Any], budget: Budget, **options: Any
) -> AuditOutcome:
    def program(world: World) -> None:
        root = world.filesystem()
        (root / "count").write_text("0")
        for name in ("ann", "bob"):
            world.spawn(code, root, name=name, **options)
        world.finally_("count", wanted)

    return audit(program, budget=budget)


def test_a_lock_keeps_two_processes_apart() -> None:
    result = counting(increment, lambda view: view.file("count") == b"2", NO_FAULTS)
    assert result.verdict == "holds", str(result)


def test_without_the_lock_an_increment_is_lost_and_the_counterexample_names_the_calls() -> None:
    def careless(root: Path) -> None:
        increment(root, locked=False)

    result = counting(careless, lambda view: view.file("count") == b"2", NO_FAULTS)
    text = str(result)
    assert result.verdict == "violated"
    assert "ann          read count                               -> b'0'" in text
    assert "bob          write count 1 byte" in text


def test_a_kill_releases_the_lock_and_what_was_written_stays() -> None:
    def all_who_ended_counted(view: View) -> bool:
        return int(view.file("count") or b"0") >= len(view.results())

    result = counting(increment, all_who_ended_counted, CRASH)
    assert result.verdict == "holds", str(result)
    assert result.coverage.faults["crash"] > 0


def test_processes_that_wait_for_each_other_are_reported() -> None:
    def program(world: World) -> None:
        root = world.filesystem()

        def both(first: str, second: str) -> None:
            with open(root / first, "w") as one, open(root / second, "w") as other:
                fcntl.flock(one, fcntl.LOCK_EX)
                fcntl.flock(other, fcntl.LOCK_EX)

        world.spawn(both, "a", "b", name="ann")
        world.spawn(both, "b", "a", name="bob")

    found = audit(program, budget=NO_FAULTS).counterexamples[0]
    assert found.property == DEADLOCK
    assert "waits for the lock of" in found.reason


def test_a_buffer_that_was_not_flushed_is_lost_with_its_process() -> None:
    def program(world: World) -> None:
        root = world.filesystem()

        def write() -> None:
            with open(root / "f", "w") as file:
                file.write("1")
                os.mkdir(root / "d")

        world.spawn(write, name="ann", restart=False)
        world.always("nothing before it is closed", lambda view: not view.file("f") or "ann" in view.states())
        world.sometimes("lost", lambda view: view.state("ann") == "down" and view.file("f") == b"")

    assert audit(program, budget=CRASH).verdict == "holds"


def test_time_matters_only_to_those_who_look_at_it() -> None:
    def program(look: bool) -> Callable[[World], None]:
        def declared(world: World) -> None:
            root = world.filesystem()

            def write() -> None:
                (root / "a").write_text("1")
                found = os.stat(root / "a")
                if look:
                    world.note("old", time.time_ns() - found.st_mtime_ns > 500_000_000)

            world.spawn(write, name="ann")
            world.sometimes("old", lambda view: True in view.notes("old") or not look)

        return declared

    assert audit(program(look=True), budget=Budget()).verdict == "holds"
    assert audit(program(look=False), budget=NO_FAULTS).schedules == 1


def test_a_token_repeats_the_run() -> None:
    def program(world: World) -> None:
        root = world.filesystem()
        (root / "count").write_text("0")
        for name in ("ann", "bob"):
            world.spawn(increment, root, locked=False, name=name)
        world.finally_("count", lambda view: view.file("count") == b"2")

    found = audit(program, budget=NO_FAULTS).counterexamples[0]
    again = replay(program, found.token)
    assert not again.misfit
    assert again.violation is not None
    assert again.violation.name == "count"


def test_a_program_may_forbid_a_fault_and_the_bound_says_so() -> None:
    def program(world: World) -> None:
        root = world.filesystem()
        if world.pick("crashes", (True, False)):
            world.forbid("crash")
            world.note("safe")

        def write() -> None:
            (root / "a").touch()
            (root / "b").touch()

        world.spawn(write, name="ann", restart=False)
        world.always("stays up", lambda view: not view.notes("safe") or view.state("ann") != "down")
        world.sometimes("goes down", lambda view: view.state("ann") == "down")

    result = audit(program, budget=CRASH)
    assert result.verdict == "holds", str(result)
    assert "the program forbids crash in some runs" in result.bound
