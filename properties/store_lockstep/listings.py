"""Steps of listings: one page, and at any later time the next, whatever happened in between."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from fencepost.properties.store_lockstep.draws import keys, limits, prefixes
from fencepost.properties.store_lockstep.sides import Sides


class Listings(Sides):
    """What is asked of all keys below a prefix."""

    def __init__(self) -> None:
        super().__init__()
        self._pages: dict[str, tuple[Callable[[Any, str], None], Any, str]] = {}
        """Of each kind of listing the page to go on from: how, and from which token."""

    @rule(
        prefix=prefixes,
        after=st.just("") | keys,
        delimiter=st.sampled_from(("", "/", "/", "b")),
        limit=limits,
        to_the_end=st.booleans(),
    )
    def list(self, prefix: str, after: str, delimiter: str, limit: int, to_the_end: bool) -> None:
        if "deleted-groups" in self.deviations and self.state.versioned:
            delimiter = ""

        self._pages.pop("list", None)

        def page(token: Any, theirs: str) -> None:
            self._both(
                ("list", prefix, after, delimiter, limit, token),
                lambda: self.store.list(prefix, after=after, delimiter=delimiter, limit=limit, token=theirs),
                lambda answer, reply: (
                    self._names.listed(answer, reply) and self._next("list", page, answer[3], reply)
                ),
            )

        page(None, "")
        while to_the_end and "list" in self._pages:
            self.next_page("list")

    @rule(prefix=prefixes, limit=limits)
    def list_versions(self, prefix: str, limit: int) -> None:
        if "versions-listing" in self.deviations:
            return

        def page(token: Any, theirs: str) -> None:
            self._both(
                ("list-versions", prefix, limit, token),
                lambda: self.store.list_versions(prefix, limit=limit, token=theirs),
                lambda answer, reply: (
                    self._names.versions_listed(answer[1], reply.versions)
                    and self._next("versions", page, answer[2], reply)
                ),
            )

        page(None, "")

    @rule(prefix=prefixes, limit=limits)
    def list_uploads(self, prefix: str, limit: int) -> None:
        if "uploads-listing" in self.deviations:
            return

        def page(token: Any, theirs: str) -> None:
            self._both(
                ("list-uploads", prefix, limit, token),
                lambda: self.store.list_uploads(prefix, limit=limit, token=theirs),
                lambda answer, reply: (
                    self._names.uploads_listed(answer[1], reply.uploads)
                    and self._next("uploads", page, answer[2], reply)
                ),
            )

        page(None, "")

    @precondition(lambda self: self._pages)
    @rule(which=st.sampled_from(("list", "versions", "uploads")))
    def next_page(self, which: str) -> None:
        """Go on with a listing, whatever happened since its page before."""
        if which in self._pages:
            page, token, theirs = self._pages.pop(which)
            page(token, theirs)

    def _next(self, which: str, page: Callable[[Any, str], None], token: Any, reply: Any) -> bool:
        """Remember where the listing goes on; both sides must agree whether it does."""
        if token is not None and reply.next:
            self._pages[which] = (page, token, reply.next)
        return (token is not None) == bool(reply.next)
