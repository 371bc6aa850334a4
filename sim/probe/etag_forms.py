"""Forms of an ETag in a condition: which of them a store accepts, by operation.

S3 takes an ETag with and without quotes. Cloudflare R2 takes it with quotes only; Ceph, without them only. A
weak ETag, a list and `*` are forms of HTTP that S3 refuses. All this only informs. It is dangerous if a store
drops a condition whose form it does not read: a wrong ETag must let no write through, whatever its form.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fencepost.impl.store.s3.endings import LIBRARY_ERRORS
from fencepost.sim.probe.bench import Bench
from fencepost.sim.probe.history import body_of
from fencepost.sim.probe.multipart import begin
from fencepost.sim.probe.verdict import Broken, Inconclusive, NotOffered

FORMS: Mapping[str, Callable[[str], str]] = {
    "quoted": lambda etag: f'"{etag}"',
    "unquoted": lambda etag: etag,
    "weak": lambda etag: f'W/"{etag}"',
    "list": lambda etag: f'"0123456789", "{etag}"',
}
ANY = "*"
REFUSALS = (400, 404, 409, 412, 501)
"""Statuses by which a store refuses a write without applying it."""

Send = Callable[[str], Any]
"""Sends a conditional write with this text as the condition."""
Prepare = Callable[[Bench, Any, dict[str, str], str], Send]
"""Makes the write ready: by the client, at an address, which is of this key."""


def etag_forms(bench: Bench) -> str:
    """Return the accepted forms of each operation; raise if a form lets a wrong ETag through."""
    address = getattr(bench.raw, "address", None)
    connect = getattr(bench.raw, "client", None)
    if address is None or connect is None:
        bench.not_applicable("conditions have no text here: the store is not reached over HTTP")
    client = connect()
    _look_at_replies(bench, client, address)
    return "; ".join(_of(bench, client, address, name) for name in WRITES)


def _of(bench: Bench, client: Any, address: Any, name: str) -> str:
    def sent(key: str, condition: str) -> bool:
        return _accepts(WRITES[name](bench, client, address(key), key), condition)

    accepted = []
    try:
        for form, write in FORMS.items():
            bench.case()
            key = bench.key(form)
            old = bench.put(key, "first")
            bench.put(key, "other")
            if sent(key, write(old)):
                raise Broken(f"a {name} with a stale ETag, {form}, was accepted: the condition is ignored")
            bench.must_stand(key, "other", f"a {name} with a stale ETag, {form}, that was refused")
            etag = bench.put(key, "third")
            if sent(key, write(etag)):
                accepted.append(form)
            else:
                bench.must_stand(key, "third", f"a {name} with its ETag, {form}, that was refused")
        if _takes_any(bench, name, sent):
            accepted.append(ANY)
    except NotOffered:
        return f"{name}: not offered"
    if "quoted" not in accepted and "unquoted" in accepted:
        bench.note("matches ETags without quotes only: open it with unquoted_etags=true")
    return f"{name}: {', '.join(accepted) or 'none'}"


def _look_at_replies(bench: Bench, client: Any, address: Any) -> None:
    key = bench.key("reply")
    bench.put(key, "first")
    if not client.head_object(**address(key))["ETag"].endswith('"'):
        bench.note("replies have ETags without quotes: a client that compares texts takes them for others")


def _takes_any(bench: Bench, name: str, sent: Callable[[str, str], bool]) -> bool:
    bench.case()
    key = bench.key("any")
    bench.put(key, "first")
    bench.delete(key)
    if sent(key, ANY) and name != "delete":
        raise Broken(f"a {name} with If-Match: * created a deleted object: the condition is ignored")
    bench.put(key, "second")
    return sent(key, ANY)


def _accepts(send: Send, condition: str) -> bool:
    """Return True if the store accepted the write."""
    try:
        send(condition)
    except LIBRARY_ERRORS as error:
        # Not chained: an exception of the SDK may show headers.
        answer: Mapping[str, Any] = getattr(error, "response", None) or {}
    else:
        return True
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode") or "nothing"
    if status in REFUSALS:
        return False
    raise Inconclusive(f"answered {status} to If-Match: {condition}")


def _put(_bench: Bench, client: Any, address: dict[str, str], _key: str) -> Send:
    return lambda condition: client.put_object(**address, Body=body_of("form"), IfMatch=condition)


def _delete(_bench: Bench, client: Any, address: dict[str, str], _key: str) -> Send:
    return lambda condition: client.delete_object(**address, IfMatch=condition)


def _complete(bench: Bench, client: Any, address: dict[str, str], key: str) -> Send:
    begun = begin(bench, key, "form")
    parts = [{"PartNumber": number, "ETag": etag} for number, etag in begun.parts]
    return lambda condition: client.complete_multipart_upload(
        **address, UploadId=begun.upload, MultipartUpload={"Parts": parts}, IfMatch=condition
    )


WRITES: Mapping[str, Prepare] = {"put": _put, "delete": _delete, "completion": _complete}
