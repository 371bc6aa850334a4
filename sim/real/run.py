"""One round for real: processes that are threads, a store that answers as it likes, and checks that look on.

Theory. A check looks at several keys, and between two looks others write: what it then says may be true of
no moment at all. A check that finds a violation (or finds that the expected situation has occurred) therefore
runs again with the gate closed: no request of ours is under way then, and no process notes or ends. Only a
finding that repeats counts; one that does not is counted as unconfirmed. A violation that lasts for an
instant
is missed more often than found. That is the price of never inventing one; the adversary finds those.

The printed run is in the order in which replies came back, which is not the order in which the store decided.

There are no crashes, lost replies or skewed clocks here but those that happen by themselves.
"""

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from fencepost.impl.environment import Environment, SeededEnvironment
from fencepost.impl.store.errors import StoreError, Unsupported, Unusable
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Request
from fencepost.sim.explore.counterexample import operation_text, outcome_text
from fencepost.sim.real.gate import Gate
from fencepost.sim.real.store import Blind, Ended, Glass, Interruptible, JudgedStore
from fencepost.sim.world.monitor import EVENTUALLY, FINALLY, Property, View, Violation

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


class RealRun:
    """Everything a round consists of; what programs use of it is in `world`."""

    start_ns = 0

    def __init__(self, store: Store, *, seed: int = 0, number: int = 0) -> None:
        self._raw = store
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
        self.footprints = SimpleNamespace(bit=lambda *_: 0, listing=lambda *_: 0)
        self.bucket = Glass(store)
        self.noted: dict[str, list[tuple[str, Any]]] = {}
        self.processes: list[Member] = []
        self.properties: list[Property] = []
        self.closing: list[Callable[[], None]] = []
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
        """How many requests were under way at once, at most."""
        return self._gate.inside_max

    def run(self, seconds: float) -> None:
        """Let all processes go at once, and judge until they have ended; at most for `seconds`."""
        self._started = True
        start = threading.Barrier(max(1, len(self.processes)))
        threads = [
            threading.Thread(target=self._live, args=(member, start), name=member.name, daemon=True)
            for member in self.processes
        ]
        deadline_ns = self.env.monotonic_ns() + round(seconds * 1e9)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(max(0.0, (deadline_ns - self.env.monotonic_ns()) / 1e9))
        finally:
            self._ended.set()
            for thread in threads:
                thread.join(GRACE_S)
        if self.violation is not None or self.unusable is not None:
            return
        late = [member.name for member in self.processes if member.state == "running"]
        if late:
            self._find(
                f"{', '.join(late)} had not ended after {seconds:g} s: that round was not judged at its end"
            )
        else:
            self._judge_the_end()

    def _live(self, member: Member, start: threading.Barrier) -> None:
        self._here.member = member
        error: BaseException | None = None
        result: Any = None
        try:
            start.wait()
            result = member.fn(*member.args, **member.kwargs)
        except Ended:
            return
        except BaseException as raised:  # noqa: BLE001 - whatever ended it is judged
            error = raised
        with self._gate.passing():
            member.result, member.error = result, error
            member.state = "done" if error is None else "failed"
        if isinstance(error, Unusable | Unsupported):
            self.unusable = error
            self._ended.set()
        elif error is not None and not isinstance(error, member.may_raise):
            self.tell("raise", "raise", f"{type(error).__name__}: {error}")
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
            if promise.kind == EVENTUALLY and not promise.met:
                broken = "it had not happened when every process had ended"
            if broken is not None:
                self._violated(promise.name, broken)

    # Judging.

    def look(self) -> None:
        """Let the checks look, unless somebody's are looking already."""
        if self._ended.is_set():
            raise Ended
        if getattr(self._here, "looking", False) or not self._one_looks.acquire(blocking=False):
            return
        self._here.looking = True
        try:
            for promise in self.properties:
                if promise.kind != FINALLY and not promise.met:
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
        promise.met = False
        with self._gate.closed():
            broken = promise.judge(self._view)
        if broken is not None:
            self._violated(promise.name, broken)
        elif not promise.met:
            self.unconfirmed += 1

    @property
    def looking(self) -> bool:
        """Whether it is a check that asks."""
        return bool(getattr(self._here, "looking", False))

    def _violated(self, name: str, reason: str) -> None:
        with self._log_lock:
            self.violation = self.violation or Violation(name, reason)
        self._ended.set()

    def _find(self, finding: str) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    # What happened.

    def send(self, send: Callable[[], Sequence[Any]], requests: Sequence[Request[Any]]) -> Sequence[Any]:
        """Send for a process: with the others, recorded, and judged afterwards."""
        if self.looking or not self._started:
            return send()
        if self._ended.is_set():
            raise Ended
        with self._gate.passing():
            replies = send()
        for request, reply in zip(requests, replies, strict=True):
            self.outcomes[f"{request.kind} {reply.outcome.value}"] += 1
            self.tell(request.kind, operation_text(request), outcome_text(request, reply, 0))
        self.look()
        return replies

    def tell(self, kind: str, operation: str, outcome: str) -> None:
        with self._log_lock:
            self.steps[f"{self.me} {kind}"] += 1
            number = sum(self.steps.values())
            self.lines.append(f"{number:>3}   {self.me:<12} {operation:<40} {outcome}".rstrip())
