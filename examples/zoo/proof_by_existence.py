"""An upload is reported complete because an object exists at its key; the object is a rival's.

Counterexample (ClickHouse#113994, #114348): completing a multipart upload is answered "no such upload".
That happens when the first attempt had completed it and the reply was lost, so the code looks whether the
object is there and, if so, reports success. It happens as well when a clean-up of unfinished uploads
aborted it: then the object that is there is somebody else's, and our rows were never stored.

Fixed (as ClickHouse#118829): the upload carries an identifier of its own as metadata, and so does the
object that it becomes. "No such upload" is success only if the object carries it. Why that is enough: the
file is created only if absent, so the present object is the one that won.
"""

import uuid
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError, HTTPClientError

from fencepost.examples.storage import ONCE, with_boto3, with_store
from fencepost.sim.world import View, World
from fencepost.store import ABSENT, Outcome, Store

BUCKET, FILE = "zoo", "export/2026-05-01.csv"
KEY = f"{BUCKET}/{FILE}"
OURS, THEIRS = b"rows of ann", b"rows of bob"


class Unavailable(Exception):
    """The export could not be begun; nothing was promised."""


# On the store interface.


def upload(store: Store, rows: bytes, mine: str) -> tuple[str, tuple[tuple[int, str], ...]]:
    begun = store.create_upload(KEY, metadata={"put-id": mine})
    part = store.upload_part(KEY, begun.upload, 1, rows) if begun.done else None
    if part is None or not part.done:
        raise Unavailable
    return begun.upload, ((1, part.etag),)


def export(store: Store, rows: bytes) -> bool:
    """Return True if the file is there with our rows."""
    name, parts = upload(store, rows, store.env.new_id())
    while True:
        outcome = store.complete_upload(KEY, name, parts, when=ABSENT).outcome
        if outcome is Outcome.GONE:
            return store.head(KEY).done
        if outcome in (Outcome.DONE, Outcome.EXISTS):
            return outcome is Outcome.DONE


def export_signed(store: Store, rows: bytes) -> bool:
    mine = store.env.new_id()
    name, parts = upload(store, rows, mine)
    while True:
        outcome = store.complete_upload(KEY, name, parts, when=ABSENT).outcome
        if outcome is Outcome.GONE:
            stands = store.head(KEY)
            if stands.outcome is not Outcome.UNKNOWN:
                return stands.info is not None and stands.info.metadata.get("put-id") == mine
        if outcome in (Outcome.DONE, Outcome.EXISTS):
            return outcome is Outcome.DONE


def export_small(store: Store, rows: bytes) -> None:
    """The rival, whose rows fit into one request."""
    store.put(KEY, rows, when=ABSENT)


def clean_up(store: Store) -> None:
    """Abort all open uploads, as a lifecycle rule does with those that are never completed."""
    for found in store.list_uploads(f"{BUCKET}/export/").uploads:
        store.abort_upload(found.key, found.upload)


# On boto3.


def upload_s3(s3: Any, rows: bytes, mine: str) -> dict[str, Any]:
    begun = s3.create_multipart_upload(Bucket=BUCKET, Key=FILE, Metadata={"put-id": mine})
    of_upload = {"Bucket": BUCKET, "Key": FILE, "UploadId": begun["UploadId"]}
    part = s3.upload_part(**of_upload, PartNumber=1, Body=rows)
    return {**of_upload, "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}}


def export_s3(s3: Any, rows: bytes) -> bool:
    parts = upload_s3(s3, rows, uuid.uuid4().hex)
    try:
        s3.complete_multipart_upload(**parts, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] == "PreconditionFailed":
            return False
        if error.response["Error"]["Code"] != "NoSuchUpload":
            raise
        try:
            s3.head_object(Bucket=BUCKET, Key=FILE)
        except ClientError:
            return False
    return True


def export_s3_signed(s3: Any, rows: bytes) -> bool:
    mine = uuid.uuid4().hex
    parts = upload_s3(s3, rows, mine)
    while True:
        try:
            s3.complete_multipart_upload(**parts, IfNoneMatch="*")
            return True
        except HTTPClientError:
            continue
        except ClientError as error:
            if error.response["Error"]["Code"] == "PreconditionFailed":
                return False
            if error.response["Error"]["Code"] != "NoSuchUpload":
                raise
        try:
            return bool(s3.head_object(Bucket=BUCKET, Key=FILE)["Metadata"].get("put-id") == mine)
        except HTTPClientError:
            continue
        except ClientError as error:
            if error.response["Error"]["Code"] != "404":
                raise
            return False


def export_s3_small(s3: Any, rows: bytes) -> None:
    s3.put_object(Bucket=BUCKET, Key=FILE, Body=rows, IfNoneMatch="*")


def clean_up_s3(s3: Any) -> None:
    for found in s3.list_multipart_uploads(Bucket=BUCKET, Prefix="export/").get("Uploads", []):
        s3.abort_multipart_upload(Bucket=BUCKET, Key=found["Key"], UploadId=found["UploadId"])


# Properties.


def report_true(view: View) -> str | None:
    result = view.result("ann")
    if result is None or result == (view.get(KEY) == OURS):
        return None
    return f"ann got {'success' if result else 'failure'}, and the file holds {view.get(KEY)!r}"


def _program(world: World, store: Any, *work: Callable[..., Any]) -> None:
    export, export_small, clean_up = work
    failures = (Unavailable, ClientError, HTTPClientError)
    for name, process in (
        ("ann", (export, store, OURS)),
        ("bob", (export_small, store, THEIRS)),
        ("lifecycle", (clean_up, store)),
    ):
        world.spawn(*process, name=name, restart=False, may_raise=failures)
    world.finally_("the report is true", report_true)


broken = with_store(_program, export, export_small, clean_up)
fixed = with_store(_program, export_signed, export_small, clean_up)
broken_boto3 = with_boto3(_program, export_s3, export_s3_small, clean_up_s3, config=ONCE)
fixed_boto3 = with_boto3(_program, export_s3_signed, export_s3_small, clean_up_s3, config=ONCE)
