"""A cursor: the position up to which a reader has finished everything, durable, in one object.

A reader takes items in the order of their positions (any text that sorts, such as keys) and finishes them in
any order. The cursor's position is the last one before the first unfinished item, so it never passes
unfinished work. It is saved every so many items or seconds, by compare-and-swap and only forward: of two
readers of one cursor the further one wins, because everything that either passed is done. The machine is
`model/cursor.py`.

A rewind has items done again, for instance for something that was added to what the readers work for. It
begins a new generation of the cursor: no reader that began before saves a position after it. The
purposes that the readers work for may have names in the cursor, `serves`. A name is added in the same write
as its rewind, so that no reader passes items in between.

A reader that holds a lease has an epoch. It writes the epoch into the cursor before it relies on the cursor's
position, which begins a new generation too. A reader of a lower epoch is fenced: its saves are refused.

    cursor = Cursor(context, "cursors/v1/reconcile.json", back=lambda position: ...)
    for key in listing(after=cursor.start()):      # `back` puts the start before the position: an overlap,
        cursor.take(key)                           # for late, skewed or lost items
        work(key)
        cursor.done(key)
    cursor.save()                                  # `cursor.is_rewound`: the next pass begins further back

A crash loses the time since the last save: the items since are found and done again.
"""

import json
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from fencepost.impl.context import Context
from fencepost.impl.lease import Fenced
from fencepost.impl.store import ABSENT, Matches
from fencepost.impl.store.requests import Get, Outcome

FORMAT = 1
SWAPS_MAX = 10
"""Our own limit on swaps that another reader wins."""


