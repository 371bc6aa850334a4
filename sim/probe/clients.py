"""Clients that send at the same moment: threads of this process, or processes of their own.

    clients = ThreadClients(store, 8)
    sent = clients.together([Put(key, body_of(f"w{n}"), ABSENT) for n in range(clients.size)])

Every member gets one request; all wait at a barrier and are released together. Where the store speaks
HTTP the request is already on the wire by then, all but its last byte (see `last_byte`): what is raced is
the store's own check and write, not our work of building and signing a request.

Threads share one client, and on a store inside this process they take turns at Python's own lock.
Processes share nothing but the store, as rivals do in production.
"""

import contextlib
import multiprocessing
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Outcome, Reply, Request
from fencepost.sim.probe.last_byte import LastByteSync
from fencepost.sim.probe.verdict import Inconclusive

GATE_SECONDS_MAX = 30.0
"""Limit on the wait for a client that never arrives."""
REPLY_SECONDS_MAX = 180.0
"""Limit beyond any client's own time-outs and retries."""

Opener = Callable[[], Store]


@dataclass(frozen=True, slots=True)
class Sent:
    """One client's request, its reply or error, and its times."""

    worker: str
    request: Any
    reply: Any
    """Its reply, or the `StoreError` it raised."""
    started_ns: int
    ended_ns: int

    @property
    def outcome(self) -> Outcome:
        """The outcome; `unknown` where an error was raised (callers raise errors before they judge)."""
        return self.reply.outcome if isinstance(self.reply, Reply) else Outcome.UNKNOWN


class Clients(ABC):
    """Clients that always send all at once."""

    names: Sequence[str]

    @property
    def size(self) -> int:
        return len(self.names)

    @abstractmethod
    def together(self, requests: Sequence[Request[Any]]) -> list[Sent]:
        """Send each request by a client of its own, all released together."""

    @abstractmethod
    def close(self) -> None:
        """End the clients; no request is in flight afterwards."""


class ThreadClients(Clients):
    """Threads of this process on one store."""

    def __init__(self, store: Store, size: int) -> None:
        self.names = [f"w{number}" for number in range(1, size + 1)]
        self._store = store
        self._held = LastByteSync.over(store)
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="probe")

    def together(self, requests: Sequence[Request[Any]]) -> list[Sent]:
        assert 0 < len(requests) <= self.size, "one request a member"
        gate = threading.Barrier(len(requests))
        futures = [
            self._pool.submit(_act, self._held, name, request, gate)
            for name, request in zip(self.names, requests, strict=False)
        ]
        with _finished(futures, gate):
            return [future.result() for future in futures]

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._held.close()


@contextlib.contextmanager
def _finished(futures: Sequence["Future[Sent]"], gate: threading.Barrier) -> Iterator[None]:
    """Whatever interrupts us, no member is still at work afterwards: its write could outlive the sweep."""
    try:
        yield
    except BaseException:
        gate.abort()
        wait(futures)
        raise


class ProcessClients(Clients):
    """Processes of their own, each with a store of its own. Started once, then sent their requests."""

    def __init__(self, opener: Opener, size: int) -> None:
        self.names = [f"p{number}" for number in range(1, size + 1)]
        # Spawned, not forked: a fork would copy locks and connections in whatever state they are.
        context = multiprocessing.get_context("spawn")
        self._gate = context.Barrier(size)
        self._members: list[tuple[Any, Any]] = []
        try:
            with _ignoring_interrupts():
                for name in self.names:
                    here, there = context.Pipe()
                    member = context.Process(
                        target=_serve, args=(opener, name, there, self._gate), daemon=True
                    )
                    member.start()
                    there.close()
                    self._members.append((member, here))
            for _, line in self._members:
                self._hear(line)
        except BaseException:
            self.close()
            raise

    def together(self, requests: Sequence[Request[Any]]) -> list[Sent]:
        assert 0 < len(requests) <= self.size, "one request a member"
        # The gate opens for all members at once, so who has nothing to send has to come to it as well.
        idle = [None] * (self.size - len(requests))
        try:
            for (_, line), request in zip(self._members, [*requests, *idle], strict=True):
                line.send(request)
            return [message for _, line in self._members if (message := self._hear(line)) is not None]
        except BaseException:
            self.close()
            raise

    def _hear(self, line: Any) -> Any:
        try:
            if line.poll(REPLY_SECONDS_MAX):
                message = line.recv()
                if isinstance(message, Exception):
                    raise message
                return message
        except (EOFError, ConnectionError):
            raise Inconclusive("a racing process ended early; see its error above") from None
        raise Inconclusive(f"a racing process did not answer within {REPLY_SECONDS_MAX:.0f} s")

    def close(self) -> None:
        members, self._members = self._members, []
        self._gate.abort()
        for _, line in members:
            line.close()
        for member, _ in members:
            member.join(REPLY_SECONDS_MAX)
            if member.is_alive():
                member.kill()
                member.join()


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Processes that are started here ignore Ctrl-C: they end when their pipe closes, without a
    traceback in the middle of an import. A request to end waits until all are started."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked_to_end: list[int] = []
    deaf = signal.signal(signal.SIGINT, signal.SIG_IGN)
    late = signal.signal(signal.SIGTERM, lambda number, _: asked_to_end.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, deaf)
        signal.signal(signal.SIGTERM, late)
        if asked_to_end:
            signal.raise_signal(signal.SIGTERM)


def _serve(opener: Opener, name: str, line: Any, gate: Any) -> None:
    """The life of a member process."""
    try:
        store = opener()
        held = LastByteSync.over(store)
    except Exception as error:  # noqa: BLE001 - sent to the parent, which raises it
        line.send(error)
        return
    line.send("ready")
    with contextlib.suppress(EOFError, ConnectionError), store:
        while True:
            request = line.recv()
            if request is not None:
                line.send(_act(held, name, request, gate))
                continue
            with contextlib.suppress(threading.BrokenBarrierError):
                gate.wait(GATE_SECONDS_MAX)
            line.send(None)


def _act(held: LastByteSync, name: str, request: Request[Any], gate: Any) -> Sent:
    """Send `request` when everybody is ready."""
    clock = SystemEnvironment()
    started_ns = clock.monotonic_ns()

    def arrive() -> None:
        nonlocal started_ns
        with contextlib.suppress(threading.BrokenBarrierError):
            gate.wait(GATE_SECONDS_MAX)
        # A request that failed before the release had no effect: its last byte was not sent.
        started_ns = clock.monotonic_ns()

    try:
        reply: Reply | StoreError = held.send(request, arrive)
    except StoreError as error:
        reply = error
    return Sent(name, request, reply, started_ns, clock.monotonic_ns())
