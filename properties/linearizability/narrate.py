"""The words of an explanation: the operations as a numbered list, and a walk through all their orders."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from fencepost.impl.store.requests import Outcome
from fencepost.model.store_reference import Standing
from fencepost.properties.linearizability.contents import Contents
from fencepost.properties.linearizability.history import Operation
from fencepost.properties.linearizability.moves import NEVER, moves_of

LINES_MAX = 60
"""A walk that would need more lines is not told: nobody would read it."""
LISTED_MAX = 40
"""A counterexample this long was not made small within its steps; the rest of it is only counted."""
_SHOWN_MAX = 24


def listing(counterexample: Sequence[Operation]) -> list[str]:
    """One line an operation: number, process, from when to when, what was asked, what was told."""
    names = [f"({number})" for number in range(1, len(counterexample) + 1)]
    times = [_time(each) for each in counterexample]
    asked = [_asked(each) for each in counterexample]
    columns = [names, [each.process for each in counterexample], times, asked]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for *cells, told in zip(*columns, [_told(each) for each in counterexample], strict=True):
        padded = "  ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True))
        lines.append(f"  {padded}  -> {told}")
    left_out = len(lines) - LISTED_MAX
    return lines if left_out <= 0 else [*lines[:LISTED_MAX], f"  ... and {left_out} more"]


def _time(each: Operation) -> str:
    return f"{each.called}..{'' if each.returned is None else each.returned}"


def _asked(each: Operation) -> str:
    what = each.kind
    if each.kind == "put":
        what += f" {shown(each.value)}"
    how = {
        "absent": " if nothing is there",
        "matches": f" if etag {each.named}",
        "only-if": f" if etag {each.named}",
        "unless": f" unless etag {each.named}",
        "": "",
    }
    return what + how[each.condition]


def _told(each: Operation) -> str:
    if each.outcome is not Outcome.DONE:
        return each.outcome.value + (f" (etag {each.etag}, as others saw)" if each.etag else "")
    seen = f" {shown(each.value)}" if each.kind == "get" and each.value is not None else ""
    return f"done{seen}" + (f", etag {each.etag}" if each.etag else "")


def shown(value: Hashable) -> str:
    """A value as text of bounded length."""
    if value is None:
        return "(content not recorded)"
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."


def orders(counterexample: Sequence[Operation]) -> list[str]:
    """Every order of the counterexample, and where each breaks down."""
    walk = _Walk(counterexample)
    unwritten = walk.unwritten()
    if unwritten:
        return unwritten
    lines = [*_before(counterexample), *walk.lines()]
    if len(lines) > LINES_MAX:
        return [
            f"All orders of these {len(counterexample)} operations were tried; each ends in a contradiction."
        ]
    return lines


def _before(counterexample: Sequence[Operation]) -> list[str]:
    """What the clock forces: pairs with nothing in between."""
    lines = []
    for second, later in enumerate(counterexample):
        for first, earlier in enumerate(counterexample):
            between = any(_precedes(earlier, other) and _precedes(other, later) for other in counterexample)
            if _precedes(earlier, later) and not between:
                lines.append(
                    f"({first + 1}) comes before ({second + 1}): "
                    f"it had returned at {earlier.returned} when ({second + 1}) was called at {later.called}."
                )
    return lines


def _precedes(earlier: Operation, later: Operation) -> bool:
    if earlier.outcome is Outcome.UNKNOWN or earlier.returned is None:
        return False
    return earlier.returned < later.called


class _Walk:
    """All orders, depth first, with the same rules as the search but nothing left out for speed."""

    def __init__(self, counterexample: Sequence[Operation]) -> None:
        self._moves = moves_of(counterexample, Contents(counterexample))
        self._lines: list[str] = []

    def lines(self) -> list[str]:
        self._lines = ["At first nothing is there."]
        self._go(frozenset(), _EMPTY, "")
        self._lines.append("So no order is left.")
        return self._lines

    def unwritten(self) -> list[str]:
        """The operation that saw what nobody in the counterexample was asked to write."""
        left = {left for move in self._moves if move.changes for left in move.left()}
        return [
            f"{_number(index)} {_claim(move.operation)}, but nobody had been asked to write that."
            for index, move in enumerate(self._moves)
            if move.picky and move.needs is not None and move.needs not in left
        ]

    def _go(self, done: frozenset[int], there: "_There", indent: str) -> None:
        """Told recursively, as the cases nest: as deep as the counterexample is long, and counterexamples
        are short."""
        if len(self._lines) > LINES_MAX:
            return
        done, fitting = self._settled(done, there.standing)
        if fitting:
            fit = "fits" if len(fitting) == 1 else "fit"
            self._lines.append(f"{indent}{_join(fitting)} {fit} while {self._is_there(there)}.")
        choices = self._choices(done, there.standing)
        if not choices:
            for index in self._open(done):
                claim = _claim(self._moves[index].operation)
                self._lines.append(f"{indent}{_number(index)} {claim}, but {self._is_there(there)}.")
            self._lines.append(f"{indent}Nothing can come next.")
        for index, left in choices:
            then = _There(left, index)
            alone = len(choices) == 1
            intro = (
                f"Only {_number(index)} can come next" if alone else f"Suppose {_number(index)} comes next"
            )
            self._lines.append(f"{indent}{intro}: then {self._is_there(then)}.")
            self._go(done | {index}, then, indent if alone else indent + "  ")

    def _settled(self, done: frozenset[int], standing: Standing) -> tuple[frozenset[int], list[int]]:
        fitting: list[int] = []
        while True:
            more = [at for at in self._open(done) if self._still(at) and self._moves[at].outcomes(standing)]
            if not more:
                return done, fitting
            fitting += more
            done |= set(more)

    def _still(self, index: int) -> bool:
        return not self._moves[index].changes

    def _firm(self, done: frozenset[int]) -> list[int]:
        return [at for at, move in enumerate(self._moves) if at not in done and not move.loose]

    def _limit(self, done: frozenset[int]) -> int:
        returns = (self._moves[at].operation.returned for at in self._firm(done))
        return min((NEVER if at is None else at for at in returns), default=NEVER)

    def _open(self, done: frozenset[int]) -> list[int]:
        """The operations with a known outcome that the clock allows next."""
        limit = self._limit(done)
        return [at for at in self._firm(done) if self._moves[at].operation.called <= limit]

    def _choices(self, done: frozenset[int], standing: Standing) -> list[tuple[int, Standing]]:
        limit = self._limit(done)
        found = []
        for at, move in enumerate(self._moves):
            if at in done or not move.changes or move.operation.called > limit:
                continue
            for left in move.outcomes(standing):
                if not move.loose or (left != standing and self._helps(done, standing, left)):
                    found.append((at, left))
        return found

    def _helps(self, done: frozenset[int], standing: Standing, left: Standing) -> bool:
        """A write without reply lands only where that makes something possible."""
        moves = [move for at, move in enumerate(self._moves) if at not in done]
        return any(move.outcomes(left) and not move.outcomes(standing) for move in moves)

    def _is_there(self, there: "_There") -> str:
        if there.standing is None:
            return "nothing is there"
        value = self._moves[there.writer].operation.value
        return f"{shown(value) if value is not None else f'the object of {_number(there.writer)}'} is there"


class _There(NamedTuple):
    """What stands at the key, and the operation that put it there."""

    standing: Standing
    writer: int


_EMPTY = _There(None, -1)


def _claim(each: Operation) -> str:
    """What an operation says of the moment it took effect."""
    match each.outcome:
        case Outcome.MISSING:
            return "found nothing"
        case Outcome.EXISTS:
            return "was told that an object is there"
        case Outcome.CHANGED:
            return f"was told that something else than etag {each.named} is there"
        case Outcome.UNCHANGED:
            return f"was told that etag {each.named} is there"
        case Outcome.PAST_END:
            return "read past an object's end"
    if each.reads:
        return f"read {shown(each.value) if each.value is not None else f'etag {each.etag}'}"
    if each.condition == "absent":
        return "was done on condition that nothing is there"
    return f"was done on condition that etag {each.named} is there"


def _number(index: int) -> str:
    return f"({index + 1})"


def _join(indices: Sequence[int]) -> str:
    names = [_number(index) for index in sorted(indices)]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
