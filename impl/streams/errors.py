"""The exceptions of streams.

StreamError
├── Refused            the client: this request cannot be served as it is; `kind` is the reason
├── Fenced             no one: another node owns the stream now; send the request again
├── RetentionError     the operator: a reap did not finish, and will be tried again; `kind` is the place
├── Damaged            other writers of the prefix: an object has unexpected content
└── StoreUnavailable   no one: the store did not answer; try again later
"""

import enum


class StreamError(Exception):
    """The root."""


class Refusal(enum.StrEnum):
    MISSING = "missing"
    GONE = "gone"
    """Deleted while forks refer to it, or an offset of another incarnation."""
    EXISTS = "exists"
    """A stream of this name exists with another configuration."""
    CLOSED = "closed"
    CONTENT_TYPE = "content-type"
    SEQUENCE = "sequence"
    STALE_EPOCH = "stale-epoch"
    GAP = "gap"
    INVALID = "invalid"


class Refused(StreamError):
    def __init__(self, kind: Refusal, sentence: str, **details: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.details = details
        """Further values of a response: the next offset, the producer's epoch, the expected sequence."""


class Fenced(StreamError):
    """Another node has taken the stream over."""


class Trouble(enum.StrEnum):
    TOMBSTONE = "tombstone_publish_failed"
    LIST = "list_failed"
    DELETE = "delete_failed"
    PREFIX = "prefix_not_stable"
    STOPPED = "stopped"
    YOUNG = "tombstone_too_young"
    """A create may still be in flight: the manifest is deleted later."""
    BUSY = "busy"
    """The same node reaps or creates the stream just now."""


class RetentionError(StreamError):
    def __init__(self, kind: Trouble, sentence: str, *, wait_ns: int = 0) -> None:
        super().__init__(f"{kind.value}: {sentence}")
        self.kind = kind
        self.wait_ns = wait_ns
        """Nanoseconds before which another try cannot succeed."""


class Damaged(StreamError):
    """An object does not have the content that its key requires."""


class StoreUnavailable(StreamError):
    """The store did not answer in any attempt; nothing is known to have failed."""


def other_type(held: str, given: str) -> Refused:
    return Refused(Refusal.CONTENT_TYPE, f"the stream holds {held}, not {given or 'another type'}")
