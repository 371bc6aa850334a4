"""The store of one bucket, whose changes are recorded in the listing index before they are answered.

It answers what a `FileStore` answers, and the order of its steps is that of the model `objects`:

    publish -> flush the directory -> index and event, in one transaction -> answer

A listing comes from the index where that can be trusted, otherwise from the directory.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from fencepost.impl.environment import Environment
from fencepost.impl.objects.calls import Calls, Key, RecordedDisk, RecordedWrite
from fencepost.impl.objects.index import Change, Index
from fencepost.impl.objects.safeguards import STANDARD, Look, Safeguards, Write, guarded
from fencepost.impl.objects.tables import UPLOAD, Entry, entry_of, entry_of_upload
from fencepost.impl.store import requests as ask
from fencepost.impl.store.files import Disk, FileStore
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.files.reading import Opened
from fencepost.impl.store.files.store import LINGER_MS, TEMP_AGE_S
from fencepost.impl.store.files.uploads import Content
from fencepost.impl.store.files.versions import NULL, Keep
from fencepost.impl.store.files.writing import Incoming
from fencepost.impl.store.requests import Outcome, R, Reply, Request

P = TypeVar("P", bound=Reply)
_NOT_APPLIED = frozenset(
    {Outcome.EXISTS, Outcome.CHANGED, Outcome.MISSING, Outcome.GONE, Outcome.CONFLICT, Outcome.THROTTLED}
)
_DELETED = "deleted"
"""The mark of a delete; no write has it."""
_WRITES = (ask.Put, ask.Delete, ask.CompleteUpload)


class RecordedStore(FileStore):
    def __init__(
        self,
        path: str,
        bucket: str,
        index: Index,
        env: Environment,
        disk: Disk | None = None,
        safeguards: Safeguards = STANDARD,
        calls: Calls | None = None,
        linger_ms: float = LINGER_MS,
        temp_age_s: float = TEMP_AGE_S,
    ) -> None:
        disk = disk or Disk()
        disk = guarded(disk if calls is None else RecordedDisk(disk, calls), safeguards)
        super().__init__(
            path,
            env=env,
            verify_reads=False,
            disk=disk,
            remembers_uploads=True,
            linger_ms=linger_ms,
            temp_age_s=temp_age_s,
        )
        self._calls = calls
        self._bucket = bucket
        self._index = index
        self._safeguards = safeguards

    def send(self, request: Request[R]) -> R:
        if isinstance(request, ask.List):
            page = self._index.page(self._bucket, request)
            if page is not None:
                return cast(R, page)
        sent = super().send
        if isinstance(request, ask.AbortUpload):
            ended = sent(request)
            self._record_upload(ended, request.key, request.upload)
            return cast(R, ended)
        if not isinstance(request, _WRITES):
            return sent(request)
        mark = _DELETED if isinstance(request, ask.Delete) else ""
        land = functools.partial(sent, request)
        return cast(R, self.write(_Write(self, request.key, land, mark, when=request.when)))

    @contextlib.contextmanager
    def incoming(self, key: str, when: ask.Condition, keep: Keep = Keep.NOTHING) -> Iterator[Incoming]:
        with super().incoming(key, when, keep) as draft:
            yield cast(Incoming, _RecordedIncoming(self, draft, keep))

    def complete(
        self, request: ask.CompleteUpload, keep: Keep, content: Content | None = None
    ) -> ask.PutReply:
        land = functools.partial(super().complete, request, keep, content)
        ended = frozenset({UPLOAD + request.upload})
        return self.write(_Write(self, request.key, land, keep=keep, ended=ended, when=request.when))

    def begin_upload(self, request: ask.CreateUpload, extra: ask.Metadata) -> ask.UploadReply:
        reply = super().begin_upload(request, extra)
        self._record_upload(reply, request.key, reply.upload)
        return reply

    def _record_upload(self, reply: Reply, key: str, upload: str) -> None:
        """One whose reply is unknown may have no name yet; reconciling finds it."""
        if reply.outcome not in _NOT_APPLIED and upload:
            look = functools.partial(self.standing, key, "")
            self._index.record(Change(self._bucket, key, look, frozenset({UPLOAD + upload}), of_uploads=True))

    def delete_keeping(
        self,
        key: str,
        when: ask.Matches | ask.Anything,
        keep: Keep,
        guard: Callable[[], None] = lambda: None,
    ) -> ask.DeleteReply:
        land = functools.partial(super().delete_keeping, key, when, keep, guard)
        return self.write(_Write(self, key, land, _DELETED, keep, when=when))

    def remove_version(self, key: str, version: str, guard: Callable[[Opened], None]) -> ask.DeleteReply:
        land = functools.partial(super().remove_version, key, version, guard)
        return self.write(_Write(self, key, land, versions=touched(Keep.ALL, version)))

    def change(self, key: str, version: str, how: Callable[[Opened], Attributes]) -> Outcome:
        outcome = super().change(key, version, how)
        if outcome not in _NOT_APPLIED:
            self.record(key, versions=frozenset({version}))
        return outcome

    def write(self, write: "_Write[P]") -> P:
        """Carry out a change in the order of the safeguards."""
        look = self._safeguards.index_after_publish(write)
        if self._calls is None:
            return self._safeguards.event_after_publish(write, look)
        if not write.kind:
            self._calls.unjudged(self._bucket, write.key)
            return self._safeguards.event_after_publish(write, look)
        places = (functools.partial(one, write.key) for one in (self.is_place, self.is_lock))
        with self._calls.writing(Key(self._bucket, write.key, *places), write.kind) as notes:
            recorded = RecordedWrite(write, notes)
            reply: P = self._safeguards.event_after_publish(recorded, look)
            recorded.answered(reply)
        return reply

    def record(self, key: str, versions: frozenset[str] = frozenset(), look: Look | None = None) -> None:
        """Record the present entry of `key`, or the result of `look`."""
        look = look or functools.partial(self.standing, key, "")
        self._index.record(Change(self._bucket, key, look, versions))

    def standing(self, key: str, mark: str, version: str = "") -> Entry | None:
        """Return the durable entry of `key` now. `mark` is that of a write or delete already durable.

        A version of another writer may be visible and not yet durable: if its event came before its flush, a
        power failure would leave an event of a change that never happened. A version that is not current was
        flushed before it was replaced, but its removal may not be durable.
        """
        if version.startswith(UPLOAD):
            upload = self.upload(key, version.removeprefix(UPLOAD))
            return None if upload is None else entry_of_upload(upload)
        if version:
            with self.noncurrent(key, version) as found:
                return None if found is None else entry_of(found.found, found.attributes)
        with self.opened(key) as found:
            entry = None if found is None else entry_of(found.found, found.attributes)
        if mark != (_DELETED if found is None else found.attributes.mark) or not mark:
            self.flush(key)
        return entry

    def is_empty(self) -> bool:
        """Return True if the directory, regardless of the index, holds no object and no version."""
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
            if self.standing(key, "", version) is None:
                yield key, version

    def upload_differences(self) -> Iterator[tuple[str, str]]:
        """The same of uploads that are there; `version_differences` has those that are not."""
        for upload in self.uploads(""):
            place = self._bucket, upload.key, UPLOAD + upload.upload
            if self._index.entry(place) != entry_of_upload(upload):
                yield place[1:]


def touched(keep: Keep, version: str) -> frozenset[str]:
    """The versions besides the current one that a change may concern. The one that was current is called null
    if it is older than its bucket's versions, and is replaced wherever it is once these are suspended."""
    return frozenset() if keep is Keep.NOTHING else frozenset({version, NULL})


