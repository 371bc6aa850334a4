"""Listing: order, prefixes, groups, pages; and that it shows what was just written."""

import math

from fencepost.impl.store import ANYTHING, Store
from fencepost.impl.store import requests as ask
from fencepost.properties.store_behaviour.parts import all_keys, info_of, keys_of, pages_of, stored


def fill(store: Store, *keys: str) -> None:
    for key in keys:
        stored(store, key, key.encode())


def walk(
    store: Store, limit: int, prefix: str = "", delimiter: str = "", after: str = ""
) -> list[ask.ListReply]:
    """All pages of at most `limit` entries."""
    return pages_of(
        lambda token: store.list(prefix, delimiter=delimiter, limit=limit, token=token, after=after)
    )


class Listings:
    """List."""

    def test_nothing_is_listed_of_nothing(self, store: Store) -> None:
        page = store.list()
        assert (keys_of(page), page.prefixes, page.next) == ([], (), "")

    def test_entries_tell_etag_and_size(self, store: Store) -> None:
        stored(store, "k", b"four")
        (entry,) = store.list().objects
        info = info_of(store.head("k"))
        assert (entry.key, entry.etag, entry.size) == ("k", info.etag, 4)
        assert entry.modified_ns > 0

    def test_an_empty_objects_entry_tells_its_etag(self, store: Store) -> None:
        etag = stored(store, "k", b"")
        (entry,) = store.list().objects
        assert (entry.etag, entry.size) == (etag, 0)

    def test_a_listing_shows_what_was_just_written(self, store: Store) -> None:
        for n in range(5):
            stored(store, f"k{n}")
            assert len(keys_of(store.list())) == n + 1
        for n in range(5):
            store.delete(f"k{n}", when=ANYTHING)
            assert len(keys_of(store.list())) == 4 - n

    def test_a_prefix_is_text_not_a_folder(self, store: Store) -> None:
        fill(store, "a", "a/b", "ab", "abc", "b")
        assert sorted(keys_of(store.list("a"))) == ["a", "a/b", "ab", "abc"]
        assert sorted(keys_of(store.list("ab"))) == ["ab", "abc"]
        assert keys_of(store.list("a/")) == ["a/b"]
        assert keys_of(store.list("x")) == []

    def test_keys_come_in_order_of_their_bytes(self, store: Store) -> None:
        """Slashes are characters like others: "a-" sorts before "a/", and so before what is below "a"."""
        keys = ["B", "a", "a-", "a-/x", "a.", "a/", "a/b", "a0", "b"]
        fill(store, *keys)
        assert keys_of(store.list()) == keys

    def test_keys_come_in_order_of_their_unicode_bytes(self, store: Store) -> None:
        """UTF-8 and code points agree; UTF-16, in which some languages compare, puts 😀 before ￠."""
        keys = ["a", "z", "ä", "日", "\uffe0", "😀"]
        fill(store, *keys)
        assert keys_of(store.list()) == keys

    def test_after_leaves_out_the_key_itself(self, store: Store) -> None:
        fill(store, "a", "b", "c")
        assert keys_of(store.list(after="b")) == ["c"]
        assert keys_of(store.list(after="aa")) == ["b", "c"]
        assert keys_of(store.list(after="c")) == []

    def test_after_with_a_prefix(self, store: Store) -> None:
        fill(store, "a1", "a2", "b1")
        assert keys_of(store.list("a", after="a1")) == ["a2"]
        assert keys_of(store.list("b", after="a1")) == ["b1"]
        assert keys_of(store.list("a", after="b")) == []

    def test_a_delimiter_groups(self, store: Store) -> None:
        fill(store, "a", "d/1", "d/2", "d/e/3", "f/4")
        page = store.list(delimiter="/")
        assert (keys_of(page), page.prefixes) == (["a"], ("d/", "f/"))
        page = store.list("d/", delimiter="/")
        assert (keys_of(page), page.prefixes) == (["d/1", "d/2"], ("d/e/",))

    def test_a_delimiter_groups_behind_the_prefix(self, store: Store) -> None:
        fill(store, "da/1", "db/2", "d")
        page = store.list("d", delimiter="/")
        assert (keys_of(page), page.prefixes) == (["d"], ("da/", "db/"))

    def test_a_group_of_what_was_deleted_is_gone(self, store: Store) -> None:
        fill(store, "d/1")
        store.delete("d/1", when=ANYTHING)
        page = store.list(delimiter="/")
        assert (keys_of(page), page.prefixes) == ([], ())

    def test_another_delimiter(self, store: Store) -> None:
        fill(store, "a-1", "a-2", "b")
        page = store.list(delimiter="-")
        assert (keys_of(page), page.prefixes) == (["b"], ("a-",))

    def test_pages_hold_every_key_once(self, store: Store) -> None:
        keys = [f"k{n:02d}" for n in range(11)]
        fill(store, *keys)
        for limit in (1, 2, 10, 11, 12):
            pages = walk(store, limit)
            assert [key for page in pages for key in keys_of(page)] == keys
            assert len(pages) == math.ceil(11 / limit), "no page is empty or short but the last"

    def test_pages_with_a_prefix(self, store: Store) -> None:
        fill(store, "a", "p1", "p2", "p3", "q")
        assert [keys_of(page) for page in walk(store, 2, prefix="p")] == [["p1", "p2"], ["p3"]]

    def test_pages_after_a_key(self, store: Store) -> None:
        fill(store, "a", "b", "c", "d")
        assert [keys_of(page) for page in walk(store, 2, after="a")] == [["b", "c"], ["d"]]

    def test_pages_of_groups_name_each_group_once(self, store: Store) -> None:
        fill(store, "a", "d/1", "d/2", "e/1", "e/2", "f", "g/1")
        for limit in (1, 2, 3):
            pages = walk(store, limit, delimiter="/")
            assert [key for page in pages for key in keys_of(page)] == ["a", "f"]
            assert [prefix for page in pages for prefix in page.prefixes] == ["d/", "e/", "g/"]
            assert all(len(page.objects) + len(page.prefixes) <= limit for page in pages)

    def test_pages_with_awkward_keys(self, store: Store) -> None:
        keys = ["%2F", "a b", "a+b", "a/%", "ü/ 1", "😀"]
        fill(store, *keys)
        assert [key for page in walk(store, 1) for key in keys_of(page)] == keys

    def test_pages_go_on_where_they_were_when_keys_vanish(self, store: Store) -> None:
        """The key a token was made of need not be there any more."""
        fill(store, "a", "b", "c", "d")
        token = store.list(limit=2).next
        for key in ("a", "b", "c"):
            store.delete(key, when=ANYTHING)
        assert keys_of(store.list(token=token)) == ["d"]


class Plenty:
    """More than one page can hold."""

    def test_more_than_a_thousand_keys(self, store: Store) -> None:
        keys = [f"{n % 7}/{n:04d}" for n in range(1003)]
        replies = store.send_all([ask.Put(key, b"", ANYTHING) for key in keys])
        assert all(reply.done for reply in replies)
        assert sorted(all_keys(store)) == sorted(keys)
        assert len(keys_of(store.list())) == 1000
        assert len(all_keys(store, "3/")) == len([key for key in keys if key.startswith("3/")])
