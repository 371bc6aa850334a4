"""The one interface between a protocol and an object store.

A request is a value, and `send` is the only way to have it answered; the verbs below (`put`, `get`,
...) build a request and send it. That keeps the seam narrow: a layer that counts, delays or breaks
requests overrides `send` and `send_all`, and the harness takes control at the same place.

`send_all` is the explicit parallel step: the requests are issued at once, in no order that anybody may
rely on, and the replies come back in the order of the requests. Blocking code has no other concurrency
that a harness could see.

    store = open_store("file:///var/lib/ledger")
    reply = store.put("head", body, when=ABSENT)
    match reply.outcome:
        case Outcome.DONE: ...
        case Outcome.EXISTS: ...        # perhaps our own, written by a request whose reply was lost
        case Outcome.UNKNOWN: ...       # look for our own mark before anything else
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from fencepost.impl.environment import Environment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.requests import BINARY, NO_METADATA, Condition, Matches, Outcome, R, Reply, Request

A = TypeVar("A")
B = TypeVar("B")


class Store(ABC):
    """One place to keep objects: a bucket and prefix, a directory, or memory."""

    url: str
    """Opens the same store again. Never carries a secret."""
    env: Environment

    @abstractmethod
    def send(self, request: Request[R]) -> R:
        """Issue one request and wait for its reply."""

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        """Issue all requests at once; the replies in the order of the requests.

        Here one after another, which is one of the orders; a backend that can do better does.
        When any raises, the rest are still issued, and then the first error is raised.
        """
        return settle(self.send, requests)

    def verify(self) -> None:  # noqa: B027 - nothing to verify is a valid answer
        """Raise `Unusable` when the place is missing or refuses us, before any work is done."""

    def close(self) -> None:  # noqa: B027 - nothing to close is a valid answer
        """Give back threads, connections and handles. The objects stay."""

    def versioned(self) -> bool:
        """Return True if deleting leaves a marker and overwriting keeps the old version."""
        return False

    # The verbs.

    def put(
        self,
        key: str,
        body: bytes,
        *,
        when: Condition,
        content_type: str = BINARY,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> ask.PutReply:
        return self.send(ask.Put(key, body, when, content_type, ask.Metadata.of(metadata)))

    def get(
        self,
        key: str,
        *,
        start: int = 0,
        stop: int | None = None,
        only_if: str | None = None,
        unless: str | None = None,
        version: str = "",
    ) -> ask.GetReply:
        return self.send(ask.Get(key, start, stop, only_if, unless, version))

    def head(self, key: str, *, version: str = "") -> ask.HeadReply:
        return self.send(ask.Head(key, version))

    def delete(self, key: str, *, when: Matches | ask.Anything, version: str = "") -> ask.DeleteReply:
        return self.send(ask.Delete(key, when, version))

    def list(
        self, prefix: str = "", *, after: str = "", delimiter: str = "", limit: int = 1000, token: str = ""
    ) -> ask.ListReply:
        return self.send(ask.List(prefix, after, delimiter, limit, token))

    def list_versions(self, prefix: str = "", *, limit: int = 1000, token: str = "") -> ask.VersionsReply:
        return self.send(ask.ListVersions(prefix, limit, token))

    def create_upload(
        self, key: str, *, content_type: str = BINARY, metadata: Mapping[str, str] = NO_METADATA
    ) -> ask.UploadReply:
        return self.send(ask.CreateUpload(key, content_type, ask.Metadata.of(metadata)))

    def upload_part(self, key: str, upload: str, number: int, body: bytes) -> ask.PartReply:
        return self.send(ask.UploadPart(key, upload, number, body))

    def complete_upload(
        self, key: str, upload: str, parts: Sequence[tuple[int, str]], *, when: Condition
    ) -> ask.PutReply:
        return self.send(ask.CompleteUpload(key, upload, tuple(parts), when))

    def abort_upload(self, key: str, upload: str) -> Reply:
        return self.send(ask.AbortUpload(key, upload))

    def list_uploads(self, prefix: str = "", *, limit: int = 1000, token: str = "") -> ask.UploadsReply:
        return self.send(ask.ListUploads(prefix, limit, token))

    # Whole listings.

    def pages(self, prefix: str = "", *, after: str = "", delimiter: str = "") -> Iterator[ask.ListReply]:
        """Every page of a listing. Stops after a page that is not `done`: look at its outcome."""
        token = ""
        while True:
            page = self.list(prefix, after=after, delimiter=delimiter, token=token)
            yield page
            if page.outcome is not Outcome.DONE or not page.next:
                return
            token = page.next

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Layer(Store):
    """A store on another one. Passes on what is not about requests; `send` and `send_all` are its own."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.url = inner.url
        self.env = inner.env

    def verify(self) -> None:
        self.inner.verify()

    def close(self) -> None:
        self.inner.close()

    def versioned(self) -> bool:
        return self.inner.versioned()


def settle(act: Callable[[A], B], items: Sequence[A]) -> Sequence[B]:
    """`act` on every item in order; when any raised, raise the first error after all had their turn."""
    results: list[B] = []
    first: Exception | None = None
    for item in items:
        try:
            results.append(act(item))
        except Exception as error:  # noqa: BLE001 - kept and raised below, after the others had their turn
            first = first or error
    if first is not None:
        raise first
    return results


class Pool:
    """Threads that send the requests of a parallel step side by side. They begin with the first such step."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def settle(self, act: Callable[[A], B], items: Sequence[A]) -> Sequence[B]:
        """Like `settle`, all at once."""
        if len(items) < 2:
            return settle(act, items)
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            futures: list[Future[B]] = [self._executor.submit(act, item) for item in items]
        return settle(lambda future: future.result(), futures)

    def close(self) -> None:
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()
