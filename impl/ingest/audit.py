"""The full audit: checks every manifest under accepted/ and quarantine/ against what is derived from it.

It finds what no notification and no cursor finds, a batch whose collector died before it wrote any index
object, and it *proves* something: when it is complete, every manifest that existed when it began has its
reverse reference. Garbage collection trusts the absence of a reference for that reason alone, so the audit
records the proof: `audits/v1/latest.json` has the start of the last complete audit, by the store's own clock.
The start is the time stamp of an object that the audit wrote before it looked at anything.

It reads keys, a thousand a request, and only the bodies of manifests that lack something. `deep` reads every
manifest and every blob, and compares the hashes.

A deployment that knows its agents can narrow the listing to some of them (`audit_agents`). That proves
nothing to garbage collection, because batches of others may refer to the same blob.

An inventory report can replace the listing, which costs most:

    report = report_at(Path("inventory/metrics/daily"))
    report.check(bucket="metrics", now_ns=env.now_ns())
    print(audit_by_report(store, env, settings, report=report, prefix="prod/").repaired)

A report is old and no snapshot: it may lack an existing key and name a deleted one. So it only shows where to
look:

    missing in the report     requested by its name before anything is written
    present in the report     trusted until the next report; with `deep`, requested too
    accepted since            listed by its place in time, from the scan on or from the reconciler's cursor;
                              a batch without a place in time is left to the next report
    quarantine                listed, being small: conflicts are recent

The audit records that proof as well, but separately: `audits/v1/reported.json` has the start of the scan. It
is weaker than that of a listing. A listing of accepted/ shows every manifest that existed when it began; a
report promises nothing, and a manifest that it lacks may have no reverse reference. So where garbage
collection has nothing but a report it checks itself whether anything refers to a blob (see `gc`), and that
check does not depend on the report. The audit by report only decides which blobs are worth it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import AT_ONCE, Findings, IngestContext, portions
from fencepost.impl.ingest.documents import JSON, ConflictRecord, Manifest, parse, write
from fencepost.impl.ingest.errors import Damaged, IdentityError, InventoryError, StoreUnavailable
from fencepost.impl.ingest.indexes import DERIVED, Indexes, derive, incomplete, without_data
from fencepost.impl.ingest.inventory import Report
from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.reconcile import Reconciler
from fencepost.impl.ingest.rollups import Unrolled, mark_unrolled
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Get, Head, List, Outcome, Put

LATEST = f"{keys.AUDITS}latest.json"
REPORTED = f"{keys.AUDITS}reported.json"
SCHEMA = "fencepost.ingest_audit.v1"
SWAPS_MAX = 10


@dataclass(kw_only=True)
class Audited(Findings):
    """`damaged`: such an audit proves nothing."""

    id: str
    began_ns: int
    """By the store's clock. The audit covers every batch accepted before."""
    accepted: int = 0
    quarantined: int = 0
    hours_marked: int = 0
    """Hours with batches that the rollups' cursor has passed and no entry counts."""
    report: str = ""
    """The inventory report; empty for an audit by listing."""
    since: int = 0
    """Batches accepted since that report that were checked."""
    gone: list[str] = field(default_factory=list)
    """Accepted manifests that the report names and the bucket lacks: other programs delete what must stay."""

    @property
    def complete(self) -> bool:
        return not self.damaged


def full_audit(
    store: Store,
    env: Environment,
    settings: Settings = STANDARD_SETTINGS,
    *,
    safeguards: Safeguards = STANDARD,
    deep: bool = False,
) -> Audited:
    """Audit everything, repair what is missing, and record the proof."""
    return Audit(store, env, settings, safeguards, deep=deep).run()


def audit_by_report(
    store: Store,
    env: Environment,
    settings: Settings = STANDARD_SETTINGS,
    *,
    report: Report,
    prefix: str = "",
    safeguards: Safeguards = STANDARD,
    deep: bool = False,
) -> Audited:
    """Audit the batches in the report, below `prefix` in its bucket, and those accepted since."""
    report.check(bucket=None, now_ns=env.now_ns())
    return ReportAudit(store, env, settings, safeguards, deep=deep, report=report, prefix=prefix).run()


