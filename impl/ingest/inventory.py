"""Inventory reports: a list of a bucket's keys that the bucket's provider writes every day or week.

    report = report_at(Path("inventory/metrics/daily"))       # or report_in(store, env, "inventory/...")
    report.check(bucket="metrics", now_ns=env.now_ns())
    for key in report.stood("prod/"):
        ...

The format is that of S3 Inventory: `manifest.json` names the bucket, when the scan of it began, the columns,
and the data files with their sizes and MD5; beside it stands `manifest.checksum`. Data files are gzip with
CSV, without a header, keys encoded as in a form; or Parquet or ORC, whose keys are as they are.

What a report says is old, and it is no snapshot: S3 promises neither that a key is in it which stood when the
scan began, nor that one is not which was deleted since ("a rolling snapshot", which may lack what was added
lately). So nothing here may be taken for a fact about the bucket; `audit` tells what follows from it.

Everything is streamed. Keys come in any order, and before the end of a file is reached nobody knows whether
it is whole: whoever acts on keys as they come must be able to.
"""

import base64
import csv
import datetime as dt
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NoReturn
from urllib.parse import unquote

from holdfast.impl.environment import Environment
from holdfast.impl.ingest.documents import parse
from holdfast.impl.ingest.errors import Damaged, InventoryError
from holdfast.impl.ingest.inventory_files import Bucket, DataFile, Hashed, Place, place_on_disk
from holdfast.impl.store.interface import Store

MANIFEST = "manifest.json"
CHECKSUM = "manifest.checksum"
MANIFEST_BYTES_MAX = 64 * 1024 * 1024
"""Our own limit: a manifest names some thousand files."""
LINE_MAX = 64 * 1024
"""Characters of one row; a key has at most 1,024 bytes, three times as many when it is encoded."""
SKEW_NS = 300 * 10**9
"""So far may a report be ahead of our clock."""
ROWS_AT_ONCE = 65_536
_DATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\dZ")
_MD5 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Report:
    """One report. Reading its rows is what takes long, and is done anew by every call of `stood`."""

    name: str
    """Where its manifest stands, for people."""
    bucket: str
    began_ns: int
    """When the scan of the bucket began, by the bucket's clock."""
    kind: str
    columns: tuple[str, ...]
    """As the manifest spells them, in the order of a row."""
    files: tuple[DataFile, ...]
    place: Place = field(repr=False)
    folder: str = field(repr=False)

    def check(self, *, bucket: str | None, now_ns: int) -> None:
        """Raise `InventoryError` when it cannot be a report of this bucket."""
        if bucket is not None and bucket != self.bucket:
            raise InventoryError(
                f"the report {self.name} is of bucket {self.bucket!r}, and the store is in bucket {bucket!r}"
            )
        if self.began_ns > now_ns + SKEW_NS:
            raise InventoryError(
                f"the report {self.name} was taken at {self.taken}, which is "
                f"{(self.began_ns - now_ns) / 1e9:.0f} s ahead of this clock; set the clock right"
            )

    @property
    def taken(self) -> str:
        return f"{dt.datetime.fromtimestamp(self.began_ns // 10**9, dt.UTC):%Y-%m-%d %H:%M:%S}Z"

    def stood(self, prefix: str = "") -> Iterator[str]:
        """The keys below `prefix`, without it, that were said to stand, in any order."""
        for file in self.files:
            path = self.place.find(file.key, self.folder)
            if path is None:
                raise InventoryError(
                    f"data file {file.key!a} of the report {self.name} is not there; copy the whole report"
                )
            for key in _FORMATS[self.kind](self, file, path):
                if key.startswith(prefix) and len(key) > len(prefix):
                    yield key[len(prefix) :]


def report_at(path: Path) -> Report:
    """The report on this disk whose manifest is `path`, or the newest in that folder."""
    place, inside = place_on_disk(path)
    return _opened(place, inside)


def report_in(store: Store, env: Environment, key: str) -> Report:
    """The same in a store."""
    return _opened(Bucket(store, env), key.rstrip("/"))


def _opened(place: Place, path: str) -> Report:
    manifest = next((one for one in _manifests(place, path) if place.size(one) is not None), None)
    if manifest is None:
        raise InventoryError(
            f"no inventory report at {place.shown(path)}: expected {MANIFEST}, or a folder with it or with "
            "folders named like 2026-11-18T01-00Z that have it"
        )
    name, folder = place.shown(manifest), manifest.rpartition("/")[0]
    said = _parsed(place, manifest, name, folder)
    kind, columns = _schema(said, name)
    return Report(
        name=name,
        bucket=_text(said, "sourceBucket", name),
        began_ns=_time(said, name),
        kind=kind,
        columns=columns,
        files=tuple(_files(said, name)),
        place=place,
        folder=folder,
    )


def _manifests(place: Place, path: str) -> Iterator[str]:
    """Where the manifest may be, the newest first."""
    if path.rpartition("/")[2] == MANIFEST:
        yield path
        return
    base = f"{path}/" if path else ""
    yield f"{base}{MANIFEST}"
    dated = sorted((one for one in place.folders(path) if _DATED.fullmatch(one)), reverse=True)
    yield from (f"{base}{one}/{MANIFEST}" for one in dated)


