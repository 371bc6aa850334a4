"""Which object is which, when writers, readers and conditions each know only a part of it.

The search wants to know, of every write, the ETag it leaves; of every read, whether it fits what stands.
A write whose reply was lost never learned its ETag, so it has to be told from the others:

- the same bytes put under the same key have the same ETag, whoever was told it, and no others have it;
- a read that saw both the bytes and the ETag ties them together;
- what is left over on both sides (ETags that were seen and that nobody was told to have put; writes
  of unknown ETag) is matched by trial: such a write has several `options`, and the search picks one for
  each content and keeps to it.

The ETag of a completed upload depends on how it was cut into parts, and its bytes are seldom recorded. So
an upload whose reply was lost may have left any ETag that no put is known to have left: a *puzzle*.

Objects nobody ever looked at are interchangeable, and all become `OTHER`: that is what keeps a thousand
blind writes from being a thousand different states.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from fencepost.impl.store.requests import Outcome
from fencepost.model.store_reference import Standing
from fencepost.properties.linearizability.history import Operation

OTHER = "\0other"
"""Stands for every object that no read and no condition can tell apart. No store has such an ETag."""


class Contents:
    """What the operations on one key tell about the objects that ever stood there."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._writes = [each for each in operations if each.kind in ("put", "complete-upload")]
        self._times = Counter(each.value for each in self._writes if _plain_put(each))
        self._ties: dict[Hashable, set[str]] = defaultdict(set)
        """Values to the ETags they were seen with."""
        self._told: dict[Hashable, set[str]] = defaultdict(set)
        """Values to the ETags their putters were told."""
        self._value_of: dict[str, Hashable] = {}
        self.torn: tuple[Operation, Operation] | None = None
        """Two operations that saw different contents under one ETag: no order of anything explains that."""
        self._tie(operations)
        produced = {each.etag for each in self._writes if each.etag}
        put = {each.etag for each in self._writes if each.etag and each.kind == "put"}
        sought = {seen for _, seen in map(saw, operations) if seen is not None}
        # A write without reply may have landed because the object it names was there.
        sought |= {each.named for each in operations if each.loose and each.condition == "matches"}
        self._for_puts = sought - produced
        self._for_puzzles = sought - put
        self._mentioned = sought | {each.named for each in operations if each.named}
        self._values_read = {each.value for each in operations if each.reads and not each.etag} - {None}
        self.puzzles = any(not each.etag and not _plain_put(each) for each in self._writes)

    def _tie(self, operations: Sequence[Operation]) -> None:
        first: dict[str, Operation] = {}
        for each in operations:
            if each.value is None or not each.etag or each.kind == "delete":
                continue
            self._ties[each.value].add(each.etag)
            if _plain_put(each):
                self._told[each.value].add(each.etag)
            known = first.setdefault(each.etag, each)
            if known.value != each.value:
                self.torn = self.torn or (known, each)
            self._value_of[each.etag] = each.value

    def options(self, write: Operation) -> tuple[str, ...]:
        """The symbols that may stand at the key after `write`: one where it is known, several where not."""
        if write.etag:
            return (self._plain(write.etag),)
        if not _plain_put(write):
            known = {each for each in self._for_puzzles if self._may_hold(each, write.value)}
            return (*sorted(known), self._plain(self._unnamed(write)))
        told = self._told.get(write.value)
        if told:
            return tuple(sorted({self._plain(etag) for etag in told}))
        tied = self._ties.get(write.value, set()) & self._for_puts
        if tied and not self.puzzles:
            return tuple(sorted(tied))
        untold = {etag for etag in self._for_puts if etag not in self._value_of}
        return (*sorted(tied | untold), self._plain(self._unnamed(write)))

    def _may_hold(self, etag: str, value: Hashable) -> bool:
        return value is None or self._value_of.get(etag, value) == value

    def free(self, write: Operation) -> bool:
        """Whether the ETag of `write` says nothing about the ETags of others: a puzzle."""
        return not _plain_put(write)

    def content(self, write: Operation) -> Hashable:
        """What several puts share, which then left the same ETag; None for a content put once."""
        return write.value if self._times[write.value] > 1 else None

    def fits(self, read: Operation, symbol: str) -> bool:
        """Whether a read that was done can have seen the object `symbol`."""
        if read.etag:
            return symbol == read.etag
        if read.value is None or symbol == OTHER:
            return read.value is None
        return self._may_hold(symbol, read.value)

    def _unnamed(self, write: Operation) -> str:
        if not _plain_put(write):
            symbol = f"\0write {self._writes.index(write)}"
        else:
            symbol = f"\0put {write.value!r}"
        if write.value is not None:
            self._value_of[symbol] = write.value
        return symbol

    def _plain(self, symbol: str) -> str:
        """`symbol`, or `OTHER` when nothing in the history can tell it from any other such object."""
        if symbol in self._mentioned:
            return symbol
        unread = not self._values_read or self._value_of.get(symbol) not in {None, *self._values_read}
        return OTHER if unread else symbol


def _plain_put(write: Operation) -> bool:
    return write.kind == "put" and write.value is not None


def saw(each: Operation) -> tuple[bool, Standing]:
    """Whether the answer tells exactly what stood there when the operation took effect, and what."""
    if each.outcome is Outcome.MISSING or (each.applied and each.condition == "absent"):
        return True, None
    if each.reads and each.outcome is Outcome.DONE and each.etag:
        return True, each.etag
    agreed = each.applied or (each.reads and each.outcome in (Outcome.DONE, Outcome.PAST_END))
    if (agreed and each.condition in ("matches", "only-if")) or each.outcome is Outcome.UNCHANGED:
        return True, each.named
    return False, None
