"""Inventory reports are read in all formats, and the message about an invalid one is one sentence."""

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest.errors import InventoryError, StoreUnavailable
from fencepost.impl.ingest.inventory import Report, report_at, report_in
from fencepost.impl.ingest.inventory_files import Bucket
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore

from .reports import AT_NS, BASE, BUCKET, MANIFEST, VERSIONS, on_disk, packed, report, rows_of, with_manifest

KEYS = (
    "accepted/v1/agent=61/boot=62/a b+c.json",
    "raw-blobs/x~1.lmbatch",
    'odd/"quoted", and\nbroken',
    "ä/ö",
)


def in_store(objects: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore(env=SeededEnvironment(1))
    for key, body in objects.items():
        store.put(key, body, when=ANYTHING)
    return store


def opened(objects: dict[str, bytes], tmp_path: Path) -> Report:
    return report_at(on_disk(objects, tmp_path))


def test_keys_are_those_of_the_bucket(tmp_path: Path) -> None:
    """In CSV they are URL-encoded: a space is a plus, and = and ~ are escaped."""
    found = opened(report(KEYS), tmp_path)
    assert list(found.list_keys()) == list(KEYS)
    assert (found.bucket, found.began_ns) == (BUCKET, AT_NS)


def test_all_data_files_are_read(tmp_path: Path) -> None:
    keys = [f"k/{number:04d}" for number in range(1000)]
    found = opened(report(keys, files=7), tmp_path)
    assert sorted(found.list_keys()) == keys
    assert sorted(found.list_keys()) == keys, "and again on every call"


def test_only_keys_below_the_prefix_and_without_it(tmp_path: Path) -> None:
    found = opened(report(["prod/a", "prod/b/c", "product", "test/a", "prod/"]), tmp_path)
    assert list(found.list_keys("prod/")) == ["a", "b/c"]


def test_only_latest_versions_and_no_delete_markers(tmp_path: Path) -> None:
    rows = [
        {"Bucket": BUCKET, "Key": key, "IsLatest": latest, "IsDeleteMarker": marker}
        for key, latest, marker in (
            ("stands", "true", "false"),
            ("stands", "false", "false"),
            ("deleted", "true", "true"),
            ("deleted", "false", "false"),
            ("came-back", "false", "true"),
            ("came-back", "TRUE", "False"),
        )
    ]
    assert list(opened(report(rows=rows, columns=VERSIONS), tmp_path).list_keys()) == ["stands", "came-back"]


@pytest.mark.parametrize("place", [MANIFEST, BASE, f"{BASE}/", MANIFEST.removesuffix("manifest.json")])
def test_a_report_is_found_by_its_manifest_or_a_folder(tmp_path: Path, place: str) -> None:
    objects = report(KEYS)
    on_disk(objects, tmp_path)
    assert list(report_at(tmp_path / place).list_keys()) == list(KEYS)
    store = in_store(objects)
    assert list(report_in(store, store.env, place).list_keys()) == list(KEYS)


def test_the_newest_report_is_taken(tmp_path: Path) -> None:
    for dated, key in (
        ("2026-11-16T01-00Z", "old"),
        ("2026-11-18T01-00Z", "new"),
        ("2026-11-17T01-00Z", "mid"),
    ):
        body = packed(rows_of([key]))
        on_disk(
            with_manifest(
                {f"{BASE}/data/{key}.csv.gz": body},
                "Bucket, Key, Size, LastModifiedDate, ETag",
                "CSV",
                dated=dated,
            ),
            tmp_path,
        )
    (tmp_path / BASE / "2026-11-19T01-00Z").mkdir()  # is being written
    (tmp_path / BASE / "hive").mkdir()
    assert list(report_at(tmp_path / BASE).list_keys()) == ["new"]


def test_files_copied_into_one_folder_are_found(tmp_path: Path) -> None:
    for key, body in report(KEYS).items():
        (tmp_path / key.rpartition("/")[2]).write_bytes(body)
    assert list(report_at(tmp_path).list_keys()) == list(KEYS)


def test_a_report_in_a_store_with_a_prefix_is_found_by_its_own_keys() -> None:
    """The manifest has full keys; below a prefix they begin later."""
    objects = {f"elsewhere/{key}": body for key, body in report(KEYS).items()}
    store = in_store(objects)
    assert list(report_in(store, store.env, f"elsewhere/{BASE}").list_keys()) == list(KEYS)


def test_ranges_are_read_again_when_the_store_does_not_answer() -> None:
    store = in_store(report(KEYS))
    flaky = Faulty(
        store, [Fault(Effect.REQUEST_LOST, {"get"}, times=2), Fault(Effect.REQUEST_LOST, {"head"}, times=1)]
    )
    assert list(report_in(flaky, store.env, MANIFEST).list_keys()) == list(KEYS)
    silent = Faulty(store, [Fault(Effect.REQUEST_LOST, {"get"})])
    with pytest.raises(StoreUnavailable):
        report_in(silent, store.env, MANIFEST)


def test_a_large_file_is_streamed_and_not_loaded(tmp_path: Path) -> None:
    count = 60_000
    found = opened(report(f"accepted/v1/{number:060d}" for number in range(count)), tmp_path)
    tracemalloc.start()
    try:
        assert sum(1 for _ in found.list_keys()) == count
        assert tracemalloc.get_traced_memory()[1] < 2_500_000
    finally:
        tracemalloc.stop()


def test_a_file_changed_during_the_read_is_refused() -> None:
    store = in_store(report([f"k/{number:05d}" for number in range(5)]))
    found = report_in(store, store.env, MANIFEST)
    store.put(f"{BASE}/data/part-0.csv.gz", packed(rows_of(["other"])), when=ANYTHING)
    with pytest.raises(InventoryError, match=r"part-0\.csv\.gz"):
        list(found.list_keys())


def test_a_file_is_read_from_one_version() -> None:
    store = in_store({"file": b"a" * 3_000_000})
    with Bucket(store, store.env).open("file") as file:
        assert file.read(10) == b"a" * 10
        store.put("file", b"b" * 3_000_000, when=ANYTHING)
        with pytest.raises(InventoryError, match="file in memory:// was changed while it was read"):
            file.read()


def other_manifest(**more: Any) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda _: report(KEYS, more=more)


def other_data(change: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda objects: {
        key: change(body) if key.endswith(".gz") else body for key, body in objects.items()
    }


def with_data(data: bytes) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    """Another data file, with its true size and hash in the manifest."""
    return lambda _: with_manifest({f"{BASE}/data/part-0.csv.gz": data}, "Bucket, Key", "CSV")


def without_checksum(objects: dict[str, bytes], manifest: bytes) -> dict[str, bytes]:
    return {
        key: manifest if key == MANIFEST else body for key, body in objects.items() if "checksum" not in key
    }


WHOLE = packed(rows_of(KEYS), ("Bucket", "Key"))
BAD: dict[str, tuple[Callable[[dict[str, bytes]], dict[str, bytes]], str]] = {
    "no JSON": (lambda o: without_checksum(o, b"{"), "manifest.json.* is not JSON"),
    "no object": (lambda o: without_checksum(o, b"[]"), "manifest.json.* holds a JSON list"),
    "another checksum": (
        lambda o: {k: b"0" * 32 if "checksum" in k else v for k, v in o.items()},
        "manifest.json.* does not have the MD5 in manifest.checksum: copy both again",
    ),
    "no bucket": (other_manifest(sourceBucket=None), "has no sourceBucket"),
    "no time": (other_manifest(creationTimestamp=None), "has no creationTimestamp"),
    "a time that is none": (other_manifest(creationTimestamp="soon"), "creationTimestamp is 'soon'"),
    "no schema": (other_manifest(fileSchema=None), "has no fileSchema"),
    "no key": (other_manifest(fileSchema="Bucket, Size"), "has no column Key"),
    "no rows' bucket": (other_manifest(fileSchema="Key, Size"), "has no column Bucket"),
    "versions without latest": (
        other_manifest(fileSchema="Bucket, Key, VersionId, IsDeleteMarker, Size"),
        "has no column IsLatest",
    ),
    "versions without markers": (
        other_manifest(fileSchema="Bucket, Key, VersionId, IsLatest, Size"),
        "has no column IsDeleteMarker",
    ),
    "another format": (other_manifest(fileFormat="XML"), "fileFormat is 'XML'; known are CSV, ORC, Parquet"),
    "no files": (other_manifest(files=None), "has no files"),
    "an odd file": (other_manifest(files=[{"key": "x"}]), "files\\[0\\] has no size"),
    "a file outside": (
        other_manifest(files=[{"key": "../../x", "size": 1, "MD5checksum": "0" * 32}]),
        "'../../x' is not a key of a data file",
    ),
    "a file that is missing": (
        lambda o: {key: body for key, body in o.items() if not key.endswith(".gz")},
        "part-0.csv.gz.* is missing",
    ),
    "a truncated file": (other_data(lambda body: body[:-20]), "part-0.csv.gz.* bytes.*truncated"),
    "another file": (
        other_data(lambda body: body[:-20] + b"x" * 20),
        "part-0.csv.gz.* does not have the MD5 .*copy it again",
    ),
    "a gzip that ends early": (with_data(WHOLE[:-20]), "part-0.csv.gz.* is not a whole gzip"),
    "no gzip": (with_data(b"Bucket,Key\n"), "part-0.csv.gz.* is not a whole gzip"),
    "a torn gzip": (
        with_data(WHOLE[:12] + b"\xff\xff\xff" + WHOLE[15:]),
        "part-0.csv.gz.* is not a whole gzip",
    ),
    "a short row": (with_data(gzip.compress(b'"metrics"\n')), "line 1 of .*part-0.csv.gz.* has 1 field.*2"),
    "a row without end": (
        with_data(gzip.compress(b'"metrics","' + b"x" * 200_000 + b'"\n')),
        "line 1 of .*part-0.csv.gz.* longer than",
    ),
    "an open quote": (
        with_data(gzip.compress(b'"metrics","x\n' + b'"metrics","y"\n' * 20_000)),
        "of .*part-0.csv.gz.* is not CSV|has . field",
    ),
    "another bucket's row": (
        with_data(packed(rows_of(["a"], "other"), ("Bucket", "Key"))),
        "line 1 of .*part-0.csv.gz.* has bucket 'other', the manifest has 'metrics'",
    ),
    "no text": (with_data(gzip.compress(b'"metrics","\xff"\n')), "part-0.csv.gz.* is not UTF-8"),
    "no text in the key": (
        with_data(gzip.compress(b'"metrics","%ff"\n')),
        "line 1 of .*'%ff', which is not a key",
    ),
}


@pytest.mark.parametrize("where", ["disk", "store"])
@pytest.mark.parametrize("name", BAD)
def test_the_defect_of_a_report_is_one_sentence(name: str, where: str, tmp_path: Path) -> None:
    change, message = BAD[name]
    objects = change(report(KEYS))
    store = in_store(objects)
    if where == "disk":
        on_disk(objects, tmp_path)

    def read() -> list[str]:
        found = report_at(tmp_path / MANIFEST) if where == "disk" else report_in(store, store.env, MANIFEST)
        return list(found.list_keys())

    with pytest.raises(InventoryError, match=message) as error:
        read()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def test_a_folder_without_a_report_is_reported(tmp_path: Path) -> None:
    (tmp_path / "hive").mkdir()
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "nowhere" / "manifest.json"):
        with pytest.raises(InventoryError, match=f"no inventory report at .*{place.name}.*manifest.json"):
            report_at(place)
    store = MemoryStore(env=SeededEnvironment(1))
    with pytest.raises(InventoryError, match=r"no inventory report at .*nowhere.*manifest\.json"):
        report_in(store, store.env, "nowhere/")


def test_a_huge_manifest_is_not_read(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    with manifest.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    with pytest.raises(InventoryError, match="larger than"):
        report_at(manifest)


def columns_of(rows: list[tuple[str, bool, bool]]) -> dict[str, list[Any]]:
    return {
        "bucket": [BUCKET] * len(rows),
        "key": [key for key, _, _ in rows],
        "version_id": ["v"] * len(rows),
        "is_latest": [latest for _, latest, _ in rows],
        "is_delete_marker": [marker for _, _, marker in rows],
        "size": [1] * len(rows),
    }


def columnar(kind: str, columns: dict[str, list[Any]], tmp_path: Path) -> dict[str, bytes]:
    pa = pytest.importorskip("pyarrow")
    file = tmp_path / "made"
    if kind == "ORC":
        orc = pytest.importorskip("pyarrow.orc")
        orc.write_table(pa.table(columns), file)
    else:
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table(columns), file)
    body = file.read_bytes()
    schema = ",".join(columns)  # each file has its own schema
    return with_manifest({f"{BASE}/data/part-0.{kind.lower()}": body}, schema, kind)


@pytest.mark.parametrize("kind", ["Parquet", "ORC"])
@pytest.mark.parametrize("where", ["disk", "store"])
def test_columnar_files_are_read_with_pyarrow(kind: str, where: str, tmp_path: Path) -> None:
    """Their keys are not encoded: a plus is a plus."""
    rows = [("a+b%20c", True, False), ("old", False, False), ("gone", True, True)]
    objects = columnar(kind, columns_of(rows), tmp_path)
    store = in_store(objects)
    found = report_in(store, store.env, MANIFEST) if where == "store" else opened(objects, tmp_path)
    assert list(found.list_keys()) == ["a+b%20c"]


@pytest.mark.parametrize("kind", ["Parquet", "ORC"])
def test_columnar_data_of_another_report_is_refused(kind: str, tmp_path: Path) -> None:
    objects = columnar(kind, columns_of([("a", True, False)]), tmp_path)
    other = columnar(kind, columns_of([("b", True, False)]), tmp_path)
    data = f"{BASE}/data/part-0.{kind.lower()}"
    with pytest.raises(InventoryError, match=r"by the manifest|does not have the MD5"):
        list(opened(objects | {data: other[data]}, tmp_path).list_keys())


@pytest.mark.parametrize("kind", ["Parquet", "ORC"])
def test_a_missing_column_is_named(kind: str, tmp_path: Path) -> None:
    columns = columns_of([("a", True, False)])
    del columns["key"]
    with pytest.raises(InventoryError, match=r"part-0.* has no column Key"):
        list(opened(columnar(kind, columns, tmp_path), tmp_path).list_keys())


@pytest.mark.parametrize("kind", ["Parquet", "ORC"])
def test_an_invalid_columnar_file_is_reported(kind: str, tmp_path: Path) -> None:
    objects = with_manifest({f"{BASE}/data/part-0.{kind.lower()}": b"PAR1 nothing"}, "bucket, key", kind)
    with pytest.raises(InventoryError, match=f"part-0.* is not a whole {kind}"):
        list(opened(objects, tmp_path).list_keys())


@pytest.mark.parametrize("kind", ["Parquet", "ORC"])
def test_columnar_files_are_refused_without_pyarrow(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = with_manifest({f"{BASE}/data/part-0.{kind.lower()}": b"x"}, "bucket, key", kind)
    on_disk(objects, tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InventoryError, match=rf"{kind} .*pip install 'fencepost\[catalog\]'.*CSV"):
        report_at(tmp_path / MANIFEST)


def test_a_report_from_the_future_and_of_another_bucket_is_refused(tmp_path: Path) -> None:
    found = opened(report(KEYS), tmp_path)
    found.check(bucket=BUCKET, now_ns=AT_NS)
    found.check(bucket=None, now_ns=AT_NS + 10**18)
    with pytest.raises(InventoryError, match=r"is of bucket 'metrics', and the store is in bucket 'other'"):
        found.check(bucket="other", now_ns=AT_NS)
    with pytest.raises(
        InventoryError, match=r"taken at 2023-11-14 22:13:20Z, which is .*ahead of this clock"
    ):
        found.check(bucket=BUCKET, now_ns=AT_NS - 3600 * 10**9)


def test_the_manifest_may_name_the_time_as_a_number(tmp_path: Path) -> None:
    objects = without_checksum(
        report(KEYS),
        json.dumps({**json.loads(report(KEYS)[MANIFEST]), "creationTimestamp": AT_NS // 10**6}).encode(),
    )
    assert opened(objects, tmp_path).began_ns == AT_NS


@settings(max_examples=300)
@given(st.lists(st.text("aZ/=~+%25DFE7f &é\x00", min_size=1, max_size=12), min_size=1, max_size=5))
def test_any_key_survives_the_report(keys: list[str]) -> None:
    store = in_store(report(keys))
    assert list(report_in(store, store.env, MANIFEST).list_keys()) == keys
