"""Requests that are sent again: published once, whoever publishes them, or answered with the right error."""

import dataclasses
from typing import Any

import pytest

from fencepost.impl.publish import Catalog, Draft, Forgotten, Invalid, Published, StaleView, Unknown
from fencepost.impl.publish import requests as module
from fencepost.impl.publish.errors import Unchanged
from fencepost.impl.publish.requests import Request
from fencepost.impl.store.layers import Metered
from fencepost.impl.store.memory import MemoryStore

from .scripted import Crashed, Scripted, graph, without

MANIFEST = "branch/main/manifest/"


def draft(id_: str, *verbs: tuple[str, str, Any], since: int = 0, digest: str = "") -> Draft:
    made = Draft(message=id_, request=Request(id_, since, digest))
    for verb, table, items in verbs:
        getattr(made, verb)(table, items)
    return made


def place(id_: str, key: int, **more: Any) -> Draft:
    return draft(id_, ("upsert", "place", [{"id": key, "name": id_}]), **more)


def joined(store: Any, name: str | None = None) -> Catalog:
    return Catalog.open(store, author="w", mode="join", safeguards=without(name))


def times(store: MemoryStore, id_: str) -> int:
    with Catalog.open(store, mode="read") as reader:
        return sum(one.id == id_ for manifest in reader.log() for one in manifest.requests)


def test_a_request_is_published_once_by_one_handle_and_by_another() -> None:
    store = graph()
    first = joined(store)
    ended = first.publish(place("r", 1))
    assert isinstance(ended, Published)
    for other in (first, joined(store)):
        other.refresh()
        other.publish(place(f"else {id(other)}", 2))
        assert other.publish(place("r", 1)) == Published(ended.id, ended.plan)
    assert times(store, "r") == 1


def test_a_request_that_was_committed_while_another_handle_was_behind_is_found() -> None:
    """The other handle's view ends before the commit: its plan is refused, and the next one finds it."""
    store = graph()
    first, behind = joined(store), joined(store)
    since = behind.manifest.id
    assert isinstance(first.publish(place("r", 1, since=since)), Published)
    with pytest.raises(StaleView):
        behind.publish(place("r", 1, since=since))
    assert isinstance(behind.publish(place("r", 1, since=since)), Published)
    assert times(store, "r") == 1


def test_the_same_request_twice_in_a_group_is_published_once() -> None:
    store = graph()
    catalog = joined(store)
    ends = catalog.publish_all([place("r", 1), place("s", 2), place("r", 1)])
    assert ends[0] == ends[2]
    assert isinstance(ends[0], Published)
    assert times(store, "r") == 1


def test_a_refused_request_refuses_its_twin_alike() -> None:
    catalog = joined(graph())
    bad = [draft("r", ("append", "nowhere", [{"id": 1}])) for _ in range(2)]
    ends = catalog.publish_all([*bad, place("s", 1)])
    assert [type(end).__name__ for end in ends] == ["Absent", "Absent", "Committed"]
    assert isinstance(catalog.publish(place("r", 1)), Published), "it was not published, so its id is free"


@pytest.mark.parametrize("together", [True, False])
def test_an_id_that_is_used_for_other_changes_is_refused(together: bool) -> None:
    catalog = joined(graph())
    one, other = place("r", 1, digest="a"), place("r", 2, digest="b")
    if together:
        ends = catalog.publish_all([one, other])
        assert isinstance(ends[0], Published)
        assert isinstance(ends[1], Invalid)
    else:
        catalog.publish(one)
        with pytest.raises(Invalid, match="with other changes"):
            catalog.publish(other)
    assert catalog.snapshot().get("place", 2) is None


def test_a_request_that_changes_nothing_is_not_recorded() -> None:
    """It could be carried out later, in another plan, and neither plan would exclude the other."""
    store = graph()
    catalog = joined(store)
    ends = catalog.publish_all([draft("r", ("delete", "place", [7])), draft("s", ("delete", "person", [2]))])
    assert isinstance(ends[0], Unchanged)
    assert isinstance(ends[1], Published)
    assert times(store, "r") == 0


