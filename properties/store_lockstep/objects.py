"""Steps on objects: put, get, head, delete."""

from collections.abc import Mapping

from hypothesis import strategies as st
from hypothesis.stateful import rule

from fencepost.impl.store import requests as ask
from fencepost.impl.store.requests import ANYTHING
from fencepost.properties.store_lockstep.draws import bodies, keys, metadatas, places, reads, types, whens
from fencepost.properties.store_lockstep.sides import Sides


class Objects(Sides):
    """What is asked of one key."""

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
