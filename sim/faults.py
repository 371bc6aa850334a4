"""The faults that Fencepost injects: one table for the world, the simulator, the proxy and the store layer.

A request has two halves, the way there and the way back. `request_lost` and `reply_lost` look the same to the
sender (*unknown*) and leave opposite states in the store, so each has a name of its own everywhere: in
budgets, scenarios, traces, replay tokens and options.

In the world a fault kind is a budget, and each of its *alternatives* is one way in which the next step can
go. `impl` must not import `sim`, so the store layer keeps an enumeration of its own; a test compares it with
the column `places` below.
"""

from dataclasses import dataclass

WORLD, DES, PROXY, LAYER = "world", "des", "proxy", "layer"


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of fault."""

    name: str
    text: str
    """What happens, for people."""
    one: str
    """In a claim: `at most 1 crash`."""
    many: str
    default: int
    """How many a run of an audit may have when its author says nothing."""
    places: tuple[str, ...]


_RESTARTS = 1_000_000
KINDS = {
    kind.name: kind
    for kind in (
        FaultKind("crash", "the process loses its memory", "crash", "crashes", 1, (WORLD, DES)),
        FaultKind(
            "reply_lost",
            "applied; the reply is lost and the sender learns nothing",
            "lost reply",
            "lost replies",
            1,
            (WORLD, DES, PROXY, LAYER),
        ),
        FaultKind(
            "request_lost",
            "never applied; the sender learns nothing",
            "lost request",
            "lost requests",
            1,
            (WORLD, DES, LAYER),
        ),
        FaultKind(
            "late",
            "applied after the sender gave up, or never",
            "late landing",
            "late landings",
            0,
            (WORLD, DES, PROXY, LAYER),
        ),
        FaultKind("conflict", "answered 409; not applied", "409", "409s", 0, (WORLD, DES, LAYER)),
        FaultKind("throttled", "answered 503; not applied", "503", "503s", 0, (WORLD, DES, PROXY, LAYER)),
        FaultKind(
            "duplicated",
            "applied; the reply is lost, and the SDK sends the request again",
            "retry by the SDK",
            "retries by the SDK",
            0,
            (WORLD, LAYER),
        ),
        FaultKind("skew", "a clock is ahead or behind", "skewed clock", "skewed clocks", 0, (WORLD, DES)),
        FaultKind("pause", "a long time passes although others could go on", "pause", "pauses", 1, (WORLD,)),
        FaultKind(
            "restart", "a crashed process starts again", "restart", "restarts", _RESTARTS, (WORLD, DES)
        ),
        FaultKind(
            "notification_delayed",
            "a message arrives later, or never",
            "delayed notification",
            "delayed notifications",
            0,
            (WORLD,),
        ),
        FaultKind(
            "power_loss",
            "every process stops; of the files only what an fsync covers is sure to be left",
            "power loss",
            "power losses",
            0,
            (WORLD,),
        ),
    )
}


def names(place: str) -> tuple[str, ...]:
    """The kinds that this place injects."""
    return tuple(name for name, kind in KINDS.items() if place in kind.places)


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way in which a step of the world can go, other than well."""

    kind: str
    """Whose budget pays; empty for what costs nothing."""
    text: str
    """In counterexamples and trace notes."""


ALTERNATIVES = {
    "reply_lost": Alternative("reply_lost", "applied, but the reply is LOST: unknown"),
    "request_lost": Alternative("request_lost", "NOT APPLIED, and no reply: unknown"),
    "late": Alternative("late", "NO REPLY yet: unknown; the request is still on its way"),
    "never": Alternative("", "the request, whose sender has long gone, NEVER lands"),
    "notification_delayed": Alternative("notification_delayed", "DELAYED: the message is still on its way"),
    "conflict": Alternative("conflict", "409 from the adversary: conflict"),
    "throttled": Alternative("throttled", "503 from the adversary: throttled"),
    "duplicated": Alternative("duplicated", "applied, the reply is LOST, and the SDK sends it again"),
    "crash": Alternative("crash", "CRASH just before this; all memory is lost"),
    "skew+": Alternative("skew", "the clock is AHEAD"),
    "skew-": Alternative("skew", "the clock is BEHIND"),
    "power_loss": Alternative("power_loss", "POWER LOSS: every process stops"),
    "pause": Alternative("pause", "PAUSE: a long time passes although others could go on"),
    "advance": Alternative("", "time passes, until a sleep ends"),
    "tick": Alternative("", "a moment passes"),
}
PAUSE = "pause"
"""Lasts as long as the world is configured; `pause600s` lasts as long as its name says."""


def pause_named(ns: int) -> str:
    """The alternative of a pause of so many nanoseconds."""
    return f"{PAUSE}{ns / 1e9:.9f}".rstrip("0").rstrip(".") + "s"


def pause_ns(alternative: str) -> int:
    """The length of a pause in the name of its alternative; 0 when it names none."""
    digits = alternative.removeprefix(PAUSE).removesuffix("s")
    whole, _, part = digits.partition(".")
    if digits == alternative or not whole.isdecimal() or not (part or "0").isdecimal():
        return 0
    return int(whole) * 10**9 + int(part[:9].ljust(9, "0"))


def kind_of(alternative: str) -> str:
    """The alternative in the table that a pause of some length is."""
    return PAUSE if alternative.startswith(PAUSE) else alternative


PASSING_TIME = ("pause", "tick")
"""Alternatives that touch no request and no process."""
