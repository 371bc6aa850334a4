"""Several keys: listings in order and in pages, requests sent together, and requests that make no sense."""

import math
from collections.abc import Callable
from typing import Any

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Misuse, Outcome, Store
from fencepost.impl.store import requests as ask
from fencepost.properties.store_behaviour.parts import (
    all_keys,
    expect,
    holds,
    info_of,
    keys_of,
    pages_of,
    refuses,
    stored,
)


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


NONSENSE: dict[str, Callable[[Store], Any]] = {
    "an empty key": lambda store: store.get(""),
    "a NUL byte": lambda store: store.put("a\0b", b"", when=ANYTHING),
    "a lone surrogate": lambda store: store.get("\ud800"),
    "a key of 1,025 bytes": lambda store: store.get("x" * 1025),
    "a key of 1,026 bytes in 513 letters": lambda store: store.get("ü" * 513),
    "a segment that is a dot": lambda store: store.get("a/./b"),
    "a segment that is two dots": lambda store: store.put("../a", b"", when=ANYTHING),
    "a key that is no text": lambda store: store.get(b"k"),  # type: ignore[arg-type] # on purpose
    "a body that is no bytes": lambda store: store.put("k", "v", when=ANYTHING),  # type: ignore[arg-type] # on purpose
    "no condition": lambda store: store.put("k", b"", when=None),  # type: ignore[arg-type] # on purpose
    "an ETag that is empty": lambda store: store.put("k", b"", when=Matches("")),
    "an ETag that is a star": lambda store: store.put("k", b"", when=Matches("*")),
    "an ETag with quotes": lambda store: store.put("k", b"", when=Matches('"abc"')),
    "an ETag with a line break": lambda store: store.put("k", b"", when=Matches("a\r\nx-b: c")),
    "reading if an empty ETag": lambda store: store.get("k", only_if=""),
    "reading unless a line break": lambda store: store.get("k", unless="a\nb"),
    "deleting if absent": lambda store: store.delete("k", when=ABSENT),  # type: ignore[arg-type] # on purpose
    "a version and a condition": lambda store: store.delete("k", when=Matches("abc"), version="v"),
    "a range that is empty": lambda store: store.get("k", start=5, stop=5),
    "a range that runs backwards": lambda store: store.get("k", start=5, stop=3),
    "a range from before the start": lambda store: store.get("k", start=-1),
    "a page of no entry": lambda store: store.list(limit=0),
    "a page of 1,001 entries": lambda store: store.list(limit=1001),
    "a prefix with a NUL byte": lambda store: store.list("a\0"),
    "part number 0": lambda store: store.upload_part("k", "u", 0, b""),
    "part number 10,001": lambda store: store.upload_part("k", "u", 10_001, b""),
    "completing no part": lambda store: store.complete_upload("k", "u", [], when=ANYTHING),
    "completing parts out of order": lambda store: store.complete_upload(
        "k", "u", [(2, "a"), (1, "b")], when=ANYTHING
    ),
    "completing a part twice": lambda store: store.complete_upload(
        "k", "u", [(1, "a"), (1, "a")], when=ANYTHING
    ),
    "a content type with a line break": lambda store: store.put("k", b"", when=ANYTHING, content_type="a\nb"),
    "metadata with a line break": lambda store: store.put("k", b"", when=ANYTHING, metadata={"a": "b\nc"}),
    "metadata that is not ASCII": lambda store: store.put("k", b"", when=ANYTHING, metadata={"a": "ü"}),
    "metadata with outer spaces": lambda store: store.put("k", b"", when=ANYTHING, metadata={"a": " b"}),
    "a metadata name with capitals": lambda store: store.put("k", b"", when=ANYTHING, metadata={"A": "b"}),
    "metadata of 2,049 bytes": lambda store: store.put("k", b"", when=ANYTHING, metadata={"a": "b" * 2048}),
}
"""Each is refused before anything is sent, the same on every store."""


class Misuses:
    def test_what_makes_no_sense_is_refused(self, store: Store) -> None:
        for what, act in NONSENSE.items():
            try:
                refuses(lambda act=act: act(store), Misuse)  # type: ignore[misc] # a default binds the loop's
            except AssertionError as error:
                raise AssertionError(f"{what}: {error}") from error
        assert all_keys(store) == []

    def test_replies_come_in_the_order_of_the_requests(self, store: Store) -> None:
        for n in range(20):
            stored(store, f"k{n}", str(n).encode())
        replies = store.send_all([ask.Get(f"k{n % 20}") for n in range(60)])
        assert [reply.body for reply in replies] == [str(n % 20).encode() for n in range(60)]

    def test_requests_of_all_kinds_go_together(self, store: Store) -> None:
        stored(store, "k", b"v")
        replies = store.send_all(
            [ask.Get("k"), ask.Head("none"), ask.Put("new", b"n", ABSENT), ask.Put("k", b"x", ABSENT)]
        )
        outcomes = [Outcome.DONE, Outcome.MISSING, Outcome.DONE, Outcome.EXISTS]
        assert [reply.outcome for reply in replies] == outcomes

    def test_no_request_is_no_reply(self, store: Store) -> None:
        assert list(store.send_all([])) == []

    def test_the_others_are_sent_when_one_is_refused(self, store: Store) -> None:
        wanted = [ask.Put("a", b"1", ABSENT), ask.Put("", b"2", ABSENT), ask.Put("c", b"3", ABSENT)]
        refuses(lambda: store.send_all(wanted), Misuse)
        holds(store, "a", b"1")
        holds(store, "c", b"3")

    def test_one_of_many_creates_wins(self, store: Store) -> None:
        for n in range(5):
            bodies = [f"{n} {at}".encode() for at in range(8)]
            replies = store.send_all([ask.Put(f"k{n}", body, ABSENT) for body in bodies])
            winners = [body for body, reply in zip(bodies, replies, strict=True) if reply.done]
            assert len(winners) == 1, f"{len(winners)} creates of one key succeeded"
            assert {reply.outcome for reply in replies} <= {Outcome.DONE, Outcome.EXISTS, Outcome.CONFLICT}
            holds(store, f"k{n}", winners[0])

    def test_one_of_many_swaps_wins(self, store: Store) -> None:
        etag = stored(store, "k", b"start")
        for n in range(5):
            bodies = [f"{n} {at}".encode() for at in range(8)]
            replies = store.send_all([ask.Put("k", body, Matches(etag)) for body in bodies])
            winners = [(body, reply.etag) for body, reply in zip(bodies, replies, strict=True) if reply.done]
            assert len(winners) == 1, f"{len(winners)} swaps from one ETag succeeded"
            body, etag = winners[0]
            holds(store, "k", body)

    def test_verify_is_content(self, store: Store) -> None:
        store.verify()

    def test_it_can_be_used_again_after_close(self, store: Store) -> None:
        stored(store, "k", b"v")
        store.close()
        expect(store.get("k"), Outcome.DONE)
