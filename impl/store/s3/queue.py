"""A queue of SQS as the S3 driver sees it: messages that come at least once, until they are removed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import boto3.session
from botocore.config import Config

from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.s3.endings import LIBRARY_ERRORS

AT_ONCE = 10
"""The limit of SQS on messages in a request."""
WAIT_S = 10


class NoQueue(Exception):
    """The queue did not answer, or refused; the same call may succeed later."""


@dataclass(frozen=True, slots=True)
class Message:
    receipt: str
    body: str


class Queue:
    """For one thread of control."""

    def __init__(self, name: str, endpoint: str | None = None, region: str | None = None) -> None:
        self.name = name
        config = Config(connect_timeout=5, read_timeout=WAIT_S + 20, retries={"total_max_attempts": 1})
        try:
            session = boto3.session.Session()
            self._client: Any = session.client(
                "sqs", endpoint_url=endpoint, region_name=region, config=config
            )
        except (*LIBRARY_ERRORS, ValueError) as error:
            raise Unusable(
                f"no connection to the queue {name} can be set up: {type(error).__name__}"
            ) from None
        self._url = ""

    def receive(self, wait_s: int = WAIT_S) -> list[Message]:
        """Return up to ten messages, which come again in a while unless they are removed."""
        answer = self._send("receive_message", MaxNumberOfMessages=AT_ONCE, WaitTimeSeconds=wait_s)
        return [Message(one["ReceiptHandle"], one["Body"]) for one in answer.get("Messages", ())]

    def remove(self, messages: Sequence[Message]) -> None:
        entries = [{"Id": str(number), "ReceiptHandle": one.receipt} for number, one in enumerate(messages)]
        if entries:
            self._send("delete_message_batch", Entries=entries)

    def _send(self, operation: str, **parameters: Any) -> Any:
        try:
            if not self._url:
                self._url = self._client.get_queue_url(QueueName=self.name)["QueueUrl"]
            return getattr(self._client, operation)(QueueUrl=self._url, **parameters)
        except LIBRARY_ERRORS as error:
            # Not chained: an exception of the SDK may show headers.
            failed = type(error).__name__
        raise NoQueue(f"the queue {self.name} does not answer ({failed})")

    def close(self) -> None:
        self._client.close()
