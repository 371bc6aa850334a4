"""One object: writing, deleting and reading it under each condition; and the names that it may have."""

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Outcome, Store
from fencepost.properties.store_behaviour.parts import (
    OTHER,
    Line,
    all_keys,
    case,
    expect,
    holds,
    info_of,
    stored,
)


class Objects:
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

    # The key's history, the request and its condition, its outcome, and the body that it leaves.

    test_put_if_absent_where_nothing_is = case("", "put", "absent", Outcome.DONE, b"new")
    test_put_if_absent_where_something_is = case("old", "put", "absent", Outcome.EXISTS, b"old")
    test_put_if_absent_over_the_same_bytes = case("new", "put", "absent", Outcome.EXISTS, b"new")
    test_put_if_absent_where_something_was = case("old delete", "put", "absent", Outcome.DONE, b"new")
    test_put_if_match_on_the_same = case("old", "put", "old", Outcome.DONE, b"new")
    test_put_if_match_on_another = case("old", "put", "other", Outcome.CHANGED, b"old")
    test_put_if_match_on_an_overwritten_etag = case("old between", "put", "old", Outcome.CHANGED, b"between")
    test_put_if_match_where_nothing_is = case("", "put", "other", Outcome.MISSING, None)
    test_put_if_match_where_something_was = case("old delete", "put", "old", Outcome.MISSING, None)
    test_delete_removes = case("old", "delete", "anything", Outcome.DONE, None)
    test_delete_of_nothing_is_done = case("", "delete", "anything", Outcome.DONE, None)
    test_delete_if_match_on_the_same = case("old", "delete", "old", Outcome.DONE, None)
    test_delete_if_match_on_another = case("old", "delete", "other", Outcome.CHANGED, b"old")
    test_delete_if_match_where_nothing_is = case("", "delete", "other", Outcome.MISSING, None)
    test_delete_if_match_where_something_was = case("old delete", "delete", "old", Outcome.MISSING, None)


TEN = b"0123456789"


def part(store: Store, start: int = 0, stop: int | None = None) -> bytes:
    reply = store.get("k", start=start, stop=stop)
    assert info_of(reply).size == len(TEN), "a range tells the size of the whole object"
    return reply.body


class Reads:
    def test_ranges_inside(self, store: Store) -> None:
        stored(store, "k", TEN)
        assert part(store, 2, 5) == b"234"
        assert part(store, 0, 1) == b"0"
        assert part(store, 9, 10) == b"9"
        assert part(store, 0, 10) == TEN

    def test_a_range_without_a_stop_goes_to_the_end(self, store: Store) -> None:
        stored(store, "k", TEN)
        assert part(store, 7) == b"789"

    def test_a_range_over_the_end_is_cut(self, store: Store) -> None:
        stored(store, "k", TEN)
        assert part(store, 8, 99) == b"89"
        assert part(store, 0, 11) == TEN

    def test_a_range_from_the_end_is_past_it(self, store: Store) -> None:
        stored(store, "k", TEN)
        expect(store.get("k", start=10), Outcome.PAST_END)
        expect(store.get("k", start=10, stop=12), Outcome.PAST_END)
        expect(store.get("k", start=99, stop=100), Outcome.PAST_END)

    def test_any_range_of_an_empty_object_is_past_its_end(self, store: Store) -> None:
        stored(store, "k", b"")
        expect(store.get("k", start=0, stop=1), Outcome.PAST_END)

    def test_a_range_of_nothing_is_missing(self, store: Store) -> None:
        expect(store.get("k", start=1, stop=2), Outcome.MISSING)

    def test_a_range_carries_the_whole_objects_etag(self, store: Store) -> None:
        etag = stored(store, "k", TEN)
        assert info_of(store.get("k", start=3, stop=4)).etag == etag

    def test_only_if(self, store: Store) -> None:
        etag = stored(store, "k", TEN)
        assert info_of(store.get("k", only_if=etag)).etag == etag
        expect(store.get("k", only_if=OTHER), Outcome.CHANGED)

    def test_only_if_with_a_range(self, store: Store) -> None:
        """Reads a large object in pieces that are sure to be of one version."""
        etag = stored(store, "k", TEN)
        assert store.get("k", start=1, stop=3, only_if=etag).body == b"12"
        expect(store.get("k", start=1, stop=3, only_if=OTHER), Outcome.CHANGED)

    def test_unless(self, store: Store) -> None:
        etag = stored(store, "k", TEN)
        expect(store.get("k", unless=etag), Outcome.UNCHANGED)
        assert store.get("k", unless=OTHER).body == TEN

    test_only_if_where_nothing_is = case("", "get if", "other", Outcome.MISSING, None)
    test_unless_where_nothing_is = case("", "get unless", "other", Outcome.MISSING, None)
    test_unless_after_a_delete = case("old delete", "get unless", "old", Outcome.MISSING, None)


def apart(*keys: str) -> Line:
    """Each key can be created, holds its own body, is listed, and goes away alone."""

    def run(store: Store) -> None:
        for key in keys:
            expect(store.put(key, key.encode(), when=ABSENT), Outcome.DONE)
        assert sorted(all_keys(store)) == sorted(keys)
        for at, key in enumerate(keys):
            holds(store, key, key.encode())
            expect(store.delete(key, when=ANYTHING), Outcome.DONE)
            holds(store, key, None)
            assert sorted(all_keys(store)) == sorted(keys[at + 1 :])

    return Line(run)


LONG = "/".join(["x" * 200] * 5)


class Keys:
    test_spaces_and_signs = apart(
        "a b", "a+b", "a%20b", "a%2Bb", "q?x=1&y=#", "'\"<>&;", "a:b|c*", "~", "-", "="
    )
    test_backslashes = apart("a\\b", "a/b", "\\", "a\\\\b")
    test_percent_signs_are_not_decoded = apart("a%2Fb", "a/b", "%", "%%", "%zz")
    test_letters_of_all_kinds = apart("ü", "日本", "ключ", "😀", "e\u0301", "\u00e9", "\ufffd")
    test_case_counts = apart("key", "KEY", "Key")
    test_dots_in_names = apart(".a", "..a", "a.", "a..b", "...", ".tmp/x")
    test_spaces_at_the_ends = apart(" a", "a ", "a")
    # On a file system: a file and a folder of one name.
    test_a_key_and_keys_below_it = apart("a", "a/b", "a/b/c")
    test_two_slashes_are_not_one = apart("a//b", "a/b", "a///b")
    test_a_slash_in_front_counts = apart("/a", "a", "//a")
    test_a_slash_at_the_end_counts = apart("a/", "a", "a//")
    test_control_characters = apart("a\x01b", "a\x1fb", "a\x7fb", "tab\t", "line\nend", "line\rend")
    # S3's limit is 1,024 bytes, some of which a store's own prefix may take.
    test_a_long_key = apart(LONG[:1000], LONG[:999])
    # Most file systems stop at 255 bytes a name.
    test_a_long_segment = apart("s" * 600, "s" * 599, "ü" * 300)

    def test_many_at_one_level(self, store: Store) -> None:
        for n in range(30):
            stored(store, f"n{n}")
        assert len(all_keys(store)) == 30
