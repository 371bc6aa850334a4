"""Multipart uploads, and what a condition on completing one looks at."""

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Misuse, Outcome, Store
from fencepost.properties.store_behaviour.parts import (
    OTHER,
    begun,
    case,
    expect,
    holds,
    info_of,
    keys_of,
    pages_of,
    refuses,
    stored,
)

MIB = 1024 * 1024


class Uploads:
    def test_an_upload_becomes_an_object(self, store: Store) -> None:
        upload = store.create_upload("k", content_type="text/x-a", metadata={"a": "b"}).upload
        part = store.upload_part("k", upload, 1, b"body")
        reply = store.complete_upload("k", upload, [(1, part.etag)], when=ANYTHING)
        expect(reply, Outcome.DONE)
        got = store.get("k")
        info = info_of(got)
        assert (got.body, info.etag, info.size) == (b"body", reply.etag, 4)
        assert (info.content_type, dict(info.metadata)) == ("text/x-a", {"a": "b"})

    def test_its_etag_serves_as_a_condition(self, store: Store) -> None:
        upload, parts = begun(store)
        etag = store.complete_upload("k", upload, parts, when=ANYTHING).etag
        expect(store.put("k", b"new", when=Matches(etag)), Outcome.DONE)

    def test_parts_are_joined_in_order_of_their_numbers(self, store: Store) -> None:
        upload = store.create_upload("k").upload
        last = store.upload_part("k", upload, 7, b"end")
        first = store.upload_part("k", upload, 2, b"s" * 5 * MIB)
        expect(
            store.complete_upload("k", upload, [(2, first.etag), (7, last.etag)], when=ABSENT), Outcome.DONE
        )
        holds(store, "k", b"s" * 5 * MIB + b"end")

    def test_parts_that_are_not_named_are_left_out(self, store: Store) -> None:
        upload, parts = begun(store)
        store.upload_part("k", upload, 2, b"left out")
        store.complete_upload("k", upload, parts, when=ANYTHING)
        holds(store, "k", b"new")

    def test_a_repeated_part_replaces_the_first(self, store: Store) -> None:
        upload, old = begun(store)
        new = store.upload_part("k", upload, 1, b"again")
        refuses(lambda: store.complete_upload("k", upload, old, when=ANYTHING), Misuse)
        store.complete_upload("k", upload, [(1, new.etag)], when=ANYTHING)
        holds(store, "k", b"again")

    def test_an_upload_is_not_there_until_it_is_completed(self, store: Store) -> None:
        begun(store)
        holds(store, "k", None)
        assert keys_of(store.list()) == []
        expect(store.put("k", b"v", when=ABSENT), Outcome.DONE)

    def test_two_uploads_of_a_key_are_two(self, store: Store) -> None:
        first, first_parts = begun(store, body=b"first")
        second, second_parts = begun(store, body=b"second")
        assert first != second
        expect(store.complete_upload("k", second, second_parts, when=ANYTHING), Outcome.DONE)
        expect(store.complete_upload("k", first, first_parts, when=ANYTHING), Outcome.DONE)
        holds(store, "k", b"first")

    # The key's history, the request and its condition, its outcome, and the body that it leaves.

    test_complete_if_absent_where_nothing_is = case("begin", "complete", "absent", Outcome.DONE, b"new")
    test_complete_if_absent_where_something_is = case(
        "old begin", "complete", "absent", Outcome.EXISTS, b"old"
    )
    test_complete_if_absent_after_a_put_came_between = case(
        "begin between", "complete", "absent", Outcome.EXISTS, b"between"
    )
    test_complete_if_match_on_the_same = case("old begin", "complete", "old", Outcome.DONE, b"new")
    test_complete_if_match_on_another = case("old begin", "complete", "other", Outcome.CHANGED, b"old")
    test_complete_if_match_where_nothing_is = case("begin", "complete", "other", Outcome.MISSING, None)
    test_complete_if_match_on_an_etag_overwritten_since = case(
        "old begin between", "complete", "old", Outcome.CHANGED, b"between"
    )
    # Any write since the upload began is a conflict, even if its ETag is the one named.
    test_complete_if_match_on_the_etag_written_since = case(
        "old begin between", "complete", "between", Outcome.CONFLICT, b"between"
    )
    test_complete_if_match_after_the_same_bytes_were_written = case(
        "old begin old", "complete", "old", Outcome.CONFLICT, b"old"
    )
    test_complete_if_match_after_a_delete = case("old begin delete", "complete", "old", Outcome.MISSING, None)
    test_complete_if_match_after_a_delete_and_the_same_again = case(
        "old begin delete old", "complete", "old", Outcome.CONFLICT, b"old"
    )
    test_completing_twice_finds_it_gone = case("begin complete", "complete", "anything", Outcome.GONE, b"new")
    test_a_completed_upload_takes_no_parts = case("begin complete", "part", "anything", Outcome.GONE, b"new")
    test_a_completed_upload_cannot_be_aborted = case(
        "begin complete", "abort", "anything", Outcome.GONE, b"new"
    )
    test_an_aborted_upload_is_gone = case("begin abort", "complete", "anything", Outcome.GONE, None)
    test_an_aborted_upload_takes_no_parts = case("begin abort", "part", "anything", Outcome.GONE, None)
    test_aborting_twice_finds_it_gone = case("begin abort", "abort", "anything", Outcome.GONE, None)

    def test_complete_if_absent_after_a_delete_came_between(self, store: Store) -> None:
        """A conflict, and again however often it is sent: only a new upload can succeed."""
        stored(store, "k", b"old")
        upload, parts = begun(store)
        store.delete("k", when=ANYTHING)
        expect(store.complete_upload("k", upload, parts, when=ABSENT), Outcome.CONFLICT)
        expect(store.complete_upload("k", upload, parts, when=ABSENT), Outcome.CONFLICT)
        holds(store, "k", None)
        upload, parts = begun(store)
        expect(store.complete_upload("k", upload, parts, when=ABSENT), Outcome.DONE)

    def test_a_refused_completion_leaves_the_upload(self, store: Store) -> None:
        stored(store, "k", b"old")
        upload, parts = begun(store)
        expect(store.complete_upload("k", upload, parts, when=ABSENT), Outcome.EXISTS)
        expect(store.complete_upload("k", upload, parts, when=ANYTHING), Outcome.DONE)

    def test_parts_that_were_not_uploaded_are_refused(self, store: Store) -> None:
        upload, parts = begun(store)
        refuses(lambda: store.complete_upload("k", upload, [(2, parts[0][1])], when=ANYTHING), Misuse)
        refuses(lambda: store.complete_upload("k", upload, [(1, OTHER)], when=ANYTHING), Misuse)
        holds(store, "k", None)

    def test_a_small_part_before_the_last_is_refused(self, store: Store) -> None:
        upload = store.create_upload("k").upload
        parts = [(n, store.upload_part("k", upload, n, b"small").etag) for n in (1, 2)]
        refuses(lambda: store.complete_upload("k", upload, parts, when=ANYTHING), Misuse)

    # Listing.

    def test_uploads_are_listed_until_they_end(self, store: Store) -> None:
        first, parts = begun(store, "a b+ü")
        second, _ = begun(store, "b")
        page = store.list_uploads()
        assert {(info.key, info.upload) for info in page.uploads} == {("a b+ü", first), ("b", second)}
        assert all(info.started_ns > 0 for info in page.uploads)
        store.complete_upload("a b+ü", first, parts, when=ANYTHING)
        store.abort_upload("b", second)
        assert store.list_uploads().uploads == ()

    def test_uploads_are_listed_by_prefix(self, store: Store) -> None:
        for key in ("a/1", "a/2", "b"):
            begun(store, key)
        assert {info.key for info in store.list_uploads("a/").uploads} == {"a/1", "a/2"}

    def test_uploads_are_listed_by_key(self, store: Store) -> None:
        for key in ("d", "b", "a", "e", "c"):
            begun(store, key)
        assert [info.key for info in store.list_uploads().uploads] == ["a", "b", "c", "d", "e"]

    def test_uploads_are_listed_in_pages(self, store: Store) -> None:
        made = [begun(store, key)[0] for key in ("a", "b", "b", "c")]
        pages = pages_of(lambda token: store.list_uploads(limit=1, token=token))
        assert all(len(page.uploads) <= 1 for page in pages)
        found = [info for page in pages for info in page.uploads]
        assert sorted(info.key for info in found) == ["a", "b", "b", "c"]
        assert {info.upload for info in found} == set(made)
