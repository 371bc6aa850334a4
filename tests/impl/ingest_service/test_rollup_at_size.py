"""One pass rolls up all batches, however many an hour has."""

import pytest

from fencepost.impl.ingest import Authority, roll_up, rollups, totals
from fencepost.impl.store.memory import MemoryStore

from .serving import ENV, batch, frame


def test_an_hour_with_more_batches_than_one_entry_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollups, "BATCHES_MAX", 3)
    store = MemoryStore()
    authority = Authority(store, ENV, "collector-1")
    batches = 3 * (rollups.RACES_MAX + 5)
    for at in range(batches):
        authority.follow_up(authority.accept(batch(at, at), frame(batch(at, at))).manifest)
    found = roll_up(store, ENV)
    assert (found.batches, found.races) == (batches, 0)
    (series,) = totals(store, ENV).values()
    assert sum(one.count for one in series.values()) == batches
