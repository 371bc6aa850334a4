"""Garbage collection of orphan blobs: of attempts that were never accepted. When unsure, it keeps a blob.

It deletes a blob only when all of this holds:

    gc-age                  no attempt can rely on the blob any more, nor have a request in flight that does
                            (see `blobs`)
    gc-audit-before-trust   a complete audit began after that moment: so whatever refers to the blob has its
                            reverse reference by now, and a missing reference proves that there is none. If
                            that was an audit by an inventory report, which may lack an existing key, the blob
                            itself is read, and the only objects that may refer to it
    gc-quarantine-refs      neither an accepted batch nor one in quarantine refers to its hash
    gc-stalled-writer       the delete hits that name, which no process will use again, or that version

So it does not matter how long this collector stalls between looking and deleting, nor how late its delete is
applied: once judged an orphan, a blob remains one. Candidates come from listing all blobs beside all
references, both in order of hashes, so a pass costs pages and not blobs; each candidate is checked once more
by name.

Candidates may come from elsewhere, where a listing of all blobs costs too much:

    collect(report=...)     the blobs and references in an inventory report
    CollectorOfLog(...)     the blobs that the change log of an object server names, each once, when it is old
                            enough to be judged

Neither is trusted. A candidate is looked up in the store, and its age is that of the store. Everything above
applies to it as to a listed one, so a report or a log that is stale, torn or of another bucket can only name
too few blobs or too many, and never have a referenced blob deleted.

A blob that only a report covers is checked without any index. A frame names its batch, and a batch has one
key below accepted/ and, with its hash, one below quarantine/: these are the only objects that may ever refer
to the blob. At a time when no further reference can appear (`gc-age`), that check needs no audit. It costs
reading the blob, which is why a listing of references comes first.
"""

import contextlib
import enum
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from fencepost.impl.cursor import Cursor, Pace
from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.audit import LATEST, REPORTED, proof_began_ns
from fencepost.impl.ingest.context import AT_ONCE, IngestContext, agree, portions
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.errors import Damaged, FrameError, InventoryError
from fencepost.impl.ingest.frames import ANY_SIZE, read
from fencepost.impl.ingest.inventory import Report
from fencepost.impl.ingest.notified import Log, begin_of, time_of_event
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.store import ANYTHING, Unsupported
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import AbortUpload, Delete, Get, Head, List, ListVersions, Outcome


@dataclass
class Collected:
    blobs: int = 0
    """Blobs it looked at: names, or versions."""
    referenced: int = 0
    young: int = 0
    """Orphans so far that an attempt may still rely on."""
    unproven: int = 0
    """Old orphans that no audit covers, or whose frame names no batch: run a full audit."""
    foreign: int = 0
    """Objects below raw-blobs/ that are not named like a blob of this kind of bucket: never touched."""
    deleted: list[str] = field(default_factory=list)
    aborted: int = 0
    """Abandoned multipart uploads, whose parts are paid for."""
    unclear: list[str] = field(default_factory=list)
    """Deletes with an unknown outcome; the next pass looks again."""
    gone: int = 0
    """Blobs that the report or the log names and that are not there any more."""
    lost: bool = False
    """True if the log has lost events that no pass has read: run a pass over all blobs."""


