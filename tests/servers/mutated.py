"""Run a program with one safeguard of a system replaced by its mutant.

    python -m tests.servers.mutated publish/sidecar-before-heads MODULE WORDS...

The mutant replaces the table of safeguards wherever a function of the system has it as the default of a
parameter, so the commands that ship run it.
"""

import gc
import importlib
import runpy
import sys
from pathlib import Path
from types import FunctionType

from fencepost.sim.systems import SYSTEMS, load


def plant(system: str, mutant: str) -> int:
    """Replace the safeguard; returns the number of parameters that had the table as their default."""
    package = importlib.import_module(f"fencepost.impl.{system}")
    folder = Path(str(package.__file__)).parent
    for path in sorted(folder.rglob("*.py")):
        if " = STANDARD" in path.read_text():  # others are imported when the program wants them
            words = path.relative_to(folder).with_suffix("").parts
            importlib.import_module(".".join([package.__name__, *words]))
    standard, broken = load(SYSTEMS[system].safeguards), SYSTEMS[system].without(mutant)
    replaced = 0
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and (one.__module__ or "").startswith(package.__name__):
            defaults = tuple(broken if value is standard else value for value in one.__defaults__ or ())
            named = {name: broken for name, value in (one.__kwdefaults__ or {}).items() if value is standard}
            replaced += len(named) + sum(value is broken for value in defaults)
            if defaults:
                one.__defaults__ = defaults
            if named:
                one.__kwdefaults__ = {**(one.__kwdefaults__ or {}), **named}
    assert replaced, f"nothing of {system} takes its safeguards from a default"
    return replaced


def command(module: str, mutant: str = "") -> list[str]:
    """The command that runs `module`; `mutant` is `SYSTEM/MUTANT`, or empty."""
    planted = ["tests.servers.mutated", mutant] if mutant else []
    return [sys.executable, "-m", *planted, module]


if __name__ == "__main__":
    _, named, module, *words = sys.argv
    plant(*named.split("/"))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
