"""Counterexamples explain themselves: lines of code, what changed in a body, ETags that return, times."""

from pathlib import Path
from typing import Any

from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.reports.audit_text import counterexample_lines
from fencepost.sim.explore import audit
from fencepost.sim.explore.steps import Line, difference
from fencepost.sim.world import NO_FAULTS, Budget, World


def swap_back_and_forth(world: World) -> None:
    """A value that returns: the condition of `late` holds, although the object was changed twice."""
    store = world.store()
    store.put("flag", b"off", when=ABSENT)

    def toggle() -> None:
        store.put("flag", b"on", when=ANYTHING)
        store.put("flag", b"off", when=ANYTHING)
        world.note("used")

    def late() -> None:
        found = store.get("flag")
        store.head("elsewhere")
        if store.put("flag", b"mine", when=Matches(found.info.etag)).done:  # type: ignore[union-attr]  # it is there
            world.note("taken")

    world.spawn(late, name="late")
    world.spawn(toggle, name="toggle")
    world.always("not after use", lambda view: not (view.notes("used") and view.notes("taken")))


def lines_of_failure(program: Any, budget: Budget = NO_FAULTS) -> tuple[Line, ...]:
    (found,) = audit(program, budget=budget).counterexamples
    return found.lines


def test_every_request_has_the_line_that_sent_it() -> None:
    lines = lines_of_failure(swap_back_and_forth)
    source = Path(__file__).read_text().splitlines()
    for line in lines:
        assert Path(line.at[-1].file).name == "test_steps.py"
        verb = {"head": "store.head", "put": "store.put", "get": "store.get", "note": "world.note"}[line.kind]
        assert verb in source[line.at[-1].line - 1]
        assert str(line).endswith(str(line.at[-1]))


def test_an_etag_that_returns_is_marked() -> None:
    (found,) = audit(swap_back_and_forth, budget=NO_FAULTS, seed=1).counterexamples
    back = [line for line in found.lines if line.etag_since is not None]
    assert [(line.process, line.body, line.previous, line.etag_since) for line in back] == [
        ("toggle", b"off", b"on", 0)
    ]
    assert "AGAIN that it had at the beginning" in str(back[0])
    row = found.as_violation().steps[back[0].number - 1]
    assert (row.body, row.previous, row.etag_since) == ("off", "on", 0)
    assert row.file.endswith("test_steps.py")


def test_clock_readings_and_the_length_of_a_pause_are_shown() -> None:
    def program(world: World) -> None:
        store = world.store()

        def wait() -> None:
            before = store.env.now_ns()
            store.head("k")
            world.note("late", store.env.now_ns() - before > 30 * 10**9)

        world.spawn(wait, name="waits")
        world.spawn(store.put, "k", b"", when=ANYTHING, name="writes")
        world.always("in time", lambda view: True not in view.notes("late"))

    text = "\n".join(map(str, lines_of_failure(program, Budget(0, 0, 0, pause=1))))
    assert "PAUSE of 60 s" in text
    assert "read the clock" in text
    assert "-> 60 s" in text


def test_a_long_body_is_shown_as_what_changed() -> None:
    before = b'{"epoch": 10, "files": ["one", "two", "three", "four", "five"]}'
    after = before.replace(b"10", b"11").replace(b'"five"', b'"five", "six"')
    shown = difference(before, after)
    assert "[-10-]{+11+}" in shown
    assert '{+, "six"+}' in shown
    assert "three" not in shown
    assert len(shown) < len(repr(after))


def test_whole_bodies_are_printed_on_demand() -> None:
    def program(world: World) -> None:
        store = world.store()
        store.put("k", b"a" * 50, when=ABSENT)
        world.spawn(store.put, "k", b"b" * 60, when=ANYTHING, name="writes")
        world.always("as it was", lambda view: view.get("k") == b"a" * 50)

    result = audit(program, budget=NO_FAULTS).result()
    assert "b" * 60 not in "\n".join(counterexample_lines(result))
    assert f"body of step 1: {'b' * 60}" in "\n".join(counterexample_lines(result, verbose=True))
