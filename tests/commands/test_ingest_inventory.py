"""`fencepost ingest audit --inventory`: from a disk, from the store itself, from a bucket."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest import Accepted, Authority, Manifest, keys
from fencepost.impl.store import ANYTHING, Store, open_store
from tests.commands.running import Run
from tests.impl.ingest import reports
from tests.impl.ingest.given import batch

ENV = SystemEnvironment()


@pytest.fixture
def audit(ran: Run) -> Run:
    return partial(ran, "ingest", "audit", "--store")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store?linger_ms=0"


def accepted(store: Store, number: int = 1) -> Manifest:
    """Accepted by a collector that died before it wrote any index."""
    answer = Authority(store, ENV, "ann").accept(*batch(number))
    assert isinstance(answer, Accepted)
    return answer.manifest


def standing(store: Store, prefix: str = "") -> list[str]:
    return [f"{prefix}{item.key}" for page in store.pages("") for item in page.objects]


def put(store: Store, objects: dict[str, bytes]) -> None:
    for key, body in objects.items():
        store.put(key, body, when=ANYTHING)


def test_a_report_on_disk(audit: Run, url: str, tmp_path: Path) -> None:
    with open_store(url) as store:
        accepted(store)
        report = reports.report(standing(store), at_ns=ENV.now_ns())
        manifest = reports.on_disk(report, tmp_path / "copied")
    code, out, err = audit(url, "--inventory", str(manifest))
    assert (code, out) == (0, "1 batches and 0 conflicts checked, 2 missing index objects written\n")
    assert err.startswith("report taken ")
    code, out, _ = audit(url, "--inventory", str(manifest.parent.parent), "--json", "-")
    assert code == 0
    found = json.loads(out)
    assert (found["repaired"], found["since"], found["report"]) == (0, 1, str(manifest))


def test_a_report_in_the_store_itself(audit: Run, url: str) -> None:
    with open_store(url) as store:
        accepted(store)
        put(store, reports.report(standing(store), at_ns=ENV.now_ns()))
    code, out, _ = audit(url, "--inventory", f"store:{reports.BASE}")
    assert (code, out.split(", ")[1]) == (0, "2 missing index objects written\n")


def test_a_deleted_manifest_is_exit_code_1(audit: Run, url: str, tmp_path: Path) -> None:
    with open_store(url) as store:
        gone = accepted(store).key
        accepted(store, 2)
        manifest = reports.on_disk(reports.report(standing(store), at_ns=ENV.now_ns()), tmp_path / "copied")
        store.delete(gone, when=ANYTHING)
    code, out, _ = audit(url, "--inventory", str(manifest))
    assert (code, out.splitlines()[1]) == (1, f"accepted, but its manifest was deleted: {gone}")


@pytest.mark.parametrize("where", ["the store", "its bucket", "another bucket"])
def test_reports_in_buckets(audit: Run, honest_moto: Any, where: str) -> None:
    """Keys in a report are those of the bucket; the store begins at a prefix of it."""
    url = honest_moto.bucket()
    bucket, _, query = url.removeprefix("s3://").partition("?")
    bucket = bucket.split("/")[0]
    store_url, root = f"s3://{bucket}/prod/a?{query}", f"s3://{bucket}?{query}"
    with open_store(store_url) as store, open_store(root) as whole:
        accepted(store)
        report = reports.report(standing(whole), at_ns=ENV.now_ns(), bucket=bucket)
        base = f"inventory/{reports.BUCKET}/daily"
        if where == "the store":
            put(store, report)
            place = f"store:{base}"
        elif where == "its bucket":
            put(whole, report)
            place = f"s3://{bucket}/{base}"
        else:
            other = honest_moto.bucket()
            with open_store(other) as elsewhere:
                put(elsewhere, report)
            address, _, options = other.partition("?")
            place = f"{address.rstrip('/')}/{base}/?{options}"
    code, out, err = audit(store_url, "--inventory", place)
    assert (code, out) == (0, "1 batches and 0 conflicts checked, 2 missing index objects written\n"), err


def test_an_invalid_request_is_one_line(audit: Run, url: str, tmp_path: Path, honest_moto: Any) -> None:
    with open_store(url) as store:
        accepted(store)
        filtered = reports.report([key for key in standing(store) if not key.startswith(keys.ACCEPTED)])
    manifest = reports.on_disk(filtered, tmp_path / "copied")
    bucket = honest_moto.bucket()
    for of, place, says in (
        (url, "nowhere", "no inventory report at"),
        (url, "store:nowhere", "no inventory report at"),
        (url, "gs://bucket/x", "names no report: give a file or folder"),
        (url, str(manifest), "names nothing below accepted/"),
        (bucket, str(manifest), "is of bucket 'metrics', and the store is in bucket"),
    ):
        code, out, err = audit(of, "--inventory", place)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert says in err
