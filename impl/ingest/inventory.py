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
import datetime as dt
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.ingest.documents import parse
from fencepost.impl.ingest.errors import Damaged, InventoryError
from fencepost.impl.ingest.inventory_files import Bucket, DataFile, Place, place_on_disk
from fencepost.impl.ingest.inventory_rows import FORMATS, Rows, arrow, keys_of, needed
from fencepost.impl.store.interface import Store

MANIFEST = "manifest.json"
CHECKSUM = "manifest.checksum"
MANIFEST_BYTES_MAX = 64 * 1024 * 1024
"""Our own limit: a manifest names some thousand files."""
SKEW_NS = 300 * 10**9
"""So far may a report be ahead of our clock."""
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
        rows = Rows(self.name, self.bucket, self.kind, self.columns)
        for file in self.files:
            path = self.place.find(file.key, self.folder)
            if path is None:
                raise InventoryError(
                    f"data file {file.key!a} of the report {self.name} is not there; copy the whole report"
                )
            for key in keys_of(rows, self.place, file, path):
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
    if kind not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        raise InventoryError(f"{name}: fileFormat is {kind[:40]!a}; known are {known}")
    if kind != "CSV":
        if arrow() is None:
            raise InventoryError(
                f"{name} is a {kind} report, for which pyarrow is needed: pip install 'fencepost[catalog]', "
                "or have the report written as CSV"
            )
        return kind, ()  # each file says itself what is in it
    columns = tuple(part.strip() for part in schema.split(","))
    needed(columns, name)
    return kind, columns


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
