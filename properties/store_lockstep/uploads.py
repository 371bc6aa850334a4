"""Steps of multipart uploads: create, upload parts, complete, abort."""

from collections.abc import Mapping

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from fencepost.impl.store import requests as ask
from fencepost.model.store_reference import Answer, Upload
from fencepost.properties.store_lockstep.draws import bodies, endings, metadatas, places, types, upload_keys
from fencepost.properties.store_lockstep.names import NEVER
from fencepost.properties.store_lockstep.sides import Sides


class Uploads(Sides):
    """What is asked of uploads. A step names one by its place, the newest first."""

    def __init__(self) -> None:
        super().__init__()
        self._uploads: list[tuple[str, int]] = []
        """By key, and what the reference calls them; the oldest first."""
        self._outrun: set[int] = set()
        """Those whose conditional completion was a conflict."""

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
            # Whether a store looks first at the parts or at the condition is nowhere recorded.
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
