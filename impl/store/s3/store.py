"""The S3 store: requests sent one by one or side by side, each exactly once."""

import re
import threading
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

from fencepost.impl.environment import Environment, SystemEnvironment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise, Misuse, StoreError, Unsupported, Unusable
from fencepost.impl.store.interface import Pool, Store
from fencepost.impl.store.requests import Outcome, R, Request
from fencepost.impl.store.s3.client import Setup, make_client
from fencepost.impl.store.s3.endings import LIBRARY_ERRORS, ended
from fencepost.impl.store.s3.operations import CALLS, Place, parameters
from fencepost.impl.store.validity import KEY_BYTES_MAX, check, check_key

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")


class S3Store(Store):
    """A bucket, or what lies in it below a prefix. Threads may share it; processes may not."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        endpoint: str | None = None,
        region: str | None = None,
        env: Environment | None = None,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        read_timeout_s: float = READ_TIMEOUT_S,
        connections: int = 32,
        unquoted_etags: bool = False,
    ) -> None:
        _check_place(bucket, prefix, endpoint, region)
        if not (connect_timeout_s > 0 and read_timeout_s > 0 and connections >= 1):
            raise Misuse("time-outs must be more than 0 seconds, and connections at least 1")
        self.env = env or SystemEnvironment()
        prefix = prefix.strip("/")
        self.url = _url(bucket, prefix, endpoint, region, connect_timeout_s, read_timeout_s)
        self.url += ("&" if "?" in self.url else "?") + "unquoted_etags=true" if unquoted_etags else ""
        self._unquoted = unquoted_etags
        self._quotes = True
        """True if the store quotes its ETags, as HTTP requires."""
        self._place = Place(bucket, f"{prefix}/" if prefix else "")
        self._setup = Setup(endpoint, region, connect_timeout_s, read_timeout_s, connections)
        self._lock = threading.Lock()
        self._client: Any = None
        self._pool = Pool(connections, "s3")
        self._versions: str | None = None
        self._dated: tuple[str, int] | None = None
        """The last `Date` that the store sent, and our monotonic clock when it was here."""

    def send(self, request: Request[R]) -> R:
        check(request)
        if len(self._place.key(request.subject).encode()) > KEY_BYTES_MAX:
            raise Misuse(
                f"{request.subject[:40]!r}... is longer than {KEY_BYTES_MAX} bytes together with the store's "
                f"prefix {self._place.prefix!r}; shorten one of them"
            )
        versions = isinstance(request, ask.ListVersions) or bool(getattr(request, "version", ""))
        if versions and not self._versioning():
            raise Unsupported(f"the bucket of {self.url} keeps no versions; open one that does")
        client = self._connect()
        call = CALLS[type(request)]
        arguments = parameters(self._place, request, self._sent_etag)
        try:
            answer = getattr(client, call.operation)(**arguments)
            self._learn_form(answer.get("ETag"))
            if call.body_tells and not any(answer.get(name) is not None for name in call.body_tells):
                return request.ends(Outcome.UNKNOWN, "no whole reply (a 200 without its body)")
            return cast(R, call.reply(self._place, request, answer))
        except LIBRARY_ERRORS as error:
            # Not chained: an exception of the SDK may show headers.
            failed = error
        except KeyError as field:
            raise BrokenPromise(f"the reply to {request.kind} {request.subject!r} lacks {field}") from None
        return ended(request, failed, self.url)

    def _learn_form(self, etag: object) -> None:
        """Remember if the store quotes its ETags: conditions name them as they were received."""
        if isinstance(etag, str) and etag:
            self._quotes = etag.endswith('"')

    def _sent_etag(self, etag: str) -> str:
        return f'"{etag}"' if self._quotes and not self._unquoted else etag

    def now_ns(self) -> int | None:
        """Return a time that the store's clock has reached, from its last reply; None if it tells no time."""
        if self._dated is None:
            return None
        date, received_ns = self._dated
        try:
            sent = parsedate_to_datetime(date)
        except ValueError:
            return None
        if sent.tzinfo is None:
            return None
        return round(sent.timestamp()) * 1_000_000_000 + self.env.monotonic_ns() - received_ns

    def _keep_date(self, http_response: Any, **_: Any) -> None:
        date = http_response.headers.get("Date")
        if date:
            self._dated = date, self.env.monotonic_ns()

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        return self._pool.settle(self.send, requests)

    def verify(self) -> None:
        """List one key: the permission it takes is that of HEAD, and its reply names the error."""
        try:
            reply = self.send(ask.List(limit=1))
        except StoreError as error:
            raise Unusable(f"cannot use the store: {error}") from None
        if reply.outcome is not Outcome.DONE:
            raise Unusable(
                f"cannot use the store {self.url}: {reply.detail}; check its endpoint and that it runs"
            )

    def versioned(self) -> bool:
        """Return True if versioning is on. Read once: S3 itself takes minutes to change it everywhere."""
        return self._versioning() == "Enabled"

    def versioning(self) -> str:
        """ "Enabled", "Suspended", or empty, as the store answers now."""
        self._versions = None
        return self._versioning()

    def address(self, key: str) -> dict[str, str]:
        """Return bucket and key of an object as the SDK's client names them."""
        return {"Bucket": self._place.bucket, "Key": self._place.key(key)}

    def client(self) -> Any:
        """Return the SDK's client, for code below the level of requests: its events carry every message."""
        return self._connect()

    def close(self) -> None:
        self._pool.close()
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connect(self) -> Any:
        """The SDK's client. Made on first use, since looking for credentials may ask the network."""
        with self._lock:
            if self._client is None:
                try:
                    self._client = make_client(self._setup)
                    self._client.meta.events.register("after-call.s3", self._keep_date)
                except (*LIBRARY_ERRORS, ValueError) as error:
                    kind = type(error).__name__
                    raise Unusable(
                        f"no connection to {self.url} can be set up ({kind}); check the endpoint, the region "
                        f"and the AWS settings (the AWS_* variables, ~/.aws/config)"
                    ) from None
            return self._client

    def _versioning(self) -> str:
        """ "Enabled", "Suspended", or empty."""
        if self._versions is None:
            client = self._connect()
            try:
                answer = client.get_bucket_versioning(Bucket=self._place.bucket)
                self._versions = str(answer.get("Status") or "")
            except LIBRARY_ERRORS as error:
                failed = error
            if self._versions is None:
                self._versions = self._no_versioning(failed)
        return self._versions

    def _no_versioning(self, error: Exception) -> str:
        """A store that does not know the question has no versions; any other refusal is an obstacle."""
        try:
            reply = ended(ask.List(), error, self.url)
        except Unsupported:
            return ""
        raise Unusable(f"cannot ask {self.url} whether it keeps versions: {reply.detail}; ask again later")


