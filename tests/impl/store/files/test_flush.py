"""Sharing an fsync: who waits for whom, and that nobody believes an fsync that began too early."""

import os
import threading

import pytest

from fencepost.impl.store.files.flush import Flush


class Scripted:
    """An fsync that each caller may leave only on a signal, and that knows what was done before it began."""

    def __init__(self):
        self.done = 0
        self.covered = []
        self.fds = []
        self.started = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.error = None

    def __call__(self, fd):
        self.covered.append(self.done)
        self.fds.append(fd)
        self.started.release()
        assert self.go.acquire(timeout=10)
        if self.error is not None:
            raise self.error


@pytest.fixture
def folder(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def landing(flight, results):
    def land():
        try:
            flight.land()
            results.append("durable")
        except OSError as error:
            results.append(error.errno)

    thread = threading.Thread(target=land)
    thread.start()
    return thread


def slow(flush):
    """As after an fsync that took long, so that lingering is worth it."""
    flush._least_s = 100.0


def test_whoever_is_alone_does_not_wait(folder):
    """If this fails, every single writer pays the linger window."""
    fsync = Scripted()
    flush = Flush(fsync, folder, linger_s=1000.0)
    slow(flush)
    fsync.go.release()
    flush.announce().land()  # returns: with a window of 1000 s it would not
    assert fsync.fds == [folder]


def test_those_on_their_way_share_one_fsync(folder):
    """If this fails, 16 writers cost 16 fsyncs."""
    fsync, results = Scripted(), []
    flush = Flush(fsync, folder, linger_s=1000.0)
    slow(flush)
    flights = [flush.announce() for _ in range(5)]
    threads = []
    for flight in flights:
        fsync.done += 1
        threads.append(landing(flight, results))
    assert fsync.started.acquire(timeout=10)
    fsync.go.release()
    for thread in threads:
        thread.join(10)
    assert results == ["durable"] * 5
    assert fsync.covered == [5], "one fsync, begun after all five were done"


def test_on_a_quick_disk_nobody_lingers(folder):
    """If this fails, sharing costs more than the fsync it saves."""
    flush = Flush(lambda fd: None, folder, linger_s=1000.0)
    waits = flush.announce()
    for _ in range(3):
        flush.announce().land()  # returns, though another is on the way
    slow(flush)
    flush._least_s *= 1e-6
    flush.announce().land()
    waits.cancel()


def test_nobody_waits_for_one_who_gives_up(folder):
    fsync, results = Scripted(), []
    flush = Flush(fsync, folder, linger_s=1000.0)
    slow(flush)
    gives_up, lands = flush.announce(), flush.announce()
    thread = landing(lands, results)
    gives_up.cancel()
    gives_up.cancel()
    fsync.go.release()
    thread.join(10)
    assert results == ["durable"]


def test_whoever_comes_after_the_fsync_began_gets_another(folder):
    """If this fails, a name made during an fsync is called durable though the fsync may have missed it."""
    fsync, results = Scripted(), []
    flush = Flush(fsync, folder, linger_s=0.0)
    first, second = flush.announce(), flush.announce()
    fsync.done = 1
    one = landing(first, results)
    assert fsync.started.acquire(timeout=10)
    fsync.done = 2
    two = landing(second, results)
    assert fsync.started.acquire(timeout=10)
    fsync.go.release(2)
    one.join(10)
    two.join(10)
    assert fsync.covered == [1, 2]
    assert len(set(fsync.fds)) == 2, "overlapping fsyncs need a descriptor each"


def test_a_batch_uses_a_descriptor_older_than_all_its_links(folder):
    """If this fails, a failure that another descriptor received passes the batch by."""
    fsync, results = Scripted(), []
    flush = Flush(fsync, folder, linger_s=1000.0)
    slow(flush)
    oldest, middle, youngest = (flush.announce() for _ in range(3))
    threads = [landing(flight, results) for flight in (youngest, middle, oldest)]
    fsync.go.release()
    for thread in threads:
        thread.join(10)
    assert fsync.fds == [oldest.fd]
    assert len({oldest.fd, middle.fd, youngest.fd}) == 3


def test_a_failure_reaches_all_of_the_batch_and_nobody_else(folder):
    fsync, results = Scripted(), []
    flush = Flush(fsync, folder, linger_s=1000.0)
    slow(flush)
    fsync.error = OSError(5, "Input/output error")
    threads = [landing(flight, results) for flight in [flush.announce() for _ in range(4)]]
    fsync.go.release()
    for thread in threads:
        thread.join(10)
    assert results == [5] * 4
    fsync.error = None
    fsync.go.release()
    flush.announce().land()


def test_descriptors_are_kept_for_the_next_and_closed_at_the_end(folder):
    fsync = Scripted()
    flush = Flush(fsync, folder, linger_s=0.0)
    flights = [flush.announce() for _ in range(40)]
    fds = {flight.fd for flight in flights}
    for flight in flights:
        flight.cancel()
    assert len(flush._spare) <= 17
    assert folder in flush._spare
    del flush, flight
    flights.clear()
    for fd in fds - {folder}:
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(fd)
