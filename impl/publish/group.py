"""Group commit: drafts that wait at the same moment become one plan, one commit.

While one plan is on its way, drafts queue up. When it has ended, the first in the queue takes them all, its
own included, publishes them as one plan and hands each its result. There is no thread of its own and no
timer: a lone draft is published at once.

    group = GroupCommit(catalog)
    group.publish(draft)             # from any thread
"""

from dataclasses import dataclass

from fencepost.impl.publish.catalog import Catalog
from fencepost.impl.publish.drafts import Draft
from fencepost.impl.publish.endings import Published, Unknown
from fencepost.impl.publish.waiting import Signal, ThreadWaiting, Waiting

BATCH_MAX = 1000
"""Drafts in one plan: our own limit, so that one sidecar stays of a reasonable size."""


@dataclass(eq=False)
class _Ticket:
    draft: Draft
    woken: Signal
    result: Published | Unknown | BaseException | None = None


class GroupCommit:
    """Publishes for many threads through one catalog handle, which nobody else may use meanwhile."""

    def __init__(self, catalog: Catalog, waiting: Waiting | None = None) -> None:
        self._catalog = catalog
        self._waiting = waiting or ThreadWaiting()
        self._lock = self._waiting.lock()
        self._queue: list[_Ticket] = []
        self._led = False

    def publish(self, draft: Draft) -> Published | Unknown:
        """Publish `draft`, alone or in company. Raises what is wrong with this draft, not with another."""
        ticket = _Ticket(draft, self._waiting.signal())
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
        """Publish everything that waits, then wake those served and the next to lead."""
        with self._lock:
            batch, self._queue = self._queue[:BATCH_MAX], self._queue[BATCH_MAX:]
        try:
            results = self._catalog.publish_all([ticket.draft for ticket in batch])
            for ticket, result in zip(batch, results, strict=True):
                ticket.result = result
        except BaseException as error:  # noqa: BLE001 - everyone in the batch has to hear of it, and raises it
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
