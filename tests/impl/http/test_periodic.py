"""Periodic tasks run in time, stop early on closing, and are waited for."""

import threading
import time
from collections.abc import Callable

from fencepost.impl.http.periodic import Periodic


def test_it_runs_repeatedly_and_never_once_closed() -> None:
    thrice = threading.Semaphore(0)
    again = Periodic("again", lambda _: thrice.release(), 0.001)
    for _ in range(3):
        assert thrice.acquire(timeout=10)
    again.close()
    assert not [one for one in threading.enumerate() if one.name == "again"]
    while thrice.acquire(blocking=False):
        pass
    time.sleep(0.01)
    assert not thrice.acquire(blocking=False)


def test_the_first_run_may_be_sooner() -> None:
    acted = threading.Event()
    again = Periodic("sooner", lambda _: acted.set(), 3600.0, first_s=0.0)
    assert acted.wait(10)
    again.close()


def test_closing_stops_the_current_run_and_waits_for_it() -> None:
    """If this fails, stopping a collector kills it in the middle of a write."""
    begun, ended = threading.Event(), threading.Event()

    def act(stop: Callable[[], bool]) -> None:
        begun.set()
        while not stop():
            time.sleep(0.001)
        time.sleep(0.02)
        ended.set()

    again = Periodic("under-way", act, 0.001)
    assert begun.wait(10)
    again.close()
    assert ended.is_set()
