"""The faults of one run, and how many of each it may have.

Faults are branches, not samples: wherever a fault may happen, the search runs both continuations, with it and
without it. The budget keeps that finite and is part of the claim: "every schedule with at most one crash".
The kinds, their texts and their defaults are in `sim.faults`; a budget gives the number of each kind.

`reply_lost` and `request_lost` share a limit: a run has at most max(reply_lost, request_lost) of both
together, and of each at most its own number. So the default budget means one lost message, of either kind,
and not two. A read changes nothing, so losing its request is losing its reply, and `reply_lost` pays for it.

`late` offers `land` at every later step, or `never`; both are free, since the late request has been paid for.
`power_loss` stops all processes at once, and then picks one of the states that the disk may be in, see
`sim.filesystem.survival`.
`pause` lasts as long as a deadline that the run compares with the clock, see `deadlines`, or as the program
configures: every process that was about to act does so much later. `advance`
(time passes until a sleep ends) and `tick` (a moment passes) are free, see `scheduler`.

The search leaves out what would only repeat another branch. It offers a crash only after a step that changed
something (otherwise a crash one step earlier led to the same state), and never at the first step of a
restarted process. A crash after a landing equals the crash before the next step, and every process has a next
step, if only its end. A crash with a request still in flight is `late`, then `crash`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from fencepost.impl.store.errors import Misuse
from fencepost.sim.faults import ALTERNATIVES, KINDS, kind_of


@dataclass(frozen=True)
class Budget:
    """How many faults of each kind one run may have."""

    crash: int = KINDS["crash"].default
    reply_lost: int = KINDS["reply_lost"].default
    request_lost: int = KINDS["request_lost"].default
    late: int = KINDS["late"].default
    conflict: int = KINDS["conflict"].default
    throttled: int = KINDS["throttled"].default
    duplicated: int = KINDS["duplicated"].default
    skew: int = KINDS["skew"].default
    pause: int = KINDS["pause"].default
    restart: int = KINDS["restart"].default
    """A crashed process starts again while this lasts; then it stays down."""
    notification_delayed: int = KINDS["notification_delayed"].default
    power_loss: int = KINDS["power_loss"].default
    """Only in worlds with a file system."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"budget {name}={value!r}: give a whole number, at least 0")

    def left(self) -> tuple[int, ...]:
        """The whole budget, in the order of the constants below."""
        return self._left

    @cached_property
    def _left(self) -> tuple[int, ...]:
        return tuple([getattr(self, name) for name in _PARTS])

    def most(self) -> int:
        """How many faults one run can have; restarts are not faults."""
        counts = asdict(self) | {"restart": 0}
        return sum(counts.values()) - min(self.reply_lost, self.request_lost)

    def sentence(self) -> str:
        """The budget as part of a claim."""
        counts = asdict(self) | {"restart": 0}
        lost = max(self.reply_lost, self.request_lost)
        least = min(counts.pop("reply_lost"), counts.pop("request_lost"))
        parts = [_counted(name, count) for name, count in counts.items() if count]
        if lost and not least:
            parts.insert(
                bool(self.crash), _counted("reply_lost" if self.reply_lost else "request_lost", lost)
            )
        elif lost:
            text = f"{lost} lost {'reply or request' if lost == 1 else 'replies or requests'}"
            if least < lost:
                fewer = "reply_lost" if self.reply_lost < self.request_lost else "request_lost"
                text += f" (at most {_counted(fewer, least)})"
            parts.insert(bool(self.crash), text)
        if self.restart < KINDS["restart"].default and (self.crash or self.power_loss):
            parts.append(_counted("restart", self.restart))
        return "at most " + ", ".join(parts) if parts else "no faults"


def _counted(name: str, count: int) -> str:
    return f"{count} {KINDS[name].one if count == 1 else KINDS[name].many}"


NO_FAULTS = Budget(**{name: 0 for name in KINDS if name != "restart"})

_PARTS = tuple(asdict(NO_FAULTS))
(
    CRASH,
    REPLY_LOST,
    REQUEST_LOST,
    LATE,
    CONFLICT,
    THROTTLED,
    DUPLICATED,
    SKEW,
    PAUSE,
    RESTART,
    DELAYED,
    POWER_LOSS,
) = range(len(_PARTS))

# Categories of steps, as far as faults are concerned.
READ, WRITE, CONDITIONAL, LOCAL, CLOCK, RETRIED, MESSAGE = range(7)


def alternatives(category: int, crashable: bool, left: tuple[int, ...]) -> tuple[str, ...]:
    """The ways in which the next step of a process can go, the harmless one first."""
    found = ["ok"]
    request = category in (READ, WRITE, CONDITIONAL)
    write = category in (WRITE, CONDITIONAL)
    if request and left[REPLY_LOST]:
        found.append("reply_lost")
    if write and left[REQUEST_LOST]:
        found.append("request_lost")
    if write and left[LATE]:
        found.append("late")
    if category == CONDITIONAL and left[CONFLICT]:
        found.append("conflict")
    if request and left[THROTTLED]:
        found.append("throttled")
    if write and left[DUPLICATED]:
        found.append("duplicated")
    if category == CLOCK and left[SKEW]:
        found += ["skew+", "skew-"]
    if category == MESSAGE and left[DELAYED]:
        found.append("notification_delayed")
    if crashable and left[CRASH]:
        found.append("crash")
    return tuple(found)


def price(alternative: str) -> int:
    """The part of the budget that pays for an alternative; -1 when it is free.

    The price of an alternative never depends on what was spent before, otherwise steps that do not conflict
    could no longer be swapped.
    """
    return _PRICES.get(kind_of(alternative), -1)


def without(left: tuple[int, ...], kinds: Sequence[str]) -> tuple[int, ...]:
    """The budget with no fault of these kinds."""
    unknown = [kind for kind in kinds if kind not in _PARTS]
    if unknown:
        raise Misuse(f"no fault is called {unknown[0]!r}; known: {', '.join(_PARTS)}")
    return tuple([0 if name in kinds else count for name, count in zip(_PARTS, left, strict=True)])


def spend(left: tuple[int, ...], part: int) -> tuple[int, ...]:
    """The budget after one more fault of this part."""
    assert left[part] > 0, "an alternative was taken that the budget does not allow"
    spent = [*left]
    spent[part] -= 1
    if part in (REPLY_LOST, REQUEST_LOST):
        shared = max(left[REPLY_LOST], left[REQUEST_LOST]) - 1
        spent[REPLY_LOST] = min(spent[REPLY_LOST], shared)
        spent[REQUEST_LOST] = min(spent[REQUEST_LOST], shared)
    return tuple(spent)


_PRICES = {name: _PARTS.index(found.kind) for name, found in ALTERNATIVES.items() if found.kind}
