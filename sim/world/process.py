"""One process of a world: a greenlet that runs ordinary blocking code, its pending operation, and the recall
of both.

Greenlets are kept and used again: making one costs more than twenty switches. A worker runs one entry point
after another and hands `Finish` to the executor after each.

A crash is an exception raised where the process waits. Code may catch it (a bare `except:`, a `finally` that
cleans up over the network), but it achieves nothing any more: every request is answered with the same
exception. Code that returns normally, or never ends, is reported.

Recall. Exploration repeats the beginnings of runs again and again, and in most of them a process gets the
answers that it got before. Deterministic code with the same answers issues the same next operation. So the
operations of a process are kept in a tree: from a node one edge leads on for every answer the process ever
got there. A run follows the edges, and the code itself rests. When an answer has no edge yet, the code
*catches up*: it runs from its beginning with the answers of the path, without a step of the world, and then
gets the new one. `node` is the place of the process in the tree, `behind` the edges that the code has not
seen yet.

Starting and crashing are edges too, because what outlives a crash (a variable around the function) is a
function of them. A crash that is new is done to the real code, so that code that swallows crashes is still
found.

Only for programs that promised to share nothing (`World.share_nothing`): a process that reads a variable
which another one changes does not act the same with the same answers. Catching up compares the operations
with those of before and raises `Diverged` where they differ; it cannot notice everything, so the program must
keep the promise.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from greenlet import getcurrent, greenlet

from fencepost.impl.store.errors import StoreError
from fencepost.sim.world.located import CodeLine
from fencepost.sim.world.loops import Round
from fencepost.sim.world.operations import Crash, Delivery, Finish, Parallel, Wake, same

OPERATIONS = 10_000
"""Operations an incarnation may issue before its numbers run into the next one's."""
REFUSALS_MAX = 50
"""Number of requests that a dying process may issue before it is abandoned."""

_pool = threading.local()
"""Idle greenlets. One belongs to the thread that made it."""
_abandoned: list[Any] = []
"""Greenlets that would not die. Kept, because collecting one raises in it once more."""
NODES_MAX = 200_000
"""Nodes kept: bounds the memory, about 3 kB each with the bodies of requests."""

START = object()
CRASH = object()

Step = tuple[int, str, "Process | None", int, int, Any, Any, int]
"""A step of a run: actor, alternative, process, incarnation, number of the operation, operation, answer, and
the clock in nanoseconds since the start.
"""


class Stuck(BaseException):
    """Raised in a process that computes without end; no code may handle it."""

    def __init__(self, text: str, at: tuple[Any, ...] = (), *, too_long: bool = True) -> None:
        super().__init__(text)
        self.at = at
        """The lines of the user's code, innermost last."""
        self.too_long = too_long
        """True if that is the reason, and not the end of the audit."""


class Diverged(Exception):
    """The program did something else although every choice was the same: it is not deterministic."""


