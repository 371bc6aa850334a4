"""Why a key's history is not linearizable, told the way one would tell a colleague.

First the counterexample is made small. Striking an operation from a history is only honest when the rest
still
proves something about the whole: without the put of "a", a get that reads "a" would look like a miracle.
So an operation that changed nothing is struck out, but a write that was done is only *doubted*: from then
on it may have landed at any time after its call, or never. When the rest is contradictory even so, the
operation does not matter. What is left cannot lose any of its facts.

Then every order of the counterexample is walked, and each step says what it rests on.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from fencepost.impl.store.requests import Outcome
from fencepost.properties.linearizability.contents import Contents
from fencepost.properties.linearizability.history import Operation
from fencepost.properties.linearizability.moves import NEVER, moves_of, tells
from fencepost.properties.linearizability.narrate import listing, orders

Violated = Callable[[Sequence[Operation]], bool]


def explain(part: Sequence[Operation], violated: Violated) -> tuple[str, tuple[Operation, ...]]:
    """The explanation of one key's violation, and its counterexample in the order it is numbered."""
    part = _identified([each for each in part if tells(each)])
    facts, doubted = smallest(part, violated)
    torn = Contents([*facts, *doubted]).torn
    counterexample = _recorded(torn, part) if torn else [*facts, *_context(facts, doubted, part)]
    counterexample.sort(
        key=lambda each: (each.called, NEVER if each.returned is None else each.returned, each.process)
    )
    lines = [
        f"Key {part[0].key!r} is not linearizable: no order explains what these operations were told.",
        "",
    ]
    lines += [*listing(counterexample), "", *(_torn_text(counterexample) if torn else orders(counterexample))]
    others = len(part) - len(counterexample)
    if others:
        noun = "operation" if others == 1 else "operations"
        lines.append(f"{others} more {noun} on the key cannot help, whenever they took effect.")
    return "\n".join(lines), tuple(counterexample)


def smallest(part: Sequence[Operation], violated: Violated) -> tuple[list[Operation], list[Operation]]:
    """The facts of which none can be missed, and the writes that may have landed at any time or never."""
    facts, doubted = _cut(part, violated)
    doubted = [*doubted, *(each for each in facts if _uncertain(each))]
    facts = [each for each in facts if not _uncertain(each)]
    for also_writes in (False, True):
        facts, doubted = _strike(facts, doubted, also_writes, violated)
    return facts, doubted


def _identified(part: Sequence[Operation]) -> list[Operation]:
    """The writes whose ETag others saw carry it from here on: those others may be struck out."""
    contents = Contents(part)
    named = []
    for each in part:
        options = () if each.reads or each.kind == "delete" or each.etag else contents.options(each)
        known = len(options) == 1 and not options[0].startswith("\0")
        named.append(replace(each, etag=options[0]) if known else each)
    return named


def _uncertain(each: Operation) -> bool:
    return each.loose and not each.reads


def doubt(each: Operation) -> list[Operation]:
    """What remains of an operation whose reply we no longer rely on."""
    return [replace(each, outcome=Outcome.UNKNOWN, returned=None)] if each.applied or _uncertain(each) else []


def _cut(part: Sequence[Operation], violated: Violated) -> tuple[list[Operation], list[Operation]]:
    """The history up to the earliest reply that makes it contradictory (any longer one is so too)."""
    times = sorted({each.returned for each in part if each.returned is not None})
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        facts, doubted = _until(part, times[middle])
        if violated([*facts, *doubted]):
            high = middle
        else:
            low = middle + 1
    return _until(part, times[high])


def _until(part: Sequence[Operation], time: int) -> tuple[list[Operation], list[Operation]]:
    called = [each for each in part if each.called <= time]
    facts = [each for each in called if each.returned is not None and each.returned <= time]
    known = set(map(id, facts))
    return facts, [weak for each in called if id(each) not in known for weak in doubt(each)]


def _strike(
    facts: list[Operation],
    doubted: list[Operation],
    also_writes: bool,
    violated: Violated,
) -> tuple[list[Operation], list[Operation]]:
    """Strike out chunks, ever smaller ones, as long as the rest stays contradictory."""
    size = max(1, len(facts) // 2)
    while True:
        at, struck = 0, False
        while at < len(facts):
            chunk = [each for each in facts[at : at + size] if also_writes or not each.applied]
            rest = [each for each in facts if all(each is not other for other in chunk)]
            weak = [*doubted, *(weak for each in chunk for weak in doubt(each))]
            if chunk and violated([*rest, *weak]):
                facts, doubted, struck = rest, weak, True
            else:
                at += size
        if size == 1 and not struck:
            return facts, doubted
        size = max(1, size // 2)


def _context(
    facts: Sequence[Operation], doubted: Sequence[Operation], part: Sequence[Operation]
) -> list[Operation]:
    """The writes that made what the facts speak of: needed to understand them, as they were recorded."""
    together = [*facts, *doubted]
    moves = moves_of(together, Contents(together))
    spoken = {move.needs for move in moves if move.picky and move.operation in facts}
    spoken -= {left for move in moves if move.operation in facts and move.changes for left in move.left()}
    made = [
        move.operation for move in moves if move.operation in doubted and set(move.left()) & spoken - {None}
    ]
    return _recorded(made, part)


def _recorded(operations: Sequence[Operation], part: Sequence[Operation]) -> list[Operation]:
    """The operations as they were before they were doubted."""
    known = {(each.process, each.called, each.kind) for each in operations}
    return [each for each in part if (each.process, each.called, each.kind) in known]


def _torn_text(counterexample: Sequence[Operation]) -> list[str]:
    numbers = " and ".join(f"({number})" for number in range(1, len(counterexample) + 1))
    return [f"{numbers} saw different contents under one ETag, {counterexample[0].etag!r}."]
