"""S3's operations on multipart uploads.

A checksum of an object in parts is either that of the whole (`FULL_OBJECT`, CRCs only), computed while the
parts are joined, or a digest of the parts' digests (`COMPOSITE`), as the client chose when it began.
"""

import base64
import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.impl.objects import object_state
from fencepost.impl.objects.acls import OWNER
from fencepost.impl.objects.context import Context, copy_bytes, shown_version
from fencepost.impl.objects.object_state import CHECKSUMS, encryption
from fencepost.impl.objects.operations import CHECKSUM_PARAMETERS, COPY_BYTES_MAX, WRITING, Receiving
from fencepost.impl.objects.wire import listings
from fencepost.impl.objects.wire import parameters as rules
from fencepost.impl.objects.wire.body import DIGESTS
from fencepost.impl.objects.wire.conditions import COPY_IF, condition, quoted, require_done
from fencepost.impl.objects.wire.errors import refuse
from fencepost.impl.store.bucket import fingerprint_of_parts
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.files.uploads import IncomingPart, PartInfo
from fencepost.impl.store.requests import (
    BINARY,
    AbortUpload,
    CompleteUpload,
    CreateUpload,
    Metadata,
    Outcome,
)

PART_BYTES_MIN = 5 << 20
OBJECT_BYTES_MAX = 5 << 40
_AT = ("Bucket", "Key", "UploadId")
KNOWN: Mapping[str, tuple[str, ...]] = {
    "CreateMultipartUpload": (*WRITING, "ChecksumType", "ChecksumAlgorithm"),
    "UploadPart": (*_AT, "PartNumber", "ContentMD5", *CHECKSUM_PARAMETERS),
    "UploadPartCopy": (*_AT, "PartNumber", "CopySource", "CopySourceRange", *COPY_IF),
    "CompleteMultipartUpload": (
        *_AT, "MultipartUpload", "IfMatch", "IfNoneMatch", "MpuObjectSize",
        "ChecksumType", *CHECKSUM_PARAMETERS,
    ),
    "AbortMultipartUpload": _AT,
    "ListMultipartUploads": (
        "Bucket", "Prefix", "Delimiter", "MaxUploads", "KeyMarker", "UploadIdMarker", "EncodingType",
    ),
    "ListParts": (*_AT, "MaxParts", "PartNumberMarker"),
}  # fmt: skip