class Found(enum.Enum):
    ORPHAN = "orphan"
    REFERENCED = "referenced"
    UNKNOWN = "unknown"
    """No frame, another hash than its name, or a possible reference that is unreadable: keep the blob."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    key: str
    sha256: str
    version: str
    relied_ns: int
    """The moment from which its age is counted, see `blobs`."""
    reported: bool = False
    """True if only an audit by an inventory report covers it: then the blob itself is checked."""


def collect(
    store: Store,
    env: Environment,
    settings: Settings = STANDARD_SETTINGS,
    *,
    safeguards: Safeguards = STANDARD,
    dry_run: bool = False,
    report: Report | None = None,
    prefix: str = "",
) -> Collected:
    """One pass over all blobs, or over those in `report`, below `prefix` in its bucket.

    `dry_run` deletes nothing and returns what it would delete. Raises `SettingsError` when the collectors of
    this bucket use other times.
    """
    agree(store, env, settings)
    collector = _Collector(store, env, settings, safeguards, dry_run=dry_run)
    if report is not None:
        report.check(bucket=None, now_ns=env.now_ns())
    return collector.run(report, prefix)


@dataclass(eq=False, kw_only=True)
class _Collector(IngestContext):
    dry_run: bool

    def run(self, report: Report | None = None, prefix: str = "") -> Collected:
        result = Collected()
        now_ns = self.env.now_ns()
        found = self._unreferenced(result) if report is None else self._reported(report, prefix, result)
        self.delete_due(now_ns, found, result)
        with contextlib.suppress(Unsupported):  # then there are no uploads either
            self._abort(now_ns, result)
        return result

    def delete_due(self, now_ns: int, found: Iterable[_Candidate], result: Collected) -> None:
        """Delete those of the candidates that are orphans for certain."""
        for some in portions(self._due(now_ns, found, result), AT_ONCE):
            orphans = self._checked(self._confirmed(some, result), result)
            if self.dry_run:
                result.deleted += [one.key for one in orphans]
                continue
            deletes = [
                Delete(one.key, ANYTHING, self.safeguards.gc_by_version(one.version)) for one in orphans
            ]
            for one, reply in zip(orphans, self.store.send_all(deletes), strict=True):
                done = reply.outcome in (Outcome.DONE, Outcome.MISSING)
                (result.deleted if done else result.unclear).append(one.key)

    def _abort(self, now_ns: int, result: Collected) -> None:
        """Abort old uploads. A collector that still works on one sees that it is gone, and starts anew."""
        old_ns = now_ns - self.settings.horizon_ns - self.settings.margin_ns
        uploads = self.list_uploads(keys.RAW)
        for some in portions((one for one in uploads if one.started_ns < old_ns), AT_ONCE):
            result.aborted += len(some)
            if not self.dry_run:
                self.store.send_all([AbortUpload(one.key, one.upload) for one in some])

    def _due(self, now_ns: int, found: Iterable[_Candidate], result: Collected) -> Iterator[_Candidate]:
        """The orphans on which no attempt can rely any more, and which an audit covers."""
        audited_ns = proof_began_ns(self, LATEST)
        reported_ns = proof_began_ns(self, REPORTED)
        for one in found:
            unneeded_ns = self.safeguards.gc_age(
                one.relied_ns, self.settings.horizon_ns, self.settings.margin_ns
            )
            if now_ns < unneeded_ns:
                result.young += 1
            elif self.safeguards.gc_audit_before_trust(unneeded_ns, audited_ns):
                yield one
            elif self.safeguards.gc_audit_before_trust(unneeded_ns, reported_ns):
                yield replace(one, reported=True)
            else:
                result.unproven += 1

    def _unreferenced(self, result: Collected) -> Iterator[_Candidate]:
        """The blobs whose hash is not among the references, both listed in order of hashes."""
        references = self.list_keys(keys.BY_BLOB)
        at = next(references, None)
        for one in self._blobs(result):
            result.blobs += 1
            prefix = f"{keys.BY_BLOB}{keys.fan(one.sha256)}/"
            while at is not None and at < prefix:
                at = next(references, None)
            if at is not None and at.startswith(prefix):
                result.referenced += 1
            else:
                yield one

    def _reported(self, report: Report, prefix: str, result: Collected) -> Iterator[_Candidate]:
        """The blobs in the report to whose hash none of its references refers, as the store has them.

        The first reading goes to the end before anything is done: only then the report is known to be whole.
        """
        references: set[bytes] = set()
        named = False
        for key in report.list_keys(prefix):
            named |= key.startswith(keys.RAW)
            if key.startswith(keys.BY_BLOB) and (sha256 := keys.hash_of_reference(key)) is not None:
                references.add(bytes.fromhex(sha256))
        if not named and self.read(List(keys.RAW, limit=1)).objects:
            raise InventoryError(
                f"the report {report.name} names nothing below {prefix}{keys.RAW}, and the store has blobs "
                "there: is the report filtered, of another prefix, or older than the first batch?"
            )
        raw = (key for key in report.list_keys(prefix) if key.startswith(keys.RAW))
        for some in portions(raw, AT_ONCE):
            result.blobs += len(some)
            wanted = []
            for key in some:
                parsed = keys.parse_raw(key)
                if parsed is not None and bytes.fromhex(parsed[0]) in references:
                    result.referenced += 1
                else:
                    wanted.append(key)
            yield from self.existing(wanted, result)

    def existing(self, named: list[str], result: Collected) -> list[_Candidate]:
        """The blobs, or versions of them, that are there under these keys."""
        ours = []
        for key in named:
            parsed = keys.parse_raw(key)
            if parsed is None or (parsed[1] is None) != self.store.versioned():
                result.foreign += 1
            else:
                ours.append((key, *parsed))
        found: list[_Candidate] = []
        if self.store.versioned():
            for (key, sha256, _), page in zip(
                ours, self.read_all([ListVersions(key) for key, _, _ in ours]), strict=True
            ):
                versions = [one for one in page.versions if one.key == key and not one.marker]
                result.gone += not versions
                found += [_Candidate(key, sha256, one.version, one.modified_ns) for one in versions]
            return found
        replies = self.read_all([Head(key) for key, _, _ in ours])
        for (key, sha256, generation), reply in zip(ours, replies, strict=True):
            if reply.info is None:
                result.gone += 1
                continue
            assert generation is not None, "a name in a plain bucket has one"
            found.append(_Candidate(key, sha256, "", (generation + 1) * self.settings.horizon_ns))
        return found

    def unreferenced(self, found: list[_Candidate], result: Collected) -> list[_Candidate]:
        """Those to which no reference refers by now."""
        return self._confirmed(found, result) if found else []

    def _blobs(self, result: Collected) -> Iterator[_Candidate]:
        if self.store.versioned():
            yield from self._versions(result)
            return
        for info in self.list_objects(keys.RAW):
            parsed = keys.parse_raw(info.key)
            if parsed is None or parsed[1] is None:
                result.foreign += 1
                continue
            yield _Candidate(info.key, parsed[0], "", (parsed[1] + 1) * self.settings.horizon_ns)

    def _versions(self, result: Collected) -> Iterator[_Candidate]:
        for found in self.list_versions(keys.RAW):
            parsed = keys.parse_raw(found.key)
            if parsed is None or found.marker:
                result.foreign += 1
                continue
            yield _Candidate(found.key, parsed[0], found.version, found.modified_ns)

    def _confirmed(self, some: list[_Candidate], result: Collected) -> list[_Candidate]:
        """Those without a reference, each listed by its name."""
        requests = [
            List(f"{prefix}{keys.fan(one.sha256)}/", limit=1)
            for one in some
            for prefix in (keys.BY_BLOB, keys.QUARANTINE_BY_BLOB)
        ]
        replies = self.read_all(requests)
        pairs = zip(some, replies[::2], replies[1::2], strict=True)
        kept = [
            one
            for one, accepted, quarantined in pairs
            if not self.safeguards.gc_quarantine_refs(accepted.objects, quarantined.objects)
        ]
        result.referenced += len(some) - len(kept)
        return kept

    def _checked(self, orphans: list[_Candidate], result: Collected) -> list[_Candidate]:
        """Without blobs that only a report covers and something refers to: a report may lack a reference."""
        found = {one: self._check(one) for one in orphans if one.reported}
        result.referenced += sum(check is Found.REFERENCED for check in found.values())
        result.unproven += sum(check is Found.UNKNOWN for check in found.values())
        return [one for one in orphans if found.get(one, Found.ORPHAN) is Found.ORPHAN]

    def _check(self, blob: _Candidate) -> Found:
        """Check if an object refers to the blob, by the batch that its frame names."""
        reply = self.read(Get(blob.key, version=blob.version))
        if reply.info is None or hashlib.sha256(reply.body).hexdigest() != blob.sha256:
            return Found.UNKNOWN
        try:
            identity = read(reply.body, ANY_SIZE).identity
        except FrameError:
            return Found.UNKNOWN
        key = keys.accepted_key(identity)
        wanted = [Get(key), Head(keys.conflict_key(identity, blob.sha256))]
        manifest, conflict = self.read_all(wanted)
        if conflict.info is not None:
            return Found.REFERENCED
        if manifest.info is None:
            return Found.ORPHAN
        try:
            accepted = Manifest.read(manifest.body, key)
        except Damaged:
            return Found.UNKNOWN
        return Found.REFERENCED if accepted.frame_sha256 == blob.sha256 else Found.ORPHAN


class CollectorOfLog:
    """Collects the garbage among the blobs that a change log names, from a durable cursor along it.

    A blob is judged once, when no attempt can rely on it any more. The cursor stops before a blob that is too
    young or that no audit covers, and the log keeps what follows. Two processes at once only do the same work
    twice. `prefix` is that of the store in its bucket.
    """

    def __init__(
        self,
        store: Store,
        env: Environment,
        settings: Settings = STANDARD_SETTINGS,
        *,
        log: Log,
        source: str,
        prefix: str = "",
        safeguards: Safeguards = STANDARD,
        dry_run: bool = False,
    ) -> None:
        self._gc = _Collector(store, env, settings, safeguards, dry_run=dry_run)
        self._log = log
        self._prefix = f"{prefix}{keys.RAW}"
        self._cut = len(prefix)
        (self._shard,) = log.shards()
        pace = Pace(settings.checkpoint_items, settings.checkpoint_s)
        self.cursor = Cursor(self._gc, f"{keys.CURSORS}gc-{quote(source, safe='')}.json", pace=pace)

    def once(self) -> Collected:
        """Judge the blobs that the log names, from the cursor to the last that is old enough."""
        gc, log, shard = self._gc, self._log, self._shard
        agree(gc.store, gc.env, gc.settings)
        result = Collected()
        now_ns = gc.env.now_ns()
        after = self.cursor.start()
        begins_ns = log.begins_ns(shard)
        if begins_ns > time_of_event(after):
            result.lost = True
            after = begin_of(begins_ns)
        until_ns = min(log.settled_ns(shard), now_ns - gc.settings.horizon_ns - gc.settings.margin_ns)
        for some in portions(log.events(shard, after, until_ns), AT_ONCE):
            for event in some:
                self.cursor.take(event.position)
            if not self._judge([e.change.key for e in some if e.change.new is not None], now_ns, result):
                break
            if not gc.dry_run:
                for event in some:
                    self.cursor.done(event.position)
        else:
            result.lost |= log.begins_ns(shard) > begins_ns  # it lost more, or a hole ended the reading
        if not gc.dry_run:
            self.cursor.save()
            if self.cursor.saved:
                log.hold({shard: time_of_event(self.cursor.saved)})
        return result

    def _judge(self, written: list[str], now_ns: int, result: Collected) -> bool:
        """Delete the orphans among these keys; returns False if one of them is to be looked at again."""
        gc = self._gc
        named = list(dict.fromkeys(key[self._cut :] for key in written if key.startswith(self._prefix)))
        result.blobs += len(named)
        left = (result.young, result.unproven, len(result.unclear))
        gc.delete_due(now_ns, gc.unreferenced(gc.existing(named, result), result), result)
        return (result.young, result.unproven, len(result.unclear)) == left
