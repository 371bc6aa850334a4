"""Requests sent together, and requests that make no sense."""

from collections.abc import Callable
from typing import Any

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Misuse, Outcome, Store
from fencepost.impl.store import requests as ask
from fencepost.properties.store_behaviour.parts import all_keys, expect, holds, refuses, stored

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
    """send_all, and misuse."""

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
