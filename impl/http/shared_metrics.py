"""One page of metrics for all processes of a server, whichever answers.

Each process writes its values to files of its own that are mapped into memory, in one folder; a page sums the
files. Those of a process that ended stay, so counters never fall. Gauges are those of living processes, as of
the last `Metrics.refresh`.

prometheus_client decides when it is imported whether values are kept so: `shared` is called before that, in
the process that has the workers.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def shared(folder: Path) -> AbstractContextManager[None]:
    """From this call on, values of this process and its children are kept below `folder`; the context has the
    files, and removes them and what processes that were killed left there."""
    assert "prometheus_client" not in sys.modules, "it would keep values for itself"
    own = folder / str(os.getpid())
    os.environ[VARIABLE] = str(own)
    return _made(folder, own)


@contextlib.contextmanager
def _made(folder: Path, own: Path) -> Iterator[None]:
    own.mkdir(parents=True, exist_ok=True)
    for other in folder.iterdir():
        if not is_running(other.name):
            shutil.rmtree(other, ignore_errors=True)
    try:
        yield
    finally:
        shutil.rmtree(own, ignore_errors=True)


def forget_ended(folder: str) -> None:
    """Remove the gauges of processes that have ended."""
    for path in Path(folder).glob("gauge_live*.db"):
        if not is_running(path.stem.rpartition("_")[2]):
            path.unlink(missing_ok=True)


def is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
