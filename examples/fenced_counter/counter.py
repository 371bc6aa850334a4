"""The product: a counter in one object, raised only by the writer that holds the latest epoch."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from fencepost.store import ABSENT, Condition, Matches, ObjectInfo, Outcome, Store

KEY = "counter"
History = list[tuple[str, int]]
"""The actions in order: `claim` or `add`, and the epoch of the writer."""


def compare_and_swap(read: ObjectInfo | None) -> Condition:
    """The condition of a write."""
    return ABSENT if read is None else Matches(read.etag)


def epoch_check(mine: int, latest: int) -> bool:
    """Return True if the writer may add."""
    return mine == latest


@dataclass(frozen=True)
class Safeguards:
    compare_and_swap: Callable[[ObjectInfo | None], Condition] = compare_and_swap
    epoch_check: Callable[[int, int], bool] = epoch_check


STANDARD = Safeguards()


class Fenced(Exception):
    """Another writer has claimed a later epoch."""


class Unknown(Exception):
    """The store did not answer: the write may have been applied."""


def parse(body: bytes) -> History:
    return [(what, epoch) for what, epoch in json.loads(body)] if body else []


def trace_fields(key: str, body: bytes) -> str:
    if key != KEY or not body:
        return ""
    what, epoch = parse(body)[-1]
    return f"what={what} epoch={epoch}"


class Counter:
    """One writer."""

    def __init__(self, store: Store, safeguards: Safeguards = STANDARD) -> None:
        self._store = store
        self._safeguards = safeguards
        self.epoch = 0

    def claim(self) -> None:
        while True:
            history, read = self._read()
            self.epoch = 1 + max((epoch for what, epoch in history if what == "claim"), default=0)
            if self._write(history, "claim", read):
                return

    def add(self) -> None:
        while True:
            history, read = self._read()
            latest = max(epoch for what, epoch in history if what == "claim")
            if not self._safeguards.epoch_check(self.epoch, latest):
                raise Fenced
            if self._write(history, "add", read):
                return

    def _read(self) -> tuple[History, ObjectInfo | None]:
        reply = self._store.get(KEY)
        if reply.outcome not in (Outcome.DONE, Outcome.MISSING):
            raise Unknown
        return parse(reply.body), reply.info

    def _write(self, history: History, what: str, read: ObjectInfo | None) -> bool:
        """Return True if it was written; not when somebody else has written since."""
        body = json.dumps([*history, (what, self.epoch)]).encode()
        reply = self._store.put(KEY, body, when=self._safeguards.compare_and_swap(read))
        if reply.outcome is Outcome.UNKNOWN:
            raise Unknown
        return reply.done
