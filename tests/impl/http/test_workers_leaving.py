"""Workers that are replaced finish what they have, and others begin beside them."""

import os
import select
import signal
import threading
from pathlib import Path

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.workers import Workers


def test_a_worker_with_work_is_left_to_finish_it(tmp_path: Path) -> None:
    """It would be killed at the end of the drain, and its client's upload with it."""
    reading, writing = os.pipe()

    def serve(_: int) -> None:
        signal.signal(signal.SIGUSR1, lambda *_: None)
        team.announce()
        select.select([reading], [], [], 60)  # one request that is under way
        (tmp_path / str(os.getpid())).touch()

    team = Workers(serve, 2, SystemEnvironment(), grace_s=1)
    team.start_all()
    old = {*team._running}
    team.drain_all(signal.SIGUSR1, 0.05)
    assert team._leaving == old
    team.start_all()
    new = {*team._running}
    assert len(new) == 2
    assert not new & old
    os.kill(min(old), signal.SIGKILL)
    while min(old) in team._leaving:
        team.replace_ended()
    assert {*team._running} == new  # nothing took its place
    threading.Timer(0.05, os.write, (writing, b"..")).start()
    team.end_all(signal.SIGUSR1, 60)
    assert {int(file.name) for file in tmp_path.iterdir()} == new | {max(old)}
    for end in (reading, writing):
        os.close(end)


def test_workers_that_do_not_end_are_killed(tmp_path: Path) -> None:
    def serve(_: int) -> None:
        signal.signal(signal.SIGUSR1, lambda *_: None)
        team.announce()
        select.select([], [], [], 60)
        (tmp_path / "ended").touch()

    team = Workers(serve, 1, SystemEnvironment(), grace_s=1)
    team.start_all()
    team.drain_all(signal.SIGUSR1, 0.01)
    team.end_all(signal.SIGTERM, 0.01)
    assert not team._leaving
    assert [*tmp_path.iterdir()] == []
