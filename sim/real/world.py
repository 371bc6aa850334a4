"""The world of programs that run against a real store: threads are the processes, and checks run beside them.

It has the interface of `World` as far as a real run can offer it. A world is one round.

Theory. A check reads several keys while others write, so its result may be true at no moment. A check that
finds a violation (or finds that the expected situation has occurred) therefore runs again with the gate
closed: then no request of the program is in flight, and no process notes or ends. Only a finding that repeats
counts; others are counted as unconfirmed. The price of inventing no violation: short ones are mostly missed.
The exhaustive audit finds those.

The printed run is in the order of the replies, which is not the order of their effects in the store.

The round injects no crash, lost reply or clock skew; they happen only by themselves.
"""

import contextlib
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from fencepost.impl.environment import Environment, SeededEnvironment, SystemEnvironment
from fencepost.impl.store.errors import StoreError, Unsupported, Unusable
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.requests import NOT_NOW, Outcome, R, Request
from fencepost.sim.explore.steps import operation_text, outcome_text
from fencepost.sim.world.declaring import Declaring
from fencepost.sim.world.properties import Property
from fencepost.sim.world.record import StepRecord
from fencepost.sim.world.run import Violation
from fencepost.sim.world.view import View


class Gate:
    """Shared lock for requests, exclusive lock for the second run of a check."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False
        self.inside_max = 0
        """Largest number of requests in flight at once."""

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        with self._changed:
            while self._closed:
                self._changed.wait()
            self._inside += 1
            self.inside_max = max(self.inside_max, self._inside)
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Wait until all have left, and let no other in. Only one thread at a time may call this."""
        with self._changed:
            self._closed = True
            while self._inside:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()


T = TypeVar("T")

LOOKS_MAX = 5
"""Attempts of a check's request that gets no answer."""


class Ended(BaseException):
    """The round is over. Raised in every process; not an Exception, which a program might catch."""


class Blind(BaseException):
    """The store did not answer a check, so that it has no result."""


class JudgedStore(Layer):
    """The store of the program's processes: the run counts, prints and judges each request."""

    def __init__(self, inner: Store, run: "RealWorld") -> None:
        super().__init__(inner)
        self._run = run
        self.env = run.env

    def send(self, request: Request[R]) -> R:
        sent: R = self._run.send(lambda: [self.inner.send(request)], [request])[0]
        return sent

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        return self._run.send(lambda: self.inner.send_all(requests), requests)


class Interruptible(SystemEnvironment):
    """The real clock; the end of the round interrupts every sleep."""

    def __init__(self, ended: threading.Event) -> None:
        super().__init__()
        self._ended = ended

    def sleep(self, seconds: float) -> None:
        if self._ended.wait(seconds):
            raise Ended


