"""A bucket of any S3 endpoint as a target. It has no log that can be read, so walks do all the work.

No store offers a deletion that is one step with the whole guard, so the object may change between the guard's
look and the deletion. The outcomes:

    overwritten               If-Match on the deletion refuses it, where the store evaluates that
                              (`evaluates_if_match`). Where not, the new object is deleted, or hidden.
    locked                    the store refuses: governance is never bypassed
    tagged otherwise, or      the object is deleted by what held an instant before, rules up to a second
    the rules changed
    a version, an upload      their names are never used again, so nothing else is deleted

A time counts as the end of its second, as stores show no more: nothing is deleted early.

Requests of a walk, beside those of its state. The listing is the first look at an object, unless rules need
its tags:

    a page of 1,000 keys      a LIST; one more where a rule is for uploads and the page has some
    an object that is due     a HEAD, with locks of versions one more; its tags if a rule needs them; a DELETE
    due noncurrent versions   a LIST and a DeleteObjects for those of a page, unless the bucket has locks
    a due upload              an AbortMultipartUpload

A store that lists keys in the order of their bytes is walked from any key on, by any number of workers. That
is tried with objects of ours. Any other store is listed from the beginning by each process that walks it.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fencepost.impl.context import Context
from fencepost.impl.lifecycle.policy import SECOND_NS, Rule, Version, What, in_order
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
from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise, StoreError, Unsupported
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome
from fencepost.impl.store.s3.details import Details, NoAnswer
from fencepost.impl.store.s3.operations import behind
from fencepost.impl.store.s3.store import S3Store

PAGE = 1000
OURS = "lifecycle/v1/"
"""Below this prefix lies the state of lifecycles; no rule matches it."""
NO_ETAG = "0" * 32
KNOWN_S = 60.0
"""Seconds for which the settings of the bucket are taken as they were read."""
IN_ORDER = ("B", "a.b", "a/x", "\uff61", "\U0001f600")
"""Names in the order of their bytes, which trees of folders, other alphabets and UTF-16 order otherwise."""
UPLOADS_MAX = 10_000
"""Our own limit on the uploads that are kept between a page and their deletion."""
DELETIONS_MAX = 1000
"""S3's limit on the versions of one DeleteObjects."""

Rows = list[ask.VersionInfo]


class _OutOfOrder(Exception):
    """A listing is not in the order of the bytes of its keys."""


@dataclass(slots=True)
class _Listing:
    """A listing under way, in whatever order."""

    prefix: str
    groups: Iterator[tuple[str, Rows | None]]
    after: str
    """The last key of the page that was handed out."""


@dataclass(frozen=True, slots=True)
class _Uploads:
    """The uploads of a range of keys, from behind `after` up to `until`; to the end if that is None."""

    prefix: str
    after: str
    until: str | None
    rows: Sequence[ask.UploadInfo]

    def holds(self, prefix: str, after: str, until: str | None) -> bool:
        if self.prefix != prefix or after < self.after:
            return False
        return self.until is None or (until is not None and until <= self.until)


