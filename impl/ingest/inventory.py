"""Inventory reports: a list of a bucket's keys that the bucket's provider writes every day or week.

    report = report_at(Path("inventory/metrics/daily"))       # or report_in(store, env, "inventory/...")
    report.check(bucket="metrics", now_ns=env.now_ns())
    for key in report.list_keys("prod/"):
        ...

The format is that of S3 Inventory: `manifest.json` has the bucket, the start of the scan, the columns, and
the data files with their sizes and MD5; beside it lies `manifest.checksum`. Data files are gzip with CSV,
without a header, with URL-encoded keys; or Parquet or ORC, with plain keys.

A report is old, and it is no snapshot: S3 promises neither that it has every key that existed when the scan
began, nor that it lacks every key deleted since ("a rolling snapshot", which may lack recent keys). So
nothing in it is a fact about the bucket; `audit` explains what follows from that.

Everything is streamed and checked. Keys come in any order, and only at the end of a file is it known whether
the file is whole: a caller that acts on keys as they come must be able to live with that.
"""

import base64
import csv
import datetime as dt
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NoReturn
from urllib.parse import unquote

from fencepost.impl.environment import Environment
from fencepost.impl.http.numbers import whole_number
from fencepost.impl.ingest.documents import parse
from fencepost.impl.ingest.errors import Damaged, InventoryError
from fencepost.impl.ingest.inventory_files import Bucket, DataFile, Hashed, Place, place_on_disk
from fencepost.impl.store.interface import Store

MANIFEST = "manifest.json"
CHECKSUM = "manifest.checksum"
MANIFEST_BYTES_MAX = 64 * 1024 * 1024
"""Our own limit: a manifest names some thousand files."""
SKEW_NS = 300 * 10**9
"""Largest lead of a report over our clock, in nanoseconds."""
_DATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\dZ")
_MD5 = re.compile(r"[0-9a-f]{32}")
LINE_MAX = 64 * 1024
"""Characters of one row; a key has at most 1,024 bytes, three times as many when it is encoded."""
ROWS_AT_ONCE = 65_536


