"""The listing index: tables in `.index/` that every process of a directory shares (see `tables`).

    objects       bucket, key -> the fields of a listing and of the change log
    noncurrent    bucket, key, version -> the same for versions and delete markers that are not current, and
                  for unfinished uploads
    outbox        events that no log file holds yet (see `change_log`)
    meta          the time of the newest event; the boot of the system in which the index was last complete;
                  how often it was suspected, and how often it had been when that comparison began

The directory is the truth and the index is derived from it. A change is recorded after it was published and
before its request is answered, in a transaction that looks at the directory after it has begun. So of two
writers of one key the last transaction records the newer version, whichever process runs it. The
same transaction puts the event of the change into the outbox, so that index and change log cannot disagree.

Transactions do not wait for the disk (`synchronous=NORMAL`): a kill loses none of them, a power loss may.
So the index is trusted only if it was reconciled since the system booted, and since there was a reason to
suspect it: a server started (files may have come or gone before), a process was killed (perhaps between a
publication and its record), or a comparison found a difference. Until then listings come from the directory.
Threads that record at the same time share one transaction.
"""

import contextlib
import fcntl
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fencepost.impl.environment import Environment
from fencepost.impl.objects.tables import (
    Database,
    Entry,
    Place,
    Rows,
    Tables,
    behind,
    file_of,
    next_key,
)
from fencepost.impl.store.errors import Misuse, StoreError, Unusable
from fencepost.impl.store.requests import List, ListReply

FOLDER = ".index"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_ROWS = 500


@dataclass(slots=True)
class Change:
    """A key whose object may have changed.

    `look` returns the key's durable entry now, or None; given a version, the entry of that version, which is
    not the current one.
    """

    bucket: str
    key: str
    look: Callable[[str], Entry | None]
    versions: frozenset[str] = frozenset()
    """Those that may have become current or noncurrent, besides the ones that the object has and had; and
    uploads."""
    of_uploads: bool = False
    """Only an upload began or ended; the object is as it was."""
    done: bool = False
    error: Exception | None = None


NewTables = Callable[[Path, Callable[[str], contextlib.AbstractContextManager[None]]], Tables]
"""Makes the tables of a folder, given locks by name."""


