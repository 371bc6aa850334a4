"""Calls that lead out of the world, caught and named: sockets, threads, other programs, waits for a thread.

A run that talks to something else is no longer a function of its choices, so its results are not reliable.
The call is refused with `Escape`, which is no `Exception`, and the run is marked at once: code that swallows
everything does not hide it. The mark is a violation of its own, with counterexample and token.

Sockets and other programs are caught by the interpreter's audit events, however the code came by the call. An
audit hook cannot be removed; this one acts only in a thread in which a world has control.

Not caught: files that are read and written, and waits of libraries written in C (which `watchdog` ends).
"""

import atexit
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.sim.world.finalizers import PROPERTY, is_library, left_behind, place
from fencepost.sim.world.present import controlled, here, surely_here
from fencepost.sim.world.process import refuse
from fencepost.sim.world.run import RunState


class Escape(BaseException):
    """Code of the world called something that only the real world has."""


_NETWORK = (
    "use S3 through boto3, urllib3, requests or aiohttp, which the world answers, or audit with --over-http; "
    "hand the code a stand-in for anything else"
)
_THREADS = "start threads by threading or concurrent.futures, which the world controls"
_PROGRAMS = "call the code itself, or hand it a stand-in"


def escape(call: str, instead: str, frame: FrameType | None = None) -> BaseException:
    """Mark the run, and the exception to raise."""
    run = controlled() or surely_here()
    if run.collecting:
        return Escape(left_behind(run, call))
    if run.running is not None and run.running.crashing:
        # The process is dying; what it tries while it is unwound is not the code's fault.
        refuse(run.running)
    who = "the program that sets up" if run.running is None else f"process {run.running.name!r}"
    text = (
        f"{who} called {call} at {place(frame or sys._getframe(1))}, which leads out of the world; {instead}"
    )
    if run.running is None:
        return Misuse(text)
    if run.violation is None:
        run.report_violation(PROPERTY, text)
    return Escape(text)


def elsewhere(run: RunState, op: Any) -> BaseException:
    """Mark the run: a thread or greenlet of the code's own uses the world, which controls only processes."""
    text = (
        f"{op.kind} {op.subject} was sent from another thread or greenlet than a process's own, at "
        f"{place(sys._getframe(1))}, which leads out of the world; {_THREADS}"
    )
    if run.violation is None:
        run.report_violation(PROPERTY, text)
    return Escape(text)


def _refused() -> bool:
    """Return True if this thread runs code of a world: a process, the program, or a finalizer."""
    run = here()
    return run is not None and (run.collecting or controlled() is not None)


_EVENTS = {
    **{f"socket.{call}": _NETWORK for call in ("connect", "sendto", "sendmsg")},
    **{f"socket.{call}": _NETWORK for call in ("getaddrinfo", "gethostbyname")},
    **{f"os.{call}": _PROGRAMS for call in ("system", "fork", "forkpty", "exec", "posix_spawn", "spawn")},
    "subprocess.Popen": _PROGRAMS,
}
"""The audit events that lead out of the world, and what to do instead."""


def _hook(event: str, _args: Any) -> None:
    instead = _EVENTS.get(event)
    if instead is not None and _refused():
        raise escape(event, instead, sys._getframe(1))


sys.addaudithook(_hook)


def starting(call: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """For threads and event loops, also when the standard library starts them."""

    def replacement(*args: Any, **kwargs: Any) -> Any:
        if not _refused():
            return real(*args, **kwargs)
        raise escape(call, _THREADS, sys._getframe(1))

    replacement.real = real  # type: ignore[attr-defined]  # for the loops of worlds
    return replacement


_real_atexit = atexit.register
_real_finalize = weakref.finalize.__init__


def _register(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Replace `atexit.register`: the end of the audit is not the end of a process, so nothing would run."""
    run = controlled()
    frame = sys._getframe(1)
    if run is None or is_library(frame):
        return _real_atexit(function, *args, **kwargs)
    found = f"atexit.register at {place(frame)}: the world never runs what is registered"
    if found not in run.findings:
        run.findings.append(found)
    return function


def _finalize(self: Any, *args: Any, **kwargs: Any) -> None:
    _real_finalize(self, *args, **kwargs)
    if controlled() is not None and not is_library(sys._getframe(1)):
        self.atexit = False


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield the replacements with their places: module or class, and name."""
    for owner, name in (
        (sys.modules["_thread"], "start_new_thread"),
        (threading, "_start_new_thread"),
        (threading, "_start_joinable_thread"),  # from Python 3.13 on
    ):
        if hasattr(owner, name):
            yield owner, name, starting(f"{owner.__name__}.{name}", getattr(owner, name))
    yield atexit, "register", _register
    yield weakref.finalize, "__init__", _finalize
    loops = sys.modules.get("asyncio.base_events")
    if loops is not None:
        loop = loops.BaseEventLoop
        yield loop, "run_forever", starting("asyncio's event loop", loop.run_forever)
