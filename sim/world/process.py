"""One process of a world: a greenlet that runs ordinary blocking code, and what it is waiting for.

Greenlets are kept and used again: making one costs more than twenty switches. A worker runs one entry
point after another and hands `Finish` to the scheduler after each.

A crash is an exception raised where the process waits. Code may catch it (a bare `except:`, a `finally`
that cleans up over the network), but it gets nothing done any more: every request is answered by the
same exception. Code that returns as if nothing had happened, or goes on and on, is reported.
"""

import threading
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet

from holdfast.sim.world.operations import Crash, Finish, Parallel

REFUSALS_MAX = 50
"""How often a dying process may ask for something before it is given up."""

_pool = threading.local()
"""Idle greenlets. One belongs to the thread that made it."""
_abandoned: list[Any] = []
"""Greenlets that would not die. Kept, because collecting one raises in it once more."""


class Process:
    """Entry point, state, and the step it waits for."""

    __slots__ = (
        "args",
        "asked",
        "base",
        "clean",
        "crashing",
        "effective",
        "error",
        "fn",
        "group",
        "incarnation",
        "index",
        "kwargs",
        "last",
        "may_raise",
        "name",
        "ops",
        "pending",
        "refusals",
        "restart",
        "result",
        "retried",
        "skew",
        "skew_ns",
        "spins",
        "state",
        "streams",
        "worker",
    )

    def __init__(
        self,
        index: int,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        restart: bool,
        may_raise: tuple[type[BaseException], ...],
    ) -> None:
        self.index = index
        self.name = name
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.restart = restart
        self.may_raise = may_raise
        self.incarnation = 0
        self.ops = 0
        """Operations issued so far, over all incarnations."""
        self.state = "new"
        self.result: Any = None
        self.error: BaseException | None = None
        self.skew_ns = 0
        self.skew = False
        """Whether the fate of its clock is settled."""
        self.retried = False
        self.pending: Any = None
        self.group: Group | None = None
        self.last: int = 0
        """The steps, as a bit set of their places in the run, that came before the pending one."""
        self.begin()

    def begin(self) -> None:
        """Forget everything: before the first start and after a crash."""
        self.streams: dict[str, Any] = {}
        self.worker: Any = None
        self.crashing = False
        self.refusals = 0
        self.group = None
        self.effective = not self.restart
        self.asked: Any = None
        """The last request that changed nothing, its reply, and what it read."""
        self.spins = 0
        """How often in a row it was asked in vain, with nothing of what it reads changing."""
        self.clean: bool = True

    def start(self) -> Any:
        """Run to the first operation, and return it."""
        idle = _idle()
        worker = idle.pop() if idle else greenlet(_work)
        self.worker = worker
        self.state = "running"
        hub = getcurrent()
        if worker.parent is not hub:
            worker.parent = hub
        return worker.switch(self)

    def resume(self, answer: Any) -> Any:
        return self.worker.switch(answer)

    def kill(self) -> bool:
        """Raise the crash where it waits. False when the code did not let itself be unwound."""
        worker = self.worker
        if worker is None:
            return True
        self.worker = None
        if type(self.pending) is Finish:
            _idle().append(worker)
            return True
        self.crashing = True
        ended = worker.throw(Crash())
        if type(ended) is Finish:
            _idle().append(worker)
            return bool(self.clean and ended.error is not None)
        _abandoned.append(worker)
        return False

    def release(self) -> None:
        """Give the greenlet of a process that ended back to the pool."""
        if self.worker is not None:
            _idle().append(self.worker)
            self.worker = None


def _idle() -> list[Any]:
    try:
        found: list[Any] = _pool.idle
    except AttributeError:
        found = _pool.idle = []
    return found


class Group:
    """The requests of one parallel step: those not landed yet, and the replies so far."""

    __slots__ = ("first", "open", "replies", "steps")

    def __init__(self, parallel: Parallel, first: int) -> None:
        self.first = first
        """The number of the first of its operations."""
        self.replies: list[Any] = [None] * len(parallel.requests)
        self.open = len(self.replies)
        self.steps = 0
        """The steps in which its requests landed, as a bit set."""


class Flight:
    """A request with a life of its own: one of a parallel step, or one whose sender gave up."""

    __slots__ = ("actor", "born", "incarnation", "number", "process", "request", "retried", "slot", "zombie")

    def __init__(
        self, actor: int, process: Process, request: Any, number: int, slot: int, born: int, zombie: bool
    ) -> None:
        self.actor = actor
        self.process = process
        self.incarnation = process.incarnation
        self.request = request
        self.number = number
        self.slot = slot
        self.born = born
        """The steps that came before it, as a bit set."""
        self.zombie = zombie
        self.retried = False


def _work(process: Process) -> None:
    """The life of a worker greenlet: one entry point after another."""
    while True:
        error: BaseException | None = None
        result: Any = None
        try:
            result = process.fn(*process.args, **process.kwargs)
        except BaseException as raised:  # noqa: BLE001 - whatever ended it is handed to the scheduler
            error = raised
        finish = Finish(result, error)
        del result, error
        process = getcurrent().parent.switch(finish)
