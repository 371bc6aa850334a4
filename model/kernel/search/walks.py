"""Random walks, tens of thousands at once, for spaces too large to finish.

Each walk begins at a random start and takes a random enabled label, again and again; if it is stuck it begins
anew. Walks are columns like everything else: a block of walks takes one step by running every label on all of
them, and each row keeps one of its successors. The k-th enabled label replaces the choice so far with
probability 1/k, so every enabled label is equally likely.

Walks find violations and never prove anything: a property that is not violated is `undecided`. Every block
has its own stream of random numbers, made from the seed and the number of the block, so one seed gives the
same walks on any number of cores. No history is kept: if a walk finds something, its block walks again, and
only that row is recorded. The reported counterexample is shortened (`shorten.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.errors import BadSettings
from fencepost.model.kernel.language.kinds import Judged
from fencepost.model.kernel.language.layout import I64, U64, packed
from fencepost.model.kernel.language.machine import Machine
from fencepost.model.kernel.language.model import Model, Transition
from fencepost.model.kernel.report.result import DEADLOCK, CheckResult, PropertyResult, Verdict, result_of
from fencepost.model.kernel.report.vacuity import unused
from fencepost.model.kernel.search.explore import Progress, cores
from fencepost.model.kernel.search.keys import odds
from fencepost.model.kernel.search.shorten import Walk, shortened
from fencepost.model.kernel.search.visited import Seen

_BLOCK = 1 << 15
"""Walks side by side: enough for NumPy's loops, few enough for the caches."""

_MEMORY = 1 << 29
"""Bytes for counting distinct states, unless a limit is given."""

_BOTH_MACHINES = "walks see one machine, and a refinement is about two"
_WHOLE_RUNS = "walks see states and steps, not whole runs"


@dataclass(frozen=True)
class _Stride:
    """One step of a block: rows went from `before` to `after` by `labels`; a row with -1 is stuck."""

    before: U64
    after: U64
    labels: I64


