"""Sharing the fsync of a folder among those who wait for it.

What may be shared, and why it is safe. A new name is durable when an fsync of its folder *began after* the
link or rename returned, whoever called that fsync. So all writers whose link has returned may wait for one
fsync that begins now. One that comes after it began must wait for the next: nobody knows what the running
one still picks up. The content of a file, on the other hand, must be durable *before* its name appears
(else a power failure leaves a name with half a content), and that fsync is the file's own: they run side
by side in their callers' threads and are not shared. `syncfs` would share them too, but writes out
everything that anybody has dirty on that file system, and it would make every writer wait for the slowest
one before the first name may appear; it was left out.

When to begin. The first to arrive leads: it waits for the fsync under way, then lingers only while others
are on their way (they announced themselves before they wrote their file), and no longer than the last
fsync took nor than the linger window. Whoever is alone waits for nothing. Lingering longer than an fsync
takes could only cost more than it saves.

When it fails, nobody in the batch may believe to be durable. The kernel reports a failure once for every
open descriptor, so the next fsync may succeed although names before it were lost: those who already wait
for the next one fail too. Fsyncs of one folder never overlap here, for the same reason.

    flight = flush.announce()      # before writing the file
    ...                            # write, fsync, link
    flight.land()                  # durable when it returns; raises the OSError of a failed fsync
"""

import errno
import os
import threading
import time
from collections.abc import Callable


class _Batch:
    """Those who wait for the same fsync."""

    __slots__ = ("ended", "error")

    def __init__(self) -> None:
        self.ended: threading.Event | None = None
        self.error: OSError | None = None


class Flush:
    """The shared fsyncs of one folder."""

    def __init__(self, fsync: Callable[[], None], linger_s: float) -> None:
        self._fsync = fsync
        self._linger_s = linger_s
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        """For the leader of the forming batch, the only one who ever waits for it."""
        self._coming = 0
        self._forming: _Batch | None = None
        self._running: _Batch | None = None
        self._took_s = 0.0

    def announce(self) -> "Flight":
        """Say that a flush will be wanted soon."""
        with self._lock:
            self._coming += 1
        return Flight(self)

    def withdraw(self) -> None:
        with self._lock:
            self._arrive()

    def _arrive(self) -> None:
        self._coming -= 1
        if not self._coming:
            self._news.notify()

    def join(self) -> None:
        """Return when every name that was made before the call is durable; only from a flight."""
        with self._lock:
            self._arrive()
            batch = self._forming
            if batch is None:
                batch = self._forming = _Batch()
                leads = True
            else:
                leads = False
                batch.ended = batch.ended or threading.Event()
                ended = batch.ended
        if leads:
            self._lead(batch)
        else:
            ended.wait()
        if batch.error is not None:
            raise OSError(*batch.error.args)  # one error object must not be raised by several threads

    def _lead(self, batch: _Batch) -> None:
        try:
            self._gather(batch)
            if batch.error is None:
                self._run(batch)
        except BaseException:  # interrupted: who followed must not believe to be durable
            batch.error = batch.error or OSError(errno.EINTR, os.strerror(errno.EINTR))
            raise
        finally:
            self._end(batch)

    def _gather(self, batch: _Batch) -> None:
        with self._lock:
            while self._running is not None:
                self._news.wait()
            if self._coming and self._linger_s and batch.error is None:
                self._linger()
            self._forming = None
            self._running = batch

    def _linger(self) -> None:
        until = time.perf_counter() + min(self._linger_s, self._took_s)
        while self._coming:
            left = until - time.perf_counter()
            if left <= 0 or not self._news.wait(left):
                return

    def _run(self, batch: _Batch) -> None:
        started = time.perf_counter()
        try:
            self._fsync()
        except OSError as wrong:
            batch.error = wrong
        self._took_s = time.perf_counter() - started

    def _end(self, batch: _Batch) -> None:
        with self._lock:
            if self._running is batch:
                self._running = None
            if self._forming is batch:
                self._forming = None
            if batch.error is not None and self._forming is not None:
                self._forming.error = batch.error
            self._news.notify()
            if batch.ended is not None:
                batch.ended.set()


class Flight:
    """One who is on the way to a flush: lands once, or gives up."""

    __slots__ = ("_flush",)

    def __init__(self, flush: Flush) -> None:
        self._flush: Flush | None = flush

    def land(self) -> None:
        """Wait until what was done before is durable."""
        flush, self._flush = self._flush, None
        assert flush is not None, "a flight lands once"
        flush.join()

    def cancel(self) -> None:
        """No flush is wanted after all. Does nothing after `land`."""
        flush, self._flush = self._flush, None
        if flush is not None:
            flush.withdraw()
