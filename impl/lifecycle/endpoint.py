"""A bucket of any S3 endpoint as a target. It has no log that can be read, so walks do all the work.

No store offers a deletion that is one step with the whole guard, so the object may change between the guard's
look and the deletion. The outcomes:

    overwritten               If-Match on the deletion refuses it, where the store evaluates that
                              (`evaluates_if_match`). Where not, the new object is deleted, or hidden.
    locked                    the store refuses: governance is never bypassed
    tagged otherwise, or      the object is deleted by what held an instant before
    the rules changed
    a version, an upload      their names are never used again, so nothing else is deleted

A time counts as the end of its second, as stores show no more: nothing is deleted early. A walk lists the
bucket once; what it lists is the first look at an object, unless rules need its tags or its locks.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fencepost.impl.context import Context
from fencepost.impl.lifecycle.policy import SECOND_NS, Kind, Rule, Version, What, in_order
from fencepost.impl.lifecycle.target import Guard, Live, Result, Standing, Unavailable, Unworkable
from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise, StoreError, Unsupported
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome
from fencepost.impl.store.s3.details import Details, NoAnswer
from fencepost.impl.store.s3.store import S3Store

PAGE = 500
OURS = "lifecycle/v1/"
"""Below this prefix lies the state of lifecycles; no rule matches it."""
NO_ETAG = "0" * 32


@dataclass(slots=True)
class _Walk:
    """A listing under way."""

    groups: Iterator[tuple[str, "list[ask.VersionInfo] | None"]]
    after: str
    """The last key of the page that was handed out."""
    standing: dict[str, Standing] = field(default_factory=dict)
    """The versions that this page listed, for one look at each key."""


class EndpointTarget:
    """`rules` returns those in force now."""

    def __init__(self, context: Context, store: S3Store, bucket: str, rules: Callable[[], Sequence[Rule]]):
        self._context = context
        self._store = store
        self._bucket = bucket
        self._rules = rules
        self._details = Details(store, bucket)
        self._walk: _Walk | None = None
        self._versioning = ""
        self._has_locks = False
        self._is_known = False

    def buckets(self) -> Sequence[str]:
        return [self._bucket]

    def rules(self, bucket: str) -> Sequence[Rule]:
        with self._failures():
            return self._rules()

    def evaluates_if_match(self) -> bool:
        """Return True if the store refuses a deletion with another ETag; tried on an object of ours."""
        key = f"{OURS}tried/{self._context.env.new_id()}"
        with self._failures():
            made = self._store.put(key, b"may be deleted", when=ABSENT)
            try:
                return self._store.delete(key, when=Matches(NO_ETAG)).outcome is Outcome.CHANGED
            except Unsupported:
                return False
            finally:
                self._store.delete(key, when=ANYTHING)
                if made.version:
                    for row in self._versions(key):
                        self._store.delete(key, when=ANYTHING, version=row.version)

    # Versions at a key.

    def standing(self, bucket: str, key: str) -> Standing:
        listed = self._walk.standing.pop(key, None) if self._walk is not None else None
        if listed is not None:
            return listed
        with self._failures():
            return Standing() if key.startswith(OURS) else self._look(key)

    def _look(self, key: str) -> Standing:
        self._ensure_known()
        rules = self._rules()
        if self._versioning:
            rows = self._versions(key)
        else:
            found = self._details.describe(key)
            about = None if found is None else (found.etag, found.size, found.modified_ns)
            rows = [] if about is None else [ask.VersionInfo(key, "", True, False, *about)]
        uploads = self._uploads(key) if any(Kind.ABORT_MPU in rule.kinds() for rule in rules) else []
        return Standing(self._live(rows, rules), tuple(uploads), bool(self._versioning))

    def _live(self, rows: Sequence[ask.VersionInfo], rules: Sequence[Rule]) -> tuple[Live, ...]:
        """Versions of one key, with their tags and locks where these matter."""
        has_tags = any(rule.tags for rule in rules)
        etags = {row.version: row.etag for row in rows}
        ordered = in_order(
            [Version(row.key, row.version, _end(row.modified_ns), row.size, (), row.marker) for row in rows]
        )
        return tuple(
            Live(
                replace(one, tags=self._tags(one)) if has_tags else one,
                etags[one.version_id],
                self._has_locks and self._is_locked(one),
            )
            for one in ordered
        )

    def _tags(self, one: Version) -> tuple[tuple[str, str], ...]:
        tags = {} if one.is_delete_marker else self._details.tags(one.key, one.version_id) or {}
        return tuple(sorted(tags.items()))

    def _is_locked(self, one: Version) -> bool:
        found = None if one.is_delete_marker else self._details.describe(one.key, one.version_id)
        return found is not None and (found.is_held or found.locked_until_ns > self._context.env.now_ns())

    def _versions(self, key: str) -> list[ask.VersionInfo]:
        """The newest first. Some stores list the delete markers of a page behind all its versions."""
        found: list[ask.VersionInfo] = []
        for page in self._context.pages(lambda token: ask.ListVersions(key, token=token)):
            found += [row for row in page.versions if row.key == key]
            if any(row.key > key for row in page.versions):
                break
        is_in_order = not found or found[0].latest
        return found if is_in_order else sorted(found, key=lambda row: (not row.latest, -row.modified_ns))

    def _uploads(self, prefix: str, *, exactly: bool = True) -> list[Live]:
        pages = self._context.pages(lambda token: ask.ListUploads(prefix, token=token))
        return [
            Live(Version(one.key, one.upload, _end(one.started_ns), is_upload=True), one.upload)
            for page in pages
            for one in page.uploads
            if not exactly or one.key == prefix
        ]

    def _ensure_known(self) -> None:
        if not self._is_known:
            self._versioning = self._store.versioning()
            self._has_locks = bool(self._versioning) and self._details.has_locks()
            self._is_known = True

    # Walking.

    def page(self, bucket: str, after: str) -> Sequence[str]:
        """A store may list in an order that is not that of the bytes of the keys, and leave out behind
        `after` what sorts before it and was not listed yet. So a walk that goes on lists from the beginning,
        and passes only what came in order."""
        with self._failures():
            walk = self._walk
            rules = self._rules()
            if walk is None or not after or walk.after != after:
                self._is_known = False  # versioning and locks, as they are at the beginning of a walk
                self._ensure_known()
                walk = self._walk = _Walk(self._groups(after, rules), after)
            suffices = not self._has_locks and not any(rule.tags for rule in rules)
            page: list[str] = []
            walk.standing.clear()
            for key, rows in walk.groups:
                page.append(key)
                walk.standing.pop(key, None)  # its uploads are not in it
                if rows is not None and suffices:
                    walk.standing[key] = Standing(self._live(rows, rules), (), bool(self._versioning))
                if len(page) >= PAGE and max(page) > after:
                    break
            if page and max(page) <= after:
                page.append(f"{after}!")  # the last key has to lie behind `after`; this one has no versions
            page = sorted({*page})
            walk.after = page[-1] if page else after
            return page

    def _groups(
        self, after: str, rules: Sequence[Rule]
    ) -> Iterator[tuple[str, list[ask.VersionInfo] | None]]:
        """Yield the keys that are not done, with their versions where those were listed."""
        top = ""
        has_uploads = any(Kind.ABORT_MPU in rule.kinds() for rule in rules)
        for key, rows in itertools.chain(self._listed(), self._listed_uploads() if has_uploads else ()):
            is_in_order = key > top
            top = max(top, key)
            if not (is_in_order and key <= after) and not key.startswith(OURS):
                yield key, rows if is_in_order else None  # its other rows may have come before

    def _listed(self) -> Iterator[tuple[str, list[ask.VersionInfo]]]:
        rows: Iterable[ask.VersionInfo]
        if self._versioning:
            rows = (
                row
                for page in self._context.pages(lambda token: ask.ListVersions(token=token))
                for row in page.versions
            )
        else:
            rows = (
                ask.VersionInfo(one.key, "", True, False, one.etag, one.size, one.modified_ns)
                for page in self._context.pages(lambda token: ask.List(token=token))
                for one in page.objects
            )
        for key, group in itertools.groupby(rows, lambda row: row.key):
            yield key, list(group)

    def _listed_uploads(self) -> Iterator[tuple[str, None]]:
        for one in self._uploads("", exactly=False):
            yield one.version.key, None

    # Deleting.

    def delete(self, bucket: str, key: str, version_id: str, what: What, guard: Guard) -> Result:
        with self._failures():
            if key.startswith(OURS):
                return Result.NOT_FOUND
            standing = self._look(key)
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
