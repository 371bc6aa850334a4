"""Receive the notifications that a lifecycle reads: each is in the journal before it is acknowledged."""

from collections.abc import Callable, Mapping, Sequence

from fencepost.impl.lifecycle.documents import DAMAGED
from fencepost.impl.lifecycle.journal import Journals
from fencepost.impl.lifecycle.target import Unavailable, Unworkable
from fencepost.impl.notifications.messages import TAGGED, Row, rows_of
from fencepost.impl.store.errors import StoreError

TagsOf = Callable[[str], Mapping[str, str] | None]
"""Returns the tags of an object as they are, None where it is gone."""


class Receiver:
    """Appends the notifications of one source."""

    failures: tuple[type[Exception], ...] = (Unavailable, Unworkable, StoreError, *DAMAGED)

    def __init__(self, journals: Journals, source: str, bucket: str, tags_of: TagsOf) -> None:
        self.source = source
        self._journals = journals
        self._bucket = bucket
        self._tags_of = tags_of

    def take(self, bodies: Sequence[str | bytes]) -> None:
        """Append them. Raises `NotANotification`, `Closed`, and what the store raises."""
        rows = [row for body in bodies for row in rows_of(self._bucket, body)]
        if rows:
            self._journals.append(self.source, [self._with_tags(row) for row in rows])

    def _with_tags(self, row: Row) -> Row:
        """A notification of a change of tags does not have them. They may have changed again since: of that
        change comes another one."""
        if row[1] != TAGGED:
            return row
        return [*row[:4], sorted((self._tags_of(row[0]) or {}).items())]
