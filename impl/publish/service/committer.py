"""The commits of a server on one branch: groups of drafts through one handle.

A server is never the authority: it commits as every writer does, by the create of the next manifest. So two
servers, or a server and writers with handles of their own, are as right as many writers, and only slower.
For its clients a server begins again when others were first, and opens the branch again when it was fenced.
It carries a request out once more when its outcome is unknown, which `requests` makes safe.

    ends = committer.attempt(orders)     # blocks; one group, one end for each order
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fencepost.impl.publish.catalog import Catalog, Transaction
from fencepost.impl.publish.commit import Published, Unknown
from fencepost.impl.publish.errors import (
    Damaged,
    Fenced,
    HeadAhead,
    PublishError,
    StaleView,
    StoreUnavailable,
)
from fencepost.impl.publish.planner import ALL_TABLES, Change, Draft
from fencepost.impl.publish.requests import Request
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.layers.metered import Cost, Metered


class Order(NamedTuple):
    """A change that a client wants to be committed."""

    request: Request
    changes: Sequence[Change]
    message: str = ""
    snapshot: int | None = None
    """The manifest that the client has read; None if the change depends on nothing that it has read."""


class Again(NamedTuple):
    """The order was perhaps committed, or not: attempt it again."""

    why: str
    perhaps: bool = False
    """The attempt may have published it, or recovery may finish it later."""


End = Published | PublishError | Again


@dataclass
class Figures:
    """The commits of a server so far. Any thread may add to them."""

    ops: int = 0
    """Requests to the store."""
    stages: int = 0
    """Serial hops: requests that waited for the answer of another."""
    bytes_sent: int = 0
    bytes_received: int = 0
    groups: Counter[int] = field(default_factory=Counter)
    """Commits by the number of orders in them."""
    hops: Counter[int] = field(default_factory=Counter)
    """Commits by their serial hops."""
    repeats: int = 0
    """Attempts in which others were first, or whose outcome was unknown."""
    duplicates: int = 0
    """Orders that were committed before."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, cost: Cost, orders: int, ends: Sequence[End], before: int) -> None:
        """Count one attempt. `before`: the newest manifest when it began."""
        new = sum(isinstance(end, Published) and end.id > before for end in ends)
        old = sum(isinstance(end, Published) and end.id <= before for end in ends)
        with self._lock:
            self.ops += cost.requests
            self.stages += cost.serial_hops
            self.bytes_sent += cost.bytes_sent
            self.bytes_received += cost.bytes_received
            self.duplicates += old
            self.repeats += any(isinstance(end, Again) for end in ends)
            if new:
                self.groups[new] += 1
                self.hops[cost.serial_hops] += 1

    def to_json(self) -> dict[str, Any]:
        with self._lock:
            return {
                "storage": {
                    "ops": self.ops,
                    "stages": self.stages,
                    "bytes_sent": self.bytes_sent,
                    "bytes_received": self.bytes_received,
                },
                "commits": self.groups.total(),
                "orders": sum(size * count for size, count in self.groups.items()),
                "duplicates": self.duplicates,
                "repeats": self.repeats,
                "groups": {str(size): self.groups[size] for size in sorted(self.groups)},
                "hops": {str(hops): self.hops[hops] for hops in sorted(self.hops)},
            }


class Committer:
    """For one thread at a time. `open_branch` opens another handle that joins the branch's writers."""

    def __init__(self, open_branch: Callable[[], Catalog], meter: Metered, figures: Figures) -> None:
        self._open_branch = open_branch
        self._meter = meter
        self._figures = figures
        self._catalog = open_branch()

    def attempt(self, orders: Sequence[Order]) -> list[End]:
        """Try once to commit the orders as one group, or as several where a plan is in the way of some."""
        with self._meter.operation("commit") as cost:
            before = self._catalog.manifest.id
            ends = self._attempt(orders)
        self._figures.add(cost, len(orders), ends, before)
        return ends

    def pause(self, attempts: int) -> None:
        """Pause after so many attempts in which nothing was committed."""
        self._catalog.context.back_off(min(attempts, 4) - 1)

    def close(self) -> None:
        self._catalog.close()

    def _attempt(self, orders: Sequence[Order]) -> list[End]:
        try:
            return self._commit(orders)
        except Fenced as error:
            self._catalog = self._open_branch()
            return [Again(str(error))] * len(orders)
        except StaleView as error:
            parts = _independent(orders) if self._catalog.is_obstructed else []
            if len(parts) > 1:
                return self._apart(orders, parts)
            return [Again(str(error))] * len(orders)
        except (StoreUnavailable, StoreError) as error:
            return [Again(str(error), perhaps=True)] * len(orders)
        except (Damaged, HeadAhead) as error:
            if len(orders) > 1:
                return self._apart(orders, [[at] for at in range(len(orders))])
            return [error]
        except PublishError as error:  # the branch was deleted
            return [error] * len(orders)

    def _commit(self, orders: Sequence[Order]) -> list[End]:
        ends: list[End | None] = [None] * len(orders)
        drafts: dict[int, Draft] = {}
        for at, order in enumerate(orders):
            try:
                drafts[at] = self._draft(order)
            except PublishError as error:
                ends[at] = error
        for at, end in zip(drafts, self._catalog.publish_all([*drafts.values()]), strict=True):
            ends[at] = Again(end.why, perhaps=True) if isinstance(end, Unknown) else end
        return [end for end in ends if end is not None]

    def _draft(self, order: Order) -> Draft:
        if order.snapshot is None:
            return Draft([*order.changes], order.message, request=order.request)
        transaction = Transaction(self._catalog.snapshot(order.snapshot), order.message)
        transaction.changes += order.changes
        transaction.request = order.request
        return transaction

    def _apart(self, orders: Sequence[Order], parts: Iterable[Sequence[int]]) -> list[End]:
        """Attempt parts of a group one after another, so that no part keeps the others waiting."""
        ends: dict[int, End] = {}
        for part in parts:
            ends |= zip(part, self._attempt([orders[at] for at in part]), strict=True)
        return [ends[at] for at in range(len(orders))]


def _independent(orders: Sequence[Order]) -> list[list[int]]:
    """The places of the orders, in parts that name no table in common."""
    parts: list[tuple[set[str], list[int]]] = []
    for at, order in enumerate(orders):
        tables, places = {change.table for change in order.changes} - {ALL_TABLES}, [at]
        apart = []
        for others in parts:
            if tables & others[0]:
                tables |= others[0]
                places = others[1] + places
            else:
                apart.append(others)
        parts = [*apart, (tables, sorted(places))]
    return [places for _, places in parts]
