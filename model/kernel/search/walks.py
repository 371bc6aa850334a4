"""Random walks, tens of thousands at once, for spaces too large to finish.

Each walk starts at a random start and takes a random enabled label, again and again; where it can go
no further it starts anew. Walks are columns like everything else: a block of walks takes one step by
running every label on all of them, and each row keeps one of its successors (the k-th enabled label
replaces the choice so far with probability 1/k, so every enabled label is equally likely).

Walks find violations and never prove anything: what was not violated is `undecided`. Every block has
its own stream of random numbers, made from the seed and the block's number, so the same seed walks
the same walks on any number of cores. No history is kept: when a walk finds something, its block
walks again, and only that row is written down. The counterexample told is a shortened one (`shorten.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from fencepost.model.kernel.check import DEADLOCK_DOC, NO_DEADLOCK
from fencepost.model.kernel.language.declare import Kind, Property
from fencepost.model.kernel.language.errors import BadSettings
from fencepost.model.kernel.language.layout import I64, U64, packed
from fencepost.model.kernel.language.machine import Machine
from fencepost.model.kernel.language.model import Model, Transition
from fencepost.model.kernel.report.result import PropertyResult, Result, Verdict, worst
from fencepost.model.kernel.search.explore import Progress, cores
from fencepost.model.kernel.search.keys import odds
from fencepost.model.kernel.search.shorten import Walk, shortened
from fencepost.model.kernel.search.visited import Seen

_BLOCK = 1 << 15
"""Walks that go side by side: enough for NumPy's loops, few enough for the caches."""

_MEMORY = 1 << 29
"""Bytes for counting distinct states, when no limit is given."""

_WHOLE_RUNS = "walks see states and steps, not whole runs"


@dataclass(frozen=True)
class _Stride:
    """One step of a block: rows went from `before` to `after` by `labels`; a row with -1 is stuck."""

    before: U64
    after: U64
    labels: I64


@dataclass
class _Block:
    """What one block of walks found: for each property the first step and row that decided it."""

    number: int
    fired: I64
    longest: int = 0
    found: dict[str, tuple[int, int]] = field(default_factory=dict)


