"""Handoffs of scripted servers: every failure before the commit resumes the incumbent."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.objects import handoff
from fencepost.impl.objects.handoff import Failed, Line, Member, Server, Supervisor
from fencepost.impl.objects.handoff_metrics import families
from fencepost.impl.objects.owner import HANDOFFS, Owner

SCRIPT = """
import os, socket, sys
name, root, end_at, silent_at, refuse_at = sys.argv[1:]
line = socket.socket(fileno=int(os.environ["LINE"]))
def note(text):
    with open(root + "/notes", "a") as file:
        file.write(name + " " + text + "\\n")
line.sendall(b"waiting\\n")
replies = {"begin": "ready", "prepare": "drained", "seal": "sealed", "resume": "resumed"}
for message in line.makefile():
    message = message.strip()
    note(message)
    if message == end_at:
        os._exit(3)
    if message == "commit" and any(n.startswith(name + " prepare") for n in open(root + "/notes")):
        break
    if message == refuse_at:
        line.sendall(b"failed disk\\n")
    elif message in replies and message != silent_at:
        line.sendall(replies[message].encode() + b"\\n")
"""


class Scripted:
    """Servers of a supervisor: the first is the incumbent. `faults` belong to the name of a server."""

    def __init__(self, root: Path, **faults: tuple[str, str, str]) -> None:
        self.root = root
        self._faults = faults
        self._names = iter(["old", "new", "third", "fourth", "fifth"])

    def start(self, inherited: tuple[int, int]) -> subprocess.Popen[bytes]:
        name = next(self._names)
        faults = self._faults.get(name, ("", "", ""))
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, name, str(self.root), *faults],
            pass_fds=inherited,
            env={**os.environ, "LINE": str(inherited[1])},
        )

    def notes(self) -> list[str]:
        return (self.root / "notes").read_text().splitlines()


@contextlib.contextmanager
def supervised(root: Path, **faults: tuple[str, str, str]) -> Iterator[tuple[Supervisor, Scripted]]:
    scripted = Scripted(root, **faults)
    (root / ".objects").mkdir()
    with socket.socket() as listening:
        found = Supervisor(str(root), scripted.start, listening, SystemEnvironment(), drain_s=0.1)
        found.begin()
        yield found, scripted
        for server in (*found._leaving, found.server):
            if server is not None:
                server.end()


def test_a_handoff_takes_every_step_in_order(tmp_path: Path) -> None:
    with supervised(tmp_path) as (supervisor, scripted):
        old = supervisor.server
        assert supervisor.handoff() == ""
        assert old is not None
        assert old.process.wait(60) == 0  # by itself: it may have much to finish
        supervisor._reap()
        assert supervisor._leaving == []
        assert supervisor.server is not None
        assert supervisor.server.process.poll() is None
        steps = [note for note in scripted.notes() if note not in ("old begin", "new commit")]
        assert steps == ["old commit", "old prepare", "old seal", "new begin", "old commit"]


@pytest.mark.parametrize(
    ("server", "faults", "reason"),
    [
        ("new", ("begin", "", ""), "ended before it was 'ready'"),
        ("new", ("", "", "begin"), "answered 'failed disk'"),
        ("new", ("", "begin", ""), "did not reach 'ready'"),
        ("old", ("", "prepare", ""), "did not reach 'drained'"),
        ("old", ("", "", "seal"), "answered 'failed disk'"),
    ],
)
def test_a_failure_before_the_commit_resumes_the_incumbent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, faults: tuple[str, str, str], reason: str
) -> None:
    with supervised(tmp_path, **{server: faults}) as (supervisor, scripted):
        silent_at = faults[1] or None  # then it never answers, however long one waits

        def impatient(one: Server, message: str, reply: str, timeout_s: float) -> None:
            call(one, message, reply, 0.1 if message == silent_at else timeout_s)

        call = Server.call
        monkeypatch.setattr(Server, "call", impatient)
        old = supervisor.server
        assert reason in supervisor.handoff()
        assert supervisor.server is old
        assert old is not None
        assert old.process.poll() is None
        assert scripted.notes()[-1] == "old resume"
        assert supervisor.handoff() == "" or faults[1] or server == "old"  # the next one succeeds


def test_an_incumbent_that_cannot_resume_is_ended_for_another_to_start(tmp_path: Path) -> None:
    """Otherwise it would neither serve nor end."""
    faults = {"new": ("begin", "", ""), "old": ("", "", "resume")}
    with supervised(tmp_path, **faults) as (supervisor, _):
        assert "ended before it was 'ready'" in supervisor.handoff()
        assert supervisor.server is not None
        assert supervisor.server.process.wait(60) == -signal.SIGKILL


def test_a_late_reply_is_not_taken_for_the_answer_to_resume(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with theirs, contextlib.closing(Line(ours)) as line, supervised(tmp_path) as (supervisor, _):
        assert supervisor.server is not None
        server = Server(supervisor.server.process, line)
        theirs.sendall(b"drained\nresumed\n")
        server.resume(60)
        theirs.sendall(b"sealed\nfailed it is taken\n")
        with pytest.raises(Failed, match="failed it is taken"):
            server.resume(60)
        with pytest.raises(Failed, match="failed to resume"):
            server.resume(0.01)


def test_a_successor_that_ends_right_after_the_commit_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handoff, "_PAUSE_S", 0.0)
    scripted = Scripted(tmp_path, new=("commit", "", ""))
    (tmp_path / ".objects").mkdir()
    answers: list[str] = []
    with socket.socket() as listening:
        supervisor = Supervisor(str(tmp_path), scripted.start, listening, SystemEnvironment(), drain_s=10)

        def request() -> None:
            wait_for(lambda: (tmp_path / "notes").exists() and "old commit" in scripted.notes())
            answers.append(handoff.request_handoff(str(tmp_path)))
            wait_for(lambda: "third commit" in scripted.notes())
            supervisor._stop()
            assert supervisor.server is not None
            supervisor.server.process.kill()

        thread = threading.Thread(target=request)
        thread.start()
        supervisor.run()
        thread.join()
    assert answers[0].startswith("done ")
    assert scripted.notes()[-2:] == ["third begin", "third commit"]


def test_the_servers_show_the_handoffs_that_their_supervisor_counts(tmp_path: Path) -> None:
    assert [*families(str(tmp_path))] == []
    with supervised(tmp_path) as (supervisor, _):
        supervisor._count("failed", 3.0)
        supervisor._count("done", 1.5)
        supervisor._count("done", 0.5)
    counted, took = families(str(tmp_path))
    assert counted.values == {("done",): 2, ("failed",): 1}
    assert took.values == {(): 0.5}
    (tmp_path / HANDOFFS).write_text("[]")
    assert [*families(str(tmp_path))] == []


def test_a_supervisor_that_cannot_count_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with supervised(tmp_path) as (supervisor, _):
        (tmp_path / f"{HANDOFFS}.new").mkdir()
        supervisor._count("done", 0.5)
    assert "the handoffs cannot be counted" in caplog.text


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came")


class FakeWorkers:
    def __init__(self) -> None:
        self.steps: list[str] = []

    def start_all(self) -> None:
        self.steps.append("start")

    def drain_all(self, number: int, limit_s: float) -> None:
        self.steps.append(f"drain {signal.Signals(number).name}")

    def end_all(self, number: int, grace_s: float) -> None:
        self.steps.append(f"end {signal.Signals(number).name}")

    def replace_ended(self) -> None:
        pass


@pytest.mark.parametrize(
    ("messages", "replies", "steps", "owns"),
    [
        (["begin"], ["waiting", "ready"], ["start", "end SIGTERM"], True),  # was not committed: ends
        (
            ["begin", "commit", "prepare", "seal", "commit"],
            ["waiting", "ready", "drained", "sealed"],
            ["start", "drain SIGUSR1", "end SIGTERM"],
            False,
        ),
        (
            ["begin", "commit", "prepare", "seal", "resume", "prepare", "seal", "commit"],
            ["waiting", "ready", "drained", "sealed", "resumed", "drained", "sealed"],
            ["start", "drain SIGUSR1", "start", "drain SIGUSR1", "end SIGTERM"],
            False,
        ),
        (  # the successor ended before anything was prepared
            ["begin", "commit", "resume", "prepare", "seal", "commit"],
            ["waiting", "ready", "resumed", "drained", "sealed"],
            ["start", "drain SIGUSR1", "end SIGTERM"],
            False,
        ),
        (  # it ended before the lock was released
            ["begin", "commit", "prepare", "resume", "prepare", "seal", "commit"],
            ["waiting", "ready", "drained", "resumed", "drained", "sealed"],
            ["start", "drain SIGUSR1", "start", "drain SIGUSR1", "end SIGTERM"],
            False,
        ),
    ],
)
def test_a_server_does_what_its_supervisor_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    messages: list[str],
    replies: list[str],
    steps: list[str],
    owns: bool,
) -> None:
    monkeypatch.setattr(handoff, "_LOCK_S", 1.0)
    ours, theirs = socket.socketpair()
    workers, owner, line = FakeWorkers(), Owner(str(tmp_path)), Line(theirs)
    for message in messages:
        line.send(message)
    theirs.shutdown(socket.SHUT_WR)
    Member(Line(ours), owner, workers, SystemEnvironment(), 1.0).run()  # type: ignore[arg-type]  # a stand-in
    ours.close()
    assert list(iter(lambda: line.receive(1), None)) == replies
    assert workers.steps == steps
    assert (owner._fd >= 0) == owns
    owner.release()
    theirs.close()


@pytest.mark.parametrize("taken", [False, True])
def test_a_sealed_server_whose_supervisor_ends_resumes_if_nobody_has_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    ours, theirs = socket.socketpair()
    workers, owner, line = FakeWorkers(), Owner(str(tmp_path)), Line(theirs)
    for message in ("begin", "commit", "prepare", "seal"):
        line.send(message)
    member = Member(Line(ours), owner, workers, SystemEnvironment(), 1.0, lock_s=0.1)  # type: ignore[arg-type]  # the same
    other = Owner(str(tmp_path))
    monkeypatch.setattr(workers, "replace_ended", lambda: None)

    def end_supervisor() -> None:
        while line.receive(5) != "sealed":
            pass
        if taken:
            other.acquire()
        theirs.close()
        wait_for(lambda: taken or workers.steps[-1] == "start")
        if not taken:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=end_supervisor)
    thread.start()
    member.run()
    thread.join()
    ours.close()
    expected = ["start", "drain SIGUSR1", *([] if taken else ["start"]), "end SIGTERM"]
    assert workers.steps == expected
    owner.release()
    other.release()
