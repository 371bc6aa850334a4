"""What the components of ingest share: see `fencepost.impl.context`."""

from dataclasses import dataclass, field

from fencepost.impl.context import Context
from fencepost.impl.ingest.safeguards import Safeguards
from fencepost.impl.ingest.settings import Settings
from fencepost.impl.retry import RetryPolicy


@dataclass(eq=False)
class IngestContext(Context):
    """One bucket. Components extend it by what they alone need."""

    settings: Settings
    safeguards: Safeguards
    retry: RetryPolicy = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.retry = self.settings.retry_policy
