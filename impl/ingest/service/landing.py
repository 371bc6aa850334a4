"""acceptance = "local_spool": a single collector whose own disk accepts, and whose bucket follows.

The disk holds a small acceptance authority of its own: the same protocol on a `file://` store. So acceptance,
duplicates and conflicts mean the same as in the other mode. The landing is added: every `interval_s` each
batch that was accepted here and has not landed is accepted in the bucket under the same identity, any number
of times if necessary, and then gets a mark here.

    store/accepted/v1/...      the batches accepted here
    store/raw-blobs/v1/...     their frames, until they have landed
    store/landed/v1/...        the marks: {"result": "accepted" | "conflict"}
    lock                       one collector at a time

The waiting batches are bounded, by number and by bytes. A collector that accepts faster than its bucket does
answers 503 (`backlog`) to new batches beyond the bound, and their agents keep them. Several batches land at
once.

A conflict in the bucket means that another collector accepted other bytes there, which a single collector
excludes: the record is in the bucket, an error in the log, and the frame stays here.

This mode assumes one collector, and a disk that survives the interval.
"""

import fcntl
import functools
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.authority import Accepted, Authority, Unavailable
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.documents import JSON, Manifest
from fencepost.impl.ingest.errors import Damaged, IngestError, StoreUnavailable
from fencepost.impl.ingest.frames import Point
from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.operator import Blocklist
from fencepost.impl.ingest.query import Local
from fencepost.impl.ingest.service.acceptance import Acceptance, Answer, judge
from fencepost.impl.ingest.service.requests import Refusal
from fencepost.impl.ingest.settings import SPOOL_BOUND, SpoolBound
from fencepost.impl.private_files import make_private
from fencepost.impl.store import ABSENT, ANYTHING, Outcome, StoreError, Unusable
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.requests import Get

_LOG = logging.getLogger("fencepost.ingest")

LANDED = "landed/v1/"
RETRY_AFTER_S = 5.0
"""The `Retry-After` of a batch beyond the bound: landing takes a while to make room."""


