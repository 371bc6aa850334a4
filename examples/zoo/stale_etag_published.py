"""The pointer names an ETag that the object does not have, and never will have again.

Counterexample (lance#8455, #8499): a manifest is written under a staging name, recorded in a pointer, and
finalized: copied to its final name, whose ETag then goes into the pointer. The writer finalizes, and so
does any reader that meets the staging name first. Both copy; a copy of the same bytes has another ETag when
it was made in another way (in parts, encrypted). The first one looks at its ETag, the second overwrites the
object and publishes the new one, and the first publishes what it saw. Every later reader reports a corrupt
table.

Fixed: the copy is made only if absent, and a process that finds one takes its ETag. Why that is enough: the
object is created once and never changed, so there is only one ETag to publish.

Tempting, but incorrect: publish by compare-and-swap while the copies still overwrite. The pointer is then
right about the moment of the publication, and the other's copy may come after it.
"""

import json
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError, HTTPClientError

from fencepost.examples.storage import ONCE, with_boto3, with_store
from fencepost.sim.world import View, World
from fencepost.store import ABSENT, ANYTHING, Condition, Matches, Outcome, Store

BUCKET, POINTER, STAGING, FINAL = "zoo", "latest", "_versions/7.manifest-5f", "_versions/7.manifest"
MANIFEST = b"fragments 1 to 9"


class Unavailable(Exception):
    """Not known how far it came; the next one who finds the staging name finishes it."""


def pointer(path: str, etag: str) -> bytes:
    return json.dumps({"path": path, "etag": etag.strip('"')}).encode()


# On the store interface. The writer copies in parts, as for large manifests; a reader in one piece.


def copy_in_parts(store: Store, when: Condition) -> None:
    key = f"{BUCKET}/{FINAL}"
    upload = store.create_upload(key).upload
    part = store.upload_part(key, upload, 1, MANIFEST).etag if upload else ""
    if not part:
        raise Unavailable
    while store.complete_upload(key, upload, ((1, part),), when=when).outcome is Outcome.UNKNOWN:
        pass


def copy_in_one(store: Store, when: Condition) -> None:
    while store.put(f"{BUCKET}/{FINAL}", MANIFEST, when=when).outcome is Outcome.UNKNOWN:
        pass


Copy = Callable[[Any, Any], None]


def staged(store: Store) -> str:
    """The ETag of the pointer, as long as it names the staging object."""
    found = store.get(f"{BUCKET}/{POINTER}")
    if found.info is None or json.loads(found.body)["path"] != STAGING:
        raise Unavailable
    return found.info.etag


def publish(store: Store, when: Condition) -> None:
    while True:
        final = store.head(f"{BUCKET}/{FINAL}")
        if final.info is not None:
            body = pointer(FINAL, final.info.etag)
            if store.put(f"{BUCKET}/{POINTER}", body, when=when).outcome is not Outcome.UNKNOWN:
                return


def finalize(store: Store, copy: Copy) -> None:
    staged(store)
    copy(store, ANYTHING)
    publish(store, ANYTHING)


def finalize_and_swap(store: Store, copy: Copy) -> None:
    etag = staged(store)
    copy(store, ANYTHING)
    publish(store, Matches(etag))


def finalize_once(store: Store, copy: Copy) -> None:
    staged(store)
    copy(store, ABSENT)
    publish(store, ANYTHING)


# On boto3.

SOURCE = {"Bucket": BUCKET, "Key": STAGING}


def copy_s3_in_parts(s3: Any, condition: dict[str, str]) -> None:
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=FINAL)["UploadId"]
    of_upload = {"Bucket": BUCKET, "Key": FINAL, "UploadId": upload}
    part = s3.upload_part_copy(**of_upload, PartNumber=1, CopySource=SOURCE)["CopyPartResult"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(**of_upload, MultipartUpload=parts, **condition)


def copy_s3_in_one(s3: Any, condition: dict[str, str]) -> None:
    s3.copy_object(Bucket=BUCKET, Key=FINAL, CopySource=SOURCE, **condition)


def finalize_s3(s3: Any, copy: Copy) -> None:
    copy(s3, {})
    publish_s3(s3)


def finalize_s3_once(s3: Any, copy: Copy) -> None:
    try:
        copy(s3, {"IfNoneMatch": "*"})
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
    publish_s3(s3)


def publish_s3(s3: Any) -> None:
    final = s3.head_object(Bucket=BUCKET, Key=FINAL)
    s3.put_object(Bucket=BUCKET, Key=POINTER, Body=pointer(FINAL, final["ETag"]))


# Properties.


def _program(world: World, store: Any, finalize: Callable[[Any, Copy], None], *copies: Copy) -> None:
    world.store().put(f"{BUCKET}/{STAGING}", MANIFEST, when=ANYTHING)
    world.store().put(f"{BUCKET}/{POINTER}", pointer(STAGING, ""), when=ANYTHING)
    failures = (Unavailable, ClientError, HTTPClientError)
    for name, copy in zip(("writer", "reader"), copies, strict=True):
        world.spawn(finalize, store, copy, name=name, restart=False, may_raise=failures)

    def agree(view: View) -> str | None:
        """Compare once all processes are done. A crashed one leaves the rest to the next reader."""
        found = json.loads(view.get(f"{BUCKET}/{POINTER}") or b"{}")
        if found["path"] == STAGING or set(view.states().values()) != {"done"}:
            return None
        final = world.store().head(f"{BUCKET}/{FINAL}").info
        if final is not None and final.etag == found["etag"]:
            return None
        return f"the pointer says {found['etag']}, and the object has {final and final.etag}"

    world.finally_("pointer and object agree", agree)


broken = with_store(_program, finalize, copy_in_parts, copy_in_one)
fixed = with_store(_program, finalize_once, copy_in_parts, copy_in_one)
tempting_swap_the_pointer = with_store(_program, finalize_and_swap, copy_in_parts, copy_in_one)
broken_boto3 = with_boto3(_program, finalize_s3, copy_s3_in_parts, copy_s3_in_one)
fixed_boto3 = with_boto3(_program, finalize_s3_once, copy_s3_in_parts, copy_s3_in_one, config=ONCE)