@dataclass(frozen=True)
class Multipart:
    context: Context

    def create_multipart_upload(self, p: Mapping[str, Any]) -> dict[str, Any]:
        request = CreateUpload(p["Key"], p.get("ContentType", BINARY), Metadata(rules.metadata(p)))
        sums = _chosen(p)
        with self.context.buckets.entered(p["Bucket"]) as (store, document):
            extra = self.context.written(p, document) | sums
            reply = store.begin_upload(request, Metadata(extra))
        require_done(reply.outcome)
        return {"Bucket": p["Bucket"], "Key": p["Key"], "UploadId": reply.upload, **sums, **encryption(extra)}

    @contextlib.contextmanager
    def upload_part(self, p: Mapping[str, Any]) -> Iterator[Receiving]:
        with self.context.store(p) as store, self._part(store, p) as part:

            def publish(md5: str, checksums: dict[str, str]) -> dict[str, Any]:
                note = ",".join(f"{name.upper()}:{text}" for name, text in checksums.items())
                reply = part.publish(md5, note)
                require_done(reply.outcome)
                named = {f"Checksum{name.upper()}": text for name, text in checksums.items()}
                begun = store.upload_extra(p["Key"], p["UploadId"]) or {}
                return {"ETag": quoted(reply.etag), **named, **encryption(begun)}

            yield Receiving(part.write, publish)

    @contextlib.contextmanager
    def _part(self, store: FileStore, p: Mapping[str, Any]) -> Iterator[IncomingPart]:
        with store.incoming_part(p["Key"], p["UploadId"], rules.part_number(p)) as part:
            if part is None:
                refuse("NoSuchUpload", upload_id=p["UploadId"])
            yield part

    def upload_part_copy(self, p: Mapping[str, Any]) -> dict[str, Any]:
        rules.part_number(p)
        rules.copy_range(p)
        with (
            self.context.source(p) as source,
            self.context.store(p) as store,
            self._part(store, p) as part,
        ):
            start, end = rules.copy_range(p, source.info.size)
            stop = source.info.size if end is None else end
            if stop - start > COPY_BYTES_MAX:
                refuse("InvalidRequest", "The specified copy source is larger than 5 GiB: copy it in parts")
            digests = {name: DIGESTS[name.lower()]() for name in self._algorithm(store, p)}

            def write(piece: bytes) -> None:
                part.write(piece)
                for digest in digests.values():
                    digest.update(piece)

            md5 = copy_bytes(source.fd, start, stop, write)
            sums = {name: base64.b64encode(digest.digest()).decode() for name, digest in digests.items()}
            reply = part.publish(md5, ",".join(f"{name}:{text}" for name, text in sums.items()))
            require_done(reply.outcome)
        result = {"ETag": quoted(reply.etag), "LastModified": self.context.now()}
        result |= {f"Checksum{name}": text for name, text in sums.items()}
        return {"CopyPartResult": result, "CopySourceVersionId": source.version}

    def _algorithm(self, store: FileStore, p: Mapping[str, Any]) -> list[str]:
        begun = store.upload_extra(p["Key"], p["UploadId"]) or {}
        return [begun["ChecksumAlgorithm"]] if "ChecksumAlgorithm" in begun else []

    def complete_multipart_upload(self, p: Mapping[str, Any]) -> dict[str, Any]:
        parts = rules.completed_parts(p)
        when = condition(p)
        with self.context.buckets.entered(p["Bucket"]) as (store, document):
            uploaded = store.parts(p["Key"], p["UploadId"])
            if uploaded is None:
                return self._repeated(store, p, parts)
            known = {part.number: part for part in uploaded}
            wanted = {part["PartNumber"]: part for part in p["MultipartUpload"]["Parts"]}
            for number, etag in parts:
                if (
                    number not in known
                    or known[number].etag != etag
                    or _differ(wanted[number], known[number])
                ):
                    refuse("InvalidPart", upload_id=p["UploadId"], part_number=str(number), etag=etag)
            small = [number for number, _ in parts[:-1] if known[number].size < PART_BYTES_MIN]
            if small:
                refuse("EntityTooSmall", part_number=str(small[0]), min_size_allowed=str(PART_BYTES_MIN))
            if sum(known[number].size for number, _ in parts) > OBJECT_BYTES_MAX:
                refuse("EntityTooLarge", max_size_allowed=str(OBJECT_BYTES_MAX))
            if p.get("MpuObjectSize") not in (None, sum(known[number].size for number, _ in parts)):
                refuse("InvalidRequest", "The provided 'x-amz-mp-object-size' header value does not match.")
            begun = store.upload_extra(p["Key"], p["UploadId"]) or {}
            joined = _Joined(begun, [known[number] for number, _ in parts], p)
            request = CompleteUpload(p["Key"], p["UploadId"], parts, when)
            reply = store.complete(request, document.keep, joined)
            if reply.outcome is Outcome.GONE:
                return self._repeated(store, p, parts)
        require_done(reply.outcome)
        return self._completed(p, reply.etag, reply.version, {**joined.sums, **encryption(begun)})

    def _repeated(
        self, store: FileStore, p: Mapping[str, Any], parts: tuple[tuple[int, str], ...]
    ) -> dict[str, Any]:
        """The answer that an earlier completion has given, whatever became of the object since."""
        result = store.upload_result(p["Key"], p["UploadId"])
        are_md5s = all(re.fullmatch("[0-9a-f]{32}", etag) for _, etag in parts)
        named = fingerprint_of_parts([etag for _, etag in parts]) if are_md5s else ""
        if result is None or result.etag != named:
            refuse("NoSuchUpload", upload_id=p["UploadId"])
        shown = object_state.checksums(result.extra) | encryption(result.extra)
        return self._completed(p, result.etag, result.version, shown)

    def _completed(
        self, p: Mapping[str, Any], etag: str, version: str, shown: Mapping[str, str]
    ) -> dict[str, Any]:
        return {
            "Location": self.context.buckets.location(p["Bucket"], p["Key"]),
            "Bucket": p["Bucket"],
            "Key": p["Key"],
            "ETag": quoted(etag),
            "VersionId": shown_version(version),
            **shown,
        }

    def abort_multipart_upload(self, p: Mapping[str, Any]) -> dict[str, Any]:
        with self.context.store(p) as store:
            require_done(store.send(AbortUpload(p["Key"], p["UploadId"])).outcome)
        return {}

    def list_multipart_uploads(self, p: Mapping[str, Any]) -> Mapping[str, Any]:
        limit = rules.page_limit(p, "MaxUploads")
        after = (p.get("KeyMarker", ""), p.get("UploadIdMarker", ""))
        with self.context.store(p) as store:
            found = store.uploads(p.get("Prefix", ""))
        entries = [listings.UploadEntry(one.key, one.upload, one.started_ns) for one in found]
        return listings.uploads(p, listings.cut(entries, p, limit, after), owner=OWNER)

    def list_parts(self, p: Mapping[str, Any]) -> Mapping[str, Any]:
        with self.context.store(p) as store:
            found = store.parts(p["Key"], p["UploadId"])
            begun = store.upload_extra(p["Key"], p["UploadId"]) or {}
        if found is None:
            refuse("NoSuchUpload", upload_id=p["UploadId"])
        entries = [
            listings.PartEntry(part.number, part.etag, part.size, part.modified_ns, _sums(part))
            for part in found
        ]
        return {
            **listings.parts(p, entries, owner=OWNER),
            "ChecksumAlgorithm": begun.get("ChecksumAlgorithm"),
            "ChecksumType": begun.get("ChecksumType"),
        }


