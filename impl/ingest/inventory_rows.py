"""The rows of an inventory report's data files: CSV in gzip, Parquet and ORC, streamed and suspected."""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, NoReturn
from urllib.parse import unquote

from fencepost.impl.ingest.errors import InventoryError
from fencepost.impl.ingest.inventory_files import DataFile, Hashed, Place

LINE_MAX = 64 * 1024
"""Characters of one row; a key has at most 1,024 bytes, three times as many when it is encoded."""
ROWS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class Rows:
    """What a manifest says of the rows."""

    name: str
    """Of the manifest, for people."""
    bucket: str
    kind: str
    columns: tuple[str, ...]
    """As the manifest spells them, in the order of a row; of Parquet and ORC each file says itself."""


def keys_of(said: Rows, place: Place, file: DataFile, path: str) -> Iterator[str]:
    """The keys of one data file that were said to stand."""
    return FORMATS[said.kind](said, place, file, path)


def needed(columns: Sequence[str], name: str) -> dict[str, int]:
    """Where the columns are that matter, by their names in small letters without underscores."""
    at = {_plain(column): number for number, column in enumerate(columns)}
    wanted = ["Bucket", "Key"]
    if not at.keys().isdisjoint({"versionid", "islatest", "isdeletemarker"}):
        wanted += ["IsLatest", "IsDeleteMarker"]
    for column in wanted:
        if _plain(column) not in at:
            raise InventoryError(
                f"{name} has no column {column}; it has {', '.join(columns)[:200]}: see to the report's "
                "configuration"
            )
    return at


def _plain(column: str) -> str:
    return column.replace("_", "").lower()


def _csv(said: Rows, place: Place, file: DataFile, path: str) -> Iterator[str]:
    name = place.shown(path)
    at = needed(said.columns, said.name)
    with place.open(path) as opened:
        hashed = Hashed(opened)
        try:
            for number, row in enumerate(csv.reader(_lines(hashed, name)), 1):
                if len(row) != len(said.columns):
                    fields = f"{len(row)} field{'' if len(row) == 1 else 's'}"
                    _wrong(number, name, f"has {fields}, the manifest names {len(said.columns)} columns")
                if row[at["bucket"]] != said.bucket:
                    _other_bucket(number, name, row[at["bucket"]], said.bucket)
                if _stands(row, at):
                    yield _decoded(row[at["key"]], number, name)
        except UnicodeDecodeError:
            _whole(file, hashed, name)
            raise InventoryError(f"{name} is no UTF-8") from None
        except csv.Error as wrong:
            raise InventoryError(f"a row of {name} is no CSV: {wrong}") from None
        except (OSError, EOFError, zlib.error) as wrong:
            _whole(file, hashed, name)  # a part of a file, and another file, are said to be that
            raise InventoryError(f"{name} is no whole gzip: {wrong}") from None
        _whole(file, hashed, name)


def _lines(hashed: Hashed, name: str) -> Iterator[str]:
    """The lines, none of them without end."""
    text = io.TextIOWrapper(gzip.GzipFile(fileobj=hashed), "utf-8", newline="")
    number = 0
    while line := text.readline(LINE_MAX):
        number += 1
        if len(line) == LINE_MAX and not line.endswith("\n"):
            _wrong(number, name, f"is longer than {LINE_MAX} characters")
        yield line


def _stands(row: Sequence[str], at: Mapping[str, int]) -> bool:
    if "islatest" not in at:
        return True
    return row[at["islatest"]].lower() == "true" and row[at["isdeletemarker"]].lower() != "true"


def _decoded(text: str, number: int, name: str) -> str:
    # Ours hold these and no others: half of the time of a large report went into looking for more.
    plain = text.replace("+", " ").replace("%2F", "/").replace("%3D", "=").replace("%7E", "~")
    if "%" not in plain:
        return plain
    try:
        return unquote(plain, errors="strict")
    except UnicodeDecodeError:
        _wrong(number, name, f"has {text[:80]!a}, and that {text[:40]!a} is no key")


def _whole(file: DataFile, hashed: Hashed, name: str) -> None:
    """Raise unless it is the file that the manifest speaks of."""
    md5 = hashed.drain()
    if hashed.count != file.size:
        raise InventoryError(
            f"{name} has {hashed.count} bytes, and {file.size} by the manifest: it is cut off, or another "
            "report's; copy it again"
        )
    if md5 != file.md5:
        raise InventoryError(f"{name} does not have the MD5 that the manifest says; copy it again")


def _columnar(said: Rows, place: Place, file: DataFile, path: str) -> Iterator[str]:
    """Parquet and ORC: sought in, so the whole is compared with the manifest first."""
    name = place.shown(path)
    with place.open(path) as opened:
        _whole(file, Hashed(opened), name)
    with place.open(path) as opened:
        for batch in _batches(said.kind, opened, name):
            rows = batch.to_pydict()
            at = {_plain(column): column for column in rows}
            for number, key in enumerate(rows[at["key"]]):
                bucket = rows[at["bucket"]][number]
                if bucket != said.bucket:
                    _other_bucket(number + 1, name, str(bucket), said.bucket)
                if "islatest" in at and not (
                    rows[at["islatest"]][number] and not rows[at["isdeletemarker"]][number]
                ):
                    continue
                yield str(key)


def _batches(kind: str, opened: IO[bytes], name: str) -> Iterator[Any]:
    pa = arrow()
    try:
        if kind == "Parquet":
            from pyarrow import parquet

            file = parquet.ParquetFile(opened, pre_buffer=False)
            columns = _matter(file.schema_arrow.names, name)
            yield from file.iter_batches(ROWS_AT_ONCE, columns=columns)
            return
        from pyarrow import orc

        file = orc.ORCFile(opened)
        columns = _matter(file.schema.names, name)
        for number in range(file.nstripes):
            yield file.read_stripe(number, columns=columns)
    except (pa.ArrowException, OSError, ValueError) as wrong:
        if isinstance(wrong, InventoryError):
            raise
        raise InventoryError(
            f"{name} is no whole {kind} file: {' '.join(str(wrong).split())[:200]}"
        ) from None


def _matter(columns: Sequence[str], name: str) -> list[str]:
    at = needed(columns, name)
    return [columns[at[one]] for one in ("bucket", "key", "islatest", "isdeletemarker") if one in at]


def arrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        return None
    return pa


def _wrong(number: int, name: str, what: str) -> NoReturn:
    raise InventoryError(f"line {number} of {name} {what}; is it a data file of this report?")


def _other_bucket(number: int, name: str, found: str, expected: str) -> NoReturn:
    raise InventoryError(
        f"line {number} of {name} is about bucket {found[:80]!a}, the manifest about {expected!a}; "
        "copy the whole report again"
    )


FORMATS: dict[str, Callable[[Rows, Place, DataFile, str], Iterator[str]]] = {
    "CSV": _csv,
    "ORC": _columnar,
    "Parquet": _columnar,
}
