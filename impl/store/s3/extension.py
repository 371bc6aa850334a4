"""A call beside the S3 interface of a server, signed with the credentials of a store.

Servers that offer more than S3 have addresses that are no bucket. Such a call has a JSON object as its body
and as its answer. It is signed as a request of S3 is, so no secret travels.
"""

import json
from typing import Any

import botocore.auth
import botocore.awsrequest

from fencepost.impl.store.s3.endings import LIBRARY_ERRORS
from fencepost.impl.store.s3.store import S3Store


class NotOffered(Exception):
    """The server does not know the address, or does not let the caller use it."""


class NoReply(Exception):
    """The server did not answer, or failed; the same call may succeed later."""


def call(store: S3Store, path: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Send one call, once."""
    client = store.client()
    url = f"{client.meta.endpoint_url.rstrip('/')}{path}"
    request = botocore.awsrequest.AWSRequest("POST", url, data=json.dumps(fields).encode())
    request.headers["Content-Type"] = "application/json"
    try:
        # The SDK has no other way to the credentials and the connections of a client.
        credentials = client._request_signer._credentials  # noqa: SLF001  see above
        if credentials is None:
            raise NotOffered("there are no credentials to sign the request with")
        frozen = credentials.get_frozen_credentials()
        botocore.auth.S3SigV4Auth(frozen, "s3", client.meta.region_name).add_auth(request)
        reply = client._endpoint.http_session.send(request.prepare())  # noqa: SLF001  see above
        status, body = reply.status_code, reply.content
    except LIBRARY_ERRORS as error:
        # Not chained: an exception of the SDK may show headers.
        failed = type(error).__name__
    else:
        return _fields(url, status, body)
    raise NoReply(f"{url} does not answer ({failed})")


def _fields(url: str, status: int, body: bytes) -> dict[str, Any]:
    if status in (429, 500, 502, 503, 504, 507):
        raise NoReply(f"{url} answered with status {status}")
    try:
        fields = json.loads(body) if status == 200 else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise NotOffered(f"{url} answered with status {status}: {body[:200].decode(errors='replace')}")
    return fields
