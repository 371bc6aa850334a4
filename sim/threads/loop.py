"""asyncio in audited code: an event loop of the world.

Theory. The loop's own queue is first in, first out, so nothing is chosen there. Only the moment varies at
which other threads (`asyncio.to_thread`, executors) end their work, before or after a timer. So one round
of the loop is one step: before it, other threads may go on, and time may pass. A loop with nothing to do
waits until a thread hands it something, or until its next timer.

What is left out: a thread of an executor that hands the loop its result between two callbacks of one round,
of which the first and the second each make another callback ready. The bound says so where it could happen.
The replies of a client of the network come only between rounds, as they do on a socket.

The loop has no sockets. A connection that a client opens (aiohttp, and with it aiobotocore)
ends in a `Transport`, which answers requests to S3 like `sim.world.connections`. A request is in flight as a
thread of the process: it lands in a step of its own, and so after its task was cancelled, too. Time-outs of
such a client do not come by themselves: they are how a lost reply shows, see `sim.boto.lost_shows_as`.
"""

import asyncio
import inspect
import socket
import sys
import weakref
from asyncio import base_events, events
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.sim.threads.waiting import caller
from fencepost.sim.world.escapes import escape
from fencepost.sim.world.located import users_lines
from fencepost.sim.world.operations import Crash
from fencepost.sim.world.present import is_sdk
from fencepost.sim.world.process import Process, refuse

_NO_SOCKETS = "the world's loop has no sockets but for clients of S3"
_OF_SLEEPS = asyncio.futures._set_result_unless_cancelled  # type: ignore[attr-defined]  # what ends asyncio.sleep


class _Selector:
    """Waits for the loop, in the place of the system."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        now = caller()
        if now is None:
            raise RuntimeError("this event loop belongs to a run that is over")
        ready = self._loop._ready
        now.touch(self._loop.name)
        if ready:
            own = sum(1 for handle in ready if not _is_clients(handle))
            if own > 1 and _has_workers(now.process):
                now.run.leave_rounds_whole()
            if own and _others(now.process):
                now.gave("round", self._loop.name)
        else:
            now.wait("wait", self._loop.name, lambda: bool(ready), timeout=timeout, atomic=True)
        return []

    def close(self) -> None:
        """There is nothing to close."""


REQUEST = "request"
"""Name of the threads in which requests of a client are in flight."""
_DESTROYED = "Task was destroyed but it is pending!"


def _drop(coroutine: Any) -> None:
    """It crashes before it has begun, which is no reason for a warning."""
    if asyncio.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        coroutine.close()


def _end(coroutine: Any) -> None:
    """A task crashes where it waits; what it awaits meanwhile (to leave an `async with`) ends it no less."""
    for _ in range(CRASHES_MAX):
        try:
            coroutine.throw(Crash())
        except BaseException:  # noqa: BLE001 - whatever it raises: it has ended
            return


def _others(process: Any) -> bool:
    """Return True if another thread of its process may go on."""
    machine = process.machine
    strands = (machine, *(machine.threads or ()))
    return any(one is not process and one.pending is not None for one in strands)


def _has_workers(process: Process) -> bool:
    """Return True if a thread runs that may hand the loop something at any moment: a client's never does."""
    others = process.machine.threads or ()
    return any(one.pending is not None and REQUEST not in one.name for one in others if one is not process)


def _is_clients(handle: Any) -> bool:
    """Return True if what is ready is a client's own: a task of it that writes, a connection that closes."""
    callback = handle._callback
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        frame = getattr(owner.get_coro(), "cr_frame", None)
        return frame is not None and is_sdk(frame.f_globals.get("__name__", ""))
    return is_sdk(str(getattr(callback, "__module__", None) or type(owner).__module__))


CRASHES_MAX = 20


def _real(name: str) -> Any:
    found = getattr(base_events.BaseEventLoop, name)
    return getattr(found, "real", found)


