"""A folder of traces that grows: its new events are judged, round by round, and none of them twice.

Each round reads what was appended to every file, up to its last whole line, and deals it to parts by run, as
`parts` does. A part is a list of Parquet files in the folder of the state. The round is complete when the
file of the state is replaced: it names these files, and how far each trace was read. Whatever a crash leaves
beside it is read again. Then the parts with new events are judged, all of their events.

A trace is known by its device and inode, so that a rotated file keeps its place under a new name. A file that
has become shorter, or whose beginning has changed, is a new one. A copy of what was read, packed or not, is
read from there on. Lines are read as they are appended; a file of Parquet or gzip once it is whole.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.properties.refinement.grouping import LinkedRuns
from fencepost.sim.replay.local import Outcome
from fencepost.sim.replay.parts import Dealer, Part, naming
from fencepost.sim.replay.tables import VERDICTS
from fencepost.sim.trace.grouping import Grouping
from fencepost.sim.trace.reading import batches, discover, is_parquet, opened
from fencepost.sim.trace.schema import SCHEMA, Problem, TraceError

PARTS = 64
PIECES_MAX = 32
"""Files of a part; more are joined to one."""
_HEAD = 256
"""Bytes at the beginning of a file by which it is known again."""
_AT_ONCE = 64 << 20
"""Bytes of a file that are read in one round."""
_STATE = "state.json"
_GZIP = b"\x1f\x8b"
Judging = Callable[[Part, Path], Outcome]
"""Judges a part, and writes its table of verdicts."""


@dataclass
class _State:
    """The progress of reading, as the file of the state has it."""

    purpose: str
    """The grouping and the parts: another one cannot go on from here."""
    rounds: int = 0
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By device and inode: the bytes that were read, and a digest of the first ones."""
    pieces: dict[str, list[str]] = field(default_factory=dict)
    """By number of the part: its files."""
    events: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    left_out_by: dict[str, int] = field(default_factory=dict)
    clocks: dict[str, str] = field(default_factory=dict)
    problems: list[list[Any]] = field(default_factory=list)


