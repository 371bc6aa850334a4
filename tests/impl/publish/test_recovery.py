"""What recovery finds and does; running it twice, concurrently or partially changes nothing."""

from typing import Any

import pytest

from fencepost.impl.publish import Catalog, Fenced, Published, PublishPlan, StaleView, Unknown
from fencepost.impl.publish.context import GRACE_S, STUCK_AFTER_S, Mode
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.memory import MemoryStore

from .scripted import Crashed, Scripted, graph

MANIFEST = "branch/main/manifest/"
CYD = {"id": 3, "name": "Cyd"}


def two_tables(catalog: Catalog) -> Any:
    draft = catalog.draft("two tables")
    draft.append("person", [CYD])
    draft.append("place", [{"id": 1, "name": "Rome"}])
    return catalog.publish(draft)


def crashed(inner: MemoryStore, how: str, prefix: str, mode: str = "join") -> MemoryStore:
    script = Scripted(inner)
    writer = Catalog.open(script, author="victim", mode=mode)
    getattr(script, how)("put", prefix)
    with pytest.raises(Crashed):
        two_tables(writer)
    return inner


def state(store: MemoryStore) -> dict[str, list[Any]]:
    return {name: list(rows) for name, rows in Catalog.open(store, mode="read").snapshot().load().items()}


CRASHES = [
    ("crash_before", "recovery/", None, None, False),
    ("crash_after", "recovery/", "no movement", "retired", False),
    ("crash_amid", "table/", "partial", "rolled-back", False),
    ("crash_after", "table/", "complete", "rolled-forward", True),
    ("crash_before", MANIFEST, "complete", "rolled-forward", True),
    ("crash_after", MANIFEST, "settled", "retired", True),
]


@pytest.mark.parametrize(("how", "prefix", "classified", "done", "visible"), CRASHES)
@pytest.mark.parametrize("mode", ["claim", "join"])
def test_a_crash_at_every_step(
    how: str, prefix: str, classified: str | None, done: str | None, visible: bool, mode: str
) -> None:
    """Fenced by a claim, or expired after the window: the same result, and all writers can go on."""
    store = crashed(graph(), how, prefix)
    store.env.sleep(100)
    opener = Catalog.open(store, author="opener", mode=mode)
    if mode == "join" and done == "retired" and classified == "no movement":
        done = "rolled-back"  # an expired plan's slots are occupied, so that no late head lands in them
    assert [(n.classified, n.done) for n in opener.notices] == ([(classified, done)] if classified else [])
    assert ([row["name"] for row in state(store)["place"]] == ["Rome"]) is visible
    assert not [key for key in store.contents() if key.startswith("recovery/")]
    with opener.transaction() as txn:
        txn.upsert("person", [{"id": 8, "name": "Eve"}])
        txn.upsert("place", [{"id": 8, "name": "Oslo"}])
    assert isinstance(txn.result, Published)


@pytest.mark.parametrize("mode", ["claim", "join"])
@pytest.mark.parametrize(("how", "prefix"), [(how, prefix) for how, prefix, *_ in CRASHES])
def test_recovery_can_crash_anywhere_and_be_repeated(how: str, prefix: str, mode: str) -> None:
    """Crash inside recovery at each of its writes: the next recovery ends as an undisturbed one does."""
    calm = crashed(graph(), how, prefix)
    calm.env.sleep(100)
    Catalog.open(calm, author="opener", mode=mode).close()
    for family, kind in (("table/", "put"), (MANIFEST, "put"), ("recovery/", "delete")):
        for crash in ("before", "after"):
            store = crashed(graph(), how, prefix)
            store.env.sleep(100)
            script = Scripted(store)
            getattr(script, crash)(kind, family, _die)
            try:
                Catalog.open(script, author="opener", mode=mode)
            except Crashed:
                script._hooks.clear()
            last = Catalog.open(store, author="opener", mode=mode)
            assert all(notice.done != "left" for notice in last.notices)
            assert state(store) == state(calm)
            assert not [key for key in store.contents() if key.startswith("recovery/")]


def _die() -> None:
    raise Crashed


