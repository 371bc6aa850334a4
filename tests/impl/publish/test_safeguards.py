"""Each safeguard is necessary in the real code: its counterexample happens without it and does not happen
with it.

Every test scripts the counterexample of docs/decisions/0010-publish-protocol.md: `name` is the safeguard
that is replaced by its mutant, or None, and the assertion states what must differ.
"""

from typing import Any

import pytest

from fencepost.impl.publish import (
    SAFEGUARDS,
    Catalog,
    Dangling,
    Draft,
    Fenced,
    HeadAhead,
    Published,
    StaleView,
    Unknown,
)
from fencepost.impl.publish.documents import HELD_MAX
from fencepost.impl.publish.requests import Request
from fencepost.impl.store.layers import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore

from .scripted import MUTANTS, PERSON, Crashed, Scripted, dangling, graph, without

MANIFEST = "branch/main/manifest/"
CYD = {"id": 3, "name": "Cyd"}
DAN = {"id": 4, "name": "Dan"}


def both(name: str) -> Any:
    """Run a counterexample with the safeguard and without it."""
    return pytest.mark.parametrize("name", [None, name])


def join(store: Any, name: str | None, author: str = "w") -> Catalog:
    return Catalog.open(store, author=author, mode="join", safeguards=without(name))


def claim(store: Any, name: str | None, author: str = "w") -> Catalog:
    return Catalog.open(store, author=author, safeguards=without(name))


def add(catalog: Catalog, table: str, row: dict[str, Any], message: str = "") -> Any:
    draft = catalog.draft(message)
    draft.append(table, [row])
    return catalog.publish(draft)


def names(store: MemoryStore, table: str = "person") -> list[str]:
    return [row["name"] for row in Catalog.open(store, mode="read").snapshot().rows(table)]


def test_every_safeguard_has_a_mutant_and_a_counterexample() -> None:
    assert sorted(MUTANTS) == sorted(SAFEGUARDS)
    for name in SAFEGUARDS:
        assert f"test_{name.replace('-', '_')}" in globals()


@both("create-only-manifest")
def test_create_only_manifest(name: str | None) -> None:
    """Two writers commit the same id: the first one's acknowledged write is gone."""
    inner = graph()
    first, slow = join(inner, name, "first"), Scripted(inner)
    second = join(slow, name, "second")
    slow.before("put", MANIFEST, lambda: add(first, "place", {"id": 1, "name": "Rome"}))
    assert isinstance(add(second, "person", CYD), Published)
    assert slow.spent
    assert (names(inner, "place") == ["Rome"]) is (name is None)
    assert "Cyd" in names(inner)


@both("sidecar-before-heads")
def test_sidecar_before_heads(name: str | None) -> None:
    """After a crash between heads and manifest no writer of that epoch can ever write the table again."""
    inner = graph()
    dying = Scripted(inner)
    dying.crash_before("put", MANIFEST)
    with pytest.raises(Crashed):
        add(join(dying, name), "person", CYD)
    other = join(inner, name)
    if name is None:
        with pytest.raises(StaleView, match="left alone"):
            add(other, "person", DAN)
    for _ in range(3):
        inner.env.sleep(100)
        if name is None:
            assert isinstance(other.write(lambda txn: txn.upsert("person", [DAN])), Published)
        else:
            with pytest.raises(HeadAhead, match="recovery required"):
                add(other, "person", DAN)
            other.refresh()
    assert (names(inner) == ["Ada", "Bob", "Cyd", "Dan"]) is (name is None)


@both("whole-plan-in-sidecar")
def test_whole_plan_in_sidecar(name: str | None) -> None:
    """Recovery rolls one table of two forward: half a plan becomes visible."""
    inner = graph()
    dying = Scripted(inner)
    dying.crash_before("put", MANIFEST)
    writer = join(dying, name)
    draft = writer.draft()
    draft.append("knows", [{"id": 1, "a": 1, "b": 2}])
    draft.append("person", [CYD])
    with pytest.raises(Crashed):
        writer.publish(draft)
    opener = claim(inner, name)
    assert [notice.done for notice in opener.notices] == ["rolled-forward"]
    edges, people = len(opener.snapshot().rows("knows")), len(opener.snapshot().rows("person"))
    assert (edges, people) == ((1, 3) if name is None else (1, 2))


