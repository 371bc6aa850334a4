"""The plain run: what breaks for real is found, nothing is invented, and nothing is left behind."""

import threading
from typing import Any

import pytest

from fencepost.examples.audit.counter import fixed, mutant_read_modify_write
from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import Misuse, Unusable
from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.real import Found, NotForReal, Plain, run_rounds
from fencepost.sim.real.world import Gate, RealWorld


class Meeting(MemoryStore):
    """No first read of a counter is reported before every process has read."""

    def __init__(self, guests: int) -> None:
        super().__init__()
        self._all_here = threading.Barrier(guests)
        self._met = threading.local()

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        first = not getattr(self._met, "done", False)
        if (
            isinstance(request, ask.Get)
            and first
            and threading.current_thread() is not threading.main_thread()
        ):
            self._met.done = True
            self._all_here.wait(10)
        return reply


def real(program: Any, store: Any = None, **plain: Any) -> Found:
    store = store or MemoryStore()
    found = run_rounds(program, store, Plain(**{"rounds": 3, **plain}))
    assert not store.list().objects, "it left something behind"
    assert not store.list_uploads().uploads
    return found


def test_a_real_violation_is_found_and_reported() -> None:
    found = real(mutant_read_modify_write, Meeting(3))
    assert found.violation is not None
    assert found.violation[0] == "everybody is counted once"
    assert found.rounds == 1
    assert sorted(line.split()[2] for line in found.counterexample[:-1]) == ["get"] * 3 + ["put"] * 3
    assert found.at_once == 3
    assert found.prefix.startswith("fencepost-audit/")
    assert not any("fencepost-audit" in line for line in found.counterexample), "keys are the program's own"


def test_what_holds_is_run_to_the_last_round() -> None:
    found = real(fixed, Meeting(3))
    assert (found.violation, found.rounds) == (None, 3)
    assert found.outcomes["put done"] == 9
    assert found.requests == sum(found.outcomes.values())


def test_rounds_know_nothing_of_each_other() -> None:
    def program(world: Any) -> None:
        world.spawn(lambda: world.store().put("k", b"", when=ABSENT).outcome.value, name="p")
        world.finally_("it was new", lambda view: view.result("p") == "done")

    assert real(program).violation is None


def test_one_after_another_is_a_finding() -> None:
    def program(world: Any) -> None:
        world.spawn(lambda: world.store().get("k"), name="p")

    assert real(program).findings == ["no two requests were ever in flight at once: no order was tested"]


def test_an_invariant_is_looked_at_while_it_runs() -> None:
    """A violation in the middle that is gone at the end must be found."""

    def program(world: Any) -> None:
        def work() -> None:
            world.store().put("k", b"bad", when=ANYTHING)
            world.store().put("k", b"good", when=ANYTHING)

        world.spawn(work)
        world.always("never bad", lambda view: view.get("k") != b"bad")

    found = real(program)
    assert found.violation == ("never bad", "the check returned False")
    assert found.rounds == 1


def test_a_violation_that_is_gone_without_writers_is_not_counted() -> None:
    """A check that sees half of a change must not invent a failure."""
    output = iter(["other"])

    def program(world: Any) -> None:
        world.spawn(lambda: world.store().get("k"), name="p")
        world.always("steady", lambda view: next(output, None))

    found = real(program, rounds=1)
    assert (found.violation, found.unconfirmed) == (None, 1)
    assert any("1 times a check found a violation" in finding for finding in found.findings)


def test_a_process_that_raises_is_a_violation_unless_it_may() -> None:
    def program(world: Any) -> None:
        def fall() -> None:
            raise ValueError("dear me")

        world.spawn(fall, name="p", may_raise=(ValueError,) if allowed else ())

    allowed = False
    assert real(program).violation == ("p ends well", "it raised ValueError: dear me")
    allowed = True
    assert real(program).violation is None


def test_eventually_and_sometimes() -> None:
    def program(world: Any) -> None:
        world.spawn(lambda: world.note("came", 1), name="p")
        world.eventually("it comes", lambda view: view.notes("came"))
        world.sometimes("it flies", lambda view: view.notes("flew"))
        if never:
            world.eventually("it sings", lambda view: view.notes("sang"))

    never = False
    found = real(program)
    assert found.violation is None
    assert "it flies: never happened in any round" in found.findings
    never = True
    assert real(program).violation == ("it sings", "it had not happened when every process had ended")


def test_whoever_does_not_end_is_ended_and_the_round_not_judged() -> None:
    seen = []

    def program(world: Any) -> None:
        def wait() -> None:
            world.store().put("k", b"", when=ANYTHING)
            try:
                world.env.sleep(1000)
            except Exception:  # noqa: BLE001 - what programs do
                seen.append("kept on")

        world.spawn(wait, name="p")
        world.finally_("never judged", lambda view: False)

    found = real(program, rounds=1, round_seconds=0.05)
    assert found.violation is None
    assert seen == []
    assert "p had not ended after 0.05 s: that round was not judged at its end" in found.findings


def test_what_cannot_be_real_is_refused() -> None:
    with pytest.raises(NotForReal, match="boto3"):
        real(lambda world: world.boto3_client("s3"))
    with pytest.raises(NotForReal, match="with versions"):
        real(lambda world: world.configure(versioned=True))
    with pytest.raises(NotForReal, match=r"world\.time_machine"):
        real(lambda world: world.time_machine)
    with pytest.raises(Misuse, match="two processes"):
        real(lambda world: [world.spawn(print, name="p") for _ in range(2)])


def test_a_store_that_fails_ends_the_run_and_is_no_violation() -> None:
    class Full(MemoryStore):
        def send(self, request: Any) -> Any:
            if isinstance(request, ask.Put):
                raise Unusable("the disk is full; free some space")
            return super().send(request)

    with pytest.raises(Unusable, match="full"):
        real(fixed, Full())


def test_a_check_may_ask_the_store_itself() -> None:
    """Through the gate it has closed: it must not wait for itself."""

    def program(world: Any) -> None:
        store = world.store()
        world.spawn(lambda: store.put("k", b"1", when=ANYTHING), name="p")
        world.always("nothing there", lambda view: not store.get("k").done)

    assert real(program).violation == ("nothing there", "the check returned False")


def test_picks_follow_the_seed() -> None:
    def picked(seed: int) -> list[int]:
        world = RealWorld(MemoryStore(), seed=seed)
        return [world.pick(f"n{number}", range(100)) for number in range(8)]

    assert picked(1) == picked(1) != picked(2)


def test_a_closed_gate_has_nobody_inside() -> None:
    gate, inside, seen = Gate(), threading.Event(), []
    leave = threading.Event()

    def pass_through() -> None:
        with gate.passing():
            inside.set()
            leave.wait(10)
            seen.append("out")

    thread = threading.Thread(target=pass_through)
    thread.start()
    assert inside.wait(10)
    threading.Timer(0.01, leave.set).start()
    with gate.closed():
        seen.append("alone")
    thread.join(10)
    assert seen == ["out", "alone"]
    assert gate.inside_max == 1


def test_operations_may_be_named_and_bounds_are_not_judged() -> None:
    """A program with a cost contract runs for real as well; the result says what that leaves open."""

    def program(world: Any) -> None:
        def live() -> None:
            with world.operation("write"):
                world.store().put("k", b"", when=ANYTHING)

        for name in ("ann", "bob"):
            world.spawn(live, name=name)
        world.at_most("write", requests=0)

    found = real(program)
    assert found.violation is None
    assert "cost of write: not checked, because the faults of a real store are unknown" in found.findings