def walk(
    machine: type[Machine] | Model,
    sizes: Mapping[str, int] | None = None,
    *,
    without: Iterable[str] = (),
    walks: int = 1_000_000,
    steps: int = 100,
    seed: int = 0,
    memory: int | None = None,
    workers: int | None = None,
    keep_going: bool = False,
    deadlock: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Take `walks` random walks of `steps` steps and tell what they met; stops when something is violated.

    `memory` limits what is kept to count distinct states, which is an estimate from then on.
    """
    for name, value in {"walks": walks, "steps": steps, "memory": memory, "workers": workers}.items():
        if value is not None and value < 1:
            raise BadSettings(f"{name}={value} must be at least 1")
    if seed < 0:
        raise BadSettings(f"seed={seed} must not be negative")
    model = machine if isinstance(machine, Model) else Model(machine, sizes, without=without)
    seen = Seen((memory or _MEMORY) // 16)
    walker = _Walker(model, walks, steps, seed, seen, deadlock=deadlock, keep_going=keep_going)
    return walker.run(workers or cores(), progress)


class _Walker:
    """All blocks of walks over one model."""

    def __init__(
        self, model: Model, walks: int, steps: int, seed: int, seen: Seen, *, deadlock: bool, keep_going: bool
    ) -> None:
        self._model = model
        self._walks = walks
        self._steps = steps
        self._seed = seed
        self._seen = seen
        self._deadlock = deadlock
        self._keep_going = keep_going
        self._starts = model.initial()
        self._open = {p.name: p for p in model.properties if p.kind in ("invariant", "reachable", "step")}
        self._told: dict[str, PropertyResult] = {}
        self._notes: list[str] = []
        self._fired = np.zeros(len(model.labels), np.int64)
        self._longest = 0
        self._walked = 0

    def run(self, workers: int, progress: Callable[[Progress], None] | None) -> Result:
        begun = perf_counter()
        blocks = -(-self._walks // _BLOCK)
        with ThreadPoolExecutor(workers) as pool:
            for first in range(0, blocks, workers):
                wave = range(first, min(blocks, first + workers))
                for block in pool.map(self._walk_block, wave):
                    self._account(block)
                if progress is not None:
                    progress(self._progress(perf_counter() - begun))
                if not self._keep_going and any(found.verdict == "violated" for found in self._told.values()):
                    break
        return self._result(perf_counter() - begun)

    def _size(self, number: int) -> int:
        return min(_BLOCK, self._walks - number * _BLOCK)

    def _walk_block(self, number: int) -> _Block:
        """Walk one block to its end, or to the first step at which something is found."""
        block = _Block(number, np.zeros(len(self._model.labels), np.int64))
        lengths = np.zeros(self._size(number), np.int64)
        for at, stride in enumerate(self._strides(number)):
            moved = stride.labels >= 0
            block.fired += np.bincount(stride.labels.compress(moved), minlength=len(block.fired))
            lengths = np.where(moved, lengths + 1, 0)
            block.longest = max(block.longest, int(lengths.max()))
            self._judge(block, at, stride)
            self._seen.add(stride.before)
            if at == self._steps - 1:
                self._seen.add(stride.after)
            if not self._keep_going and any(self._violates(name) for name in block.found):
                break
        return block

    def _violates(self, name: str) -> bool:
        return name not in self._open or self._open[name].kind != "reachable"

    def _strides(self, number: int) -> Iterator[_Stride]:
        """The steps of a block, the same whenever they are asked for."""
        draw = np.random.default_rng([self._seed, number])
        states = self._begin(draw, self._size(number))
        for _ in range(self._steps):
            stride = self._stride(draw, states)
            yield stride
            states = stride.after.copy()
            stuck = np.flatnonzero(stride.labels < 0)
            states[:, stuck] = self._begin(draw, len(stuck))

    def _begin(self, draw: np.random.Generator, count: int) -> U64:
        return self._starts.take(draw.integers(self._starts.shape[1], size=count), axis=1)

    def _stride(self, draw: np.random.Generator, states: U64) -> _Stride:
        rows = states.shape[1]
        enabled = np.zeros(rows, np.float32)
        after, labels = states.copy(), np.full(rows, -1, np.int64)
        for label in self._model.labels:
            frame = self._model.apply(states, label)
            if frame is None:
                continue
            origin = frame.origin()
            enabled[origin] += 1
            chosen = draw.random(len(origin), np.float32) * enabled.take(origin) < 1
            taken = origin.compress(chosen)
            labels[taken] = label.number
            for word, found in zip(after, frame.finish(), strict=True):
                word[taken] = found.compress(chosen)
        return _Stride(states, after, labels)

    def _judge(self, block: _Block, at: int, stride: _Stride) -> None:
        """Note what is decided first; states are judged before they are left, and after the last step."""
        for wanted in self._open.values():
            if wanted.name not in block.found:
                place = self._decided(wanted, at, stride)
                if place is not None:
                    block.found[wanted.name] = place
        if self._deadlock and NO_DEADLOCK not in block.found and NO_DEADLOCK not in self._told:
            stuck = np.flatnonzero(stride.labels < 0)
            dead = stuck.compress(~self._model.may_end(stride.before.take(stuck, axis=1)))
            if len(dead):
                block.found[NO_DEADLOCK] = at, int(dead[0])

    def _decided(self, wanted: Property, at: int, stride: _Stride) -> tuple[int, int] | None:
        """The step and the row that decide a property, if one does."""
        if wanted.kind == "step":
            moved = np.flatnonzero(stride.labels >= 0)
            before, after = stride.before.take(moved, axis=1), stride.after.take(moved, axis=1)
            rows = moved.compress(~self._model.holds_between(wanted, before, after))
            return (at, int(rows[0])) if len(rows) else None
        last = at == self._steps - 1
        for place, states in [(at, stride.before), *([(at + 1, stride.after)] if last else [])]:
            telling = self._model.holds(wanted, states) == (wanted.kind == "reachable")
            if telling.any():
                return place, int(telling.argmax())
        return None

    def _account(self, block: _Block) -> None:
        self._fired += block.fired
        self._longest = max(self._longest, block.longest)
        self._walked += self._size(block.number)
        for name, (at, row) in block.found.items():
            if name not in self._told:
                self._tell(name, self._again(block.number, at, row, step=self._is_step(name)))

    def _is_step(self, name: str) -> bool:
        return name in self._open and self._open[name].kind == "step"

    def _again(self, number: int, at: int, row: int, *, step: bool) -> Walk:
        """Walk a block again up to a step, and write down one row of it since it last began."""
        steps: list[Transition] = []
        for place, stride in enumerate(self._strides(number)):
            state, label = packed(stride.before, row), int(stride.labels[row])
            if place == at and not step:
                return Walk(tuple(steps), state)
            if label < 0:
                steps = []
                continue
            steps.append((state, self._model.labels[label]))
            if place == at:
                break
        return Walk(tuple(steps), packed(stride.after, row))

    def _tell(self, name: str, found: Walk) -> None:
        wanted = self._open.pop(name, None)
        short = shortened(self._model, found, wanted)
        fewest = "the fewest possible" if short.is_shortest else "there may be a shorter counterexample"
        self._notes.append(
            f"{name}: met by a walk after {len(found)} steps, told in {len(short.counterexample)}: {fewest}"
        )
        verdict: Verdict = "holds" if wanted is not None and wanted.kind == "reachable" else "violated"
        kind: Kind = "deadlock" if wanted is None else wanted.kind
        doc = DEADLOCK_DOC if wanted is None else wanted.doc
        self._told[name] = PropertyResult(name, kind, verdict, short.counterexample, doc)

    def _property(self, wanted: Property) -> PropertyResult:
        if wanted.name in self._told:
            return self._told[wanted.name]
        reason = self._reason() if wanted.name in self._open else _WHOLE_RUNS
        return PropertyResult(wanted.name, wanted.kind, "undecided", None, wanted.doc, reason)

    def _reason(self) -> str:
        return f"no walk met it: {self._walked:,} walks of {self._steps:,} steps, seed {self._seed}"

    def _progress(self, seconds: float) -> Progress:
        taken = int(self._fired.sum())
        return Progress(
            self._longest + 1, self._walked, self._seen.count, taken, seconds, self._seen.peak_bytes
        )

    def _result(self, seconds: float) -> Result:
        model, seen = self._model, self._seen
        properties = [self._property(wanted) for wanted in model.properties]
        if self._deadlock:
            undecided = PropertyResult(
                NO_DEADLOCK, "deadlock", "undecided", None, DEADLOCK_DOC, self._reason()
            )
            properties.append(self._told.get(NO_DEADLOCK, undecided))
        coverage = dict.fromkeys(model.actions, 0)
        for label, count in zip(model.labels, self._fired.tolist(), strict=True):
            coverage[label.action] += count
        saw = f"{seen.count:,} states"
        if not seen.is_exact:
            saw = f"about {saw} (one in {seen.share:,} counted, standard error {seen.error:.2%})"
        note = f"{self._walked:,} walks of {self._steps:,} steps, seed {self._seed}, saw {saw}"
        return Result(
            model=model.name,
            parameters=dict(model.sizes),
            without=tuple(sorted(model.without)),
            verdict=worst([*(found.verdict for found in properties), "undecided"]),
            distinct=seen.count,
            generated=int(self._fired.sum()),
            depth=self._longest + 1,
            seconds=seconds,
            peak_bytes=seen.peak_bytes,
            properties=tuple(properties),
            coverage=coverage,
            words=model.words,
            collision_odds=odds(model.words, seen.count),
            stopped_by="" if self._walked >= self._walks else "a violation",
            labels_fired={str(label): int(n) for label, n in zip(model.labels, self._fired, strict=True)},
            notes=(note, *self._notes),
        )