class Span:
    """A stretch of one life of a process that the program gave a name; places are steps of the run."""

    __slots__ = ("begin", "end", "incarnation", "name")

    def __init__(self, name: str, incarnation: int, begin: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.begin = begin
        self.end = -1
        """-1 until it ends, and forever when a crash cut it short."""

    def end_at(self, place: int) -> None:
        self.end = place


class Node:
    """Where a process waits: its operation, and the next nodes by answer."""

    __slots__ = ("after", "clean", "marks", "op")

    def __init__(self, op: Any, clean: bool = True) -> None:
        self.op = op
        """None before a start, and after a crash."""
        self.clean = clean
        """Of a crash: whether the code let itself be unwound."""
        self.marks: tuple[tuple[str, bool], ...] = ()
        """Where named operations began and ended on the way here, see `costs`."""
        self.after: dict[Any, Node] = {}


class Recall:
    """The trees of one exploration."""

    def __init__(self) -> None:
        self._roots: dict[Any, Node] = {}
        self._count = 0

    def root(self, setup: tuple[Any, ...], process: str) -> Node:
        """Return the first node of a process, by what the program picked when it set the world up."""
        if self._count > NODES_MAX:
            self._roots.clear()
            self._count = 0
        return self._roots.setdefault((setup, process), Node(None))

    def grow(self, node: Node, edge: Any, after: Node) -> Node:
        self._count += 1
        node.after[edge] = after
        return after


def key_of(answer: Any) -> Any:
    """Return the edge of an answer; None if the answer cannot be compared with others."""
    if type(answer) is list:
        answer = tuple(answer)
        if any(isinstance(one, StoreError) for one in answer):
            return None
    if isinstance(answer, StoreError):
        return None
    try:
        hash(answer)
    except TypeError:
        return None
    return (answer,)


def check_same(process: str, before: Any, now: Any) -> None:
    """Raise unless the process issues the operation that it issued before, with the same answers."""
    if same(before, now):
        return
    raise Diverged(
        f"process {process!r} issued {before.kind} {before.subject} in one run and {now.kind} {now.subject}"
        " in another, with the same answers. It shares a variable with another process, or something outside "
        "the world decides: a clock, randomness, an identifier, the order of a set; a program whose "
        "processes share variables must not call share_nothing"
    )


class Process:
    """Entry point, state, and the pending operation."""

    __slots__ = (
        "after_crash",
        "after_power_loss",
        "args",
        "at",
        "base",
        "begun_at",
        "behind",
        "blocked",
        "caller",
        "clean",
        "crashing",
        "daemon",
        "effective",
        "ended",
        "ending",
        "error",
        "fn",
        "group",
        "history",
        "incarnation",
        "index",
        "kwargs",
        "last",
        "leave",
        "life",
        "machine",
        "marked",
        "may_raise",
        "memory",
        "name",
        "nap_reads",
        "naps",
        "node",
        "ops",
        "pending",
        "recall",
        "refusals",
        "restart",
        "result",
        "retried",
        "rounds",
        "skew",
        "skew_ns",
        "spans",
        "spins",
        "state",
        "streams",
        "sync",
        "taken",
        "thread",
        "threads",
        "trace",
        "version",
        "waits",
        "worker",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        restart: bool,
        may_raise: tuple[type[BaseException], ...],
        trace: Sequence[Step] = (),
        *,
        after_power_loss: bool = False,
        after_crash: bool = False,
        daemon: bool = False,
    ) -> None:
        self.index = index
        self.name = name
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.restart = restart
        self.may_raise = may_raise
        self.machine: Process = self
        """The process whose memory it shares: itself, unless it is a thread."""
        self.ended: tuple[Any, ...] = ()
        """Numbers for the memory of its threads at each crash: variables of the program may keep some."""
        self.caller: Any = None
        """Access to the process for the replacements of threads and locks, once they used it."""
        self.memory = 0
        """With threads: the bit of the memory that they share."""
        self.life = 0
        """With threads: the bit that their common end writes, and every step of theirs reads."""
        self.thread: Any = None
        """Object by which the code refers to this thread."""
        self.after_power_loss = after_power_loss
        """True if it runs when power is back, and not before."""
        self.after_crash = after_crash
        """True if it runs when the others have ended and one of them crashed, and not before."""
        self.daemon = daemon
        """True if a run may end before it has."""
        self.taken = 0
        """Steps of a daemon so far, over all incarnations."""
        self.incarnation = 0
        self.ops = 0
        """Operations issued so far, over all incarnations."""
        self.state = "new"
        self.result: Any = None
        self.error: BaseException | None = None
        self.skew_ns = 0
        """Error of its wall clock; of a thread, that of its process counts."""
        self.skew = False
        """True if the skew of its clock is decided."""
        self.retried = False
        self.pending: Any = None
        self.group: Group | None = None
        self.last: int = 0
        """The steps, as a bit set of their places in the run, that came before the pending one."""
        self.recall: Recall | None = None
        self.node: Node | None = None
        """Its place in the tree; None when nothing is remembered, or not any more."""
        self.behind: list[tuple[Any, Node, int]] = []
        """The answers since its code ran last: the edge, the node it led to, the incarnation."""
        self.waits: Any = None
        """The operation the code itself waits for, when it runs."""
        self.trace = trace
        """The steps of the run so far."""
        self.at: Any = ()
        """The lines of the user's code that issued the last operation, when the world keeps them."""
        self.begun_at: Any = ()
        """Of a thread: the lines of the user's code that started it, when the world keeps them."""
        self.spans: list[Span] = []
        """The operations that it named."""
        self.marked: list[tuple[str, bool]] = []
        """Their beginnings and ends since the last answer, to be remembered."""
        self.begin()

    def begin(self) -> None:
        """Forget everything: before the first start and after a crash."""
        self.streams: dict[Any, Any] = {}
        self.threads: list[Process] | None = None
        """The threads that it has started, see `sim.threads`; None as long as it has started none."""
        self.sync: dict[Any, Any] | None = None
        """State of its locks, events and queues, by object."""
        self.leave: Callable[[], None] | None = None
        """Called when the entry point has ended: waits for the threads."""
        self.history = 0
        """With threads: a number for what it learnt, and what it found in memory."""
        self.version = 0
        """With threads: a number for who changed memory so far."""
        self.ending = False
        """Of a thread: whether nothing of the user's code comes after what it does now."""
        self.worker: Any = None
        self.crashing = False
        self.refusals = 0
        self.group = None
        self.effective = not self.restart
        self.rounds = Round()
        """Its steps since the last one with an effect, see `loops`."""
        self.blocked = 0
        """Mask of the objects, one of which must change before it can step; 0 if it can."""
        self.spins = 0
        """Number of rounds that repeated the one before, while nothing that they read changed."""
        self.naps = 0
        """Number of sleeps since its last step with an effect, while nothing changed that it read since."""
        self.nap_reads = 0
        """Mask of the objects that it read since."""
        self.clean: bool = True

    def start(self) -> Any:
        """Run to the first operation, and return it."""
        self.state = "running"
        op = self.pending = self._start() if self.node is None else self._follow(START, START)
        return op

    def resume(self, answer: Any, last: int) -> Any:
        """Run to the next operation with this answer, and return it; `last`: the steps before that."""
        self.last = last
        if self.node is None:
            op = self.worker.switch(answer)
        else:
            key = key_of(answer)
            if key is None:
                # Nothing can be remembered of what comes after it.
                self._catch_up()
                self.node = None
                op = self.worker.switch(answer)
            else:
                op = self._follow(key, answer)
        self.ops += 1
        self.retried = False
        self.pending = op
        return op

    def crash(self) -> bool:
        """Raise the crash where it waits. False when the code did not let itself be unwound."""
        if self.node is None:
            return self.kill()
        self._follow(CRASH, CRASH)
        return self.node.clean

    def kill(self) -> bool:
        """The same at the end of a run; code that does not run needs no crash."""
        if self.worker is None:
            return True
        return self._unwind(self.pending if self.node is None else self.waits)

    def within(self, act: Callable[[], Any]) -> Any:
        """Call `act` with the variables of this process, see `variables`."""
        return act()

    # Changes that a step makes.

    def set_last(self, last: int) -> None:
        """Set the steps that came before the pending operation."""
        self.last = last

    def set_effective(self, effective: bool) -> None:
        """Record if the last step changed something, so that a crash after it makes a difference."""
        self.effective = effective

    def change_something(self, effective: bool) -> None:
        """Record a step that changed something, which ends every waiting loop; see `set_effective`."""
        self.effective = effective
        self.spins = self.naps = self.nap_reads = self.blocked = 0
        self.rounds.clear()

    def change_nothing(self, op: Any, answer: Any, read: int, *, effective: bool) -> None:
        """Record a step that changed nothing: it may be a part of a waiting loop."""
        self.effective = effective
        self.nap_reads |= read
        self.go_round(op, answer, read)

    def go_round(self, op: Any, answer: Any, read: int) -> None:
        """Record a step that may be a part of a waiting loop."""
        self.spins = self.rounds.add(op, answer, read, self)

    def block(self, read: int, last: int) -> None:
        """Wait until something that the operation read has changed."""
        self.blocked = read
        self.last = last

    def end_naps(self) -> None:
        """End a loop of sleeps."""
        self.naps = self.nap_reads = 0

    def end_spins(self) -> None:
        """Let a waiting loop repeat its requests again."""
        self.spins = self.blocked = 0
        self.rounds.restart()

    def end_waiting(self) -> None:
        """Let the process step again: another thread may have changed what it waits for."""
        self.naps = self.nap_reads = 0
        self.end_spins()

    def nap(self) -> None:
        """Count a sleep, or a wait that ended without success."""
        self.naps += 1

    def sleep(self, until_ns: int, since_ns: int, last: int) -> None:
        """Go to sleep: the next operation is to wake."""
        self.last = last
        self.ops += 1
        self.pending = Wake(until_ns, since_ns)

    def decide_skew(self, skew_ns: int) -> None:
        """Fix the error of its wall clock, in nanoseconds."""
        self.skew = True
        self.skew_ns = skew_ns

    def retry(self, last: int) -> None:
        """Send the pending request again: the first reply was lost below the code."""
        self.retried = True
        self.last = last

    def await_delivery(self, delivery: Delivery, last: int) -> None:
        """Wait for the answer to the pending operation, which has taken effect; see `set_last`."""
        self.pending = delivery
        self.retried = False
        self.last = last

    def fork(self, group: "Group") -> None:
        """Wait for all requests of a parallel step."""
        self.group = group

    def join(self) -> None:
        """End a parallel step: its requests count as operations."""
        assert self.group is not None
        self.ops += len(self.group.replies)
        self.group = None

    def count_step(self) -> int:
        """Count a step of a daemon; return the steps so far."""
        self.taken += 1
        return self.taken

    def finish(self, op: Finish, last: int) -> None:
        """End with the result or the error of the entry point."""
        self.last = last
        self.result = op.result
        self.error = op.error
        self.end()

    def end(self) -> None:
        """End: no operation is pending any more."""
        self.release()
        self.pending = None
        self.state = "done" if self.error is None else "failed"

    def end_set_up(self) -> None:
        """End the program that sets the world up."""
        self.release()
        self.pending = None

    def let_go(self) -> None:
        """Drop what leads back to the run that is over: only the garbage collector would free a cycle."""
        self.fn, self.args, self.kwargs, self.trace = _over, (), {}, ()
        if self.caller is not None:
            self.caller.let_go()
        self.caller = self.thread = self.leave = self.sync = None

    def stop(self, state: str) -> None:
        """Stop after a crash: `down`, or `off` until power is back."""
        self.state = state

    def forget(self, last: int) -> None:
        """Lose all memory in a crash."""
        self.begin()
        self.last = last
        self.retried = False
        self.incarnation += 1
        # Numbers are a function of the process's memory, so that states can be compared.
        self.ops = self.incarnation * OPERATIONS
        self.pending = None

    def locate(self, lines: tuple[CodeLine, ...]) -> None:
        """Set the lines of user code that issue the next operation."""
        self.at = lines

    def start_at(self, lines: tuple[CodeLine, ...]) -> None:
        """Set the lines of user code that started this thread."""
        self.begun_at = lines

    # Threads.

    def have_threads(self, memory: int, life: int, history: int) -> None:
        """Begin to have threads: `memory` is the bit of what they share, `life` that of their common end."""
        self.threads = []
        self.memory = memory
        self.life = life
        self.history = history

    def become_thread_of(self, machine: "Process", *, daemon: bool, start: Any, last: int) -> None:
        """Be a thread of `machine` that waits for its first step."""
        self.machine, self.incarnation = machine, machine.incarnation
        self.ops = machine.incarnation * OPERATIONS
        self.daemon = daemon or machine.daemon
        self.state, self.pending = "running", start
        self.last = last

    def wait_to_begin(self, last: int) -> None:
        """Take the step in which a thread begins."""
        self.last = last
        self.ops += 1

    def set_history(self, history: int) -> int:
        """Set the number for everything that this thread learnt."""
        self.history = history
        return history

    def set_version(self, version: int) -> None:
        """Set the number for the state of the shared memory."""
        self.version = version

    def end_threads(self) -> None:
        """Drop all threads, and keep their last state as a part of the memory that survives a crash."""
        assert self.threads is not None
        histories = tuple(one.history for one in (self, *self.threads))
        self.ended = (*self.ended, (self.version, *sorted(histories)))

    def drop_threads(self) -> None:
        self.threads = None

    def stop_thread(self) -> None:
        """End with the process that this thread belongs to."""
        self.pending = self.group = None

    def synced(self) -> dict[Any, Any]:
        """Return the state of its locks, events and queues, by object."""
        if self.sync is None:
            self.sync = {}
        return self.sync

    def wait_at_end(self, leave: Callable[[], None]) -> None:
        """Call `leave` when the entry point has ended, unless another call is set."""
        self.leave = self.leave or leave

    def be_called_by(self, caller: Any) -> None:
        """Keep the caller by which the replacements for threads and locks reach this process."""
        self.caller = caller

    def set_thread(self, thread: Any) -> None:
        """Set the object by which the code refers to this thread."""
        self.thread = thread

    def finish_silently(self) -> None:
        """Record that nothing of the user's code comes after the present operation."""
        self.ending = True

    def rename(self, name: str) -> None:
        self.name = name

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
                span.end_at(len(self.trace))
                return

    # Remembering.

    def remember(self, recall: Recall, root: Node) -> None:
        """Follow and extend the tree from now on."""
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
            after.op, after.clean = self._give(answer)
            if self.threads is not None:
                # Its memory is not a function of its own answers any more.
                self.recall = self.node = None
                self.marked.clear()
                return after.op
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
        """Run the code to the place of the process."""
        if not self.behind:
            return
        now = self.incarnation
        behind, self.behind = self.behind, []
        for answer, node, self.incarnation in behind:
            op, _ = self._give(answer)
            if node.op is not None:
                check_same(self.name, node.op, op)
        self.incarnation = now
        self.marked.clear()  # that was known

    def _give(self, answer: Any) -> tuple[Any, bool]:
        """Return the code's next operation after this answer; and whether it let itself be crashed."""
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

    def count_refusal(self) -> int:
        """Count a request that the dying process sent; return how many it has sent."""
        self.refusals += 1
        self.clean = self.clean and self.refusals <= REFUSALS_MAX
        return self.refusals

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

    def answer(self, slot: int, reply: Any, place: int) -> bool:
        """Keep the reply of one request; return True if it was the last."""
        self.replies[slot] = reply
        self.open -= 1
        self.steps |= place
        return not self.open


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

    def retry(self, place: int) -> None:
        """Send the request again: the first reply was lost below the code."""
        self.retried = True
        self.born |= place


def _over() -> NoReturn:
    raise AssertionError("the run of this process is over")


def _work(process: Process) -> None:
    """The life of a worker greenlet: one entry point after another."""
    while True:
        error: BaseException | None = None
        result: Any = None
        try:
            result = process.fn(*process.args, **process.kwargs)
        except BaseException as raised:  # noqa: BLE001 - the executor gets whatever ended it
            error = raised
        if process.leave is not None:
            try:
                process.leave()
            except BaseException as raised:  # noqa: BLE001 - as above
                error = raised
        finish = Finish(result, error)
        del result, error
        process = getcurrent().parent.switch(finish)


def refuse(process: Process) -> NoReturn:
    """Answer a request of a dying process with the crash again; abandon the process after many."""
    if process.count_refusal() > REFUSALS_MAX:
        getcurrent().parent.switch(None)
    raise Crash
