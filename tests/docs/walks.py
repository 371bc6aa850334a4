"""The walks of docs/architecture.md: each runs one thing for real and records the calls of our functions."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FrameType

from fencepost.sim.trace import table_of, write_parquet
from tests.commands.running import exit_of
from tests.commands.test_replay import GOOD, MAP, traced
from tests.impl.objects.serving import client, served

ROOT = Path(__file__).parents[2]
LAYERS = ("model", "impl", "properties", "sim", "reports", "fencepost")

Call = tuple[str, str]
"""File, relative to the repository, and qualified name of the function."""


class Recorder:
    """The calls of functions of the layers, in every thread that begins while it records."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._known: dict[CodeType, Call | None] = {}

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in self._known:
            self._known[code] = _place(code)
        place = self._known[code]
        if place is not None:
            self.calls.append(place)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        before = sys.getprofile()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(None)


def _place(code: CodeType) -> Call | None:
    try:
        path = Path(code.co_filename).resolve().relative_to(ROOT)
    except ValueError:
        return None
    return (path.as_posix(), code.co_qualname) if path.parts[0] in LAYERS else None


def recorded(run: Callable[[], object]) -> list[Call]:
    recorder = Recorder()
    with recorder.recording():
        run()
    return recorder.calls


Walk = Callable[[Path], Callable[[], object]]
"""Prepares a walk in an empty folder, and returns what to record."""


def _command(*words: str) -> None:
    assert exit_of(*words) == 0


def _check(folder: Path) -> Callable[[], object]:
    return partial(_command, "check", "lifecycle-blockers")


def _audit(folder: Path) -> Callable[[], object]:
    return partial(_command, "audit", f"{ROOT}/examples/audit/election.py:fixed", "--faults", "none")


def _publish(folder: Path) -> Callable[[], object]:
    url = (folder / "catalog").as_uri()
    rows = folder / "people.csv"
    rows.write_text("id,name\n1,ann\n")
    _command("catalog", "init", url)
    return partial(_command, "catalog", "put", url, f"person={rows}", "--key", "id")


def _put(folder: Path) -> Callable[[], object]:
    def run() -> None:
        with served(folder) as address:
            s3 = client(address)
            s3.create_bucket(Bucket="bucket-one")
            s3.put_object(Bucket="bucket-one", Key="k", Body=b"content")

    return run


def _replay(folder: Path) -> Callable[[], object]:
    (folder / "lock_map.py").write_text(MAP)
    write_parquet(folder / "t.parquet", table_of(traced(GOOD)))
    return partial(_command, "replay", f"{folder}/t.parquet", "--model", f"{folder}/lock_map.py:LockMap")


def _simulate(folder: Path) -> Callable[[], object]:
    return partial(_command, "simulate", "rfc-013-hops", "--jobs", "1")


WALKS: dict[str, Walk] = {
    "A proof: `fencepost check`": _check,
    "A publish: `fencepost catalog put`": _publish,
    "A PUT to the object server": _put,
    "One audited request: `fencepost audit`": _audit,
    "Last night's operations: `fencepost replay`": _replay,
    "A what-if: `fencepost simulate`": _simulate,
}
