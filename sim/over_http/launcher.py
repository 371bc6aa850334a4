"""The interpreter that starts the audited processes: it forks, kills and reaps, and nothing is left behind.

It runs as a program of its own, with the standard library alone, so that an audited function finds an
interpreter as it is in production: none of the replacements of a world, no greenlets, no loaded harness. The
modules of the audited functions are imported once, here; a process is then a fork, which takes milliseconds.
Where an import has started threads, which a fork does not take along, each process is a fresh interpreter.

Commands arrive as lines of JSON on a socket, and reports leave in the same way:

    {"start": 7, "argv": [...] or null, "call": FILE, "env": {...}, ...}      {"started": 7, "pid": 4711}
    {"kill": 7}                                                               {"ended": 7, "code": -9}

A process is the leader of a session of its own. When it has ended, however that happened, its whole process
group is killed. When the socket closes, which it does however the driver ends, all groups are killed and the
launcher ends. On Linux the processes are also killed by the kernel when the launcher is.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import importlib.util
import io
import json
import os
import pickle
import random
import select
import signal
import socket
import sys
import threading
import traceback
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

NOTES = "/-/note/"
"""The path of the endpoint to which notes are posted: no bucket can have this name."""
_SET_PDEATHSIG, _SET_SUBREAPER = 1, 36


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the closed socket has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class Launcher:
    """Starts and reaps processes for the driver at the other end of `link`."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._buffer = b""
        self._pids: dict[int, int] = {}
        """The number of the process, by pid."""
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno())
        _prctl(_SET_SUBREAPER, 1)

    def run(self) -> None:
        """Serve until the driver is gone."""
        try:
            while True:
                select.select([self._link, self._woken], [], [])
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
                self._reap()
                if select.select([self._link], [], [], 0)[0] and not self._read():
                    return
        finally:
            if os.getpid() == _ME:
                self._end()

    def _read(self) -> bool:
        data = self._link.recv(1 << 20)
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            command = json.loads(line)
            if "start" in command:
                self._start(command)
            else:
                for pid, number in self._pids.items():
                    if number == command["kill"]:
                        _kill_group(pid)
        return bool(data)

    def _start(self, command: dict[str, Any]) -> None:
        fresh = command["fresh"]
        if command["argv"] is None and not fresh:
            _prepare(command)
            fresh = _has_threads()
            gc.freeze()  # so that a collection copies no pages of what was imported
        pid = os.fork()
        if pid:
            self._pids[pid] = command["start"]
            self._report(started=command["start"], pid=pid, fresh=fresh)
            return
        os.setsid()
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != _ME:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _redirect(command["output"], command["errors"])
        for connection in (self._link, self._wake, self._woken):
            connection.close()
        os.environ.clear()
        os.environ.update(command["env"])
        if command["argv"] is not None:
            _execute(command["argv"], command)
        if fresh:
            _execute([sys.executable, __file__, "--call", json.dumps(command)], command)
        _leave(call(command))

    def _reap(self) -> None:
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            if found.si_pid in self._pids:
                _kill_group(found.si_pid)  # before its number can be another's
            _, status = os.waitpid(found.si_pid, 0)
            number = self._pids.pop(found.si_pid, None)
            if number is not None:
                self._report(ended=number, code=os.waitstatus_to_exitcode(status))
            if not self._pids:
                self._sweep()

    def _end(self) -> None:
        """Kill everything, and wait until it is dead."""
        signal.set_wakeup_fd(-1)
        for pid in self._pids:
            _kill_group(pid)
        with contextlib.suppress(ChildProcessError):
            while True:
                self._sweep()  # what lost its parent just now is ours
                os.waitpid(-1, 0)

    def _sweep(self) -> None:
        """Kill what left its process group and lost its parent; for when no process runs."""
        with contextlib.suppress(OSError):
            for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)

    def _report(self, **what: Any) -> None:
        with contextlib.suppress(OSError):  # a driver that is gone reads nothing
            self._link.sendall(json.dumps(what).encode() + b"\n")


_ME = os.getpid()


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):  # it may not have made its group yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _has_threads() -> bool:
    """Return True if this process has more than one thread, of Python or not."""
    try:
        return len(list(Path("/proc/self/task").iterdir())) > 1
    except OSError:
        return threading.active_count() > 1


