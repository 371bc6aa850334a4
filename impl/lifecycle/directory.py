"""A directory of `objects` as a target: its buckets and its change log, opened beside its server.

The target works in this process, on the files, and not through the server's S3 interface: only under the lock
of a key can a deletion be one step with its guard. S3's own conditions name an ETag, which tags and locks do
not change, and none is evaluated where a version is removed. Every step is recorded in the index and in the
change log as the server records it, so any number of servers and workers share the directory.

The state of the lifecycle lies in `.objects/lifecycle/`, beside the documents of the buckets, where no client
of the server reads it and no rule matches it. That of a worker on another machine lies in its bucket, below
the same prefix, which no rule matches either.
"""

import contextlib
import errno
import functools
from collections.abc import Callable, Iterator, Sequence

from fencepost.impl.lifecycle.documents import FOLDER
from fencepost.impl.lifecycle.policy import Rule, Version, What, in_order, rules_of
from fencepost.impl.lifecycle.target import (
    WHOLE,
    Guard,
    Listed,
    Live,
    Needs,
    Result,
    Standing,
    Unavailable,
    Unworkable,
    Wanted,
)
from fencepost.impl.objects import object_state
from fencepost.impl.objects.buckets import Buckets, Document
from fencepost.impl.objects.context import moment
from fencepost.impl.objects.lifecycle_rules import read_rules
from fencepost.impl.objects.recorded import RecordedStore
from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.store.errors import BrokenPromise, StoreError
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.files.versions import Held, Keep
from fencepost.impl.store.requests import ANYTHING, NOT_NOW, AbortUpload, Outcome, UploadInfo

PAGE = 500
_UNTIL_REPAIRED = frozenset(
    {errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO}
)
"""Errors of a file that no repetition ends."""


class _Refused(Exception):
    def __init__(self, result: Result) -> None:
        self.result = result


