"""Helpers of the behaviours: expect an outcome, a refusal, an object; and tests written as tables."""

from collections.abc import Callable
from typing import Any, TypeVar

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Outcome, Store, StoreError
from fencepost.impl.store import requests as ask

P = TypeVar("P", ask.ListReply, ask.VersionsReply, ask.UploadsReply)
Parts = list[tuple[int, str]]

OTHER = "0123456789abcdef0123456789abcdef"
"""An ETag that no object has."""


def expect(reply: ask.Reply, outcome: Outcome) -> None:
    """`reply` says `outcome`, and nothing that only a `done` reply may say."""
    assert reply.outcome is outcome, f"expected {outcome}, got {reply}"
    if outcome is not Outcome.DONE:
        for name in ("etag", "version", "upload", "body", "info", "objects", "next"):
            assert not getattr(reply, name, None), f"{outcome} with {name}: {reply}"


def stored(store: Store, key: str, body: bytes = b"body") -> str:
    """Write `key` unconditionally and return its ETag."""
    reply = store.put(key, body, when=ANYTHING)
    expect(reply, Outcome.DONE)
    return reply.etag


def holds(store: Store, key: str, body: bytes | None) -> None:
    """`key` holds `body`; None for nothing."""
    reply = store.get(key)
    if body is None:
        expect(reply, Outcome.MISSING)
        return
    expect(reply, Outcome.DONE)
    assert reply.body == body


def info_of(reply: ask.GetReply | ask.HeadReply) -> ask.ObjectInfo:
    """Return the object's info in a `done` reply."""
    expect(reply, Outcome.DONE)
    assert reply.info is not None
    return reply.info


def refuses(act: Callable[[], Any], kind: type[StoreError]) -> str:
    """`act` raises `kind`, on one line; that line."""
    try:
        got = act()
    except kind as error:
        text = str(error)
        assert text, f"{kind.__name__} without a word"
        assert "\n" not in text
        return text
    raise AssertionError(f"expected {kind.__name__}, got {got}")


def pages_of(page_at: Callable[[str], P]) -> list[P]:
    """All pages of a listing, to its end; `page_at` asks for the one at a token."""
    pages: list[P] = []
    token = ""
    while True:
        page = page_at(token)
        expect(page, Outcome.DONE)
        pages.append(page)
        assert len(pages) < 100, "the listing does not end"
        if not page.next:
            return pages
        token = page.next


def keys_of(page: ask.ListReply) -> list[str]:
    """The keys of a page that is `done`."""
    expect(page, Outcome.DONE)
    return [info.key for info in page.objects]


def all_keys(store: Store, prefix: str = "") -> list[str]:
    """Every key with `prefix`, page after page."""
    return [key for page in store.pages(prefix) for key in keys_of(page)]


def begun(store: Store, key: str = "k", body: bytes = b"new") -> tuple[str, Parts]:
    """An upload of one part, ready to be completed."""
    made = store.create_upload(key)
    expect(made, Outcome.DONE)
    part = store.upload_part(key, made.upload, 1, body)
    expect(part, Outcome.DONE)
    return made.upload, [(1, part.etag)]


class Line:
    """A test in one line: `test_name = Line(run)` in a class of tests becomes a test of that name."""

    def __init__(self, run: Callable[[Store], None]) -> None:
        self._run = run

    def __set_name__(self, owner: type, name: str) -> None:
        def test(_: object, store: Store) -> None:
            self._run(store)

        test.__name__ = name
        setattr(owner, name, test)


def case(history: str, act: str, when: str, ends: Outcome, leaves: bytes | None) -> Line:
    """Make a test: after `history` at the key "k", the request `act` ends so and leaves this body.

    `history` is a text of words: `begin`, `complete` or `abort` an upload, `delete` the object; any other
    word is written to it. `when` is `anything`, `absent`, or the word whose ETag must match (`other`: an ETag
    that no object has). The request writes "new".
    """

    def run(store: Store) -> None:
        conditions: dict[str, Any] = {"anything": ANYTHING, "absent": ABSENT, "other": Matches(OTHER)}
        upload, parts = "", Parts()
        for word in history.split():
            if word == "begin":
                upload, parts = begun(store)
            elif word in _ACTS:
                _ACTS[word](store, ANYTHING, upload, parts)
            else:
                conditions[word] = Matches(stored(store, "k", word.encode()))
        expect(_ACTS[act](store, conditions[when], upload, parts), ends)
        holds(store, "k", leaves)

    return Line(run)


_ACTS: dict[str, Callable[[Store, Any, str, Parts], ask.Reply]] = {
    "put": lambda store, when, _, __: store.put("k", b"new", when=when),
    "delete": lambda store, when, _, __: store.delete("k", when=when),
    "get if": lambda store, when, _, __: store.get("k", only_if=when.etag),
    "get unless": lambda store, when, _, __: store.get("k", unless=when.etag),
    "part": lambda store, _, upload, __: store.upload_part("k", upload, 1, b"late"),
    "complete": lambda store, when, upload, parts: store.complete_upload("k", upload, parts, when=when),
    "abort": lambda store, _, upload, __: store.abort_upload("k", upload),
}
