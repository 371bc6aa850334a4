"""A small JSON object that many read and one at a time changes: by compare-and-swap, never blindly.

record = Record(context, "cursors/v1/turn.json", "fencepost.ingest_turn.v1")
said = record.read()
if record.write({"holder": "collector-1"}):
    ...                                         # nobody had changed it in between
"""

from collections.abc import Mapping
from typing import Any

from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.documents import JSON, parse, write
from fencepost.impl.ingest.errors import Damaged, StoreUnavailable
from fencepost.impl.store import ABSENT, Matches
from fencepost.impl.store.requests import Get, Outcome, Put


class Record:
    """See the top of this module."""

    def __init__(self, context: IngestContext, key: str, schema: str) -> None:
        self.key = key
        self.modified_ns = 0
        """When what was read was written, by the store's clock."""
        self._context = context
        self._schema = schema
        self._etag = ""
        self._revision = 0

    def read(self) -> dict[str, Any]:
        """What it says; empty when it is not there."""
        reply = self._context.retry.read(self._context.store, self._context.env, Get(self.key))
        if reply.info is None:
            self._etag, self._revision, self.modified_ns = "", 0, 0
            return {}
        said = parse(reply.body, self.key)
        if said.get("schema") != self._schema or not isinstance(said.get("revision"), int):
            raise Damaged(
                f"{self.key} has schema {said.get('schema')!a}, expected {self._schema!r}; delete it"
            )
        self._etag, self._revision = reply.info.etag, said["revision"]
        self.modified_ns = reply.info.modified_ns
        return said

    def write(self, said: Mapping[str, Any]) -> bool:
        """Put this in the place of what was read; False when somebody else was first.

        A write without an answer is looked for, and sent again as long as what was read still stands: it
        carries a mark of its own, so that it is not taken for another's of the same words.
        """
        context = self._context
        said = {**said, "schema": self._schema, "revision": self._revision + 1, "mark": context.env.new_id()}
        put = Put(self.key, write(said), Matches(self._etag) if self._etag else ABSENT, JSON)
        stood = self._etag
        for attempt in range(context.retry.attempts):
            reply = context.store.send(put)
            if reply.outcome is Outcome.DONE:
                self._etag, self._revision = reply.etag, self._revision + 1
                return True
            found = context.retry.read(context.store, context.env, Get(self.key))
            if found.info is not None and found.body == put.body:
                self._etag, self._revision = found.info.etag, self._revision + 1
                return True
            if (found.info.etag if found.info is not None else "") != stood:
                return False
            context.retry.back_off(context.env, attempt)
        raise StoreUnavailable(
            f"the store did not say whether it took {self.key}: {reply.outcome}; try again"
        )
