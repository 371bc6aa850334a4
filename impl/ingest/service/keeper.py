"""The thread of a collector that does the maintenance, and what it says about it."""

import logging
from collections.abc import Callable

from fencepost.impl.cursor import CursorError
from fencepost.impl.ingest.errors import IngestError
from fencepost.impl.ingest.maintenance import Maintenance, Upkept
from fencepost.impl.ingest.service.metrics import Metrics
from fencepost.impl.ingest.service.periodic import Periodic
from fencepost.impl.store.errors import StoreError

_LOG = logging.getLogger("fencepost.ingest")

TURNS = "fencepost_ingest_maintenance_turns_total"
REPAIRED = "fencepost_ingest_maintenance_repaired_total"
ROLLED = "fencepost_ingest_maintenance_rolled_up_total"
ALARMS = "fencepost_ingest_maintenance_alarms"


class Keeper:
    """Takes a turn every interval, the first one after a random part of it."""

    def __init__(self, maintenance: Maintenance, metrics: Metrics) -> None:
        self._maintenance = maintenance
        self._metrics = metrics
        self._alarms: list[str] = []
        self._failed: list[str] = []
        _count_what(self, metrics)
        self._held = False
        first_s = maintenance.every_s * maintenance.env.stream("maintenance").random()
        self._again = Periodic("ingest-maintenance", self._turn, maintenance.every_s, first_s=first_s)

    @property
    def alarms(self) -> int:
        return len(self._alarms)

    def close(self) -> None:
        """End the turn where it is; the next one goes on, here or elsewhere."""
        self._again.close()
        if self._held:
            self._leave()

    def _turn(self, stop: Callable[[], bool]) -> None:
        self._held = self.once(stop)

    def once(self, stop: Callable[[], bool]) -> bool:
        """One turn; whether it was ours."""
        try:
            done = self._maintenance.turn(stop)
        except (IngestError, StoreError, CursorError) as wrong:
            self._tell_failed([str(wrong)])
            return False
        except Exception:  # noqa: BLE001 - ours: the thread must live, and the log says how it failed
            _LOG.exception("the maintenance failed, and is tried again")
            self._metrics.count(TURNS, result="failed")
            return False
        if done is None:
            self._metrics.count(TURNS, result="elsewhere")
            self._alarms = []  # whoever has the turn says so
            return False
        self._tell(done)
        return True

    def _tell(self, done: Upkept) -> None:
        self._metrics.count(REPAIRED, done.repaired)
        self._metrics.count(ROLLED, done.rolled_up)
        if done.repaired:
            _LOG.warning(
                "maintenance wrote %d index objects that a collector had left out; "
                "%d batches had shown nowhere",
                done.repaired,
                done.found,
            )
        alarms = [f"accepted, and its blob is gone, or not all there: {key}" for key in done.missing]
        alarms += done.damaged
        for text in alarms:
            if text not in self._alarms:  # said once, and not with every turn
                _LOG.error("%s", text)
        self._alarms = alarms
        self._tell_failed(done.failed)

    def _tell_failed(self, failed: list[str]) -> None:
        for text in failed:
            if text not in self._failed:
                _LOG.warning("maintenance could not go on, and is tried again: %s", text)
        self._failed = failed
        self._metrics.count(TURNS, result="failed" if failed else "done")

    def _leave(self) -> None:
        try:
            self._maintenance.leave()
        except (IngestError, StoreError) as wrong:
            _LOG.info("the turn of the maintenance runs out by itself: %s", wrong)


def _count_what(keeper: Keeper, metrics: Metrics) -> None:
    results = ("done", "failed", "elsewhere")
    metrics.counter(
        TURNS, "Turns of the maintenance, by what became of them.", [{"result": result} for result in results]
    )
    metrics.counter(REPAIRED, "Index objects that were missing and were written here.")
    metrics.counter(ROLLED, "Batches that were added up here.")
    metrics.gauge(
        ALARMS, "Accepted batches without data, or unreadable, in the last turn.", lambda: keeper.alarms
    )
