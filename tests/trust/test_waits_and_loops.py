"""Programs that wait, loop for ever or promise something, as their authors would write them.

Each was once judged wrongly: the branch after a long wait was never run, an endless thread starved the
others, and a promise that a crash leaves unkept was not judged.
"""

import threading
import time
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import audit
from fencepost.sim.explore.audit import AuditRequest
from fencepost.sim.explore.reporting import run_audit, run_token
from fencepost.sim.world import NO_FAULTS, Budget, World

ONE_CRASH = Budget(crash=1, reply_lost=0, request_lost=0, pause=0)


def verdict(program: Any, **options: Any) -> str:
    found: str = audit(
        program, minimise_seconds=0.2, others=False, **{"budget": NO_FAULTS, **options}
    ).verdict
    return found


def breaker(world: World, how: str, tries: int) -> None:
    """Wait for a lock to go away, then break it."""
    store = world.store()
    deadline = time.time() + tries
    for attempt in range(10_000):
        if how == "tries" and attempt >= tries:
            break
        if how != "tries" and time.time() >= deadline:
            break
        if not store.head("lock").done:
            return
        if how == "pair":
            store.head("other")
        if how == "backoff":
            time.sleep(2**attempt)
        elif how != "busy":
            time.sleep(1)
    world.note("broke a lock whose holder lives")


def holder(world: World) -> None:
    store = world.store()
    store.put("work", b"", when=ANYTHING)
    store.delete("lock", when=ANYTHING)


def locked(how: str, tries: int) -> Any:
    def program(world: World) -> None:
        world.store().put("lock", b"", when=ANYTHING)
        world.spawn(breaker, world, how, tries, name="waiter", restart=False)
        world.spawn(holder, world, name="holder", restart=False)
        world.always("no lock is broken", lambda view: not view.notes("broke a lock whose holder lives"))

    return program


@pytest.mark.parametrize("tries", [1, 5, 6, 7, 10, 30, 100])
def test_a_counted_wait_is_given_up(tries: int) -> None:
    assert verdict(locked("tries", tries)) == "violated"


@pytest.mark.parametrize("how", ["deadline", "busy", "pair", "backoff"])
def test_a_wait_with_a_deadline_is_given_up(how: str) -> None:
    assert verdict(locked(how, 3_600 if how in ("busy", "backoff") else 40)) == "violated"


def test_an_endless_wait_ends_only_with_a_change() -> None:
    def program(world: World) -> None:
        def wait() -> None:
            while world.store().head("lock").done:
                world.store().head("other")
            world.note("went on", world.store().head("work").done)

        world.store().put("lock", b"", when=ANYTHING)
        world.spawn(wait, name="waiter")
        world.spawn(holder, world, name="holder")
        world.always("work comes first", lambda view: all(view.notes("went on")))

    result = audit(program, budget=NO_FAULTS)
    assert result.verdict == "holds"
    assert "a loop of waiter had no end within 600 steps" in result.bound


def test_a_token_of_a_wait_that_was_given_up_repeats_it() -> None:
    request = AuditRequest(locked("tries", 12), budget=NO_FAULTS)
    token = run_audit(request).counterexamples[0].token
    assert run_token(AuditRequest(locked("tries", 12), budget=NO_FAULTS), token).verdict == "violated"


def renewing(*, daemon: bool, joins: bool) -> Any:
    def serve(world: World) -> str:
        store = world.store()
        held = [True]

        def renew() -> None:
            while held[0]:
                if store.get("lock").done:
                    store.put("lock", b"renewed", when=ANYTHING)
                time.sleep(10)

        store.put("lock", b"mine", when=ANYTHING)
        thread = threading.Thread(target=renew, daemon=daemon)
        thread.start()
        store.put("work", b"done", when=ANYTHING)
        held[0] = False
        store.delete("lock", when=ANYTHING)
        if joins:
            thread.join()
        else:
            store.head("after")
        return "released"

    def program(world: World) -> None:
        world.spawn(serve, world, name="server", restart=False)
        world.finally_("no zombie", lambda view: view.get("lock") is None)

    return program


@pytest.mark.parametrize(("daemon", "joins"), [(False, True), (True, True), (True, False)])
def test_an_endless_thread_races_with_its_process(daemon: bool, joins: bool) -> None:
    assert verdict(renewing(daemon=daemon, joins=joins)) == "violated"


def test_a_token_names_the_endless_loops_that_its_run_needs() -> None:
    """A loop that took its rounds beside others lets time pass; a new session does not know that loop."""

    def serve(world: World) -> str:
        store = world.store()
        locked = [True]

        def renew() -> None:
            while locked[0]:
                version = store.get("lock").body
                store.put("lock", b"renewed after " + version[-1:], when=ANYTHING)
                time.sleep(10)

        store.put("lock", b"mine", when=ANYTHING)
        threading.Thread(target=renew).start()
        time.sleep(25)
        locked[0] = False
        store.put("lock", b"released", when=ANYTHING)
        return "released"

    def program(world: World) -> None:
        world.spawn(serve, world, name="server", restart=False)
        world.finally_("no zombie", lambda view: view.get("lock") == b"released")

    found = run_audit(AuditRequest(program, budget=NO_FAULTS)).counterexamples[0]
    again = run_token(AuditRequest(program, budget=NO_FAULTS), found.token)
    assert [one.reason for one in again.counterexamples] == [found.reason]
    assert not again.findings


