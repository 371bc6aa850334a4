"""How threads wait for each other in group commit: two primitives that a harness can replace by its own."""

import threading
from contextlib import AbstractContextManager
from typing import Protocol


class Signal(Protocol):
    """Set once, waited for once."""

    def set(self) -> None: ...

    def wait(self) -> object: ...


class Waiting(Protocol):
    """What group commit asks of the world."""

    def lock(self) -> AbstractContextManager[object]:
        """A new lock; held only over a few lines that send no request."""
        ...

    def signal(self) -> Signal:
        """A new signal, not set."""
        ...


class ThreadWaiting:
    """For threads of this process."""

    def lock(self) -> AbstractContextManager[object]:
        return threading.Lock()

    def signal(self) -> Signal:
        return threading.Event()
