"""Threads of one process in every order: for code whose threads share memory and locks.

    for order in every_order(switches=1):
        threads = Threads(order)
        threads.start(node.append, "/a", b"one")
        threads.run()

A thread is a greenlet. It stops before each request that it sends through `Interleaved` and before it takes a
lock that `Threads.lock` made; `order` then chooses which one goes on. Nothing else switches, so what is found
is a failure, and what is not found may still fail between two other lines.

`every_order` enumerates the choices depth first: a thread goes on unless one of `switches` is spent, and each
choice of `Order.choose` (a fault, for example) is enumerated too. Orders of a thread that waits or has ended
cost nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from greenlet import getcurrent, greenlet

from fencepost.impl.store.interface import Layer, Store, settle
from fencepost.impl.store.requests import Delete, Outcome, Put, R, Request


class Deadlock(AssertionError):
    """Every thread that has not ended waits for a lock."""


class Order:
    """One sequence of choices: those of `path`, then the first option each."""

    def __init__(self, path: Sequence[int] = (), *, switches: int = 0, lost: int = 0) -> None:
        self.switches = switches
        """Number of switches away from a thread that could go on."""
        self.lost = lost
        """Number of replies to writes that get lost."""
        self.made: list[tuple[int, int]] = []
        """The choices so far: which, of how many."""
        self._path = path

    def choose(self, options: int) -> int:
        chosen = self._path[len(self.made)] if len(self.made) < len(self._path) else 0
        self.made.append((chosen, options))
        return chosen

    def following(self) -> list[int] | None:
        """The path of the next order, depth first; None after the last."""
        made = list(self.made)
        while made:
            chosen, options = made.pop()
            if chosen + 1 < options:
                return [*(one for one, _ in made), chosen + 1]
        return None


def every_order(*, switches: int, lost: int = 0) -> Iterator[Order]:
    path: list[int] | None = []
    while path is not None:
        order = Order(path, switches=switches, lost=lost)
        yield order
        path = order.following()


class Threads:
    def __init__(self, order: Order) -> None:
        self.order = order
        self._threads: list[Any] = []
        self._waiting: dict[Any, Lock] = {}
        self._scheduler = getcurrent()

    def start(self, act: Callable[..., Any], *args: Any) -> None:
        self._threads.append(greenlet(lambda: act(*args), parent=self._scheduler))

    def run(self) -> None:
        """Until all have ended. An exception of a thread is raised here."""
        current: Any = None
        while left := [one for one in self._threads if not one.dead]:
            ready = [one for one in left if one not in self._waiting or not self._waiting[one].held]
            if not ready:
                raise Deadlock(f"{len(left)} threads wait for each other")
            if current in ready and not self.order.switches:
                options = [current]
            else:
                options = sorted(ready, key=lambda one: (one is not current, self._threads.index(one)))
            chosen = options[self.order.choose(len(options))] if len(options) > 1 else options[0]
            if current in ready and chosen is not current:
                self.order.switches -= 1
            current = chosen
            self._waiting.pop(current, None)
            current.switch()

    @property
    def inside(self) -> bool:
        """True if one of the threads runs."""
        return getcurrent() in self._threads

    def pause(self) -> None:
        """Let the order choose which thread goes on."""
        if self.inside:
            self._scheduler.switch()

    def wait(self, lock: "Lock") -> None:
        self._waiting[getcurrent()] = lock
        self._scheduler.switch()

    def lock(self) -> "Lock":
        return Lock(self)


class Lock:
    """In place of `threading.Lock`, used by `with` only."""

    def __init__(self, threads: Threads) -> None:
        self.held = False
        self._threads = threads

    def __enter__(self) -> None:
        self._threads.pause()
        while self.held:
            self._threads.wait(self)
        self.held = True

    def __exit__(self, *_: object) -> None:
        self.held = False


class Interleaved(Layer):
    """A store whose requests are the places where threads switch, and whose replies get lost."""

    def __init__(self, inner: Store, threads: Threads) -> None:
        super().__init__(inner)
        self._threads = threads

    def send(self, request: Request[R]) -> R:
        self._threads.pause()
        reply = self.inner.send(request)
        order, writes = self._threads.order, isinstance(request, Put | Delete)
        if writes and self._threads.inside and order.lost and order.choose(2):
            order.lost -= 1
            return request.ends(Outcome.UNKNOWN)
        return reply

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        return settle(self.send, requests)
