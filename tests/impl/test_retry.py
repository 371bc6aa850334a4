"""Listings are followed to their ends: what is not seen is taken for gone, and deleted or forgotten."""

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest import collect, full_audit, keys
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.publish import Catalog
from fencepost.impl.retry import RetryPolicy
from fencepost.impl.store import ANYTHING, Outcome, Store
from fencepost.impl.store.layers.layer import Layer
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import List, ListUploads, ListVersions
from tests.impl.ingest.given import LONG_S, SETTINGS, batch, bucket, collector, sha256

RETRY = RetryPolicy("test", StoreUnavailable, attempts=4, backoff_s=0.01)
KEYS = ["a", "b", "c", "d", "e"]


class Narrow(Layer):
    """Shows two at a time, and does not answer some of those who ask for a page."""

    def __init__(self, inner: Store, silent: Container[int] = ()) -> None:
        super().__init__(inner)
        self.silent = silent
        self.asked = 0

    def send(self, request: Any) -> Any:
        if not isinstance(request, List | ListVersions | ListUploads):
            return self.inner.send(request)
        self.asked += 1
        if self.asked in self.silent:
            return request.ends(Outcome.UNKNOWN)
        return self.inner.send(replace(request, limit=2))

    def send_all(self, requests: Sequence[Any]) -> Sequence[Any]:
        return [self.send(request) for request in requests]


def five() -> MemoryStore:
    store = bucket(versioned=True)
    for key in KEYS:
        store.put(key, b"", when=ANYTHING)
        store.create_upload(key)
    return store


@pytest.mark.parametrize(
    ("kind", "field"), [(List, "objects"), (ListVersions, "versions"), (ListUploads, "uploads")]
)
def test_a_listing_is_followed_to_its_end(kind: Any, field: str) -> None:
    store = Narrow(five())
    pages = list(RETRY.pages(store, store.env, lambda token: kind("", token=token)))
    assert [[info.key for info in getattr(page, field)] for page in pages] == [["a", "b"], ["c", "d"], ["e"]]


def test_what_is_not_there_is_one_empty_page() -> None:
    store = Narrow(five())
    pages = list(RETRY.pages(store, store.env, lambda token: List("x", token=token)))
    assert [page.objects for page in pages] == [()]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_page_that_is_not_answered_is_asked_for_again(at: int) -> None:
    store = Narrow(five(), silent=(at, at + 1))
    pages = RETRY.pages(store, store.env, lambda token: List("", token=token))
    assert [info.key for page in pages for info in page.objects] == KEYS
    assert store.asked == 5


def test_a_listing_that_is_not_answered_is_no_end() -> None:
    store = Narrow(five(), silent=range(2, 100))
    with pytest.raises(StoreUnavailable):
        list(RETRY.pages(store, store.env, lambda token: List("", token=token)))


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
def test_garbage_collection_sees_references_behind_the_first_page(versioned: bool) -> None:
    """If this fails, the data of accepted batches is deleted in every bucket with more than a thousand."""
    store = bucket(versioned=versioned)
    ann = collector(store)
    for number in range(7):
        ann.accept(*batch(number))
    _, body = batch(9)
    old = collector(store).blobs.keep(sha256(body), body).key
    store.env.sleep(LONG_S)
    narrow = Narrow(store)
    found = full_audit(narrow, store.env, SETTINGS)
    assert (found.accepted, found.repaired) == (7, 21)
    result = collect(narrow, store.env, SETTINGS)
    assert result.deleted == [old]
    assert (result.blobs, result.referenced) == (8, 7)
    assert len([key for key in store.contents() if key.startswith(keys.RAW)]) == 7


def test_a_cleanup_sees_what_is_behind_the_first_page() -> None:
    def cleaned(narrow: bool) -> tuple[Any, set[str]]:
        store = MemoryStore(env=SeededEnvironment(1))
        catalog = Catalog.open(Narrow(store) if narrow else store, author="ann", create=True)
        with catalog.transaction() as txn:
            txn.create_table("t", {"id": "int64"}, key="id")
        for number in range(6):
            with catalog.transaction() as txn:
                txn.append("t", [{"id": number}])
        done = catalog.cleanup(keep=1)
        assert len(catalog.snapshot().load()["t"]) == 6
        return done, set(store.contents())

    assert cleaned(narrow=True) == cleaned(narrow=False)
    assert cleaned(narrow=True)[0].manifests > 2