def _chosen(p: Mapping[str, Any]) -> dict[str, str]:
    """The algorithm of an upload's checksums and how they make that of the object."""
    if "ChecksumAlgorithm" not in p:
        return {}
    algorithm: str = p["ChecksumAlgorithm"].upper()
    if algorithm not in CHECKSUMS:
        refuse(
            "InvalidRequest",
            "Checksum algorithm provided is unsupported. Please try again with any of the valid types: "
            f"[{', '.join(CHECKSUMS)}]",
        )
    kind = p.get("ChecksumType", "FULL_OBJECT" if algorithm == "CRC64NVME" else "COMPOSITE")
    fits = {"FULL_OBJECT": algorithm.startswith("CRC"), "COMPOSITE": algorithm != "CRC64NVME"}
    if not fits.get(kind, False):
        refuse(
            "InvalidRequest",
            f"The {kind} checksum type cannot be used with the {algorithm.lower()} checksum algorithm.",
        )
    return {"ChecksumAlgorithm": algorithm, "ChecksumType": kind}


def _sums(part: PartInfo) -> dict[str, str]:
    """The checksums of a part that are known."""
    pairs = (note.partition(":") for note in part.note.split(",") if note)
    return {f"Checksum{name}": text for name, _, text in pairs}


def _differ(wanted: Mapping[str, Any], part: PartInfo) -> bool:
    known = _sums(part)
    return any(name in known and wanted.get(name, text) != text for name, text in known.items())


class _Joined:
    """The object that the parts make, and its checksum."""

    def __init__(self, begun: Mapping[str, str], parts: list[PartInfo], p: Mapping[str, Any]) -> None:
        self.sums: dict[str, str] = {}
        self._parts = parts
        self._given = {name: p[name] for name in CHECKSUM_PARAMETERS if name in p}
        algorithm = begun.get("ChecksumAlgorithm") or next(
            (name.removeprefix("Checksum") for name in self._given), ""
        )
        self._name = f"Checksum{algorithm}"
        self._kind = begun.get("ChecksumType") or p.get("ChecksumType", "FULL_OBJECT")
        if p.get("ChecksumType", self._kind) != self._kind or self._given.keys() - {self._name}:
            refuse("InvalidRequest", "The checksum is not the one that the upload was created with.")
        self._digest = DIGESTS[algorithm.lower()]() if algorithm else None
        self.reads = bool(algorithm) and self._kind == "FULL_OBJECT"

    def update(self, piece: bytes) -> None:
        if self._digest is not None and self._kind == "FULL_OBJECT":
            self._digest.update(piece)

    def kept(self, begun: Mapping[str, str]) -> dict[str, str]:
        kept = {
            name: text for name, text in begun.items() if name not in ("ChecksumAlgorithm", "ChecksumType")
        }
        found = self._checksum()
        if found:
            self.sums = {self._name: found, "ChecksumType": self._kind}
        if self._given.get(self._name, found) not in (found, found.partition("-")[0]):
            refuse("BadDigest", "The checksum you specified did not match the calculated checksum.")
        known = [_sums(part).get(self._name, "") for part in self._parts]
        of_parts = {"PartSums": ",".join(known)} if self._name in self.sums and all(known) else {}
        sizes = object_state.kept_parts(part.size for part in self._parts)
        return {**kept, **self.sums, **of_parts, "Parts": sizes}

    def _checksum(self) -> str:
        if self._digest is None:
            return ""
        if self._kind == "COMPOSITE":
            known = [_sums(part).get(self._name) for part in self._parts]
            if None in known:
                return ""
            for text in known:
                self._digest.update(base64.b64decode(text or ""))
        tail = f"-{len(self._parts)}" if self._kind == "COMPOSITE" else ""
        return base64.b64encode(self._digest.digest()).decode() + tail
