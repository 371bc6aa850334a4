"""A cursor: the position up to which everything that was found is done, kept in one object.

A reader takes things up in the order of their positions (any text that sorts, such as keys) and finishes
them in any order. The cursor's position is the last one before the first that is unfinished, so it never
passes work that is not done. It is written down every so many things or seconds, by compare-and-swap and
only forward: of two readers of one cursor the further one wins, since what either passed is done.

    cursor = Cursor(context, "cursors/v1/reconcile.json", back=lambda position: ...)
    for key in listing(after=cursor.start()):      # `back` puts the start before the position: an overlap,
        cursor.take(key)                           # for what came late, was skewed, or got lost
        work(key)
        cursor.done(key)
    cursor.save()

What a crash loses is the time since the last writing down: those things are found again, and done again.
"""

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from fencepost.impl.context import Context
from fencepost.impl.store import ABSENT, Matches
from fencepost.impl.store.requests import Get, Outcome

FORMAT = 1
SWAPS_MAX = 10
"""Our own limit on swaps that another reader wins."""


class CursorError(Exception):
    """The object at the cursor's key is no cursor; whoever put it there must take it away."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the position is written down."""

    items: int = 500
    seconds: float = 10.0


@dataclass(slots=True)
class _Taken:
    position: str
    done: bool = False


class Cursor:
    """See the top of this module. For one thread of control."""

    def __init__(
        self,
        context: Context,
        key: str,
        *,
        pace: Pace = Pace(),
        back: Callable[[str], str] = lambda position: position,
    ) -> None:
        self.context = context
        self.key = key
        self.pace = pace
        self.position = ""
        """Everything found up to here is done, written down or not."""
        self.saved = ""
        """What is written down."""
        self._back = back
        self._etag = ""
        self._revision = 0
        self._taken: deque[_Taken] = deque()
        self._open: dict[str, _Taken] = {}
        self._since_save = 0
        self._saved_at_ns = context.env.monotonic_ns()

    def start(self) -> str:
        """Read the position; answer behind which text to begin. What was taken and not done is forgotten."""
        self._taken.clear()
        self._open.clear()
        self._read()
        self.position = self.saved  # also when an operator set it back, to have things done again
        return self._back(self.position) if self.position else ""

    def take(self, position: str) -> None:
        """This was found, and is not done. In rising order."""
        last = self._taken[-1].position if self._taken else ""
        if position <= last:
            raise ValueError(f"{position!r} was taken up after {last!r}; positions are taken in rising order")
        taken = self._open[position] = _Taken(position)
        self._taken.append(taken)

    def done(self, position: str) -> None:
        """This is done; the position is written down when it is time to."""
        self._open.pop(position).done = True
        while self._taken and self._taken[0].done:
            self.position = max(self.position, self._taken.popleft().position)
        self._since_save += 1
        if self._due():
            self.save()

    @property
    def unfinished(self) -> int:
        return len(self._open)

    def save(self) -> str:
        """Write the position down, unless somebody wrote down a further one; answers what stands."""
        for attempt in range(SWAPS_MAX):
            if self.position <= self.saved:
                break
            when = Matches(self._etag) if self._etag else ABSENT
            reply = self.context.store.put(self.key, self._body(), when=when, content_type="application/json")
            if reply.outcome is Outcome.DONE:
                self.saved, self._etag, self._revision = self.position, reply.etag, self._revision + 1
                break
            if attempt:
                self.context.back_off(attempt - 1)
            self._read()  # lost, refused or unknown: what stands now tells
        else:
            raise self.context.retry.unavailable(
                f"could not move cursor {self.key} to {self.position!r} in {SWAPS_MAX} attempts; try again"
            )
        self.position = max(self.position, self.saved)
        self._since_save = 0
        self._saved_at_ns = self.context.env.monotonic_ns()
        return self.saved

    def _due(self) -> bool:
        if self._since_save >= self.pace.items:
            return True
        return (self.context.env.monotonic_ns() - self._saved_at_ns) / 1e9 >= self.pace.seconds

    def _body(self) -> bytes:
        # The revision makes every body another one: an ETag is a fingerprint of the content, no version.
        said = {"format": FORMAT, "position": self.position, "revision": self._revision + 1}
        return json.dumps(said, sort_keys=True).encode()

    def _read(self) -> None:
        reply = self.context.read(Get(self.key))
        if reply.info is None:
            self._etag = self.saved = ""
            return
        try:
            said = json.loads(reply.body)
            position, revision = said["position"], said["revision"]
            if said["format"] != FORMAT or not isinstance(position, str) or not isinstance(revision, int):
                raise ValueError("another format")
        except (ValueError, KeyError, TypeError) as error:
            raise CursorError(
                f"{self.key} is no cursor ({error}); look what wrote it, then delete it"
            ) from None
        self._etag, self._revision = reply.info.etag, revision
        self.saved = position
