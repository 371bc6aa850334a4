"""The background work of a server: upload records of local commits, and sweep."""

import logging
import threading

from fencepost.impl.http.metrics import Metrics
from fencepost.impl.streams.errors import Refused, StreamError
from fencepost.impl.streams.node import Node
from fencepost.impl.streams.retention import Reaper, Times
from fencepost.impl.streams.settings import Durability

_LOG = logging.getLogger("fencepost.streams")
TICK_S = 0.2


class _Histograms(Times):
    def __init__(self, metrics: Metrics) -> None:
        folder = "fencepost_streams_retention_"
        self._reap = metrics.histogram(f"{folder}reap_seconds", "How long the reap of a stream took.")
        self._scan = metrics.histogram(f"{folder}scan_seconds", "How long a scan of the prefix took.")
        text = "How long a deletion took, of one object or of those that are deleted at once."
        self._delete = metrics.histogram(f"{folder}delete_seconds", text)

    def reap(self, seconds: float) -> None:
        self._reap.observe(seconds)

    def scan(self, seconds: float) -> None:
        self._scan.observe(seconds)

    def delete(self, seconds: float) -> None:
        self._delete.observe(seconds)


class Background:
    """Two threads, until `close`."""

    def __init__(self, node: Node, metrics: Metrics) -> None:
        self._node = node
        self._ended = threading.Event()
        self.reaper = Reaper(node, times=_Histograms(metrics), stopped=self._ended.is_set)
        metrics.gauge("fencepost_streams_flagged", "Streams that wait for their reap.", self._flagged)
        for name, text in (
            ("streams_reaped", "Streams whose objects and row are gone."),
            ("objects_deleted", "Objects that reaps and scans deleted."),
            ("list_passes", "Listings by reaps and scans."),
            ("reap_failures", "Reaps that did not finish."),
            ("scans", "Scans of the whole prefix."),
            ("scan_restored", "Doomed manifests that a scan flagged."),
            ("scan_orphans", "Data that no manifest can list."),
            ("segments_deleted", "Segments among the objects that were deleted."),
            ("indexes_deleted", "Indexes among them."),
            ("manifests_deleted", "Manifests among them."),
        ):
            metrics.gauge(f"fencepost_streams_retention_{name}", text, self._counter(name))
        for name in node.state.waiting():
            node.stream(name).committed = True
        self._threads = [threading.Thread(target=self._sweep, name="sweep", daemon=True)]
        if node.settings.durability is Durability.LOCAL or node.state.waiting():
            self._threads.append(threading.Thread(target=self._upload, name="upload", daemon=True))
        for thread in self._threads:
            thread.start()

    def _flagged(self) -> float:
        return len(self._node.state.flagged())

    def _counter(self, name: str):  # type: ignore[no-untyped-def]  # a reader of one number
        return lambda: getattr(self.reaper.counters, name)

    def _sweep(self) -> None:
        pause_s = self._node.settings.sweep_s
        while pause_s and not self._ended.wait(0 if self.reaper.is_behind else pause_s):
            try:
                for name, error in self.reaper.sweep():
                    _LOG.warning("retention of %r: %s", name, error)
            except Exception:  # noqa: BLE001 - a bug of ours ends no sweeping
                _LOG.exception("a sweep failed")

    def _upload(self) -> None:
        while not self._ended.wait(TICK_S):
            self.upload(all_of_it=False)

    def upload(self, *, all_of_it: bool) -> None:
        """Seal and upload by size and age."""
        settings, now_ns = self._node.settings, self._node.env.monotonic_ns()
        for stream in self._node.known():
            if not stream.records and not stream.committed:
                continue
            size = sum(len(one.body) for one in stream.records)
            old = now_ns - stream.since_ns >= settings.segment_age_s * 1e9
            if all_of_it or old or size >= settings.segment_bytes:
                try:
                    self._node.own(stream)
                    self._node.flush(stream)
                except Refused:
                    stream.committed = False  # deleted or expired: a reap drops the rows
                except StreamError as error:
                    _LOG.warning("the upload of %r waits: %s", stream.name, error)

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self.upload(all_of_it=True)
