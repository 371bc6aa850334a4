"""The local variables that code may still read: a data flow analysis of its bytecode.

A variable is *live* at an instruction if some way on from there reads it before it is set or deleted. The
value of a dead variable cannot change the next steps, unless the code looks at its own frame.
"""

import dis
from bisect import bisect_right
from types import CodeType

_END = frozenset({"RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
_ALWAYS_JUMP = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
_known: dict[int, tuple[CodeType, "Liveness"]] = {}
"""By identity; the code is kept, so that no other gets its identity."""


class Liveness:
    """The live variables of one code object, by instruction."""

    def __init__(self, code: CodeType) -> None:
        steps = list(dis.get_instructions(code))
        self._starts = [step.offset for step in steps]
        place = {start: number for number, start in enumerate(self._starts)}
        handler = {
            start: place[entry.target]
            for entry in dis._parse_exception_table(code)  # type: ignore[attr-defined]  # noqa: SLF001 - it has no public reader
            for start in self._starts
            if entry.start <= start < entry.end
        }
        follows: list[list[int]] = []
        reads: list[int] = []
        sets: list[int] = []
        for number, step in enumerate(steps):
            after: list[int] = []
            if step.opname not in _END and step.opname not in _ALWAYS_JUMP:
                after.append(number + 1)
            if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
                after.append(place[step.argval])
            follows.append(after)
            local = 1 << step.arg if step.opcode in dis.haslocal and step.arg is not None else 0
            stores = step.opname == "STORE_FAST"
            reads.append(0 if stores else local)
            sets.append(local if stores else 0)
        handlers = [handler.get(start, -1) for start in self._starts]
        self._out = _solved(follows, handlers, reads, sets)

    def after(self, offset: int) -> int:
        """Return the variables that are live after the instruction at `offset`, as a bit set."""
        return self._out[bisect_right(self._starts, offset) - 1]


def _solved(follows: list[list[int]], handlers: list[int], reads: list[int], sets: list[int]) -> list[int]:
    """Return what is live after each instruction: the least solution, found from the end.

    An exception may leave an instruction before it has set its variable.
    """
    into = [0] * (len(follows) + 1)
    out = [0] * len(follows)
    changed = True
    while changed:
        changed = False
        for number in range(len(follows) - 1, -1, -1):
            live = 0
            for after in follows[number]:
                live |= into[after]
            raised = into[handlers[number]] if handlers[number] >= 0 else 0
            out[number] = live | raised
            before = reads[number] | (live & ~sets[number]) | raised
            if before != into[number]:
                into[number] = before
                changed = True
    return out


def liveness(code: CodeType) -> Liveness:
    """Return the analysis of a code object, which is made once."""
    found = _known.get(id(code))
    if found is None:
        found = _known[id(code)] = (code, Liveness(code))
    return found[1]
