"""The object store: one narrow interface, three backends, and layers that compose over any of them."""

from holdfast.impl.store.errors import BrokenPromise, Misuse, StoreError, Unsupported, Unusable
from holdfast.impl.store.interface import Store
from holdfast.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome
from holdfast.impl.store.urls import open_store

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
