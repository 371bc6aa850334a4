"""Results appear whole or not at all, for whom the user lets, and never in the place of a device."""

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from fencepost.sim.whole_files import replaced, write_whole


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_who_may_read_what_is_written_is_the_user_s_to_say(tmp_path: Path, umask: int, mode: int) -> None:
    """A temporary file is its owner's alone: another could not read the result, or one kept private could."""
    target = tmp_path / "result.json"
    before = os.umask(umask)
    try:
        write_whole(target, b"one")
        write_whole(target, b"two")
        assert os.umask(umask) == umask, "changed for the rest of the process"
    finally:
        os.umask(before)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"two"]
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_until_it_is_whole_the_one_before_is_there(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    write_whole(target, b"before")
    with replaced(target) as temporary:
        temporary.write_bytes(b"half")
        assert target.read_bytes() == b"before"
    assert target.read_bytes() == b"half"


@pytest.mark.parametrize("step", ["write_bytes", "chmod", "replace"])
def test_what_cannot_be_finished_leaves_nothing_behind(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "result.json"
    write_whole(target, b"before")

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, step, full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(target, b"another")
    monkeypatch.undo()
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    """Else `--json /dev/null`, run as root, leaves a machine without its /dev/null."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_whole(pipe, b"text")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(10)
    assert read == [b"text"]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"")
    assert not list(tmp_path.iterdir())