class LocalSpool(Acceptance):
    """Accepts on the disk at `path`; `bucket` is where batches land."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        bucket: Authority,
        env: Environment,
        bound: SpoolBound = SPOOL_BOUND,
    ) -> None:
        self.env = env
        self.bound = bound
        self._lock = _locked(Path(path))
        self.store = FileStore(Path(path) / "store", env=env, private=True)
        self._bucket = bucket
        self.bucket = IngestContext(bucket.store, env, bucket.settings)
        self._here = Authority(self.store, env, bucket.collector_id, bucket.settings)
        self.blocklist = Blocklist(self.store, env, bucket.settings)
        self._guard = threading.Lock()
        # Batches that an earlier run accepted and did not land.
        landed = {Identity.of_key(key) for key in self._keys(LANDED)}
        waiting = {Identity.of_key(key) for key in self._keys(keys.ACCEPTED)} - landed
        self._waiting = {identity: self._size_of(identity) for identity in waiting}
        """The batches that have not landed, with their bytes."""
        self._bytes = sum(self._waiting.values())
        self._arriving = self._arriving_bytes = 0
        """Batches that are being judged: they may wait soon."""
        self.landed = 0
        """Batches that landed since the start."""

    def accept(self, agent: str, identity: Identity, body: bytes) -> Answer:
        size = len(body)
        with self._guard:
            if identity not in self._waiting and self._is_full(size):
                return Answer("unavailable", refusal=self._refuse())
            self._arriving += 1
            self._arriving_bytes += size
        try:
            answer = judge(self._here, self.blocklist, agent, identity, body, lambda _: None)
        finally:
            with self._guard:
                self._arriving -= 1
                self._arriving_bytes -= size
        if answer.result in ("accepted", "duplicate"):
            # A duplicate, too: the first answer may have been lost, or the batch has landed and this put its
            # frame back.
            self._wait(identity, size)
        return answer

    def verify(self) -> None:
        self.store.verify()

    def close(self) -> None:
        self.store.close()
        os.close(self._lock)

    @property
    def backlog(self) -> int:
        """The number of batches that have not landed."""
        return len(self._waiting)

    @property
    def backlog_bytes(self) -> int:
        """The bytes of their frames."""
        return self._bytes

    def land(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Land the waiting batches, the first ones first, until `stop`; returns how many landed.

        Raises the error of the first that this disk does not give back, after the others.
        """
        with self._guard:
            waiting = iter(sorted(self._waiting))
        round_ = _Round()
        with ThreadPoolExecutor(self.bound.landing, thread_name_prefix="ingest-landing") as pool:
            running: set[Future[bool]] = set()
            while True:
                while len(running) < self.bound.landing and not round_.is_over:
                    identity = None if stop() else next(waiting, None)
                    if identity is None:
                        round_.is_over = True
                    else:
                        running.add(pool.submit(self._land, identity))
                if not running:
                    break
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for one in ended:
                    round_.take(one)
        self.landed += round_.landed
        if round_.problem is not None:
            raise round_.problem
        return round_.landed

    def unlanded(self) -> Local:
        with self._guard:
            return {identity: functools.partial(self._points, identity) for identity in self._waiting}

    def _points(self, identity: Identity) -> Iterator[Point]:
        """The points of a batch that was waiting; it may have landed since."""
        key = keys.accepted_key(identity)
        manifest = Manifest.read(self._read(key), key)
        here = self.store.get(manifest.raw_blob_key)
        if here.done:
            return manifest.frame(here.body).each_point()
        landed = Manifest.read(self.bucket.read(Get(key)).body, key)
        return landed.frame(self.bucket.read(Get(landed.raw_blob_key)).body).each_point()

    def _is_full(self, size: int) -> bool:
        batches = len(self._waiting) + self._arriving
        return batches >= self.bound.batches or self._bytes + self._arriving_bytes + size > self.bound.bytes

    def _refuse(self) -> Refusal:
        return Refusal(
            "backlog",
            f"{len(self._waiting)} accepted batches of {self._bytes} bytes wait here; try again later",
            retry_after_s=RETRY_AFTER_S,
        )

    def _wait(self, identity: Identity, size: int) -> None:
        with self._guard:
            if identity not in self._waiting:
                self._waiting[identity] = size
                self._bytes += size

    def _forget(self, identity: Identity) -> None:
        with self._guard:
            self._bytes -= self._waiting.pop(identity, 0)

    def _size_of(self, identity: Identity) -> int:
        key = keys.accepted_key(identity)
        try:
            return Manifest.read(self._read(key), key).frame_bytes
        except (Damaged, StoreUnavailable):
            return 0  # its landing reports it

    def _land(self, identity: Identity) -> bool:
        here = self._read(keys.accepted_key(identity))
        manifest = Manifest.read(here, keys.accepted_key(identity))
        mark_key = f"{LANDED}{identity.path}.json"
        mark = self.store.get(mark_key)
        if mark.done:
            self._landed(identity, manifest, accepted=json.loads(mark.body)["result"] == "accepted")
            return True
        answer = self._bucket.accept(identity, self._read(manifest.raw_blob_key))
        if isinstance(answer, Unavailable):
            _LOG.warning("batch %s did not land yet: %s", identity, answer.reason)
            return False
        landed = isinstance(answer, Accepted)
        body = json.dumps({"result": "accepted" if landed else "conflict"}).encode()
        put = self.store.put(mark_key, body, when=ABSENT, content_type=JSON)
        if put.outcome not in (Outcome.DONE, Outcome.EXISTS):
            return False  # it lands once more, as a duplicate
        self._landed(identity, manifest, accepted=landed)
        if isinstance(answer, Accepted):
            self._bucket.follow_up(answer.manifest)
        else:
            _LOG.error("batch %s was accepted in the bucket with other bytes: see conflicts there", identity)
        return True

    def _landed(self, identity: Identity, manifest: Manifest, *, accepted: bool) -> None:
        self._forget(identity)
        if accepted:
            # After it waits no more: a repetition that puts the frame back makes it wait again.
            self.store.delete(manifest.raw_blob_key, when=ANYTHING)

    def _read(self, key: str) -> bytes:
        reply = self.store.get(key)
        if not reply.done:
            raise StoreUnavailable(f"{key} of the local spool cannot be read: {reply.outcome}")
        return reply.body

    def _keys(self, prefix: str) -> list[str]:
        found: list[str] = []
        for page in self.store.pages(prefix):
            if not page.done:
                raise StoreUnavailable(f"the local spool cannot list {prefix}: {page.outcome}")
            found += [item.key for item in page.objects]
        return found


class _Round:
    """The outcome of one round of landing."""

    def __init__(self) -> None:
        self.landed = 0
        self.problem: IngestError | StoreError | None = None
        self.is_over = False
        """No further batch begins."""

    def take(self, one: Future[bool]) -> None:
        try:
            if one.result():
                self.landed += 1
            else:
                self.is_over = True  # when the bucket is unavailable, the next ones would fail, too
        except IngestError as error:
            self.problem = self.problem or error
        except StoreError as error:
            self.problem = self.problem or error
            self.is_over = True


def _locked(path: Path) -> int:
    try:
        make_private(path, "store")
        handle = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unusable(f"the local spool {path} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise Unusable(f"another collector uses the local spool {path}; give each its own") from None
    return handle
