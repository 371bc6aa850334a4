"""Something done every so often, beside the answers."""

import threading
from collections.abc import Callable


class Periodic:
    """A thread that acts every `every_s` from now on, the first time after `first_s`, until it is closed.

    `act` says by itself what went wrong, and raises nothing. It is given what tells it to come to an end.
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
        """Returns when the act that is under way has come to an end."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        wait_s = self._first_s
        while not self._stop.wait(wait_s):
            wait_s = self._every_s
            self._act(self._stop.is_set)
