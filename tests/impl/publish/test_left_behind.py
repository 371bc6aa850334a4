"""Heads left behind by crashed processes never block writers that do not claim."""

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
    """A writer of two tables, one of them blocked by a dead plan, commits without claiming."""
    with Catalog.open(store, mode=Mode.JOIN, grace_s=0) as last:
        last.write(grow)
        assert last.snapshot().get("person", 1) == {"id": 1, "name": "new"}
        assert verify(last).faults == ()


def die_undoing(store: Scripted) -> None:
    """Undo a live writer's plan, and crash between the undo's head and its manifest."""
    store.crash_before("put", "branch/main/manifest/")
    with pytest.raises(Crashed):
        Catalog.open(store, mode=Mode.JOIN, grace_s=0)


def test_an_owner_finishes_an_unfinished_undo_of_its_own_plan() -> None:
    """If the owner retires its sidecar, the undo's head remains for ever without an explanation."""
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


def test_an_unfinished_undo_left_by_a_refused_owner_is_finished_by_the_next_writer() -> None:
    """The owner retires its sidecar unaware of the undo; the next writer that meets the undo finishes it."""
    store = Scripted(graph())
    owner, rival = (Catalog.open(store, mode=Mode.JOIN) for _ in range(2))

    def interfere() -> None:
        rival.write(lambda txn: txn.append("place", [{"id": 1, "name": "here"}]))
        die_undoing(store)

    # The sidecar exists and the probe has not been sent: it is the first request of the next step.
    with owner:
        draft = owner.draft()
        rename(draft)
        draft.rely_on(["place"])
        store.amid("put", "recovery/", interfere)
        with pytest.raises(StaleView):
            owner.publish(draft)
    assert store.spent
    settle(store)


def test_a_writer_of_two_tables_recovers_a_dead_plan_on_one_of_them() -> None:
    """Taking back its other head moves a pin, so the writer must still check what blocks the first table."""
    store = Scripted(graph())
    dead, last = (Catalog.open(store, mode=Mode.JOIN, grace_s=0) for _ in range(2))
    store.crash_before("put", "branch/main/manifest/")
    with pytest.raises(Crashed):
        dead.write(rename)
    last.write(grow)
    assert last.snapshot().get("knows", 1) is not None
    assert verify(last).faults == ()


@pytest.mark.parametrize(("silent", "done"), [(1, "retired"), (100, "left")])
def test_a_sidecar_that_may_still_exist_is_not_reported_as_retired(silent: int, done: str) -> None:
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
    """A writer of a later epoch that has not run recovery yet."""
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


def test_a_plan_whose_undo_is_blocked_is_not_reported_as_rolled_back() -> None:
    """Its other head may yet land, and an opener that read its sidecar before may roll it forward. So
    recovery must not retire the sidecar, nor report a rollback, when rivals occupy every place for the undo.
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
            heir.write(link)  # its head comes after the owner's, which is dead to it
        with Catalog.open(inner, author="opener", mode=Mode.JOIN) as opener:
            notices.extend(opener.notices)

    store.amid("put", "table/knows", interfere)
    draft = owner.draft()
    grow(draft)
    result = owner.publish(draft)
    assert isinstance(result, Unknown)
    assert [(n.classified, n.done) for n in notices if n.plan == result.plan] == [("partial", "left")]
    with Catalog.open(inner, author="last", mode=Mode.JOIN, grace_s=0) as last:
        assert isinstance(last.settle(result), Published), "both heads exist: it is rolled forward"
        assert verify(last).faults == ()
