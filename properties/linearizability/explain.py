"""Why a key's history is not linearizable, explained as one would to a colleague.

First the counterexample is made small. An operation may be removed only when the rest still proves something
about the whole: without the put of "a", a get that reads "a" would be inexplicable. So an operation that
changed nothing is removed, but a successful write is only *weakened*: from then on it may have landed at any
time after its call, or never. When the rest is contradictory even so, the operation does not matter. Each
remaining reply is needed.

Then every order of the counterexample is walked, and each step names what it rests on.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

from fencepost.impl.store.requests import Outcome
from fencepost.model.store_reference import Standing
from fencepost.properties.linearizability.history import NEVER, Contents, Operation, is_informative, moves_of

LINES_MAX = 60
"""A walk that would need more lines is not printed."""
LISTED_MAX = 40
"""A longer counterexample was not made small within its steps; the rest of it is only counted."""
_SHOWN_MAX = 24

Violated = Callable[[Sequence[Operation]], bool]


def explain(part: Sequence[Operation], violated: Violated) -> tuple[str, tuple[Operation, ...]]:
    """The explanation of one key's violation, and its counterexample in the order it is numbered."""
    part = _identified([each for each in part if is_informative(each)])
    replies, weakened = smallest(part, violated)
    torn = Contents([*replies, *weakened]).torn
    counterexample = _recorded(torn, part) if torn else [*replies, *_context(replies, weakened, part)]
    counterexample.sort(
        key=lambda each: (each.called, NEVER if each.returned is None else each.returned, each.process)
    )
    lines = [
        f"Key {part[0].key!r} is not linearizable: no order explains these replies.",
        "",
    ]
    lines += [*listing(counterexample), "", *(_torn_text(counterexample) if torn else orders(counterexample))]
    others = len(part) - len(counterexample)
    if others:
        noun = "operation" if others == 1 else "operations"
        lines.append(f"{others} more {noun} on the key cannot help, whenever they took effect.")
    return "\n".join(lines), tuple(counterexample)


def smallest(part: Sequence[Operation], violated: Violated) -> tuple[list[Operation], list[Operation]]:
    """The replies that are all needed, and the writes that may have landed at any time or never."""
    replies, weakened = _cut(part, violated)
    weakened = [*weakened, *(each for each in replies if _uncertain(each))]
    replies = [each for each in replies if not _uncertain(each)]
    for also_writes in (False, True):
        replies, weakened = _strike(replies, weakened, also_writes, violated)
    return replies, weakened


def _identified(part: Sequence[Operation]) -> list[Operation]:
    """Give writes the ETag that others read, since those others may be removed."""
    contents = Contents(part)
    named = []
    for each in part:
        options = () if each.reads or each.kind == "delete" or each.etag else contents.options(each)
        known = len(options) == 1 and not options[0].startswith("\0")
        named.append(replace(each, etag=options[0]) if known else each)
    return named


def _uncertain(each: Operation) -> bool:
    return each.loose and not each.reads


def weaken(each: Operation) -> list[Operation]:
    """Return an operation without its reply."""
    return [replace(each, outcome=Outcome.UNKNOWN, returned=None)] if each.applied or _uncertain(each) else []


def _cut(part: Sequence[Operation], violated: Violated) -> tuple[list[Operation], list[Operation]]:
    """The history up to the earliest reply that makes it contradictory (every longer one is so too)."""
    times = sorted({each.returned for each in part if each.returned is not None})
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        replies, weakened = _until(part, times[middle])
        if violated([*replies, *weakened]):
            high = middle
        else:
            low = middle + 1
    return _until(part, times[high])


def _until(part: Sequence[Operation], time: int) -> tuple[list[Operation], list[Operation]]:
    called = [each for each in part if each.called <= time]
    replies = [each for each in called if each.returned is not None and each.returned <= time]
    known = set(map(id, replies))
    return replies, [weak for each in called if id(each) not in known for weak in weaken(each)]


