"""The behaviour of every store: one suite of tests, run over every backend.

A new driver needs one line: a class that inherits the suite and defines how to open an empty store.

    class TestMine(StoreBehaviour):
        open = staticmethod(lambda request: MyStore(...))     # `request` is pytest's; may be ignored

together with the fixture `store` that calls it, see `tests/properties/test_store_behaviour.py`. Stores
that keep versions take `VersionedStoreBehaviour`. Each test gets an empty store of its own.

Where a store is known to deviate, the class says so, test by test and with the reason, in `deviations`;
those tests must then fail. A deviation that is not declared fails, and so does one that is healed.
"""

from fencepost.properties.store_behaviour.listings import Listings, Misuses, Plenty
from fencepost.properties.store_behaviour.objects import Keys, Objects, Reads
from fencepost.properties.store_behaviour.uploads import Uploads
from fencepost.properties.store_behaviour.versions import Unversioned, Versioned

__all__ = ["StoreBehaviour", "VersionedStoreBehaviour"]


class _Behaviour(Objects, Reads, Keys, Listings, Uploads, Misuses):
    """Tests for every store, with versions or without."""

    deviations: dict[str, str] = {}
    """Names of tests that this store fails, each with the reason."""


class StoreBehaviour(_Behaviour, Unversioned, Plenty):
    """The suite for a store that keeps no versions."""


class VersionedStoreBehaviour(_Behaviour, Versioned):
    """The suite for a store that keeps versions."""
