"""acceptance = "local_spool": a single collector whose own disk accepts, and whose bucket follows.

The disk holds a small acceptance authority of its own: the same protocol on a `file://` store. So acceptance,
duplicates and conflicts mean the same as in the other mode. The landing is added: every `interval_s` each
batch that was accepted here and has not landed is accepted in the bucket under the same identity, any number
of times if necessary, and then gets a mark here.

    store/accepted/v1/...      the batches accepted here
    store/raw-blobs/v1/...     their frames, until they have landed
    store/landed/v1/...        the marks: {"result": "accepted" | "conflict"}
    lock                       one collector at a time

A conflict in the bucket means that another collector accepted other bytes there, which a single collector
excludes: the record is in the bucket, an error in the log, and the frame stays here.

This mode assumes one collector, and a disk that survives the interval.
"""

import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.authority import Accepted, Authority, Unavailable
from fencepost.impl.ingest.documents import JSON, Manifest
from fencepost.impl.ingest.errors import IngestError, StoreUnavailable
from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.operator import Blocklist
from fencepost.impl.ingest.service.acceptance import Acceptance, Answer, judge
from fencepost.impl.private_files import make_private
from fencepost.impl.store import ABSENT, ANYTHING, Outcome, Unusable
from fencepost.impl.store.files import FileStore

_LOG = logging.getLogger("fencepost.ingest")

LANDED = "landed/v1/"


class LocalSpool(Acceptance):
    """Accepts on the disk at `path`; `bucket` is where batches land."""

    def __init__(self, path: str | os.PathLike[str], bucket: Authority, env: Environment) -> None:
        self.env = env
        self._lock = _locked(Path(path))
        self.store = FileStore(Path(path) / "store", env=env, private=True)
        self._bucket = bucket
        self._here = Authority(self.store, env, bucket.collector_id, bucket.settings)
        self.blocklist = Blocklist(self.store, env, bucket.settings)
        self._guard = threading.Lock()
        # Batches that an earlier run accepted and did not land.
        landed = {Identity.of_key(key) for key in self._keys(LANDED)}
        self._waiting = {Identity.of_key(key) for key in self._keys(keys.ACCEPTED)} - landed

    def accept(self, agent: str, identity: Identity, body: bytes) -> Answer:
        answer = judge(self._here, self.blocklist, agent, identity, body, self._accepted)
        if answer.result == "duplicate":
            # The first answer may have been lost, or the batch has landed and this put its frame back.
            self._wait(identity)
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

    def land(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Land the waiting batches, in order, until `stop`; returns how many landed.

        Raises the error of the first that this disk does not give back, after the others.
        """
        with self._guard:
            waiting = sorted(self._waiting)
        landed = 0
        problem: IngestError | None = None
        for identity in waiting:
            if stop():
                break
            try:
                if not self._land(identity):
                    break  # when the bucket is unavailable, the next ones would fail, too
            except IngestError as error:
                problem = problem or error
            else:
                landed += 1
        if problem is not None:
            raise problem
        return landed

    def _accepted(self, manifest: Manifest) -> None:
        self._wait(manifest.identity)

    def _wait(self, identity: Identity) -> None:
        with self._guard:
            self._waiting.add(identity)

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
        with self._guard:
            self._waiting.discard(identity)
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
