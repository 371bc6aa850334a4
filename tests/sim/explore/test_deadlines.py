"""Pauses last as long as what the code compares with the clock, without anybody thinking of it."""

import datetime as dt
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import AuditRequest, Setting, audit
from fencepost.sim.explore.pieces import Together
from fencepost.sim.explore.reporting import run_token
from fencepost.sim.world import NO_FAULTS, World, places, times
from fencepost.sim.world.deadlines import GROWTHS_MAX, LENGTHS_MAX, Deadlines, Lengths

PAUSE = replace(NO_FAULTS, pause=1)
LEASE_S = 3600


def leased(write: Callable[[Any], bytes], expired: Callable[[bytes], bool]) -> Callable[[World], None]:
    """Two processes take a lease when there is none or it has expired; the owner never gives it up."""

    def program(world: World) -> None:
        store = world.store()

        def take() -> None:
            found = store.get("lease")
            if not found.done:
                if store.put("lease", write(store), when=ABSENT).done:
                    world.note("owns", world.me)
            elif expired(found.body):
                store.put("lease", write(store), when=ANYTHING)
                world.note("owns", world.me)

        world.spawn(take, name="ann")
        world.spawn(take, name="bob")
        world.always("one owner", lambda view: len(set(view.notes("owns"))) < 2)

    return program


def moment(body: bytes) -> dt.datetime:
    return dt.datetime.fromisoformat(body.decode())


class Clock:
    """A class that keeps its length of time, as clients of locks do."""

    ttl = LEASE_S

    def expired(self, body: bytes) -> bool:
        return int(time.time()) - int(body) > self.ttl


PROGRAMS = {
    "a deadline": leased(
        lambda store: b"%f" % (time.time() + LEASE_S), lambda body: time.time() > float(body)
    ),
    "what is left": leased(
        lambda store: json.dumps({"until": time.time() + LEASE_S}).encode(),
        lambda body: json.loads(body)["until"] - time.time() <= 0,
    ),
    "an age": leased(
        lambda store: b"%d" % time.time_ns(), lambda body: (time.time_ns() - int(body)) // 10**9 > LEASE_S
    ),
    "whole seconds": leased(
        lambda store: b"%d" % int(time.time()), lambda body: int(time.time()) - int(body) > LEASE_S
    ),
    "whole seconds of an object": leased(lambda store: b"%d" % int(time.time()), Clock().expired),
    "a date": leased(
        lambda store: (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).isoformat().encode(),
        lambda body: dt.datetime.now(dt.UTC) >= moment(body),
    ),
    "an age in dates": leased(
        lambda store: dt.datetime.now(dt.UTC).isoformat().encode(),
        lambda body: (dt.datetime.now(dt.UTC) - moment(body)).total_seconds() > LEASE_S,
    ),
}


@pytest.mark.parametrize("how", PROGRAMS)
def test_a_lease_of_an_hour_runs_out(how: str) -> None:
    """With a pause of 60 s nothing was found, and the verdict was `holds`."""
    result = audit(PROGRAMS[how], budget=PAUSE, minimise_seconds=0.3)
    assert result.verdict == "violated"
    assert "although others could go on" in str(result)
    assert re.search(r"pause(3599\.999|360[01]\.001)s", result.counterexamples[0].token)


def test_the_token_holds_the_length() -> None:
    """A replay in another process has compared nothing yet."""
    token = audit(PROGRAMS["a deadline"], budget=PAUSE).counterexamples[0].token
    again = run_token(AuditRequest(PROGRAMS["a deadline"], budget=PAUSE), token)
    assert again.verdict == "violated"
    assert any("PAUSE of 3600.001 s" in line for line in again.replayed or ())


def old(world: World) -> None:
    """`older_than=600`: a sweeper deletes what nobody wrote for ten minutes."""
    store = world.store()

    def write() -> None:
        store.put("part", b"1", when=ANYTHING)
        store.env.sleep(1)
        world.note("found", store.head("part").done)

    def sweep(older_than: int = 600) -> None:
        for found in store.list("").objects:
            if store.env.now_ns() - found.modified_ns > older_than * 10**9:
                store.delete(found.key)

    world.spawn(write, name="writes")
    world.spawn(sweep, name="sweeps")
    world.always("nothing is lost", lambda view: all(view.notes("found")))


def test_an_age_of_ten_minutes_is_reached() -> None:
    assert audit(old, budget=PAUSE).verdict == "violated"
    assert audit(old, budget=NO_FAULTS).verdict == "holds"