@pytest.mark.parametrize("prefix", ["table/", MANIFEST])
@pytest.mark.parametrize(("how", "where"), [("crash_amid", "table/"), ("crash_after", "table/")])
def test_two_recoveries_at_once(prefix: str, how: str, where: str) -> None:
    """The second runs from end to end inside the first, at each of its writes: one outcome."""
    store = crashed(graph(), how, where)
    store.env.sleep(100)
    script = Scripted(store)
    script.before("put", prefix, lambda: Catalog.open(store, author="second", mode="join"))
    first = Catalog.open(script, author="first", mode="join")
    assert next(notice.done for notice in first.notices) in ("rolled-forward", "rolled-back", "retired")
    kinds = [manifest.kind for manifest in first.log()]
    assert kinds.count("undo") + kinds.count("publish") == 2, "founding, and one outcome of the plan"
    with first.transaction() as txn:
        txn.upsert("person", [CYD])
        txn.upsert("place", [CYD])


def test_rolled_forward_and_live_leave_the_same_bytes() -> None:
    """Two worlds with the same seed; in one the writer died before its manifest and was rolled forward."""
    live, died = graph(), graph()
    two_tables(Catalog.open(live, author="victim", mode="join"))
    crashed(died, "crash_before", MANIFEST)
    died.env.sleep(100)
    opener = Catalog.open(died, author="somebody else", mode="join")
    assert [notice.done for notice in opener.notices] == ["rolled-forward"]
    bookkeeping = ("recovery/", "retired/")
    found, expected = (
        {key: body for key, body in store.contents().items() if not key.startswith(bookkeeping)}
        for store in (died, live)
    )
    assert found == expected
    assert next(manifest.author for manifest in opener.log()) == "victim"


def test_a_live_write_is_left_alone_and_its_author_named() -> None:
    store = crashed(graph(), "crash_after", "table/")
    other = Catalog.open(store, author="other", mode="join")
    assert [(n.classified, n.done) for n in other.notices] == [("live", "left")]
    with pytest.raises(StaleView, match=r"plan .* is writing table .* by victim, left alone for 60 s"):
        two_tables(other)
    draft = other.draft()
    draft.append("knows", [{"id": 1, "a": 1, "b": 2}])
    assert isinstance(other.publish(draft), Published), "tables it does not touch are free"


def test_repair_overrides_the_window() -> None:
    store = crashed(graph(), "crash_amid", "table/")
    other = Catalog.open(store, author="other", mode="join")
    assert [notice.done for notice in other.repair()] == ["rolled-back"]
    assert isinstance(two_tables(other), Published)


def test_repair_cures_a_head_without_a_sidecar() -> None:
    """No run leaves this behind, but a manual change may: the sidecar was deleted."""
    store = crashed(graph(), "crash_after", "table/")
    for key in [key for key in store.contents() if key.startswith("recovery/")]:
        store.delete(key, when=ANYTHING)
    other = Catalog.open(store, author="other", mode="join")
    other.repair()
    assert isinstance(two_tables(other), Published)


def test_fenced_is_final() -> None:
    store = graph()
    old = Catalog.open(store, author="old")
    Catalog.open(store, author="new")
    for _ in range(2):
        with pytest.raises(Fenced):
            two_tables(old)
    with pytest.raises(Fenced):
        old.recover()
    assert "Rome" not in str(state(store))


@pytest.mark.parametrize("recovers_first", [True, False])
def test_fenced_with_all_heads_moved_is_unknown(recovers_first: bool) -> None:
    """The heir may roll it forward at any time: `Fenced` would be a clean error for a visible write."""
    store = graph()
    script = Scripted(store)
    old = Catalog.open(script, author="old")
    taker = Scripted(store)
    if not recovers_first:
        taker.crash_before("list", "recovery/")

    def take() -> None:
        try:
            Catalog.open(taker, author="heir")
        except Crashed:
            assert not recovers_first

    script.before("put", MANIFEST, take)
    ended = two_tables(old)
    if recovers_first:
        assert isinstance(ended, Published)
        return
    assert isinstance(ended, Unknown)
    assert isinstance(old.settle(ended), Unknown)
    heir = Catalog.open(store, author="heir")
    assert isinstance(heir.settle(ended), Published)


