"""Heads left behind by somebody who died, met by writers who do not claim: nobody may be stuck for ever."""

import pytest

from holdfast.impl.publish import Catalog, Mode, StaleView, Transaction, verify
from holdfast.impl.store.layers import Effect, Fault, Faulty
from tests.impl.publish.scripted import Crashed, Scripted, graph


def rename(transaction: Transaction) -> None:
    transaction.upsert("person", [{"id": 1, "name": "new"}])


def grow(transaction: Transaction) -> None:
    transaction.append("knows", [{"id": 1, "a": 1, "b": 2}])
    rename(transaction)


def settle(store: Scripted) -> None:
    """A writer of two tables, one of them in the hands of the dead, gets through without claiming."""
    with Catalog.open(store, mode=Mode.JOIN, grace_s=0) as last:
        last.write(grow)
        assert last.snapshot().get("person", 1) == {"id": 1, "name": "new"}
        assert verify(last).faults == ()


def die_undoing(store: Scripted) -> None:
    """Take the live writer for a dead one, and die between the undo's head and its manifest."""
    store.crash_before("put", "branch/main/manifest/")
    with pytest.raises(Crashed):
        Catalog.open(store, mode=Mode.JOIN, grace_s=0)


def test_an_owner_who_meets_an_unfinished_undo_of_his_own_plan_does_not_leave_it_in_the_way() -> None:
    """He used to retire his sidecar, and the undo's head stood for ever with nothing to explain it."""
    store = Scripted(graph())
    owner = Catalog.open(store, mode=Mode.JOIN)
    store.before("put", "table/person", lambda: die_undoing(store))
    with owner:
        draft = owner.draft()
        rename(draft)
        with pytest.raises(StaleView):
            owner.publish(draft)
    assert store.spent
    settle(store)


def test_an_owner_who_is_refused_before_he_moved_a_head_may_leave_an_unfinished_undo() -> None:
    """He retires his sidecar unaware that somebody has begun to undo him: whoever meets that, finishes it."""
    store = Scripted(graph())
    owner, rival = (Catalog.open(store, mode=Mode.JOIN) for _ in range(2))

    def interfere() -> None:
        rival.write(lambda txn: txn.append("place", [{"id": 1, "name": "here"}]))
        die_undoing(store)

    # The sidecar stands, the probe has not been asked: the first request of the next step.
    with owner:
        draft = owner.draft()
        rename(draft)
        draft.rely_on(["place"])
        store.amid("put", "recovery/", interfere)
        with pytest.raises(StaleView):
            owner.publish(draft)
    assert store.spent
    settle(store)


def test_a_writer_of_two_tables_clears_the_dead_from_one_of_them() -> None:
    """Taking back his other head moved a pin of his, and he left without asking who was in the way."""
    store = Scripted(graph())
    dead, last = (Catalog.open(store, mode=Mode.JOIN, grace_s=0) for _ in range(2))
    store.crash_before("put", "branch/main/manifest/")
    with pytest.raises(Crashed):
        dead.write(rename)
    last.write(grow)
    assert last.snapshot().get("knows", 1) is not None
    assert verify(last).faults == ()


@pytest.mark.parametrize(("silent", "done"), [(1, "retired"), (100, "left")])
def test_a_sidecar_that_may_still_stand_is_not_reported_as_retired(silent: int, done: str) -> None:
    """Its plan had not moved when recovery looked; a later recovery, which finds it, may roll it forward."""
    store = Scripted(graph())
    dead = Catalog.open(store, mode=Mode.JOIN)
    store.crash_before("put", "table/person")
    with pytest.raises(Crashed):
        dead.write(rename)
    faulty = Faulty(store, [Fault(Effect.DROPPED, kinds={"delete"}, prefix="recovery/", times=silent)])
    with Catalog.open(faulty) as heir:
        assert [(notice.classified, notice.done) for notice in heir.notices] == [("no movement", done)]
    assert len(heir.ground.sidecars.names()) == (0 if done == "retired" else 1)
