"""asyncio in audited code: an event loop of the world.

Theory. The loop's own queue is first in, first out, so nothing is chosen there. What varies is when the work
of other threads (`asyncio.to_thread`, executors) is done, and whether that comes before a timer. So one round
of the loop is one step: before it, other threads may go on, and time may pass. A loop with nothing to do
waits until a thread hands it something, or until its next timer.

The loop has no sockets: an asynchronous client of the network is refused like any other.
"""

import asyncio
import inspect
import sys
from asyncio import base_events, events
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.sim.threads.waiting import caller
from fencepost.sim.world.escapes import escape
from fencepost.sim.world.operations import Crash
from fencepost.sim.world.process import refuse

_NO_SOCKETS = "the world's loop has no sockets: call a blocking client by asyncio.to_thread"


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
            now.gave("round", self._loop.name)
        else:
            now.wait("wait", self._loop.name, lambda: bool(ready), timeout=timeout)
        return []

    def close(self) -> None:
        """There is nothing to close."""


_DESTROYED = "Task was destroyed but it is pending!"


def _drop(coroutine: Any) -> None:
    """It crashes before it has begun, which is no reason for a warning."""
    if asyncio.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        coroutine.close()


def _real(name: str) -> Any:
    found = getattr(base_events.BaseEventLoop, name)
    return getattr(found, "real", found)


class Loop(base_events.BaseEventLoop):
    """An event loop in a thread of a world."""

    def __init__(self) -> None:
        super().__init__()
        now = caller()
        assert now is not None, "loops are made by the code of processes"
        self._world = now.world
        self._process = now.process
        self._world.has_loops = True
        self.name = now.number("EventLoop")
        now.state(self, list)
        self._selector = _Selector(self)

    _forever = _real("run_forever")

    def run_forever(self) -> None:
        try:
            self._forever()
        except Crash:
            for task in asyncio.all_tasks(self):
                _drop(task.get_coro())
            raise

    def run_until_complete(self, future: Any) -> Any:
        if self._process.crashing:
            _drop(future)
            refuse(self._process)
        return super().run_until_complete(future)

    def time(self) -> float:
        return float(self._world.clock_ns) / 1e9

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
        if self._default_executor is not None:
            self._default_executor.shutdown(wait=True)

    async def create_connection(self, *_: Any, **__: Any) -> Any:
        raise escape("asyncio's create_connection", _NO_SOCKETS, sys._getframe(1))

    async def create_server(self, *_: Any, **__: Any) -> Any:
        raise escape("asyncio's create_server", _NO_SOCKETS, sys._getframe(1))

    async def subprocess_exec(self, *_: Any, **__: Any) -> Any:
        raise escape("asyncio's subprocess_exec", "call the code itself", sys._getframe(1))

    subprocess_shell = subprocess_exec

    def add_signal_handler(self, *_: Any) -> None:
        """No signal reaches a process of a world."""

    def remove_signal_handler(self, _sig: Any) -> bool:
        return False


def _new_loop(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def stand_in(self: Any) -> Any:
        return real(self) if caller() is None else Loop()

    return stand_in


def stand_ins() -> Iterator[tuple[Any, str, Any]]:
    """The stand-ins with their places: class and name."""
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
