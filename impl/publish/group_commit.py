"""Group commit: drafts that wait at the same moment become one plan, one commit.

While one plan is being published, drafts queue up. When it has ended, the first in the queue takes them all,
its own included, publishes them as one plan and gives each its result. There is no background thread and no
timer: a single draft is published at once.

    group = GroupCommit(catalog)
    group.publish(draft)             # from any thread
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from fencepost.impl.publish.catalog import Catalog
from fencepost.impl.publish.commit import Published, Unknown
from fencepost.impl.publish.planner import Draft

BATCH_MAX = 1000
"""Drafts in one plan: our own limit, so that one sidecar stays reasonably small."""


class Signal(Protocol):
    """Set once, waited for once."""

    def set(self) -> None: ...

    def wait(self) -> object: ...


@dataclass(eq=False)
class _Ticket:
    draft: Draft
    woken: Signal
    result: Published | Unknown | BaseException | None = None


class GroupCommit:
    """Publishes for many threads through one catalog handle, which has no other user meanwhile."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        lock: Callable[[], AbstractContextManager[object]] = threading.Lock,
        signal: Callable[[], Signal] = threading.Event,
    ) -> None:
        """Share `catalog` among threads. A harness can replace the two primitives by which they wait for each
        other. The lock is held only over a few lines that send no request."""
        self._catalog = catalog
        self._signal = signal
        self._lock = lock()
        self._queue: list[_Ticket] = []
        self._led = False

    def publish(self, draft: Draft) -> Published | Unknown:
        """Publish `draft`, alone or with others. Raises errors of this draft, not of others."""
        ticket = _Ticket(draft, self._signal())
        with self._lock:
            self._queue.append(ticket)
            leads, self._led = not self._led, True
        if not leads:
            ticket.woken.wait()
        if ticket.result is None:
            self._lead()
        assert ticket.result is not None
        if isinstance(ticket.result, BaseException):
            raise ticket.result
        return ticket.result

    def _lead(self) -> None:
        """Publish all waiting drafts, then wake their threads and the next leader."""
        with self._lock:
            batch, self._queue = self._queue[:BATCH_MAX], self._queue[BATCH_MAX:]
        try:
            results = self._catalog.publish_all([ticket.draft for ticket in batch])
            for ticket, result in zip(batch, results, strict=True):
                ticket.result = result
        except BaseException as error:  # noqa: BLE001 - every thread of the batch raises it
            for ticket in batch:
                ticket.result = error
        finally:
            with self._lock:
                heir = self._queue[0] if self._queue else None
                self._led = heir is not None
            for ticket in batch:
                ticket.woken.set()
            if heir is not None:
                heir.woken.set()
