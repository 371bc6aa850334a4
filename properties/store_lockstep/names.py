"""What the reference and a store call the same things, and whether their answers say the same."""

from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.model.store_reference import Answer

NEVER = "f" * 32
"""An ETag, a version and an upload that nobody ever had."""


class Names:
    """What the reference and the store call the same thing."""

    def __init__(self) -> None:
        self._pairs: dict[str, dict[Any, str]] = {}

    def same(self, kind: str, ours: Any, theirs: str) -> bool:
        """Whether the two are one name each for one thing; a new pair is remembered."""
        pairs = self._pairs.setdefault(kind, {})
        if ours not in pairs and theirs not in pairs.values():
            pairs[ours] = theirs
        return pairs.get(ours) == theirs

    def theirs(self, kind: str, ours: Any) -> str:
        return self._pairs.get(kind, {}).get(ours, NEVER)

    def all(self, kind: str) -> list[Any]:
        """What the reference calls them, oldest first."""
        return list(self._pairs.get(kind, {}))

    def matches(self, kind: str, ours: Any, theirs: str) -> bool:
        if not ours:
            return not theirs
        return self.same(kind, ours, theirs)

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
