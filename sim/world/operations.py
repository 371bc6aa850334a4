"""Operations that a process can wait for besides a store request: each is one step of the schedule.

Note      an observation that properties may read; its own step, because time may pass before it.
ReadClock the wall or the monotonic clock; a step because time may pass before the reading.
Sleep     starts when the step is taken; then `Wake` waits until the clock has come that far.
Pick      a choice of data, explored like any other.
Post      a message to a channel; `Receive` takes the next one that has arrived.
Parallel  several requests issued at once; each lands as a step of its own.
Finish    the entry point returned or raised; a step, so that a crash can come just before it.
Call      a system call on the world's file system, see `sim.filesystem`.
Start     a thread begins; Sync is its use of a lock, an event or a queue, see `sim.threads`.
Delivery  a thread gets the answer to an operation that has taken effect, and goes on, see `thread_steps`.
NextLine  a thread pauses before a line of its code, so that others may go on.
Advance   time passes: the clock's own step.
PowerLoss the power goes off, or stays on to the end; `Survival` then picks a state of the disk.
"""

import copy
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from fencepost.impl.store.requests import Delete, Get, Head, Put


class Crash(BaseException):
    """Unwinds a process of the world. It derives from BaseException because no code may handle a crash."""


@dataclass(slots=True, eq=False)
class Note:
    topic: str
    value: Any
    kind: ClassVar[str] = "note"

    @property
    def subject(self) -> str:
        return self.topic


@dataclass(slots=True, eq=False)
class ReadClock:
    subject: str
    kind: ClassVar[str] = "clock"


@dataclass(slots=True, eq=False)
class Sleep:
    nanoseconds: int
    kind: ClassVar[str] = "sleep"
    subject: ClassVar[str] = ""


@dataclass(slots=True, eq=False)
class Wake:
    until_ns: int
    since_ns: int
    kind: ClassVar[str] = "wake"
    subject: ClassVar[str] = ""


@dataclass(slots=True, eq=False)
class Pick:
    subject: str
    count: int
    kind: ClassVar[str] = "pick"


@dataclass(slots=True, eq=False)
class Post:
    subject: str
    message: Any
    kind: ClassVar[str] = "post"


@dataclass(slots=True, eq=False)
class Receive:
    subject: str
    kind: ClassVar[str] = "receive"


@dataclass(slots=True, eq=False)
class Parallel:
    requests: Sequence[Any]
    kind: ClassVar[str] = "parallel"
    subject: ClassVar[str] = ""


@dataclass(slots=True, eq=False)
class Finish:
    result: Any
    error: BaseException | None
    kind: ClassVar[str] = "finish"
    subject: ClassVar[str] = ""


@dataclass(slots=True, eq=False)
class Start:
    """A thread begins, when `ready` returns True."""

    subject: str
    ready: Callable[[], bool] | None = None
    kind: ClassVar[str] = "start"
    until_ns: ClassVar[int] = -1


@dataclass(slots=True, eq=False)
class Sync:
    """It is possible when `ready` returns True, or at the time `until_ns`; then `take` acts."""

    kind: str
    subject: str
    ready: Callable[[], bool] | None = None
    """None: it is always possible."""
    take: Callable[[], Any] | None = None
    until_ns: int = -1
    """When it gives up; -1: never."""
    held_by: Callable[[], Any] | None = None
    """The process that has what is waited for, if one has."""
    atomic: bool = False
    """True if the code after it belongs to the same step.

    It takes nothing, and either `ready` stays True or the code does not use the answer.
    """
    external: bool = False
    """True if no step of the world ends it."""


@dataclass(slots=True, eq=False)
class Delivery:
    """The operation has taken effect, and its thread waits for the answer."""

    op: Any
    answer: Any
    landed: int
    """Place of the operation's step in the run."""
    kind: ClassVar[str] = "delivery"

    @property
    def subject(self) -> str:
        found: str = self.op.subject
        return found


