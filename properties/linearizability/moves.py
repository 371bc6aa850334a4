"""Operations as the search sees them: when each can have taken effect, and what it does at its key."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from fencepost.impl.store.requests import Outcome
from fencepost.model.store_reference import KeyOperation, Standing, When, on_key
from fencepost.properties.linearizability.contents import OTHER, Contents, saw
from fencepost.properties.linearizability.history import Operation

NEVER = 1 << 200
"""Later than any time: when an operation returns that did not."""


@dataclass(slots=True, eq=False)
class Move:
    """One operation as the search sees it."""

    operation: Operation
    contents: Contents
    called: int
    returned: int
    loose: bool
    """May also not have taken effect at all."""
    options: tuple[str, ...] = ()
    """What may stand there afterwards, of a write that leaves an object."""
    alike: Hashable = None
    """Equal for writes that could trade places."""
    needs: Standing = None
    """The only thing that may stand there before, when `picky`."""
    picky: bool = False
    _known: dict[Standing, tuple[Standing, ...]] = field(default_factory=dict)

    def outcomes(self, standing: Standing) -> tuple[Standing, ...]:
        """What may stand there afterwards; nothing when the operation cannot come next."""
        if standing not in self._known:
            self._known[standing] = self._try(standing)
        return self._known[standing]

    def _try(self, standing: Standing) -> tuple[Standing, ...]:
        each = self.operation
        _, outcome = on_key(standing, meaning(each))
        if each.reads:
            told = Outcome.DONE if each.outcome is Outcome.PAST_END else each.outcome
            fits = standing is None or told is not Outcome.DONE or self.contents.fits(each, standing)
            return (standing,) if outcome == told.value and fits else ()
        if each.loose or each.applied:
            return self.left() if outcome == "done" else ()
        return (standing,) if outcome == each.outcome.value else ()

    def left(self) -> tuple[Standing, ...]:
        """What may stand there once it took effect."""
        return self.options or (None,)

    @property
    def changes(self) -> bool:
        return self.operation.loose or self.operation.applied


def meaning(each: Operation) -> KeyOperation:
    """The operation in the reference's words. The ETag a write leaves is told by `Contents`, not here."""
    if each.reads:
        only_if = each.named if each.condition == "only-if" else None
        return "read", only_if, each.named if each.condition == "unless" else None
    when: When = ("anything",)
    if each.condition:
        when = ("absent",) if each.condition == "absent" else ("matches", each.named)
    return ("delete", when) if each.kind == "delete" else ("write", when, OTHER)


def moves_of(operations: Sequence[Operation], contents: Contents) -> list[Move]:
    """The operations that say anything, ready for the search."""
    return [_move(each, contents) for each in operations if tells(each)]


def tells(each: Operation) -> bool:
    """A refusal for the store's own reasons took no effect and proves nothing; no more does a lost read."""
    empty = (Outcome.CONFLICT, Outcome.THROTTLED, Outcome.GONE)
    return each.outcome not in empty and not (each.reads and each.outcome is Outcome.UNKNOWN)


def _move(each: Operation, contents: Contents) -> Move:
    loose = each.loose and not each.reads
    returned = NEVER if loose or each.returned is None else each.returned
    move = Move(each, contents, each.called, returned, loose)
    if each.kind in ("put", "complete-upload"):
        move.options = contents.options(each)
    free = len(move.options) < 2 or contents.free(each)
    tied = (free, None if free else contents.content(each))
    move.alike = (each.kind == "delete", each.condition, each.named, move.options, tied)
    move.picky, move.needs = saw(each)
    return move
