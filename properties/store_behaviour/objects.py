"""Writing and deleting one object: each condition on a missing, an existing and a deleted key."""

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Outcome, Store
from fencepost.properties.store_behaviour.parts import expect, holds, info_of, stored

OTHER = "0123456789abcdef0123456789abcdef"
"""An ETag that no object has."""


class Objects:
    """Put and delete."""

    def test_what_was_put_is_read(self, store: Store) -> None:
        reply = store.put(
            "k", b"v", when=ANYTHING, content_type="text/x-a", metadata={"a-b": "C d", "n": "1"}
        )
        expect(reply, Outcome.DONE)
        got = store.get("k")
        info = info_of(got)
        assert got.body == b"v"
        assert (info.key, info.etag, info.size) == ("k", reply.etag, 1)
        assert info.content_type == "text/x-a"
        assert dict(info.metadata) == {"a-b": "C d", "n": "1"}
        assert info.modified_ns > 0

    def test_head_tells_what_get_tells(self, store: Store) -> None:
        store.put("k", b"v", when=ANYTHING, content_type="text/x-a", metadata={"a": "b"})
        assert info_of(store.head("k")) == info_of(store.get("k"))

    def test_a_missing_key_is_missing(self, store: Store) -> None:
        expect(store.get("k"), Outcome.MISSING)
        expect(store.head("k"), Outcome.MISSING)

    def test_overwriting_replaces_attributes_too(self, store: Store) -> None:
        store.put("k", b"v", when=ANYTHING, content_type="text/x-a", metadata={"a": "b"})
        store.put("k", b"w", when=ANYTHING)
        info = info_of(store.head("k"))
        assert info.content_type == "application/octet-stream"
        assert dict(info.metadata) == {}

    def test_an_empty_body_is_an_object(self, store: Store) -> None:
        etag = stored(store, "k", b"")
        info = info_of(store.get("k"))
        assert (info.size, info.etag) == (0, etag)
        expect(store.put("k", b"", when=ABSENT), Outcome.EXISTS)
        expect(store.put("k", b"v", when=Matches(etag)), Outcome.DONE)

    def test_bodies_are_bytes(self, store: Store) -> None:
        body = bytes(range(256)) * 4097
        stored(store, "k", body)
        holds(store, "k", body)

    def test_etags_tell_bodies_apart(self, store: Store) -> None:
        assert stored(store, "k", b"a") != stored(store, "k", b"b")

    def test_the_same_bytes_restore_the_etag(self, store: Store) -> None:
        """Why a body that is compared and swapped needs a nonce."""
        first = stored(store, "k", b"a")
        stored(store, "k", b"b")
        assert stored(store, "k", b"a") == first

    def test_put_if_absent_where_nothing_is(self, store: Store) -> None:
        expect(store.put("k", b"v", when=ABSENT), Outcome.DONE)
        holds(store, "k", b"v")

    def test_put_if_absent_where_something_is(self, store: Store) -> None:
        stored(store, "k", b"old")
        expect(store.put("k", b"new", when=ABSENT), Outcome.EXISTS)
        holds(store, "k", b"old")

    def test_put_if_absent_over_the_same_bytes(self, store: Store) -> None:
        stored(store, "k", b"same")
        expect(store.put("k", b"same", when=ABSENT), Outcome.EXISTS)

    def test_put_if_absent_where_something_was(self, store: Store) -> None:
        stored(store, "k", b"old")
        store.delete("k", when=ANYTHING)
        expect(store.put("k", b"new", when=ABSENT), Outcome.DONE)
        holds(store, "k", b"new")

    def test_put_if_match_on_the_same(self, store: Store) -> None:
        etag = stored(store, "k", b"old")
        expect(store.put("k", b"new", when=Matches(etag)), Outcome.DONE)
        holds(store, "k", b"new")

    def test_put_if_match_on_another(self, store: Store) -> None:
        stored(store, "k", b"old")
        expect(store.put("k", b"new", when=Matches(OTHER)), Outcome.CHANGED)
        holds(store, "k", b"old")

    def test_put_if_match_on_an_overwritten_etag(self, store: Store) -> None:
        etag = stored(store, "k", b"old")
        stored(store, "k", b"between")
        expect(store.put("k", b"new", when=Matches(etag)), Outcome.CHANGED)
        holds(store, "k", b"between")

    def test_put_if_match_where_nothing_is(self, store: Store) -> None:
        expect(store.put("k", b"new", when=Matches(OTHER)), Outcome.MISSING)
        holds(store, "k", None)

    def test_put_if_match_where_something_was(self, store: Store) -> None:
        etag = stored(store, "k", b"old")
        store.delete("k", when=ANYTHING)
        expect(store.put("k", b"new", when=Matches(etag)), Outcome.MISSING)
        holds(store, "k", None)

    def test_delete_removes(self, store: Store) -> None:
        stored(store, "k")
        expect(store.delete("k", when=ANYTHING), Outcome.DONE)
        holds(store, "k", None)

    def test_delete_of_nothing_is_done(self, store: Store) -> None:
        expect(store.delete("k", when=ANYTHING), Outcome.DONE)

    def test_delete_if_match_on_the_same(self, store: Store) -> None:
        etag = stored(store, "k")
        expect(store.delete("k", when=Matches(etag)), Outcome.DONE)
        holds(store, "k", None)

    def test_delete_if_match_on_another(self, store: Store) -> None:
        stored(store, "k", b"v")
        expect(store.delete("k", when=Matches(OTHER)), Outcome.CHANGED)
        holds(store, "k", b"v")

    def test_delete_if_match_where_nothing_is(self, store: Store) -> None:
        expect(store.delete("k", when=Matches(OTHER)), Outcome.MISSING)

    def test_delete_if_match_where_something_was(self, store: Store) -> None:
        etag = stored(store, "k")
        store.delete("k", when=ANYTHING)
        expect(store.delete("k", when=Matches(etag)), Outcome.MISSING)
