"""Random programs on files, with a loss of power anywhere, end as an independent enumeration says.

If this fails, a state of the disk that the profile allows is not found, or one is invented that it excludes.
"""

from pathlib import Path

import pytest

from fencepost.sim.world import Budget, World
from tests.generators import Compared, Generator, batches
from tests.trust.oracles.file_oracle import FileOracle
from tests.trust.oracles.file_programs import FileProgram, declared, ending_of, random_program
from tests.trust.oracles.modes import EXACT, Modes, differences
from tests.trust.oracles.request_oracle import TooMany

NAME = "files"
POWER = Budget(crash=0, reply_lost=0, request_lost=0, pause=0, power_loss=1, restart=0)


def compared(seed: int, folder: Path, names: tuple[str, ...], most: int) -> Compared:
    program = random_program(seed)
    try:
        expected = FileOracle(program, most).endings()
    except TooMany:
        return Compared(0, [])

    def declare(world: World) -> None:
        declared(program, world)

    modes = Modes(declare, POWER, lambda world: ending_of(program, world), folder, seed)
    return Compared(len(expected), list(differences(modes, expected, names)))


def test_random_programs_on_files_end_as_enumerated(generator: Generator, tmp_path: Path) -> None:
    others = EXACT[1:]
    generator.compare(
        NAME, range(40), lambda seed: compared(seed, tmp_path, (EXACT[0], others[seed % len(others)]), 400)
    )


@pytest.mark.slow
@pytest.mark.parametrize("seeds", batches(300), ids=str)
def test_many_random_programs_on_files_end_as_enumerated(
    seeds: range, generator: Generator, tmp_path: Path
) -> None:
    generator.compare(NAME, seeds, lambda seed: compared(seed, tmp_path, EXACT, 8_000))


def lost(*code: tuple, profile: str, **start: str) -> set:
    """What a loss of power may leave of a program of one process."""
    program = FileProgram((code,), start, ("a", "b"), profile)
    return {dict(files).get("a") for how, files, *_ in FileOracle(program, 10_000).endings() if how == "lost"}


def test_the_enumeration_knows_what_a_loss_leaves() -> None:
    """A check of the checker: contents that were found by hand."""
    write = (("open", "a", "trunc"), ("write", 0, "x"))
    assert lost(*write, profile="strict") == {None, "", "x", "\0"}
    assert lost(*write, profile="ext4") == {None, "", "x"}
    replace = (("open", "b", "trunc"), ("write", 0, "x"), ("rename", "b", "a"))
    assert lost(*replace, profile="ext4", a="0") == {"0", "x"}
    assert lost(*replace, profile="strict", a="0") == {None, "0", "", "x", "\0"} - {None}
