"""A mixed workload of many threads on few keys, recorded, and judged for linearizability.

Each race tests one order; this tests orders that no race was written for. Each
thread acts on what it saw last, so that conditions sometimes hold: that is what ties operations together
and lets the checker prove something.
"""

import random  # noqa: TID251 - for its type; what is drawn comes from the environment
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import StoreError, Unsupported
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome, Reply, Request
from fencepost.properties.linearizability import Judgement, Operation, check_history, operation
from fencepost.sim.probe.bench import Bench
from fencepost.sim.probe.conditions import deletes_missing
from fencepost.sim.probe.history import body_of
from fencepost.sim.probe.verdict import Broken, Inconclusive

OPERATIONS_A_KEY = 60
"""Few enough that every judgement is quick, enough that rivals meet all the time."""
OPERATIONS_MIN = 100
"""Operations that are done whatever the time: fewer prove nothing worth saying."""

CHOICES = {"get": 30, "head": 5, "create": 20, "swap": 25, "put": 5, "delete": 8, "delete-if": 7}


class Recording:
    """Calls of all threads, for the checker, and requests that the store does not offer."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.steps: list[tuple[str, Request[Any], Reply, int, int]] = []
        self.not_offered: set[str] = set()
        self.changed_means_missing = False
        """The store says `changed` of what is not there, as honest relatives of S3 do."""
        self.stop = threading.Event()


def linearizable(bench: Bench) -> str:
    names = bench.threads.names
    each = max(1, bench.plan.operations // len(names))
    keys = [bench.key("mixed") for _ in range(max(1, bench.plan.operations // OPERATIONS_A_KEY))]
    recording = Recording()
    _learn_manners(bench, recording)
    _run(bench, names, each, keys, recording)
    if len(recording.operations) < min(OPERATIONS_MIN, bench.plan.operations):
        raise Inconclusive(f"only {len(recording.operations)} operations fitted into the time")
    verdict = check_history(recording.operations)
    if verdict.judgement is Judgement.VIOLATED:
        _show(bench, recording, verdict.counterexample)
        raise Broken(
            f"no order of these operations explains their answers: {_last_line(verdict.explanation)}"
        )
    if verdict.judgement is Judgement.UNDECIDED:
        raise Inconclusive(verdict.explanation)
    for name in sorted(recording.not_offered):
        bench.note(f"without {name}")
    return f"{verdict.operations} operations of {len(names)} threads on {len(keys)} keys fit one order"


def _learn_manners(bench: Bench, recording: Recording) -> None:
    """Harmless habits that the checker, which knows S3's answers, would take for lies."""
    key = bench.key("manners")
    try:
        reply = bench.store.put(key, body_of("x"), when=Matches(bench.put(bench.key("model"), "x")))
        recording.changed_means_missing = reply.outcome is Outcome.CHANGED
        if deletes_missing(bench):
            recording.not_offered.add("delete-if")
    except Unsupported:
        # Every thread finds out by itself that a request is not offered.
        return
    finally:
        bench.notes.clear()


def _run(bench: Bench, names: Sequence[str], each: int, keys: list[str], recording: Recording) -> None:
    """All threads, to the end, whatever interrupts us."""
    dice = SeededEnvironment(bench.plan.seed)
    with ThreadPoolExecutor(len(names), thread_name_prefix="mixed") as pool:
        futures = [
            pool.submit(Actor(bench, name, keys, dice.stream(name), recording).act, each) for name in names
        ]
        try:
            for future in futures:
                future.result()
        finally:
            recording.stop.set()


class Actor:
    """One thread: draws what to do, remembers the ETags it saw."""

    def __init__(
        self, bench: Bench, name: str, keys: list[str], dice: random.Random, recording: Recording
    ) -> None:
        self._bench = bench
        self._name = name
        self._keys = keys
        self._dice = dice
        self._recording = recording
        self._seen: dict[str, str] = {}

    def act(self, times: int) -> None:
        for number in range(times):
            is_late = number * self._bench.threads.size >= OPERATIONS_MIN and self._bench.out_of_time()
            if self._recording.stop.is_set() or is_late:
                return
            # All threads walk over the keys together, a window of a few at a time: there they meet.
            at = number * len(self._keys) // times
            key = self._keys[min(at + self._dice.randrange(2), len(self._keys) - 1)]
            choice = self._dice.choices(list(CHOICES), list(CHOICES.values()))[0]
            self._send(choice, self._request(choice, key, number))

    def _request(self, choice: str, key: str, number: int) -> Request[Any]:
        body = body_of(f"{self._name}.{number}")
        etag = self._seen.get(key)
        if choice in ("swap", "delete-if") and etag is None:
            choice = "get"
        match choice:
            case "create":
                return ask.Put(key, body, ABSENT)
            case "swap":
                return ask.Put(key, body, Matches(etag or ""))
            case "put":
                return ask.Put(key, body, ANYTHING)
            case "delete":
                return ask.Delete(key, ANYTHING)
            case "delete-if":
                return ask.Delete(key, Matches(etag or ""))
            case "head":
                return ask.Head(key)
            case _:
                return ask.Get(key)

    def _send(self, choice: str, request: Request[Any]) -> None:
        bench, recording = self._bench, self._recording
        if choice in recording.not_offered:
            return
        bench.scratch.before(request)
        called = bench.history.now_ns()
        try:
            reply = bench.raw.send(request)
        except Unsupported:
            recording.not_offered.add(choice)
            return
        except StoreError:
            recording.stop.set()
            raise
        returned = bench.history.now_ns()
        bench.scratch.after(request, reply)
        self._remember(request, reply)
        recording.steps.append((self._name, request, reply, called, returned))
        if recording.changed_means_missing and reply.outcome is Outcome.CHANGED:
            return
        found = operation(self._name, request, reply, called=called, returned=returned)
        if found is not None:
            recording.operations.append(found)

    def _remember(self, request: Request[Any], reply: Any) -> None:
        etag = getattr(reply, "etag", "") or getattr(getattr(reply, "info", None), "etag", "")
        if etag:
            self._seen[request.subject] = etag


def _show(bench: Bench, recording: Recording, counterexample: Sequence[Operation]) -> None:
    """The history of the finding is the checker's counterexample, nothing around it."""
    wanted = {(each.process, each.called) for each in counterexample}
    bench.history.begin()
    for name, request, reply, called, returned in recording.steps:
        if (name, called) in wanted:
            bench.history.add(name, request, reply, called, returned)


def _last_line(explanation: str) -> str:
    return [line for line in explanation.strip().splitlines() if line.strip()][-1].strip()
