"""Background tasks that run beside the requests."""

import threading
from collections.abc import Callable


class Periodic:
    """A thread that runs `act` every `every_s`, first after `first_s`, until it is closed.

    `act` reports its own failures and raises nothing. Its argument returns True once it should end early.
    """

    def __init__(
        self,
        name: str,
        act: Callable[[Callable[[], bool]], object],
        every_s: float,
        *,
        first_s: float | None = None,
    ) -> None:
        self._act = act
        self._every_s = every_s
        self._first_s = every_s if first_s is None else first_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and return when the current run has ended."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        wait_s = self._first_s
        while not self._stop.wait(wait_s):
            wait_s = self._every_s
            self._act(self._stop.is_set)