def test_a_daemon_thread_keeps_no_process_alive() -> None:
    def serve(world: World) -> str:
        def beat() -> None:
            while True:
                world.store().put("beat", b"", when=ANYTHING)
                time.sleep(1)

        threading.Thread(target=beat, daemon=True).start()
        world.store().put("work", b"", when=ABSENT)
        return "done"

    def program(world: World) -> None:
        for name in ("ann", "bob"):
            world.spawn(serve, world, name=name, restart=False)
        world.finally_("both end", lambda view: set(view.results().values()) == {"done"})

    assert verdict(program) == "holds"


def compaction(*, repair: bool, restart: bool = False, touches: bool = False) -> Any:
    def write(world: World) -> None:
        store = world.store()
        store.put("fragment", b"", when=ANYTHING)
        store.put("manifest", b"", when=ANYTHING)

    def compact(world: World) -> None:
        store = world.store()
        while store.head("dirty").done:
            if touches:
                store.put("seen", b"", when=ANYTHING)
            if store.head("manifest").done:
                store.delete("dirty", when=ANYTHING)
            elif repair and store.head("fragment").done:
                store.put("manifest", b"", when=ANYTHING)
            elif repair:
                store.delete("dirty", when=ANYTHING)

    def program(world: World) -> None:
        world.store().put("dirty", b"", when=ANYTHING)
        world.spawn(write, world, name="writer", restart=restart)
        world.spawn(compact, world, name="compactor")
        world.eventually("clean", lambda view: view.get("dirty") is None)

    return program


def test_a_promise_that_a_crash_leaves_unkept_has_a_lasso() -> None:
    result = audit(compaction(repair=False), budget=ONE_CRASH)
    assert result.verdict == "violated"
    (found,) = result.counterexamples
    assert found.faults == 1
    assert found.back_to is not None
    assert f"... and again from step {found.back_to}" in "\n".join(found.text())
    assert {line.process for line in found.lines[found.back_to - 1 :]} == {"compactor"}
    assert (
        run_token(AuditRequest(compaction(repair=False), budget=ONE_CRASH), found.token).verdict == "violated"
    )


def test_a_loop_with_effects_after_a_crash_is_a_lasso() -> None:
    result = audit(compaction(repair=False, touches=True), budget=ONE_CRASH)
    assert result.verdict == "violated"
    token = result.counterexamples[0].token
    request = AuditRequest(compaction(repair=False, touches=True), budget=ONE_CRASH)
    assert run_token(request, token).verdict == "violated"


@pytest.mark.parametrize("how", [{"repair": True}, {"repair": False, "restart": True}])
def test_a_promise_that_others_or_a_restart_keep_is_kept(how: dict[str, bool]) -> None:
    assert verdict(compaction(**how), budget=ONE_CRASH) == "holds"


def test_a_retry_that_ends_with_the_faults_keeps_its_promise() -> None:
    def program(world: World) -> None:
        def write() -> None:
            while not world.store().put("k", b"", when=ANYTHING).done:
                pass

        world.spawn(write, name="ann")
        world.spawn(write, name="bob")
        world.eventually("written", lambda view: view.get("k") is not None)

    assert verdict(program, budget=Budget(crash=1, reply_lost=1, request_lost=1, pause=0)) == "holds"


def test_a_waiter_that_sleeps_gives_up_although_it_could_succeed() -> None:
    """In every run that is tried first the wait succeeds: the lock goes away before the time is over."""

    def build(world: World, name: str) -> None:
        store = world.store()
        for _ in range(10):
            if store.put("lock", name.encode(), when=ABSENT).done:
                break
            store.get("lock")
            time.sleep(1)
        else:
            world.note("broke in", name)
        store.put("output", name.encode(), when=ANYTHING)
        store.delete("lock", when=ANYTHING)

    def program(world: World) -> None:
        for name in ("ann", "bob"):
            world.spawn(build, world, name, name=name, restart=False)
        world.always("all wait", lambda view: not view.notes("broke in"))

    assert verdict(program) == "violated"


def test_a_wait_without_end_after_two_faults_is_found() -> None:
    """The search finds it in every schedule and fault, not only with one fault."""

    def program(world: World) -> None:
        store = world.store()

        def wait() -> None:
            while not store.head("b").done:
                store.head("other")

        for name in ("ann", "bob"):
            world.spawn(store.put, "b", b"", when=ANYTHING, name=name)
        world.spawn(wait, name="waits")
        world.eventually("b comes", lambda view: view.get("b") is not None)

    assert verdict(program, budget=NO_FAULTS.but(request_lost=1)) == "holds"
    result = audit(program, budget=NO_FAULTS.but(request_lost=2))
    assert result.verdict == "violated"
    assert result.counterexamples[0].faults == 2
