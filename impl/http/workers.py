"""Several processes that serve one listening socket; one that dies is started again.

The parent only waits; workers end when it is gone, however it ended. On SIGTERM or SIGINT it ends its
workers, and kills those that have not ended after `grace_s`. A worker that ends soon after its start is
started again after a pause, so that a mistake in a setting does not become a loop of forks.
"""

import logging
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable

from fencepost.impl.environment import Environment

_PAUSE_S = 1.0
_ENDING = (signal.SIGTERM, signal.SIGINT)
_QUICK_S = 5.0
"""A worker that ends sooner than this counts as failing to start."""


class Workers:
    """`serve` is called in each worker, with its number, and returns when the worker is to end."""

    def __init__(self, serve: Callable[[int], None], count: int, env: Environment, *, grace_s: float) -> None:
        self._serve = serve
        self._count = count
        self._env = env
        self._grace_s = grace_s
        self._running: dict[int, tuple[int, int]] = {}
        """Process id to the number of the worker and when it began."""
        self._leaving: set[int] = set()
        """Workers that accept no more and finish what they have; none takes their place."""
        self._ending = False
        self._ready = os.pipe()
        self._watched, self._held = os.pipe()
        """Nothing is ever written: a read ends when the parent, which holds the writing end, is gone."""
        self._log = logging.getLogger("fencepost.workers")

    def run(self) -> None:
        """Until a signal ends it. Only in the main thread, before the process has other threads."""
        before = {number: signal.signal(number, self._end) for number in _ENDING}
        try:
            for number in range(self._count):
                self._start(number)
            while self._running:
                self._wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # For a parent that has more to do than to wait.

    def start_all(self, timeout_s: float = 60.0) -> None:
        """Return once each has called `announce`; raises `TimeoutError`."""
        for number in range(self._count):
            self._start(number)
        for _ in range(self._count):
            if not select.select([self._ready[0]], [], [], timeout_s)[0]:
                raise TimeoutError("a worker did not begin to serve")
            os.read(self._ready[0], 1)

    def announce(self) -> None:
        """In a worker: it serves."""
        os.write(self._ready[1], b".")

    def replace_ended(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._ended(pid, status)

    def drain_all(self, number: int, limit_s: float) -> None:
        """Send a signal to all, and return when they have ended, or after this time: those that take longer
        finish what they have, beside others that are started."""
        for pid in self._running:
            os.kill(pid, number)
        self._leaving.update(self._running)
        self._running.clear()
        deadline_ns = self._env.monotonic_ns() + round(limit_s * 1e9)
        while self._reap_leaving() and self._env.monotonic_ns() < deadline_ns:
            self._env.sleep(0.01)

    def end_all(self, number: int, grace_s: float) -> None:
        """Send a signal to all that do not leave already, and return when none is left; kill those that take
        longer."""
        for pid in self._running:
            os.kill(pid, number)
        self._leaving.update(self._running)
        self._running.clear()
        deadline_ns = self._env.monotonic_ns() + round(grace_s * 1e9)
        while self._reap_leaving():
            if self._env.monotonic_ns() > deadline_ns:
                for late in self._leaving:
                    os.kill(late, signal.SIGKILL)
            self._env.sleep(0.01)

    def _reap_leaving(self) -> bool:
        """Return True while a worker is leaving."""
        while self._leaving:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return True
            self._leaving.discard(pid)
        return False

    def _start(self, number: int) -> None:
        signal.pthread_sigmask(
            signal.SIG_BLOCK, _ENDING
        )  # a signal in between would meet the parent's handler
        pid = os.fork()
        if pid:
            self._running[pid] = (number, self._env.monotonic_ns())
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            return
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for ending in (*_ENDING, signal.SIGCHLD):
                signal.signal(ending, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            os.close(self._held)
            threading.Thread(target=_end_with, args=(self._watched,), daemon=True).start()
            self._serve(number)
            code = 0
        except BaseException:  # noqa: BLE001  a child must not return into the parent's code
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _wait(self) -> None:
        self._ended(*os.wait())

    def _ended(self, pid: int, status: int) -> None:
        self._leaving.discard(pid)
        number, began_ns = self._running.pop(pid, (-1, 0))
        if self._ending or number < 0:
            return
        took_s = (self._env.monotonic_ns() - began_ns) / 1e9
        self._log.error("worker %d (process %d) ended with %d; starting another", number, pid, status)
        if took_s < _QUICK_S:
            self._env.sleep(_PAUSE_S)
        if not self._ending:
            self._start(number)

    def _end(self, number: int, frame: object) -> None:
        again, self._ending = self._ending, True
        for pid in self._running:
            os.kill(pid, signal.SIGKILL if again else signal.SIGTERM)
        if not again:
            signal.signal(signal.SIGALRM, self._end)
            signal.setitimer(signal.ITIMER_REAL, self._grace_s)


def _end_with(parent: int) -> None:
    os.read(parent, 1)
    os.kill(os.getpid(), signal.SIGTERM)
