"""All successors of a chunk of states, as a set, label by label; with them, the violations on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.layout import I64, U64, Mask, PackedState, packed
from fencepost.model.kernel.language.model import Label, Model
from fencepost.model.kernel.search import keys
from fencepost.model.kernel.search.keys import Batch

PENDING = 1 << 20
"""Successors to gather before repetitions are dropped, so that many labels need no more memory."""


def row_bytes(words: int) -> int:
    """Bytes of work, at most, for each successor while a set is made of them: copies, keys, an order."""
    return 25 if words == 1 else 24 * words + 40


BadStep = tuple[int, PackedState, Label, PackedState]
"""A row that violates a step property, the state before, the label, the state after."""
BadSteps = dict[str, BadStep]
"""By step property, the first."""


@dataclass
class Expanded:
    """The result of one chunk."""

    batch: Batch
    fired: I64
    deadlock: PackedState | None
    steps: BadSteps
    work_bytes: int


@dataclass
class Begun:
    """The successors that some labels have found in a chunk."""

    fired: I64
    alive: Mask
    """Which states have a successor."""
    batches: list[Batch] = field(default_factory=list)
    bad: BadSteps = field(default_factory=dict)
    most: int = 0
    """Successors that were gathered at a time."""

    @classmethod
    def of(cls, model: Model, states: U64) -> "Begun":
        return cls(np.zeros(len(model.labels), np.int64), np.zeros(states.shape[1], np.bool_))


def expand(
    model: Model,
    states: U64,
    *,
    steps: tuple[Property, ...] = (),
    deadlocks: bool = True,
    exact: bool = False,
    pending: int = PENDING,
    labels: Sequence[Label] | None = None,
    begun: Begun | None = None,
) -> Expanded:
    """All successors of a chunk, as a set, with violations of step properties and the first deadlock.

    Step properties see the successors before these are sorted, while before and after line up. If others have
    begun, `labels` are what is left.
    """
    found = Begun.of(model, states) if begun is None else begun
    looking = deadlocks and not found.alive.all()
    frames: list[Frame] = []
    gathered = 0
    for label in model.labels if labels is None else labels:
        frame = model.apply(states, label)
        if frame is None:
            continue
        found.fired[label.number] = frame.size
        if looking:
            frame.mark_origin(found.alive)
            looking = not found.alive.all()
        frames.append(frame)
        gathered += frame.size
        found.most = max(found.most, gathered)
        if gathered > pending:
            found.batches.append(_gather(model, frames, steps, found.bad, exact))
            frames, gathered = [], 0
    if frames:
        found.batches.append(_gather(model, frames, steps, found.bad, exact))
    deadlock = None
    if looking:
        stuck = np.flatnonzero(~found.alive)
        stuck = stuck.compress(~model.may_end(states.take(stuck, axis=1)))
        deadlock = packed(states, int(stuck[0])) if len(stuck) else None
    batches = found.batches
    union = keys.merge(batches, exact=exact) if batches else keys.empty(model.words)
    merged = sum(map(len, batches)) if len(batches) > 1 else 0
    work_bytes = max(found.most, merged) * row_bytes(model.words)
    return Expanded(union, found.fired, deadlock, found.bad, work_bytes)


def set_of(model: Model, after: U64, *, exact: bool) -> Batch:
    """Some successors as a set, each by its representative. May sort `after` in place."""
    found = keys.distinct(after, exact=exact)
    representatives = model.representatives(found.states)
    return found if representatives is found.states else keys.distinct(representatives, exact=exact)


def _gather(
    model: Model, frames: list[Frame], steps: tuple[Property, ...], bad: BadSteps, exact: bool
) -> Batch:
    """The successors of a few labels as one set; step properties are judged before that."""
    words = [frame.finish() for frame in frames]
    after = np.empty((model.words, sum(frame.size for frame in frames)), np.uint64)
    for number in range(model.words):
        np.concatenate([part[number] for part in words], out=after[number])
    if steps:
        _judge_steps(model, frames, after, steps, bad)
    return set_of(model, after, exact=exact)


def _judge_steps(
    model: Model, frames: list[Frame], after: U64, steps: tuple[Property, ...], bad: BadSteps
) -> None:
    """Keep the violation of the earliest row: a choice that does not depend on the chunks."""
    before = keys.concatenated([frame.kept_before() for frame in frames])
    for wanted in steps:
        holds = model.holds_between(wanted, before, after)
        if holds.all():
            continue
        start = 0
        for frame in frames:
            part = holds[start : start + frame.size]
            at = int(part.argmin())
            row = int(frame.origin()[at])
            assert frame.label is not None
            if not part[at]:
                keep_first(
                    bad, wanted, (row, packed(before, start + at), frame.label, packed(after, start + at))
                )
            start += frame.size


def keep_first(bad: BadSteps, wanted: Property, found: BadStep) -> None:
    """Keep the violation of the earliest row, and there of the first label."""
    row, _, label, _ = found
    if wanted.name in bad:
        known, _, other, _ = bad[wanted.name]
        if (known, other.number) <= (row, label.number):
            return
    bad[wanted.name] = found