def test_an_unpublished_unknown_is_settled_as_never() -> None:
    store = graph()
    script = Scripted(store)
    old = Catalog.open(script, author="old")
    script.before("put", MANIFEST, lambda: overwrite_and_die(store))
    ended = two_tables(old)
    assert isinstance(ended, Unknown)
    heir = Catalog.open(store, author="heir")
    assert [notice.done for notice in heir.notices] == ["rolled-back"]
    assert heir.settle(ended) is None


def overwrite_and_die(store: MemoryStore) -> None:
    """A new owner that writes one of the tables before it recovers."""
    taker = Scripted(store)
    taker.crash_before("list", "recovery/")
    with pytest.raises(Crashed):
        Catalog.open(taker, author="heir")
    third = Catalog.open(store, author="third", mode="read")
    third._handle.mode = Mode.JOIN  # a writer that has not run recovery yet
    third._handle.join()
    with third, third.transaction() as txn:
        txn.upsert("place", [{"id": 5, "name": "Bonn"}])
    assert isinstance(txn.result, Published), "it steps over the head of the fenced plan"


def test_a_plan_round_trips_through_json() -> None:
    """The sidecar contains the whole plan, in the same bytes every time."""
    store = crashed(graph(), "crash_before", MANIFEST)
    (body,) = [body for key, body in store.contents().items() if key.startswith("recovery/")]
    plan = PublishPlan.from_bytes(body)
    assert plan.to_bytes() == body
    assert PublishPlan.from_bytes(plan.to_bytes()) == plan
    assert [action.table for action in plan.actions] == ["person", "place"]
    assert all(action.base is not None and action.runs for action in plan.actions)


def test_a_killed_writer_holds_up_the_others_for_seconds() -> None:
    """Without that, every other writer of its tables is refused for the grace period."""
    store = graph()
    crashed(store, "crash_before", MANIFEST)
    other = Catalog.open(store, author="other", mode="join")
    began = store.env.monotonic_ns()
    result = other.write(lambda txn: txn.upsert("person", [{"id": 9, "name": "Eve"}]))
    assert isinstance(result, Published)
    assert STUCK_AFTER_S * 1e9 <= store.env.monotonic_ns() - began < 3 * STUCK_AFTER_S * 1e9 < GRACE_S * 1e9
    other.close()
    assert Catalog.open(store, mode="join").notices == [], "the plan of the killed writer is over"


def test_a_plan_in_the_way_of_a_patient_writer_is_left_alone() -> None:
    """The first attempt only notes that it is there; its writer may be about to commit."""
    store = graph()
    crashed(store, "crash_before", MANIFEST)
    other = Catalog.open(store, author="other", mode="join")
    for _ in range(3):
        with pytest.raises(StaleView, match="left alone"):
            other.publish(_eve(other))
        other.refresh()


def _eve(catalog: Catalog) -> Any:
    draft = catalog.draft()
    draft.upsert("person", [{"id": 9, "name": "Eve"}])
    return draft


@pytest.mark.parametrize("tables", [1, 2])
def test_a_live_writer_that_others_end_learns_the_truth(tables: int) -> None:
    """Complete, it was committed for it; half way, it is refused, and nothing of it is visible."""
    store = graph()
    script = Scripted(store)
    slow = Catalog.open(script, author="slow", mode="join")
    hasty = Catalog.open(store, author="hasty", mode="join", stuck_after_s=0)

    def end() -> None:
        hasty.write(lambda txn: txn.upsert("person", [{"id": 9, "name": "Eve"}]))

    draft = slow.draft()
    draft.append("person", [{"id": 7, "name": "Guy"}])
    if tables == 1:
        script.before("put", MANIFEST, end)
        draft_ends = Published
    else:
        draft.append("place", [{"id": 7, "name": "Rome"}])
        script.amid("put", "table/person", end)
        draft_ends = StaleView
    try:
        result: Any = slow.publish(draft)
    except StaleView as error:
        result = error
    assert script.spent
    assert isinstance(result, draft_ends)
    rows = Catalog.open(store, mode="read").snapshot().load()
    people = {row["name"] for row in rows["person"]}
    assert "Eve" in people
    assert ("Guy" in people) == (tables == 1)
    assert not rows["place"]
