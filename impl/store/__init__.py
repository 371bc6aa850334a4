"""The object store: one narrow interface, three backends, and layers that compose over any of them."""

from fencepost.impl.store.errors import BrokenPromise, Misuse, StoreError, Unsupported, Unusable
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome
from fencepost.impl.store.urls import open_store

__all__ = [
    "ABSENT",
    "ANYTHING",
    "BrokenPromise",
    "Matches",
    "Misuse",
    "Outcome",
    "Store",
    "StoreError",
    "Unsupported",
    "Unusable",
    "open_store",
]