class Index:
    """`node` names this process in the outbox."""

    def __init__(
        self,
        root: str,
        env: Environment,
        new_tables: NewTables | None = None,
        logged_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._logged_ns = logged_ns
        """The time of the newest event in the log."""
        self._folder = Path(root, FOLDER)
        self._env = env
        self._new_tables = new_tables or Database
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self.node = f"{self._env.new_id().lower()}-{os.getpid()}"
        self._lock = threading.Lock()
        """Held by the thread that records."""
        self.tables = self._new_tables(self._folder, self.exclusively)
        self._waiting: deque[Change] = deque()
        self._owed: dict[tuple[str, str], Change] = {}
        """Changes whose transaction failed; the next one includes them."""
        self._writers_lock = -1
        self._alive = -1
        self._floor_ns = -1
        """No event is as early as this; -1 until the first one."""

    # Recording.

    def record(self, change: Change) -> None:
        """Bring the rows of one key in line with the directory; returns once every process sees it."""
        self._after_fork()
        self._waiting.append(change)
        with self._lock:
            if not change.done:
                batch = list(self._owed.values())
                while self._waiting:
                    batch.append(self._waiting.popleft())
                self._record_all(batch)
        if change.error is not None:
            raise Unusable(f"the listing index cannot record {change.key!r}: {change.error}") from (
                change.error.__cause__ or change.error
            )

    def retry_owed(self) -> None:
        """Record what an earlier transaction could not."""
        with self._lock:
            if self._owed:
                self._record_all(list(self._owed.values()))

    def _record_all(self, batch: list[Change]) -> None:
        for change in batch:
            change.error = None
        try:
            with self.writing() as rows:
                for change in batch:
                    try:
                        self._record_one(rows, change)
                    except (OSError, StoreError) as failure:  # of this object; the others are recorded
                        change.error = failure
        except Exception as failure:  # noqa: BLE001  every write that waits gets the error, and no answer
            for change in batch:
                change.error = failure
        for change in batch:
            change.done = True
            place = (change.bucket, change.key)
            owed = self._owed.get(place)
            if change.error is not None:
                if owed is not None:
                    change.versions |= owed.versions
                    change.of_uploads = change.of_uploads and owed.of_uploads
                self._owed[place] = change
            elif owed is change:
                del self._owed[place]

    def _record_one(self, rows: Rows, change: Change) -> None:
        old, new = (None, None) if change.of_uploads else self._record_version(rows, change, "")
        changed = {entry.version for entry in (old, new) if entry is not None}
        for version in sorted((changed | change.versions) - {""}):
            self._record_version(rows, change, version)

    def _record_version(self, rows: Rows, change: Change, version: str) -> tuple[Entry | None, Entry | None]:
        place = (change.bucket, change.key, version)
        old, new = rows.entry(place), change.look(version)
        if new is None:
            if old is not None:
                rows.remove(place)
        elif old is None or old != new or old.file != new.file:
            rows.put(place, new)
        if old != new:
            event = {
                "bucket": change.bucket,
                "key": change.key,
                "version": version,
                "old": None if old is None else old.to_json(),
                "new": None if new is None else new.to_json(),
                "after_ns": rows.meta("newest_ns") or 0,
            }
            rows.add_event(self._next_ns(rows), self.node, json.dumps(event))
        return old, new

    def _next_ns(self, rows: Rows) -> int:
        """A time of its own for each event, rising in the order of the transactions of all processes."""
        if self._floor_ns < 0:
            # After a power loss the log may have later events than the index knows, and its readers would
            # never see one before their last.
            self._floor_ns = 0 if rows.meta("boot") == boot() else self._logged_ns()
        ts_ns: int = max(self._env.now_ns(), (rows.meta("newest_ns") or 0) + 1, self._floor_ns + 1)
        rows.set_meta("newest_ns", ts_ns)
        return ts_ns

    # Listings.

    def page(self, bucket: str, request: List) -> ListReply | None:
        """A page as a bucket answers it, of one moment; None while the index cannot be trusted."""
        if not self._settles_deaths():
            return None
        with self._reading() as rows:
            return rows.page(bucket, request) if _is_trusted(rows) else None

    def entries(self, bucket: str, prefix: str, after: str, limit: int) -> list[tuple[str, Entry]] | None:
        """Keys behind `after` with everything that is known of them; None as for `page`."""
        start = max(prefix.encode(), next_key(after.encode()))
        if not self._settles_deaths():
            return None
        with self._reading() as rows:
            if not _is_trusted(rows):
                return None
            return rows.between(bucket, start, behind(prefix.encode()), limit)

    def is_trusted(self) -> bool:
        if not self._settles_deaths():
            return False
        with self._reading() as rows:
            return _is_trusted(rows)

    def _settles_deaths(self) -> bool:
        """Doubt the index if a process was killed: it may have published what it did not record. Return False
        if that cannot be written down."""
        nodes = self._folder / "nodes"
        try:
            for path in sorted(nodes.iterdir()) if nodes.is_dir() else ():
                if path.name != self.node:
                    self._lives(path.name)
        except Unusable:
            return False
        return True

    # Reconciling.

    def differing(self, bucket: str, files: Mapping[str, os.stat_result]) -> list[str]:
        """The keys whose rows were not taken from these files as they are now."""
        with self._reading() as rows:
            known = rows.files(bucket, files)
        return [key for key, found in files.items() if known.get(key) != file_of(found)]

    def entry(self, place: Place) -> Entry | None:
        with self._reading() as rows:
            return rows.entry(place)

    def keys(self, bucket: str) -> Iterator[str]:
        """Every key that has a row, in order; other processes may write between two of them."""
        after = b""
        while True:
            with self._reading() as rows:
                found = rows.between(bucket, next_key(after), behind(b""), _ROWS)
            for key, _ in found:
                yield key
            if len(found) < _ROWS:
                return
            after = found[-1][0].encode()

    def differing_versions(
        self, bucket: str, files: Mapping[tuple[str, str], os.stat_result]
    ) -> list[tuple[str, str]]:
        """The same of versions that are not current."""
        with self._reading() as rows:
            known = {place: rows.entry((bucket, *place)) for place in files}
        return [place for place, row in known.items() if row is None or row.file != file_of(files[place])]

    def versions(self, bucket: str) -> Iterator[tuple[str, str]]:
        """Every key and version that has a row, as `keys`."""
        after = ("", "")
        while True:
            with self._reading() as rows:
                found = rows.versions(bucket, after, _ROWS)
            yield from found
            if len(found) < _ROWS:
                return
            after = found[-1]

    def buckets(self) -> list[str]:
        with self._reading() as rows:
            return rows.buckets()

    def suspect(self) -> None:
        """Take no listing from the index before a comparison that begins after this has ended."""
        with self._lock, self.writing() as rows:
            rows.set_meta("suspicions", (rows.meta("suspicions") or 0) + 1)

    def suspicions(self) -> int:
        """Return how often the index was suspected; a comparison that begins now settles so many."""
        with self._reading() as rows:
            return rows.meta("suspicions") or 0

    def suspect_until_compared(self) -> None:
        """Doubt it until the comparison that is under way has ended."""
        with self._lock, self.writing() as rows:
            rows.set_meta("settled_suspicions", -1)

    def trust(self, began_ns: int, suspicions: int = 0) -> None:
        """The index equals the directory, but for changes that a live process will record; it was compared
        since `began_ns`, when it had been suspected so many times.
        """
        with self._lock, self.writing() as rows:
            rows.set_meta("boot", boot())
            rows.set_meta("reconciled_ns", began_ns)
            rows.set_meta("settled_suspicions", suspicions)

    def reconciled_ns(self) -> int:
        """When the last comparison that has ended began; 0 where there was none since the system booted."""
        with self._reading() as rows:
            return (rows.meta("reconciled_ns") or 0) if rows.meta("boot") == boot() else 0

    @contextlib.contextmanager
    def exclusively(self, name: str) -> Iterator[None]:
        """One process at a time, of all that share the directory."""
        self._folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def free(self, node: str) -> None:
        """Let another process have the name of one that is gone, and left no events."""
        (self._folder / "free").mkdir(parents=True, exist_ok=True)
        (self._folder / "free" / node).touch()

    def forget_lock(self, name: str) -> None:
        """Remove the file of a lock that will not be used again."""
        (self._folder / name).unlink(missing_ok=True)

    # The outbox.

    def outbox(self, node: str) -> list[tuple[int, str]]:
        with self._reading() as rows:
            return rows.events(node)

    def settle(self, times: Iterable[int]) -> None:
        """These events are durable in the log."""
        with self._lock, self.writing() as rows:
            rows.remove_events(times)

    def ended_nodes(self) -> list[str]:
        """Processes that are gone, and may have left events behind."""
        with self._reading() as rows:
            nodes = set(rows.nodes())
        if (self._folder / "nodes").is_dir():
            nodes |= {path.name for path in (self._folder / "nodes").iterdir()}
        return [node for node in sorted(nodes - {self.node}) if not self._lives(node)]

    def settled_ns(self) -> int:
        """Every event up to this time is in the log, and no later one will precede it."""
        with self._reading() as rows:
            first = rows.first_event_ns()
            return first - 1 if first is not None else rows.meta("newest_ns") or 0

    def settled(self) -> tuple[int, int]:
        """The same time, and that of the last event which the log has up to then."""
        with self._reading() as rows:
            first = rows.first_event_ns()
            if first is None:
                newest: int = rows.meta("newest_ns") or 0
                return newest, newest
            for node in rows.nodes():
                for ts_ns, text in rows.events(node)[:1]:
                    if ts_ns == first:
                        return first - 1, json.loads(text).get("after_ns", 0)
        raise AssertionError("the outbox has its first event")

    def advance(self, ts_ns: int) -> None:
        """No event gets a time before this one, which a log has."""
        with self._lock, self.writing() as rows:
            if ts_ns > (rows.meta("newest_ns") or 0):
                rows.set_meta("newest_ns", ts_ns)

    def _lives(self, node: str) -> bool:
        try:
            fd = os.open(self._folder / "nodes" / node, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            self.suspect()
            (self._folder / "nodes" / node).unlink(missing_ok=True)
            return False
        finally:
            os.close(fd)

    # Transactions.

    def _after_fork(self) -> None:
        if os.getpid() != self._pid:
            self._start()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Rows]:
        """A transaction; only while holding `_lock`. Processes take turns by a lock that wakes them, because
        SQLite itself would have them sleep and try again."""
        self._after_fork()
        if self._writers_lock < 0:
            self.announce()
            self._writers_lock = os.open(
                self._folder / "writing", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        fcntl.flock(self._writers_lock, fcntl.LOCK_EX)
        try:
            with self.tables.writing() as rows:
                yield rows
        finally:
            fcntl.flock(self._writers_lock, fcntl.LOCK_UN)

    def announce(self) -> None:
        """Let others see that this process lives, and later that it was killed: before any change."""
        self._after_fork()
        if self._alive >= 0:
            return
        nodes, free = self._folder / "nodes", self._folder / "free"
        for folder in (nodes, free):
            folder.mkdir(parents=True, exist_ok=True)
        # A name that is free again is taken first: a log has as many names as processes that wrote at a time.
        for path in sorted(free.iterdir()):
            with contextlib.suppress(FileNotFoundError):  # another process was quicker
                path.rename(self._folder / f"node-{path.name}")
                self.node = path.name
                break
        unlocked = self._folder / f"node-{self.node}"
        self._alive = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlocked.rename(nodes / self.node)  # those that are not locked belong to dead processes

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Rows]:
        """One moment of the index."""
        self._after_fork()
        with self.tables.reading() as rows:
            yield rows

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._lock:
            self.tables.close()
            for fd in (self._writers_lock, self._alive):
                if fd >= 0:
                    os.close(fd)
            with contextlib.suppress(FileNotFoundError):
                (self._folder / "nodes" / self.node).rename(self._folder / "free" / self.node)
            self.forget_lock(f"log-{self.node}")
        self._start()


def place(root: str, folder: str | None) -> None:
    """Keep the index of `root` in `folder`, on a quicker disk for example; None leaves it where it is.

    `.index` becomes a link, so that every command finds the index by the directory alone. The index has
    events that no log file holds yet. So this raises `Misuse` instead of beginning another index, and where
    two directories would share one.
    """
    link = Path(root, FOLDER).absolute()
    is_link = link.is_symlink()
    if folder is None and not is_link:
        return
    target = link.readlink() if folder is None else Path(folder).absolute()
    if is_link and link.readlink() != target:
        raise Misuse(f"the index of {root} is in {link.readlink()}; move that to {target}, and remove {link}")
    if link.is_dir() and not is_link:
        raise Misuse(f"{root} has an index; move it while no server runs: mv {link} {target}")
    owner = target / "of"
    text = owner.read_text() if owner.exists() else ""
    if text and text != str(link):
        raise Misuse(f"{target} has the index of {text}; if that was moved, write {link} into {owner}")
    if is_link and not text:
        raise Misuse(f"{target} has no index; mount it, or remove {link} to begin another one")
    if not is_link:
        for one in (target, link.parent):
            one.mkdir(parents=True, exist_ok=True)
        owner.write_text(str(link))
        link.symlink_to(target)


def _is_trusted(rows: Rows) -> bool:
    suspicions, settled = rows.meta("suspicions") or 0, rows.meta("settled_suspicions") or 0
    return rows.meta("boot") == boot() and settled >= suspicions


def boot() -> str:
    """Names the time since the system was started; empty, and never equal to another, where unknown."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return f"process {os.getpid()}"