def _check_place(bucket: str, prefix: str, endpoint: str | None, region: str | None) -> None:
    check_bucket(bucket)
    if prefix.strip("/"):
        check_key(prefix)
    if region is not None and not _REGION.fullmatch(region):
        raise Misuse(f"region {region!r} is no region's name; write one like us-east-1")
    if endpoint is not None:
        _check_endpoint(endpoint)


def check_bucket(bucket: str) -> None:
    """Raise `Misuse` unless this is the name of one bucket."""
    if bucket.lower().startswith("arn:") or bucket.lower().endswith(".mrap"):
        raise Misuse(
            f"{bucket!r}: name the bucket itself. A Multi-Region Access Point sends each request to one of "
            "several buckets, so that two writers may both win one conditional create"
        )
    if not _BUCKET.fullmatch(bucket):
        raise Misuse(f"bucket {bucket!r} is no bucket's name: 3 to 63 letters, digits, '.', '_' and '-'")


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise Misuse("the endpoint cannot be read as an address; write http://host:port") from None
    if parts.username is not None or parts.password is not None:
        raise Misuse("put no credentials into the endpoint; use the AWS environment or profile")
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host) or parts.query or parts.fragment:
        raise Misuse(f"endpoint {endpoint!r} is no address of a server; write http://host:port")


def _url(bucket: str, prefix: str, endpoint: str | None, region: str | None, *timeouts_s: float) -> str:
    options: dict[str, object] = {"endpoint": endpoint, "region": region}
    names = ("connect_timeout_s", "read_timeout_s")
    usual = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
    for name, timeout_s, usual_s in zip(names, timeouts_s, usual, strict=True):
        options[name] = timeout_s if timeout_s != usual_s else None
    given = urlencode({name: value for name, value in options.items() if value is not None}, safe=":/")
    return f"s3://{bucket}{'/' if prefix else ''}{quote(prefix)}{'?' if given else ''}{given}"