def close(world: World) -> None:
    store = world.store()

    def wait() -> None:
        begun = store.env.monotonic_ns()
        store.put("k", b"", when=ANYTHING)
        if store.env.monotonic_ns() - begun > 3600 * 10**9:
            world.note("late")
        store.put("k", b"2", when=ANYTHING)

    world.spawn(wait, name="ann")
    world.spawn(wait, name="bob")


def test_the_bound_names_the_lengths() -> None:
    result = audit(close, budget=PAUSE)
    assert result.verdict == "holds"
    assert "; a pause lasts 60, 3599.999 or 3600.001 s, and no other time" in result.bound


def test_a_length_that_the_program_sets_is_the_only_one() -> None:
    def program(world: World) -> None:
        world.configure(pause_s=90)
        close(world)

    assert "; a pause lasts 90 s, and no other time" in audit(program, budget=PAUSE).bound


@pytest.mark.parametrize("strategy", ["plain", "random", "pct"])
def test_every_strategy_tries_them(strategy: str) -> None:
    result = audit(
        PROGRAMS["a deadline"], budget=PAUSE, strategy=strategy, schedules=3000, minimise_seconds=0.2
    )
    assert result.verdict == "violated"


def test_workers_hand_on_what_they_learn() -> None:
    """Not so without a common rehearsal: then each learns in a piece of its own, and all start over."""
    setting = Setting(PROGRAMS["a deadline"], PAUSE)
    with places.held(setting.program):
        assert Together(setting, 2).explore(lambda _: False).failures


def test_a_reading_is_a_number_like_any_other() -> None:
    def program(world: World) -> None:
        def work() -> list[Any]:
            now, date = time.time(), dt.datetime.now(dt.UTC)
            return [
                json.loads(json.dumps(now)) == now,
                f"{now:.3f}"[-4:],
                repr(date),
                hash(now) == hash(now + 0),
                date == date + (date - date),
            ]

        world.spawn(work, name="works")
        world.finally_("plain", lambda view: view.result("works")[:2] == [True, ".000"])
        world.finally_("equal", lambda view: view.result("works")[3:] == [True, True])
        world.finally_(
            "shown", lambda view: view.result("works")[2].startswith("datetime.datetime(2023, 11, 14")
        )

    result = audit(program, budget=replace(PAUSE, crash=1))
    assert not result.counterexamples, result


SKEW = replace(NO_FAULTS, skew=1)


def stale(world: World, *, limit_s: float = 1800, ahead: bool = True, skew_s: float | None = None) -> None:
    """One process breaks the lock of another one by the age that its own clock shows."""
    if skew_s is not None:
        world.configure(skew_s=skew_s)
    store = world.store()

    def hold() -> None:
        store.put("lock", b"%d" % store.env.now_ns(), when=ABSENT)

    def look() -> None:
        found = store.get("lock")
        if found.done:
            age_ns = store.env.now_ns() - int(found.body)
            world.note("misread", age_ns > limit_s * 1e9 if ahead else age_ns < -limit_s * 1e9)

    world.spawn(hold, name="holder")
    world.spawn(look, name="looker")
    world.always("the age is right", lambda view: not any(view.notes("misread")))


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("limit_s", [90, 1800, 86_400])
def test_a_clock_may_be_off_by_the_deadline(limit_s: float, ahead: bool) -> None:
    result = audit(lambda world: stale(world, limit_s=limit_s, ahead=ahead), budget=SKEW)
    assert result.verdict == "violated"
    assert re.search(rf"=skew[+-]{limit_s}\.001s", result.counterexamples[0].token)
    assert re.search(rf"the clock is (AHEAD|BEHIND), by {limit_s}\.001 s", str(result))


@pytest.mark.parametrize("ahead", [True, False])
def test_a_stamp_of_the_store_is_compared_with_a_skewed_clock(ahead: bool) -> None:
    def program(world: World) -> None:
        store = world.store()
        store.put("lock", b"", when=ABSENT)

        def look() -> None:
            info = store.head("lock").info
            age_ns = store.env.now_ns() - info.modified_ns if info else 0
            world.note("misread", age_ns > 600e9 if ahead else age_ns < -600e9)

        for name in "ab":
            world.spawn(look, name=name)
        world.always("the age is right", lambda view: not any(view.notes("misread")))

    assert audit(program, budget=SKEW).verdict == "violated"
    assert audit(program, budget=NO_FAULTS).verdict == "holds"


