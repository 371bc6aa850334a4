"""Replacing a running server without refusing a connection; the model `handoff` states why these steps.

A supervisor owns the listening socket and has one server, the incumbent. A handoff starts a successor and
leads both through these messages, one line each, on a pair of sockets that each server inherits:

    supervisor -> successor   (started)  waiting     it has imported its modules, and waits
    supervisor -> incumbent   prepare    drained     its workers accept no more, and end without a request
    supervisor -> incumbent   seal       sealed      it releases the lock of the directory
    supervisor -> successor   begin      ready       it takes the lock, and its workers accept
    supervisor -> successor   commit
    supervisor -> incumbent   commit                 it ends with its last worker

Connections wait in the backlog of the socket between `prepare` and `ready`, about two seconds. A worker that
has a request of an hour finishes it beside the successor, within the time of a drain: such a worker is one
more writer of the directory, as those of one server are to each other. A server may so begin beside a writer,
which the scenario `reconciled` of the audit has. Every failure before the first
commit ends the successor and makes the incumbent `resume`, which takes the lock like any start. Where the
supervisor is gone, a server that was committed goes on, resumes, or ends because another has the lock; one
that was not committed ends. The first commit goes to the successor: if the supervisor ends between the two,
the incumbent finds the lock held and ends. Whenever the server has ended, the supervisor starts another.
"""

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from fencepost.impl.environment import Environment
from fencepost.impl.http.workers import Workers
from fencepost.impl.objects.owner import HANDOFFS, Owner
from fencepost.impl.objects.safeguards import STANDARD, Safeguards
from fencepost.impl.store.errors import Unusable

CONTROL = "control"
VARIABLE = "FENCEPOST_OBJECTS_HANDOFF"
"""Descriptors that a supervised server inherits: the listening socket, and the one to its supervisor."""
BACKLOG = 2048
START_S = 60.0
_LOCK_S = 60.0
_QUIET_S = 1.5
"""The time for workers to end that have nothing to answer: they close idle connections after a second."""
_PAUSE_S = 1.0
_ENDING = (signal.SIGTERM, signal.SIGINT)


class Failed(Exception):
    """A step of a handoff failed; the text is the reason."""


