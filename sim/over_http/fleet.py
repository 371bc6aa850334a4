"""The operating-system processes of an audit: start, watch, kill, and their results.

*Quiet.* The scheduler may choose when no process is about to do something. A process is quiet

- when it has ended;
- when a request of it is held and all its threads, and those of its children, are asleep: it waits for the
  reply. A thread that sleeps for some time besides is not waited for;
- when it has no request, and has been asleep for `idle_s`, or did whatever it does for `hang_s`. Then it is
  *idle*: it is waited for again only after it sent something.

The state of threads is read in /proc, which needs Linux. Elsewhere every process counts as computing,
so a process with a request is quiet after `GRACE_S`.

A process that gets a reply is awake at once, since the write to its socket wakes it. It must be found asleep
twice, with a look at all sockets between, because what it sends may arrive just after the first.
"""

import contextlib
import json
import os
import pickle
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from fencepost.sim.over_http import launcher
from fencepost.sim.over_http.endpoint import Endpoint
from fencepost.sim.world.located import AuditError

POLL_S = 0.001
GRACE_S = 0.05
LOST_S = 10.0
"""After so long the launcher does not answer any more."""
OUTPUT_MAX = 1 << 20
"""Bytes of what a process printed."""
ENDPOINT = "http://endpoint.of.this.process.invalid"
"""Placeholder of the endpoint of a process whose URL is not known yet."""


class Hung(AuditError):
    """Every process that is left computes, sleeps or waits, and sends nothing."""


class Interrupted(BaseException):
    """The user ended the audit."""


class ProcessFailed(Exception):
    """A process ended by an exception, a signal, or an exit code that means failure."""


class NotStarted(Exception):
    """The module of a function cannot be loaded, or the program of a command does not exist."""


class AllowedFailure(ProcessFailed):
    """A process failed in a way that the program expects."""


class Ended(NamedTuple):
    """Exit code and output of a command."""

    code: int
    output: str


@dataclass(frozen=True, eq=False)
class Plan:
    """The code of a process: a function, pickled, or a command."""

    call: bytes = b""
    module: tuple[str, str] = ("", "")
    """The name and the file of the function's module."""
    boto3: bool = False
    """True if its arguments have a client of the SDK."""
    argv: tuple[str, ...] | None = None
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    may_exit: tuple[int, ...] = (0,)


@dataclass
class Waits:
    """Limits of the waits for processes."""

    idle_s: float = 1.0
    hang_s: float = 10.0
    fresh: bool = False
    """True if every process is a fresh interpreter, and no fork of one that has imported its module."""