def _strike(
    replies: list[Operation],
    weakened: list[Operation],
    also_writes: bool,
    violated: Violated,
) -> tuple[list[Operation], list[Operation]]:
    """Remove ever smaller chunks, as long as the rest stays contradictory."""
    size = max(1, len(replies) // 2)
    while True:
        at, struck = 0, False
        while at < len(replies):
            chunk = [each for each in replies[at : at + size] if also_writes or not each.applied]
            rest = [each for each in replies if all(each is not other for other in chunk)]
            weak = [*weakened, *(weak for each in chunk for weak in weaken(each))]
            if chunk and violated([*rest, *weak]):
                replies, weakened, struck = rest, weak, True
            else:
                at += size
        if size == 1 and not struck:
            return replies, weakened
        size = max(1, size // 2)


def _context(
    replies: Sequence[Operation], weakened: Sequence[Operation], part: Sequence[Operation]
) -> list[Operation]:
    """The writes of the objects in these replies, as recorded: they make the replies comprehensible."""
    together = [*replies, *weakened]
    moves = moves_of(together, Contents(together))
    spoken = {move.needs for move in moves if move.constrained and move.operation in replies}
    spoken -= {left for move in moves if move.operation in replies and move.changes for left in move.left()}
    made = [
        move.operation for move in moves if move.operation in weakened and set(move.left()) & spoken - {None}
    ]
    return _recorded(made, part)


def _recorded(operations: Sequence[Operation], part: Sequence[Operation]) -> list[Operation]:
    """The operations as they were before they were weakened."""
    known = {(each.process, each.called, each.kind) for each in operations}
    return [each for each in part if (each.process, each.called, each.kind) in known]


def _torn_text(counterexample: Sequence[Operation]) -> list[str]:
    numbers = " and ".join(f"({number})" for number in range(1, len(counterexample) + 1))
    return [f"{numbers} returned different contents under one ETag, {counterexample[0].etag!r}."]


def listing(counterexample: Sequence[Operation]) -> list[str]:
    """One line an operation: number, process, times, request, reply."""
    names = [f"({number})" for number in range(1, len(counterexample) + 1)]
    times = [f"{each.called}..{'' if each.returned is None else each.returned}" for each in counterexample]
    requests = [_request(each) for each in counterexample]
    columns = [names, [each.process for each in counterexample], times, requests]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for *cells, reply in zip(*columns, [_reply(each) for each in counterexample], strict=True):
        padded = "  ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True))
        lines.append(f"  {padded}  -> {reply}")
    left_out = len(lines) - LISTED_MAX
    return lines if left_out <= 0 else [*lines[:LISTED_MAX], f"  ... and {left_out} more"]


def _request(each: Operation) -> str:
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


def _reply(each: Operation) -> str:
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
    """The order that the clock forces: pairs with nothing in between."""
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
        """The operations that read an object that no operation of the counterexample wrote."""
        left = {left for move in self._moves if move.changes for left in move.left()}
        return [
            f"{_number(index)} {_claim(move.operation)}, but no operation wrote that."
            for index, move in enumerate(self._moves)
            if move.constrained and move.needs is not None and move.needs not in left
        ]

    def _go(self, done: frozenset[int], there: "_There", indent: str) -> None:
        """Recursive, as the cases nest: as deep as the counterexample is long, and that is short."""
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
            more = [
                at
                for at in self._open(done)
                if not self._moves[at].changes and self._moves[at].outcomes(standing)
            ]
            if not more:
                return done, fitting
            fitting += more
            done |= set(more)

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
    """The object at the key, and the operation that wrote it."""

    standing: Standing
    writer: int


_EMPTY = _There(None, -1)


def _claim(each: Operation) -> str:
    """Return the claim that the reply of an operation makes about the key."""
    match each.outcome:
        case Outcome.MISSING:
            return "found nothing"
        case Outcome.EXISTS:
            return "found an object"
        case Outcome.CHANGED:
            return f"found an object other than etag {each.named}"
        case Outcome.UNCHANGED:
            return f"found etag {each.named} unchanged"
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
