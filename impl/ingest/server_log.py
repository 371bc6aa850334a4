"""The change log of the object server that has the bucket, as `notified` follows it.

A client that may use the bucket may read its log, by the calls that the workers of a lifecycle use.
"""

import hashlib
from typing import Any

from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.lifecycle.remote import RemoteLog, Server
from fencepost.impl.lifecycle.target import Unavailable, Unworkable
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.s3.store import S3Store


class _Server(Server):
    def ask(self, operation: str, **fields: Any) -> dict[str, Any]:
        try:
            return super().ask(operation, **fields)
        except (Unavailable, Unworkable) as error:
            raise StoreUnavailable(str(error)) from None


def log_of(store: S3Store, bucket: str, prefix: str, source: str) -> RemoteLog:
    """The log of the bucket, read under the name `source`; raises `Misuse` where the server has none."""
    server = _Server([store], bucket)
    try:
        offers = server.offers_log()
    except Unavailable as error:
        raise StoreUnavailable(str(error)) from None
    if not offers:
        raise Misuse(
            f"{store.url} shows no change log: only `fencepost objects serve` does, to clients that may use "
            "the bucket; give a queue or an address"
        )
    # Each acceptance authority in the bucket reads for itself.
    name = f"ingest-{source}-{hashlib.sha256(prefix.encode()).hexdigest()[:8]}"
    return RemoteLog(server, bucket, lambda: name)
