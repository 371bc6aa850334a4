"""The rows of one call of an action or a property.

A frame holds the packed words of a batch of states while one action, with one choice of its parameters, is
applied to all of them. `narrow_to` keeps the rows where a guard holds. Each narrowing starts a new *epoch*; a
column keeps the epoch in which it was read and is narrowed when it is used later, so that `x = s.count`
before a `require` still lines up after it.

Words are never changed in place, because a column that was read earlier may still use them. Writes of
constants are gathered (`clear` and `put` bits a word) and applied together, in two vector operations a word,
when the word is read or the action ends.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from fencepost.model.kernel.language.errors import ModellingMistake
from fencepost.model.kernel.language.layout import U64, Mask
from fencepost.model.kernel.language.paths import Branching, ExecutionPath, refuse_write

if TYPE_CHECKING:
    from fencepost.model.kernel.language.access import Access, Index
    from fencepost.model.kernel.language.columns import Truth
    from fencepost.model.kernel.language.layout import I64
    from fencepost.model.kernel.language.model import Label, Model
    from fencepost.model.kernel.language.views import Replaced


_FULL = (1 << 64) - 1
_MOST_STARTS = 1 << 26
_TRIAL = 1 << 32
"""Epochs of a trial begin at a multiple of this, so that they never equal those of other rows."""
T = TypeVar("T")
_OVER = -1
KEPT_TOO_LONG = (
    "this was read from `s` in an earlier call of an action or a property, and belongs to the states of that "
    "call: keep nothing of `s` outside of the function, and read it again from the current `s`"
)


class NothingLeft(BaseException):  # not an error: it ends an action when no row passes its guard
    """No row passed a guard: nothing is left to compute."""


class Frame:
    """A batch of states in the middle of an action; read-only during the call of a property."""

    is_scoped = False
    """Run every definition that may branch as a computation of its own, see `paths`."""

    def __init__(
        self,
        model: "Model",
        words: U64,
        label: "Label | None" = None,
        *,
        read_only: bool = False,
        path: ExecutionPath | None = None,
    ) -> None:
        self._branching: Branching | None = None if path is None else Branching((self,), path)
        self._path: ExecutionPath | None = None
        self.writes = 0
        """Assignments and guards so far."""
        self.is_property = read_only
        self.model = model
        self.before = words
        self.label = label
        self.read_only = read_only
        self.guarded = False
        self.stopped = False
        self.is_start = False
        self.jumped: list[tuple[str, Index]] = []
        """The program counters that an action assigned."""
        self.trials: list[int] = []
        self.begun_trials = 0
        self.watching: dict[str, bool] | None = None
        self.replaced: tuple[Replaced, ...] = ()
        self.epoch = 0
        self.size = len(words[0])
        self._words: list[U64] = list(words)
        self._clear = [0] * len(words)
        self._put = [0] * len(words)
        self._masks: list[Mask | I64] = []

    def part(self, model: "Model", first: int, end: int, *, read_only: bool) -> "Frame":
        """Some words of the same rows as a frame of another model."""
        return Frame(model, self.before[first:end], self.label, read_only=read_only)

    def word(self, number: int) -> U64:
        """The current content of a word, for the remaining rows."""
        if self.epoch == _OVER:
            raise ModellingMistake(KEPT_TOO_LONG)
        return self._settled(number)

    def _settled(self, number: int) -> U64:
        clear = self._clear[number]
        if clear:
            word: U64 = self._words[number] & np.uint64(_FULL ^ clear)
            if self._put[number]:
                word |= self._put[number]
            self._words[number] = word
            self._clear[number] = self._put[number] = 0
        current: U64 = self._words[number]
        return current

    def put_constant(self, number: int, mask: int, bits: int) -> None:
        """Write `bits` under `mask` in every row, when the word is needed."""
        self._check_writable()
        self._clear[number] |= mask
        self._put[number] = self._put[number] & ~mask | bits

    def put_word(self, number: int, word: U64) -> None:
        """Replace a word (read through `word`) by a new array."""
        self._check_writable()
        self._words[number] = word

    @staticmethod
    def some_of(words: U64, path: ExecutionPath) -> U64:
        """The states of a batch that take a path."""
        return words if path.rows is None else words.take(path.rows, axis=1)

    @property
    def branching(self) -> Branching:
        """The paths of this call."""
        if self._branching is None:
            self._branching = Branching((self,))
        return self._branching

    @property
    def path(self) -> ExecutionPath | None:
        """The path of an action; None as long as it has decided nothing."""
        return self._path if self._branching is None else self._branching.path

    @staticmethod
    def together(frames: "tuple[Frame, ...]") -> None:
        """Make frames lose their rows together, as those before and after a step."""
        branching = Branching(frames)
        for frame in frames:
            frame._branching = branching  # noqa: SLF001  # of its own class

    def numbers(self) -> "I64":
        """For each remaining row, its number in the batch before the first path."""
        return self.origin() if self.path is None else self._numbers(self.path)

    def first_path(self) -> ExecutionPath:
        """The path of all rows."""
        return ExecutionPath(len(self.before[0]))

    @property
    def narrowings(self) -> int:
        """The number of times that rows were removed."""
        return len(self._masks)

    def divide(self, path: ExecutionPath, mask: Mask) -> "tuple[bool, I64 | None]":
        """The branch that some rows take, and the numbers of the rows that take the other one, if any."""
        if mask.all():
            return True, None
        if not mask.any():
            return False, None
        others = self._numbers(path).compress(~mask)
        return True, np.unique(others) if self.is_start else others

    def keep(self, path: ExecutionPath, mask: Mask, value: bool) -> None:
        """Keep the rows of one branch."""
        self.guarded = True
        self._narrow(mask if value else ~mask)

    def mask_of(self, rows: "I64 | None") -> Mask:
        """Which of the present rows these are."""
        mask = np.full(self.size, rows is None)
        if rows is not None:
            mask[rows] = True
        return mask

    def rows_of(self, path: ExecutionPath) -> Mask:
        """Which of the rows before a path have taken it."""
        mask = np.zeros(path.before, np.bool_)
        mask[self._numbers(path)] = True
        return mask

    def leave(self, path: ExecutionPath) -> None:
        """End a path of a computation."""

    def _numbers(self, path: ExecutionPath) -> "I64":
        """The numbers of the remaining rows in the batch before a path."""
        rows = np.arange(path.before) if path.rows is None else path.rows
        for mask in self._masks[path.base :]:
            rows = _kept(rows, mask)
        return rows

    def replace(self, access: "Access", flat: "Index") -> None:
        """Invalidate the older views of an array or a sequence before it is assigned as a whole."""
        self._check_writable()
        self.replaced = (*self.replaced, (access, flat))

    def narrow_to(self, truth: "Truth") -> None:
        """Keep the rows where a condition holds."""
        self._check_writable()
        self.guarded = True
        mask = truth.mask()
        if mask.ndim == 0:
            if not mask:
                self._stop()
            return
        self._narrow(mask)

    def _stop(self) -> NoReturn:
        """No row is left: end the author's text; `stopped` reveals that it caught the exception."""
        self.size = 0
        self.stopped = True
        raise NothingLeft

    def _narrow(self, mask: Mask) -> None:
        kept = int(np.count_nonzero(mask))
        if kept == self.size:
            return
        if kept == 0:
            self._stop()
        if len(self._words) == 1:
            self._words[0] = self._words[0].compress(mask)
        else:
            rows = mask.nonzero()[0]
            self._words = [word.take(rows) for word in self._words]
        self._masks.append(mask)
        self.epoch += 1
        self.size = kept

    def narrowed(
        self, array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]", epoch: int
    ) -> "np.ndarray[tuple[int, ...], np.dtype[np.generic]]":
        """An array that was read in `epoch`, narrowed to the remaining rows."""
        if self.epoch == _OVER:
            raise ModellingMistake(KEPT_TOO_LONG)
        trial, epoch = divmod(epoch, _TRIAL)
        if trial and trial not in self.trials:
            raise ModellingMistake(KEPT_TOO_LONG)
        if array.ndim:
            for mask in self._masks[epoch:]:
                array = _kept(array, mask)
        return array

    def widen(self, count: int) -> "I64":
        """Repeat every row `count` times; the number of each among the repetitions of its row."""
        self._check_writable()
        if not self.is_start:
            raise ModellingMistake(
                f"{self.doing()} assigns anything(): only an @initial does; an action that chooses has a "
                "parameter, @action(value=(...)), one label for each choice"
            )
        if self.size * count > _MOST_STARTS:
            raise ModellingMistake(
                f"{self.doing()} has more than {_MOST_STARTS:,} starts: require what they have in common, or "
                "give smaller sizes"
            )
        rows = np.repeat(np.arange(self.size), count)
        self._words = [self._settled(number).take(rows) for number in range(len(self._words))]
        numbers = np.tile(np.arange(count), self.size)
        self._masks.append(rows)
        self.epoch += 1
        self.size *= count
        return numbers

    def where(self, mask: Mask, work: "Callable[[], T]") -> "T":
        """The result of `work` on the rows of a mask only; afterwards all rows are there again.

        A column that was read during such a trial belongs to it: using it later is an error.
        """
        rows = mask.nonzero()[0]
        before = self._words, self._masks, self.epoch, self.size, self.read_only
        self._words = [self._settled(number).take(rows) for number in range(len(self._words))]
        self._masks = [*self._masks, mask]
        self.begun_trials += 1
        self.trials.append(self.begun_trials)
        self.epoch = self.begun_trials * _TRIAL + len(self._masks)
        self.size = len(rows)
        self.read_only = True
        try:
            return work()
        finally:
            self.trials.pop()
            self._words, self._masks, self.epoch, self.size, self.read_only = before

    def occurs(self, mask: Mask) -> bool:
        """True if a mask has a row, so that it is worth to compute a branch."""
        return bool(mask.any())

    def spread(self, mask: Mask, codes: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """Codes that were computed on the rows of a mask, for all rows; the others are never read."""
        every = np.zeros(len(mask), codes.dtype)
        every[mask] = codes
        return every

    def close(self) -> None:
        """End the use of these rows: columns that the author's text kept must not meet other rows."""
        self.epoch = _OVER
        self._path = self.path
        self._branching = None  # it refers to this frame: without the cycle, memory is free at once

    def finish(self) -> list[U64]:
        """The words of the remaining rows, all writes applied."""
        return [self._settled(number) for number in range(len(self._words))]

    def origin(self) -> "I64":
        """For each remaining row, its number in the original batch."""
        rows = np.arange(len(self.before[0]), dtype=np.int64)
        for mask in self._masks:
            rows = _kept(rows, mask)
        return rows

    def kept_before(self) -> U64:
        """The states before the action, of the remaining rows: they line up with `finish`."""
        before = self.before
        for mask in self._masks:
            if len(before) == 1:
                before = before[0].compress(mask)[np.newaxis, :]
            else:
                before = before.take(mask.nonzero()[0], axis=1)
        return before

    def mark_origin(self, marks: Mask) -> None:
        """Set `marks` for the remaining rows: cheaper than `origin` if one guard narrowed."""
        if not self._masks:
            marks[:] = True
        elif len(self._masks) == 1:
            np.logical_or(marks, self._masks[0], out=marks)
        else:
            marks[self.origin()] = True

    def state_before(self, row: int) -> dict[str, object]:
        """The state before the action of the row that is now at `row`."""
        at = int(self.origin()[row])
        return self.model.unpack(tuple(int(word[at]) for word in self.before))

    def doing(self) -> str:
        """The current label, for messages."""
        return str(self.label) if self.label is not None else "a property"

    def _check_writable(self) -> None:
        self.writes += 1
        if self.read_only:
            path = self.path
            is_path = path is not None and len(self.trials) == path.trials
            if is_path and not self.is_property:
                refuse_write()
            if self.trials and not is_path:
                raise ModellingMistake(
                    "the function of a branch only computes a value: require and assign outside of it"
                )
            raise ModellingMistake(
                "a property only reads: require and assign in an action, and return a condition here"
            )


class Joined(Frame):
    """The rows that the paths of an action left, in the order of the batch."""

    def __init__(self, parts: "list[Frame]", before: U64) -> None:
        self.parts = parts
        self.model = parts[0].model
        self.label = parts[0].label
        self.before = before
        self.size = sum(part.size for part in parts)

    @cached_property
    def _origins(self) -> "tuple[I64, I64]":
        """The numbers of the rows in the batch, sorted, and the order that sorts the rows of all parts."""
        origins = np.concatenate([part.numbers() for part in self.parts])
        order = origins.argsort(kind="stable")
        return origins.take(order), order

    def finish(self) -> list[U64]:
        _, order = self._origins
        words = zip(*(part.finish() for part in self.parts), strict=True)
        return [np.concatenate(word).take(order) for word in words]

    def origin(self) -> "I64":
        return self._origins[0]

    def kept_before(self) -> U64:
        return self.before.take(self.origin(), axis=1)

    def mark_origin(self, marks: Mask) -> None:
        marks[self.origin()] = True


def _kept(array: "np.ndarray[Any, Any]", mask: "Mask | I64") -> "np.ndarray[Any, Any]":
    """The entries that a guard kept, or those that a choice repeated."""
    return array.compress(mask) if mask.dtype == np.bool_ else array.take(mask)
