"""The thread of a collector that does the upkeep, and what it says about it."""

import logging
from collections.abc import Callable

from holdfast.impl.cursor import CursorError
from holdfast.impl.ingest.errors import IngestError
from holdfast.impl.ingest.service.metrics import Metrics
from holdfast.impl.ingest.service.periodic import Periodic
from holdfast.impl.ingest.upkeep import Upkeep, Upkept
from holdfast.impl.store.errors import StoreError

_LOG = logging.getLogger("holdfast.ingest")

TURNS = "holdfast_ingest_upkeep_turns_total"
REPAIRED = "holdfast_ingest_upkeep_repaired_total"
ROLLED = "holdfast_ingest_upkeep_rolled_up_total"
ALARMS = "holdfast_ingest_upkeep_alarms"


class Keeper:
    """Takes a turn every interval, the first one after a random part of it."""

    def __init__(self, upkeep: Upkeep, metrics: Metrics) -> None:
        self._upkeep = upkeep
        self._metrics = metrics
        self._alarms: list[str] = []
        self._failed: list[str] = []
        _count_what(self, metrics)
        self._held = False
        first_s = upkeep.every_s * upkeep.env.stream("upkeep").random()
        self._again = Periodic("ingest-upkeep", self._turn, upkeep.every_s, first_s=first_s)

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
            done = self._upkeep.turn(stop)
        except (IngestError, StoreError, CursorError) as wrong:
            self._tell_failed([str(wrong)])
            return False
        except Exception:  # noqa: BLE001 - ours: the thread must live, and the log says how it failed
            _LOG.exception("the upkeep failed, and is tried again")
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
                "upkeep wrote %d index objects that a collector had left out; %d batches had shown nowhere",
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
                _LOG.warning("upkeep could not go on, and is tried again: %s", text)
        self._failed = failed
        self._metrics.count(TURNS, result="failed" if failed else "done")

    def _leave(self) -> None:
        try:
            self._upkeep.leave()
        except (IngestError, StoreError) as wrong:
            _LOG.info("the turn of the upkeep runs out by itself: %s", wrong)


def _count_what(keeper: Keeper, metrics: Metrics) -> None:
    results = ("done", "failed", "elsewhere")
    metrics.counter(
        TURNS, "Turns of the upkeep, by what became of them.", [{"result": result} for result in results]
    )
    metrics.counter(REPAIRED, "Index objects that were missing and were written here.")
    metrics.counter(ROLLED, "Batches that were added up here.")
    metrics.gauge(
        ALARMS, "Accepted batches without data, or unreadable, in the last turn.", lambda: keeper.alarms
    )
