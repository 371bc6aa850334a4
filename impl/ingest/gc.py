"""Garbage collection of orphan blobs: stored by an attempt that was never accepted. Keeps when in doubt.

A blob is deleted only when all of this holds:

    gc-age                  nobody can rely on it any more, nor can a request of his be under way (`blobs`)
    gc-audit-before-trust   a complete audit began after that moment: so whatever refers to it has its
                            reverse reference by now, and that none is found means that there is none. Was it
                            an audit by an inventory report, which may lack what stood, then the blob is read,
                            and what alone may refer to it is asked for (`orphans`)
    gc-quarantine-refs      neither an accepted batch nor one in quarantine refers to its hash
    gc-stalled-writer       what is deleted is that name, which nobody will use again, or that version

So it does not matter how long this collector stalls between looking and deleting, nor how late its delete
lands: what it judged once stays an orphan. Candidates come from listing all blobs beside all references,
both in order of hashes, so a pass costs pages and not blobs; each candidate is asked for once more.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.agreement import agree
from fencepost.impl.ingest.audit import last_audit_began_ns
from fencepost.impl.ingest.audit_report import last_report_began_ns
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.listing import AT_ONCE, everything, everything_begun, portions, versions
from fencepost.impl.ingest.orphans import Found, Named, looked_up
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.store import ANYTHING, Unsupported
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import AbortUpload, Delete, List, Outcome


@dataclass
class Collected:
    """What one pass looked at and deleted."""

    blobs: int = 0
    """Looked at: names, or versions."""
    referenced: int = 0
    young: int = 0
    """Orphans so far, that somebody may still rely on."""
    unproven: int = 0
    """Old orphans that no audit covers, or that do not say whose they are: run a full audit."""
    foreign: int = 0
    """Below raw-blobs/ and named as no blob of this bucket's kind: never touched."""
    deleted: list[str] = field(default_factory=list)
    aborted: int = 0
    """Uploads in parts that their collectors left, and whose parts are paid for."""
    unclear: list[str] = field(default_factory=list)
    """Deletes that were not answered; the next pass looks again."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    key: str
    sha256: str
    version: str
    relied_ns: int
    """From when on its age is counted, see `blobs`."""
    reported: bool = False
    """Whether no audit but only one by an inventory report covers it: then it is looked at itself."""


def collect(
    store: Store,
    env: Environment,
    settings: Settings = STANDARD_SETTINGS,
    *,
    safeguards: Safeguards = STANDARD,
    dry_run: bool = False,
) -> Collected:
    """One pass over all blobs. `dry_run` deletes nothing and says what it would delete.

    Raises `SettingsError` when the collectors of this bucket reckon with other times.
    """
    agree(store, env, settings)
    return _Collector(store, env, settings, safeguards, dry_run=dry_run).run()


@dataclass(eq=False, kw_only=True)
class _Collector(IngestContext):
    dry_run: bool

    def run(self) -> Collected:
        result = Collected()
        now_ns = self.env.now_ns()
        for some in portions(self._due(now_ns, result), AT_ONCE):
            self._delete(self._looked_at(self._confirmed(some, result), result), result)
        with contextlib.suppress(Unsupported):  # then there are no uploads either
            self._abort(now_ns, result)
        return result

    def _abort(self, now_ns: int, result: Collected) -> None:
        """Abort old uploads. A collector that is at one still, is told that it is gone, and begins anew."""
        old_ns = now_ns - self.settings.horizon_ns - self.settings.margin_ns
        uploads = everything_begun(self.store, self.env, self.retry, keys.RAW)
        for some in portions((one for one in uploads if one.started_ns < old_ns), AT_ONCE):
            result.aborted += len(some)
            if not self.dry_run:
                self.store.send_all([AbortUpload(one.key, one.upload) for one in some])

    def _due(self, now_ns: int, result: Collected) -> Iterator[_Candidate]:
        """The orphans on which nobody can rely any more, and which somebody has looked for references to."""
        audited_ns = last_audit_began_ns(self.store, self.env, self.settings)
        reported_ns = last_report_began_ns(self.store, self.env, self.settings)
        for one in self._unreferenced(result):
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
        references = (info.key for info in everything(self.store, self.env, self.retry, keys.BY_BLOB))
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

    def _blobs(self, result: Collected) -> Iterator[_Candidate]:
        if self.store.versioned():
            yield from self._versions(result)
            return
        for info in everything(self.store, self.env, self.retry, keys.RAW):
            parsed = keys.parse_raw(info.key)
            if parsed is None or parsed[1] is None:
                result.foreign += 1
                continue
            yield _Candidate(info.key, parsed[0], "", (parsed[1] + 1) * self.settings.horizon_ns)

    def _versions(self, result: Collected) -> Iterator[_Candidate]:
        for found in versions(self.store, self.env, self.retry, keys.RAW):
            parsed = keys.parse_raw(found.key)
            if parsed is None or found.marker:
                result.foreign += 1
                continue
            yield _Candidate(found.key, parsed[0], found.version, found.modified_ns)

    def _confirmed(self, some: list[_Candidate], result: Collected) -> list[_Candidate]:
        """Those to which really nothing refers, asked for one by one."""
        requests = [
            List(f"{prefix}{keys.fan(one.sha256)}/", limit=1)
            for one in some
            for prefix in (keys.BY_BLOB, keys.QUARANTINE_BY_BLOB)
        ]
        replies = self.retry.read_all(self.store, self.env, requests)
        pairs = zip(some, replies[::2], replies[1::2], strict=True)
        kept = [
            one
            for one, accepted, quarantined in pairs
            if not self.safeguards.gc_quarantine_refs(accepted.objects, quarantined.objects)
        ]
        result.referenced += len(some) - len(kept)
        return kept

    def _looked_at(self, orphans: list[_Candidate], result: Collected) -> list[_Candidate]:
        """Of those that a report covers, the ones to which nothing refers: a report may lack a reference."""
        kept = [one for one in orphans if not one.reported]
        reported = [one for one in orphans if one.reported]
        blobs = [Named(one.key, one.sha256, one.version) for one in reported]
        for one, found in zip(reported, looked_up(self, blobs), strict=True):
            if found is Found.ORPHAN:
                kept.append(one)
            elif found is Found.REFERENCED:
                result.referenced += 1
            else:
                result.unproven += 1
        return kept

    def _delete(self, orphans: list[_Candidate], result: Collected) -> None:
        if self.dry_run:
            result.deleted += [one.key for one in orphans]
            return
        deletes = [Delete(one.key, ANYTHING, self.safeguards.gc_by_version(one.version)) for one in orphans]
        for one, reply in zip(orphans, self.store.send_all(deletes), strict=True):
            done = reply.outcome in (Outcome.DONE, Outcome.MISSING)
            (result.deleted if done else result.unclear).append(one.key)
