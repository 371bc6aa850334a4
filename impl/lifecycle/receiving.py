"""Receive notifications: poll a queue, and serve an address to which stores send them.

Each is in the journal before it is acknowledged. A message that is not understood is not acknowledged: a
queue delivers it again, or puts it aside by its own rules, and a sender gets an error.
"""

import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from fencepost.impl.http.limits import Limits, read_body
from fencepost.impl.http.periodic import Periodic
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.http.service import Service, json_response
from fencepost.impl.lifecycle.documents import DAMAGED
from fencepost.impl.lifecycle.journal import TAGGED, Closed, Journals, NotANotification, Row, rows_of
from fencepost.impl.lifecycle.target import Unavailable, Unworkable
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.s3.queue import Message, NoQueue, Queue

BODY_BYTES = 1 << 20
FAILURES = (Unavailable, Unworkable, StoreError, NoQueue, *DAMAGED)
TagsOf = Callable[[str], Mapping[str, str] | None]
"""Returns the tags of an object as they are, None where it is gone."""


class Messages(Protocol):
    def receive(self, wait_s: int = ...) -> list[Message]: ...
    def remove(self, messages: list[Message]) -> None: ...


class Receiver:
    """Appends the notifications of one source."""

    def __init__(self, journals: Journals, source: str, bucket: str, tags_of: TagsOf) -> None:
        self.source = source
        self._journals = journals
        self._bucket = bucket
        self._tags_of = tags_of

    def append(self, bodies: list[str | bytes]) -> None:
        """Raises `NotANotification`, `Closed`, and what the store raises: nothing is to be acknowledged."""
        rows = [row for body in bodies for row in rows_of(self._bucket, body)]
        if rows:
            self._journals.append(self.source, [self._with_tags(row) for row in rows])

    def _with_tags(self, row: Row) -> Row:
        """A notification of a change of tags does not have them. They may have changed again since: of that
        change comes another one."""
        if row[1] != TAGGED:
            return row
        return [*row[:4], sorted((self._tags_of(row[0]) or {}).items())]


class Polling:
    """Receive from a queue, in a thread, until `close`."""

    def __init__(self, receiver: Receiver, queue: Queue) -> None:
        self._receiver = receiver
        self._queue = queue
        self._log = logging.getLogger("fencepost.lifecycle")
        self._failed = ""
        # A queue makes its receivers wait itself; one that fails is tried again after a second.
        self._thread = Periodic(f"receive {receiver.source}", self._run, 1.0, first_s=0.0)

    def close(self) -> None:
        self._thread.close()
        self._queue.close()

    def _run(self, stopping: Callable[[], bool]) -> None:
        try:
            while receive_once(self._receiver, self._queue, self._log) and not stopping():
                pass
        except (*FAILURES, Closed) as error:
            if str(error) != self._failed:
                self._log.error("%s: %s; it is tried again", self._receiver.source, error)
            self._failed = str(error)
        else:
            self._failed = ""


def receive_once(receiver: Receiver, queue: Messages, log: logging.Logger, wait_s: int = 10) -> int:
    """Append what the queue has now, then acknowledge it; returns how many messages that were."""
    messages = queue.receive(wait_s)
    understood = []
    bodies: list[str | bytes] = []
    for one in messages:
        try:
            rows_of("", one.body)
        except NotANotification as error:
            log.warning("%s: a message is no notification and stays in the queue: %s", receiver.source, error)
        else:
            understood.append(one)
            bodies.append(one.body)
    receiver.append(bodies)
    queue.remove(understood)
    return len(understood)


class NotificationServer(Service):
    """`POST /SOURCE` with the token; answered once the notification is in the journal."""

    def __init__(
        self,
        receivers: Mapping[str, Receiver],
        token: str,
        verify: Callable[[], None],
        limits: Limits | None = None,
    ) -> None:
        super().__init__(
            "notifications",
            {"/{source}": {"POST": self._receive}},
            verify=verify,
            openapi=dict,
            limits=limits,
            unavailable=FAILURES,
        )
        self._receivers = receivers
        self._token = token.encode()

    async def _receive(self, request: Request) -> Response:
        given = request.headers.get("authorization", "").encode("latin-1")
        # MinIO sends the text that it is given, SeaweedFS one behind the name of the scheme.
        given = given.removeprefix(b"Bearer ").strip()
        if not hmac.compare_digest(given, self._token):
            raise Refusal("unauthenticated", "send the token: Authorization: Bearer <token>")
        receiver = self._receivers.get(request.path_params["source"])
        if receiver is None:
            raise Refusal("not_found", "this is no source of events here")
        headers = [(name.encode(), value.encode()) for name, value in request.headers.items()]
        with self.gate.enter(request.client.host if request.client else ""):
            body = await read_body(headers, request.receive, self.limits, limit=BODY_BYTES)
            try:
                await self.in_thread(receiver.append, [body])
            except (NotANotification, Closed) as error:
                raise Refusal("bad_request", str(error)) from None
        return json_response({"status": "ok"})
