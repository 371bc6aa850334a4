"""What a process can wait for, besides a store request: each is one step of the schedule.

Note      an observation that properties may read; its own step, because time may pass before it
ReadClock the wall or the monotonic clock; a step because time may pass before the reading
Sleep     starts at the time the step is taken; then `Wake` waits until the clock has come that far
Pick      a choice of data, explored like any other
Parallel  several requests issued at once; each lands as a step of its own
Finish    the entry point returned or raised; a step, so that a crash can come just before it
"""

from collections.abc import Sequence
from typing import Any

from fencepost.impl.store.requests import Delete, Get, Head, Put


class Crash(BaseException):
    """Unwinds a process of the world. It derives from BaseException because a crash is nobody's to handle."""


class Note:
    __slots__ = ("topic", "value")
    kind = "note"

    def __init__(self, topic: str, value: Any) -> None:
        self.topic = topic
        self.value = value

    @property
    def subject(self) -> str:
        return self.topic


class ReadClock:
    __slots__ = ("subject",)
    kind = "clock"

    def __init__(self, subject: str) -> None:
        self.subject = subject


class Sleep:
    __slots__ = ("nanoseconds",)
    kind = "sleep"
    subject = ""

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds


class Wake:
    __slots__ = ("until_ns",)
    kind = "wake"
    subject = ""

    def __init__(self, until_ns: int) -> None:
        self.until_ns = until_ns


class Pick:
    __slots__ = ("count", "subject")
    kind = "pick"

    def __init__(self, name: str, count: int) -> None:
        self.subject = name
        self.count = count


class Post:
    __slots__ = ("message", "subject")
    kind = "post"

    def __init__(self, channel: str, message: Any) -> None:
        self.subject = channel
        self.message = message


class Receive:
    __slots__ = ("subject",)
    kind = "receive"

    def __init__(self, channel: str) -> None:
        self.subject = channel


class Parallel:
    __slots__ = ("requests",)
    kind = "parallel"
    subject = ""

    def __init__(self, requests: Sequence[Any]) -> None:
        self.requests = requests


class Finish:
    __slots__ = ("error", "result")
    kind = "finish"
    subject = ""

    def __init__(self, result: Any, error: BaseException | None) -> None:
        self.result = result
        self.error = error


class Advance:
    """Time passes until the next sleeper may wake. The clock's own step."""

    __slots__ = ()
    kind = "advance"
    subject = ""


ADVANCE = Advance()
WALL = ReadClock("wall")
MONOTONIC = ReadClock("monotonic")


def same(one: Any, other: Any) -> bool:
    """Whether two operations ask for the same thing: how a run that does not repeat is noticed."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    compared = _COMPARED.get(type(one))
    if compared is None:
        return bool(one == other)
    return all(getattr(one, name) == getattr(other, name) for name in compared)


_COMPARED: dict[type, tuple[str, ...]] = {
    # Requests by what tells runs apart; comparing metadata costs more than the rest together.
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
    Advance: (),
}