@dataclass
class _Block:
    """The result of one block of walks: for each property the first step and row that decided it."""

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
) -> CheckResult:
    """Take `walks` random walks of `steps` steps and report what they found; stop at the first violation.

    `memory` limits the count of distinct states, which is an estimate beyond that limit.
    """
    for name, value in {"walks": walks, "steps": steps, "memory": memory, "workers": workers}.items():
        if value is not None and value < 1:
            raise BadSettings(f"{name}={value} must be at least 1")
    if seed < 0:
        raise BadSettings(f"seed={seed} must not be negative")
    model = machine if isinstance(machine, Model) else Model(machine, sizes, without=without)
    if model.bounds:
        raise BadSettings(f"{model.name} has a @bound, which random walks do not know: leave out --walks")
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
        self._keep_going = keep_going
        self._starts = model.initial()
        self._wanted = [*model.properties, DEADLOCK] if deadlock else list(model.properties)
        self._open = {
            wanted.name: wanted for wanted in self._wanted if wanted.kind.judged is not Judged.AFTERWARDS
        }
        self._decided: dict[str, PropertyResult] = {}
        self._notes: list[str] = []
        self._fired = np.zeros(len(model.labels), np.int64)
        self._longest = 0
        self._walked = 0

    def run(self, workers: int, progress: Callable[[Progress], None] | None) -> CheckResult:
        begun = perf_counter()
        blocks = -(-self._walks // _BLOCK)
        with ThreadPoolExecutor(workers) as pool:
            for first in range(0, blocks, workers):
                # As a list: no block of this wave may see what another one decided.
                for block in list(pool.map(self._walk_block, range(first, min(blocks, first + workers)))):
                    self._account(block)
                if progress is not None:
                    progress(self._progress(perf_counter() - begun))
                violated = any(found.verdict == "violated" for found in self._decided.values())
                if violated and not self._keep_going:
                    break
        return self._result(perf_counter() - begun)

    def _size(self, number: int) -> int:
        return min(_BLOCK, self._walks - number * _BLOCK)

    def _walk_block(self, number: int) -> _Block:
        """Walk one block to its end, or to the first step that decides something."""
        block = _Block(number, np.zeros(len(self._model.labels), np.int64))
        lengths = np.zeros(self._size(number), np.int64)
        for at, stride in enumerate(self._strides(number)):
            moved = stride.labels >= 0
            block.fired += np.bincount(stride.labels.compress(moved), minlength=len(block.fired))
            lengths = np.where(moved, lengths + 1, 0)
            block.longest = max(block.longest, int(lengths.max()))
            for wanted in self._open.values():
                place = None if wanted.name in block.found else self._place(wanted, at, stride)
                if place is not None:
                    block.found[wanted.name] = place
            self._seen.add(stride.before)
            if at == self._steps - 1:
                self._seen.add(stride.after)
            if not self._keep_going and not all(self._open[name].kind.is_goal for name in block.found):
                break
        return block

    def _strides(self, number: int) -> Iterator[_Stride]:
        """The steps of a block, the same at every call."""
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

    def _place(self, wanted: Property, at: int, stride: _Stride) -> tuple[int, int] | None:
        """The step and the row that decide a property, if one does.

        States are judged before they are left, and after the last step.
        """
        model = self._model
        if wanted.kind.judged is not Judged.STATES:
            if wanted.kind.judged is Judged.STEPS:
                rows = np.flatnonzero(stride.labels >= 0)
                before, after = stride.before.take(rows, axis=1), stride.after.take(rows, axis=1)
                rows = rows.compress(~model.holds_between(wanted, before, after))
            else:
                rows = np.flatnonzero(stride.labels < 0)
                rows = rows.compress(~model.may_end(stride.before.take(rows, axis=1)))
            return (at, int(rows[0])) if len(rows) else None
        last = at == self._steps - 1
        for place, states in [(at, stride.before), *([(at + 1, stride.after)] if last else [])]:
            deciding = model.holds(wanted, states) == wanted.kind.decided_by
            if deciding.any():
                return place, int(deciding.argmax())
        return None

    def _account(self, block: _Block) -> None:
        self._fired += block.fired
        self._longest = max(self._longest, block.longest)
        self._walked += self._size(block.number)
        for name, (at, row) in block.found.items():
            if name in self._open:
                self._decide(self._open.pop(name), block.number, at, row)

    def _decide(self, wanted: Property, number: int, at: int, row: int) -> None:
        found = self._again(number, at, row, step=wanted.kind.judged is Judged.STEPS)
        short = shortened(self._model, found, wanted)
        fewest = "the fewest possible" if short.is_shortest else "there may be a shorter counterexample"
        self._notes.append(
            f"{wanted.name}: found by a walk of {len(found)} steps, reported in {len(short.counterexample)}: "
            f"{fewest}"
        )
        verdict: Verdict = "holds" if wanted.kind.is_goal else "violated"
        self._decided[wanted.name] = PropertyResult.of(wanted, verdict, short.counterexample)

    def _again(self, number: int, at: int, row: int, *, step: bool) -> Walk:
        """Walk a block again up to a step, and record one row of it since it last began."""
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

    def _property(self, wanted: Property) -> PropertyResult:
        if wanted.name in self._decided:
            return self._decided[wanted.name]
        walked = f"no walk met it: {self._walked:,} walks of {self._steps:,} steps, seed {self._seed}"
        unseen = _BOTH_MACHINES if wanted.kind.explores else _WHOLE_RUNS
        return PropertyResult.of(wanted, "undecided", reason=walked if wanted.name in self._open else unseen)

    def _progress(self, seconds: float) -> Progress:
        taken, seen = int(self._fired.sum()), self._seen
        return Progress(self._longest + 1, self._walked, seen.count, taken, seconds, seen.peak_bytes)

    def _result(self, seconds: float) -> CheckResult:
        seen = self._seen
        states = f"{seen.count:,} states"
        if not seen.is_exact:
            states = f"about {states} (one in {seen.share:,} counted, standard error {seen.error:.2%})"
        note = f"{self._walked:,} walks of {self._steps:,} steps, seed {self._seed}, saw {states}"
        return result_of(
            self._model,
            self._fired.tolist(),
            [self._property(wanted) for wanted in self._wanted],
            complete=False,
            distinct=seen.count,
            generated=int(self._fired.sum()),
            depth=self._longest + 1,
            seconds=seconds,
            peak_bytes=seen.peak_bytes,
            collision_odds=odds(self._model.words, seen.count),
            stopped_by="" if self._walked >= self._walks else "a violation",
            notes=(note, *self._notes),
            vacuity_warnings=tuple(unused(self._model)),
        )
