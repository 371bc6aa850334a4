"""Missing replies: no result claims more than is known, and no write is lost."""

from typing import Any

import pytest

from fencepost.impl.publish import Catalog, Published, StoreUnavailable, Unknown
from fencepost.impl.store.layers import Effect, Fault, Faulty

from .scripted import graph

MANIFEST = "branch/main/manifest/"


def add(catalog: Catalog) -> Any:
    with catalog.transaction("rome") as txn:
        txn.append("place", [{"id": 1, "name": "Rome"}])
        txn.append("person", [{"id": 3, "name": "Cyd"}])
    return txn.result


FAMILIES = ["data/", "recovery/", "table/", MANIFEST]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("effect", [Effect.REPLY_LOST, Effect.REQUEST_LOST, Effect.LATE, Effect.DUPLICATED])
@pytest.mark.parametrize("times", [1, 2])
def test_a_lost_reply_anywhere_is_survived(family: str, effect: Effect, times: int) -> None:
    """The reply lost, the request lost, late, or applied twice by a library that does not report it."""
    store = graph()
    fault = Fault(effect, kinds={"put"}, prefix=family, times=times, delay=3)
    faulty = Faulty(store, [])
    catalog = Catalog.open(faulty)
    faulty.inject([fault])
    assert isinstance(add(catalog), Published)
    assert faulty.struck
    faulty.land_all()
    catalog.close()
    reader = Catalog.open(store, mode="read")
    assert [manifest.message for manifest in reader.log()].count("rome") == 1
    assert reader.snapshot().rows("place") == [{"id": 1, "name": "Rome"}]


@pytest.mark.parametrize("effect", [Effect.THROTTLED, Effect.CONFLICT])
@pytest.mark.parametrize("family", FAMILIES)
def test_refused_requests_are_sent_again(family: str, effect: Effect) -> None:
    store = graph()
    faulty = Faulty(store, [])
    catalog = Catalog.open(faulty)
    faulty.inject([Fault(effect, kinds={"put"}, prefix=family, times=2)])
    assert isinstance(add(catalog), Published)
    assert len(faulty.struck) == 2


@pytest.mark.parametrize(("family", "lands"), [("table/", True), (MANIFEST, True), (MANIFEST, False)])
def test_a_create_without_an_answer_is_unknown_until_settled(family: str, lands: bool) -> None:
    store = graph()
    faulty = Faulty(store, [])
    catalog = Catalog.open(faulty, author="waiting")
    effect = Effect.LATE if lands else Effect.REQUEST_LOST
    faulty.inject([Fault(effect, kinds={"put"}, prefix=family, delay=10**9)])
    ended = add(catalog)
    assert isinstance(ended, Unknown)
    assert "it is unknown whether" in ended.why
    assert isinstance(catalog.settle(ended), Unknown)
    faulty.inject([])
    faulty.land_all()
    if family == MANIFEST and lands:
        assert isinstance(catalog.settle(ended), Published)
    heir = Catalog.open(store, author="heir")
    (notice,) = heir.notices
    assert notice.done == ("retired" if family == MANIFEST and lands else "rolled-forward")
    settled = heir.settle(ended)
    assert isinstance(settled, Published)
    assert [manifest.message for manifest in heir.log()].count("rome") == 1


@pytest.mark.parametrize("family", ["data/", "recovery/"])
def test_no_answer_before_any_head_moved_is_a_clean_error(family: str) -> None:
    store = graph()
    faulty = Faulty(store, [])
    catalog = Catalog.open(faulty)
    faulty.inject([Fault(Effect.LATE, kinds={"put"}, prefix=family, delay=10**9)])
    with pytest.raises(StoreUnavailable, match="nothing was published"):
        add(catalog)
    faulty.land_all()
    heir = Catalog.open(store)
    assert all(notice.done in ("retired", "rolled-back") for notice in heir.notices)
    assert heir.snapshot().rows("place") == []


def test_reads_without_an_answer_are_a_clean_error() -> None:
    store = graph()
    faulty = Faulty(store, [Fault(Effect.REQUEST_LOST, kinds={"get", "list"})])
    with pytest.raises(StoreUnavailable, match="did not answer"):
        Catalog.open(faulty)