class Process(Protocol):
    """The part of `subprocess.Popen` that a handoff uses."""

    pid: int

    def poll(self) -> int | None: ...
    def kill(self) -> None: ...
    def terminate(self) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class Line:
    """Messages of one line over a stream socket."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._rest = b""

    def send(self, message: str) -> None:
        with contextlib.suppress(OSError):  # one that has ended is noticed by what it does not answer
            self.socket.sendall(message.encode() + b"\n")

    def receive(self, timeout_s: float | None = None) -> str | None:
        """The next message; None at the end. Raises `TimeoutError`."""
        self.socket.settimeout(timeout_s)
        while b"\n" not in self._rest:
            try:
                piece = self.socket.recv(4096)
            except ConnectionError:
                return None
            if not piece:
                return None
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\n")
        return message.decode(errors="replace")

    @property
    def has_more(self) -> bool:
        """True if the next message has arrived already."""
        return b"\n" in self._rest

    def close(self) -> None:
        self.socket.close()


class Server:
    """A server process, as its supervisor has it."""

    def __init__(self, process: Process, line: Line) -> None:
        self.process = process
        self.line = line

    def call(self, message: str, reply: str, timeout_s: float) -> None:
        """Send a message and wait for its reply; raises `Failed`."""
        if message:
            self.line.send(message)
        try:
            found = self.line.receive(timeout_s)
        except TimeoutError:
            raise Failed(f"process {self.process.pid} did not reach {reply!r} in {timeout_s:g} s") from None
        if found is None:
            raise Failed(f"process {self.process.pid} ended before it was {reply!r}")
        if found != reply:
            raise Failed(f"process {self.process.pid} answered {found!r}, not {reply!r}")

    def resume(self, timeout_s: float) -> None:
        """As `call`; replies to earlier messages may come first, which were too late."""
        self.line.send("resume")
        reply = ""
        while reply != "resumed":
            try:
                found = self.line.receive(timeout_s)
            except TimeoutError:
                found = f"failed to resume in {timeout_s:g} s"
            reply = "failed: it has ended" if found is None else found
            if reply.startswith("failed"):
                raise Failed(f"process {self.process.pid} {reply}")

    def end(self) -> None:
        """At once, and only return when it is gone."""
        self.process.kill()
        self.process.wait()
        self.line.close()


class Supervisor:
    """`start` starts a server that inherits two descriptors: the listener's, and that of its own line."""

    def __init__(
        self,
        root: str,
        start: Callable[[tuple[int, int]], Process],
        listening: socket.socket,
        env: Environment,
        *,
        drain_s: float,
        safeguards: Safeguards = STANDARD,
    ) -> None:
        self._root = root
        self._safeguards = safeguards
        self._start = start
        self._listening = listening
        self._env = env
        self._drain_s = drain_s
        self._stopping = False
        self._counts = {"done": 0, "failed": 0}
        self._leaving: list[Server] = []
        """Servers that were replaced, and finish what they have."""
        self._log = logging.getLogger("fencepost.supervisor")
        self.server: Server | None = None

    def spawn(self) -> Server:
        ours, theirs = socket.socketpair()
        with theirs:
            process = self._start((self._listening.fileno(), theirs.fileno()))
        return Server(process, Line(ours))

    def begin(self) -> None:
        """A first server, or one after another has ended."""
        self.server = server = self.spawn()
        server.call("", "waiting", START_S)
        server.call("begin", "ready", START_S)
        server.line.send("commit")

    def handoff(self) -> str:
        """Replace the server; returns why it was not, or nothing."""
        incumbent, successor = self.server, self.spawn()
        assert incumbent is not None, "a supervisor that runs has a server"
        try:
            successor.call("", "waiting", START_S)
            self._safeguards.seal_before_begin(
                lambda: incumbent.call("prepare", "drained", START_S),
                lambda: incumbent.call("seal", "sealed", START_S),
                lambda: successor.call("begin", "ready", START_S),
            )
        except Failed as error:
            successor.end()
            self._safeguards.resume_on_abort(lambda: self._resume(incumbent))
            return str(error)
        successor.line.send("commit")
        incumbent.line.send("commit")
        self.server = successor
        self._leaving.append(incumbent)
        return ""

    def _resume(self, incumbent: Server) -> None:
        try:
            incumbent.resume(_LOCK_S + START_S)
        except Failed as error:
            self._log.error("the incumbent does not serve again: %s", error)
            incumbent.process.kill()  # the loop starts another

    def run(self) -> None:
        """Until a signal ends it; requests for a handoff come over the control socket of the directory."""
        with _signals(self._stop) as awake, control_listener(self._root) as control:
            Path(self._root, HANDOFFS).unlink(missing_ok=True)  # of an earlier supervisor
            self._begin_again()
            while not self._stopping:
                assert self.server is not None, "begun above"
                waited: list[Any] = [awake, control, self.server.line.socket]
                ready, _, _ = select.select(waited, [], [])
                _clear(awake)
                self._reap()
                if control in ready and not self._stopping:
                    self._serve_control(control)
                if self.server.process.poll() is not None and not self._stopping:
                    self._log.error("server %d ended; starting another", self.server.process.pid)
                    self.server.line.close()
                    self._env.sleep(_PAUSE_S)
                    self._begin_again()
            left = [*self._leaving, *([] if self.server is None else [self.server])]
            for server in left:
                server.process.terminate()
            for server in left:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.process.wait(self._drain_s + 10)
                server.end()

    def _reap(self) -> None:
        """Forget the servers that have ended."""
        for server in [*self._leaving]:
            if server.process.poll() is not None:
                server.line.close()
                self._leaving.remove(server)

    def _begin_again(self) -> None:
        while not self._stopping:
            try:
                self.begin()
            except Failed as error:
                self._log.error("the server cannot start: %s", error)
                assert self.server is not None, "begun just now"
                self.server.end()
                self._env.sleep(_PAUSE_S)
            else:
                return

    def _serve_control(self, control: socket.socket) -> None:
        connected, _ = control.accept()
        line = Line(connected)
        with contextlib.closing(line), contextlib.suppress(TimeoutError):
            if line.receive(1.0) != "handoff":
                line.send("failed the only request is: handoff")
                return
            begun_ns = self._env.monotonic_ns()
            problem = self.handoff()
            self._count("failed" if problem else "done", (self._env.monotonic_ns() - begun_ns) / 1e9)
            if problem:
                self._log.error("handoff aborted: %s", problem)
            assert self.server is not None, "a supervisor that runs has a server"
            line.send(f"failed {problem}" if problem else f"done {self.server.process.pid}")

    def _count(self, outcome: str, seconds: float) -> None:
        """Keep the numbers where the servers find them, which have the metrics."""
        self._counts[outcome] += 1
        path = Path(self._root, HANDOFFS)
        new = path.with_name(f"{path.name}.new")
        try:
            new.write_text(json.dumps({**self._counts, "seconds": seconds}))
            new.replace(path)
        except OSError as error:  # a full disk ends no supervisor
            self._log.error("the handoffs cannot be counted: %s", error)

    def _stop(self) -> None:
        self._stopping = True


