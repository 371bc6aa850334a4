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

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, make_dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Self

from fencepost.impl.store.errors import Misuse
from fencepost.sim.faults import ALTERNATIVES, CATEGORIES, KINDS, SHARED, WORLD, kind_of, names

_PARTS = names(WORLD)
TOTAL = len(_PARTS)
"""Place of the number of faults that are left of any kind, behind the numbers of each kind."""
UNLIMITED = -1
"""That number, if the kinds alone limit the faults."""


@dataclass(frozen=True)
class _Limits:
    """The methods of a budget, whose fields are the kinds of faults."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"budget {name}={value!r}: give a whole number, at least 0")

    def but(self, **counts: int) -> Self:
        """Return the same budget with other numbers of these kinds."""
        return replace(self, **counts)

    def left(self, faults_max: int | None = None) -> tuple[int, ...]:
        """Return the whole budget, in the order of the table of faults, and then the limit of all together.

        `faults_max`: faults of one run, of any kind.
        """
        if faults_max is None:
            return self._left
        return _limited(self._left[:TOTAL], faults_max)

    @cached_property
    def _left(self) -> tuple[int, ...]:
        return (*(getattr(self, name) for name in _PARTS), UNLIMITED)

    def _faults(self) -> dict[str, int]:
        """Return the numbers of those kinds that are faults."""
        return {name: count for name, count in asdict(self).items() if KINDS[name].is_fault}

    def most(self) -> int:
        """Return how many faults one run can have."""
        shared: dict[str, int] = {}
        alone = 0
        for name, count in self._faults().items():
            if group := KINDS[name].shares:
                shared[group] = max(count, shared.get(group, 0))
            else:
                alone += count
        return alone + sum(shared.values())

    def sentence(self) -> str:
        """Return the budget as part of a claim."""
        counts = self._faults()
        parts: list[str] = []
        done: set[str] = set()
        for name, count in counts.items():
            group = KINDS[name].shares
            if not group and count:
                parts.append(_counted(name, count))
            elif group and group not in done:
                done.add(group)
                parts += _counted_together(
                    group, {other: counts[other] for other in counts if KINDS[other].shares == group}
                )
        parts += self._restarts()
        return "at most " + ", ".join(parts) if parts else "no faults"

    def untried(self, met: AbstractSet[int]) -> list[str]:
        """Return the faults that this budget lacks, of those that can strike steps of these categories."""
        return [
            KINDS[name].one
            for name, count in self._faults().items()
            if not count and KINDS[name].can_strike(met)
        ]

    def _restarts(self) -> Iterator[str]:
        """Name the limits of what is no fault, where they matter."""
        may_stop = getattr(self, "crash", 0) or getattr(self, "power_loss", 0)
        for name, kind in KINDS.items():
            if name in _PARTS and not kind.is_fault and may_stop and getattr(self, name) < kind.default:
                yield _counted(name, getattr(self, name))


def _counted(name: str, count: int) -> str:
    return f"{count} {KINDS[name].one if count == 1 else KINDS[name].many}"


def _counted_together(group: str, counts: dict[str, int]) -> Iterator[str]:
    """Name the limit that kinds share, and the smaller limits of some of them."""
    given = {name: count for name, count in counts.items() if count}
    if not given:
        return
    most = max(given.values())
    if len(given) == 1:
        yield _counted(next(iter(given)), most)
        return
    one, many = SHARED[group]
    text = f"{most} {one if most == 1 else many}"
    fewer = [_counted(name, count) for name, count in counts.items() if count < most]
    yield f"{text} (at most {', '.join(fewer)})" if fewer else text


if TYPE_CHECKING:

    @dataclass(frozen=True, init=False)
    class Budget(_Limits):
        """The number of faults of each kind that one run may have, by the names of `sim.faults.KINDS`."""

        def __init__(self, *counts: int, **named: int) -> None: ...

        def __getattr__(self, kind: str) -> int: ...

else:
    Budget = make_dataclass(
        "Budget", [(name, int, KINDS[name].default) for name in _PARTS], bases=(_Limits,), frozen=True
    )
    Budget.__module__ = __name__
    Budget.__doc__ = "The number of faults of each kind that one run may have."

NO_FAULTS = Budget(**{name: 0 for name in _PARTS if KINDS[name].is_fault})


def part_of(kind: str) -> int:
    """Return the place of a kind in the numbers of a budget."""
    return _PARTS.index(kind)


CRASH, PAUSE, SKEW, RESTART, POWER_LOSS = map(part_of, ("crash", "pause", "skew", "restart", "power_loss"))
"""Places of the kinds that the world decides by itself."""
_SHARING: dict[int, tuple[int, ...]] = {
    part: tuple(
        other for other, name in enumerate(_PARTS) if KINDS[name].shares == KINDS[_PARTS[part]].shares
    )
    for part in range(len(_PARTS))
    if KINDS[_PARTS[part]].shares
}
"""By kind that shares a limit: the kinds that share it."""
_OFFERED = sorted((found for found in ALTERNATIVES.values() if found.offered), key=lambda f: f.needs_effect)
"""Alternatives that steps offer, in the order in which a search tries them."""
_PRICES = {name: part_of(found.kind) for name, found in ALTERNATIVES.items() if found.kind}

Offers = tuple[tuple[str, ...], ...]


@lru_cache(4096)
def offers(left: tuple[int, ...]) -> Offers:
    """Return the alternatives of the steps of processes, the harmless one first.

    The place in the result is twice the category, plus 1 if the process changed something before the step.
    """
    return tuple(
        _alternatives(category, crashable, left)
        for category in sorted(CATEGORIES)
        for crashable in (False, True)
    )


def _alternatives(category: int, effective: bool, left: tuple[int, ...]) -> tuple[str, ...]:
    return (
        "ok",
        *(
            found.name
            for found in _OFFERED
            if category in found.offered
            and left[_PRICES[found.name]]
            and (effective or not found.needs_effect)
        ),
    )


def price(alternative: str) -> int:
    """Return the part of the budget that pays for an alternative; -1 when it is free.

    The price of an alternative never depends on what was spent before, otherwise steps that do not conflict
    could no longer be swapped.
    """
    return _PRICES.get(kind_of(alternative), -1)


def without(left: tuple[int, ...], kinds: Sequence[str]) -> tuple[int, ...]:
    """Return the budget with no fault of these kinds."""
    unknown = [kind for kind in kinds if kind not in _PARTS]
    if unknown:
        raise Misuse(f"no fault is called {unknown[0]!r}; known: {', '.join(_PARTS)}")
    kept = [0 if name in kinds else count for name, count in zip(_PARTS, left[:TOTAL], strict=True)]
    return (*kept, left[TOTAL])


def spend(left: tuple[int, ...], part: int) -> tuple[int, ...]:
    """Return the budget after one more fault of this part."""
    assert left[part] > 0, "an alternative was taken that the budget does not allow"
    spent = [*left]
    spent[part] -= 1
    sharing = _SHARING.get(part, ())
    if sharing:
        shared = max(left[other] for other in sharing) - 1
        for other in sharing:
            spent[other] = min(spent[other], shared)
    if left[TOTAL] != UNLIMITED and KINDS[_PARTS[part]].is_fault:
        return _limited(spent[:TOTAL], left[TOTAL] - 1)
    return tuple(spent)


def _limited(left: Sequence[int], total: int) -> tuple[int, ...]:
    """Return the budget with at most `total` faults, of all kinds together."""
    kept = [
        min(count, total) if KINDS[name].is_fault else count for name, count in zip(_PARTS, left, strict=True)
    ]
    return (*kept, total)
