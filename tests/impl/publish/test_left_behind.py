"""Heads left behind by somebody who died, met by writers who do not claim: nobody may be stuck for ever."""

import pytest

from fencepost.impl.publish import Catalog, Mode, Published, StaleView, Transaction, Unknown, verify
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers import Effect, Fault, Faulty
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
    faulty = Faulty(store, [Fault(Effect.REQUEST_LOST, kinds={"delete"}, prefix="recovery/", times=silent)])
    with Catalog.open(faulty) as heir:
        assert [(notice.classified, notice.done) for notice in heir.notices] == [("no movement", done)]
    assert len(heir.context.sidecars()) == (0 if done == "retired" else 1)


def fence(store: Store) -> Catalog:
    """A writer of a later epoch that has not come round to recovery yet."""
    taker = Scripted(store)
    taker.crash_before("list", "recovery/")
    with pytest.raises(Crashed):
        Catalog.open(taker)
    heir = Catalog.open(store, author="heir", mode=Mode.READ)
    heir._handle.mode = Mode.JOIN
    heir._handle.join()
    return heir


def link(transaction: Transaction) -> None:
    transaction.append("knows", [{"id": 2, "a": 2, "b": 1}])


def test_a_plan_whose_undo_has_no_room_is_not_said_to_be_rolled_back() -> None:
    """Its other head may yet land, and whoever read its sidecar before roll it forward. Recovery that found
    every place for its undo taken by rivals used to retire the sidecar, and to call that rolled back.
    """
    inner = graph()
    store = Scripted(inner)
    owner = Catalog.open(store, author="owner", mode=Mode.JOIN)
    notices = []

    def interfere() -> None:
        rival = Scripted(inner)
        heir = fence(rival)
        rival.crash_before("put", "branch/main/manifest/")
        with pytest.raises(Crashed):
            heir.write(link)  # its head stands behind the owner's, which is dead to it
        with Catalog.open(inner, author="opener", mode=Mode.JOIN) as opener:
            notices.extend(opener.notices)

    store.amid("put", "table/knows", interfere)
    draft = owner.draft()
    grow(draft)
    ended = owner.publish(draft)
    assert isinstance(ended, Unknown)
    assert [(n.classified, n.done) for n in notices if n.plan == ended.plan] == [("partial", "left")]
    with Catalog.open(inner, author="last", mode=Mode.JOIN, grace_s=0) as last:
        assert isinstance(last.settle(ended), Published), "both heads stand: it is rolled forward"
        assert verify(last).faults == ()
