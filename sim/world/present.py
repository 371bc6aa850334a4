"""The world that runs in this thread, and its control over the calling code.

The audited code, the SDK, the scheduler between two steps and threads outside of the world all call the
replacement for `time.time`. Only the first two belong to the world.
"""

import contextlib
import site
import sys
import sysconfig
from _thread import get_ident
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.sim.world.run import RunState

_runs: dict[int, list["RunState"]] = {}
_aside: set[int] = set()
"""The threads that are `outside` of their world for a while."""

REAL, SILENT, STEP = 1, 2, 3
"""The clock that a module reads: the real one, the world's without a step (what the SDK reads to sign and to
stamp headers decides nothing), or the world's as a step of the schedule.
"""

_HARNESS = frozenset(
    "fencepost pytest _pytest pluggy hypothesis xdist execnet coverage greenlet rich logging threading queue "
    "selectors asyncio concurrent multiprocessing importlib unittest faulthandler traceback linecache".split()
)
"""These run between the steps of a process, or have waits of their own."""
_RUN = ("fencepost.impl.", "fencepost.examples.")
"""Our own packages that run in a world."""
# dateutil fills in what a date does not say from today, and reads the clock for it with every timestamp.
_SDK = frozenset(
    "botocore boto3 s3transfer urllib3 dateutil requests minio aiobotocore aioboto3 aiohttp httpx httpcore "
    "aiohappyeyeballs http".split()
)
_FLUSHES = "fencepost.impl.store.files.flush"
"""Its clock decides only how long it lingers for others."""
_FORKS = "fencepost.impl.store.files.store"
"""It looks at the process's number to notice a fork, and a world forks nothing."""
_kinds: dict[str, int] = {}


def here() -> "RunState | None":
    """Return the world that runs in this thread; None when there is none."""
    stack = _runs.get(get_ident())
    return stack[-1] if stack else None


def surely_here() -> "RunState":
    """Return the run of the world in this thread, for code that only runs in one."""
    run = here()
    assert run is not None, "a world is in control of this thread"
    return run


def controlled() -> "RunState | None":
    """Return the world, when one of its processes runs now, or the program that sets it up; else None."""
    run = here()
    return run if run is not None and (run.running is not None or run.setting_up) else None


def push(run: "RunState") -> None:
    """Make `world` the one that runs in this thread."""
    _runs.setdefault(get_ident(), []).append(run)


def is_here(run: "RunState") -> bool:
    return run in _runs.get(get_ident(), ())


def drop(run: "RunState") -> None:
    """`world` runs no more, whichever thread it ran in."""
    for thread, stack in list(_runs.items()):
        if run in stack:
            stack.remove(run)
            if not stack:
                del _runs[thread]


def anybody() -> bool:
    """Return True if a world runs in any thread."""
    return bool(_runs)


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """For a while this thread belongs to no world: making an SDK client reads clocks and draws numbers."""
    stack = _runs.pop(get_ident(), None)
    if stack is not None:
        _aside.add(get_ident())
    try:
        yield
    finally:
        if stack is not None:
            _aside.discard(get_ident())
            _runs[get_ident()] = stack


def making() -> bool:
    """Return True if what this thread makes now belongs to a world."""
    return get_ident() in _runs or get_ident() in _aside


def memory(run: "RunState") -> dict[Any, Any]:
    """Return the memory of the running process; a crash clears it."""
    process = run.running
    known: dict[Any, Any] = run.streams if process is None else process.machine.streams
    return known


def kind_of(frame: FrameType) -> int:
    """Return the kind of answer for the code in `frame`."""
    name = frame.f_globals.get("__name__", "")
    found = _kinds.get(name)
    if found is None:
        found = _kinds[name] = classify(name)
    return found


def is_sdk(name: str) -> bool:
    """Return True if a module is one of the SDK, or of what carries its requests."""
    return name.partition(".")[0] in _SDK


def classify(name: str) -> int:
    root = name.partition(".")[0]
    if name in (_FLUSHES, _FORKS):
        return SILENT if name == _FLUSHES else REAL
    if name.startswith(_RUN):
        return STEP
    if root in _HARNESS and not name.startswith("fencepost.examples."):
        return REAL
    # The adaptive mode decides by the clock when to send.
    return SILENT if root in _SDK and not name.startswith("botocore.retries") else STEP


_LIBRARIES = tuple(
    {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *site.getsitepackages(), "<frozen"}
)


def _installed() -> tuple[str, ...]:
    """Return the folders of the import path that hold installed packages: `pip install --target`, layers.

    The working directory is none: a project may keep what it needs beside its own code.
    """
    here = Path.cwd()
    folders = [Path(entry) for entry in sys.path if entry]
    return tuple(
        f"{folder}/"
        for folder in folders
        if folder.is_dir() and not here.is_relative_to(folder) and any(folder.glob("*.dist-info"))
    )


_INSTALLED = _installed()


def is_library_file(file: str) -> bool:
    """Return True if a file belongs to the standard library or to an installed package."""
    if file.startswith(_INSTALLED):
        return True
    return file.startswith(_LIBRARIES) or "/site-packages/" in file or "/dist-packages/" in file


def is_users(module: Any) -> bool:
    """Return True if a module is the user's: neither ours, nor the standard library's, nor installed."""
    name = getattr(module, "__name__", "")
    found = _users.get(name)
    if found is None:
        file = getattr(module, "__file__", None) or ("" if name == "__main__" else "<frozen")
        ours = name.partition(".")[0] == "fencepost" and not name.startswith("fencepost.examples.")
        found = _users[name] = not ours and not is_library_file(file) and classify(name) != REAL
    return found


_users: dict[str, bool] = {}


def is_users_class(kind: type) -> bool:
    return is_users(sys.modules.get(kind.__module__))
