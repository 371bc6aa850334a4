"""A store and the reference, side by side: every request goes to both, every answer must be the same.

    class FilesLockstep(StoreLockstep):
        def open(self) -> Store:
            return FileStore(self.directory())

    TestFiles = FilesLockstep.TestCase

Keys come from a pool so small that they collide, are each other's prefixes, and are folder and file at
once. Steps name ETags, versions and uploads by their place among those seen so far, never by what the
store called them, so that a failing example is code to paste into another session:

    state = FilesLockstep()
    state.put(key='a', body=b'', when='absent', content_type='text/plain', metadata={})
    state.delete(key='a', when='current', version=0)
    state.teardown()

The two may call ETags, versions, uploads and tokens as they like, but each always the same: `Names` keeps
the pairs, which is also what shows that equal bytes have equal ETags and that nothing is named twice.

A step skips what a backend is declared to do differently (`deviations`):

    conditional-complete   conditions on completing an upload are ignored, or never answered with conflict
    gone-uploads           completed or aborted uploads are not reported as gone
    uploads-listing        uploads are not listed by key, or not in pages
    versions-listing       versions and markers are not listed in one order
    markers                delete markers of what never was, or the removal of markers, are answered otherwise
    deleted-groups         a group of keys is listed although all in it are deleted
    parts                  uploads of several parts (where a part has to be larger than a test wants to send)

A step may refer to the current ETag of a key. The reference and the store have different names for it, and
`Names` translates. So one step is two requests in two languages, and their answers are compared in the
reference's. After a difference, the final comparison of everything is left out: it would hide the first
difference.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import Misuse, Unsupported
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome, Reply
from fencepost.model import store_reference as reference
from fencepost.model.store_reference import Answer, State, Upload, When

KEYS = ("a", "a/", "a/b", "a/b/c", "a-b", "é/x")
PREFIXES = ("", "a", "a/", "a/b", "é", "zz")
BODIES = (b"", b"0", b"one", b"two", b"three four")
WHENS = ("anything", "absent", "current", "before", "seen 0", "other")
"""`current` is the key's ETag, `before` the one before it, `seen 0` the first ETag seen of any key, `other`
one that never existed."""
READS = ("", "", "current", "before", "other")
METADATA: tuple[dict[str, str], ...] = ({}, {"owner": "x"}, {"owner": "y", "stage": "2"})

keys = st.sampled_from(KEYS[:2]) | st.sampled_from(KEYS)
upload_keys = st.sampled_from(KEYS[:2])
prefixes = st.sampled_from(PREFIXES)
bodies = st.sampled_from(BODIES)
whens = st.sampled_from(WHENS)
endings = st.sampled_from(("anything", "absent", "current", "current", "before"))
reads = st.sampled_from(READS)
types = st.sampled_from(("text/plain", ask.BINARY))
metadatas = st.sampled_from(METADATA)
limits = st.sampled_from((1, 2, 3, 1000))
places = st.integers(0, 3)
"""Of a version: 0 is none, 1 the newest known. Of an upload: 0 is the newest."""

NEVER = "f" * 32
"""An ETag, a version and an upload that never existed."""


class Names:
    """Pairs of the reference's and the store's names for the same thing."""

    def __init__(self) -> None:
        self._pairs: dict[str, dict[Any, str]] = {}

    def matches(self, kind: str, ours: Any, theirs: str) -> bool:
        """Return True if the two names are a pair (or both empty); remember a new pair."""
        if not ours:
            return not theirs
        pairs = self._pairs.setdefault(kind, {})
        if ours not in pairs and theirs not in pairs.values():
            pairs[ours] = theirs
        return pairs.get(ours) == theirs

    def theirs(self, kind: str, ours: Any) -> str:
        return self._pairs.get(kind, {}).get(ours, NEVER)

    def all(self, kind: str) -> list[Any]:
        """Return the reference's names, oldest first."""
        return list(self._pairs.get(kind, {}))

    def written(self, answer: Answer, reply: ask.PutReply) -> bool:
        return self.matches("etag", answer[1], reply.etag) and self.matches(
            "version", answer[2], reply.version
        )

    def info(self, ours: tuple[Any, ...], info: ask.ObjectInfo | None) -> bool:
        if info is None:
            return False
        key, etag, size, version, content_type, metadata = ours
        fields = info.key, info.size, info.content_type, tuple(sorted(info.metadata.items()))
        named = self.matches("etag", etag, info.etag) and self.matches("version", version, info.version)
        return named and fields == (key, size, content_type, metadata)

    def listed(self, answer: Answer, reply: ask.ListReply) -> bool:
        rows = [(info.key, info.size) for info in reply.objects]
        etags = zip(answer[1], reply.objects, strict=False)
        return (
            rows == [(key, size) for key, _, size in answer[1]]
            and all(self.matches("etag", ours[1], info.etag) for ours, info in etags)
            and reply.prefixes == answer[2]
        )

    def versions_listed(self, ours: tuple[Any, ...], theirs: tuple[ask.VersionInfo, ...]) -> bool:
        rows = [(row.key, row.latest, row.marker, row.size) for row in theirs]
        return rows == [(key, latest, marker, size) for key, _, latest, marker, _, size in ours] and all(
            self.matches("version", mine[1], row.version) and self.matches("etag", mine[4], row.etag)
            for mine, row in zip(ours, theirs, strict=True)
        )

    def uploads_listed(self, ours: tuple[Any, ...], theirs: tuple[ask.UploadInfo, ...]) -> bool:
        return [key for key, _ in ours] == [row.key for row in theirs] and all(
            self.matches("upload", mine[1], row.upload) for mine, row in zip(ours, theirs, strict=True)
        )