@dataclass(frozen=True)
class Report:
    """One report. Reading its rows takes long, and every call of `list_keys` reads them again."""

    name: str
    """Where its manifest lies, for people."""
    bucket: str
    began_ns: int
    """When the scan of the bucket began, by the bucket's clock."""
    kind: str
    columns: tuple[str, ...]
    """As the manifest spells them, in the order of a row; empty for Parquet and ORC: see their files."""
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

    def list_keys(self, prefix: str = "") -> Iterator[str]:
        """The existing keys below `prefix`, without it, in any order."""
        for file in self.files:
            path = self.place.find(file.key, self.folder)
            if path is None:
                raise InventoryError(
                    f"data file {file.key!a} of the report {self.name} is missing; copy the whole report"
                )
            for key in FORMATS[self.kind](self, file, path):
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
    content = _parsed(place, manifest, name, folder)
    kind, columns = _schema(content, name)
    return Report(
        name=name,
        bucket=_text(content, "sourceBucket", name),
        began_ns=_time(content, name),
        kind=kind,
        columns=columns,
        files=tuple(_files(content, name)),
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
            raise InventoryError(f"{name} does not have the MD5 in {CHECKSUM}: copy both again")
    try:
        return parse(body, name)
    except (Damaged, RecursionError) as error:
        raise InventoryError(str(error)) from None


def _small(place: Place, path: str) -> bytes:
    with place.open(path) as file:
        body = file.read(MANIFEST_BYTES_MAX + 1)
    if len(body) > MANIFEST_BYTES_MAX:
        raise InventoryError(
            f"{place.shown(path)} is larger than {MANIFEST_BYTES_MAX} bytes; is it a manifest?"
        )
    return body


def _text(content: Mapping[str, Any], field_: str, name: str) -> str:
    value = content.get(field_)
    if not isinstance(value, str) or not value:
        raise InventoryError(f"{name} has no {field_}; is it the manifest of an inventory report?")
    return value


def _time(content: Mapping[str, Any], name: str) -> int:
    value = content.get("creationTimestamp")
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    text = _text({"creationTimestamp": value}, "creationTimestamp", name)
    if whole_number(text, 10**14 - 1) is None:
        raise InventoryError(f"{name}: creationTimestamp is {text[:40]!a}; expected milliseconds since 1970")
    return int(text) * 10**6


def _schema(content: Mapping[str, Any], name: str) -> tuple[str, tuple[str, ...]]:
    kind, schema = _text(content, "fileFormat", name), _text(content, "fileSchema", name)
    if kind not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        raise InventoryError(f"{name}: fileFormat is {kind[:40]!a}; known are {known}")
    if kind != "CSV":
        if arrow() is None:
            raise InventoryError(
                f"{name} is a {kind} report, for which pyarrow is needed: pip install 'fencepost[catalog]', "
                "or have the report written as CSV"
            )
        return kind, ()  # each file has its own
    columns = tuple(part.strip() for part in schema.split(","))
    needed(columns, name)
    return kind, columns


def _files(content: Mapping[str, Any], name: str) -> Iterator[DataFile]:
    found = content.get("files")
    if not isinstance(found, list) or not found:
        raise InventoryError(f"{name} has no files; is it the manifest of an inventory report?")
    for number, one in enumerate(found):
        one = one if isinstance(one, dict) else {}
        for column, kind in (("key", str), ("size", int), ("MD5checksum", str)):
            if not isinstance(one.get(column), kind):
                raise InventoryError(f"{name}: files[{number}] has no {column}")
        key, md5 = one["key"], one["MD5checksum"].lower()
        if not key or {"", ".", ".."} & set(key.split("/")) or "\0" in key:
            raise InventoryError(f"{name}: files[{number}]: {key[:80]!a} is not a key of a data file")
        if not _MD5.fullmatch(md5):
            raise InventoryError(f"{name}: files[{number}]: {md5[:80]!a} is not an MD5")
        yield DataFile(key, one["size"], md5)


def needed(columns: Sequence[str], name: str) -> dict[str, int]:
    """The positions of the columns that matter, by their names in small letters without underscores."""
    at = {_plain(column): number for number, column in enumerate(columns)}
    wanted = ["Bucket", "Key"]
    if not at.keys().isdisjoint({"versionid", "islatest", "isdeletemarker"}):
        wanted += ["IsLatest", "IsDeleteMarker"]
    for column in wanted:
        if _plain(column) not in at:
            raise InventoryError(
                f"{name} has no column {column}; it has {', '.join(columns)[:200]}: correct the "
                "configuration of the report"
            )
    return at


def _plain(column: str) -> str:
    return column.replace("_", "").lower()


def _csv(report: Report, file: DataFile, path: str) -> Iterator[str]:
    name = report.place.shown(path)
    at = needed(report.columns, report.name)
    with report.place.open(path) as opened:
        hashed = Hashed(opened)
        try:
            for number, row in enumerate(csv.reader(_lines(hashed, name)), 1):
                if len(row) != len(report.columns):
                    fields = f"{len(row)} field{'' if len(row) == 1 else 's'}"
                    _bad_line(number, name, f"has {fields}, the manifest names {len(report.columns)} columns")
                if row[at["bucket"]] != report.bucket:
                    _other_bucket(number, name, row[at["bucket"]], report.bucket)
                if "islatest" in at:
                    flags = row[at["islatest"]].lower(), row[at["isdeletemarker"]].lower()
                    if flags[0] != "true" or flags[1] == "true":
                        continue  # an earlier version, or a delete marker
                yield _decoded(row[at["key"]], number, name)
        except UnicodeDecodeError:
            _whole(file, hashed, name)
            raise InventoryError(f"{name} is not UTF-8") from None
        except csv.Error as error:
            raise InventoryError(f"a row of {name} is not CSV: {error}") from None
        except (OSError, EOFError, zlib.error) as error:
            _whole(file, hashed, name)  # a truncated or foreign file gets a message of its own
            raise InventoryError(f"{name} is not a whole gzip file: {error}") from None
        _whole(file, hashed, name)


def _lines(hashed: Hashed, name: str) -> Iterator[str]:
    """The lines, each of bounded length."""
    text = io.TextIOWrapper(gzip.GzipFile(fileobj=hashed), "utf-8", newline="")
    number = 0
    while line := text.readline(LINE_MAX):
        number += 1
        if len(line) == LINE_MAX and not line.endswith("\n"):
            _bad_line(number, name, f"is longer than {LINE_MAX} characters")
        yield line


def _decoded(text: str, number: int, name: str) -> str:
    # Our keys have these and no others: looking for more took half of the time of a large report.
    plain = text.replace("+", " ").replace("%2F", "/").replace("%3D", "=").replace("%7E", "~")
    if "%" not in plain:
        return plain
    try:
        return unquote(plain, errors="strict")
    except UnicodeDecodeError:
        _bad_line(number, name, f"has {text[:80]!a}, which is not a key")


def _whole(file: DataFile, hashed: Hashed, name: str) -> None:
    """Raise unless it is the file in the manifest."""
    md5 = hashed.drain()
    if hashed.count != file.size:
        raise InventoryError(
            f"{name} has {hashed.count} bytes, and {file.size} by the manifest: it is truncated, or "
            "of another report; copy it again"
        )
    if md5 != file.md5:
        raise InventoryError(f"{name} does not have the MD5 in the manifest; copy it again")


def _columnar(report: Report, file: DataFile, path: str) -> Iterator[str]:
    """Parquet and ORC: readers seek in them, so the whole file is compared with the manifest first."""
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
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, InventoryError):
            raise
        raise InventoryError(
            f"{name} is not a whole {kind} file: {' '.join(str(error).split())[:200]}"
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


def _bad_line(number: int, name: str, what: str) -> NoReturn:
    raise InventoryError(f"line {number} of {name} {what}; is it a data file of this report?")


def _other_bucket(number: int, name: str, found: str, expected: str) -> NoReturn:
    raise InventoryError(
        f"line {number} of {name} has bucket {found[:80]!a}, the manifest has {expected!a}; "
        "copy the whole report again"
    )


FORMATS: dict[str, Callable[[Report, DataFile, str], Iterator[str]]] = {
    "CSV": _csv,
    "ORC": _columnar,
    "Parquet": _columnar,
}
