"""Share one fsync of a folder among the writers that wait for it.

Safety. A new name is durable when an fsync of its folder *began after* the link or rename returned, in any
thread. So all writers whose link has returned may wait for one fsync that begins now. An fsync that began
earlier does not help them: it may or may not include their names. The content of a file must be durable
*before* its name appears, or a power failure leaves a name with half of its content. That fsync belongs to
the one file, and such fsyncs run in parallel in their callers' threads. `syncfs` would share them too, but it
writes all dirty data of the file system and makes every writer wait for the slowest; it is not used.

Waiting. The first writer to arrive gathers a batch, lingers, and runs the fsync for the whole batch. It
lingers only while other writers have announced themselves (they do so before they write their file). The
wait is bounded by the linger window and by a quarter of the shortest fsync seen. On a fast disk sharing
saves nothing and no writer lingers; the fsyncs of several batches overlap. A single writer never waits.

Failure. If the fsync fails, no write of the batch counts as durable. The kernel reports a failure once to
every open descriptor, and may never report it to a descriptor that is opened later. So every flight holds a
descriptor of its own, opened before its link, and a batch uses the oldest one among its flights. That
descriptor was open before every link of the batch, so it receives every failure since.

    flight = flush.announce()      # before the link
    ...                            # write, fsync, link
    flight.land()                  # durable when it returns; raises the OSError of a failed fsync
"""

import errno
import itertools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from fencepost.impl.store.files.disk import FOLDER_FLAGS, Disk, Waiting, close_quietly

WORTH_SHARING_S = 0.001
"""An fsync that is quicker than this is no dearer than the thread switches that sharing it costs."""
_FORGETTING = 1.1
"""By how much the least time an fsync took may grow with every fsync. The least counts, because a busy
machine makes even a quick disk's fsync look slow, and lingering would only make it busier."""
_FOLLOWERS_WAIT = 0.25
"""The part of an fsync's time that lingering for others may take."""
_SPARE_MAX = 15
"""Descriptors kept for the next flights, for each folder."""


@dataclass(slots=True)
class _Batch:
    """Flights that wait for the same fsync."""

    oldest: "Flight"
    ended: threading.Event | None = None
    """For those who follow; most batches have none."""
    error: OSError | None = None


class Flush:
    """The shared fsyncs of one folder."""

    def __init__(
        self,
        fsync: Callable[[int], None],
        folder_fd: int,
        linger_s: float,
        waiting: Waiting = Disk.waiting,
    ) -> None:
        self._fsync = fsync
        self._waiting = waiting
        self._folder_fd = folder_fd
        self._linger_s = linger_s
        self._least_s = 0.0
        # Each change of these is one atomic call, so on a fast disk, where no batch is gathered, a flight
        # takes no lock.
        self._spare = [folder_fd]
        self._coming: set[Flight] = set()
        self._numbers = itertools.count()
        self._all_here: threading.Event | None = None
        self._lock = threading.Lock()
        """Guards the batch that is gathering; never held for long."""
        self._gathering: _Batch | None = None

    def __del__(self) -> None:
        for fd in self._spare:
            if fd != self._folder_fd:
                close_quietly(fd)

    def announce(self) -> "Flight":
        """Say that a flush will be wanted soon. `FileNotFoundError` when the folder was removed."""
        try:
            fd = self._spare.pop()
        except IndexError:
            fd = os.open(".", FOLDER_FLAGS, dir_fd=self._folder_fd)
        flight = Flight(self, fd, next(self._numbers))
        self._coming.add(flight)
        return flight

    def _arrive(self, flight: "Flight") -> None:
        self._coming.discard(flight)
        all_here = self._all_here  # read after the discard, as `_linger` sets it before it looks
        if all_here is not None and not self._coming:
            all_here.set()

    def release(self, flight: "Flight", *, landed: bool) -> None:
        """The flight is over: its descriptor may serve the next."""
        if not landed:
            self._arrive(flight)
        if len(self._spare) < _SPARE_MAX or flight.fd == self._folder_fd:  # a few more do no harm
            self._spare.append(flight.fd)
        else:
            close_quietly(flight.fd)

    def _window_s(self) -> float:
        """Return the time to linger in seconds; 0 if sharing does not pay."""
        window_s = min(self._linger_s, self._least_s * _FOLLOWERS_WAIT)
        return 0.0 if window_s < WORTH_SHARING_S * _FOLLOWERS_WAIT else window_s

    def shares(self) -> bool:
        """Return True if a flight that lands now may wait for others, False if it runs its own fsync."""
        return self._window_s() > 0

    def join(self, flight: "Flight") -> None:
        """Return when every name made before the call is durable."""
        self._arrive(flight)
        window_s = self._window_s()
        if not window_s:
            self._run(flight.fd)
            return
        with self._lock:
            batch = self._gathering
            leads = batch is None
            if batch is None:
                batch = self._gathering = _Batch(flight)
            else:
                batch.ended = batch.ended or self._waiting.event()
                batch.oldest = min(batch.oldest, flight, key=lambda member: member.number)
        if leads:
            self._lead(batch, window_s)
        else:
            assert batch.ended is not None, "made just now or by another who follows"
            batch.ended.wait()
        if batch.error is not None:
            raise OSError(*batch.error.args)  # one error object must not be raised by several threads

    def _run(self, fd: int) -> None:
        started = self._waiting.now_s()
        self._fsync(fd)
        self.took(self._waiting.now_s() - started)

    def took(self, took_s: float) -> None:
        """Learn from an fsync of the folder that was alone."""
        self._least_s = min(took_s, (self._least_s or took_s) * _FORGETTING)

    def _lead(self, batch: _Batch, window_s: float) -> None:
        try:
            if self._coming:
                self._linger(window_s)
            self._close(batch)
            self._run(batch.oldest.fd)
        except OSError as error:
            batch.error = error
        except BaseException as error:  # interrupted: who followed must not believe to be durable
            batch.error = OSError(errno.EINTR, f"interrupted by {type(error).__name__}")
            raise
        finally:
            self._close(batch)
            if batch.ended is not None:
                batch.ended.set()

    def _linger(self, window_s: float) -> None:
        self._all_here = all_here = self._waiting.event()
        if self._coming:
            all_here.wait(window_s)

    def _close(self, batch: _Batch) -> None:
        """Close the batch to further flights."""
        with self._lock:
            if self._gathering is batch:
                self._gathering = self._all_here = None


@dataclass(slots=True, eq=False)
class Flight:
    """One who is on the way to a flush: lands once, or gives up."""

    flush: Flush
    fd: int
    number: int
    """Rises with every announcement for the folder."""
    over: bool = False

    @property
    def alone(self) -> bool:
        """True if this flight would land by its own fsync.

        Then the caller may run that fsync, after the link and through this descriptor, and report it by
        calling `landed`.
        """
        return not self.flush.shares()

    def landed(self, took_s: float) -> None:
        """It is durable already, by an fsync that took so long."""
        self.flush.took(took_s)
        self.cancel()

    def land(self) -> None:
        """Wait until what was done before is durable."""
        assert not self.over, "a flight lands once"
        self.over = True
        try:
            self.flush.join(self)
        finally:
            self.flush.release(self, landed=True)

    def cancel(self) -> None:
        """No flush is wanted after all. Does nothing after `land`."""
        if not self.over:
            self.over = True
            self.flush.release(self, landed=False)
