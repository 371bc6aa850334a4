"""The agent's queue on its disk: added batches survive a crash, and no sequence number is ever used twice.

    spool/
      agent.json         its owner
      boots              the number of openings
      lock               held by the one process that uses it
      drafts/            unfinished files; emptied on opening
      queue/             <boot>.<start>-<end>.lmbatch, in order of their names: waiting to be sent
      parked/            the same, for batches that no collector accepts as they are; the reason is in .json

Every opening is a boot of its own, and sequence numbers begin at 1 in each: whatever a crash lost of the last
boot cannot lead to a number that is used again. A boot's name begins with the number of openings, so that
names sort by age, and ends in a random identifier, so that a spool restored from a copy does not repeat a
name.

A disk that loses power may keep a name without its bytes. A torn batch is refused by the collector and
parked, and the rest goes on. A torn `agent.json` is made anew, unless a frame names another agent.

A batch is durable when `add` returns: its file is flushed, renamed into the queue, and the folder flushed.
`done` removes it; if a crash loses the removal, the batch is sent once more, as a duplicate.
"""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fencepost.impl.environment import Environment, SystemEnvironment
from fencepost.impl.ingest.errors import FrameError
from fencepost.impl.ingest.frames import ANY_SIZE, read
from fencepost.impl.private_files import make_private

SCHEMA = "fencepost.ingest_spool.v1"
BYTES_MAX = 1024**3
"""Limit on all frames, waiting and parked."""
SEQUENCE_DIGITS = 20

_ENDING = ".lmbatch"
_FOLDERS = ("drafts", "queue", "parked")


class SpoolError(Exception):
    """The spool cannot be used; the message has the remedy."""


class SpoolFull(SpoolError):
    """Nothing was added: the frames would exceed the limit."""


@dataclass(frozen=True, slots=True)
class Batch:
    agent_id: str
    boot_id: str
    seq_start: int
    seq_end: int
    name: str
    size: int