class _Write(Write[P]):
    """A change of `key` that `land` makes."""

    def __init__(
        self,
        store: RecordedStore,
        key: str,
        land: Callable[[], P],
        mark: str = "",
        keep: Keep = Keep.NOTHING,
        versions: frozenset[str] | None = None,
        ended: frozenset[str] = frozenset(),
        when: ask.Condition | None = None,
    ) -> None:
        """`mark` is that of a delete; `ended` names the upload that the change completes; `when` is the
        condition of a change of the current version.
        """
        self._store = store
        self._key = self.key = key
        self.kind = "" if when is None or keep is not Keep.NOTHING else _kind(when, deletes=mark == _DELETED)
        """As the model calls it; empty where versions are kept, which the model does not have."""
        self._land = land
        self._mark = mark
        self._keep = keep
        self._versions = versions
        self._ended = ended

    def land(self) -> P:
        return self._land()

    def is_applied(self, reply: P) -> bool:
        return reply.outcome not in _NOT_APPLIED

    def record(self, reply: P | None, look: Look) -> None:
        versions = self._versions
        if versions is None:
            versions = touched(self._keep, getattr(reply, "version", ""))
        self._store.record(self._key, versions | self._ended, look)

    def standing(self, version: str) -> Entry | None:
        return self._store.standing(self._key, self._mark, version)

    def drafted(self, version: str) -> Entry | None:
        return None if self._mark == _DELETED else self.standing(version)


def _kind(when: ask.Condition, *, deletes: bool) -> str:
    if isinstance(when, ask.Matches):
        return "replace"
    return "delete" if deletes else "create" if isinstance(when, ask.Absent) else "put"


class _Publication(_Write[ask.PutReply]):
    """The publication of an object whose content has arrived."""

    def __init__(self, store: RecordedStore, incoming: Incoming, attributes: Attributes, keep: Keep) -> None:
        land = functools.partial(incoming.publish, attributes)
        super().__init__(store, incoming.key, land, keep=keep, when=incoming.when)
        self._draft = incoming.draft
        self._attributes = attributes

    def standing(self, version: str) -> Entry | None:
        return self._store.standing(self._key, self._draft.attributes.mark, version)

    def drafted(self, version: str) -> Entry | None:
        if version:
            return self.standing(version)
        known = self._draft.attributes if self._draft.landed else self._attributes
        return entry_of(os.fstat(self._draft.fd), known)


class _RecordedIncoming:
    """An object on its way; `publish` records it."""

    def __init__(self, store: RecordedStore, draft: Incoming, keep: Keep) -> None:
        self._keep = keep
        self._store = store
        self._draft = draft
        self.write = draft.write

    def publish(self, attributes: Attributes) -> ask.PutReply:
        return self._store.write(_Publication(self._store, self._draft, attributes, self._keep))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._draft, name)
