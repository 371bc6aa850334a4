"""The small JSON objects of a lifecycle, each moved by compare-and-swap."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from fencepost.impl.context import Context
from fencepost.impl.cursor import CursorError
from fencepost.impl.record import RecordError
from fencepost.impl.store.errors import BrokenPromise
from fencepost.impl.store.requests import ABSENT, ANYTHING, Delete, Get, List, Matches, Outcome, Put

FOLDER = "lifecycle/v1/"
CURSORS = f"{FOLDER}cursors/"
SWAPS_MAX = 10
"""Our own limit on swaps that another worker wins."""

Fields = dict[str, Any]
DAMAGED = (RecordError, CursorError, BrokenPromise)
"""Errors of one document that somebody has to repair; the others can be read."""


def named(folder: str, *names: str) -> str:
    return f"{FOLDER}{folder}/{'/'.join(quote(name, safe='') for name in names)}.json"


def damaged(key: str, error: object) -> RecordError:
    """Return the error of a document that another program, or a bad disk, has changed."""
    return RecordError(
        f"{key} is no document of a lifecycle ({error!r}); find out what wrote it, then delete it"
    )


class Documents:
    def __init__(self, context: Context) -> None:
        self._context = context

    def keys(self, prefix: str) -> Iterator[str]:
        for page in self._context.pages(lambda token: List(prefix, token=token)):
            yield from (info.key for info in page.objects)

    def read(self, key: str) -> Fields | None:
        return self.read_with_etag(key)[0]

    def read_with_etag(self, key: str) -> tuple[Fields | None, str]:
        reply = self._context.read(Get(key))
        if reply.info is None:
            return None, ""
        try:
            fields = json.loads(reply.body)
        except (ValueError, RecursionError) as error:
            raise damaged(key, error) from None
        if not isinstance(fields, dict):
            raise damaged(key, "it holds no fields")
        return fields, reply.info.etag

    def create(self, key: str, fields: Fields) -> bool:
        """Returns whether this call made it; another one's stays as it is."""
        # The mark makes every body different, so that its writer knows its own.
        body = {**fields, "mark": self._context.env.new_id()}
        put = Put(key, json.dumps(body, sort_keys=True).encode(), ABSENT)
        made = self._context.create_all([put])[0]
        if made.body is None and not made.created:
            raise self._context.retry.unavailable(f"nobody knows whether {key} was written; try again")
        return made.created or made.body == put.body

    def change(self, key: str, change: Callable[[Fields | None], Fields | None]) -> Fields | None:
        """Replace the document at the key and return it; `change` returns None to leave it as it is."""
        sent: Fields | None = None
        for attempt in range(SWAPS_MAX):
            found, etag = self.read_with_etag(key)
            if found is not None and found == sent:
                return found  # it landed, and the reply was lost
            fields = change(found)
            if fields is None:
                return found
            # The revision makes every body different: an ETag is a fingerprint of the content, no version.
            fields = {**fields, "revision": (found or {}).get("revision", 0) + 1}
            body = json.dumps(fields, sort_keys=True).encode()
            reply = self._context.store.put(key, body, when=Matches(etag) if etag else ABSENT)
            if reply.outcome is Outcome.DONE:
                return fields
            sent = fields if reply.outcome is Outcome.UNKNOWN else None
            self._context.back_off(attempt)
        raise self._context.retry.unavailable(f"{key} keeps changing; try again")

    def remove(self, key: str) -> None:
        """Sent until it is answered; one that lands late removes what was written since."""
        self._context.read_all([Delete(key, ANYTHING)])

    def remove_as_read(self, key: str, etag: str) -> None:
        """Remove it unless it has changed since."""
        self._context.read_all([Delete(key, Matches(etag))])