class Spool:
    """The spool of one agent in the folder `path`, which is created if missing."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        agent_id: str,
        *,
        env: Environment | None = None,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self.path = Path(path)
        self.agent_id = agent_id
        self.env = env or SystemEnvironment()
        self.bytes_max = bytes_max
        with _disk_errors(self.path):
            make_private(self.path, *_FOLDERS)
            self._lock = _locked(self.path / "lock")
            try:
                self._open()
            except BaseException:
                os.close(self._lock)
                raise

    def _open(self) -> None:
        self._check_owner()
        for draft in (self.path / "drafts").iterdir():
            draft.unlink()
        self._waiting = {batch.name: batch for batch in self._found("queue")}
        self._bytes = sum(batch.size for batch in [*self._waiting.values(), *self.parked()])
        self.boot_id = self._new_boot()
        self._next = 1

    def add(self, count: int, make: Callable[[int, int], bytes]) -> Batch:
        """Add a batch of `count` points; `make(seq_start, seq_end)` returns its frame.

        Raises `SpoolFull` when the limit is reached: the caller decides what to give up.
        """
        start, end = self._next, self._next + count - 1
        self._next += count  # also if the rest fails: the file may exist all the same
        frame = make(start, end)
        if self._bytes + len(frame) > self.bytes_max:
            raise SpoolFull(
                f"the spool {self.path} holds {self._bytes} bytes and may hold {self.bytes_max}; "
                "send its batches, settle the parked ones, or raise the limit"
            )
        name = f"{self.boot_id}.{start:0{SEQUENCE_DIGITS}d}-{end:0{SEQUENCE_DIGITS}d}{_ENDING}"
        with _disk_errors(self.path):
            self._write(self.path / "queue" / name, frame)
        batch = Batch(self.agent_id, self.boot_id, start, end, name, len(frame))
        self._waiting[name] = batch
        self._bytes += len(frame)
        return batch

    def first(self) -> Batch | None:
        """The oldest waiting batch."""
        return next(iter(self._waiting.values()), None)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def bytes_used(self) -> int:
        return self._bytes

    def frame(self, batch: Batch) -> bytes:
        for folder in ("queue", "parked"):
            with contextlib.suppress(FileNotFoundError), _disk_errors(self.path, missing=True):
                return (self.path / folder / batch.name).read_bytes()
        raise SpoolError(
            f"the file {batch.name} is missing in the spool {self.path}; no other program may remove files"
        )

    def done(self, batch: Batch) -> None:
        """Remove an accepted batch."""
        with _disk_errors(self.path):
            (self.path / "queue" / batch.name).unlink(missing_ok=True)
        del self._waiting[batch.name]
        self._bytes -= batch.size

    def park(self, batch: Batch, why: Mapping[str, Any]) -> None:
        """Keep the batch, and send it no longer."""
        with _disk_errors(self.path):
            (self.path / "queue" / batch.name).rename(self.path / "parked" / batch.name)
            self._write(self._note(batch), json.dumps(dict(why), ensure_ascii=True).encode() + b"\n")
            _flush_folder(self.path / "queue")
        del self._waiting[batch.name]

    def parked(self) -> list[Batch]:
        return list(self._found("parked"))

    def why(self, batch: Batch) -> dict[str, Any]:
        """The reason for parking; empty when a crash came before it was written."""
        try:
            found = json.loads(self._note(batch).read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def drop(self, batch: Batch) -> None:
        """Delete a parked batch: an operator decided to keep the accepted one."""
        with _disk_errors(self.path):
            (self.path / "parked" / batch.name).unlink(missing_ok=True)
            self._note(batch).unlink(missing_ok=True)
        self._bytes -= batch.size

    def requeue(self, batch: Batch) -> None:
        """Send a parked batch again, in its old place, because the cause of its refusal is gone."""
        with _disk_errors(self.path):
            (self.path / "parked" / batch.name).rename(self.path / "queue" / batch.name)
            _flush_folder(self.path / "queue")
            self._note(batch).unlink(missing_ok=True)
        self._waiting = dict(sorted({**self._waiting, batch.name: batch}.items()))

    def close(self) -> None:
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _note(self, batch: Batch) -> Path:
        return self.path / "parked" / f"{batch.name}.json"

    def _found(self, folder: str) -> Iterator[Batch]:
        names = sorted(file.name for file in (self.path / folder).iterdir() if file.suffix == _ENDING)
        for name in names:
            boot_id, _, numbers = name.removesuffix(_ENDING).rpartition(".")
            start, _, end = numbers.partition("-")
            if not (boot_id and start.isdecimal() and end.isdecimal()):
                raise SpoolError(f"{self.path / folder / name} is not a file of the spool; move it elsewhere")
            size = (self.path / folder / name).stat().st_size
            yield Batch(self.agent_id, boot_id, int(start), int(end), name, size)

    @staticmethod
    def owner(path: str | os.PathLike[str]) -> str:
        file = Path(path) / "agent.json"
        try:
            found = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError):
            found = None
        match found:
            case {"schema": "fencepost.ingest_spool.v1", "agent_id": str(agent_id)}:
                return agent_id
        raise SpoolError(f"{file} names no owner; name a folder that holds a spool")

    def _check_owner(self) -> None:
        file = self.path / "agent.json"
        if _is_torn(file):
            for owner in self._senders():
                self._require_owner(owner)
            self._write(file, json.dumps({"schema": SCHEMA, "agent_id": self.agent_id}).encode() + b"\n")
        self._require_owner(self.owner(self.path))

    def _require_owner(self, found: str) -> None:
        if found != self.agent_id:
            raise SpoolError(
                f"{self.path} belongs to {found!r}, not to {self.agent_id!r}; name another folder"
            )

    def _senders(self) -> Iterator[str]:
        """The agents that the frames name; a torn frame names none."""
        for folder in ("queue", "parked"):
            for batch in self._found(folder):
                with contextlib.suppress(FrameError):
                    yield read(self.frame(batch), ANY_SIZE).identity.agent

    def _new_boot(self) -> str:
        file = self.path / "boots"
        try:
            last = int(file.read_text())
        except (FileNotFoundError, ValueError):
            last = max((int(name.partition("-")[0]) for name in self._waiting), default=0)
        self._write(file, f"{last + 1}\n".encode())
        return f"{last + 1:010d}-{self.env.new_id()}"

    def _write(self, target: Path, body: bytes) -> None:
        """Write a file durably, whole or not at all."""
        handle, draft = tempfile.mkstemp(dir=self.path / "drafts")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            Path(draft).rename(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(draft).unlink()
            raise
        _flush_folder(target.parent)


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_torn(file: Path) -> bool:
    """Return True if the file is missing, or is what a disk kept of it that lost power."""
    try:
        json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return True
    except RecursionError:
        return False
    return False


def _locked(file: Path) -> int:
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise SpoolError(f"another process uses the spool {file.parent}; only one may") from None
    return handle


@contextlib.contextmanager
def _disk_errors(path: Path, *, missing: bool = False) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        if missing:
            raise
        raise SpoolError(f"the spool {path} lacks {error.filename}; another program removed files") from error
    except OSError as error:
        raise SpoolError(f"the spool {path} cannot be used ({error.strerror}); check the disk") from error
