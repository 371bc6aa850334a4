"""What the adversary may do, and how often in one run.

Faults are branches, not samples: wherever a fault may happen, both are explored, the run with it and the
run without. A budget keeps that finite, and is part of what a proof says: "every schedule with at most
one crash and one lost response".

    ok          the request lands and its reply is delivered
    lost        applied; the reply is lost, the caller is told `unknown`
    dropped     not applied, and the caller is told `unknown` too (paid from `lost` as well)
    late        the caller is told `unknown` now; the request lands (`land`) at any later step, or `never`
    conflict    409: not applied, conditional writes only
    throttled   503: not applied
    retry       applied, the reply lost, and the SDK asks again: the reply to the second is delivered
    crash       the process loses its memory just before this step; its requests in flight never land
    delay       a message that was posted arrives (`land`) at any later step, or `never`
    skew+ skew- this process's clock is ahead or behind from now on
    stall       time passes until the next sleeper wakes, although somebody could have gone on
    pause       a long time passes (`configure(pause_s=...)`) although somebody could have gone on: whoever
                was about to act does so much later. Paid from `stalls`, like `stall`
    advance     time passes because everybody sleeps: costs nothing

What would only repeat another branch is left out: a crash is offered only after a step that changed
something (else the crash one step earlier led to the same state), and never at the first step of a
process that is restarted. A crash after a landing is the crash before the next step, and every process
has a next step, if only its end. A crash with a request still in flight is `late`, then `crash`.
"""

from dataclasses import dataclass, fields

FAULTS = (
    "lost",
    "dropped",
    "late",
    "never",
    "conflict",
    "throttled",
    "retry",
    "delay",
    "crash",
    "skew+",
    "skew-",
    "stall",
    "pause",
)


@dataclass(frozen=True)
class Budget:
    """How many faults of each kind one run may have."""

    crashes: int = 1
    lost: int = 1
    late: int = 0
    conflicts: int = 0
    throttles: int = 0
    retries: int = 0
    skews: int = 0
    stalls: int = 1
    restarts: int = 1_000_000
    """A process that crashed starts again while this lasts; then it stays down."""
    delays: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"budget {field.name}={value!r}: give a whole number, at least 0")

    def left(self) -> tuple[int, ...]:
        """All of it, in the order of the constants below."""
        return tuple([getattr(self, name) for name in _PARTS])

    def sentence(self) -> str:
        """The budget as part of a claim."""
        parts = [
            f"{getattr(self, name)} {one if getattr(self, name) == 1 else many}"
            for name, one, many in _WORDS
            if getattr(self, name)
        ]
        return "at most " + ", ".join(parts) if parts else "no faults"


NO_FAULTS = Budget(crashes=0, lost=0, stalls=0)

_WORDS = (
    ("crashes", "crash", "crashes"),
    ("lost", "lost response", "lost responses"),
    ("late", "late landing", "late landings"),
    ("conflicts", "409", "409s"),
    ("throttles", "503", "503s"),
    ("retries", "retry by the SDK", "retries by the SDK"),
    ("skews", "skewed clock", "skewed clocks"),
    ("stalls", "stall", "stalls"),
    ("delays", "delayed message", "delayed messages"),
)

_PARTS = tuple(field.name for field in fields(Budget))
CRASHES, LOST, LATE, CONFLICTS, THROTTLES, RETRIES, SKEWS, STALLS, RESTARTS, DELAYS = range(10)

# What may wait, as far as faults go.
READ, WRITE, CONDITIONAL, LOCAL, CLOCK, RETRIED, MESSAGE = range(7)


def alternatives(category: int, crashable: bool, left: tuple[int, ...]) -> tuple[str, ...]:
    """What can become of the next step of a process, the harmless first."""
    found = ["ok"]
    request = category in (READ, WRITE, CONDITIONAL)
    write = category in (WRITE, CONDITIONAL)
    if request and left[LOST]:
        found.append("lost")
    if write and left[LOST]:
        found.append("dropped")
    if write and left[LATE]:
        found.append("late")
    if category == CONDITIONAL and left[CONFLICTS]:
        found.append("conflict")
    if request and left[THROTTLES]:
        found.append("throttled")
    if write and left[RETRIES]:
        found.append("retry")
    if category == CLOCK and left[SKEWS]:
        found += ["skew+", "skew-"]
    if category == MESSAGE and left[DELAYS]:
        found.append("delay")
    if crashable and left[CRASHES]:
        found.append("crash")
    return tuple(found)


def price(alternative: str) -> int:
    """Which part of the budget an alternative is paid from; -1 when it is free.

    The price of an alternative never depends on what was spent before, else steps that do not conflict
    could no longer be swapped.
    """
    return _PRICES.get(alternative, -1)


def spend(left: tuple[int, ...], part: int) -> tuple[int, ...]:
    assert left[part] > 0, "an alternative was taken that the budget does not allow"
    return (*left[:part], left[part] - 1, *left[part + 1 :])


_PRICES = {
    "lost": LOST,
    "dropped": LOST,
    "late": LATE,
    "conflict": CONFLICTS,
    "throttled": THROTTLES,
    "retry": RETRIES,
    "crash": CRASHES,
    "delay": DELAYS,
    "skew+": SKEWS,
    "skew-": SKEWS,
    "stall": STALLS,
    "pause": STALLS,
}
