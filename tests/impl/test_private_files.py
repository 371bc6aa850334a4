"""What waits on a disk for a store is read by nobody else, whatever the umask of the process is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest.authority import Authority
from fencepost.impl.ingest.service.landing import LocalSpool
from fencepost.impl.ingest.service.spool import Spool
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ABSENT
from fencepost.impl.streams.state import Record, SqliteState

SECRET = b"the secret payload"


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """The folder, what is in it, and their modes, beside those that have no payload: locks and empty
    files."""
    found = [folder, *(one for one in folder.rglob("*") if one.is_dir() or SECRET in one.read_bytes())]
    return {str(one.relative_to(folder.parent)): one.stat().st_mode & 0o777 for one in found}


def test_the_state_of_streams_is_private(tmp_path: Path) -> None:
    """Under durability local it has the bytes of appends."""
    folder = tmp_path / "state"
    state = SqliteState(folder)
    state.add("/s", "i", 1, [Record(0, SECRET)])
    found = modes(folder)
    assert found.pop("state") == 0o700
    assert {*found.values()} == {0o600}
    assert any(name.endswith("-wal") for name in found)
    state.close()
    for file in folder.iterdir():
        file.chmod(0o644)
    SqliteState(folder).close()
    assert {mode for name, mode in modes(folder).items() if name != "state"} <= {0o600}, "of an older release"


def test_the_spool_of_an_agent_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    spool = Spool(folder, "agent-a")
    spool.add(1, lambda start, end: SECRET)
    found = modes(folder)
    folders = {name for name in found if (tmp_path / name).is_dir()}
    assert {found[name] for name in folders} == {0o700}
    assert [found[name] for name in {*found} - folders] == [0o600]
    spool.close()


def test_the_spool_of_a_collector_is_private(tmp_path: Path) -> None:
    folder, env = tmp_path / "spool", SystemEnvironment()
    spool = LocalSpool(folder, Authority(MemoryStore(env=env), env, "collector"), env)
    assert spool.store.put("a/b", SECRET, when=ABSENT).done
    found = modes(folder)
    assert found["spool"] == found["spool/store"] == 0o700
    files = {name: mode for name, mode in found.items() if (tmp_path / name).is_file()}
    assert files == {"spool/store/a/b": 0o600}
    spool.close()
