"""Nothing stays behind, or its name is printed."""

from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import Unsupported, Unusable
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ABSENT, ANYTHING, Outcome
from fencepost.sim.probe.history import History, Recorded
from fencepost.sim.probe.scratch import BATCH, ScratchPrefix


def on(store: MemoryStore) -> tuple[ScratchPrefix, Recorded]:
    scratch = ScratchPrefix(store, SeededEnvironment())
    return scratch, Recorded(store, "me", History(scratch.prefix), scratch.before, scratch.after)


def litter(scratch: ScratchPrefix, store: Recorded, count: int) -> None:
    for _ in range(count):
        store.put(scratch.key("f/k"), b"x", when=ABSENT)


def test_everything_goes_and_nothing_else() -> None:
    store = MemoryStore()
    store.put("mine", b"stays", when=ABSENT)
    store.put("fencepost-probe/other/k", b"stays", when=ABSENT)
    scratch, mine = on(store)
    litter(scratch, mine, 2 * BATCH + 3)
    mine.create_upload(scratch.key("up"))
    theirs = store.create_upload("theirs")
    assert scratch.sweep() == []
    assert set(store.contents()) == {"mine", "fencepost-probe/other/k"}
    assert [found.upload for found in store.list_uploads().uploads] == [theirs.upload]


def test_versions_and_markers_go() -> None:
    store = MemoryStore(versioned=True)
    scratch, mine = on(store)
    key = scratch.key("k")
    for _ in range(3):
        mine.put(key, b"x", when=ANYTHING)
    mine.delete(key, when=ANYTHING)
    scratch.tidy()
    assert scratch.sweep() == []
    assert not store.list_versions().versions


class ListsNothing(MemoryStore):
    """The listing of a liar cannot be what cleaning up relies on."""

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.List):
            return ask.ListReply(Outcome.DONE)
        if isinstance(request, ask.ListUploads):
            raise Unsupported("501")
        return super().send(request)


def test_a_listing_that_lies_hides_nothing_from_the_sweep() -> None:
    store = ListsNothing()
    scratch, mine = on(store)
    litter(scratch, mine, 5)
    upload = mine.create_upload(scratch.key("up"))
    assert scratch.sweep() == []
    assert not store.contents()
    assert store.abort_upload(scratch.key("up"), upload.upload).outcome is Outcome.GONE


class LosesReplies(MemoryStore):
    def send(self, request: Any) -> Any:
        reply = super().send(request)
        return request.ends(Outcome.UNKNOWN) if isinstance(request, ask.Put) else reply


def test_what_was_written_without_a_reply_goes() -> None:
    store = LosesReplies()
    scratch, mine = on(store)
    litter(scratch, mine, 3)
    assert scratch.sweep() == []
    assert not store.contents()


class LandsLate(MemoryStore):
    """A write whose reply was lost lands while we sweep."""

    late: Any = None

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        if isinstance(request, ask.Delete) and self.late is not None:
            late, self.late = self.late, None
            super().send(late)
        return reply


def test_what_lands_during_the_sweep_goes() -> None:
    store = LandsLate()
    scratch, mine = on(store)
    litter(scratch, mine, 1)
    store.late = ask.Put(scratch.key("late"), b"x", ANYTHING)
    assert scratch.sweep() == []
    assert not store.contents()


class Refuses(MemoryStore):
    def send(self, request: Any) -> Any:
        if isinstance(request, ask.Delete):
            raise Unusable("403 AccessDenied: you may not delete")
        return super().send(request)


def test_what_stays_is_named() -> None:
    store = Refuses()
    scratch, mine = on(store)
    litter(scratch, mine, 2)
    assert any("may not delete" in line for line in scratch.sweep())


class BusyAndBlind(ListsNothing):
    def send(self, request: Any) -> Any:
        if isinstance(request, ask.Delete):
            return request.ends(Outcome.THROTTLED)
        return super().send(request)


def test_what_stays_is_named_although_no_listing_shows_it() -> None:
    scratch, mine = on(BusyAndBlind())
    litter(scratch, mine, 2)
    assert [line.rpartition(": ")[2] for line in scratch.sweep()] == ["throttled", "throttled"]


@pytest.mark.parametrize("keep", [True, False])
def test_tidying_keeps_what_is_still_needed(keep: bool) -> None:
    store = MemoryStore()
    scratch, mine = on(store)
    litter(scratch, mine, 3)
    kept = scratch.key("kept")
    mine.put(kept, b"x", when=ABSENT)
    scratch.tidy([kept] if keep else ())
    assert set(store.contents()) == ({kept} if keep else set())
