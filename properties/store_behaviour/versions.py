"""Versions and delete markers, and stores without them."""

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Outcome, Store, Unsupported
from fencepost.properties.store_behaviour.parts import (
    all_keys,
    begun,
    expect,
    holds,
    info_of,
    pages_of,
    refuses,
    stored,
)


class Unversioned:
    """A store that keeps the current object only."""

    def test_it_says_so(self, store: Store) -> None:
        assert store.versioned() is False

    def test_replies_name_no_version(self, store: Store) -> None:
        assert store.put("k", b"v", when=ANYTHING).version == ""
        assert info_of(store.get("k")).version == info_of(store.head("k")).version == ""
        gone = store.delete("k", when=ANYTHING)
        assert (gone.version, gone.marker) == ("", False)

    def test_a_completed_upload_names_no_version(self, store: Store) -> None:
        upload, parts = begun(store)
        assert store.complete_upload("k", upload, parts, when=ANYTHING).version == ""

    def test_listing_versions_is_not_supported(self, store: Store) -> None:
        stored(store, "k")
        refuses(lambda: store.get("k", version="v1"), Unsupported)
        refuses(lambda: store.head("k", version="v1"), Unsupported)
        refuses(lambda: store.delete("k", when=ANYTHING, version="v1"), Unsupported)
        refuses(lambda: store.list_versions(), Unsupported)
        holds(store, "k", b"body")


def put(store: Store, key: str, body: bytes) -> str:
    """Write `key`; the version it became."""
    reply = store.put(key, body, when=ANYTHING)
    expect(reply, Outcome.DONE)
    assert reply.version
    return reply.version


def marked(store: Store, key: str) -> str:
    """Delete `key`; the version of the marker it left."""
    reply = store.delete(key, when=ANYTHING)
    expect(reply, Outcome.DONE)
    assert reply.marker
    assert reply.version
    return reply.version


class Versioned:
    """A store that keeps every version."""

    def test_it_says_so(self, store: Store) -> None:
        assert store.versioned() is True

    def test_every_write_is_a_version(self, store: Store) -> None:
        versions = [put(store, "k", b"same") for _ in range(3)]
        assert len(set(versions)) == 3
        assert info_of(store.get("k")).version == info_of(store.head("k")).version == versions[-1]

    def test_a_completed_upload_is_a_version(self, store: Store) -> None:
        upload, parts = begun(store)
        reply = store.complete_upload("k", upload, parts, when=ANYTHING)
        assert reply.version
        assert info_of(store.get("k")).version == reply.version

    def test_overwritten_versions_stay_readable(self, store: Store) -> None:
        first, second = put(store, "k", b"first"), put(store, "k", b"second")
        assert store.get("k", version=first).body == b"first"
        assert store.get("k", version=second).body == b"second"
        assert store.get("k", version=first, start=1, stop=3).body == b"ir"
        info = info_of(store.head("k", version=first))
        assert (info.version, info.size) == (first, 5)

    def test_a_version_that_never_was_is_missing(self, store: Store) -> None:
        version = put(store, "k", b"v")
        store.delete("k", when=ANYTHING, version=version)
        expect(store.get("k", version=version), Outcome.MISSING)
        expect(store.head("k", version=version), Outcome.MISSING)

    def test_deleting_leaves_a_marker(self, store: Store) -> None:
        version = put(store, "k", b"v")
        marker = marked(store, "k")
        assert marker != version
        holds(store, "k", None)
        assert all_keys(store) == []
        assert store.get("k", version=version).body == b"v"

    def test_a_marker_is_no_object(self, store: Store) -> None:
        put(store, "k", b"v")
        marker = marked(store, "k")
        expect(store.get("k", version=marker), Outcome.MISSING)
        expect(store.head("k", version=marker), Outcome.MISSING)

    def test_deleting_nothing_leaves_a_marker_too(self, store: Store) -> None:
        marked(store, "k")

    def test_deleting_if_match_leaves_a_marker(self, store: Store) -> None:
        etag = store.put("k", b"v", when=ANYTHING).etag
        reply = store.delete("k", when=Matches(etag))
        assert (reply.outcome, reply.marker) == (Outcome.DONE, True)

    def test_deleting_the_marker_brings_the_object_back(self, store: Store) -> None:
        put(store, "k", b"v")
        marker = marked(store, "k")
        reply = store.delete("k", when=ANYTHING, version=marker)
        assert (reply.outcome, reply.version, reply.marker) == (Outcome.DONE, marker, True)
        holds(store, "k", b"v")

    def test_deleting_the_latest_version_brings_the_one_before_back(self, store: Store) -> None:
        put(store, "k", b"first")
        second = put(store, "k", b"second")
        reply = store.delete("k", when=ANYTHING, version=second)
        assert (reply.outcome, reply.version, reply.marker) == (Outcome.DONE, second, False)
        holds(store, "k", b"first")

    def test_deleting_an_old_version_leaves_the_latest(self, store: Store) -> None:
        first = put(store, "k", b"first")
        put(store, "k", b"second")
        store.delete("k", when=ANYTHING, version=first)
        holds(store, "k", b"second")
        expect(store.get("k", version=first), Outcome.MISSING)

    def test_conditions_see_the_current_version_only(self, store: Store) -> None:
        old = store.put("k", b"old", when=ANYTHING).etag
        new = store.put("k", b"new", when=ANYTHING).etag
        expect(store.put("k", b"x", when=Matches(old)), Outcome.CHANGED)
        expect(store.put("k", b"x", when=Matches(new)), Outcome.DONE)

    def test_a_marker_counts_as_nothing_there(self, store: Store) -> None:
        etag = store.put("k", b"v", when=ANYTHING).etag
        marked(store, "k")
        expect(store.put("k", b"x", when=Matches(etag)), Outcome.MISSING)
        expect(store.put("k", b"x", when=ABSENT), Outcome.DONE)

    def test_versions_are_listed_newest_first(self, store: Store) -> None:
        one, two = put(store, "a", b"1"), put(store, "a", b"22")
        three = marked(store, "a")
        four = put(store, "a", b"4444")
        page = store.list_versions()
        expect(page, Outcome.DONE)
        rows = [(info.version, info.marker, info.latest, info.size) for info in page.versions]
        expected = [(four, False, True, 4), (three, True, False, 0), (two, False, False, 2)]
        assert rows == [*expected, (one, False, False, 1)]

    def test_versions_are_listed_by_key(self, store: Store) -> None:
        put(store, "b", b"")
        marked(store, "a")
        put(store, "b", b"")
        put(store, "a b+ü", b"")
        assert [info.key for info in store.list_versions().versions] == ["a", "a b+ü", "b", "b"]

    def test_versions_are_listed_by_prefix(self, store: Store) -> None:
        for key in ("a/1", "b/1", "a/2"):
            put(store, key, b"")
        assert [info.key for info in store.list_versions("a/").versions] == ["a/1", "a/2"]

    def test_versions_are_listed_in_pages(self, store: Store) -> None:
        made = [put(store, key, b"") for key in ("a", "a", "b", "b", "c")] + [marked(store, "b")]
        pages = pages_of(lambda token: store.list_versions(limit=2, token=token))
        assert all(len(page.versions) <= 2 for page in pages)
        found = [info for page in pages for info in page.versions]
        assert sorted(info.key for info in found) == ["a", "a", "b", "b", "b", "c"]
        assert {info.version for info in found} == set(made)
