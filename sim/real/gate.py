"""Many requests at once, or one look at everything with none under way."""

import contextlib
import threading
from collections.abc import Iterator


class Gate:
    """Lets any number of passers through together; whoever closes it has the place alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False
        self.inside_max = 0
        """How many were inside at once, at most."""

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        with self._changed:
            while self._closed:
                self._changed.wait()
            self._inside += 1
            self.inside_max = max(self.inside_max, self._inside)
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Wait until everybody is out and let nobody in. One at a time may ask for this."""
        with self._changed:
            self._closed = True
            while self._inside:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()
