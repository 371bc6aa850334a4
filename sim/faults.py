"""The faults that Fencepost injects: one table for the world, the simulator, the proxy and the store layer.

A request has two halves, the way there and the way back. `request_lost` and `reply_lost` look the same to the
sender (*unknown*) and leave opposite states in the store, so each has a name of its own everywhere: in
budgets, scenarios, traces, replay tokens and options.

In the world a fault kind is a budget, and each of its *alternatives* is one way in which a step can go.
Budget, scheduler, executor, traces, tokens and costs read the rows below; the effect of a fault on a request
is a function in `sim.world.effects`. `impl` must not import `sim`, so the store layer keeps an enumeration of
its own; a test compares it with the column `places`.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

WORLD, HTTP, DES, PROXY, LAYER, SERVER = "world", "http", "des", "proxy", "layer", "server"
"""Places that inject faults: worlds, worlds of real processes, the simulator, the proxy, the store layer, the
object server for tests."""

# Categories of steps, by the alternatives that they offer.
READ, WRITE, CONDITIONAL, LOCAL, CLOCK, RETRIED, MESSAGE = range(7)
WRITES = frozenset({WRITE, CONDITIONAL})
REQUESTS = WRITES | {READ}
CATEGORIES = frozenset(range(7))
# Besides: what a whole program does.
TIME, FILES = 7, 8


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way in which a step of the world can go."""

    name: str
    text: str
    """In counterexamples and trace notes."""
    kind: str = ""
    """Kind whose budget pays; empty for what costs nothing."""
    offered: frozenset[int] = frozenset()
    """Categories of steps that offer it; none for the steps of the clock and of power."""
    needs_effect: bool = False
    """Offered only after a step of the process that changed something."""
    lands: bool = False
    """The store applies the request in this step."""
    sent: bool = True
    """The request counts for its process, and the process receives a reply in this step."""
    flies: bool = False
    """The request stays on its way when its sender gives up."""
    late: bool = False
    """A step of a request whose sender gave up."""
    harmless: bool = False
    """No fault: tokens leave it out."""
    passes_time: bool = False
    """Touches no request and no process."""
    repeats: str = ""
    """Alternative with the same effect on a request that changes nothing, which is tried before this one."""
    limit: str = ""
    """Part of the schedules that it leaves out, as a clause of the bound."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of fault."""

    name: str
    text: str
    """Description for people."""
    one: str
    """In a claim: `at most 1 crash`."""
    many: str
    default: int
    """Number in a run of an audit whose author gives none."""
    places: tuple[str, ...]
    alternatives: tuple[Alternative, ...] = ()
    """Ways in which a step of the world can go with this fault."""
    shares: str = ""
    """Group of kinds that share a limit, see `SHARED`."""
    is_fault: bool = True
    strikes: frozenset[int] = frozenset()
    """Parts of a program (`TIME`, `FILES`) that it can strike, besides the steps that offer it."""

    def can_strike(self, met: AbstractSet[int]) -> bool:
        """Return True if a program that takes steps of these categories can meet it."""
        return any(met & found.offered for found in self.alternatives) or bool(met & self.strikes)


SHARED = {"message": ("lost reply or request", "lost replies or requests")}
"""Groups of kinds that share a limit: a run has at most the largest of their numbers of all together."""
_RESTARTS = 1_000_000
EVERYWHERE = (WORLD, HTTP, DES, PROXY, LAYER, SERVER)

KINDS: dict[str, FaultKind] = {}
ALTERNATIVES: dict[str, Alternative] = {
    found.name: found
    for found in (
        Alternative("ok", "", lands=True, harmless=True),
        Alternative("land", "a request from earlier lands", lands=True, sent=False, late=True, harmless=True),
        Alternative("never", "the request, whose sender has long gone, NEVER lands", sent=False, late=True),
        Alternative("in_vain", "the loop takes all its rounds", lands=True, harmless=True),
        Alternative("advance", "time passes, until a sleep ends", harmless=True),
        Alternative(
            "tick",
            "a moment passes",
            passes_time=True,
            limit="time moves on by itself {ticks}, by {tick_s:g} s",
        ),
    )
}


def add(kind: FaultKind) -> None:
    """Add a row to the table. Modules read the table when they are imported."""
    KINDS[kind.name] = kind
    ALTERNATIVES.update({found.name: replace(found, kind=kind.name) for found in kind.alternatives})