class CursorError(Exception):
    """The object at the cursor's key is no cursor; its writer must remove it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The interval between saves of the position."""

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
        epoch: int | None = None,
    ) -> None:
        self.context = context
        self.key = key
        self.pace = pace
        self.epoch = epoch
        """Of the lease under which it is read; None where any number of readers share the work."""
        self.position = ""
        """Everything found up to here is done, saved or not."""
        self.saved = ""
        self.serves: frozenset[str] = frozenset()
        """The names of what the position is true of, as `start` read them."""
        self.is_rewound = False
        """The cursor was moved back since `start`, so this pass saves nothing any more."""
        self._back = back
        self._etag = ""
        self._revision = 0
        self._generation = 0
        self._stored_epoch = 0
        self._taken: deque[_Taken] = deque()
        self._open: dict[str, _Taken] = {}
        self._since_save = 0
        self._saved_at_ns = context.env.monotonic_ns()

    def start(self) -> str:
        """Read the position; returns the text after which to begin. Forgets unfinished items.

        Raises `Fenced` if a reader of a higher epoch was here.
        """
        self._taken.clear()
        self._open.clear()
        self._read()
        if self.epoch is not None and self._etag:
            self._fence(self.epoch)
        self.is_rewound = False
        self.position = self.saved  # also when an operator set it back, to have items done again
        return self._back(self.position) if self.position else ""

    def _fence(self, epoch: int) -> None:
        """Have readers of lower epochs save nothing any more."""
        for attempt in range(SWAPS_MAX):
            if self._stored_epoch > epoch:
                raise self._fenced(epoch)
            if self._stored_epoch == epoch or self._swap(self.saved, self._generation + 1):
                return
            self.context.back_off(attempt)
            self._read()
        raise self._gave_up(self.saved)

    def _fenced(self, epoch: int) -> Fenced:
        return Fenced(f"epoch {self._stored_epoch} has cursor {self.key}, this reader has {epoch}")

    def take(self, position: str) -> None:
        """Record that this item was found and is unfinished. Positions must rise."""
        last = self._taken[-1].position if self._taken else ""
        if position <= last:
            raise ValueError(f"{position!r} was taken after {last!r}; positions must rise")
        taken = self._open[position] = _Taken(position)
        self._taken.append(taken)

    def done(self, position: str) -> None:
        """Record that this item is done; saves the position if that is due."""
        self._open.pop(position).done = True
        while self._taken and self._taken[0].done:
            self.position = max(self.position, self._taken.popleft().position)
        self._since_save += 1
        waited_s = (self.context.env.monotonic_ns() - self._saved_at_ns) / 1e9
        if self._since_save >= self.pace.items or waited_s >= self.pace.seconds:
            self.save()

    @property
    def unfinished(self) -> int:
        return len(self._open)

    def save(self) -> str:
        """Save the position, unless another reader saved a further one; returns the saved position."""
        for attempt in range(SWAPS_MAX):
            if self.is_rewound or self.position <= self.saved:
                break
            if self._swap(self.position, self._generation):
                break
            if attempt:
                self.context.back_off(attempt - 1)
            before = self.saved, self._generation
            self._read()  # lost, refused or unknown: the next read shows which
            self.is_rewound = self.saved < before[0] or self._generation != before[1]
        else:
            raise self._gave_up(self.position)
        if not self.is_rewound:
            self.position = max(self.position, self.saved)
        self._since_save = 0
        self._saved_at_ns = self.context.env.monotonic_ns()
        return self.saved

    def rewind(self, position: str, *, serves: Collection[str] = (), begins: bool = False) -> str:
        """Have everything after a position done again, also by readers under way; returns what is saved then.

        These names are added to what the cursor serves. A cursor that is not there has passed nothing; with
        `begins` it begins at the position. The pass of this object, if there is one, ends too: call `start`.
        """
        return self._begin_anew(position, lambda names: names | {*serves}, begins=begins)

    def forget(self, names: Collection[str]) -> None:
        """Serve these no more. Passes under way end, because they would save the names again."""
        self._begin_anew(None, lambda served: served - {*names})

    def _begin_anew(
        self,
        position: str | None,
        change: Callable[[frozenset[str]], frozenset[str]],
        *,
        begins: bool = False,
    ) -> str:
        for attempt in range(SWAPS_MAX):
            self._read()
            self.is_rewound = True
            if self.epoch is not None and self._stored_epoch > self.epoch:
                raise self._fenced(self.epoch)
            self.serves = change(self.serves)
            target = self.saved if position is None else min(self.saved, position)
            if begins and position is not None and not self._etag:
                target = position
            if self._swap(target, self._generation + 1):
                return self.saved
            self.context.back_off(attempt)  # what landed and was not answered is made once more
        raise self._gave_up(self.saved if position is None else position)

    def _swap(self, position: str, generation: int) -> bool:
        # The revision makes every body different: an ETag is a fingerprint of the content, no version.
        revision = self._revision + 1
        fields = {"format": FORMAT, "position": position, "generation": generation, "revision": revision}
        fields |= {"serves": sorted(self.serves)} if self.serves else {}
        epoch = max(self._stored_epoch, self.epoch or 0)
        fields |= {"epoch": epoch} if epoch else {}
        body = json.dumps(fields, sort_keys=True).encode()
        when = Matches(self._etag) if self._etag else ABSENT
        reply = self.context.store.put(self.key, body, when=when, content_type="application/json")
        if reply.outcome is not Outcome.DONE:
            return False
        self.saved, self._etag = position, reply.etag
        self._generation, self._revision, self._stored_epoch = generation, revision, epoch
        return True

    def _gave_up(self, position: str) -> Exception:
        return self.context.retry.unavailable(
            f"could not move cursor {self.key} to {position!r} in {SWAPS_MAX} attempts; try again"
        )

    def _read(self) -> None:
        reply = self.context.read(Get(self.key))
        if reply.info is None:
            self._etag, self.saved, self.serves, self._stored_epoch = "", "", frozenset(), 0
            return
        try:
            fields = json.loads(reply.body)
            position, epoch = fields["position"], fields.get("epoch", 0)
            numbers = fields["revision"], fields.get("generation", 0)
            names = fields.get("serves", [])
            whole = isinstance(position, str) and all(isinstance(number, int) for number in (*numbers, epoch))
            whole = whole and isinstance(names, list) and all(isinstance(name, str) for name in names)
            if fields["format"] != FORMAT or not whole:
                raise ValueError("another format")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CursorError(
                f"{self.key} is no cursor ({error}); find out what wrote it, then delete it"
            ) from None
        self._etag, self.saved, self.serves = reply.info.etag, position, frozenset(names)
        self._revision, self._generation = numbers
        self._stored_epoch = epoch
