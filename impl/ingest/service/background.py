"""The threads of a collector that work beside the requests.

The index objects of accepted batches, the list of quarantined agents (so that judging a batch needs no
request to the store), the landing of batches that a local disk accepted, and the maintenance of the bucket.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterable

from fencepost.impl.cursor import CursorError
from fencepost.impl.http.metrics import Metrics
from fencepost.impl.http.periodic import Periodic
from fencepost.impl.ingest.authority import Authority
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.errors import IngestError
from fencepost.impl.ingest.indexes import derive
from fencepost.impl.ingest.maintenance import Maintained, Maintenance
from fencepost.impl.ingest.operator import Blocklist
from fencepost.impl.store.errors import StoreError

_LOG = logging.getLogger("fencepost.ingest")

WAITING = 2000
"""Number of batches that a collector still writes when it is stopped: the work of some seconds."""
BATCHES_PER_STEP = 4
"""Batches whose objects are written in one parallel step: few, so that acceptances find a free connection."""
REFRESH_S = 10.0
ALARMS = "fencepost_ingest_maintenance_alarms"


class FollowUps:
    """One thread that writes the index objects of accepted batches, several batches at a time.

    Nothing depends on it: the reconciler and the audit write the same objects for whatever is missing. So it
    may be late, may fail, and drops what exceeds `waiting`: a collector that is behind must not use its
    memory for what others do as well.
    """

    def __init__(
        self, authority: Authority, *, waiting: int = WAITING, on_dropped: Callable[[], object] = lambda: None
    ) -> None:
        self._authority = authority
        self._on_dropped = on_dropped
        self._queue: queue.Queue[Manifest | None] = queue.Queue(waiting)
        self._thread = threading.Thread(target=self._run, name="ingest-follow-up", daemon=True)
        self._thread.start()

    def __call__(self, manifest: Manifest) -> None:
        try:
            self._queue.put_nowait(manifest)
        except queue.Full:
            self._on_dropped()

    def wait_idle(self) -> None:
        """Return when nothing waits."""
        self._queue.join()

    def close(self) -> None:
        """Write what waits, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            some = [self._queue.get()]
            while len(some) < BATCHES_PER_STEP and not self._queue.empty():
                some.append(self._queue.get())
            ended = None in some
            manifests = [manifest for manifest in some if manifest is not None]
            try:
                derive(self._authority.blobs, manifests)
            except (IngestError, StoreError) as error:
                _LOG.warning("left %d batches to the reconciler: %s", len(manifests), error)
            for _ in some:
                self._queue.task_done()


def refreshing(blocklist: Blocklist, every_s: float = REFRESH_S) -> Periodic:
    """Reads the list of the quarantined now, and again every `every_s`."""

    def refresh(_: object = None) -> None:
        try:
            blocklist.refresh()
        except (StoreError, IngestError) as error:
            # Without the store nothing is accepted anyway, and the last list stays in force.
            _LOG.warning("the list of quarantined agents could not be refreshed: %s", error)

    refresh()
    return Periodic("ingest-blocklist", refresh, every_s)


def landing(land: Callable[[Callable[[], bool]], object], every_s: float) -> Periodic:
    """Lands the batches of a local spool. On closing, it finishes the batch that is landing."""

    def act(stop: Callable[[], bool]) -> None:
        try:
            land(stop)
        except (StoreError, IngestError) as error:
            _LOG.error("landing failed, and is tried again: %s", error)

    return Periodic("ingest-landing", act, every_s)


class Maintainer:
    """Runs a round of maintenance every interval, the first one after a random part of it."""

    def __init__(self, maintenance: Maintenance, metrics: Metrics) -> None:
        self._maintenance = maintenance
        self._alarms: list[str] = []
        self._failures: list[str] = []
        self._turns = metrics.counter(
            "fencepost_ingest_maintenance_turns_total",
            "Rounds of maintenance, by result.",
            "result",
            ("done", "failed", "elsewhere"),
        )
        self._repaired = metrics.counter(
            "fencepost_ingest_maintenance_repaired_total", "Missing index objects that this collector wrote."
        )
        self._rolled_up = metrics.counter(
            "fencepost_ingest_maintenance_rolled_up_total", "Batches that this collector rolled up."
        )
        metrics.gauge(
            ALARMS, "Accepted batches without data, or unreadable, in the last round.", lambda: self.alarms
        )
        self._held = False
        first_s = maintenance.every_s * maintenance.env.stream("maintenance").random()
        self._periodic = Periodic("ingest-maintenance", self._round, maintenance.every_s, first_s=first_s)

    @property
    def alarms(self) -> int:
        return len(self._alarms)

    def close(self) -> None:
        """End the round where it is; the next one, here or elsewhere, continues it."""
        self._periodic.close()
        if self._held:
            self.release()

    def _round(self, stop: Callable[[], bool]) -> None:
        self._held = self.run_once(stop)

    def run_once(self, stop: Callable[[], bool]) -> bool:
        """One round; False when another process holds the lease or the lease could not be taken."""
        try:
            result = self._maintenance.run_once(stop)
        except (IngestError, StoreError, CursorError) as error:
            self._report_failures([str(error)])
            return False
        except Exception:  # noqa: BLE001 - a bug of ours: the thread must live on, and the log has the traceback
            _LOG.exception("the maintenance failed, and is tried again")
            self._turns.labels("failed").inc()
            return False
        if result is None:
            self._turns.labels("elsewhere").inc()
            self._alarms = []  # the holder of the lease reports them
            return False
        self._report(result)
        return True

    def release(self) -> None:
        try:
            self._maintenance.release()
        except (IngestError, StoreError) as error:
            _LOG.info("the lease of the maintenance will expire by itself: %s", error)

    def _report(self, result: Maintained) -> None:
        self._repaired.inc(result.repaired)
        self._rolled_up.inc(result.rolled_up)
        if result.repaired:
            _LOG.warning(
                "maintenance wrote %d missing index objects; %d batches were in no index",
                result.repaired,
                result.found,
            )
        alarms = [f"accepted, but its blob is missing or incomplete: {key}" for key in result.missing]
        alarms += result.damaged
        for text in _new(alarms, self._alarms):
            _LOG.error("%s", text)
        self._alarms = alarms
        self._report_failures(result.failed)

    def _report_failures(self, failures: list[str]) -> None:
        for text in _new(failures, self._failures):
            _LOG.warning("maintenance could not continue, and is tried again: %s", text)
        self._failures = failures
        self._turns.labels("failed" if failures else "done").inc()


def _new(texts: Iterable[str], known: list[str]) -> list[str]:
    """Logged once, and not in every round."""
    return [text for text in texts if text not in known]
