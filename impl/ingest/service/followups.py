"""What a collector writes about the batches it accepted, behind the answer: their places in the indexes.

A courtesy and no promise. The reconciler and the audit write the same objects for whatever is missing, so
that this may be late, may fail, and may be dropped: when more than `waiting` batches wait, the rest is left
to them, because a collector that is behind must not use its memory for what others do as well.
"""

import logging
import queue
import threading
from collections.abc import Callable

from fencepost.impl.ingest.authority import Authority
from fencepost.impl.ingest.derived import derive
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.errors import IngestError
from fencepost.impl.store.errors import StoreError

_LOG = logging.getLogger("fencepost.ingest")

WAITING = 2000
"""What a collector that is told to stop still writes: some seconds' worth."""
AT_ONCE = 4
"""Batches whose objects are written in one parallel step: few, so that acceptances find a free connection."""


class FollowUps:
    """One thread that writes what is derived, many batches at a time."""

    def __init__(
        self, authority: Authority, *, waiting: int = WAITING, dropped: Callable[[], object] = lambda: None
    ) -> None:
        self._authority = authority
        self._dropped = dropped
        self._queue: queue.Queue[Manifest | None] = queue.Queue(waiting)
        self._thread = threading.Thread(target=self._run, name="ingest-follow-up", daemon=True)
        self._thread.start()

    def __call__(self, manifest: Manifest) -> None:
        try:
            self._queue.put_nowait(manifest)
        except queue.Full:
            self._dropped()

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
            while len(some) < AT_ONCE and not self._queue.empty():
                some.append(self._queue.get())
            ended = None in some
            self._write([manifest for manifest in some if manifest is not None])
            for _ in some:
                self._queue.task_done()

    def _write(self, manifests: list[Manifest]) -> None:
        authority = self._authority
        try:
            derive(authority.store, authority.env, authority.blobs.retry, manifests)
        except (IngestError, StoreError) as error:
            _LOG.warning("left %d batches to the reconciler: %s", len(manifests), error)
