"""The store of one bucket, whose changes are recorded in the listing index before they are answered.

It answers what a `FileStore` answers, and the order of its steps is that of the model `objects`:

    publish -> flush the directory -> index and event, in one transaction -> answer

A listing comes from the index where that can be trusted, otherwise from the directory.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, cast

from fencepost.impl.environment import Environment
from fencepost.impl.objects.index import Change, Entry, Index, entry_of
from fencepost.impl.store import requests as ask
from fencepost.impl.store.files import Disk, FileStore
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.files.reading import Opened
from fencepost.impl.store.files.uploads import Content
from fencepost.impl.store.files.versions import NULL, Keep
from fencepost.impl.store.files.writing import Incoming
from fencepost.impl.store.requests import Outcome, R, Request

_NOT_APPLIED = frozenset(
    {Outcome.EXISTS, Outcome.CHANGED, Outcome.MISSING, Outcome.GONE, Outcome.CONFLICT, Outcome.THROTTLED}
)
_DELETED = "deleted"
"""Stands for the mark of a delete; no write has it."""
_WRITES = (ask.Put, ask.Delete, ask.CompleteUpload)


class RecordedStore(FileStore):
    def __init__(
        self, path: str, bucket: str, index: Index, env: Environment, disk: Disk | None = None
    ) -> None:
        super().__init__(path, env=env, verify_reads=False, disk=disk, remembers_uploads=True)
        self._bucket = bucket
        self._index = index

    def send(self, request: Request[R]) -> R:
        if isinstance(request, ask.List):
            page = self._index.page(self._bucket, request)
            if page is not None:
                return cast(R, page)
        reply = super().send(request)
        if isinstance(request, _WRITES) and reply.outcome not in _NOT_APPLIED:
            self.record(request.key, _DELETED if isinstance(request, ask.Delete) else "")
        return reply

    @contextlib.contextmanager
    def incoming(self, key: str, when: ask.Condition, keep: Keep = Keep.NOTHING) -> Iterator[Incoming]:
        with super().incoming(key, when, keep) as draft:
            yield cast(Incoming, _RecordedIncoming(self, draft, keep))

    def complete(
        self, request: ask.CompleteUpload, keep: Keep, content: Content | None = None
    ) -> ask.PutReply:
        reply = super().complete(request, keep, content)
        if reply.outcome not in _NOT_APPLIED:
            self.record(request.key, versions=touched(keep, reply.version))
        return reply

    def delete_keeping(self, key: str, when: ask.Matches | ask.Anything, keep: Keep) -> ask.DeleteReply:
        reply = super().delete_keeping(key, when, keep)
        if reply.outcome not in _NOT_APPLIED:
            self.record(key, _DELETED, touched(keep, reply.version))
        return reply

    def remove_version(self, key: str, version: str, guard: Callable[[Opened], None]) -> ask.DeleteReply:
        reply = super().remove_version(key, version, guard)
        if reply.outcome not in _NOT_APPLIED:
            self.record(key, versions=touched(Keep.ALL, version))
        return reply

    def change(self, key: str, version: str, how: Callable[[Opened], Attributes]) -> Outcome:
        outcome = super().change(key, version, how)
        if outcome not in _NOT_APPLIED:
            self.record(key, versions=frozenset({version}))
        return outcome

    def record(self, key: str, mark: str = "", versions: frozenset[str] = frozenset()) -> None:
        """Record what stands at `key`. `mark` is that of a write or delete that was made durable before."""
        look = functools.partial(self._standing, key, mark)
        self._index.record(Change(self._bucket, key, look, versions))

    def _standing(self, key: str, mark: str, version: str) -> Entry | None:
        """What stands there now. A version of somebody else may be visible and not yet durable: if its event
        came before its flush, a power failure would leave an event of what never was. Of one that is not
        current it is known that it was flushed before it could be replaced; by whom it was removed, not."""
        if version:
            with self.noncurrent(key, version) as found:
                return None if found is None else entry_of(found.found, found.attributes)
        with self.opened(key) as found:
            entry = None if found is None else entry_of(found.found, found.attributes)
        if mark != (_DELETED if found is None else found.attributes.mark) or not mark:
            self.flush(key)
        return entry

    def is_empty(self) -> bool:
        """Whether the directory holds no object and no version, whatever the index says."""
        return (
            not super().send(ask.List("", limit=1)).objects
            and not self.versions("", "", ("", ""), 1).versions
        )

    def differences(self, rows: int = 500) -> Iterator[str]:
        """Keys whose rows do not equal the directory, or did not when they were compared."""
        batch: dict[str, os.stat_result] = {}
        for key, found in self.walk():
            batch[key] = found
            if len(batch) >= rows:
                yield from self._index.differing(self._bucket, batch)
                batch = {}
        yield from self._index.differing(self._bucket, batch)
        for key in self._index.keys(self._bucket):
            if self.stat(key) is None:
                yield key

    def version_differences(self, rows: int = 500) -> Iterator[tuple[str, str]]:
        """The same of versions that are not current."""
        batch: dict[tuple[str, str], os.stat_result] = {}
        for key, version, found in self.walk_versions():
            batch[key, version] = found
            if len(batch) >= rows:
                yield from self._index.differing_versions(self._bucket, batch)
                batch = {}
        yield from self._index.differing_versions(self._bucket, batch)
        for key, version in self._index.versions(self._bucket):
            with self.noncurrent(key, version) as opened:
                is_gone = opened is None
            if is_gone:
                yield key, version


def touched(keep: Keep, version: str) -> frozenset[str]:
    """The versions besides the current one that a change may concern. The one that was current is called null
    if it is older than its bucket's versions, and is replaced wherever it is once these are suspended."""
    return frozenset() if keep is Keep.NOTHING else frozenset({version, NULL})


class _RecordedIncoming:
    """An object on its way; `publish` records it."""

    def __init__(self, store: RecordedStore, draft: Incoming, keep: Keep) -> None:
        self._keep = keep
        self._store = store
        self._draft = draft
        self.write = draft.write

    def publish(self, attributes: Attributes) -> ask.PutReply:
        reply = self._draft.publish(attributes)
        if reply.outcome not in _NOT_APPLIED:
            versions = touched(self._keep, reply.version)
            self._store.record(self._draft.key, self._draft.draft.attributes.mark, versions)
        return reply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._draft, name)