def audit_agents(
    store: Store,
    env: Environment,
    settings: Settings = STANDARD_SETTINGS,
    *,
    agents: Sequence[str],
    boot: str | None = None,
    safeguards: Safeguards = STANDARD,
    deep: bool = False,
) -> Audited:
    """Audit the batches of these agents, or of one boot of them, and repair what is missing."""
    return AgentsAudit(store, env, settings, safeguards, deep=deep, agents=agents, boot=boot).run()


def proof_began_ns(context: IngestContext, key: str) -> int | None:
    """When the last complete audit began that has its proof at `key` (LATEST or REPORTED), by the store."""
    reply = context.read(Get(key))
    return None if reply.info is None else _began_ns(reply.body, key)


def _began_ns(body: bytes, key: str) -> int:
    fields = parse(body, key)
    if fields.get("schema") != SCHEMA or not isinstance(fields.get("began_ns"), int):
        raise Damaged(f"{key} is not a record of an audit; find out what wrote it, then delete it")
    return int(fields["began_ns"])


@dataclass(eq=False, kw_only=True)
class Audit(IngestContext):
    deep: bool

    def run(self) -> Audited:
        id_ = self.env.new_id()
        mark = f"{keys.AUDITS}{id_}.json"
        result = Audited(id=id_, began_ns=self._begin(mark))
        indexes = Indexes()
        for prefix in DERIVED:
            for key in self.list_keys(prefix):
                indexes.take(key)
        self.check_accepted(self.list_keys(keys.ACCEPTED), indexes, result)
        self.check_quarantined(result)
        result.hours_marked = mark_unrolled(self)
        if result.complete:
            self.record_proof(LATEST, result)
        self.store.delete(mark, when=ANYTHING)
        return result

    def _begin(self, mark: str) -> int:
        body = write({"schema": SCHEMA, "begun": True})
        self.ensure_all([Put(mark, body, ABSENT, JSON)])
        info = self.read(Head(mark)).info
        if info is None:
            raise StoreUnavailable(
                f"{mark} was written and is missing; the store does not return what it takes"
            )
        return info.modified_ns

    def check_accepted(self, found: Iterable[str], indexes: Indexes, result: Audited) -> None:
        """Check those of the accepted manifests that lack something."""
        for some in portions(found, AT_ONCE):
            result.accepted += len(some)
            self._repair([key for key in some if self.deep or not indexes.complete(key)], result)

    def _repair(self, suspects: list[str], result: Audited) -> None:
        found = []
        for key, reply in self.read_objects(suspects):
            if reply.info is None:
                self.handle_missing(key, result)
                continue
            try:
                manifest = Manifest.read(reply.body, key)
                if manifest.key != key:
                    raise Damaged(f"{key} holds the manifest of {manifest.identity}")
                found.append(manifest)
            except (Damaged, IdentityError) as error:
                result.damaged.append(str(error))
        result.repaired += self.derive_missing(self.safeguards.reconcile(found))
        result.missing += without_data(self, found, deep=self.deep)

    def handle_missing(self, key: str, result: Audited) -> None:
        result.damaged.append(f"{key} was deleted during the audit; objects below accepted/ must never be")

    def derive_missing(self, found: Sequence[Manifest]) -> int:
        """Write the index objects of these batches, nearly all of which lack some."""
        return derive(self, found)

    def check_quarantined(self, result: Audited, below: str = "") -> None:
        references = {_reference(key) for key in self.list_keys(keys.QUARANTINE_BY_BLOB)}
        for some in portions(self.list_keys(f"{keys.QUARANTINE}{below}"), AT_ONCE):
            result.quarantined += len(some)
            unknown = [key for key in some if _conflict(key) not in references]
            puts = []
            for key, reply in self.read_objects(unknown):
                try:
                    record = ConflictRecord.read(reply.body, key)
                    puts.append(Put(record.by_blob_key, reply.body, ABSENT, JSON))
                except (Damaged, IdentityError) as error:
                    result.damaged.append(str(error))
            result.repaired += self.ensure_all(puts)

    def record_proof(self, key: str, result: Audited) -> None:
        """Move the record forward, unless an audit that began later is complete already."""
        fields = {"schema": SCHEMA, "id": result.id, "began_ns": result.began_ns, "accepted": result.accepted}
        body = write(fields | ({"report": result.report} if result.report else {}))
        for attempt in range(SWAPS_MAX):
            current = self.read(Get(key))
            if current.info is not None and _began_ns(current.body, key) >= result.began_ns:
                return
            when = ABSENT if current.info is None else Matches(current.info.etag)
            if self.store.put(key, body, when=when, content_type=JSON).outcome is Outcome.DONE:
                return
            self.back_off(attempt)
        raise StoreUnavailable(
            f"could not record the audit in {key} in {SWAPS_MAX} attempts; try again later"
        )


