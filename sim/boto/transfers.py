"""The SDK's transfers (`upload_file`, `download_fileobj`, `copy`, ...) with the threads that they start.

Their executors, semaphores, events and locks are the world's, like those of the user's code (`sim.threads`),
so parts are sent, and lost, in every order. Work of the SDK between two requests is one step: races within
the SDK itself are not searched. Its threads share state under its locks, whose use counts for the conflicts
of a step, except for the state of a transfer, which they read without a lock: that counts here.

Sets of futures and transfers are made to remember the order of their members, as runs must repeat.
`world.configure(part_bytes_min=...)` counts for the parts of transfers, which else have at least 5 MiB.
"""

import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

import boto3.s3.transfer
from s3transfer.futures import BoundedExecutor, ExecutorFuture, TransferCoordinator
from s3transfer.manager import TransferCoordinatorController
from s3transfer.utils import ChunksizeAdjuster, OSUtils

from fencepost.sim.threads.pool import NEEDS
from fencepost.sim.threads.waiting import caller
from fencepost.sim.world.escapes import escape
from fencepost.sim.world.present import controlled

_real_coordinator = TransferCoordinator.__init__
_real_controller = TransferCoordinatorController.__init__
_real_submit = BoundedExecutor.submit
_real_adjuster = ChunksizeAdjuster.__init__
_real_open = OSUtils.open
_real_crt: Callable[[Any], bool] = boto3.s3.transfer._should_use_crt


class _InOrder(dict[Any, None]):
    """A set that keeps the order in which its members came."""

    def add(self, one: Any) -> None:
        self[one] = None

    def remove(self, one: Any) -> None:
        del self[one]


def _coordinator(self: Any, *args: Any, **kwargs: Any) -> None:
    _real_coordinator(self, *args, **kwargs)
    if controlled() is not None:
        self._associated_futures = _InOrder()


def _controller(self: Any) -> None:
    _real_controller(self)
    if controlled() is not None:
        self._tracked_transfer_coordinators = _InOrder()


def _status(self: Any) -> Any:
    """Written under the lock, and read without."""
    now = caller()
    if now is not None:
        now.look(getattr(self._lock, "name", ""))
    return self._status


def _adjuster(self: Any, *args: Any, **kwargs: Any) -> None:
    _real_adjuster(self, *args, **kwargs)
    run = controlled()
    if run is not None:
        self.min_size = min(self.min_size, run.bucket._part_bytes_min)


def _native(config: Any) -> bool:
    """The transfers of awscrt use threads and sockets of their own, below Python."""
    if controlled() is None:
        return _real_crt(config)
    if str(getattr(config, "preferred_transfer_client", "")).lower() == "crt":
        raise escape(
            "awscrt's transfers",
            'leave out TransferConfig(preferred_transfer_client="crt")',
            sys._getframe(1),
        )
    return False


def _submit(self: Any, task: Any, *args: Any, **kwargs: Any) -> Any:
    """The tasks of a transfer begin by waiting for others."""
    needed = [one for given in task._pending_main_kwargs.values() for one in _listed(given)]
    setattr(task, NEEDS, [one._future for one in needed if isinstance(one, ExecutorFuture)])
    return _real_submit(self, task, *args, **kwargs)


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _open(self: Any, filename: Any, mode: str) -> Any:
    """Files are closed by the last task of a transfer, which not every run comes to."""
    opened = _real_open(self, filename, mode)
    run = controlled()
    if run is not None and isinstance(opened, io.BufferedReader | io.BufferedWriter):
        run.at_end(opened.close)
    return opened


def stand_ins() -> Iterator[tuple[Any, str, Any]]:
    """Yield each replacement with its place: module or class, and name."""
    yield TransferCoordinator, "__init__", _coordinator
    yield TransferCoordinator, "status", property(_status)
    yield BoundedExecutor, "submit", _submit
    yield TransferCoordinatorController, "__init__", _controller
    yield ChunksizeAdjuster, "__init__", _adjuster
    yield OSUtils, "open", _open
    yield boto3.s3.transfer, "_should_use_crt", _native
