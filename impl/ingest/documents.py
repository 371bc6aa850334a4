"""The small JSON documents of ingest, with one canonical form, and strict reading.

Keys are sorted and there is no white space, so that equal documents are equal bytes. The identity manifest
carries `attempt`, an identifier of the attempt that wrote it: after a create with an unknown outcome a
collector finds out by it whether the existing manifest is its own.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from fencepost.impl.ingest import keys
from fencepost.impl.ingest.errors import Damaged, FrameError
from fencepost.impl.ingest.frames import ANY_SIZE, Frame, read
from fencepost.impl.ingest.keys import Identity

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Document:
    """An object with these fields, of type str, int or str | None, and its schema."""

    schema: ClassVar[str]

    def body(self) -> bytes:
        return write({"schema": self.schema, **asdict(self)})

    @classmethod
    def read(cls, body: bytes, key: str) -> Self:
        """The document in `body`; `key` is for messages."""
        content = parse(body, key, cls.schema)
        wanted = {field.name: field.type for field in fields(cls)}
        for name, kind in wanted.items():
            if not isinstance(content.get(name), kind):  # type: ignore[arg-type] # no field's type is a text
                raise Damaged(f"{key} has {name}={content.get(name)!r}, expected {kind}")
        return cls(**{name: content[name] for name in wanted})


@dataclass(frozen=True, slots=True)
class _OfBatch(Document):
    agent_id: str
    boot_id: str
    seq_start: int
    seq_end: int

    @property
    def identity(self) -> Identity:
        return Identity(self.agent_id, self.boot_id, self.seq_start, self.seq_end)


@dataclass(frozen=True, slots=True)
class Manifest(_OfBatch):
    """The identity manifest: its existence makes a batch accepted."""

    schema: ClassVar[str] = "lightmetrics.accepted_batch.v1"

    frame_sha256: str
    frame_bytes: int
    raw_blob_key: str
    accepted_at_unix_ns: int
    collector_id: str
    wire_version: int
    frame_version: int
    attempt: str

    @property
    def key(self) -> str:
        return keys.accepted_key(self.identity)

    @property
    def id(self) -> str:
        return keys.manifest_id(self.identity, self.accepted_at_unix_ns)

    @property
    def by_time_key(self) -> str:
        return keys.by_time_key(self.identity, self.accepted_at_unix_ns)

    @property
    def by_blob_key(self) -> str:
        return keys.by_blob_key(self.frame_sha256, self.identity)

    def frame(self, body: bytes | None) -> Frame:
        """Read the frame of this batch from the body of its blob; None where there is no blob."""
        if body is None:
            raise Damaged(f"{self.raw_blob_key} is missing, which {self.key} refers to")
        if hashlib.sha256(body).hexdigest() != self.frame_sha256:
            raise Damaged(f"{self.raw_blob_key} has another hash than {self.key} accepted")
        try:
            return read(body, ANY_SIZE)
        except FrameError as error:
            raise Damaged(str(error)) from None


@dataclass(frozen=True, slots=True)
class ConflictRecord(_OfBatch):
    """The record of a batch whose identity belongs to another batch."""

    schema: ClassVar[str] = "lightmetrics.identity_conflict.v1"

    accepted_manifest_key: str
    accepted_raw_blob_key: str
    accepted_frame_sha256: str
    submitted_raw_blob_key: str
    submitted_frame_sha256: str
    observed_at_unix_ns: int
    collector_id: str

    @property
    def key(self) -> str:
        return keys.conflict_key(self.identity, self.submitted_frame_sha256)

    @property
    def by_blob_key(self) -> str:
        return keys.quarantine_by_blob_key(self.submitted_frame_sha256, self.identity)


def write(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse(body: bytes, key: str, schema: str = "") -> dict[str, Any]:
    """The JSON object in `body`, of this schema if one is given."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{key} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise Damaged(f"{key} holds a JSON {type(content).__name__}, expected an object")
    if schema and content.get("schema") != schema:
        raise Damaged(f"{key} has schema {content.get('schema')!r}, expected {schema!r}")
    return content
