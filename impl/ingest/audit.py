"""The full audit: every manifest under accepted/ and quarantine/ against what is derived from it.

It finds what no notification and no cursor finds, the batch whose collector died before it wrote any
index, and it *proves* something: when it is complete, every manifest that stood when it began has its
reverse reference. Garbage collection trusts the absence of a reference on the strength of that alone, so
the proof is written down: `audits/v1/latest.json` says when the last complete audit began, by the store's
own clock (the time stamp of an object that the audit wrote before it looked at anything).

It reads keys, a thousand a request, and only the bodies of manifests that miss something. `deep` reads
every manifest and every blob, and compares the hashes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.derived import derive
from fencepost.impl.ingest.documents import JSON, ConflictRecord, Manifest, parse, write
from fencepost.impl.ingest.errors import Damaged, IdentityError, StoreUnavailable
from fencepost.impl.ingest.identity import Identity
from fencepost.impl.ingest.indexes import DERIVED, Indexes
from fencepost.impl.ingest.listing import AT_ONCE, bodies, everything, portions
from fencepost.impl.ingest.rollups import mark_unrolled
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.ingest.verifying import without_data
from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Get, Head, Outcome, Put

LATEST = f"{keys.AUDITS}latest.json"
SCHEMA = "fencepost.ingest_audit.v1"
SWAPS_MAX = 10


@dataclass
class Audited:
    """What a full audit found and did."""

    id: str
    began_ns: int
    """By the store's clock. What was accepted before is covered."""
    accepted: int = 0
    quarantined: int = 0
    repaired: int = 0
    """Derived objects that were missing."""
    missing: list[str] = field(default_factory=list)
    """Accepted manifests without a blob: data that is lost, or that an agent's retry will bring back."""
    damaged: list[str] = field(default_factory=list)
    """What could not be read, and why. Such an audit proves nothing."""
    hours_marked: int = 0
    """Hours that hold batches which are behind the rollups' cursor and not rolled up."""
    report: str = ""
    """The inventory report it went by, see `audit_report`; empty when it listed the bucket itself."""
    since: int = 0
    """Batches accepted since that report which were looked at."""
    gone: list[str] = field(default_factory=list)
    """Accepted manifests that the report names and that are not there: somebody deletes what must stand."""

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
    """Audit everything, repair what is missing, and write down what that proves."""
    return Audit(store, env, settings, safeguards, deep=deep).run()


def last_audit_began_ns(store: Store, env: Environment, settings: Settings = STANDARD_SETTINGS) -> int | None:
    """When the last complete audit began, by the store's clock; None when there was none."""
    return recorded_ns(store, env, settings, LATEST)


def recorded_ns(store: Store, env: Environment, settings: Settings, key: str) -> int | None:
    """From when on what the record at `key` speaks of does not hold."""
    reply = settings.retry_policy.read(store, env, Get(key))
    return None if reply.info is None else _began_ns(reply.body, key)


def _began_ns(body: bytes, key: str) -> int:
    said = parse(body, key)
    if said.get("schema") != SCHEMA or not isinstance(said.get("began_ns"), int):
        raise Damaged(f"{key} is no record of an audit; look what wrote it, then delete it")
    return int(said["began_ns"])


