"""Every store behaves alike, but for what is declared here.

A deviation names a test of the suite and says why this store fails it. Those tests must fail: when a
store heals, its line has to go.
"""

import itertools
import os
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from fencepost.impl.store import ANYTHING, Store, open_store
from fencepost.impl.store import requests as ask
from fencepost.impl.store.memory import MemoryStore
from fencepost.properties.store_behaviour import StoreBehaviour, VersionedStoreBehaviour


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store of the backend of this class; its declared deviations are expected to fail."""
    behaviour = request.cls
    name = request.function.__name__
    if name in behaviour.deviations:
        mark = pytest.mark.xfail(reason=behaviour.deviations[name], strict=True)
        request.applymarker(mark)
    with behaviour.open(request) as store:
        yield store


def directory(request: pytest.FixtureRequest) -> Store:
    """A new directory."""
    return open_store(request.getfixturevalue("tmp_path").as_uri())


_count = itertools.count(1)
_buckets: dict[tuple[str, bool], str] = {}


def endpoint(name: str, *, versioned: bool = False) -> Any:
    """Opens a place of its own in a bucket of the server that the fixture `name` gives."""

    def opened(request: pytest.FixtureRequest) -> Store:
        server = request.getfixturevalue(name)
        if (name, versioned) not in _buckets:
            _buckets[name, versioned] = server.bucket(versioned=versioned)
        return open_store(_buckets[name, versioned].replace("?", f"/test/{next(_count)}?"))

    return staticmethod(opened)


class TestMemory(StoreBehaviour):
    open = staticmethod(lambda request: MemoryStore())


class TestMemoryVersioned(VersionedStoreBehaviour):
    open = staticmethod(lambda request: MemoryStore(versioned=True))


FILES = {
    "test_a_small_part_before_the_last_is_refused": "files has no reason to refuse small parts",
}


class TestFiles(StoreBehaviour):
    open = staticmethod(directory)
    deviations = FILES


MOTO = {
    "test_complete_if_absent_after_a_delete_came_between": "moto never answers 409",
    "test_complete_if_match_on_another": "moto ignores If-Match on completing an upload",
    "test_complete_if_match_where_nothing_is": "moto ignores If-Match on completing an upload",
    "test_complete_if_match_on_an_etag_overwritten_since": "moto ignores If-Match on completing an upload",
    "test_complete_if_match_on_the_etag_written_since": "moto never answers 409",
    "test_complete_if_match_after_the_same_bytes_were_written": "moto never answers 409",
    "test_complete_if_match_after_a_delete": "moto ignores If-Match on completing an upload",
    "test_complete_if_match_after_a_delete_and_the_same_again": "moto never answers 409",
    "test_completing_twice_finds_it_gone": "moto completes a completed upload again",
    "test_a_completed_upload_takes_no_parts": "moto answers 500 for a part of no upload",
    "test_an_aborted_upload_is_gone": "moto answers 500 for completing no upload",
    "test_an_aborted_upload_takes_no_parts": "moto answers 500 for a part of no upload",
    "test_uploads_are_listed_in_pages": "moto lists all uploads on one page",
    "test_uploads_are_listed_by_key": "moto lists uploads as they were created",
    "test_control_characters": "moto does not route keys with a line end",
}
MOTO_VERSIONED = MOTO | {
    "test_a_group_of_what_was_deleted_is_gone": "moto lists the group of a deleted object",
    "test_deleting_nothing_leaves_a_marker_too": "moto leaves no marker for what was never there",
    "test_deleting_the_marker_brings_the_object_back": "moto does not say that it deleted a marker",
    "test_versions_are_listed_newest_first": "moto lists all versions, then all markers",
    "test_versions_are_listed_by_key": "moto lists all versions, then all markers",
}

NO_404 = "SeaweedFS answers 412 to If-Match where nothing is"
SEAWEEDFS_BOTH = {
    "test_put_if_match_where_nothing_is": NO_404,
    "test_put_if_match_where_something_was": NO_404,
    "test_delete_if_match_where_nothing_is": NO_404,
    "test_delete_if_match_where_something_was": NO_404,
    "test_complete_if_match_where_nothing_is": NO_404,
    "test_complete_if_match_after_a_delete": NO_404,
    "test_complete_if_absent_after_a_delete_came_between": "SeaweedFS never answers 409 to rivals",
    "test_complete_if_match_on_the_etag_written_since": "SeaweedFS never answers 409 to rivals",
    "test_complete_if_match_after_the_same_bytes_were_written": "SeaweedFS never answers 409 to rivals",
    "test_complete_if_match_after_a_delete_and_the_same_again": "SeaweedFS never answers 409 to rivals",
    "test_completing_twice_finds_it_gone": "SeaweedFS completes a completed upload again",
    "test_a_completed_upload_cannot_be_aborted": "SeaweedFS aborts what is not there",
    "test_aborting_twice_finds_it_gone": "SeaweedFS aborts what is not there",
    "test_a_repeated_part_replaces_the_first": "SeaweedFS takes the ETag of a part that was replaced",
    "test_uploads_are_listed_by_key": "SeaweedFS lists uploads by their identifiers",
    "test_pages_with_awkward_keys": "SeaweedFS lists in tree order",
    "test_backslashes": "SeaweedFS takes a backslash for a slash: two keys become one",
    "test_two_slashes_are_not_one": "SeaweedFS cleans paths: two keys become one",
    "test_a_slash_in_front_counts": "SeaweedFS cleans paths: two keys become one",
    "test_a_slash_at_the_end_counts": "SeaweedFS cleans paths: two keys become one",
    "test_a_long_segment": "SeaweedFS refuses names of more than 255 bytes",
}
SEAWEEDFS = SEAWEEDFS_BOTH | {
    "test_keys_come_in_order_of_their_bytes": "SeaweedFS refuses a key below another key",
    "test_a_group_of_what_was_deleted_is_gone": "SeaweedFS leaves empty folders behind for a while",
}
SEAWEEDFS_VERSIONED = SEAWEEDFS_BOTH | {
    "test_a_marker_counts_as_nothing_there": NO_404,
    "test_keys_come_in_order_of_their_unicode_bytes": "SeaweedFS lists versioned keys out of order",
}


class TestObjects(StoreBehaviour):
    open = endpoint("objects")
    deviations = {"test_completing_twice_finds_it_gone": "S3 repeats the answer of a completion for a while"}


class TestMoto(StoreBehaviour):
    open = endpoint("honest_moto")
    deviations = MOTO

    @pytest.mark.slow  # TestObjects sends as many requests
    def test_more_than_a_thousand_keys(self, store: Store) -> None:
        super().test_more_than_a_thousand_keys(store)


class TestMotoVersioned(VersionedStoreBehaviour):
    open = endpoint("honest_moto", versioned=True)
    deviations = MOTO_VERSIONED


@pytest.mark.server
class TestSeaweedFS(StoreBehaviour):
    open = endpoint("seaweedfs")
    deviations = SEAWEEDFS


@pytest.mark.server
class TestSeaweedFSVersioned(VersionedStoreBehaviour):
    open = endpoint("seaweedfs", versioned=True)
    deviations = SEAWEEDFS_VERSIONED


def given(request: pytest.FixtureRequest) -> Store:
    """Opens a place of its own in the store that FENCEPOST_TEST_STORE names, and empties it afterwards."""
    parts = urlsplit(request.getfixturevalue("given_store"))
    if parts.netloc or parts.path:
        place = f"fencepost-{os.getpid()}-{time.time_ns()}"
        parts = parts._replace(path=f"{parts.path.rstrip('/')}/{place}")
    store = open_store(urlunsplit(parts))
    versions = issubclass(request.cls, VersionedStoreBehaviour)
    if store.versioned() is not versions:
        store.close()
        pytest.skip(f"the given store keeps {'no ' if versions else ''}versions")
    request.addfinalizer(lambda: sweep(store))
    return store


def sweep(store: Store) -> None:
    """Remove all that a test left."""
    with store:
        for upload in store.list_uploads().uploads:
            store.abort_upload(upload.key, upload.upload)
        if store.versioned():
            for entry in store.list_versions().versions:
                store.delete(entry.key, when=ANYTHING, version=entry.version)
        else:
            for page in store.pages():
                store.send_all([ask.Delete(info.key, ANYTHING) for info in page.objects])


GIVEN = {
    name: "declared in FENCEPOST_TEST_DEVIATIONS"
    for name in os.environ.get("FENCEPOST_TEST_DEVIATIONS", "").split(",")
    if name
}


@pytest.mark.server
class TestGiven(StoreBehaviour):
    open = staticmethod(given)
    deviations = {name: why for name, why in GIVEN.items() if hasattr(StoreBehaviour, name)}


@pytest.mark.server
class TestGivenVersioned(VersionedStoreBehaviour):
    open = staticmethod(given)
    deviations = {name: why for name, why in GIVEN.items() if hasattr(VersionedStoreBehaviour, name)}


@pytest.mark.parametrize(
    "behaviour", [TestFiles, TestMoto, TestMotoVersioned, TestSeaweedFS, TestSeaweedFSVersioned]
)
def test_every_declared_deviation_names_a_test(behaviour: type[StoreBehaviour]) -> None:
    """A misspelt name would pin nothing."""
    assert [name for name in behaviour.deviations if not hasattr(behaviour, name)] == []