def _parsed(place: Place, manifest: str, name: str, folder: str) -> dict[str, Any]:
    body = _small(place, manifest)
    checksum = f"{folder}/{CHECKSUM}" if folder else CHECKSUM
    if place.size(checksum) is not None:
        md5 = hashlib.md5(body, usedforsecurity=False).digest()
        if _small(place, checksum).strip().lower() not in (
            md5.hex().encode(),
            base64.b64encode(md5).lower(),
        ):
            raise InventoryError(f"{name} does not have the MD5 that {CHECKSUM} says: copy both again")
    try:
        return parse(body, name)
    except (Damaged, RecursionError) as wrong:
        raise InventoryError(str(wrong)) from None


def _small(place: Place, path: str) -> bytes:
    with place.open(path) as file:
        body = file.read(MANIFEST_BYTES_MAX + 1)
    if len(body) > MANIFEST_BYTES_MAX:
        raise InventoryError(
            f"{place.shown(path)} is larger than {MANIFEST_BYTES_MAX} bytes; is it a manifest?"
        )
    return body


def _text(said: Mapping[str, Any], field_: str, name: str) -> str:
    value = said.get(field_)
    if not isinstance(value, str) or not value:
        raise InventoryError(f"{name} has no {field_}; is it the manifest of an inventory report?")
    return value


def _time(said: Mapping[str, Any], name: str) -> int:
    value = said.get("creationTimestamp")
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    text = _text({"creationTimestamp": value}, "creationTimestamp", name)
    if not (text.isascii() and text.isdigit() and len(text) <= 14):
        raise InventoryError(f"{name}: creationTimestamp is {text[:40]!a}; expected milliseconds since 1970")
    return int(text) * 10**6


def _schema(said: Mapping[str, Any], name: str) -> tuple[str, tuple[str, ...]]:
    kind, schema = _text(said, "fileFormat", name), _text(said, "fileSchema", name)
    if kind not in _FORMATS:
        known = ", ".join(sorted(_FORMATS))
        raise InventoryError(f"{name}: fileFormat is {kind[:40]!a}; known are {known}")
    if kind != "CSV":
        if _arrow() is None:
            raise InventoryError(
                f"{name} is a {kind} report, for which pyarrow is needed: pip install 'holdfast[catalog]', "
                "or have the report written as CSV"
            )
        return kind, ()  # each file says itself what is in it
    columns = tuple(part.strip() for part in schema.split(","))
    _needed(columns, name)
    return kind, columns


def _needed(columns: Sequence[str], name: str) -> dict[str, int]:
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


def _files(said: Mapping[str, Any], name: str) -> Iterator[DataFile]:
    found = said.get("files")
    if not isinstance(found, list) or not found:
        raise InventoryError(f"{name} has no files; is it the manifest of an inventory report?")
    for number, one in enumerate(found):
        one = one if isinstance(one, dict) else {}
        for column, kind in (("key", str), ("size", int), ("MD5checksum", str)):
            if not isinstance(one.get(column), kind):
                raise InventoryError(f"{name}: files[{number}] has no {column}")
        key, md5 = one["key"], one["MD5checksum"].lower()
        if not key or {"", ".", ".."} & set(key.split("/")) or "\0" in key:
            raise InventoryError(f"{name}: files[{number}]: {key[:80]!a} is no key of a data file")
        if not _MD5.fullmatch(md5):
            raise InventoryError(f"{name}: files[{number}]: {md5[:80]!a} is no MD5")
        yield DataFile(key, one["size"], md5)


# The rows of one data file, by its format.


def _csv(report: Report, file: DataFile, path: str) -> Iterator[str]:
    name = report.place.shown(path)
    at = _needed(report.columns, report.name)
    with report.place.open(path) as opened:
        hashed = Hashed(opened)
        try:
            for number, row in enumerate(csv.reader(_lines(hashed, name)), 1):
                if len(row) != len(report.columns):
                    fields = f"{len(row)} field{'' if len(row) == 1 else 's'}"
                    _wrong(number, name, f"has {fields}, the manifest names {len(report.columns)} columns")
                if row[at["bucket"]] != report.bucket:
                    _other_bucket(number, name, row[at["bucket"]], report.bucket)
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


def _columnar(report: Report, file: DataFile, path: str) -> Iterator[str]:
    """Parquet and ORC: sought in, so the whole is compared with the manifest first."""
    name = report.place.shown(path)
    with report.place.open(path) as opened:
        _whole(file, Hashed(opened), name)
    with report.place.open(path) as opened:
        for batch in _batches(report.kind, opened, name):
            rows = batch.to_pydict()
            at = {_plain(column): column for column in rows}
            for number, key in enumerate(rows[at["key"]]):
                bucket = rows[at["bucket"]][number]
                if bucket != report.bucket:
                    _other_bucket(number + 1, name, str(bucket), report.bucket)
                if "islatest" in at and not (
                    rows[at["islatest"]][number] and not rows[at["isdeletemarker"]][number]
                ):
                    continue
                yield str(key)


def _batches(kind: str, opened: IO[bytes], name: str) -> Iterator[Any]:
    arrow = _arrow()
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
    except (arrow.ArrowException, OSError, ValueError) as wrong:
        if isinstance(wrong, InventoryError):
            raise
        raise InventoryError(
            f"{name} is no whole {kind} file: {' '.join(str(wrong).split())[:200]}"
        ) from None


def _matter(columns: Sequence[str], name: str) -> list[str]:
    at = _needed(columns, name)
    return [columns[at[one]] for one in ("bucket", "key", "islatest", "isdeletemarker") if one in at]


def _arrow() -> Any:
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


_FORMATS = {"CSV": _csv, "ORC": _columnar, "Parquet": _columnar}
