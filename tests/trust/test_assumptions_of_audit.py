"""What an audit does not see of its program's isolation: the misses that the documentation names."""

import os
import threading
from pathlib import Path

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import audit
from fencepost.sim.world import NO_FAULTS, World


def test_a_variable_that_the_program_makes_is_shared() -> None:
    """A closure of the function that sets up is new in every run, and common to all processes of the run."""

    def program(world: World) -> None:
        store, leaders = world.store(), list[str]()

        def work(name: str) -> None:
            store.get("leader")
            if not leaders:
                leaders.append(name)
                world.note("leads", name)

        for name in ("ann", "bob"):
            world.spawn(work, name, name=name)
        world.always("one leader", lambda view: len(set(view.notes("leads"))) <= 1)

    assert not audit(program).counterexamples


def test_a_file_that_every_run_removes_is_shared(tmp_path: Path) -> None:
    """Files belong to no process, and a crash leaves them: right for a disk, too generous for other hosts."""
    lock = tmp_path / "lock"

    def program(world: World) -> None:
        lock.unlink(missing_ok=True)
        store = world.store()

        def work(name: str) -> None:
            store.get("leader")
            try:
                os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            world.note("leads", name)

        for name in ("ann", "bob"):
            world.spawn(work, name, name=name)
        world.always("one leader", lambda view: len(set(view.notes("leads"))) <= 1)

    assert not audit(program).counterexamples


def test_a_thread_from_before_the_audit_may_compute() -> None:
    """A thread that was there before is noticed where it uses the world, not where it only computes."""
    requests, ask = os.pipe()
    answers, answer = os.pipe()

    def serve() -> None:
        while os.read(requests, 1) == b"1":
            os.write(answer, b"computed")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            os.write(ask, b"1")
            store.put("k", os.read(answers, 8), when=ANYTHING)

        for name in ("ann", "bob"):
            world.spawn(work, name=name)

    assert audit(program, budget=NO_FAULTS).verdict == "holds"
    os.write(ask, b"0")
    thread.join()
    for pipe in (requests, ask, answers, answer):
        os.close(pipe)