def _leave(code: int) -> None:
    """End the process as an interpreter ends, but for taking every module apart, which takes longest."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - waits for threads, and has no door
        atexit._run_exitfuncs()  # noqa: SLF001 - has no door
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _redirect(output: str, errors: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for target, opened in (
        (0, os.open(os.devnull, os.O_RDONLY)),
        (1, os.open(output, flags, 0o600)),
        (2, os.open(errors, flags, 0o600)),
    ):
        os.dup2(opened, target)


def _execute(argv: list[str], command: dict[str, Any]) -> None:
    try:
        if command["cwd"] is not None:
            os.chdir(command["cwd"])
        os.execvp(argv[0], argv)  # noqa: S606 - the user's own
    except OSError as error:
        _leave_result(command, ("not started", f"{argv[0]} cannot be started: {error}"))
        os._exit(127)


def _leave_result(command: dict[str, Any], outcome: tuple[Any, ...]) -> None:
    """As a whole, or not at all."""
    written = Path(command["result"] + ".part")
    written.write_bytes(pickle.dumps(outcome))
    written.rename(command["result"])


# Code that runs in the process of a function.


def _prepare(command: dict[str, Any]) -> None:
    """Import the function's module before the fork. If that fails, the process itself reports it."""
    sys.path[:] = command["path"]
    with contextlib.suppress(BaseException):
        _load(*command["module"])
    if command["boto3"] or "boto3" in sys.modules:
        _warm()


def _warm() -> None:
    """Let the SDK read its tables, which takes longer than the rest of a process."""
    import boto3
    import botocore.session

    if boto3.DEFAULT_SESSION is None:
        core = botocore.session.Session()
        core.create_client("s3")
        boto3.DEFAULT_SESSION = boto3.Session(botocore_session=core)


def _load(name: str, file: str) -> None:
    """The module under the name that the driver knows it by."""
    if name in sys.modules:
        return
    if not name.startswith("_fencepost_user_"):
        importlib.import_module(name)
        return
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def call(command: dict[str, Any]) -> int:
    """Call the function, leave what it returned or raised in a file, and return the exit code."""
    sys.path[:] = command["path"]
    random.seed(command["seed"])
    try:
        _load(*command["module"])
        reader = _Unpickler(io.BytesIO(Path(command["call"]).read_bytes()))
        function, args, kwargs, may_raise = reader.load()
    except BaseException as error:  # noqa: BLE001 - whatever keeps it from starting is the outcome
        traceback.print_exc()
        text = f"{command['module'][0]} cannot be loaded: {type(error).__name__}: {error}"
        _leave_result(command, ("not started", text))
        return 1
    try:
        outcome = ("returned", function(*args, **kwargs))
        pickle.dumps(outcome)
    except BaseException as error:  # noqa: BLE001 - whatever ends the function is its outcome
        traceback.print_exc()
        _leave_result(command, ("raised", isinstance(error, may_raise), f"{type(error).__name__}: {error}"))
        return 1
    _leave_result(command, outcome)
    return 0


class _Unpickler(pickle.Unpickler):
    """Reads the arguments of a function. Values of the driver's world are made anew here."""

    def persistent_load(self, made: Any) -> Any:
        kind, service, options = made
        if kind == "world":
            return Inside()
        if kind == "endpoint":
            return os.environ["AWS_ENDPOINT_URL"]
        import boto3  # only where the driver had a client

        return boto3.Session() if kind == "session" else getattr(boto3, kind)(service, **options)


class Inside:
    """The world, as an audited process sees it: its name, its endpoint, notes and clients."""

    @property
    def me(self) -> str:
        """The name of the process."""
        return os.environ["FENCEPOST_PROCESS"]

    @property
    def endpoint(self) -> str:
        """The URL of the S3 endpoint of this process."""
        return os.environ["AWS_ENDPOINT_URL"]

    def note(self, topic: str, value: Any = None) -> None:
        """Show `value`, which must be JSON, to the properties."""
        body = json.dumps(value).encode()
        url = self.endpoint + NOTES + quote(topic, safe="")
        request = urllib.request.Request(url, body, method="POST")  # noqa: S310 - our own endpoint
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request):
            pass

    def boto3_client(self, service: str = "s3", **options: Any) -> Any:
        """Return a client of the SDK."""
        import boto3  # as above

        return boto3.client(service, **options)

    def boto3_resource(self, service: str = "s3", **options: Any) -> Any:
        """Return a resource of the SDK."""
        import boto3  # as above

        return boto3.resource(service, **options)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"world.{name} does not exist in a process of --over-http, which has me, endpoint, note, "
            "boto3_client and boto3_resource"
        )


def _quietly(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if kind is not KeyboardInterrupt:
        traceback.print_exception(kind, error, trace)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose modules are no top-level ones
    sys.excepthook = _quietly
    if sys.argv[1] == "--call":
        _leave(call(json.loads(sys.argv[2])))
    Launcher(socket.socket(fileno=int(sys.argv[1]))).run()
