"""What users install: the wheel holds every package, and works in an environment that has nothing else.

A checkout hides what is missing from a wheel, so the last test builds one, installs it with its
dependencies and pytest into an empty environment, and audits a project that has nothing to do with this
repository. It needs pip and a package index.
"""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("fencepost", "examples", "impl", "model", "properties", "reports", "sim")

pytestmark = pytest.mark.server

USERS_TEST = """
import fencepost
from fencepost.impl.store import ABSENT, ANYTHING, Outcome


def look_first(store, world, name):
    if store.head("leader").outcome is Outcome.MISSING:
        if store.put("leader", name.encode(), when=ANYTHING).done:
            world.note("leads", name)


def create_only(store, world, name):
    if store.put("leader", name.encode(), when=ABSENT).done:
        world.note("leads", name)


def start(world, elect):
    for name in ("ann", "bob"):
        world.spawn(elect, world.store(), world, name, name=name)
    world.always("one leader", lambda view: len(set(view.notes("leads"))) <= 1)


@fencepost.audit(processes=2, crash=1)
def test_broken(world):
    start(world, look_first)


@fencepost.audit(processes=2, crash=1)
def test_fixed(world):
    start(world, create_only)
"""


def ran(words: Sequence[object], cwd: Path, code: int = 0) -> str:
    """What a command printed; it must end with `code`."""
    kept = {name: os.environ[name] for name in os.environ if not name.startswith(("PYTHON", "PYTEST"))}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that no left-over of an earlier build gets into it."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    ran([sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", out, copy], copy)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_every_module_and_says_that_it_is_typed(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    for folder in FOLDERS:
        inside = Path("fencepost") if folder == "fencepost" else Path("fencepost", folder)
        for file in (ROOT / folder).rglob("*.py"):
            assert str(inside / file.relative_to(ROOT / folder)) in held
    for package in (
        "fencepost",
        "fencepost/impl",
        "fencepost/model",
        "fencepost/properties",
        "fencepost/sim",
    ):
        assert f"{package}/py.typed" in held
    assert not any(name.startswith(("tests/", "bench/", "fencepost/tests")) for name in held)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["entry-points"]["pytest11"] == {"fencepost": "fencepost.pytest_plugin"}


def test_a_project_of_a_users_own_is_audited_with_nothing_but_the_wheel(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "env"
    ran([sys.executable, "-m", "venv", home], tmp_path)
    python = home / "bin" / "python"
    ran([python, "-m", "pip", "install", "--quiet", f"{wheel}[harness]", "pytest", "pytest-xdist"], tmp_path)
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_election.py").write_text(USERS_TEST)
    (project / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")

    where = ran([python, "-c", "import fencepost.sim; print(fencepost.sim.__file__)"], project)
    assert Path(where.strip()).is_relative_to(home)
    output = ran([python, "-m", "pytest", "-n", "0"], project, code=1)
    assert "1 failed, 1 passed" in output
    assert "holds      test_election.py::test_fixed: " in output
    again = next(line for line in output.splitlines() if "pytest test_election.py::test_broken --" in line)
    repeated = ran([python, "-m", *again.removeprefix("python -m ").split()], project, code=1)
    assert "violated: this schedule breaks a property" in repeated
    both = ran([python, "-m", "pytest", "-n", "2"], project, code=1)
    assert "holds      test_election.py::test_fixed: " in both

    command = home / "bin" / "fencepost"
    assert "one leader is violated" in ran(
        [command, "audit", "test_election.py:test_broken"], project, code=1
    )
    assert "holds: every schedule" in ran([command, "audit", "test_election.py:test_fixed"], project)
    assert "read-modify-write" in ran([command, "audit", "--list"], project)
    ran([command, "audit", "election", "--mutant", "check-then-create"], project, code=1)
    ran([command, "check", "two-phase"], project)
