"""Random machines of the whole language get the verdicts of another reading, in every mode of the kernel.

If this fails, "holds" of `fencepost check` is not true of some field, action, fairness or mode.
"""

from pathlib import Path

import pytest

from fencepost.model import ModelError
from tests.generators import Compared, Generator, batches
from tests.trust.oracles.machine_comparison import PLAIN, SYMMETRIC, checked, differences, loaded
from tests.trust.oracles.machine_generator import random_machine
from tests.trust.oracles.machine_oracle import MachineOracle
from tests.trust.oracles.request_oracle import TooMany


def compared(seed: int, folder: Path, modes: tuple[str, ...], most: int, *, symmetric: bool) -> Compared:
    spec = random_machine(seed, symmetric=symmetric)
    try:
        oracle = MachineOracle(spec, most)
    except TooMany:
        return Compared(0, [])
    if not oracle.depth:
        return Compared(0, [])
    machine = loaded(spec.text, folder, f"random_machine_{symmetric}_{seed}")
    found: list[str] = []
    for mode in modes:
        if mode == "resumed" and spec.bound is not None:
            continue
        try:
            found += differences(oracle, checked(machine, mode, folder, seed), mode)
        except ModelError as error:
            found.append(f"{mode} refuses the machine: {error}")
    return Compared(len(oracle.verdicts()), found)


def test_random_machines_have_the_verdicts_of_their_other_reading(
    generator: Generator, tmp_path: Path
) -> None:
    def one(seed: int) -> Compared:
        return compared(seed, tmp_path, ("numpy", PLAIN[1 + seed % 5]), 300, symmetric=False)

    generator.compare("machines", range(25), one)


def test_random_symmetric_machines_have_the_verdicts_of_their_other_reading(
    generator: Generator, tmp_path: Path
) -> None:
    def one(seed: int) -> Compared:
        return compared(seed, tmp_path, (SYMMETRIC[1 + seed % 3],), 300, symmetric=True)

    generator.compare("symmetric machines", range(15), one)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", batches(300), ids=str)
def test_many_random_machines_have_the_verdicts_of_their_other_reading(
    seeds: range, generator: Generator, tmp_path: Path
) -> None:
    generator.compare("machines", seeds, lambda seed: compared(seed, tmp_path, PLAIN, 4_000, symmetric=False))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", batches(200), ids=str)
def test_many_random_symmetric_machines_have_the_verdicts_of_their_other_reading(
    seeds: range, generator: Generator, tmp_path: Path
) -> None:
    generator.compare(
        "symmetric machines", seeds, lambda seed: compared(seed, tmp_path, SYMMETRIC, 4_000, symmetric=True)
    )
