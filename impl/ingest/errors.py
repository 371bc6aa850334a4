"""What ingest raises. Answers that a collector passes on are values, see `authority`.

IngestError
├── IdentityError     whoever names a batch: the name cannot be one
├── FrameError        whoever made the frame: it is not one, and here is where it stops being one
├── Refused           the agent: this batch is not acceptable as it is, and never will be
├── Damaged           whoever wrote the bucket: an object does not say what it must
├── SettingsError     whoever runs it: the settings contradict each other
├── InventoryError    whoever took or copied an inventory report: it cannot be used
└── StoreUnavailable  nobody: the store did not answer; ask again later
"""

import enum


class IngestError(Exception):
    """The root."""


class IdentityError(IngestError, ValueError):
    """No batch can be called this."""


class FrameError(IngestError, ValueError):
    """These bytes are no frame; the message says what is wrong and at which byte."""


class SettingsError(IngestError, ValueError):
    """These settings cannot be."""


class InventoryError(IngestError, ValueError):
    """This is no inventory report that can be used; the message says which file, and what is wrong."""


class Refusal(enum.StrEnum):
    """Why a batch is refused before anything is stored."""

    WRONG_AGENT = "wrong-agent"
    ENCODED = "encoded"
    TOO_LARGE = "too-large"
    BAD_FRAME = "bad-frame"
    MISMATCH = "mismatch"
    QUARANTINED = "quarantined"


class Refused(IngestError):
    """Nothing was stored, and sending the same again changes nothing."""

    def __init__(self, kind: Refusal, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence


class Damaged(IngestError):
    """An object in the bucket is not what its key promises."""


class StoreUnavailable(IngestError):
    """The store did not answer, however often it was asked; nothing is known to have gone wrong."""
