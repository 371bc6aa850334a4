"""One step on from many states at once: their successors as a set, and what the steps show.

Every label (an action with one choice of its parameters) is applied to the whole chunk, and answers the
successors of the rows that its guards let pass. Their rows also tell which states can go on at all: the
others are deadlocks, unless the machine may end there. Step properties look at successors before those are
sorted, since only then before and after still line up.

What is found does not depend on how a level was cut into chunks: of several violations in a chunk the one
from the earliest row is kept, and rows are in the order of the level.
"""

from dataclasses import dataclass

import numpy as np

from fencepost.model.kernel import keys
from fencepost.model.kernel.declare import Property
from fencepost.model.kernel.frame import Frame
from fencepost.model.kernel.keys import Batch
from fencepost.model.kernel.layout import I64, U64
from fencepost.model.kernel.model import Model
from fencepost.model.kernel.search import Found, packed

_PENDING = 1 << 22
"""Successors to gather before repetitions are dropped, so that many labels need no more memory."""


@dataclass
class Expanded:
    """What one chunk gave."""

    batch: Batch
    fired: I64
    deadlock: tuple[int, ...] | None
    steps: dict[str, tuple[int, Found]]


class Expander:
    """How the states of one level are expanded; `depth` is the number of that level."""

    def __init__(
        self, model: Model, *, steps: tuple[Property, ...] = (), deadlocks: bool = True, depth: int = 0
    ) -> None:
        self.model = model
        self.steps = steps
        self.deadlocks = deadlocks
        self.depth = depth

    def expand(self, states: U64) -> Expanded:
        """All successors of a chunk, as a set, with what was noticed on the way."""
        model = self.model
        fired = np.zeros(len(model.labels), np.int64)
        alive = np.zeros(states.shape[1], np.bool_)
        watching = self.deadlocks
        steps: dict[str, tuple[int, Found]] = {}
        frames: list[Frame] = []
        batches: list[Batch] = []
        gathered = 0
        for label in model.labels:
            frame = model.apply(states, label)
            if frame is None:
                continue
            fired[label.number] = frame.size
            if watching:
                frame.mark_origin(alive)
                watching = not alive.all()
            frames.append(frame)
            gathered += frame.size
            if gathered > _PENDING:
                batches.append(self._gather(frames, steps))
                frames, gathered = [], 0
        if frames:
            batches.append(self._gather(frames, steps))
        deadlock = None
        if watching:
            stuck = np.flatnonzero(~alive)
            stuck = stuck.compress(~model.may_end(states.take(stuck, axis=1)))
            deadlock = packed(states, int(stuck[0])) if len(stuck) else None
        batch = keys.merge(batches) if batches else keys.empty(model.words)
        return Expanded(batch, fired, deadlock, steps)

    def _gather(self, frames: list[Frame], steps: dict[str, tuple[int, Found]]) -> Batch:
        """The successors of a few labels as one set, the step properties judged on the way."""
        after = _stacked([frame.finish() for frame in frames])
        if self.steps:
            self._judge_steps(frames, after, steps)
        found = keys.distinct(after)
        standing = self.model.representatives(found.states)
        return found if standing is found.states else keys.distinct(standing)

    def _judge_steps(self, frames: list[Frame], after: U64, steps: dict[str, tuple[int, Found]]) -> None:
        """Keep the violation from the earliest row: a choice that does not depend on the chunks."""
        before = keys.concatenated([frame.kept_before() for frame in frames])
        for wanted in self.steps:
            holds = self.model.holds_between(wanted, before, after)
            if holds.all():
                continue
            start = 0
            for frame in frames:
                part = holds[start : start + frame.size]
                at = int(part.argmin())
                row = int(frame.origin()[at])
                if not part[at] and (wanted.name not in steps or row < steps[wanted.name][0]):
                    one, other = packed(before, start + at), packed(after, start + at)
                    steps[wanted.name] = row, Found(self.depth, one, frame.label, other)
                start += frame.size


def _stacked(parts: list[list[U64]]) -> U64:
    """Successors of many labels, each given as its words, as one new array."""
    states = np.empty((len(parts[0]), sum(len(part[0]) for part in parts)), np.uint64)
    for number in range(len(states)):
        np.concatenate([part[number] for part in parts], out=states[number])
    return states