class Machine:
    """One process, from its start to its end."""

    def __init__(self, fleet: "Fleet", number: int, name: str, plan: Plan) -> None:
        self.number, self.name, self.plan = number, name, plan
        self.endpoint = Endpoint(fleet.selector)
        self.pid = 0
        self.code: int | None = None
        """None until it has ended."""
        self.holding = 0
        """Its requests that have not been answered."""
        self.idle = False
        self._fleet = fleet
        self._events = 0
        self._since = time.monotonic()
        self._asleep = 0

    def heard(self) -> None:
        """Notice whether it did something since the last time."""
        if self.endpoint.events != self._events:
            self._events = self.endpoint.events
            self.answered()

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request as held until it is answered."""
        self.holding += 1
        try:
            yield
        finally:
            self.holding -= 1
            self.answered()

    def answered(self) -> None:
        """It may go on."""
        self._since, self._asleep, self.idle = time.monotonic(), 0, False

    def is_quiet(self, waits: Waits) -> bool:
        """Return True if nothing is to be expected of it for now."""
        self.heard()
        if self.code is not None or self.idle:
            return True
        still_s = time.monotonic() - self._since
        waiting = bool(self.holding or self.endpoint.arrived)
        if self.endpoint.is_busy or not self.pid:
            asleep = False
        else:
            asleep = is_asleep(self.pid) or (not _PROC and waiting and still_s > GRACE_S)
        self._asleep = self._asleep + 1 if asleep else 0
        if waiting:
            return self._asleep >= 2 or still_s > waits.idle_s
        self.idle = still_s > (waits.idle_s if self._asleep >= 2 else waits.hang_s)
        return self.idle

    def stop(self) -> None:
        """Kill it, and wait until it is dead."""
        self.endpoint.close()
        self._fleet.end(self)

    def outcome(self) -> Any:
        """Return the result of its function, or the end of its command; raise ProcessFailed if it failed."""
        try:
            written = self._fleet.file(self.number, "result").read_bytes()
            kind, *found = pickle.loads(written)  # noqa: S301 - written by the user's own code
        except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError):
            kind, found = "ended", []
        if kind == "not started":
            raise NotStarted(found[0])
        if kind == "raised":
            raise (AllowedFailure if found[0] else ProcessFailed)(found[1])
        if kind == "returned":
            return found[0]
        if self.plan.argv is None or self.code not in self.plan.may_exit:
            raise ProcessFailed(self._how())
        return Ended(self.code or 0, self.printed("output"))

    def printed(self, which: str) -> str:
        """Return the text that it printed so far: its "output" or its "errors"."""
        try:
            with self._fleet.file(self.number, which).open("rb") as file:
                return file.read(OUTPUT_MAX).decode(errors="replace")
        except OSError:
            return ""

    def _how(self) -> str:
        code = self.code or 0
        how = f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
        last = self.printed("errors").strip().splitlines()[-1:]
        return ": ".join([how, *last])


class Fleet:
    """All processes of an audit, run by run, and the launcher that starts them."""

    def __init__(self, seed: int = 0, interrupted: Callable[[], bool] = lambda: False) -> None:
        self.selector = selectors.DefaultSelector()
        self.live: list[Machine] = []
        self.show: Callable[[str], None] | None = None
        """Gets what the processes print, line by line, when they end."""
        self._interrupted = interrupted
        self._seed = seed
        self._count = 0
        self._folder = Path(tempfile.mkdtemp(prefix="fencepost-"))
        self._buffer = b""
        ours, theirs = socket.socketpair()
        self._link = ours
        self._launcher = subprocess.Popen(
            [sys.executable, launcher.__file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the driver's to handle
            env=environment("http://127.0.0.1:9", "launcher", seed),
        )
        theirs.close()
        self.selector.register(ours, selectors.EVENT_READ, self._hear)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End everything: the launcher kills what is left when its link is closed."""
        for machine in self.live:
            machine.endpoint.close()
        self.live.clear()
        with contextlib.suppress(KeyError):
            self.selector.unregister(self._link)
        self._link.close()
        try:
            self._launcher.wait(LOST_S)
        except subprocess.TimeoutExpired:
            self._launcher.kill()
            self._launcher.wait()
        self.selector.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self, plan: Plan, name: str, incarnation: int, *, fresh: bool) -> Machine:
        """Start a process; `pump` learns what becomes of it."""
        self._count += 1
        machine = Machine(self, self._count, name, plan)
        self.live.append(machine)
        call = self.file(self._count, "call")
        url = machine.endpoint.url
        call.write_bytes(plan.call)
        argv = None if plan.argv is None else [word.replace(ENDPOINT, url) for word in plan.argv]
        given = {key: value.replace(ENDPOINT, url) for key, value in (plan.env or {}).items()}
        command = {
            "start": self._count,
            "argv": argv,
            "module": plan.module,
            "fresh": fresh,
            "call": str(call),
            "path": sys.path,
            "cwd": plan.cwd,
            "seed": f"{self._seed}/{name}/{incarnation}",
            "env": {**environment(url, name, self._seed), **given},
            "boto3": plan.boto3,
            **{kind: str(self.file(self._count, kind)) for kind in ("output", "errors", "result")},
        }
        self._send(command)
        return machine

    def file(self, number: int, kind: str) -> Path:
        return self._folder / f"{number}.{kind}"

    def end(self, machine: Machine) -> None:
        if machine not in self.live:
            return
        self._send({"kill": machine.number})
        until = time.monotonic() + LOST_S
        while machine.code is None:
            self.pump(LOST_S)
            if time.monotonic() > until:
                raise AuditError(f"process {machine.name} cannot be killed")
        self.live.remove(machine)
        machine.endpoint.close()
        if self.show is not None:
            for line in (machine.printed("output") + machine.printed("errors")).splitlines():
                self.show(f"{machine.name} | {line}")

    def forget(self, machine: Machine) -> None:
        """Remove the files of a process."""
        for kind in ("call", "output", "errors", "result"):
            self.file(machine.number, kind).unlink(missing_ok=True)

    def pump(self, seconds: float) -> bool:
        """Handle arrivals, waiting at most so long for the first; return True if there was any."""
        if self._interrupted():
            raise Interrupted
        ready = self.selector.select(seconds)
        for key, mask in ready:
            key.data(mask)
        return bool(ready)

    def until_quiet(self, waits: Waits) -> None:
        """Wait until no process is about to do something."""
        self.pump(0)
        while True:
            quiet = [machine.is_quiet(waits) for machine in self.live]  # of every one: each look counts
            if not all(quiet):
                self.pump(POLL_S)
            elif not self.pump(0):  # what a process sent before it ended is read in the end
                return

    def until_something(self, waits: Waits, names: Sequence[str]) -> None:
        """Wait until an idle process sends something or ends."""
        until = time.monotonic() + waits.hang_s
        before = [(machine.endpoint.events, machine.code) for machine in self.live]
        while before == [(machine.endpoint.events, machine.code) for machine in self.live]:
            if time.monotonic() > until:
                raise Hung(
                    f"{', '.join(names)} sent no request for {waits.hang_s:g} s and did not end; spawn(..., "
                    "daemon=True) what is to run for ever; world.configure(hang_s=...) waits longer"
                )
            self.pump(0.02)

    def _send(self, command: Mapping[str, Any]) -> None:
        try:
            self._link.sendall(json.dumps(command).encode() + b"\n")
        except OSError:
            raise AuditError("the interpreter that starts the processes has ended") from None

    def _hear(self, _: int) -> None:
        data = self._link.recv(1 << 16)
        if not data:
            raise AuditError("the interpreter that starts the processes has ended")
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            report = json.loads(line)
            number = report.get("started") or report["ended"]
            machine = next((machine for machine in self.live if machine.number == number), None)
            if machine is None:
                continue
            machine.answered()
            if "started" in report:
                machine.pid = report["pid"]
            else:
                machine.code = report["code"]


_PROC = Path("/proc/self/stat").exists()


def is_asleep(pid: int) -> bool:
    """Return True if all threads of a process and of its children wait; False where that is unknown."""
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            stat = (task / "stat").read_bytes()
            if stat[stat.rindex(b")") + 2 :][:1] in b"RDW":
                return False
            with contextlib.suppress(FileNotFoundError):  # a kernel may be built without it
                children = (task / "children").read_bytes().split()
                if not all(is_asleep(int(child)) for child in children):
                    return False
    except (OSError, ValueError):
        return False
    return True


_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def environment(url: str, name: str, seed: int) -> dict[str, str]:
    """Return the variables of a process: the user's own, with the endpoint as S3 and nothing else of AWS."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("AWS_") and key.lower() not in _PROXIES
    }
    return {
        "OPENBLAS_NUM_THREADS": "1",  # or importing NumPy starts threads, see `launcher`
        **kept,
        "AWS_ENDPOINT_URL": url,
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ENDPOINT": url,
        "AWS_ACCESS_KEY_ID": "fencepost",
        "AWS_SECRET_ACCESS_KEY": "fencepost",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "FENCEPOST_PROCESS": name,
        "PYTHONHASHSEED": str(seed % 2**32),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
