"""The exceptions of ingest. Answers that a collector passes on are values, see `authority`.

IngestError
├── IdentityError     the caller: this cannot be the name of a batch
├── FrameError        the writer of the frame: it is not one, from this byte on
├── Refused           the agent: this batch is not acceptable as it is, and never will be
├── Damaged           other writers of the bucket: an object has unexpected content
├── SettingsError     the operator: the settings contradict each other
├── QueryError        the reader: the query is invalid or exceeds a limit
├── InventoryError    the provider or copier of an inventory report: it cannot be used
└── StoreUnavailable  no one: the store did not answer; try again later
"""

import enum


class IngestError(Exception):
    """The root."""


class IdentityError(IngestError, ValueError):
    """This cannot be the name of a batch."""


class FrameError(IngestError, ValueError):
    """These bytes are not a frame; the message has the defect and its position."""


class SettingsError(IngestError, ValueError):
    """These settings contradict each other."""


class QueryError(IngestError, ValueError):
    """The query is invalid or exceeds a limit; the message says which."""


class InventoryError(IngestError, ValueError):
    """This inventory report cannot be used; the message has the file and its defect."""


class Refusal(enum.StrEnum):
    """Why a batch is refused before anything is stored."""

    FOREIGN_AGENT = "foreign-agent"
    ENCODED = "encoded"
    TOO_LARGE = "too-large"
    BAD_FRAME = "bad-frame"
    MISMATCH = "mismatch"
    QUARANTINED = "quarantined"


class Refused(IngestError):
    """Nothing was stored, and sending the same batch again does not help."""

    def __init__(self, kind: Refusal, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence


class Damaged(IngestError):
    """An object in the bucket does not have the content that its key requires."""


class StoreUnavailable(IngestError):
    """The store did not answer in any attempt; nothing is known to have failed."""
