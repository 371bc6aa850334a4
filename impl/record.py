"""A small JSON object with many readers and one writer at a time, changed by compare-and-swap only.

record = Record(context, "cursors/search.json", "fencepost.search.v1")
fields = record.read()
record.write({**fields, "position": key})       # False: another writer was first; read again
"""

import json
from collections.abc import Mapping
from typing import Any

from fencepost.impl.context import Context
from fencepost.impl.store import ABSENT, Matches
from fencepost.impl.store import requests as ask
from fencepost.impl.store.requests import Outcome


class RecordError(Exception):
    """The object at the record's key is another; its writer must remove it."""


class Record:
    def __init__(
        self, context: Context, key: str, schema: str, damaged: type[Exception] = RecordError
    ) -> None:
        self.key = key
        self.modified_ns = 0
        """When the record was written that was read last, by the store's clock."""
        self._context = context
        self._schema = schema
        self._damaged = damaged
        self._etag = ""
        self._revision = 0

    def read(self) -> dict[str, Any]:
        """The fields; empty when there is no record."""
        reply = self._context.read(ask.Get(self.key))
        if reply.info is None:
            self._etag, self._revision, self.modified_ns = "", 0, 0
            return {}
        try:
            fields = json.loads(reply.body)
            schema, revision = fields.get("schema"), fields.get("revision")
        except (ValueError, AttributeError, RecursionError) as error:
            raise self._damaged(f"{self.key} is no record ({error}); delete it") from None
        if schema != self._schema or not isinstance(revision, int):
            raise self._damaged(f"{self.key} has schema {schema!a}, expected {self._schema!r}; delete it")
        self._etag, self._revision = reply.info.etag, revision
        self.modified_ns = reply.info.modified_ns
        found: dict[str, Any] = fields
        return found

    def write(self, fields: Mapping[str, Any]) -> bool:
        """Replace the record that was read last; False when another writer was first.

        After a write with an unknown outcome this reads the record back, and writes again while the old one
        is still there. A mark in the record distinguishes it from another writer's with the same fields.
        """
        context = self._context
        body = {
            **fields,
            "schema": self._schema,
            "revision": self._revision + 1,
            "mark": context.env.new_id(),
        }
        before = self._etag
        text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
        put = ask.Put(self.key, text, Matches(before) if before else ABSENT, "application/json")
        for attempt in range(context.retry.attempts):
            reply = context.store.send(put)
            if reply.outcome is Outcome.DONE:
                self._etag, self._revision = reply.etag, self._revision + 1
                return True
            found = context.read(ask.Get(self.key))
            if found.info is not None and found.body == put.body:
                self._etag, self._revision = found.info.etag, self._revision + 1
                return True
            if (found.info.etag if found.info is not None else "") != before:
                return False
            context.back_off(attempt)
        raise context.retry.unavailable(
            f"the outcome of writing {self.key} is unknown: {reply.outcome}; try again"
        )
