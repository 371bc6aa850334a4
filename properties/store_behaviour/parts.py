"""What the behaviours share: how to expect an outcome, a refusal, an object."""

from collections.abc import Callable
from typing import Any, TypeVar

from fencepost.impl.store import ANYTHING, Outcome, Store, StoreError
from fencepost.impl.store import requests as ask

P = TypeVar("P", ask.ListReply, ask.VersionsReply, ask.UploadsReply)


def expect(reply: ask.Reply, outcome: Outcome) -> None:
    """`reply` says `outcome`, and nothing that only a `done` reply may say."""
    assert reply.outcome is outcome, f"expected {outcome}, got {reply}"
    if outcome is not Outcome.DONE:
        for name in ("etag", "version", "upload", "body", "info", "objects", "next"):
            assert not getattr(reply, name, None), f"{outcome} with {name}: {reply}"


def stored(store: Store, key: str, body: bytes = b"body") -> str:
    """Write `key` whatever stands there; its ETag."""
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
    """What a `done` reply says of its object."""
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