for _kind in (
    FaultKind(
        "crash",
        "the process loses its memory",
        "crash",
        "crashes",
        1,
        (WORLD, HTTP, DES),
        (
            Alternative(
                "crash",
                "CRASH just before this; all memory is lost",
                offered=CATEGORIES,
                needs_effect=True,
                sent=False,
            ),
        ),
    ),
    FaultKind(
        "reply_lost",
        "applied; the reply is lost and the sender learns nothing",
        "lost reply",
        "lost replies",
        1,
        EVERYWHERE,
        (Alternative("reply_lost", "applied, but the reply is LOST: unknown", offered=REQUESTS, lands=True),),
        shares="message",
    ),
    FaultKind(
        "request_lost",
        "never applied; the sender learns nothing",
        "lost request",
        "lost requests",
        1,
        (WORLD, HTTP, DES, LAYER, SERVER),
        (
            Alternative(
                "request_lost",
                "NOT APPLIED, and no reply: unknown",
                offered=WRITES,
                repeats="reply_lost",
            ),
        ),
        shares="message",
    ),
    FaultKind(
        "late",
        "applied after the sender gave up, or never",
        "late landing",
        "late landings",
        0,
        EVERYWHERE,
        (
            Alternative(
                "late",
                "NO REPLY yet: unknown; the request is still on its way",
                offered=WRITES,
                flies=True,
            ),
        ),
    ),
    FaultKind(
        "conflict",
        "answered 409; not applied",
        "409",
        "409s",
        0,
        (WORLD, HTTP, DES, LAYER, SERVER),
        (Alternative("conflict", "409 from the adversary: conflict", offered=frozenset({CONDITIONAL})),),
    ),
    FaultKind(
        "throttled",
        "answered 503; not applied",
        "503",
        "503s",
        0,
        EVERYWHERE,
        (Alternative("throttled", "503 from the adversary: throttled", offered=REQUESTS),),
    ),
    FaultKind(
        "duplicated",
        "applied; the reply is lost, and the SDK sends the request again",
        "retry by the SDK",
        "retries by the SDK",
        0,
        (WORLD, HTTP, LAYER, SERVER),
        (
            Alternative(
                "duplicated",
                "applied, the reply is LOST, and the SDK sends it again",
                offered=WRITES,
                lands=True,
                sent=False,
                repeats="ok",
            ),
        ),
    ),
    FaultKind(
        "skew",
        "a clock is ahead or behind",
        "skewed clock",
        "skewed clocks",
        0,
        (WORLD, DES),
        (
            Alternative(
                "skew+",
                "the clock is AHEAD",
                offered=frozenset({CLOCK}),
            ),
            Alternative(
                "skew-",
                "the clock is BEHIND",
                offered=frozenset({CLOCK}),
            ),
        ),
    ),
    FaultKind(
        "pause",
        "a long time passes although others could go on",
        "pause",
        "pauses",
        1,
        (WORLD,),
        (Alternative("pause", "PAUSE: a long time passes although others could go on", passes_time=True),),
        strikes=frozenset({TIME}),
    ),
    FaultKind(
        "restart",
        "a crashed process starts again",
        "restart",
        "restarts",
        _RESTARTS,
        (WORLD, HTTP, DES),
        is_fault=False,
    ),
    FaultKind(
        "notification_delayed",
        "a message arrives later, or never",
        "delayed notification",
        "delayed notifications",
        0,
        (WORLD,),
        (
            Alternative(
                "notification_delayed",
                "DELAYED: the message is still on its way",
                offered=frozenset({MESSAGE}),
            ),
        ),
    ),
    FaultKind(
        "power_loss",
        "every process stops; of the files only what an fsync covers is sure to be left",
        "power loss",
        "power losses",
        0,
        (WORLD,),
        (Alternative("power_loss", "POWER LOSS: every process stops"),),
        strikes=frozenset({FILES}),
    ),
    FaultKind(
        "failed",
        "answered 500; applied or not",
        "500",
        "500s",
        0,
        (LAYER, SERVER),
    ),
    FaultKind(
        "delayed",
        "applied or answered after a while",
        "delayed request",
        "delayed requests",
        0,
        (LAYER, SERVER),
    ),
    FaultKind(
        "reordered",
        "held until later requests were answered",
        "reordered request",
        "reordered requests",
        0,
        (SERVER,),
    ),
    FaultKind(
        "truncated",
        "applied; the connection ends in the middle of the reply",
        "truncated reply",
        "truncated replies",
        0,
        (SERVER,),
    ),
):
    add(_kind)


def names(place: str) -> tuple[str, ...]:
    """Return the kinds that this place injects."""
    return tuple(name for name, kind in KINDS.items() if place in kind.places)


PAUSE = "pause"
"""Lasts as long as the world is configured; `pause600s` lasts as long as its name says."""


def pause_named(ns: int) -> str:
    """Return the alternative of a pause of so many nanoseconds."""
    return f"{PAUSE}{ns / 1e9:.9f}".rstrip("0").rstrip(".") + "s"


def pause_ns(alternative: str) -> int:
    """Return the length of a pause in the name of its alternative; 0 when it names none."""
    digits = alternative.removeprefix(PAUSE).removesuffix("s")
    whole, _, part = digits.partition(".")
    if digits == alternative or not whole.isdecimal() or not (part or "0").isdecimal():
        return 0
    return int(whole) * 10**9 + int(part[:9].ljust(9, "0"))


SKEWS = {"skew+": 1, "skew-": -1}
"""A clock is off by what the world is configured for; `skew+600s` is off by what its name says."""


def skews_named(ns: int) -> tuple[str, ...]:
    """Return the alternatives of a clock that is off by so many nanoseconds, ahead and behind."""
    length = pause_named(ns).removeprefix(PAUSE)
    return tuple(name + length for name in SKEWS)


def skew_ns(alternative: str) -> int:
    """Return the size of the error in the name of its alternative; 0 when it names none."""
    known = alternative[: len("skew+")]
    return pause_ns(PAUSE + alternative[len(known) :]) if known in SKEWS else 0


def kind_of(alternative: str) -> str:
    """Return the alternative in the table: a pause of some length is a pause."""
    if alternative.startswith(PAUSE):
        return PAUSE
    known = alternative[: len("skew+")]
    return known if known in SKEWS else alternative
