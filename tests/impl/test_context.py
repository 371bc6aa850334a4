"""Listings are read to their ends: callers treat an unlisted object as missing, and delete or forget data."""

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest import collect, full_audit, keys
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.publish import Catalog
from fencepost.impl.store import ANYTHING, Outcome, Store
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import List, ListUploads, ListVersions
from tests.impl.ingest.given import LONG_S, SETTINGS, batch, bucket, collector, sha256

RETRY = RetryPolicy("test", StoreUnavailable, attempts=4, backoff_s=0.01)
KEYS = ["a", "b", "c", "d", "e"]


def context(store: Store) -> Context:
    return Context(store, store.env, retry=RETRY)


class Narrow(Layer):
    """Lists two objects per page, and leaves some requests for a page without an answer."""

    def __init__(self, inner: Store, unanswered: Container[int] = ()) -> None:
        super().__init__(inner)
        self.unanswered = unanswered
        self.listings = 0

    def send(self, request: Any) -> Any:
        if not isinstance(request, List | ListVersions | ListUploads):
            return self.inner.send(request)
        self.listings += 1
        if self.listings in self.unanswered:
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
    pages = list(context(store).pages(lambda token: kind("", token=token)))
    assert [[info.key for info in getattr(page, field)] for page in pages] == [["a", "b"], ["c", "d"], ["e"]]


def test_an_empty_listing_is_one_empty_page() -> None:
    store = Narrow(five())
    pages = list(context(store).pages(lambda token: List("x", token=token)))
    assert [page.objects for page in pages] == [()]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_unanswered_page_is_requested_again(at: int) -> None:
    store = Narrow(five(), unanswered=(at, at + 1))
    pages = context(store).pages(lambda token: List("", token=token))
    assert [info.key for page in pages for info in page.objects] == KEYS
    assert store.listings == 5


def test_an_unanswered_page_is_not_the_end_of_the_listing() -> None:
    store = Narrow(five(), unanswered=range(2, 100))
    with pytest.raises(StoreUnavailable):
        list(context(store).pages(lambda token: List("", token=token)))


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
def test_garbage_collection_reads_references_after_the_first_page(versioned: bool) -> None:
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
    assert (found.accepted, found.repaired) == (7, 14)
    result = collect(narrow, store.env, SETTINGS)
    assert result.deleted == [old]
    assert (result.blobs, result.referenced) == (8, 7)
    assert len([key for key in store.contents() if key.startswith(keys.RAW)]) == 7


def test_a_cleanup_reads_objects_after_the_first_page() -> None:
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