class Member:
    """A supervised server: the process that owns the directory and has the workers."""

    def __init__(
        self,
        line: Line,
        owner: Owner,
        workers: Workers,
        env: Environment,
        drain_s: float,
        *,
        lock_s: float = _LOCK_S,
    ) -> None:
        self._lock_s = lock_s
        self._line = line
        self._owner = owner
        self._workers = workers
        self._env = env
        self._drain_s = drain_s
        self._serving = self._committed = self._stopping = False

    def run(self) -> None:
        with _signals(self._stop) as awake:
            self._line.send("waiting")
            while not self._stopping:
                waited: list[Any] = [awake, self._line.socket]
                ready, _, _ = select.select(waited, [], [])
                _clear(awake)
                if self._serving:
                    self._workers.replace_ended()
                if self._line.socket in ready and not self._act_on_all():
                    break
            while self._serving and not self._stopping:  # without a supervisor
                select.select([awake], [], [])
                _clear(awake)
                self._workers.replace_ended()
            self._workers.end_all(signal.SIGTERM, self._drain_s + 5)

    def _act_on_all(self) -> bool:
        """Act on every message that has arrived; there may be several."""
        while self._act(self._line.receive()):
            if not self._line.has_more:
                return True
        return False

    def _act(self, message: str | None) -> bool:
        """False when there is no supervisor any more, or nothing more to do for it."""
        match message:
            case "begin" | "resume":
                self._take_over("ready" if message == "begin" else "resumed")
            case "prepare":
                self._serving = False
                self._workers.drain_all(signal.SIGUSR1, min(self._drain_s, _QUIET_S))
                self._line.send("drained")
            case "seal":
                self._owner.release()
                self._line.send("sealed")
            case "commit":
                if not self._serving:
                    return False
                self._committed = True
            case _:  # the supervisor is gone
                if not self._committed:
                    self._serving = False
                elif not self._serving:
                    self._take_over("")
                return False
        return True

    def _take_over(self, reply: str) -> None:
        """Take the lock and serve, unless it does already; one that has lost it to another answers so."""
        if self._serving:
            self._line.send(reply)
            return
        for left in reversed(range(round(self._lock_s / 0.05))):
            try:
                self._owner.acquire()
            except Unusable as error:
                if not left or self._stopping:
                    self._line.send(f"failed {error}")
                    return
                self._env.sleep(0.05)
            else:
                break
        self._workers.start_all()
        self._serving = True
        self._line.send(reply or "resumed")

    def _stop(self) -> None:
        self._stopping = True


def request_handoff(root: str) -> str:
    """Have the supervisor of a directory replace its server; returns its answer. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected, _short(root) as path:
        connected.connect(path)
        line = Line(connected)
        line.send("handoff")
        return line.receive() or "failed the supervisor ended"


@contextlib.contextmanager
def control_listener(root: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening, _short(root) as path:
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
        listening.bind(path)
        Path(path).chmod(0o600)
        listening.listen(8)
        yield listening


@contextlib.contextmanager
def _short(root: str) -> Iterator[str]:
    """The path of the control socket: addresses of sockets have at most 107 characters."""
    folder = Path(root, ".objects")
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        linux = Path(f"/proc/self/fd/{fd}")
        yield str((linux if linux.exists() else folder) / CONTROL)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[int]:
    """A descriptor that becomes readable when a child ends or a signal calls `stop`."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    before = {number: signal.signal(number, lambda *_: stop()) for number in _ENDING}
    before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
    woken = signal.set_wakeup_fd(writing)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def _clear(awake: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(awake, 4096):
            pass
