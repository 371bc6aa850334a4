"""One process of a world: a greenlet that runs ordinary blocking code, and what it is waiting for.

Where what it does is remembered (see `recall`), the greenlet is brought up only when something new happens:
`node` is where the process stands in the tree, `behind` the edges that the code has not seen yet.

Greenlets are kept and used again: making one costs more than twenty switches. A worker runs one entry
point after another and hands `Finish` to the scheduler after each.

A crash is an exception raised where the process waits. Code may catch it (a bare `except:`, a `finally`
that cleans up over the network), but it gets nothing done any more: every request is answered by the
same exception. Code that returns as if nothing had happened, or goes on and on, is reported.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from greenlet import getcurrent, greenlet

from fencepost.sim.world.costs import Span
from fencepost.sim.world.operations import Crash, Finish, Parallel
from fencepost.sim.world.recall import CRASH, START, Node, Recall, check_same, key_of

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
        "behind",
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
        "marked",
        "may_raise",
        "name",
        "node",
        "ops",
        "pending",
        "recall",
        "refusals",
        "restart",
        "result",
        "retried",
        "skew",
        "skew_ns",
        "spans",
        "spins",
        "state",
        "streams",
        "trace",
        "waits",
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
        trace: Sequence[Any] = (),
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
        self.recall: Recall | None = None
        self.node: Node | None = None
        """Where it stands in the tree of what is remembered; None when nothing is, or not any more."""
        self.behind: list[tuple[Any, Node, int]] = []
        """What it was told since its code was last run: the edge, where it led, the incarnation."""
        self.waits: Any = None
        """What the code itself waits for, when it was brought up."""
        self.trace = trace
        """The steps of the run so far."""
        self.spans: list[Span] = []
        """The operations that it named."""
        self.marked: list[tuple[str, bool]] = []
        """Where they begin and end, of what the code did since it was told something, to be remembered."""
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
        self.state = "running"
        return self._start() if self.node is None else self._follow(START, START)

    def resume(self, answer: Any) -> Any:
        """Tell it the answer, and return what it asks for next."""
        if self.node is None:
            return self.worker.switch(answer)
        key = key_of(answer)
        if key is None:
            # Nothing can be remembered of what comes after it.
            self._catch_up()
            self.node = None
            return self.worker.switch(answer)
        return self._follow(key, answer)

    def crash(self) -> bool:
        """Raise the crash where it waits. False when the code did not let itself be unwound."""
        if self.node is None:
            return self.kill()
        self._follow(CRASH, CRASH)
        return self.node.clean

    def kill(self) -> bool:
        """The same at the end of a run, whatever is known; code that was not brought up needs none."""
        if self.worker is None:
            return True
        return self._unwind(self.pending if self.node is None else self.waits)

    def mark(self, name: str, *, begins: bool) -> None:
        """The code enters or leaves an operation, between two steps."""
        if self.node is None:
            self._mark(name, begins)
        else:
            self.marked.append((name, begins))

    def _mark(self, name: str, begins: bool) -> None:
        if begins:
            self.spans.append(Span(name, self.incarnation, len(self.trace)))
            return
        for span in reversed(self.spans):
            if span.end < 0 and (span.name, span.incarnation) == (name, self.incarnation):
                span.end = len(self.trace)
                return

    # Remembering.

    def remember(self, recall: Recall, root: Node) -> None:
        """From now on follow and extend what is known of it."""
        self.recall, self.node = recall, root

    def _follow(self, edge: Any, answer: Any) -> Any:
        """Along an edge of the tree, which is made when it is new."""
        node = self.node
        assert node is not None
        after = node.after.get(edge)
        if after is not None:
            self.behind.append((answer, after, self.incarnation))
        else:
            self._catch_up()
            after = Node(None)
            after.op, after.clean = self._tell(answer)
            after.marks = tuple(self.marked)
            self.marked.clear()
            assert self.recall is not None
            self.recall.grow(node, edge, after)
            _forget_frames(after.op)
        self.node = after
        for name, begins in after.marks:
            self._mark(name, begins)
        return after.op

    def _catch_up(self) -> None:
        """Bring the code to where the process stands."""
        if not self.behind:
            return
        now = self.incarnation
        behind, self.behind = self.behind, []
        for answer, node, self.incarnation in behind:
            op, _ = self._tell(answer)
            if node.op is not None:
                check_same(self.name, node.op, op)
        self.incarnation = now
        self.marked.clear()  # that was known

    def _tell(self, answer: Any) -> tuple[Any, bool]:
        """What the code asks for, told this where it waits; and whether it let itself be crashed."""
        clean = True
        if answer is START:
            self.streams = {}
            self.waits = self._start()
        elif answer is CRASH:
            clean = self._unwind(self.waits)
            self.waits = None
            self.crashing, self.refusals, self.clean = False, 0, True
        else:
            self.waits = self.worker.switch(answer)
        return self.waits, clean

    # The code itself.

    def _start(self) -> Any:
        idle = _idle()
        worker = idle.pop() if idle else greenlet(_work)
        self.worker = worker
        hub = getcurrent()
        if worker.parent is not hub:
            worker.parent = hub
        return worker.switch(self)

    def _unwind(self, pending: Any) -> bool:
        worker = self.worker
        if worker is None:
            return True
        self.worker = None
        if type(pending) is Finish:
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


def _forget_frames(op: Any) -> None:
    """An exception that is kept must not keep the frames it came through, and all that they hold."""
    error: BaseException | None = op.error if type(op) is Finish else None
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


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
