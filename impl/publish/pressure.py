"""Back-pressure: writers slow down, and are refused in the end, while cleanup lags behind them.

A catalog that is written and never cleaned grows for ever, and its first cleanup takes very long. So a
writer counts what waits: the manifests after the boundary of its branch, and the unfinished plans. Opening
lists the plans anyway, and every commit reads the boundary beside its heads, so no commit sends a
request more. Only if a commit is to be slowed or refused, the writer counts again, because a cleanup may have
run since its last commit.

    debt       below `slow_after`    from there on                          from `refuse_after` on
    commit     at once               after a pause that grows with it       refused, `Overdue`

This is a delay and a refusal before anything is sent: nothing of the protocol changes, and no other process
depends on it. Recovery, cleanup, compaction and the delete of a branch reduce the debt and are never slowed.
"""

from dataclasses import dataclass

from fencepost.impl.publish.errors import Invalid, Overdue

SLOW_AFTER = 10_000
"""Manifests and plans. Cleanup keeps 20 manifests by default."""
REFUSE_AFTER = 100_000
SLOWEST_S = 1.0
"""The longest pause before one commit, from twice `slow_after` on."""


@dataclass(frozen=True, slots=True)
class Debt:
    """The work that cleanup and recovery still have for one branch, as of the last reply about it."""

    manifests: int
    """Manifests that no cleanup has released yet, those included that it will keep."""
    plans: int
    """Plans of all branches that have a sidecar."""

    @property
    def total(self) -> int:
        return self.manifests + self.plans


@dataclass(frozen=True, slots=True)
class Pressure:
    """The limits of one writer. A limit of 0 is none."""

    slow_after: int = SLOW_AFTER
    refuse_after: int = REFUSE_AFTER
    slowest_s: float = SLOWEST_S

    def __post_init__(self) -> None:
        for name in ("slow_after", "refuse_after", "slowest_s"):
            value = getattr(self, name)
            if not value >= 0:  # nor NaN
                raise Invalid(f"{name} is {value}; give 0 for no limit, or more")

    def acts(self, debt: Debt) -> bool:
        """Return True if a commit with this debt is slowed or refused."""
        return self.pause_s(debt) > 0 or self._refuses(debt)

    def pause_s(self, debt: Debt) -> float:
        """Return how long a commit with this debt waits before it begins."""
        if not self.slow_after or debt.total < self.slow_after:
            return 0.0
        over = debt.total - self.slow_after + 1
        return self.slowest_s * min(1.0, over / self.slow_after)

    def check(self, debt: Debt, branch: str) -> None:
        """Raise `Overdue` if a commit with this debt is refused."""
        if self._refuses(debt):
            raise Overdue(
                f"{debt.manifests} manifests of branch {branch} and {debt.plans} unfinished plans wait for "
                f"cleanup, and this writer stops at {self.refuse_after}; nothing was published. Run "
                f"`fencepost catalog cleanup` with --keep below {self.refuse_after}, or keep "
                "`fencepost catalog maintain` running, or raise --refuse-after (0: never refuse)"
            )

    def _refuses(self, debt: Debt) -> bool:
        return 0 < self.refuse_after <= debt.total


STANDARD = Pressure()
OFF = Pressure(0, 0)