@pytest.mark.parametrize(("skew_s", "verdict"), [(30, "holds"), (1700, "holds"), (1801, "violated")])
def test_a_stated_error_of_clocks_is_a_bound(skew_s: float, verdict: str) -> None:
    result = audit(lambda world: stale(world, skew_s=skew_s), budget=SKEW)
    assert result.verdict == verdict
    if verdict == "holds":
        assert f"; a skewed clock is {skew_s} s off, and no other time" in result.bound


def test_shorter_deadlines_are_reached_within_the_bound() -> None:
    """A window that the bound itself jumps over."""

    def program(world: World) -> None:
        world.configure(skew_s=7200)
        store = world.store()

        def look(writes: bool) -> None:
            if writes:
                store.put("lock", b"%d" % store.env.now_ns(), when=ABSENT)
            elif (found := store.get("lock")).done:
                world.note("in", 600e9 < store.env.now_ns() - int(found.body) < 900e9)

        world.spawn(look, True, name="writer")
        world.spawn(look, False, name="looker")
        world.always("never in the window", lambda view: not any(view.notes("in")))

    assert audit(program, budget=SKEW).verdict == "violated"


def test_without_a_deadline_a_clock_is_off_by_half_a_minute() -> None:
    def program(world: World) -> None:
        for name in "ab":
            world.spawn(lambda: world.note("at", world.env.now_ns()), name=name)

    assert "; a skewed clock is 30 s off, and no other time" in audit(program, budget=SKEW).bound


def test_ages_by_one_clock_do_not_depend_on_its_error() -> None:
    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            begun_ns = store.env.now_ns()
            store.put("k", b"", when=ANYTHING)
            world.note("slow", store.env.now_ns() - begun_ns > 3600e9)

        for name in "ab":
            world.spawn(work, name=name)

    assert "a skewed clock is 30 s off" in audit(program, budget=SKEW).bound


def test_a_token_holds_the_error_of_a_clock() -> None:
    token = audit(stale, budget=SKEW).counterexamples[0].token
    again = run_token(AuditRequest(stale, budget=SKEW), token)
    assert again.verdict == "violated"
    assert any(
        "AHEAD, by 1800.001 s" in line or "BEHIND, by 1800.001 s" in line for line in again.replayed or ()
    )


@pytest.mark.parametrize("more", [0, 1, 5])
def test_lines_whose_deadlines_are_not_tried_are_counted(more: int) -> None:
    found = Deadlines()
    for line in range(LENGTHS_MAX + more):
        for learn in (found.learn, found.learn_skew):
            learn(("a", line), 2**line * 10**9)
            learn(("b", line), 2**line * 10**9)
    assert found.adopt()
    assert found.left_out == 2 * 2 * more


def test_a_deadline_that_keeps_growing_is_followed_a_few_times() -> None:
    """A loop may come farther from its deadline in every round: without a bound the search never ends."""
    lengths = Lengths(10**18)
    for power in range(20):
        lengths.learn(("a.py", 1), 10**9 << power)
    longest = 10**9 << GROWTHS_MAX
    assert lengths.groups() == [(longest, longest)]


def test_the_longest_distance_that_any_process_learnt_counts() -> None:
    site = ("file", 1, 2, 3, 0)
    short, long = Lengths(10**18), Lengths(10**18)
    short.learn(site, 10 * 10**9)
    long.learn(site, 20 * 10**9)
    for one, other in ((short, long), (long, short)):
        one.add(other.packed())
        assert one.groups() == [(20 * 10**9, 20 * 10**9)]


@pytest.mark.parametrize("factors", list(product((-1.0, 1.0, 2.0), repeat=3)))
def test_time_before_a_moment_moves_it_and_all_later_ones(factors: tuple[float, ...]) -> None:
    """The quantity grows by the sum of their factors; this decides which deadlines a comparison has."""
    terms = tuple((times.Source(at, None), factor) for at, factor in enumerate(factors))
    expected = {sum(factors[at:]) for at in range(len(factors))} - {0.0}
    assert set(times._movable(terms)) == expected


def test_only_clocks_with_a_date_may_be_skewed() -> None:
    sources = [times.Source(1, 7), times.Source(2, 7), times.Source(3, times._STEADY), times.Source(4, None)]
    assert times._of_clocks(tuple((one, 2.0) for one in sources)) == [4.0]