def _reference(key: str) -> tuple[str, str]:
    """The hash and the path of the identity, of a key below quarantine-by-blob."""
    _, _, sha256, path = key.removeprefix(keys.QUARANTINE_BY_BLOB).split("/", 3)
    return sha256, path.removesuffix(".json")


def _conflict(key: str) -> tuple[str, str]:
    """The same, of a key below quarantine."""
    identity = Identity.of_key(key)
    return key.rsplit("/", 1)[-1].removesuffix(".json"), identity.path


@dataclass(eq=False, kw_only=True)
class _AuditByName(Audit):
    """An audit that lists no index: what may be missing is requested by its name."""

    unrolled: Unrolled = field(init=False)

    def derive_missing(self, found: Sequence[Manifest]) -> int:
        """Nearly all have what they need; a HEAD costs less than a create."""
        for one in found:
            self.unrolled.take(one.by_time_key)
        lacking: Sequence[Any] = incomplete(self, found)
        return derive(self, lacking)


@dataclass(eq=False, kw_only=True)
class AgentsAudit(_AuditByName):
    """An audit of the batches of some agents. It proves nothing to garbage collection."""

    agents: Sequence[str]
    boot: str | None

    def run(self) -> Audited:
        result = Audited(id=self.env.new_id(), began_ns=0)
        self.unrolled = Unrolled(self)
        for agent in self.agents:
            below = keys.agent_path(agent) if self.boot is None else keys.boot_path(agent, self.boot)
            self.check_accepted(self.list_keys(f"{keys.ACCEPTED}{below}"), Indexes(), result)
            self.check_quarantined(result, below)
        result.hours_marked = self.unrolled.mark()
        return result


@dataclass(eq=False, kw_only=True)
class ReportAudit(_AuditByName):
    report: Report
    prefix: str

    def run(self) -> Audited:
        result = Audited(id=self.env.new_id(), began_ns=self.report.began_ns, report=self.report.name)
        self.unrolled = Unrolled(self)
        # To its end before anything is done: only then the report is known to be whole.
        indexes, named = self._read_report()
        self._check_report(named)
        found = (key for key in self.report.list_keys(self.prefix) if key.startswith(keys.ACCEPTED))
        self.check_accepted(found, indexes, result)
        reconciler = Reconciler(self.store, self.env, self.settings, self.safeguards, deep=self.deep)
        since = reconciler.since(self.report.began_ns - self.settings.overlap_ns)
        result.since = since.seen
        result.add(since)
        self.check_quarantined(result)
        result.hours_marked = self.unrolled.mark()
        if result.complete:
            self.record_proof(REPORTED, result)
        return result

    def _read_report(self) -> tuple[Indexes, int]:
        """The indexes according to the report, and the number of accepted batches in it."""
        indexes, named = Indexes(), 0
        for key in self.report.list_keys(self.prefix):
            indexes.take(key)
            if key.startswith(keys.BY_TIME):
                self.unrolled.take(key)
            named += key.startswith(keys.ACCEPTED)
        return indexes, named

    def _check_report(self, named: int) -> None:
        """Refuse a report that is filtered, or of something else: it would find everything in order."""
        if named:
            return
        existing = self.read(List(keys.ACCEPTED, limit=1)).objects
        if existing:
            below = f"{self.prefix}{keys.ACCEPTED.split('/')[0]}/"
            raise InventoryError(
                f"the report {self.report.name} names nothing below {below}, and the store has "
                f"{existing[0].key}: is the report filtered, of another prefix, or older than the first "
                "batch?"
            )

    def handle_missing(self, key: str, result: Audited) -> None:
        result.gone.append(key)
