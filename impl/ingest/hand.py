"""A hand on a bucket: what everything that works in one has about it, and how patiently it asks."""

from dataclasses import dataclass, field

from fencepost.impl.asking import Asking
from fencepost.impl.environment import Environment
from fencepost.impl.ingest.errors import StoreAway
from fencepost.impl.ingest.safeguards import Safeguards
from fencepost.impl.ingest.settings import Settings
from fencepost.impl.store.interface import Store


def patience(settings: Settings) -> Asking:
    """How patiently ingest asks."""
    return Asking("ingest", StoreAway, settings.attempts_max - 1, settings.pause_s)


@dataclass(eq=False)
class Hand:
    """One worker's hand on a bucket. What works there extends it by what it alone needs."""

    store: Store
    env: Environment
    settings: Settings
    safeguards: Safeguards
    asking: Asking = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.asking = patience(self.settings)