@both("epoch-check")
def test_epoch_check(name: str | None) -> None:
    """A fenced writer goes on: it commits after the claim, and its successor is wedged by its heads."""
    inner = graph()
    old = claim(inner, name, "old")
    claim(inner, name, "new")
    if name is None:
        with pytest.raises(Fenced, match="open the catalog again"):
            add(old, "person", CYD)
    else:
        assert isinstance(add(old, "person", CYD), Published), "committed after the claim was visible"

    inner = graph()
    script = Scripted(inner)
    old = claim(script, name, "old")
    taken: list[Catalog] = []
    script.before("put", "table/person", lambda: taken.append(claim(inner, name, "new")))
    script.crash_before("put", "branch/main/manifest/00000000000000000006")
    if name is None:
        # Its first create of a manifest meets the claim.
        assert not isinstance(add(old, "person", CYD), Published)
        assert isinstance(add(taken[0], "person", DAN), Published)
        assert names(inner) == ["Ada", "Bob", "Dan"]
    else:
        with pytest.raises(Crashed):
            add(old, "person", CYD)
        assert [notice.done for notice in taken[0].notices] == ["retired"]
        with pytest.raises(HeadAhead, match="recovery required"):
            add(taken[0], "person", DAN)


@both("grace-window")
def test_grace_window(name: str | None) -> None:
    """An opener retires a live writer's sidecar; the writer then acknowledges, or dies and leaves a wedge."""
    inner = graph()
    script = Scripted(inner)
    live = join(script, name, "live")
    opened: list[Catalog] = []
    script.before("put", "table/person", lambda: opened.append(join(inner, name, "opener")))
    assert isinstance(add(live, "person", CYD), Published)
    (notice,) = opened[0].notices
    assert (notice.classified, notice.done) == (
        ("live", "left") if name is None else ("no movement", "retired")
    ), "with the safeguard the notice is true: an acknowledged plan was not given up"

    inner = graph()
    script = Scripted(inner)
    live = join(script, name, "live")
    script.before("put", "table/person", lambda: join(inner, name, "opener"))
    script.crash_before("put", MANIFEST)
    with pytest.raises(Crashed):
        add(live, "person", CYD)
    inner.env.sleep(100)
    other = join(inner, name, "other")
    if name is None:
        assert names(inner) == ["Ada", "Bob", "Cyd"], "rolled forward when the window was over"
        assert isinstance(add(other, "person", DAN), Published)
    else:
        with pytest.raises(HeadAhead):
            add(other, "person", DAN)


def _skew(name: str | None) -> tuple[Catalog, bool]:
    """An overwrite removes Bob while an edge to Bob is published; returns whether it was acknowledged."""
    inner = graph()
    remover, script = join(inner, name, "remover"), Scripted(inner)
    linker = join(script, name, "linker")

    def drop_bob() -> None:
        draft = remover.draft()
        draft.overwrite("person", PERSON[:1])
        remover.publish(draft)

    script.before("put", MANIFEST, drop_bob)
    try:
        add(linker, "knows", {"id": 1, "a": 1, "b": 2})
    except StaleView as stale:
        assert "person, which this write relied on" in str(stale)  # noqa: PT017 - the other branch is a result
        return Catalog.open(inner, mode="read"), False
    return Catalog.open(inner, mode="read"), True


@both("shared-head")
def test_shared_head(name: str | None) -> None:
    """Writers of different tables do not conflict, both commit, and an edge points at a missing row."""
    catalog, acknowledged = _skew(name)
    assert (acknowledged, bool(dangling(catalog))) == ((False, False) if name is None else (True, True))


@both("pins-re-evaluated-on-retry")
def test_pins_re_evaluated_on_retry(name: str | None) -> None:
    """They conflict, and the loser retries without checking its reads again: the same orphan edge."""
    catalog, acknowledged = _skew(name)
    assert (acknowledged, bool(dangling(catalog))) == ((False, False) if name is None else (True, True))