class Glass:
    """The bucket that checks read: directly from the store, neither counted nor printed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def body(self, key: str) -> bytes | None:
        reply = self._answered(lambda: self._store.get(key))
        return bytes(reply.body) if reply.done else None

    def modified_ns(self, key: str) -> int:
        reply = self._answered(lambda: self._store.head(key))
        return int(reply.info.modified_ns) if reply.done else 0

    def bodies(self, prefix: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        token = ""
        while True:
            page = self._answered(partial(self._store.list, prefix, token=token))
            for info in page.objects:
                body = self.body(info.key)
                if body is not None:
                    found[info.key] = body
            token = page.next
            if not token:
                return found

    def _answered(self, send: Callable[[], Any]) -> Any:
        for _ in range(LOOKS_MAX):
            try:
                reply = send()
            except StoreError as error:
                raise Blind from error
            if reply.outcome not in NOT_NOW and reply.outcome is not Outcome.UNKNOWN:
                return reply
        raise Blind


LINES_MAX = 60
"""Printed lines of a round, counted from its end."""
GRACE_S = 10.0
"""For a request that is under way when the round is over."""


class Member:
    """One process: a thread."""

    def __init__(
        self, name: str, fn: Callable[..., Any], args: Any, kwargs: Any, may_raise: tuple[Any, ...]
    ) -> None:
        self.name = name
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.may_raise = may_raise
        self.state = "running"
        self.result: Any = None
        self.error: BaseException | None = None

    def end(self, result: Any, error: BaseException | None) -> None:
        """Keep the result or the error of the function."""
        self.result, self.error = result, error
        self.state = "done" if error is None else "failed"


class NotForReal(Exception):
    """The program needs a feature that only the simulated world has."""


class NoFootprints:
    """Masks of a real run, in which no order is explored."""

    def bit(self, family: str, name: str) -> int:
        del family, name
        return 0

    def listing(self, family: str, prefix: str) -> int:
        del family, prefix
        return 0


ROUND = 1
"""The one actor of a round."""


class RealWorld(Declaring):
    """One round: the operating system schedules its threads, in one step for searches."""

    start_ns = 0
    repeats = False
    files = None

    def __init__(self, store: Store, *, seed: int = 0, number: int = 0, seconds: float = 60.0) -> None:
        """`seconds`: time limit of the round."""
        self._raw = store
        self._seconds = seconds
        self._gate = Gate()
        self._ended = threading.Event()
        self._here = threading.local()
        self._one_looks = threading.Lock()
        self._log_lock = threading.Lock()
        self._chance = SeededEnvironment(seed)
        self._number = number
        self._messages: dict[str, deque[Any]] = defaultdict(deque)
        self._started = False
        self.env: Environment = Interruptible(self._ended)
        self._store = JudgedStore(store, self)
        self._view = View(self)
        self.footprints = NoFootprints()
        self.bucket = Glass(store)
        self.noted: dict[str, list[tuple[str, Any]]] = {}
        self._members: list[Member] = []
        self._properties: list[Property] = []
        self._closing: list[Callable[[], None]] = []
        self.violation: Violation | None = None
        self.unusable: StoreError | None = None
        self.findings: list[str] = []
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self.outcomes: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.looks = 0
        self.unconfirmed = 0

    @property
    def me(self) -> str:
        member = getattr(self._here, "member", None)
        return "setup" if member is None else member.name

    @property
    def clock_ns(self) -> int:
        return self.env.now_ns()

    @property
    def requests(self) -> int:
        return sum(self.outcomes.values())

    @property
    def at_once(self) -> int:
        """Largest number of requests in flight at once."""
        return self._gate.inside_max

    @property
    def processes(self) -> list[Member]:
        return self._members

    @property
    def properties(self) -> list[Property]:
        return self._properties

    def _declare(self, promise: Property) -> None:
        self._properties.append(promise)

    # As searches see it.

    def start(self, program: Callable[..., Any]) -> None:
        """Set the round up."""
        program(self)

    def enabled(self) -> list[int]:
        """Return the one actor until the round has been run."""
        return [] if self._started else [ROUND]

    def alternatives(self, actor: int) -> tuple[str, ...]:
        """Return the one way in which the round can go: no fault is injected."""
        del actor
        return ("ok",)

    def step(self, actor: int, alternative: str) -> StepRecord:
        """Run the whole round."""
        del actor, alternative
        self._run_all()
        return StepRecord(1, 0)

    def complete(self) -> None:
        """Judge what must hold at the end of the round."""
        if self.unusable is not None:
            return
        late = [member.name for member in self.processes if member.state == "running"]
        if late:
            self._find(
                f"{', '.join(late)} had not ended after {self._seconds:g} s: that round was not judged at "
                "its end"
            )
        else:
            self._judge_the_end()

    def close(self) -> None:
        """Clean up after the round."""
        for close in self._closing:
            close()
        self._closing.clear()

    def at_end(self, call: Callable[[], None]) -> None:
        """Call this when the round is over."""
        self._closing.append(call)

    def _run_all(self) -> None:
        """Start all processes at once and judge until they have ended, or the time is over."""
        self._started = True
        start = threading.Barrier(max(1, len(self.processes)))
        threads = [
            threading.Thread(target=self._live, args=(member, start), name=member.name, daemon=True)
            for member in self.processes
        ]
        deadline_ns = self.env.monotonic_ns() + round(self._seconds * 1e9)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(max(0.0, (deadline_ns - self.env.monotonic_ns()) / 1e9))
        finally:
            self._ended.set()
            for thread in threads:
                thread.join(GRACE_S)

    def _live(self, member: Member, start: threading.Barrier) -> None:
        self._here.member = member
        error: BaseException | None = None
        result: Any = None
        try:
            start.wait()
            result = member.fn(*member.args, **member.kwargs)
        except Ended:
            return
        except BaseException as raised:  # noqa: BLE001 - every way of ending is judged
            error = raised
        with self._gate.passing():
            member.end(result, error)
        if isinstance(error, Unusable | Unsupported):
            self.unusable = error
            self._ended.set()
        elif error is not None and not isinstance(error, member.may_raise):
            self.record("raise", "raise", f"{type(error).__name__}: {error}")
            self._violated(f"{member.name} ends well", f"it raised {type(error).__name__}: {error}")
        else:
            try:
                self.look()
            except Ended:
                return

    def _judge_the_end(self) -> None:
        for promise in self.properties:
            try:
                broken = promise.judge(self._view)
            except Blind:
                self._find("the store did not answer a check at the end of a round")
                continue
            if promise.is_missed:
                broken = "it had not happened when every process had ended"
            if broken is not None:
                self._violated(promise.name, broken)

    # Judging.

    def look(self) -> None:
        """Run the checks, unless another thread is running them."""
        if self._ended.is_set():
            raise Ended
        if getattr(self._here, "looking", False) or not self._one_looks.acquire(blocking=False):
            return
        self._here.looking = True
        try:
            for promise in self.properties:
                if promise.at_steps and not promise.met:
                    self._look(promise)
        except Blind:
            return
        finally:
            self._here.looking = False
            self._one_looks.release()

    def _look(self, promise: Property) -> None:
        self.looks += 1
        if promise.judge(self._view) is None and not promise.met:
            return
        promise.forget()
        with self._gate.closed():
            broken = promise.judge(self._view)
        if broken is not None:
            self._violated(promise.name, broken)
        elif not promise.met:
            self.unconfirmed += 1

    @property
    def looking(self) -> bool:
        """True if the calling thread is running a check."""
        return bool(getattr(self._here, "looking", False))

    def _violated(self, name: str, reason: str) -> None:
        with self._log_lock:
            self.violation = self.violation or Violation(name, reason)
        self._ended.set()

    def _find(self, finding: str) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    # Events.

    def send(self, send: Callable[[], Sequence[Any]], requests: Sequence[Request[Any]]) -> Sequence[Any]:
        """Send for a process, print the replies, and run the checks."""
        if self.looking or not self._started:
            return send()
        if self._ended.is_set():
            raise Ended
        with self._gate.passing():
            replies = send()
        for request, reply in zip(requests, replies, strict=True):
            self.outcomes[f"{request.kind} {reply.outcome.value}"] += 1
            self.record(request.kind, operation_text(request), outcome_text(request, reply, 0))
        self.look()
        return replies

    def record(self, kind: str, operation: str, outcome: str) -> None:
        with self._log_lock:
            self.steps[f"{self.me} {kind}"] += 1
            number = sum(self.steps.values())
            self.lines.append(f"{number:>3}   {self.me:<12} {operation:<40} {outcome}".rstrip())

    # For programs.

    @property
    def setting_up(self) -> bool:
        return not self._started

    def store(self) -> Store:
        return self._store

    def spawn(
        self,
        fn: Callable[..., Any],
        *args: Any,
        name: str = "",
        restart: bool = True,
        may_raise: tuple[type[BaseException], ...] = (),
        daemon: bool = False,
        **kwargs: Any,
    ) -> str:
        if daemon:
            raise NotForReal("a daemon never ends, and a round of a real run waits for every thread")
        del restart  # no process crashes
        name = self._name_for(fn, name)
        self.processes.append(Member(name, fn, args, kwargs, may_raise))
        return name

    def share_nothing(self) -> None:
        """No effect in a real run."""

    def configure(self, *, versioned: bool = False, **_: Any) -> None:
        if versioned != self._raw.versioned():
            has = "keeps no versions" if versioned else "keeps versions"
            raise NotForReal(
                f"the program needs a bucket {'with' if versioned else 'without'} versions, and the "
                f"store {has}; give --store another"
            )

    def follow(self, name: str, follower: Any) -> None:
        del follower
        self._find(f"{name}: not checked, because the order of effects in a real store is unknown")

    def step_property(self, name: str, check: Any) -> None:
        self.follow(name, check)

    def monitor(self, name: str, *_: Any, **__: Any) -> None:
        self.follow(name, None)

    @contextlib.contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """No effect in a real run: costs are counted in the simulated world."""
        del name
        yield

    def at_most(self, name: str, **_: Any) -> None:
        self._find(f"cost of {name}: not checked, because the faults of a real store are unknown")

    def note(self, topic: str, value: Any = None) -> None:
        with self._gate.passing():
            self.noted.setdefault(topic, []).append((self.me, value))
        self.record("note", f"note {topic}: {value!r:.40}", "")
        self.look()

    def post(self, channel: str, message: Any) -> None:
        self._messages[channel].append(message)

    def receive(self, channel: str) -> Any:
        waiting = self._messages[channel]
        return waiting.popleft() if waiting else None

    def pick(self, name: str, options: Sequence[T]) -> T:
        return self._chance.stream(f"{self._number} {self.me} {name}").choice(options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("boto3"):
            raise NotForReal(
                "the program is written on boto3, whose buckets cannot be given a prefix of their own; "
                "--store runs programs on Fencepost's own interface"
            )
        raise NotForReal(
            f"the program uses world.{name}, which only the simulated world has; leave out --store"
        )
