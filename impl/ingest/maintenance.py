"""What keeps a bucket in order without anybody: indexes, rollups, and batches that show nowhere.

    maintenance = Maintenance(store, env, "collector-1")
    while running:
        env.sleep(maintenance.every_s)
        done = maintenance.turn(stop)            # None: it is another's turn

Every collector has one, and one of them at a time has the turn. So every accepted batch reaches every index
and one rollup as long as one collector runs: what was indexed halfway by the next turn, what shows
nowhere by the end of the next search. What it does not do is what deletes or costs as much as the
history is long: `audit`, which proves something to garbage collection, and `gc`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fencepost.impl.cursor import CursorError
from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.errors import IngestError
from fencepost.impl.ingest.listing import Stop, never
from fencepost.impl.ingest.reconcile import Reconciler
from fencepost.impl.ingest.rollups import Rollups
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.search import EVERY_S as SEARCH_EVERY_S
from fencepost.impl.ingest.search import Search
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.ingest.turns import Turn
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store

TURN = f"{keys.CURSORS}maintenance-turn.json"
EVERY_S = 60.0
LASTS = 3
"""Intervals, after which somebody else takes the turn of one that is gone."""
WORKS = 0.6
"""Of an interval, after which each of the three works stops for now, so that the turn is kept."""
T = TypeVar("T")


@dataclass
class Upkept:
    """What one turn found and did."""

    seen: int = 0
    """Batches that the reconciler looked after."""
    found: int = 0
    """Batches that the search found and that lacked something."""
    repaired: int = 0
    """Index objects that were missing."""
    rolled_up: int = 0
    """Batches that were added up."""
    missing: list[str] = field(default_factory=list)
    """Accepted batches without their data: an alarm."""
    damaged: list[str] = field(default_factory=list)
    """What could not be read, and why."""
    failed: list[str] = field(default_factory=list)
    """What could not be done now, and why; the next turn tries again."""


class Maintenance(IngestContext):
    """One process's hand on it; `holder` is what it is called, and called nothing else."""

    def __init__(
        self,
        store: Store,
        env: Environment,
        holder: str,
        settings: Settings = STANDARD_SETTINGS,
        *,
        safeguards: Safeguards = STANDARD,
        every_s: float = EVERY_S,
        search_every_s: float = SEARCH_EVERY_S,
    ) -> None:
        super().__init__(store, env, settings, safeguards)
        self.every_s = every_s
        self._turn = Turn(self, TURN, holder, LASTS * every_s)
        self._reconciler = Reconciler(store, env, settings, safeguards=safeguards)
        self._search = Search(store, env, settings, safeguards=safeguards, every_s=search_every_s)
        self._rollups = Rollups(store, env, settings, safeguards=safeguards, owner=holder)

    def turn(self, stop: Stop = never) -> Upkept | None:
        """Do what is to be done, if it is our turn. Raises what keeps the turn from being asked for."""
        if not self._turn.mine():
            return None
        result = Upkept()
        if reconciled := self._tried(self._reconciler.once, stop, result):
            result.seen, result.repaired = reconciled.seen, reconciled.repaired
            result.missing += reconciled.missing
            result.damaged += reconciled.damaged
        if searched := self._tried(self._search.step, stop, result):
            result.found, result.repaired = searched.found, result.repaired + searched.repaired
            result.missing += [key for key in searched.missing if key not in result.missing]
            result.damaged += searched.damaged
        if rolled := self._tried(self._rollups.once, stop, result):
            result.rolled_up = rolled.batches
            # One that cannot be added up is met twice where its hour is marked as well.
            result.damaged += [what for what in dict.fromkeys(rolled.missing) if what not in result.damaged]
        return result

    def leave(self) -> None:
        """Give the turn back, so that another process need not wait for it to run out."""
        self._turn.give_back()

    def _tried(self, act: Callable[[Stop], T], stop: Stop, result: Upkept) -> T | None:
        """One of the works; that it fails or is long keeps nobody from the others."""
        deadline_ns = self.env.monotonic_ns() + round(WORKS * self.every_s * 1e9)
        try:
            return act(lambda: stop() or self.env.monotonic_ns() >= deadline_ns)
        except (IngestError, StoreError, CursorError) as error:
            result.failed.append(str(error))
            return None
