"""A package of programs, as a folder of systems that ship: elections, good and bad ones."""

from pathlib import Path

import pytest

ELECTION = '''"""A leader, elected badly and well."""
from fencepost.impl.store import ABSENT, ANYTHING, Outcome
from fencepost.testing import audit

def badly(world, store, name):
    if store.head("leader").outcome is Outcome.MISSING and store.put("leader", b"", when=ANYTHING).done:
        world.note("leads", name)

def well(world, store, name):
    if store.put("leader", b"", when=ABSENT).done:
        world.note("leads", name)

def start(world, elect):
    for name in "ab":
        world.spawn(elect, world, world.store(), name, name=name)
    world.always("one leader", lambda view: len(set(view.notes("leads"))) <= 1)
'''


def package(module: str, programs: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one module that holds these programs; the file of the module."""
    home = folder / f"{module}_in_{folder.name}"
    home.mkdir()
    (home / "__init__.py").write_text("")
    file = home / f"{module}.py"
    file.write_text(programs)
    monkeypatch.syspath_prepend(folder)
    return file