@dataclass(eq=False, kw_only=True)
class Audit(IngestContext):
    """One full audit."""

    deep: bool

    def run(self) -> Audited:
        id_ = self.env.new_id()
        mark = f"{keys.AUDITS}{id_}.json"
        result = Audited(id_, self._begin(mark))
        indexes = Indexes()
        for prefix in DERIVED:
            for key in self.listed(prefix):
                indexes.take(key)
        self.accepted(self.listed(keys.ACCEPTED), indexes, result)
        self.quarantined(result)
        result.hours_marked = mark_unrolled(self.store, self.env, self.settings, self.safeguards)
        if result.complete:
            self.write_down(LATEST, result)
        self.store.delete(mark, when=ANYTHING)
        return result

    def _begin(self, mark: str) -> int:
        body = write({"schema": SCHEMA, "begun": True})
        self.retry.ensure_all(self.store, self.env, [Put(mark, body, ABSENT, JSON)])
        info = self.retry.read(self.store, self.env, Head(mark)).info
        if info is None:
            raise StoreUnavailable(
                f"{mark} was written and is not there; the store does not show what it takes"
            )
        return info.modified_ns

    def listed(self, prefix: str) -> Iterator[str]:
        return (info.key for info in everything(self.store, self.env, self.retry, prefix))

    def accepted(self, found: Iterable[str], indexes: Indexes, result: Audited) -> None:
        """Look at those of the accepted manifests that lack something."""
        for some in portions(found, AT_ONCE):
            result.accepted += len(some)
            self._repair([key for key in some if self.deep or not indexes.complete(key)], result)

    def _repair(self, suspects: list[str], result: Audited) -> None:
        found = []
        for key, reply in bodies(self.store, self.env, self.retry, suspects):
            if reply.info is None:
                self.not_there(key, result)
                continue
            try:
                manifest = Manifest.read(reply.body, key)
                if manifest.key != key:
                    raise Damaged(f"{key} holds the manifest of {manifest.identity}")
                found.append(manifest)
            except (Damaged, IdentityError) as error:
                result.damaged.append(str(error))
        result.repaired += self.derive(self.safeguards.reconcile(found))
        result.missing += without_data(self.store, self.env, self.retry, found, deep=self.deep)

    def not_there(self, key: str, result: Audited) -> None:
        result.damaged.append(f"{key} was deleted while it was audited; nothing below accepted/ may be")

    def derive(self, found: Sequence[Manifest]) -> int:
        """Have what is derived from these stand; next to all of them were found to lack something."""
        return derive(self.store, self.env, self.retry, found)

    def quarantined(self, result: Audited) -> None:
        references = {_tail(key) for key in self.listed(keys.QUARANTINE_BY_BLOB)}
        for some in portions(self.listed(keys.QUARANTINE), AT_ONCE):
            result.quarantined += len(some)
            unknown = [key for key in some if _tail_of_conflict(key) not in references]
            puts = []
            for key, reply in bodies(self.store, self.env, self.retry, unknown):
                try:
                    record = ConflictRecord.read(reply.body, key)
                    puts.append(Put(record.by_blob_key, reply.body, ABSENT, JSON))
                except (Damaged, IdentityError) as error:
                    result.damaged.append(str(error))
            result.repaired += self.retry.ensure_all(self.store, self.env, puts)

    def write_down(self, key: str, result: Audited) -> None:
        """Move the record forward, unless an audit that began later is done already."""
        said = {"schema": SCHEMA, "id": result.id, "began_ns": result.began_ns, "accepted": result.accepted}
        body = write(said | ({"report": result.report} if result.report else {}))
        for attempt in range(SWAPS_MAX):
            stands = self.retry.read(self.store, self.env, Get(key))
            if stands.info is not None and _began_ns(stands.body, key) >= result.began_ns:
                return
            when = ABSENT if stands.info is None else Matches(stands.info.etag)
            if self.store.put(key, body, when=when, content_type=JSON).outcome is Outcome.DONE:
                return
            self.retry.back_off(self.env, attempt)
        raise StoreUnavailable(
            f"could not write down the audit in {key} in {SWAPS_MAX} attempts; try again later"
        )


def _tail(key: str) -> tuple[str, str]:
    """The hash and the path of the identity, of a key below quarantine-by-blob."""
    _, _, sha256, path = key.removeprefix(keys.QUARANTINE_BY_BLOB).split("/", 3)
    return sha256, path.removesuffix(".json")


def _tail_of_conflict(key: str) -> tuple[str, str]:
    identity = Identity.of_key(key)
    return key.rsplit("/", 1)[-1].removesuffix(".json"), identity.path
