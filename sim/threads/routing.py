"""Replacements for threads, put in place like those of clocks (see `sim.world.places`).

Code of a process gets threads, locks and pools of the world, whichever module it calls them through. The
standard library's own modules keep their real locks, which they never hold across a request, and so does the
SDK, but for its transfers.
"""

import _thread
import concurrent.futures
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.sim.threads import loaded, pool, queues
from fencepost.sim.threads.locals import Local
from fencepost.sim.threads.locks import METHODS, Lock, RLock, made_event, named
from fencepost.sim.threads.waiting import caller, outer_frame
from fencepost.sim.world import places
from fencepost.sim.world.escapes import starting
from fencepost.sim.world.present import REAL, STEP, controlled, is_sdk, kind_of

_real_start = threading.Thread.start
_real_join = threading.Thread.join
_real_alive = threading.Thread.is_alive
_real_newname = threading._newname  # type: ignore[attr-defined]  # where a thread without a name gets one
_refused_start = starting("threading.Thread.start", _real_start)


def _start(self: Any) -> None:
    now = caller()
    if now is None:
        _refused_start(self)
        return
    if not self._initialized:
        raise RuntimeError("thread.__init__() not called")
    if self._started._flag:
        raise RuntimeError("threads can only be started once")
    self._started._flag = True
    thread = now.start(self.name, lambda: _run(self), daemon=self.daemon)
    thread.set_thread(self)
    self._strand = thread
    self._ident = thread.index
    now.gave("start", thread.name.partition("/")[2])


def _run(self: Any) -> None:
    try:
        self.run()
    except SystemExit:
        pass
    finally:
        self._is_stopped = True


def _join(self: Any, timeout: float | None = None) -> None:
    now = caller()
    strand = getattr(self, "_strand", None)
    if now is None or strand is None:
        _real_join(self, timeout)
        return
    if strand is now.process:
        raise RuntimeError("cannot join current thread")
    now.wait(
        "join",
        strand.name.partition("/")[2],
        lambda: strand.pending is None,
        timeout=None if timeout is None else max(0.0, timeout),
        atomic=True,
    )


def _is_alive(self: Any) -> bool:
    strand = getattr(self, "_strand", None)
    now = caller()
    if strand is None:
        return _real_alive(self)
    if now is not None:
        now.touch(strand.name.partition("/")[2])
    return strand.pending is not None


def _newname(form: str) -> str:
    """Numbered by process, and not by interpreter."""
    now = caller()
    if now is None:
        return str(_real_newname(form))
    name = form % "" if form.startswith("Thread-%s (") else form
    return now.number("Thread") if name.startswith("Thread-") else form


_main = threading.main_thread
_real_current = threading.current_thread


def _current() -> Any:
    now = caller()
    if now is None or kind_of(outer_frame()) == REAL:
        return _real_current()
    process = now.process
    if process.machine is process:
        return _main()
    if process.thread is None:
        process.set_thread(threading.Thread(name=process.name.partition("/")[2]))
    return process.thread


def _ident(real: Callable[[], int]) -> Callable[[], int]:
    def replacement() -> int:
        now = caller()
        if now is None or kind_of(outer_frame()) == REAL:
            return real()
        return int(now.process.index)

    return replacement


def _lock(real: Callable[[], Any], kind: type[Lock]) -> Callable[[], Any]:
    def replacement() -> Any:
        run = controlled()
        if run is None or not _is_controlled(outer_frame()):
            return real()
        return kind(loaded.name_of_new(run, kind.__name__))

    return replacement


_TRANSFERS = "s3transfer."
"""Of the SDK's modules these start threads, and hold locks across requests: to clean up after a failure."""


def _is_controlled(frame: Any) -> bool:
    """Return True if what this code makes to wait for is the world's."""
    name = frame.f_globals.get("__name__", "")
    return name.startswith(_TRANSFERS) if is_sdk(name) else kind_of(frame) == STEP


def _simple_queue() -> Any:
    run = controlled()
    if run is None or not _is_controlled(outer_frame()):
        return queues.real_simple_queue()
    return queues.SimpleQueue(loaded.name_of_new(run, "SimpleQueue"))


def _waiting(real: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(*args: Any, **kwargs: Any) -> Any:
        now = caller()
        return real(*args, **kwargs) if now is None else function(now, *args, **kwargs)

    return replacement


def _replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield the replacements with their places: module or class, and name."""
    yield threading.Thread, "start", _start
    yield threading.Thread, "join", _join
    yield threading.Thread, "is_alive", _is_alive
    yield threading, "_newname", _newname
    yield threading, "current_thread", _current
    yield threading, "get_ident", _ident(threading.get_ident)
    yield threading, "Lock", _lock(_thread.allocate_lock, Lock)
    yield threading, "RLock", _lock(threading.RLock, RLock)
    yield threading, "local", Local
    yield queue, "SimpleQueue", _simple_queue
    yield queue.Queue, "__init__", queues.made
    yield threading.Event, "__init__", made_event
    made: tuple[Any, ...] = (
        threading.Condition,
        threading.Semaphore,
        threading.Barrier,
        concurrent.futures.Future,
        concurrent.futures.ThreadPoolExecutor,
    )
    for owner in made:
        yield owner, "__init__", named(owner.__init__)
    for module in (concurrent.futures, concurrent.futures._base):
        yield module, "as_completed", _waiting(concurrent.futures._base.as_completed, pool.as_completed)
        yield module, "wait", _waiting(concurrent.futures._base.wait, pool.wait)
    for owner, name, replacement in METHODS:
        if name in vars(owner):
            yield owner, name, replacement
    if "asyncio.base_events" in sys.modules:
        from fencepost.sim.threads import loop

        yield from loop.replacements()


places.sources.append(_replacements)
places.lookers.append(loaded.look)
