"""What an installation without an extra can do: production needs none, and a command names its extra."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fencepost.commands.entry import EXTRAS

ROOT = Path(__file__).parent.parent
BLOCK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])

sys.meta_path.insert(0, Absent())
"""
EVERY_MODULE = """
import importlib, pkgutil
for package in {packages}:
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, package + "."):
        if module.name not in {data_sources}:
            importlib.import_module(module.name)
"""
DATA_SOURCES = {"fencepost.impl.ingest.spark", "fencepost.impl.publish.spark"}
"""Imported by programs that run on Spark, and by nothing else."""
USE_A_STORE = """
from fencepost.impl.store import ABSENT, open_store
assert open_store("memory://").put("leader", b"node-a", when=ABSENT).done
"""


def run_without(extras: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process that can import no module of these extras, but those of all others."""
    installed = {module for extra in EXTRAS if extra not in extras for module in EXTRAS[extra]}
    blocked = {module for extra in extras for module in EXTRAS[extra]} - installed
    return subprocess.run(
        [sys.executable, "-c", BLOCK.format(blocked=blocked) + code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_the_table_of_extras_is_that_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, modules in EXTRAS.items():
        names = {re.split(r"[^\w]", text)[0] for text in extras[extra] if not text.startswith("fencepost[")}
        assert names == set(modules)
    assert extras["all"] == ["fencepost[harness,catalog,ingest,objects,plots]"]


def test_production_code_needs_no_harness() -> None:
    """A service that opens a store, keeps a catalog or collects batches installs no test libraries."""
    packages = ["fencepost.impl", "fencepost.commands.catalog", "fencepost.commands.ingest"]
    code = EVERY_MODULE.format(packages=packages, data_sources=DATA_SOURCES)
    ran = run_without(("harness", "spark", "plots"), code + USE_A_STORE)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_store_needs_no_extra() -> None:
    ran = run_without(tuple(EXTRAS), USE_A_STORE)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "without", "named"),
    [
        (["check", "two-phase"], "harness", "fencepost[harness]"),
        (["audit", "counter"], "harness", "fencepost[harness]"),
        (["zoo"], "harness", "fencepost[harness]"),
        (["probe", "memory://"], "harness", "fencepost[harness]"),
        (["simulate", "cap-tail"], "harness", "fencepost[harness]"),
        (["report", "docs"], "harness", "fencepost[harness]"),
        (["demo", "--out", "{folder}"], "harness", "fencepost[harness]"),
        (["replay", "docs", "--model", "publish"], "catalog", "fencepost[catalog]"),
        (["check", "two-phase", "--engine", "spark"], "spark", "fencepost[spark]"),
    ],
)
def test_a_command_without_its_extra_ends_with_one_line(
    words: list[str], without: str, named: str, tmp_path: Path
) -> None:
    line = [word.format(folder=tmp_path) for word in words]
    code = f"sys.argv = ['fencepost', *{line!r}]\nfrom fencepost.commands import main\nmain()\n"
    ran = run_without((without,), code)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1
    assert f"pip install '{named}'" in ran.stderr


def test_the_help_needs_no_extra() -> None:
    code = "sys.argv = ['fencepost', '--help']\nfrom fencepost.commands import main\nmain()\n"
    ran = run_without(tuple(EXTRAS), code)
    assert ran.returncode == 0
    assert "Prove:" in ran.stdout