DEVIATIONS = frozenset(
    {
        "conditional-complete",
        "gone-uploads",
        "uploads-listing",
        "versions-listing",
        "markers",
        "deleted-groups",
        "parts",
    }
)


class StoreLockstep(RuleBasedStateMachine):
    """Subclass it with a backend: `open` gives an empty store."""

    deviations: frozenset[str] = frozenset()
    part_bytes_min = 5 * 1024 * 1024
    """The smallest size in bytes that the backend accepts for every part but the last."""

    def __init__(self) -> None:
        super().__init__()
        unknown = self.deviations - DEVIATIONS
        assert not unknown, f"no such deviations: {sorted(unknown)}"
        self._folders: list[str] = []
        self.store = self.open()
        self.state = State(versioned=self.store.versioned(), part_bytes_min=self.part_bytes_min)
        self._names = Names()
        self._stood: dict[str, str] = {}
        """By key, the ETag before the current one."""
        self._agree = True
        self._pages: dict[str, tuple[Callable[[Any, str], None], Any, str]] = {}
        """By kind of listing, the next page: the call, its request and the token."""
        self._uploads: list[tuple[str, int]] = []
        """Pairs of key and the reference's name, oldest first. A step counts from the newest."""
        self._outrun: set[int] = set()
        """Those whose conditional completion was a conflict."""

    def open(self) -> Store:
        """An empty store of the backend."""
        raise AssertionError("subclass StoreLockstep and open a store")

    def directory(self) -> str:
        """A new directory that is removed afterwards."""
        self._folders.append(tempfile.mkdtemp(prefix="fencepost-lockstep-"))
        return self._folders[-1]

    def _both(
        self,
        operation: reference.Operation,
        send: Callable[[], Any],
        check: Callable[[Answer, Any], bool],
    ) -> None:
        """Step the reference, ask the store, and compare: the outcome, and when it is done the rest."""
        before = self.state
        self.state, answer = reference.step(before, operation)
        stood = before.standing(operation[1])
        if stood is not None and stood != self.state.standing(operation[1]):
            self._stood[operation[1]] = stood
        self._agree = False
        outcome, reply = _sent(send)
        assert outcome == answer[0], f"{operation}: expected {answer}, the store answered {reply!r}"
        assert outcome != "done" or check(answer, reply), (
            f"{operation}: expected {answer}, the store answered {reply!r}"
        )
        self._agree = True

    def _etag(self, key: str, name: str) -> str:
        """Return the reference's name for the ETag that a step refers to."""
        seen = self._names.all("etag")
        named = {
            "current": self.state.standing(key),
            "before": self._stood.get(key),
            "seen 0": seen[0] if seen else None,
        }
        return named.get(name) or NEVER

    def _when(self, key: str, when: str) -> tuple[When, Any]:
        if when in ("anything", "absent"):
            return (when,), ANYTHING if when == "anything" else ABSENT
        etag = self._etag(key, when)
        return ("matches", etag), Matches(self._names.theirs("etag", etag))

    def _read_condition(self, key: str, name: str) -> tuple[str | None, str | None]:
        if not name:
            return None, None
        etag = self._etag(key, name)
        return etag, self._names.theirs("etag", etag)

    def _version(self, place: int) -> tuple[int, str]:
        known = self._names.all("version")
        if not place or not known:
            return 0, ""
        ours = known[-1 - (place - 1) % len(known)]
        return ours, self._names.theirs("version", ours)

    # Steps on one key.

    @rule(key=keys, body=bodies, when=whens, content_type=types, metadata=metadatas)
    def put(self, key: str, body: bytes, when: str, content_type: str, metadata: Mapping[str, str]) -> None:
        ours, theirs = self._when(key, when)
        pairs = tuple(sorted(metadata.items()))
        self._both(
            ("put", key, body, ours, content_type, pairs),
            lambda: self.store.put(key, body, when=theirs, content_type=content_type, metadata=metadata),
            self._names.written,
        )

    @rule(
        key=keys,
        start=st.sampled_from((0, 0, 1, 3)),
        length=st.none() | st.integers(1, 4),
        only_if=reads,
        unless=reads,
        version=places,
    )
    def get(self, key: str, start: int, length: int | None, only_if: str, unless: str, version: int) -> None:
        stop = None if length is None else start + length
        only, only_theirs = self._read_condition(key, only_if)
        less, less_theirs = self._read_condition(key, unless)
        number, theirs = self._version(version)
        self._both(
            ("get", key, start, stop, only, less, number),
            lambda: self.store.get(
                key, start=start, stop=stop, only_if=only_theirs, unless=less_theirs, version=theirs
            ),
            lambda answer, reply: answer[1] == reply.body and self._names.info(answer[2], reply.info),
        )

    @rule(key=keys, version=places)
    def head(self, key: str, version: int) -> None:
        number, theirs = self._version(version)
        self._both(
            ("head", key, number),
            lambda: self.store.head(key, version=theirs),
            lambda answer, reply: self._names.info(answer[1], reply.info),
        )

    @rule(key=keys, when=whens, version=places)
    def delete(self, key: str, when: str, version: int) -> None:
        when = "anything" if when == "absent" else when
        number, theirs = self._version(version)
        ours, condition = self._when(key, when) if not number else (("anything",), ANYTHING)
        assert not isinstance(condition, ask.Absent)
        if "markers" in self.deviations and self._about_markers(key, number):
            return
        self._both(
            ("delete", key, ours, number),
            lambda: self.store.delete(key, when=condition, version=theirs),
            lambda answer, reply: (
                self._names.matches("version", answer[1], reply.version) and answer[2] == reply.marker
            ),
        )

    def _about_markers(self, key: str, number: int) -> bool:
        writes = self.state.writes(key)
        return self.state.versioned and (not writes or any(write.marker for write in writes) or bool(number))

    # Listings: one page, and at any later time the next.

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
        self._list(
            ("list", prefix, after, delimiter, limit),
            lambda token: self.store.list(prefix, after=after, delimiter=delimiter, limit=limit, token=token),
            self._names.listed,
        )
        while to_the_end and "list" in self._pages:
            self.next_page("list")

    @rule(prefix=prefixes, limit=limits)
    def list_versions(self, prefix: str, limit: int) -> None:
        if "versions-listing" not in self.deviations:
            self._list(
                ("list-versions", prefix, limit),
                lambda token: self.store.list_versions(prefix, limit=limit, token=token),
                lambda answer, reply: self._names.versions_listed(answer[1], reply.versions),
            )

    @rule(prefix=prefixes, limit=limits)
    def list_uploads(self, prefix: str, limit: int) -> None:
        if "uploads-listing" not in self.deviations:
            self._list(
                ("list-uploads", prefix, limit),
                lambda token: self.store.list_uploads(prefix, limit=limit, token=token),
                lambda answer, reply: self._names.uploads_listed(answer[1], reply.uploads),
            )

    def _list(
        self, listing: tuple[Any, ...], send: Callable[[str], Any], check: Callable[[Answer, Any], bool]
    ) -> None:
        """The first page of a listing, and where it goes on; both sides must agree whether it does."""

        def agree(answer: Answer, reply: Any) -> bool:
            token = answer[-1]
            if token is not None and reply.next:
                self._pages[listing[0]] = (page, token, reply.next)
            return check(answer, reply) and (token is not None) == bool(reply.next)

        def page(token: Any, theirs: str) -> None:
            self._both((*listing, token), lambda: send(theirs), agree)

        page(None, "")

    @precondition(lambda self: self._pages)
    @rule(which=st.sampled_from(("list", "list-versions", "list-uploads")))
    def next_page(self, which: str) -> None:
        """Go on with a listing, whatever happened since its page before."""
        if which in self._pages:
            page, token, theirs = self._pages.pop(which)
            page(token, theirs)

    # Multipart uploads.

    @rule(key=upload_keys, content_type=types, metadata=metadatas)
    def create_upload(self, key: str, content_type: str, metadata: Mapping[str, str]) -> None:
        pairs = tuple(sorted(metadata.items()))

        def check(answer: Answer, reply: ask.UploadReply) -> bool:
            self._uploads.append((key, answer[1]))
            return self._names.matches("upload", answer[1], reply.upload)

        self._both(
            ("create-upload", key, content_type, pairs),
            lambda: self.store.create_upload(key, content_type=content_type, metadata=metadata),
            check,
        )

    @precondition(lambda self: self._uploads)
    @rule(upload=places, number=st.integers(1, 3), body=bodies)
    def upload_part(self, upload: int, number: int, body: bytes) -> None:
        key, ours = self._upload(upload)
        if self._spare(ours):
            return
        theirs = self._names.theirs("upload", ours)
        self._both(
            ("upload-part", key, ours, number, body),
            lambda: self.store.upload_part(key, theirs, number, body),
            lambda answer, reply: self._names.matches("etag", answer[1], reply.etag),
        )

    @rule(key=upload_keys, body=bodies)
    def begin_upload(self, key: str, body: bytes) -> None:
        """An upload with a part, ready to be completed: the rare way there is left to the single rules."""
        self.create_upload(key, ask.BINARY, {})
        self.upload_part(0, 1, body)

    @precondition(lambda self: self._uploads)
    @rule(upload=places, numbers=st.sets(st.integers(1, 3), min_size=1), when=endings)
    def complete_upload(self, upload: int, numbers: set[int], when: str) -> None:
        key, ours = self._upload(upload)
        parts = self._parts(ours, numbers)
        if "conditional-complete" in self.deviations or not self._complete(parts, ours):
            # S3's order of checking the parts and the condition is not documented.
            when = "anything"
        if self._spare(ours) or (when == "anything" and ours in self._outrun):
            # Nor what an unconditional completion does after a conditional one was a conflict.
            return
        condition, theirs = self._when(key, when)
        named = [(number, self._names.theirs("etag", etag)) for number, etag in parts]
        upload_theirs = self._names.theirs("upload", ours)
        before = self.state
        self._both(
            ("complete-upload", key, ours, parts, condition),
            lambda: self.store.complete_upload(key, upload_theirs, named, when=theirs),
            self._names.written,
        )
        if before == self.state and condition != ("anything",):
            self._outrun.add(ours)

    @precondition(lambda self: self._uploads)
    @rule(upload=places)
    def abort_upload(self, upload: int) -> None:
        key, ours = self._upload(upload)
        if self._spare(ours):
            return
        theirs = self._names.theirs("upload", ours)
        self._both(
            ("abort-upload", key, ours),
            lambda: self.store.abort_upload(key, theirs),
            lambda _answer, _reply: True,
        )

    def _upload(self, place: int) -> tuple[str, int]:
        return self._uploads[-1 - place % len(self._uploads)]

    def _open_upload(self, ours: int) -> Upload | None:
        return next((upload for upload in self.state.uploads if upload.number == ours), None)

    def _spare(self, ours: int) -> bool:
        return "gone-uploads" in self.deviations and self._open_upload(ours) is None

    def _parts(self, ours: int, numbers: set[int]) -> tuple[tuple[int, str], ...]:
        """The parts by number, with the ETags they have; those that were never uploaded with another."""
        upload = self._open_upload(ours)
        known = {number: etag for number, etag, _ in upload.parts} if upload else {}
        chosen = sorted(numbers & set(known) or numbers)
        if "parts" in self.deviations:
            chosen = chosen[:1]
        return tuple((number, known.get(number, NEVER)) for number in chosen)

    def _complete(self, parts: tuple[tuple[int, str], ...], ours: int) -> bool:
        upload = self._open_upload(ours)
        sizes = {(number, etag): len(body) for number, etag, body in upload.parts} if upload else {}
        there = all(part in sizes for part in parts)
        return upload is None or (there and all(sizes[part] >= self.part_bytes_min for part in parts[:-1]))

    @rule()
    def look(self) -> None:
        """Everything there is: the whole listing in small pages, and every object."""
        self.list("", "", "", 2, to_the_end=True)
        for key in KEYS:
            self.get(key, 0, None, "", "", 0)

    def teardown(self) -> None:
        try:
            if self._agree:
                self.look()
        finally:
            self.store.close()
            for folder in self._folders:
                shutil.rmtree(folder)


def _sent(send: Callable[[], Reply]) -> tuple[str, Any]:
    try:
        reply = send()
    except Misuse as error:
        return "misuse", error
    except Unsupported as error:
        return "unsupported", error
    assert isinstance(reply.outcome, Outcome)
    return reply.outcome.value, reply