def test_plans_with_the_same_request_exclude_each_other_whatever_they_find() -> None:
    """Each of two plans finds a row of one table only. Without the pins of both tables both would commit."""
    store = graph()
    both = (("delete", "place", [1]), ("delete", "person", [7]))
    founder, slow = joined(store), Scripted(store)
    behind = joined(slow)
    group = [draft("new", ("append", "person", [{"id": 7, "name": "Gil"}])), draft("r", *both)]

    def others() -> None:
        founder.publish(place("p", 1))
        assert isinstance(founder.publish(draft("r", *both)), Published)

    slow.before("put", MANIFEST, others)
    with pytest.raises(StaleView, match="place, which this write relied on"):
        behind.publish_all(group)
    assert all(isinstance(end, Published) for end in behind.publish_all(group))
    assert times(store, "r") == 1
    assert behind.snapshot().get("person", 7) is not None


def test_a_request_whose_plan_recovery_rolled_forward_is_found() -> None:
    """The writer died before its manifest; the plan has the record, so recovery writes it too."""
    store = graph()
    dying = Scripted(store)
    dying.crash_before("put", MANIFEST)
    with pytest.raises(Crashed):
        joined(dying).publish(place("r", 1))
    heir = Catalog.open(store, author="heir")
    assert [notice.done for notice in heir.notices] == ["rolled-forward"]
    ended = heir.publish(place("r", 1))
    assert isinstance(ended, Published)
    assert ended.id < heir.manifest.id + 1
    assert times(store, "r") == 1


def test_a_request_older_than_what_a_cleanup_left_is_not_guessed() -> None:
    store = graph()
    catalog = joined(store)
    since = catalog.manifest.id
    catalog.publish(place("r", 1, since=since))
    for number in range(5):
        catalog.publish(place(f"more {number}", 2))
    catalog.cleanup(keep=2)
    assert isinstance(catalog.publish(place("r", 1, since=since)), Published), "this process has read it"
    with pytest.raises(Forgotten, match="cleaned up"):
        joined(store).publish(place("r", 1, since=since))
    assert isinstance(joined(store).publish(place("new", 1, since=catalog.manifest.id)), Published)


def test_a_manifest_that_is_not_there_yet_is_no_beginning() -> None:
    catalog = joined(graph())
    with pytest.raises(Invalid, match="has no manifest 99"):
        catalog.publish(place("r", 1, since=99))


def test_memory_is_bounded_and_what_left_it_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 4)
    store = graph()
    catalog = joined(store)
    since = catalog.manifest.id
    for number in range(10):
        catalog.publish(place(f"r {number}", number, since=catalog.manifest.id))
    assert len(catalog._requests._found) <= 5
    for number in range(10):
        assert isinstance(catalog.publish(place(f"r {number}", number, since=since)), Published)
    assert {times(store, f"r {number}") for number in range(10)} == {1}


def test_a_search_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEARCHED_MAX", 2)
    store = graph()
    for number in range(5):
        catalog = joined(store)
        catalog.publish(place(f"r {number}", number, since=catalog.manifest.id))
    with pytest.raises(Forgotten):
        joined(store).publish(place("r 0", 0, since=2))


def test_a_request_costs_no_more_than_a_draft_without_one() -> None:
    metered = Metered(graph())
    catalog = Catalog.open(metered, author="w")
    catalog.publish(place("first", 1, since=catalog.manifest.id))
    with metered.operation("warm") as cost:
        catalog.publish(place("second", 1, since=catalog.manifest.id))
    assert (cost.serial_hops, cost.requests) == (3, 7)


def test_an_unknown_commit_is_simply_sent_again() -> None:
    """The manifest may have landed or not: in both cases the same request ends as published, once."""
    for lands in (True, False):
        store = graph()
        script = Scripted(store)
        catalog = joined(script)
        (script.crash_after if lands else script.crash_before)("put", MANIFEST)
        with pytest.raises(Crashed):
            catalog.publish(place("r", 1))
        other = Catalog.open(store, author="other", mode="join", stuck_after_s=0.0)
        ends: list[Any] = []
        for _ in range(4):
            try:
                ends.append(other.publish(place("r", 1)))
            except StaleView as error:
                ends.append(error)
        assert isinstance(ends[-1], Published)
        assert not any(isinstance(end, Unknown) for end in ends)
        assert times(store, "r") == 1


def test_documents_without_requests_do_not_mention_them() -> None:
    store = graph()
    catalog = joined(store)
    with catalog.transaction() as txn:
        txn.append("place", [{"id": 1, "name": "x"}])
    assert not any(b'"requests"' in body for body in dict(store.contents()).values())
    assert dataclasses.replace(catalog.manifest, requests=()) == catalog.manifest
