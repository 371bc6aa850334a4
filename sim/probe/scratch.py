"""The scratch prefix of a probe, on which it leaves nothing.

Objects to remove are known twice: from the listing, and from the requests. A probe looks for stores whose
listings are wrong, so the listing alone cannot be trusted to find its objects.
"""

import contextlib
import itertools
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import StoreError, Unsupported
from fencepost.impl.store.files.names import INTERNAL
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import ANYTHING, Outcome, Reply, Request

ROOT = "fencepost-probe/"
PASSES = 3
"""A write whose reply was lost may land while we sweep; each pass looks again."""
BATCH = 64
"""Removals sent in one parallel step."""


class ScratchPrefix:
    """Hands out keys, records the objects there, and removes them."""

    def __init__(self, store: Store, env: Environment, root: str = ROOT) -> None:
        self.prefix = f"{root}{env.new_id().lower()}/"
        self._store = store
        self._numbers = itertools.count()
        self._standing: set[str] = set()
        self._uploads: set[tuple[str, str]] = set()
        self._touched = False
        self._lock = threading.Lock()

    def key(self, name: str) -> str:
        """Return a new key."""
        return f"{self.prefix}{name}-{next(self._numbers):05d}"

    def before(self, request: Request[Any]) -> None:
        """Remember what `request` may leave behind, whatever comes back."""
        if isinstance(request, ask.Put | ask.CompleteUpload):
            with self._lock:
                self._touched = True
                self._standing.add(request.key)

    def after(self, request: Request[Any], reply: Reply) -> None:
        """Remember what `request` made or removed."""
        with self._lock:
            if isinstance(reply, ask.UploadReply) and reply.done:
                self._uploads.add((request.subject, reply.upload))
            elif isinstance(request, ask.AbortUpload | ask.CompleteUpload) and reply.done:
                self._uploads.discard((request.key, request.upload))
            elif isinstance(request, ask.Delete) and reply.done:
                self._standing.discard(request.key)

    @property
    def touched(self) -> bool:
        """True once a write was sent: otherwise there is nothing to remove."""
        return self._touched

    def tidy(self, keep: Collection[str] = ()) -> None:
        """Remove the known objects, except `keep`; errors are left to `sweep`, which repeats it."""
        if self._is_versioned():
            # A plain delete would leave a marker: one sweep of all versions in the end is better.
            return
        with self._lock:
            removals: list[Request[Any]] = [ask.AbortUpload(*pair) for pair in sorted(self._uploads)]
            removals += [ask.Delete(key, ANYTHING) for key in sorted(self._standing.difference(keep))]
        self._send(removals, [])

    def sweep(self) -> list[str]:
        """Remove everything; answers what could not be removed, in words."""
        complaints: list[str] = []
        for _ in range(PASSES):
            complaints = []
            found = self._sweep_once(complaints)
            if not found and not complaints:
                return []
        return complaints or self._remaining()

    def _sweep_once(self, complaints: list[str]) -> int:
        uploads = self._abort_uploads(complaints)
        versions = self._remove(self._versions(complaints), complaints)
        objects = self._remove(self._objects(complaints), complaints)
        return uploads + versions + objects

    def _abort_uploads(self, complaints: list[str]) -> int:
        pages = _pages(lambda token: self._store.list_uploads(self.prefix, token=token), complaints)
        listed = {(upload.key, upload.upload) for page in pages for upload in page.uploads}
        with self._lock:
            aborts = [ask.AbortUpload(*pair) for pair in sorted(listed | self._uploads)]
        self._send(aborts, complaints)
        return len(aborts)

    def _versions(self, complaints: list[str]) -> list[ask.Delete]:
        if not self._is_versioned():
            return []
        pages = _pages(lambda token: self._store.list_versions(self.prefix, token=token), complaints)
        return [ask.Delete(found.key, ANYTHING, found.version) for page in pages for found in page.versions]

    def _objects(self, complaints: list[str]) -> list[ask.Delete]:
        pages = _pages(lambda token: self._store.list(self.prefix, token=token), complaints)
        listed = {found.key for page in pages for found in page.objects}
        with self._lock:
            # In a versioned bucket a plain delete would leave a marker, so only what is listed counts.
            unlisted = set() if self._is_versioned() else self._standing
            return [ask.Delete(key, ANYTHING) for key in sorted(listed | unlisted)]

    def _is_versioned(self) -> bool:
        try:
            return self._store.versioned()
        except StoreError:
            return False

    def _remove(self, deletes: Sequence[ask.Delete], complaints: list[str]) -> int:
        self._send(deletes, complaints)
        return len(deletes)

    def _send(self, removals: Sequence[Request[Any]], complaints: list[str]) -> None:
        for batch in batches(removals):
            try:
                replies = self._store.send_all(batch)
            except Unsupported:
                continue
            except StoreError as error:
                complaints.append(str(error))
                return
            for request, reply in zip(batch, replies, strict=True):
                if reply.outcome in (Outcome.DONE, Outcome.MISSING, Outcome.GONE):
                    self._forget(request)
                else:
                    complaints.append(f"{request.subject}: {reply.outcome.value}")

    def _forget(self, removal: Request[Any]) -> None:
        with self._lock:
            if isinstance(removal, ask.AbortUpload):
                self._uploads.discard((removal.key, removal.upload))
            else:
                self._standing.discard(removal.subject)

    def _remaining(self) -> list[str]:
        complaints: list[str] = []
        pages = _pages(lambda token: self._store.list(self.prefix, token=token), complaints)
        return complaints + [found.key for page in pages for found in page.objects]


def batches(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """Portions for one parallel step."""
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _pages(turn: Callable[[str], Any], complaints: list[str]) -> list[Any]:
    """All pages of a listing; what is not offered has no pages."""
    pages: list[Any] = []
    token, tokens = "", set()
    try:
        while token not in tokens:
            tokens.add(token)
            page = turn(token)
            if not page.done:
                complaints.append(f"listing what is left: {page.outcome.value} {page.detail}".rstrip())
                break
            pages.append(page)
            token = page.next
            if not token:
                break
    except Unsupported:
        pass
    except StoreError as error:
        complaints.append(str(error))
    return pages


class Footprint:
    """Folders that probing a directory makes: the store's own bookkeeping, and the folder itself.

    A directory store keeps locks and its format in a folder of its own and makes the directory it is given.
    Where neither was there before, and nothing but that bookkeeping is there afterwards, both go again.
    """

    def __init__(self, store: Store) -> None:
        path = getattr(store, "path", None) if store.url.startswith("file:") else None
        self._path = Path(path) if path else None
        self._was_a_store = self._path is not None and (self._path / INTERNAL).exists()
        self._made = self._missing(self._path) if self._path else []

    @staticmethod
    def _missing(path: Path) -> list[Path]:
        """The folders that will have to be made, innermost first."""
        return [folder for folder in (path, *path.parents) if not folder.exists()]

    def remove(self) -> None:
        """Take away what was made; whatever somebody put there meanwhile stays, and so does its folder."""
        if self._path is None or self._was_a_store or not self._path.is_dir():
            return
        if any(entry.name != INTERNAL for entry in self._path.iterdir()):
            return
        shutil.rmtree(self._path / INTERNAL, ignore_errors=True)
        with contextlib.suppress(OSError):
            for folder in self._made:
                folder.rmdir()