@both("reads-checked-within-group")
def test_reads_checked_within_group(name: str | None) -> None:
    """Two drafts of a group read a row and write it back with one letter more: one letter is lost."""
    inner = graph()
    catalog = claim(inner, name)
    drafts = [catalog.draft() for _ in range(2)]
    for draft in drafts:
        row = draft.read("person")[0]
        draft.upsert("person", [{**row, "name": f"{row['name']}!"}])
    results = catalog.publish_all(drafts)
    acknowledged = sum(isinstance(result, Published) for result in results)
    assert names(inner)[0].count("!") == 1
    assert acknowledged == (1 if name is None else 2)


def send_again(name: str | None) -> int:
    """A client sends a request to one server, which publishes another one after it, and then to another
    server, whose view is older. Returns how often the request was published."""
    inner = graph()
    first, other = join(inner, name), join(inner, name)
    since = first.manifest.id
    for id_, key in (("r", 1), ("s", 2)):
        draft = Draft(message=id_, request=Request(id_, since))
        draft.upsert("place", [{"id": key, "name": id_}])
        assert isinstance(first.publish(draft), Published)
    again = Draft(message="r", request=Request("r", since))
    again.upsert("place", [{"id": 1, "name": "r"}])
    other.refresh()
    assert isinstance(other.publish(again), Published)
    return sum(manifest.message == "r" for manifest in other.log())


@both("requests-recorded")
def test_requests_recorded(name: str | None) -> None:
    """Nobody can know that a request was published: whoever gets it again publishes it again."""
    assert send_again(name) == (1 if name is None else 2)


@both("requests-searched")
def test_requests_searched(name: str | None) -> None:
    """The newest manifest does not show the request, and the one before it was not read."""
    assert send_again(name) == (1 if name is None else 2)


@both("inbound-check-on-removal")
def test_inbound_check_on_removal(name: str | None) -> None:
    """With no concurrency at all, an overwrite drops a row that an edge points at."""
    catalog = claim(graph(), name)
    add(catalog, "knows", {"id": 1, "a": 1, "b": 2})
    for remove in (
        lambda draft: draft.overwrite("person", PERSON[:1]),
        lambda draft: draft.delete("person", [2]),
    ):
        draft = catalog.draft()
        remove(draft)
        if name is None:
            with pytest.raises(Dangling, match=r"row 2 of table person cannot be removed: knows\.b points"):
                catalog.publish(draft)
        else:
            catalog.publish(draft)
            assert dangling(catalog)
            break


@pytest.fixture
def inner() -> MemoryStore:
    return graph()


def commit_and_clean(inner: MemoryStore, name: str | None) -> int:
    """Commit four times to another table and retain one manifest; returns how many were deleted."""
    others = join(inner, name, "others")
    for number in range(4):
        add(others, "place", {"id": number, "name": "x"})
    deleted = others.cleanup(keep=1).manifests
    others.close()
    return deleted


@both("boundary-check-after-sidecar")
def test_boundary_check_after_sidecar(inner: MemoryStore, name: str | None) -> None:
    """A cleanup before the sidecar could not see it, and deletes the id that the writer then creates."""
    script = Scripted(inner)
    stalled = join(script, name, "stalled")
    script.before("put", "recovery/", lambda: commit_and_clean(inner, name))
    result = add(stalled, "person", CYD)
    assert script.spent
    assert isinstance(result, Published)
    assert ("Cyd" in names(inner)) is (name is None), "acknowledged, but absent"


@both("manifests-held-for-plans")
def test_manifests_held_for_plans(inner: MemoryStore, name: str | None) -> None:
    """A cleanup after the sidecar deletes the id that a stalled writer creates: a false success."""
    script = Scripted(inner)
    stalled = join(script, name, "stalled")
    base = stalled.manifest.id
    deleted: list[int] = []
    script.before("put", MANIFEST, lambda: deleted.append(commit_and_clean(inner, name)))
    result = add(stalled, "person", CYD)
    assert deleted[0] == (base if name is None else base + 3), "all up to the base of the plan"
    assert isinstance(result, Published)
    assert ("Cyd" in names(inner)) is (name is None), "acknowledged, but absent"
    stalled.close()
    again = join(inner, None).cleanup(keep=1).manifests
    assert name is not None or again >= 3, "when the plan is over, nothing is kept for it"


