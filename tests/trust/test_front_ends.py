"""A random program ends alike on the store interface, on boto3 and on aiohttp.

If this fails, an audit of code on an SDK misses a schedule or a fault, or reads a response otherwise.
"""

import importlib.util
from pathlib import Path

import pytest

from fencepost.sim.world import World
from tests.generators import Compared, Generator, batches
from tests.trust.oracles.front_ends import FrontEnd, on_aiohttp, on_boto3, without_bucket
from tests.trust.oracles.modes import Modes, differences
from tests.trust.oracles.request_oracle import RequestOracle, TooMany
from tests.trust.oracles.request_programs import ending_of, random_program

OUT_OF_REACH = {on_boto3: ("deadline", "together"), on_aiohttp: ("deadline", "upload", "daemon")}
"""Features that a front end has no call for here."""
without_aiohttp = pytest.mark.skipif(
    importlib.util.find_spec("aiohttp") is None, reason="aiohttp is not installed: nox -s sdks"
)


def compared(front_end: FrontEnd, seed: int, folder: Path, most: int) -> Compared:
    program = random_program(seed)
    if program.feature in OUT_OF_REACH[front_end] or "duplicated" in program.faults:
        return Compared(0, [])  # the client decides if a request is sent twice
    try:
        expected = RequestOracle(program, most).endings()
    except TooMany:
        return Compared(0, [])

    def declare(world: World) -> None:
        front_end(program, world)

    modes = Modes(
        declare, program.budget, lambda world: without_bucket(ending_of(program, world)), folder, seed
    )
    return Compared(len(expected), list(differences(modes, expected, ("reduced",))))


def test_random_programs_end_alike_on_boto3(generator: Generator, tmp_path: Path) -> None:
    generator.compare("boto3", range(20), lambda seed: compared(on_boto3, seed, tmp_path, 600))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", batches(200), ids=str)
def test_many_random_programs_end_alike_on_boto3(seeds: range, generator: Generator, tmp_path: Path) -> None:
    generator.compare("boto3", seeds, lambda seed: compared(on_boto3, seed, tmp_path, 8_000))


@without_aiohttp
@pytest.mark.parametrize("seeds", batches(100), ids=str)
def test_random_programs_end_alike_on_aiohttp(seeds: range, generator: Generator, tmp_path: Path) -> None:
    generator.compare("aiohttp", seeds, lambda seed: compared(on_aiohttp, seed, tmp_path, 3_000))