class DirectoryTarget:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    def buckets(self) -> Sequence[str]:
        with _failures():
            return self._buckets.names()

    def rules(self, bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        with _failures():
            try:
                return _rules(self._buckets.document(bucket).lifecycle)
            except S3Error as error:
                if error.code == "NoSuchBucket" and bucket in self._buckets.names():
                    raise BrokenPromise(f"the settings of bucket {bucket} are no file; restore it") from None
                if error.code == "NoSuchBucket":
                    return ()
                raise BrokenPromise(f"the rules of bucket {bucket} cannot be read: {error.message}") from None
            except (ValueError, KeyError, TypeError) as error:
                raise BrokenPromise(
                    f"the rules of bucket {bucket} cannot be read ({error}); put them again"
                ) from None

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        with _failures(), self._entered(bucket) as entered:
            if entered is None or key.startswith(FOLDER):
                return Standing()
            return self._standing(*entered, key, with_uploads=needs.uploads)

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        with _failures(), self._entered(bucket) as entered:
            if entered is None:
                return ()
            store, document = entered
            shown, last = _listed(store, prefix, after)
            while last is not None and all(key.startswith(FOLDER) for key in shown):
                shown, last = _listed(store, prefix, last)
            started: dict[str, list[Live]] = {}
            # Behind the last key of a page that is not the last there may be others between two uploads.
            for upload in store.uploads(prefix) if uploads else ():
                if upload.key > after and (last is None or upload.key <= last):
                    started.setdefault(upload.key, []).append(_upload(upload))
            is_versioned = document.keep is not Keep.NOTHING
            found = []
            for key in sorted(shown.keys() | started.keys()):
                versions = shown.get(key, [])
                if not key.startswith(FOLDER):
                    whole = None if versions is None else _shown(versions, started.get(key, []), is_versioned)
                    found.append(Listed(key, whole, is_look=False))
            return found

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        with _failures(), self._entered(bucket) as entered:
            keys = [] if entered is None else entered[0].keys(after, 1, prefix)
            return keys[0] if keys else None

    def delete_versions(
        self, bucket: str, wanted: Sequence[Wanted], after: str, prefix: str = ""
    ) -> Sequence[Result | None]:
        return [None] * len(wanted)  # each under the lock of its key

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        with _failures(), self._entered(bucket) as entered:
            if entered is None or key.startswith(FOLDER):
                return Result.NOT_FOUND
            store, document = entered
            is_guarded = False

            def check(*_: object) -> None:
                """Under the lock of the key."""
                nonlocal is_guarded
                is_guarded = True
                refused = guard(self._standing(store, document, key, with_uploads=what is What.ABORT))
                if refused is not None:
                    raise _Refused(refused)

            try:
                outcome = _remove(store, document.keep, key, version_id, what, check)
            except _Refused as refusal:
                return refusal.result
            if outcome in (Outcome.MISSING, Outcome.GONE) or not is_guarded:
                return Result.NOT_FOUND
            if outcome is Outcome.UNKNOWN or outcome in NOT_NOW:
                raise Unavailable(f"nobody knows whether {bucket}/{key} was deleted durably")
            return Result.DONE

    @contextlib.contextmanager
    def _entered(self, bucket: str) -> Iterator[tuple[RecordedStore, Document] | None]:
        """The bucket, which stays until the end of this block; None if there is none."""
        with contextlib.ExitStack() as stack:
            try:
                entered = stack.enter_context(self._buckets.entered(bucket))
            except S3Error as error:
                if error.code != "NoSuchBucket":
                    raise
                entered = None
            yield entered

    def _standing(
        self, store: RecordedStore, document: Document, key: str, *, with_uploads: bool
    ) -> Standing:
        now_ns = self._buckets.env.now_ns()
        held = {one.entry.version: one for one in store.held(key)}
        versions = in_order([_version(key, one) for one in held.values()])
        live = [_live(one, held[one.version_id].attributes, now_ns) for one in versions]
        found = store.uploads(key) if with_uploads else ()
        uploads = [_upload(one) for one in found if one.key == key]
        return Standing(tuple(live), tuple(uploads), document.keep is not Keep.NOTHING)


def _remove(
    store: RecordedStore, keep: Keep, key: str, version_id: str, what: What, check: Callable[..., None]
) -> Outcome:
    match what:
        case What.EXPIRE:
            return store.delete_keeping(key, ANYTHING, keep, check).outcome
        case What.ABORT:
            check()  # an upload does not change; it ends once, and only one of those that end it has done so
            return store.send(AbortUpload(key, version_id)).outcome
        case What.DELETE_VERSION | What.DELETE_MARKER:
            return store.remove_version(key, version_id, check).outcome
        case _:
            raise AssertionError(f"{what} deletes nothing")


def _listed(store: RecordedStore, prefix: str, after: str) -> tuple[dict[str, list[Live] | None], str | None]:
    """Return the keys of a page, each with its versions, or None if these may not be all; and the last key of
    the page, unless the page is the last one.

    A listing of versions reads every file. Where one cannot be read, the keys are listed without their
    versions, so that a look at each finds which one it is.
    """
    try:
        page = store.versions(prefix, "", (after, ""), PAGE)
    except (StoreError, OSError):
        keys = store.keys(after, PAGE, prefix)
        return dict.fromkeys(keys), keys[-1] if len(keys) == PAGE else None
    found: dict[str, list[Live]] = {}
    for row in page.versions:
        version = Version(row.key, row.version, row.modified_ns, row.size, (), row.marker)
        found.setdefault(row.key, []).append(Live(version))
    last = page.versions[-1].key if page.more else None
    return {key: None if key == last else versions for key, versions in found.items()}, last


def _upload(one: UploadInfo) -> Live:
    return Live(Version(one.key, one.upload, one.started_ns, is_upload=True), f" {one.upload}")


def _shown(versions: list[Live], uploads: list[Live], is_versioned: bool) -> Standing:
    """As a listing shows them, newest first."""
    ordered = in_order([one.version for one in versions])
    return Standing(tuple(Live(one) for one in ordered), tuple(uploads), is_versioned)


def _version(key: str, held: Held) -> Version:
    return Version(
        key,
        held.entry.version,
        held.found.st_mtime_ns,
        held.found.st_size,
        tuple(sorted(object_state.tags_of(held.attributes.extra).items())),
        held.entry.marker,
    )


def _live(version: Version, attributes: Attributes, now_ns: int) -> Live:
    # As in the log: the mark tells two writes of the same bytes in the same moment apart.
    content = f"{attributes.etag} {attributes.mark}"
    try:
        object_state.check_removable(attributes.extra, moment(now_ns), bypass=False)
    except S3Error:
        return Live(version, content, is_locked=True)
    return Live(version, content)


@functools.lru_cache(maxsize=1024)
def _rules(text: str) -> tuple[Rule, ...]:
    return tuple(rules_of(read_rules(text))) if text else ()


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except BrokenPromise as error:
        raise Unworkable(str(error)) from error
    except (StoreError, OSError, S3Error) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        kind = Unworkable if getattr(cause, "errno", None) in _UNTIL_REPAIRED else Unavailable
        raise kind(str(error)) from error
