"""Random programs of requests end as an independent enumeration says, in every mode of the search.

If this fails, a verdict about requests, their faults, uploads, daemons or deadlines is wrong, or holds in one
mode only: with `--resume`, with `--jobs`, for states that were met before.
"""

from pathlib import Path
from typing import Any

import pytest

from fencepost.sim.explore import audit
from fencepost.sim.world import World
from tests.generators import Compared, Generator, batches
from tests.trust.oracles.modes import EXACT, SAMPLING, Modes, differences
from tests.trust.oracles.request_oracle import RequestOracle, TooMany
from tests.trust.oracles.request_programs import RequestProgram, declared, ending_of, random_program

QUICK = range(36)
NAME = "requests"


def modes_of(program: RequestProgram, folder: Path, seed: int) -> Modes:
    def declare(world: World) -> None:
        declared(program, world)

    return Modes(declare, program.budget, lambda world: ending_of(program, world), folder, seed)


def compared(seed: int, folder: Path, names: tuple[str, ...], states_max: int) -> Compared:
    program = random_program(seed)
    try:
        expected = RequestOracle(program, states_max).endings()
    except TooMany:
        return Compared(0, [])
    return Compared(len(expected), list(differences(modes_of(program, folder, seed), expected, names)))


@pytest.mark.parametrize("part", range(3))
def test_random_programs_of_requests_end_as_enumerated(
    part: int, generator: Generator, tmp_path: Path
) -> None:
    """Each program in the default mode, and in another one."""
    others = (*EXACT[1:], *SAMPLING)
    generator.compare(
        NAME,
        QUICK[part::3],
        lambda seed: compared(seed, tmp_path, (EXACT[0], others[seed % len(others)]), 4_000),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seeds", batches(2_000), ids=str)
def test_many_random_programs_of_requests_end_as_enumerated(
    seeds: range, generator: Generator, tmp_path: Path
) -> None:
    generator.compare(NAME, seeds, lambda seed: compared(seed, tmp_path, (*EXACT, *SAMPLING), 60_000))


GET, PUT = ("request", "r0", ("get", "a")), ("request", "r0", ("put", "a", ("literal", "x"), "ABSENT"))


def endings(*processes: tuple, **options) -> set:
    restarts = tuple(True for _ in processes)
    return RequestOracle(RequestProgram(processes, restarts, **options)).endings()


def test_the_enumeration_knows_orders_faults_and_time() -> None:
    """A check of the checker: endings that were counted by hand."""
    read, created = (("r0", ("missing", None)),), (("r0", ("done",)),)
    saw = (("r0", ("done", "x")),)
    there = (("a", "x"),)
    assert endings((GET,), (PUT,)) == {(there, (read, created), ()), (there, (saw, created), ())}
    lost = (("r0", ("unknown",)),)
    assert endings((PUT,), faults={"reply_lost": 1}) == {(there, (created,), ()), (there, (lost,), ())}
    assert endings((PUT,), faults={"late": 1}) == {
        (there, (created,), ()),
        (there, (lost,), ()),
        ((), (lost,), ()),
    }
    again = (("r0", ("exists",)),)
    assert endings((PUT,), faults={"duplicated": 1}) == {(there, (created,), ()), (there, (again,), ())}
    crashed = {(there, (created,), ()), (there, (again,), ())}
    assert endings((PUT,), faults={"crash": 1}) == crashed
    late = (("begin",), ("over", "r0", 3))
    waited = (("begin",), ("sleep", 5), ("over", "r0", 3))
    no, yes = ((), ((("r0", (False,)),),), ()), ((), ((("r0", (True,)),),), ())
    assert endings(late, feature="deadline") == {no}
    assert endings(waited, feature="deadline") == {yes}
    assert endings(late, feature="deadline", faults={"pause": 1}) == {no, yes}


def test_the_enumeration_knows_uploads_and_daemons() -> None:
    upload = ("upload", "r0", "a", "p", "ABSENT", False)
    conflict, exists, done = ((("r0", (text,)),) for text in ("conflict", "exists", "done"))
    assert endings((upload,), feature="upload") == {((("a", "p"),), (done,), ())}
    put = (
        ("request", "r0", ("put", "a", ("literal", "x"), "ANY")),
        ("request", "r1", ("delete", "a", "ANY")),
    )
    answers = {processes[0] for _, processes, _ in endings((upload,), put, feature="upload")}
    assert answers == {done, exists, conflict}
    note = ("note", "t", ("literal", "n"))
    steps = {notes for _, _, notes in endings((GET,), daemon=(note,), daemon_steps=2)}
    assert steps == {(), (("t", ("n",)),), (("t", ("n", "n")),)}


@pytest.mark.slow
@pytest.mark.parametrize("seeds", batches(400), ids=str)
def test_two_jobs_find_an_ending_and_none_that_cannot_be(seeds: range, generator: Generator) -> None:
    """Operating-system processes share the search: one ending is looked for, and one that does not exist."""

    def one(seed: int) -> Compared:
        program = random_program(seed)
        try:
            expected = RequestOracle(program, 4_000).endings()
        except TooMany:
            return Compared(0, [])
        target = sorted(expected, key=repr)[seed % len(expected)]
        nowhere = ((("never", "written"),), *target[1:])
        verdicts = []
        for wanted in (target, nowhere):

            def declare(world: World, wanted: Any = wanted) -> None:
                declared(program, world)
                world.finally_("never", lambda _: ending_of(program, world) != wanted)

            found = audit(
                declare,
                budget=program.budget,
                strategy="exhaustive",
                jobs=2,
                others=False,
                minimise_seconds=0,
            )
            verdicts.append(found.verdict)
        right = verdicts == ["violated", "holds"]
        return Compared(1, [] if right else [f"two jobs: {verdicts} for {target!r}"])

    generator.compare("requests with two jobs", seeds, one)
