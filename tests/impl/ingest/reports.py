"""Inventory reports in the format of S3, with the keys of a test: manifest, checksum, data files."""

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

BUCKET = "metrics"
AT_NS = 1_700_000_000_000_000_000
CURRENT = ("Bucket", "Key", "Size", "LastModifiedDate", "ETag")
VERSIONS = ("Bucket", "Key", "VersionId", "IsLatest", "IsDeleteMarker", "Size")
BASE = f"inventory/{BUCKET}/daily"
Row = Mapping[str, str]


def rows_of(keys: Iterable[str], bucket: str = BUCKET) -> list[Row]:
    return [{"Bucket": bucket, "Key": key, "IsLatest": "true", "IsDeleteMarker": "false"} for key in keys]


def packed(rows: Iterable[Row], columns: Sequence[str] = CURRENT) -> bytes:
    """A data file: rows without a header, URL-encoded keys."""
    out = io.StringIO()
    lines = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for row in rows:
        lines.writerow([quote_plus(row["Key"]) if name == "Key" else row.get(name, "") for name in columns])
    return gzip.compress(out.getvalue().encode(), mtime=0)


def report(
    keys: Iterable[str] = (),
    *,
    rows: Sequence[Row] | None = None,
    columns: Sequence[str] = CURRENT,
    at_ns: int = AT_NS,
    bucket: str = BUCKET,
    files: int = 1,
    more: Mapping[str, Any] | None = None,
) -> dict[str, bytes]:
    """The objects of a report by their full keys in its bucket."""
    found = list(rows) if rows is not None else rows_of(keys, bucket)
    data = {
        f"{BASE}/data/part-{number}.csv.gz": packed(found[number::files], columns) for number in range(files)
    }
    return with_manifest(data, ", ".join(columns), "CSV", at_ns=at_ns, bucket=bucket, more=more)


def with_manifest(
    data: Mapping[str, bytes],
    schema: str,
    kind: str,
    *,
    at_ns: int = AT_NS,
    bucket: str = BUCKET,
    more: Mapping[str, Any] | None = None,
    dated: str = "2023-11-14T22-13Z",
) -> dict[str, bytes]:
    manifest_fields = {
        "sourceBucket": bucket,
        "destinationBucket": "arn:aws:s3:::reports",
        "version": "2016-11-30",
        "creationTimestamp": str(at_ns // 10**6),
        "fileFormat": kind,
        "fileSchema": schema,
        "files": [
            {"key": key, "size": len(body), "MD5checksum": hashlib.md5(body).hexdigest()}
            for key, body in data.items()
        ],
        **(more or {}),
    }
    manifest = json.dumps(
        {name: value for name, value in manifest_fields.items() if value is not None}
    ).encode()
    folder = f"{BASE}/{dated}"
    return {
        **data,
        f"{folder}/manifest.json": manifest,
        f"{folder}/manifest.checksum": hashlib.md5(manifest).hexdigest().encode(),
    }


MANIFEST = f"{BASE}/2023-11-14T22-13Z/manifest.json"


def on_disk(objects: Mapping[str, bytes], root: Path) -> Path:
    """Copies the report like `aws s3 sync`; returns its manifest."""
    for key, body in objects.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return next(root.rglob("manifest.json"))
