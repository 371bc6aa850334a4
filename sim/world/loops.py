"""Waiting loops: how a process repeats itself, and the loops that were found to be endless.

Theory. A process that repeats a *round* of the same operations with the same replies, none of which has an
effect, waits for a change. After `wait_rounds` such rounds it is *held back*: the schedule offers other
actors, until something that the loop reads has changed. As a further alternative, `in_vain`, the loop runs
through all of its remaining rounds at once, while no other actor steps. Then the attempts, or the time, of a
bounded loop run out and the code after the loop is explored although others could go on. The rounds in vain
commute with the steps of the others, so one place for all of them is enough.

While a loop runs through its rounds, the clock moves to the end of each of its sleeps. A loop that compares
the clock and never sleeps takes time too: the clock moves at each reading, by twice as much each time. So it
does for a loop that sleeps and is not over after many steps, as if most of its rounds were left out.

A loop that does not end within `IN_VAIN_MAX` steps counts as endless. The search starts over, and holds this
loop back without the alternative. A loop is named by its process, its operations with their outcomes, and
their places in the code.

A loop with effects that never ends starves the others. When a run is cut while one process repeats itself and
others could step, its loop counts as endless too: from then on the loop takes `wait_rounds` rounds while
others can go on, as a daemon takes its steps.

Not explored: a change that comes between the rounds `wait_rounds + 1` and the last of a bounded loop.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from fencepost.sim.world.operations import Delivery, NextLine, Sleep, Wake, same

if TYPE_CHECKING:
    from fencepost.sim.world.process import Process

WAIT_ROUNDS = 5
"""Rounds in vain after which a process is held back, if the audit gives no other number."""
IN_VAIN_MAX = 600
"""Steps that a loop may take at once before it counts as endless."""
PERIOD_MAX = 12
"""Operations of one round, at most."""
BETWEEN = frozenset({Wake, Delivery, NextLine})
"""Steps that complete others, and do not count in a round."""
IN_VAIN = "in_vain"
"""The alternative of a held process: take all rounds that are left."""

Key = str
"""Name of a loop."""


class Round:
    """The last steps of a process, as long as none had an effect, and the period with which they repeat."""

    __slots__ = ("_fresh", "_names", "_steps", "period", "repeated")

    def __init__(self) -> None:
        self._steps: list[tuple[Any, Any, int]] = []
        """Operation, answer and mask of the objects read."""
        self._names: list[str] = []
        """Names of the steps that repeated others."""
        self._fresh = 0
        """Number of steps since something that they read changed."""
        self.period = 0
        """Number of steps of a round; 0 until steps repeat."""
        self.repeated = 0
        """Number of steps in a row that were equal to those a period before."""

    def add(self, op: Any, answer: Any, read: int, process: Process) -> int:
        """Add a step without an effect; return the number of rounds that repeated the one before."""
        steps = self._steps
        going_on = self.period and self._repeats(self.period, op, answer)
        steps.append((op, answer, read))
        self._fresh += 1
        if going_on:
            self.repeated += 1
        else:
            self._names.clear()
            self._find_period()
        if not self.repeated:
            return 0
        self._names.append(_name(op, answer, process))
        if len(steps) > 4 * PERIOD_MAX:
            del steps[: 2 * PERIOD_MAX], self._names[: -2 * PERIOD_MAX]
        return self.repeated // self.period

    def _find_period(self) -> None:
        """Find the period with which the most steps at the end repeat."""
        steps = self._steps
        self.period = self.repeated = 0
        for period in range(1, min(PERIOD_MAX, len(steps) - 1) + 1):
            count, at = 0, len(steps) - 1
            while at >= period and count < self._fresh and _equal(steps[at], steps[at - period]):
                count, at = count + 1, at - 1
            if count > self.repeated:
                self.period, self.repeated = period, count

    def _repeats(self, period: int, op: Any, answer: Any) -> bool:
        before = self._steps[-period]
        return alike(before[0], op) and bool(before[1] == answer)

    def goes_on_with(self, op: Any) -> bool:
        """Return True if this operation is the next one of another round."""
        return self.period > 0 and alike(self._steps[-self.period][0], op)

    def restart(self) -> None:
        """Count rounds anew: something that the process reads has changed."""
        self.repeated = self._fresh = 0
        self._names.clear()

    def clear(self) -> None:
        """Forget all steps: the process did something with an effect."""
        if self._steps:
            self._steps.clear()
            self.period = 0
            self.restart()

    @property
    def read(self) -> int:
        """Mask of the objects that a round reads."""
        mask = 0
        for _, _, read in self._steps[-self.period :] if self.period else ():
            mask |= read
        return mask

    @property
    def sleeps(self) -> bool:
        """True if time passes in a round by itself."""
        return any(type(op) is Sleep for op, _, _ in self._steps[-self.period :])

    @property
    def key(self) -> Key:
        """Name of the loop; empty as long as no whole round was repeated."""
        if not self.period or len(self._names) < self.period:
            return ""
        return "\n".join(sorted(set(self._names[-self.period :])))

    def state(self) -> Any:
        """Return what the future depends on besides the memory of the process."""
        return self.period and (self.period, self.repeated)


def _equal(one: tuple[Any, Any, int], other: tuple[Any, Any, int]) -> bool:
    return alike(one[0], other[0]) and bool(one[1] == other[1])


def alike(one: Any, other: Any) -> bool:
    """Return True if two operations may be the same step of two rounds: sleeps may grow."""
    if type(one) is not type(other):
        return False
    return type(one) is Sleep or same(one, other)


def _name(op: Any, answer: Any, process: Process) -> str:
    outcome = getattr(getattr(answer, "outcome", None), "value", "")
    subject = "" if type(op) is Sleep else op.subject
    return f"{process.name}\0{op.kind} {subject} {outcome} {place_of(process)}"


def place_of(process: Process) -> str:
    """Return the place in the code where a process waits; empty if its code rests, see `process.Recall`."""
    if process.node is not None or process.worker is None:
        return ""
    found: list[str] = []
    frame = process.worker.gr_frame
    while frame is not None:
        found.append(f"{frame.f_code.co_name}:{frame.f_lasti}")
        frame = frame.f_back
    return "/".join(found)


_NUMBERS = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f-]{32,36}|\d+")


class Loops:
    """Endless loops of a program, as its runs so far showed."""

    def __init__(self) -> None:
        self._endless: frozenset[Key] = frozenset()
        """Loops in vain that did not end, in runs that begin now."""
        self._starving: dict[str, frozenset[str]] = {}
        """By process: first operations of the rounds of endless loops with effects."""
        self.has_starving = False
        """True if there are such loops: an attribute, because every step reads it."""
        self._found: set[Key] = set()
        self._found_starving: set[tuple[str, str]] = set()

    def learn(self, key: Key) -> None:
        """A loop in vain did not end."""
        self._found.add(key)

    @property
    def unfollowed(self) -> str:
        """Names of the processes with a loop in vain that did not end."""
        return " and ".join(sorted({name for key in self._endless if (name := key.partition("\0")[0])}))

    def learn_starving(self, process: str, op: Any) -> None:
        """A loop with effects did not end, one round of which begins with this operation."""
        self._found_starving.add((process, head(op)))

    @property
    def starving(self) -> set[tuple[str, str]]:
        """Process and first operation of each endless loop with effects."""
        return {(name, op) for name, heads in self._starving.items() for op in heads}

    def beside(self, starving: AbstractSet[tuple[str, str]]) -> Loops:
        """Return these loops in vain, and of the loops with effects those that are given."""
        other = Loops()
        other.add([self._endless | self._found, starving])
        other.adopt()
        return other

    def adopt(self) -> bool:
        """Hold back what was found from the next run on; return True if anything is new."""
        new = not self._found <= self._endless or not self._found_starving <= self.starving
        if new:
            self._endless |= self._found
            for name, op in self._found_starving:
                self._starving[name] = self._starving.get(name, frozenset()) | {op}
            self.has_starving = bool(self._starving)
        return new

    def held(self) -> tuple[frozenset[Key], frozenset[tuple[str, str]]]:
        """Return the loops that are held back in runs that begin now."""
        return self._endless, frozenset(self.starving)

    def is_endless(self, key: Key) -> bool:
        return key in self._endless

    def begins_round(self, process: Process, op: Any) -> bool:
        """Return True if a round of an endless loop with effects begins with this operation."""
        heads = self._starving.get(process.name)
        return heads is not None and head(op) in heads

    def packed(self) -> list[Any]:
        """As plain data."""
        starving = self.starving | self._found_starving
        return [sorted(self._endless | self._found), sorted(map(list, starving))]

    def add(self, data: list[Any]) -> None:
        """Take up what another search learnt."""
        self._found.update(data[0])
        self._found_starving.update((name, op) for name, op in data[1])


def head(op: Any) -> str:
    """Return the name of an operation in every round: numbers in keys may grow."""
    return f"{op.kind} {_NUMBERS.sub('#', op.subject)}"