class EndpointTarget:
    """`rules` returns those in force now."""

    def __init__(self, context: Context, store: S3Store, bucket: str, rules: Callable[[], Sequence[Rule]]):
        self._context = context
        self._store = store
        self._bucket = bucket
        self._rules = rules
        self._details = Details(store, bucket)
        self._lock = threading.Lock()
        self._listing: _Listing | None = None
        self._uploads_ahead: _Uploads | None = None
        self._uploads_shown: dict[tuple[str, str], Live] = {}
        """Those of the last pages: an upload does not change."""
        self._rules_at: tuple[int, Sequence[Rule]] | None = None
        self._is_ordered: bool | None = None
        self._versioning = ""
        self._has_locks = False
        self._known_ns: int | None = None

    def buckets(self) -> Sequence[str]:
        return [self._bucket]

    def rules(self, bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        with self._failures():
            now_ns, known = self._context.env.monotonic_ns(), self._rules_at
            if known is not None and age_s and now_ns - known[0] < age_s * SECOND_NS:
                return known[1]
            found = self._rules()
            self._rules_at = now_ns, found  # as old as its request
            return found

    def evaluates_if_match(self) -> bool:
        """Return True if the store refuses a deletion with another ETag; tried on an object of ours."""
        with self._failures(), self._tried("one") as (key,):
            try:
                return self._store.delete(key, when=Matches(NO_ETAG)).outcome is Outcome.CHANGED
            except Unsupported:
                return False

    @contextlib.contextmanager
    def _tried(self, *names: str) -> Iterator[list[str]]:
        """Objects of ours, until the end of the block."""
        folder = f"{OURS}tried/{self._context.env.new_id()}/"
        made: dict[str, bool] = {}
        try:
            for name in names:
                made[folder + name] = True
                made[folder + name] = bool(
                    self._store.put(folder + name, b"may be deleted", when=ABSENT).version
                )
            yield list(made)
        finally:
            for key, is_versioned in made.items():
                self._store.delete(key, when=ANYTHING)
                for row in self._versions(key) if is_versioned else ():
                    self._store.delete(key, when=ANYTHING, version=row.version)

    # Versions at a key.

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        with self._failures():
            return Standing() if key.startswith(OURS) else self._look(key, needs)

    def _look(self, key: str, needs: Needs, *, locks_of: str | None = None) -> Standing:
        """`locks_of`: the version for which locks are read."""
        self._ensure_known()
        rows: Rows = []
        if needs.versions and self._versioning:
            rows = self._versions(key)
        elif needs.versions:
            found = self._details.describe(key)
            if found is not None:
                rows = [ask.VersionInfo(key, "", True, False, found.etag, found.size, found.modified_ns)]
        uploads = tuple(_of_upload(one) for one in self._uploads_of(key)) if needs.uploads else ()
        live = self._live(rows, has_tags=needs.tags)
        if locks_of is not None and self._has_locks:
            live = tuple(
                replace(one, is_locked=self._is_locked(one.version))
                if one.version.version_id == locks_of
                else one
                for one in live
            )
        return Standing(live, uploads, bool(self._versioning), self._store.now_ns())

    def _live(self, rows: Rows, *, has_tags: bool) -> tuple[Live, ...]:
        """Versions of one key, with their tags if these matter."""
        etags = {row.version: row.etag for row in rows}
        ordered = in_order(
            [Version(row.key, row.version, _end(row.modified_ns), row.size, (), row.marker) for row in rows]
        )
        return tuple(
            Live(replace(one, tags=self._tags(one)) if has_tags else one, etags[one.version_id])
            for one in ordered
        )

    def _tags(self, one: Version) -> tuple[tuple[str, str], ...]:
        tags = {} if one.is_delete_marker else self._details.tags(one.key, one.version_id) or {}
        return tuple(sorted(tags.items()))

    def _is_locked(self, one: Version) -> bool:
        found = None if one.is_delete_marker else self._details.describe(one.key, one.version_id)
        return found is not None and (found.is_held or found.locked_until_ns > self._context.env.now_ns())

    def _versions(self, key: str) -> Rows:
        """The newest first. Some stores list the delete markers of a page behind all its versions."""
        found: Rows = []
        for page in self._context.pages(lambda token: ask.ListVersions(key, token=token)):
            found += [row for row in page.versions if row.key == key]
            if any(row.key > key for row in page.versions):
                break
        is_in_order = not found or found[0].latest
        return found if is_in_order else sorted(found, key=lambda row: (not row.latest, -row.modified_ns))

    def _uploads_of(self, key: str) -> Iterator[ask.UploadInfo]:
        pages = self._context.pages(lambda token: ask.ListUploads(key, token=token))
        return (one for page in pages for one in page.uploads if one.key == key)

    def _ensure_known(self) -> None:
        now_ns = self._context.env.monotonic_ns()
        if self._known_ns is None or now_ns - self._known_ns >= KNOWN_S * SECOND_NS:
            self._versioning = self._store.versioning()
            self._has_locks = bool(self._versioning) and self._details.has_locks()
            self._known_ns = now_ns

    # Walking.

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        with self._failures():
            if not after:
                self._known_ns = None  # versioning and locks, as they are at the beginning of a walk
            self._ensure_known()
            if self._lists_in_order():
                with contextlib.suppress(_OutOfOrder):
                    return self._page_behind(after, prefix, has_uploads=uploads)
                self._is_ordered = False
            with self._lock:
                return self._page_of_listing(after, prefix, has_uploads=uploads)

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        with self._failures():
            self._ensure_known()
            if not self._lists_in_order():
                return None
            return next(self._keys(after, prefix, limit=1), None)

    def _lists_in_order(self) -> bool:
        if self._is_ordered is None:
            with self._tried(*IN_ORDER) as keys:
                folder = keys[0].removesuffix(IN_ORDER[0])
                found = [*self._keys("", folder)], [*self._keys(keys[1], folder)]
            self._is_ordered = found == (keys, keys[2:])
        return self._is_ordered

    def _page_behind(self, after: str, prefix: str, *, has_uploads: bool) -> list[Listed]:
        """A page of a store that lists in order: what one request lists, with the uploads among that."""
        rows: Rows = []
        shown: dict[str, Standing] = {}
        until: str | None = None
        for part, is_last in self._parts(after, prefix):
            rows += part
            groups = dict(_by_key(rows, after))
            until = None if is_last else next(reversed(groups), after)
            if not is_last and self._versioning:
                groups.popitem()  # more of its versions may follow
                until = next(reversed(groups), after)
            shown = {key: self._shown(found) for key, found in groups.items() if not key.startswith(OURS)}
            if shown:
                break
        started = self._uploads_between(prefix, after, until) if has_uploads else []
        for upload in started:
            before = shown.get(upload.key, Standing((), (), bool(self._versioning), self._store.now_ns()))
            shown[upload.key] = replace(before, uploads=(*before.uploads, _of_upload(upload)))
        if len(self._uploads_shown) > UPLOADS_MAX:
            self._uploads_shown.clear()
        self._uploads_shown.update({(one.key, one.upload): _of_upload(one) for one in started})
        return [Listed(key, shown[key]) for key in sorted(shown)]

    def _shown(self, rows: Rows) -> Standing:
        live = self._live(rows, has_tags=False)
        return Standing(live, (), bool(self._versioning), self._store.now_ns())

    def _parts(self, after: str, prefix: str, limit: int | None = None) -> Iterator[tuple[Rows, bool]]:
        """Yield what each request lists behind a key, with True for the last one."""
        limit = limit or PAGE
        if self._versioning:
            first = behind(after) if after else ""
            for page in self._context.pages(
                lambda token: ask.ListVersions(prefix, limit=limit, token=token or first)
            ):
                yield list(page.versions), not page.next
            return
        for found in self._context.pages(
            lambda token: ask.List(prefix, after="" if token else after, limit=limit, token=token)
        ):
            rows = [
                ask.VersionInfo(one.key, "", True, False, one.etag, one.size, one.modified_ns)
                for one in found.objects
            ]
            yield rows, not found.next

    def _keys(self, after: str, prefix: str, limit: int | None = None) -> Iterator[str]:
        return (row.key for rows, _ in self._parts(after, prefix, limit) for row in rows)

    def _uploads_between(self, prefix: str, after: str, until: str | None) -> list[ask.UploadInfo]:
        """The uploads at keys behind `after` and up to `until`; those listed beyond serve the next page."""
        known = self._uploads_ahead
        if known is None or not known.holds(prefix, after, until):
            known = self._uploads_ahead = self._list_uploads(prefix, after, until)
        return [one for one in known.rows if one.key > after and (until is None or one.key <= until)]

    def _list_uploads(self, prefix: str, after: str, until: str | None) -> _Uploads:
        rows: list[ask.UploadInfo] = []
        first = behind(after) if after else ""
        for page in self._context.pages(lambda token: ask.ListUploads(prefix, token=token or first)):
            rows += [one for one in page.uploads if one.key > after]
            keys = [one.key for one in rows]
            if page.next and keys != sorted(keys):
                raise _OutOfOrder
            if page.next and until is not None and keys and keys[-1] > until:
                # Of the last key there may be more.
                return _Uploads(
                    prefix, after, max((key for key in keys if key < keys[-1]), default=until), rows
                )
        return _Uploads(prefix, after, None, rows)

    def _page_of_listing(self, after: str, prefix: str, *, has_uploads: bool) -> list[Listed]:
        """A page in whatever order the store lists.

        Behind `after` a listing would leave out what sorts before it and was not listed yet. So a walk that
        goes on lists from the beginning, and passes only what came in order.
        """
        listing = self._listing
        if listing is None or not after or (listing.prefix, listing.after) != (prefix, after):
            groups = self._groups(after, prefix, has_uploads=has_uploads)
            listing = self._listing = _Listing(prefix, groups, after)
        page: dict[str, Listed] = {}
        for key, rows in listing.groups:
            # A key may come again, with its uploads or with other versions.
            page[key] = Listed(key, None if rows is None or key in page else self._shown(rows))
            if len(page) >= PAGE and max(page) > after:
                break
        if page and max(page) <= after:
            page[f"{after}!"] = Listed(f"{after}!")  # the last key has to lie behind `after`
        found = sorted(page.values(), key=lambda one: one.key)
        listing.after = found[-1].key if found else after
        return found

    def _groups(self, after: str, prefix: str, *, has_uploads: bool) -> Iterator[tuple[str, Rows | None]]:
        """Yield the keys that are not done, with their versions where those were listed."""
        top = ""
        uploads = self._context.pages(lambda token: ask.ListUploads(prefix, token=token))
        rows = (row for part, _ in self._parts("", prefix) for row in part)
        listed: Iterable[tuple[str, Rows | None]] = (
            (key, list(group)) for key, group in itertools.groupby(rows, lambda row: row.key)
        )
        if has_uploads:
            listed = itertools.chain(listed, ((one.key, None) for page in uploads for one in page.uploads))
        for key, found in listed:
            is_in_order = key > top
            top = max(top, key)
            if not (is_in_order and key <= after) and not key.startswith(OURS):
                yield key, found if is_in_order else None  # its other rows may have come before

    # Deleting.

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        with self._failures():
            if key.startswith(OURS):
                return Result.NOT_FOUND
            standing = self._before(key, version_id, what, needs)
            refused = guard(standing)
            if refused is not None:
                return refused
            outcome = self._send(key, version_id, what, standing)
        if outcome in (Outcome.MISSING, Outcome.GONE):
            return Result.NOT_FOUND
        if outcome is Outcome.CHANGED:
            return Result.STALE_IDENTITY
        if outcome is not Outcome.DONE:
            raise Unavailable(f"nobody knows whether {bucket}/{key} was deleted")
        return Result.DONE

    def _before(self, key: str, version_id: str, what: What, needs: Needs) -> Standing:
        """The versions at the key, for the guard of a deletion."""
        upload = self._uploads_shown.get((key, version_id)) if what is What.ABORT else None
        if upload is not None:
            # It may have ended since, which the store tells.
            return Standing((), (upload,), now_ns=self._store.now_ns())
        is_marker_written = what is What.EXPIRE and self._versioning
        return self._look(key, needs, locks_of=None if is_marker_written else version_id)

    def delete_versions(
        self, bucket: str, wanted: Sequence[Wanted], after: str, prefix: str = ""
    ) -> Sequence[Result | None]:
        """Only where a version has a name of its own, and no lock. Its neighbours are listed once more, which
        the guard depends on: a version may have become the current one."""
        with self._failures():
            self._ensure_known()
            if not self._versioning or self._has_locks or not self._lists_in_order():
                return [None] * len(wanted)
            try:
                page = self._page_behind(after, prefix, has_uploads=False)
            except _OutOfOrder:
                return [None] * len(wanted)
        shown = {one.key: one.shown for one in page}
        chosen = [one for one in wanted if self._is_removable(one, shown.get(one.key))]
        gone: set[tuple[str, str]] = set()
        for at in range(0, len(chosen), DELETIONS_MAX):
            versions = [(one.key, one.version_id) for one in chosen[at : at + DELETIONS_MAX]]
            are_gone = self._details.delete_versions(versions)
            gone |= {version for version, is_gone in zip(versions, are_gone, strict=True) if is_gone}
        return [Result.DONE if (one.key, one.version_id) in gone else None for one in wanted]

    def _is_removable(self, one: Wanted, shown: Standing | None) -> bool:
        has_own_name = one.version_id not in ("", "null")
        return has_own_name and shown is not None and one.guard(shown) is None

    def _send(self, key: str, version_id: str, what: What, standing: Standing) -> Outcome:
        if what is What.ABORT:
            return self._store.abort_upload(key, version_id).outcome
        if what is not What.EXPIRE:
            return self._store.delete(key, when=ANYTHING, version=version_id).outcome
        etag = standing.versions[0].content
        try:
            return self._store.delete(key, when=Matches(etag) if etag else ANYTHING).outcome
        except Unsupported:
            return self._store.delete(key, when=ANYTHING).outcome

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except BrokenPromise as error:
            raise Unworkable(str(error)) from error
        except (StoreError, NoAnswer, self._context.retry.unavailable) as error:
            raise Unavailable(str(error)) from error


def _end(ns: int) -> int:
    """A store may show a time in whole seconds in one answer, and in milliseconds in another."""
    return ns - ns % SECOND_NS + SECOND_NS - 1


def _by_key(rows: Rows, after: str) -> Iterator[tuple[str, Rows]]:
    """The versions of each key; raises `_OutOfOrder` unless the keys rise from behind `after`."""
    for key, group in itertools.groupby(rows, lambda row: row.key):
        if key <= after:
            raise _OutOfOrder
        after = key
        yield key, list(group)


def _of_upload(one: ask.UploadInfo) -> Live:
    return Live(Version(one.key, one.upload, _end(one.started_ns), is_upload=True), one.upload)
