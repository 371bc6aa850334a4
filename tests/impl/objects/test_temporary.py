"""The needs of a server for tests beside the operations: a folder that goes away, keys, and a quick start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.impl.objects import temporary
from fencepost.impl.objects.credentials import ROOT
from fencepost.impl.objects.temporary import KnownCredentials, temporary_folder

HEAVY = ("boto3", "botocore", "fencepost.impl.lifecycle", "greenlet", "numpy", "pyarrow", "simpy")


def test_a_server_starts_without_what_it_does_not_need() -> None:
    """Each of these costs more than a tenth of a second before the first answer."""
    code = (
        "import sys, fencepost.commands.objects, fencepost.impl.objects.temporary\n"
        "from fencepost.impl.objects.wire.service_model import service_model\n"
        "service_model().operation_model('PutObject').input_shape.members\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {*HEAVY} & {*loaded.stdout.split()}


def test_the_keys_of_a_users_tests_are_those_of_root() -> None:
    known = KnownCredentials("a root token of the tests", "test", "secret")
    caller = known.caller("test")
    assert known.secret("test") == "secret"
    assert caller is not None
    assert caller.name == ROOT
    other = known.caller("data")
    assert known.secret("data") not in (None, "secret")
    assert other is not None
    assert other.bucket == "data"


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(temporary, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(temporary, "ROOM_BYTES_MIN", 0)
    return tmp_path


def test_a_folder_goes_away_with_its_server(parent: Path) -> None:
    with temporary_folder() as folder:
        assert folder.is_relative_to(parent)
        (folder / "object").write_bytes(b"content")
    assert [*parent.iterdir()] == []


def test_what_a_killed_server_left_goes_away_with_the_next_start(parent: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom fencepost.impl.objects import temporary\n"
        "temporary.SHARED_MEMORY, temporary.ROOM_BYTES_MIN = Path(sys.argv[1]), 0\n"
        "with temporary.temporary_folder() as folder:\n    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(parent)], check=False)
    (left,) = parent.iterdir()
    with temporary_folder() as first:
        assert not left.exists()
        with temporary_folder() as second:
            assert first.exists()
            assert second.exists()


def test_where_memory_is_short_a_disk_takes_its_place(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(temporary, "ROOM_BYTES_MIN", 1 << 62)
    monkeypatch.setattr(temporary.tempfile, "gettempdir", lambda: str(elsewhere))
    with temporary_folder() as folder:
        assert folder.is_relative_to(elsewhere)
    monkeypatch.setattr(temporary, "SHARED_MEMORY", Path("/nowhere"))
    with temporary_folder() as folder:
        assert folder.is_relative_to(elsewhere)


def test_a_folder_of_somebody_else_stays(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = parent / "fencepost-objects-foreign"
    foreign.mkdir()
    (foreign / ".fencepost-running").touch()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with temporary_folder():
        assert foreign.exists()