@both("retired-plans-recorded")
def test_retired_plans_recorded(inner: MemoryStore, name: str | None) -> None:
    """Recovery retires the sidecar of a writer that is alive and fenced. Then nothing keeps its next id."""
    script = Scripted(inner)
    stalled = claim(script, name, "stalled")

    def meanwhile() -> None:
        (notice,) = claim(inner, name, "heir").notices
        assert (notice.classified, notice.done) == ("no movement", "retired")
        commit_and_clean(inner, name)

    script.within("get", "branch/main/boundary", meanwhile)
    result = add(stalled, "person", CYD)
    assert isinstance(result, Unknown if name is None else Published), "acknowledged, but absent"
    assert script.spent
    assert "Cyd" not in names(inner)


def test_a_writer_that_reaches_beyond_the_held_ids_looks_at_the_boundary_again(inner: MemoryStore) -> None:
    """Cleanup keeps a few ids for a plan, so that a crashed writer does not hold up all cleanup."""
    script = Scripted(inner)
    slow = join(script, None, "slow")
    others = join(inner, None, "others")

    def meanwhile() -> None:
        for number in range(HELD_MAX + 4):
            add(others, "place", {"id": number, "name": "x"})

    script.before("put", MANIFEST, meanwhile)
    script.before(
        "put", f"{MANIFEST}{slow.manifest.id + HELD_MAX + 5:020d}", lambda: commit_and_upsert(inner)
    )
    result = add(slow, "person", CYD)
    assert script.spent
    assert isinstance(result, Published)
    assert "Cyd" in names(inner)


def commit_and_upsert(inner: MemoryStore) -> None:
    others = join(inner, None, "others")
    for number in range(3):
        others.write(lambda txn, n=number: txn.upsert("place", [{"id": n, "name": "y"}]))
    others.cleanup(keep=1)


@both("boundary-check-after-create")
def test_boundary_check_after_create(inner: MemoryStore, name: str | None) -> None:
    """The same happens to a writer that finds the boundary too far ahead, and does not look at it again."""
    script = Scripted(inner)
    stalled = join(script, name, "stalled")
    script.before("put", "recovery/", lambda: commit_and_clean(inner, name))
    result = add(stalled, "person", CYD)
    assert script.spent
    assert isinstance(result, Published)
    assert ("Cyd" in names(inner)) is (name is None), "acknowledged, but absent"


@both("read-back-on-unknown")
def test_read_back_on_unknown(name: str | None) -> None:
    """A lost reply is reported as a failure, and the user tries again: published twice."""
    inner = graph()
    faulty = Faulty(inner, [Fault(Effect.REPLY_LOST, kinds={"put"}, prefix=MANIFEST, times=1)])
    writer = join(faulty, name)
    writer.write(lambda txn: txn.upsert("person", [CYD]), message="greet Cyd")
    assert faulty.struck
    published = [manifest for manifest in writer.log() if manifest.message == "greet Cyd"]
    assert len(published) == (1 if name is None else 2)


@both("late-head")
def test_late_head(name: str | None) -> None:
    """A fenced zombie's head lands after its sidecar was retired; the next writer must survive it."""
    inner = graph()
    faulty = Faulty(inner, [Fault(Effect.LATE, kinds={"put"}, prefix="table/person", times=1, delay=10**6)])
    script = Scripted(faulty)
    zombie = claim(script, name, "zombie")
    script.crash_after("put", "table/person")
    with pytest.raises(Crashed):
        add(zombie, "person", CYD)
    heir = claim(inner, name, "heir")
    assert [(n.classified, n.done) for n in heir.notices] == [("no movement", "retired")]
    faulty.land_all()
    if name is None:
        assert isinstance(add(heir, "person", DAN), Published)
        assert names(inner) == ["Ada", "Bob", "Dan"]
    else:
        with pytest.raises(HeadAhead, match="ahead of the manifest"):
            add(heir, "person", DAN)
        with pytest.raises(HeadAhead, match="ahead of the manifest"):
            add(claim(inner, name, "the one after"), "person", DAN)
