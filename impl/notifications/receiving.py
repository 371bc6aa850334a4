"""Receive notifications: poll a queue, and serve an address to which stores send them.

Each is acknowledged once its receiver has taken it, durably. A message that is not understood is not
acknowledged: a queue delivers it again, or puts it aside by its own rules, and a sender gets an error.
"""

import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import SplitResult, parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from fencepost.impl.http.limits import Limits, read_body
from fencepost.impl.http.periodic import Periodic
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.http.service import Service, json_response
from fencepost.impl.notifications.messages import Closed, NotANotification, rows_of
from fencepost.impl.store.s3.queue import Message, NoQueue, Queue

BODY_BYTES = 1 << 20


class Messages(Protocol):
    def receive(self, wait_s: int = ...) -> list[Message]: ...
    def remove(self, messages: list[Message]) -> None: ...


class Receiver(Protocol):
    """Takes the notifications of one source."""

    source: str
    failures: tuple[type[Exception], ...]
    """Raised by `take` where it may succeed later."""

    def take(self, bodies: Sequence[str | bytes]) -> None:
        """Return once all that these notifications ask for is durable.

        Raises `NotANotification`, `Closed` and `failures`: nothing is to be acknowledged.
        """


class Polling:
    """Receive from a queue, in a thread, until `close`."""

    def __init__(self, receiver: Receiver, queue: Queue, log: logging.Logger) -> None:
        self._receiver = receiver
        self._queue = queue
        self._log = log
        self._failed = ""
        self._failures: tuple[type[Exception], ...] = (*receiver.failures, NoQueue, Closed)
        # A queue makes its receivers wait itself; one that fails is tried again after a second.
        self._thread = Periodic(f"receive {receiver.source}", self._run, 1.0, first_s=0.0)

    def close(self) -> None:
        self._thread.close()
        self._queue.close()

    def _run(self, stopping: Callable[[], bool]) -> None:
        try:
            while receive_once(self._receiver, self._queue, self._log) and not stopping():
                pass
        except self._failures as error:
            if str(error) != self._failed:
                self._log.error("%s: %s; it is tried again", self._receiver.source, error)
            self._failed = str(error)
        else:
            self._failed = ""


def receive_once(receiver: Receiver, queue: Messages, log: logging.Logger, wait_s: int = 10) -> int:
    """Take what the queue has now, then acknowledge it; returns how many messages that were."""
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
    receiver.take(bodies)
    queue.remove(understood)
    return len(understood)


def queue_at(url: SplitResult) -> Queue:
    """The queue of `sqs://NAME?endpoint=URL&region=REGION`."""
    options = dict(parse_qsl(url.query))
    return Queue(url.netloc, options.get("endpoint"), options.get("region"))


class NotificationServer(Service):
    """`POST /SOURCE` with the token; answered once the notification is taken."""

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
            unavailable=tuple({failure for one in receivers.values() for failure in one.failures}),
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
                await self.in_thread(receiver.take, [body])
            except (NotANotification, Closed) as error:
                raise Refusal("bad_request", str(error)) from None
        return json_response({"status": "ok"})