class Growing:
    """The traces below some places, and the verdicts on what was read of them."""

    def __init__(self, places: list[Path], by: Grouping, folder: Path) -> None:
        if isinstance(by, LinkedRuns):
            raise TraceError(
                f"--follow needs runs that each event names; {by.name} needs the links of the whole trace: "
                "name another unit, as in --runs run"
            )
        self._places, self._by, self._folder = places, by, folder
        folder.mkdir(parents=True, exist_ok=True)
        self._state = self._loaded(f"{by} in {PARTS} parts")
        self._outcomes: dict[str, Outcome] = {}
        self._fresh = set(self._state.pieces)

    @property
    def clocks(self) -> dict[str, str]:
        """The clock of each process, as its recorder names it."""
        return self._state.clocks

    def read(self) -> bool:
        """Read what is new. Returns false if nothing is."""
        state = deepcopy(self._state)
        problems: list[Problem] = []
        dealer = Dealer(self._by, naming([], self._by), PARTS, problems.append)
        dealer.left_out, dealer.left_out_by = state.left_out, Counter(state.left_out_by)
        dealer.clocks = state.clocks
        found: dict[int, list[pa.Table]] = {}
        files = dict(state.files)
        for path in self._found():
            for table in self._appended(path, files, problems):
                for number, piece in dealer.deal(table):
                    found.setdefault(number, []).append(piece)
        if files == state.files and not problems:
            return False
        state.rounds += 1
        for number, tables in sorted(found.items()):
            self._add(state, str(number), pa.concat_tables(tables))
        state.files, state.left_out = files, dealer.left_out
        state.left_out_by = dict(dealer.left_out_by.most_common())
        state.problems += [[one.where, one.what, one.lines] for one in problems]
        self._save(state)
        self._fresh |= set(map(str, found))
        return True

    def judge(self, judging: Judging, empty: Outcome) -> Outcome:
        """Judge the parts with new events; the sums of all parts, added to `empty`."""
        fresh = sorted(self._fresh, key=int)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            judged = pool.map(lambda name: judging(self._part(name), self._verdicts(name)), fresh)
            for name, outcome in zip(fresh, judged, strict=True):
                self._outcomes[name] = outcome
                self._fresh.discard(name)
        for name in sorted(self._outcomes, key=int):
            empty.add(self._outcomes[name])
        empty.left_out, empty.left_out_by = self._state.left_out, dict(self._state.left_out_by)
        empty.problems += [Problem(*one) for one in self._state.problems]
        return empty

    def write_verdicts(self, path: Path) -> None:
        """Write the table of the verdicts on all runs; it appears whole."""
        beside = path.with_name(f".{path.name}.new")
        with pq.ParquetWriter(beside, VERDICTS) as writer:
            for name in sorted(self._outcomes, key=int):
                writer.write_table(pq.read_table(self._verdicts(name)))
        beside.replace(path)

    # Files.

    def _found(self) -> list[Path]:
        try:
            return discover([place for place in self._places if place.exists()])
        except TraceError:
            return []  # there are none yet

    def _appended(
        self, path: Path, files: dict[str, dict[str, Any]], problems: list[Problem]
    ) -> Iterator[pa.Table]:
        """The events behind what was read of a file, whose place in `files` it moves."""
        try:
            size, head, name = _identity(path)
        except OSError:
            return  # it was renamed or removed meanwhile
        known = self._state.files.get(name)
        if known is not None and (size < known["read"] or not _begins_as(head, known)):
            known = None  # the inode has another file, or the file was emptied
        before = known["read"] if known is not None else 0
        if size == before:
            return
        packed = head[:2] == _GZIP
        if packed or is_parquet(path):
            if before:
                files[name] = {**self._state.files[name], "read": size}
                problems.append(Problem(str(path), "has changed after it was read; what is new was not read"))
                return
            if not _is_whole(path):
                return  # it is still being written
        read = size
        if is_parquet(path):
            yield from batches([path], problems.append)
        else:
            read = before or self._copied(path)
            for lines in _whole_lines(path, read, None if packed else size):
                yield from self._parsed(lines, path, read, problems)
                read += len(lines)
            read = size if packed else read
        if read > before:
            files[name] = {"read": read, **_marks(path, read, packed=packed)}

    def _parsed(self, lines: bytes, path: Path, start: int, problems: list[Problem]) -> Iterator[pa.Table]:
        piece = self._folder / "appended.jsonl"
        piece.write_bytes(lines)
        damaged: list[Problem] = []
        yield from batches([piece], damaged.append)
        for one in damaged:
            where = one.where.replace(str(piece), f"{path}, behind byte {start:,}")
            problems.append(Problem(where, one.what, one.lines))
        piece.unlink()

    def _copied(self, path: Path) -> int:
        """The bytes at the beginning of a file that were read under another name: rotation copies files."""
        longest = 0
        with opened(path) as file:
            for known in self._state.files.values():
                if "tail" in known and known["read"] > longest:
                    file.seek(0)
                    if _begins_as(file.read(known["head"]), known):
                        file.seek(known["read"] - known["head"])
                        if _digest(file.read(known["head"])) == known["tail"]:
                            longest = known["read"]
        return longest

    # State.

    def _loaded(self, purpose: str) -> _State:
        try:
            kept = json.loads((self._folder / _STATE).read_text())
        except FileNotFoundError:
            return _State(purpose)
        except (OSError, ValueError) as error:
            raise self._refusal(f"{_STATE} cannot be read: {error}") from error
        names = {one.name for one in fields(_State)}
        if not isinstance(kept, dict) or set(kept) != names:
            raise self._refusal(f"{_STATE} is of another version")
        if kept["purpose"] != purpose:
            raise self._refusal(f"{_STATE} is of a replay by another unit, {kept['purpose']}")
        return _State(**kept)

    def _refusal(self, why: str) -> TraceError:
        return TraceError(f"{self._folder}: {why}; give another --out, or remove it to begin anew")

    def _save(self, state: _State) -> None:
        """Replace the file of the state: from here on what was read counts as read."""
        beside = self._folder / f"{_STATE}.new"
        with beside.open("w") as file:
            json.dump(asdict(state), file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._folder / _STATE)
        self._state = state
        named = {piece for pieces in state.pieces.values() for piece in pieces}
        for path in self._folder.glob("piece-*.parquet"):
            if path.name not in named:
                path.unlink()

    def _add(self, state: _State, number: str, table: pa.Table) -> None:
        pieces = state.pieces.setdefault(number, [])
        if len(pieces) >= PIECES_MAX:
            table = pa.concat_tables([*(pq.read_table(self._folder / one) for one in pieces), table])
            pieces.clear()
        name = f"piece-{number}-{state.rounds}.parquet"
        pq.write_table(table.cast(SCHEMA), self._folder / name, compression="lz4")
        pieces.append(name)
        state.events[number] = sum(pq.read_metadata(self._folder / piece).num_rows for piece in pieces)

    def _part(self, number: str) -> Part:
        paths = [self._folder / piece for piece in self._state.pieces[number]]
        groups = ((str(path), tuple(range(pq.read_metadata(path).num_row_groups))) for path in paths)
        return Part(tuple(groups), self._state.events[number])

    def _verdicts(self, number: str) -> Path:
        return self._folder / f"verdicts-{number}.parquet"


def _identity(path: Path) -> tuple[int, bytes, str]:
    """The size and the beginning of a file, and the name by which it is known."""
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        return found.st_size, file.read(_HEAD), f"{found.st_dev}:{found.st_ino}"


def _marks(path: Path, read: int, *, packed: bool) -> dict[str, Any]:
    """The marks by which a file is known again, and of lines also the end of what was read."""
    with path.open("rb") as file:
        head = file.read(min(_HEAD, read))
        marks: dict[str, Any] = {"head": len(head), "digest": _digest(head)}
        if not packed and not is_parquet(path):
            file.seek(read - len(head))
            marks["tail"] = _digest(file.read(len(head)))
    return marks


def _begins_as(head: bytes, known: dict[str, Any]) -> bool:
    return bool(_digest(head[: known["head"]]) == known["digest"])


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _whole_lines(path: Path, start: int, end: int | None) -> Iterator[bytes]:
    """The whole lines of a file from a place on. A last line that is not whole is left for later, unless the
    file is complete (`end` is None).
    """
    with opened(path) as file:
        file.seek(start)
        rest = b""
        while found := file.read(_AT_ONCE if end is None else min(_AT_ONCE, max(0, end - file.tell()))):
            rest += found
            cut = rest.rfind(b"\n") + 1
            if cut:
                yield rest[:cut]
                rest = rest[cut:]
        if end is None and rest:
            yield rest


def _is_whole(path: Path) -> bool:
    """True if a file of Parquet or gzip can be read to its end."""
    try:
        if is_parquet(path):
            pq.read_metadata(path)
            return True
        with opened(path) as file:
            while file.read(_AT_ONCE):
                pass
    except (pa.ArrowException, EOFError, OSError, ValueError):
        return False
    return True
