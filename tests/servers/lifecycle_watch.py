"""A bucket watched through S3: what vanished was due by the oracle, and what is due vanishes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.properties.lifecycle.oracle import Stored, due_now

S = 10**9
DAY = 10 * S
TIMEOUT_S = 150
"""Until what is due must be gone; machines are slow at times."""
OURS = "lifecycle/v1/"


@dataclass
class Seen:
    objects: dict[str, list[Stored]]
    """Versions by key, oldest first."""
    uploads: dict[tuple[str, str], int]
    at_ns: int


@dataclass
class Watched:
    """One bucket, with its rules as S3 has them."""

    client: Any
    bucket: str
    rules: Sequence[dict[str, Any]]
    versioned: bool = False
    tagged: bool = True
    seen: Seen | None = None
    held: set[str] = field(default_factory=set)
    """Versions that a lock keeps."""
    gone: list[tuple[str, str]] = field(default_factory=list)
    """What was done by the lifecycle, and the key."""

    def put(self, key: str, body: bytes = b"x", **more: Any) -> str:
        return str(
            self.client.put_object(Bucket=self.bucket, Key=key, Body=body, **more).get("VersionId", "")
        )

    def tag(self, key: str, tags: dict[str, str]) -> None:
        """As a user; the object may be gone at once."""
        self.look()
        tag_set = {"TagSet": [{"Key": name, "Value": value} for name, value in tags.items()]}
        self.client.put_object_tagging(Bucket=self.bucket, Key=key, Tagging=tag_set)
        assert self.seen is not None
        rows = self.seen.objects[key]
        self.seen.objects[key] = [*rows[:-1], replace(rows[-1], tags=tags)]

    # Reading.

    def read(self) -> Seen:
        at_ns = time.time_ns()
        objects: dict[str, list[Stored]] = {}
        for key, version, moment, size, marker in self._rows():
            if not key.startswith(OURS):
                tags = {} if marker or not self.tagged else self._tags(key, version)
                if tags is None:
                    continue
                mtime_ns = round(moment.timestamp() * 1000) * 1_000_000
                objects.setdefault(key, []).insert(0, Stored(version, mtime_ns, size, tags, marker))
        uploads = {
            (one["Key"], one["UploadId"]): round(one["Initiated"].timestamp() * 1000) * 1_000_000
            for one in self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])
        }
        return Seen(objects, uploads, at_ns)

    def _rows(self) -> list[tuple[str, str, Any, int, bool]]:
        if not self.versioned:
            found = self.client.list_objects_v2(Bucket=self.bucket).get("Contents", [])
            return [(one["Key"], "", one["LastModified"], one["Size"], False) for one in found]
        page = self.client.list_object_versions(Bucket=self.bucket)
        rows = [
            (
                one["Key"],
                one["VersionId"],
                one["LastModified"],
                one.get("Size", 0),
                "Size" not in one,
                one["IsLatest"],
            )
            for one in (*page.get("Versions", []), *page.get("DeleteMarkers", []))
        ]
        ordered = sorted(rows, key=lambda row: (row[0], not row[5], -row[2].timestamp()))
        return [row[:5] for row in ordered]

    def _tags(self, key: str, version: str) -> dict[str, str] | None:
        """None where it is gone since it was listed."""
        try:
            which = {"VersionId": version} if version else {}
            found = self.client.get_object_tagging(Bucket=self.bucket, Key=key, **which)["TagSet"]
        except self.client.exceptions.ClientError:
            return None
        return {tag["Key"]: tag["Value"] for tag in found}

    # Comparing.

    def due(self, seen: Seen, now_ns: int) -> set[tuple[str, str, str]]:
        found = due_now(self.rules, seen.objects, seen.uploads, now_ns, DAY)
        return {one for one in found if one[2] not in self.held or one[0] == "expire"}

    def look(self) -> None:
        """What changed since the last look was due: by the oracle, on what stood there, by now."""
        before, after = self.seen, self.read()
        self.seen = after
        if before is None:
            return
        for what, key, version in self._done(before, after):
            allowed = {one[0] for one in self._allowed(before, after) if one[1:] == (key, version)}
            # A marker that is not the current version is deleted like any such version.
            whats = {what, "delete-version"} if what == "delete-marker" else {what}
            assert whats & allowed, f"{what} {key} {version} was not due: {before.objects.get(key)}"
            self.gone.append((what, key))

    def _allowed(self, before: Seen, after: Seen) -> set[tuple[str, str, str]]:
        """Also what became due between two looks, as one deletion may make another one due."""
        now_ns = time.time_ns()
        allowed: set[tuple[str, str, str]] = set()
        standing = Seen({key: [*rows] for key, rows in before.objects.items()}, dict(before.uploads), now_ns)
        while new := self.due(standing, now_ns) - allowed:
            allowed |= new
            for what, key, version in new:
                if what == "expire" and self.versioned:
                    markers = [one for one in after.objects.get(key, []) if one.marker]
                    standing.objects[key] += [one for one in markers if one not in standing.objects[key]]
                elif what != "abort":
                    rows = standing.objects[key]
                    standing.objects[key] = [one for one in rows if one.version_id != version]
            standing.objects = {key: rows for key, rows in standing.objects.items() if rows}
        return allowed

    def _done(self, before: Seen, after: Seen) -> list[tuple[str, str, str]]:
        done = [("abort", key, upload) for key, upload in before.uploads.keys() - after.uploads.keys()]
        for key, rows in before.objects.items():
            left = {one.version_id: one for one in after.objects.get(key, [])}
            last = rows[-1]
            for one in rows:
                if one.version_id not in left:
                    is_hidden = self.versioned and not one.marker
                    what = "delete-marker" if one.marker else "delete-version" if is_hidden else "expire"
                    done.append((what, key, one.version_id))
            new = [one for one in after.objects.get(key, []) if one not in rows]
            if any(one.marker for one in new) and not last.marker:
                done.append(("expire", key, last.version_id))
        return done

    def is_settled(self) -> bool:
        """Nothing is due."""
        assert self.seen is not None
        return not self.due(self.seen, self.seen.at_ns)


def watch(buckets: Sequence[Watched], until: Callable[[], bool], alive: Callable[[], None]) -> None:
    """Look at all of them until `until`, and nothing is due any more."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        alive()
        for one in buckets:
            one.look()
        if until() and all(one.is_settled() for one in buckets):
            return
        left = {one.bucket: one.seen and one.due(one.seen, one.seen.at_ns) for one in buckets}
        assert time.monotonic() < deadline, f"still due: {left}"
        time.sleep(0.3)