@dataclass(slots=True, eq=False)
class NextLine:
    """A thread pauses before a line of its code, see `sim.threads.lines`."""

    subject: str
    landed: int
    """Place of the step in which the thread came to it."""
    kind: ClassVar[str] = "line"


@dataclass(slots=True, eq=False)
class Advance:
    kind: ClassVar[str] = "advance"
    subject: ClassVar[str] = ""


class Call(NamedTuple):
    """A system call: its name, the path it is about, and its arguments as values that can be compared."""

    kind: str
    subject: str
    args: tuple[Any, ...]
    closed: tuple[int, ...] = ()
    """Descriptors that the process closed since its last call, which is no step."""
    detail: str = ""
    """For people: what belongs behind the path."""


BLOCKED = "waits"
"""The answer of a call that has to wait."""
CONVERTING = "converts"
"""The answer of a call that released a lock in order to get it in another mode, and goes on."""


@dataclass(slots=True, eq=False)
class PowerLoss:
    kind: ClassVar[str] = "power"
    subject: ClassVar[str] = ""


@dataclass(slots=True, eq=False)
class Survival:
    count: int
    """Of the states that the disk may be in."""
    kind: ClassVar[str] = "pick"
    subject: ClassVar[str] = "survivors"


ADVANCE = Advance()
POWER_LOSS = PowerLoss()
WALL = ReadClock("wall")
MONOTONIC = ReadClock("monotonic")


_FIXED = frozenset({str, bytes, int, float, bool, type(None)})


def own(value: Any) -> Any:
    """Return a copy of the containers in a value, so that later changes do not reach it."""
    kind = type(value)
    if kind in _FIXED:
        return value
    if kind in (tuple, list, set, frozenset, deque):
        if kind is tuple and all(type(one) in _FIXED for one in value):
            return value
        return kind([own(one) for one in value])
    if kind is dict:
        return {own(key): own(one) for key, one in value.items()}
    if kind is bytearray:
        return bytearray(value)
    if is_dataclass(kind) and not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # private
        return copy.deepcopy(value)
    return value


def plain(value: Any) -> Any:
    """Return a hashable value that equals only the plain forms of equal values.

    The plain form of a value that cannot be compared equals nothing else.
    """
    if isinstance(value, list | tuple):
        return (type(value), tuple([plain(item) for item in value]))
    if isinstance(value, dict):
        return (dict, tuple([(plain(key), plain(item)) for key, item in value.items()]))
    if isinstance(value, set):
        return (set, frozenset(plain(item) for item in value))
    try:
        hash(value)
    except TypeError:
        return object()
    return (type(value), value)


def same(one: Any, other: Any) -> bool:
    """Return True if two operations are equal: how a run that does not repeat is noticed."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    compared = _COMPARED.get(type(one))
    if compared is None:
        return bool(one == other)
    return bool(compared(one) == compared(other))


_FIELDS: dict[type, tuple[str, ...]] = {
    # Requests by what distinguishes runs; comparing metadata costs more than the rest together.
    Put: ("key", "body", "when"),
    Get: ("key", "only_if", "unless", "version", "start"),
    Head: ("key", "version"),
    Delete: ("key", "when", "version"),
    Note: ("topic",),
    ReadClock: ("subject",),
    Sleep: ("nanoseconds",),
    Wake: ("until_ns",),
    Pick: ("subject", "count"),
    Post: ("subject", "message"),
    Receive: ("subject",),
    Parallel: ("requests",),
    Finish: (),
    Start: ("subject",),
    Sync: ("kind", "subject"),
    Delivery: ("op.kind", "subject"),
    NextLine: ("subject",),
    Advance: (),
    PowerLoss: (),
    Survival: ("count",),
}
_COMPARED: dict[type, Callable[[Any], Any]] = {
    kind: attrgetter(*names) if names else type for kind, names in _FIELDS.items()
}