class Loop(base_events.BaseEventLoop):
    """An event loop in a thread of a world."""

    def __init__(self) -> None:
        super().__init__()
        now = caller()
        assert now is not None, "loops are made by the code of processes"
        self._run = now.run
        self._process = now.process
        self._run.use_loops()
        self.name = now.number("EventLoop")
        now.state(self, list)
        self._base: Any = ()
        """The lines of the user's code that run the loop."""
        self._begun: Any = weakref.WeakKeyDictionary()
        """By task: the lines that made it, when the world keeps them."""
        self._selector = _Selector(self)

    _forever = _real("run_forever")

    def run_forever(self) -> None:
        now = caller()
        if now is not None:
            self._process = now.process
        self._base = users_lines() if self._run.located is not None else ()
        try:
            self._forever()
        except Crash:
            self._end_tasks()
            raise

    def _end_tasks(self) -> None:
        """End all tasks where they wait, and those that they begin meanwhile to close what they have."""
        ended: set[Any] = set()
        asyncio._set_running_loop(self)
        try:
            while left := asyncio.all_tasks(self) - ended:
                for task in left:
                    _drop(task.get_coro())
                    _end(task.get_coro())
                ended |= left
        finally:
            asyncio._set_running_loop(None)

    def run_until_complete(self, future: Any) -> Any:
        if self._process.crashing:
            _drop(future.get_coro() if isinstance(future, asyncio.Task) else future)
            refuse(self._process)
        return super().run_until_complete(future)

    def time(self) -> float:
        return float(self._run.clock_ns) / 1e9

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        # A crash passes through callbacks, and leaves tasks behind.
        if not isinstance(context.get("exception"), Crash) and context.get("message") != _DESTROYED:
            super().call_exception_handler(context)

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        now = caller()
        if now is not None and now.process is not self._process:
            now.gave("wake", self.name)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        self._executor_shutdown_called = True
        executor = getattr(self, "_default_executor", None)
        if executor is not None:
            executor.shutdown(wait=True)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]  # not generic
        if callback is not _OF_SLEEPS and _by_client():
            return asyncio.TimerHandle(when, callback, args, self, context)  # it never comes
        return super().call_at(when, callback, *args, context=context)

    def create_task(self, coro: Any, **options: Any) -> Any:
        task = super().create_task(coro, **options)
        if self._run.located is not None:
            self._begun[task] = self.lines()
        return task

    def lines(self) -> Any:
        """Return the lines of the user's code that lead to what a task does now, or to where it was made."""
        here = users_lines()
        task = asyncio.current_task(self)
        if here != self._base or task is None:
            return here or self._process.begun_at
        return self._begun.get(task, here)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]  # not generic
        if executor is not None or not _by_client():
            return super().run_in_executor(executor, func, *args)
        # A client that reads its own files.
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the future hands it on
            done.set_exception(error)
        return done

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("192.0.2.1", port or 0))]

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """A transport takes the place of the socket."""

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        **_: Any,
    ) -> Any:
        if sock is not None:
            sock.close()
        protocol = protocol_factory()
        transport = Transport(self, protocol, f"{host}:{port}", secure=bool(ssl))
        protocol.connection_made(transport)
        return transport, protocol

    async def create_server(self, *_: Any, **__: Any) -> Any:
        raise escape("asyncio's create_server", _NO_SOCKETS, sys._getframe(1))

    async def subprocess_exec(self, *_: Any, **__: Any) -> Any:
        raise escape("asyncio's subprocess_exec", "call the code itself", sys._getframe(1))

    subprocess_shell = subprocess_exec

    def add_signal_handler(self, *_: Any) -> None:  # type: ignore[override]  # takes whatever it gets
        """No signal reaches a process of a world."""

    def remove_signal_handler(self, _sig: Any) -> bool:
        return False


class Transport(asyncio.Transport):
    """The transport to which a client of the world's loop writes, and from which it reads."""

    def __init__(self, loop: Loop, protocol: Any, host: str, *, secure: bool) -> None:
        super().__init__()
        self._loop, self._protocol, self._host, self._secure = loop, protocol, host, secure
        self._sent = bytearray()
        self._closed = self._continued = False

    def write(self, data: Any) -> None:
        from fencepost.sim.boto import wire

        self._sent += data
        if not self._continued and wire.expects(self._sent):
            self._continued = True
            self._loop.call_soon(self._arrive, b"HTTP/1.1 100 Continue\r\n\r\n")
        now = caller()
        if now is not None and wire.whole(self._sent):
            sent, self._sent = bytes(self._sent), bytearray()
            wire.check(wire.parse(sent, self._host, secure=self._secure))  # where the user's code is near
            thread = now.start(now.number(REQUEST), lambda: self._exchange(sent))
            if now.run.located is not None:
                now.run.start_thread_at(thread, self._loop.lines())

    def _exchange(self, sent: bytes) -> None:
        """In a thread of its own, which no task can cancel."""
        from fencepost.sim.boto import wire

        try:
            found: bytes | None = wire.exchange(sent, self._host, secure=self._secure)
        except TimeoutError:
            found = None
        now = caller()
        if now is not None and not now.process.crashing and not self._loop.is_closed():
            now.process.finish_silently()
            self._loop.call_soon_threadsafe(self._arrive, found)

    def _arrive(self, found: bytes | None) -> None:
        if self._closed:
            return
        if found:
            self._protocol.data_received(found)
        elif found is None and hasattr(self._protocol, "_on_read_timeout"):  # aiohttp's
            self._protocol._on_read_timeout()
        else:
            self._lost(None if found is not None else TimeoutError("timed out"))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def _lost(self, error: BaseException | None) -> None:
        self._closed = True
        self._protocol.connection_lost(error)

    def is_closing(self) -> bool:
        return self._closed

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 0) if name in ("peername", "sockname") else default

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Replies come as a whole."""

    def resume_reading(self) -> None:
        """As above."""

    def is_reading(self) -> bool:
        return True


def _by_client() -> bool:
    """Return True if a client of the network calls, or code of asyncio that it calls."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.partition(".")[0] not in _WITHIN:
            return is_sdk(name)
        frame = frame.f_back
    return False


_WITHIN = frozenset("asyncio contextlib fencepost async_timeout".split())


def _new_loop(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def replacement(self: Any) -> Any:
        return real(self) if caller() is None else Loop()

    return replacement


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield the replacements with their places: class and name."""
    policy = events.BaseDefaultEventLoopPolicy
    yield policy, "new_event_loop", _new_loop(policy.new_event_loop)


def outside(switch: Callable[[Any], Any], op: Any) -> Any:
    """Wait for an operation; meanwhile other threads have loops of their own, in the same real thread."""
    loop, hooks = asyncio._get_running_loop(), sys.get_asyncgen_hooks()
    asyncio._set_running_loop(None)
    sys.set_asyncgen_hooks(None, None)
    try:
        return switch(op)
    finally:
        asyncio._set_running_loop(loop)
        sys.set_asyncgen_hooks(*hooks)
