"""The full audit: every manifest under accepted/ and quarantine/ against what is derived from it.

It finds what no notification and no cursor finds, the batch whose collector died before it wrote any
index, and it *proves* something: when it is complete, every manifest that stood when it began has its
reverse reference. Garbage collection trusts the absence of a reference on the strength of that alone, so
the proof is written down: `audits/v1/latest.json` says when the last complete audit began, by the store's
own clock (the time stamp of an object that the audit wrote before it looked at anything).

It reads keys, a thousand a request, and only the bodies of manifests that miss something. `deep` reads
every manifest and every blob, and compares the hashes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.impl.environment import Environment
from holdfast.impl.ingest import keys
from holdfast.impl.ingest.derived import derive
from holdfast.impl.ingest.documents import JSON, ConflictRecord, Manifest, parse, write
from holdfast.impl.ingest.errors import Damaged, IdentityError, StoreAway
from holdfast.impl.ingest.hand import Hand, patience
from holdfast.impl.ingest.identity import Identity
from holdfast.impl.ingest.listing import AT_ONCE, bodies, everything, portions
from holdfast.impl.ingest.rollups import mark_unrolled
from holdfast.impl.ingest.safeguards import STANDARD, Safeguards
from holdfast.impl.ingest.settings import STANDARD_SETTINGS, Settings
from holdfast.impl.ingest.verifying import without_data
from holdfast.impl.store import ABSENT, ANYTHING, Matches
from holdfast.impl.store.interface import Store
from holdfast.impl.store.requests import Get, Head, Outcome, Put

LATEST = f"{keys.AUDITS}latest.json"
SCHEMA = "holdfast.ingest_audit.v1"
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
    return _Audit(store, env, settings, safeguards, deep=deep).run()


def last_audit_began_ns(store: Store, env: Environment, settings: Settings = STANDARD_SETTINGS) -> int | None:
    """When the last complete audit began, by the store's clock; None when there was none."""
    reply = patience(settings).read(store, env, Get(LATEST))
    return None if reply.info is None else _began_ns(reply.body)


def _began_ns(body: bytes) -> int:
    said = parse(body, LATEST)
    if said.get("schema") != SCHEMA or not isinstance(said.get("began_ns"), int):
        raise Damaged(f"{LATEST} is no record of an audit; look what wrote it, then delete it")
    return int(said["began_ns"])


@dataclass(eq=False, kw_only=True)
class _Audit(Hand):
    deep: bool

    def run(self) -> Audited:
        id_ = self.env.new_id()
        mark = f"{keys.AUDITS}{id_}.json"
        result = Audited(id_, self._begin(mark))
        stored = {found[0] for key in self._keys(keys.RAW) if (found := keys.parse_raw(key))}
        self._accepted(result, stored)
        self._quarantined(result)
        result.hours_marked = mark_unrolled(self.store, self.env, self.settings, self.safeguards)
        if result.complete:
            self._write_down(result)
        self.store.delete(mark, when=ANYTHING)
        return result

    def _begin(self, mark: str) -> int:
        body = write({"schema": SCHEMA, "begun": True})
        self.asking.ensure_all(self.store, self.env, [Put(mark, body, ABSENT, JSON)])
        info = self.asking.read(self.store, self.env, Head(mark)).info
        if info is None:
            raise StoreAway(f"{mark} was written and is not there; the store does not show what it takes")
        return info.modified_ns

    def _keys(self, prefix: str) -> Iterator[str]:
        return (info.key for info in everything(self.store, self.env, self.asking, prefix))

    def _accepted(self, result: Audited, stored: set[str]) -> None:
        references = dict(_reference(key) for key in self._keys(keys.BY_BLOB))
        timed = {key.rsplit("-", 1)[-1] for key in self._keys(keys.BY_TIME)}
        raw_timed = {key.rsplit("=", 1)[-1] for key in self._keys(keys.RAW_BY_TIME)}

        def suspect(key: str) -> bool:
            path = key.removeprefix(keys.ACCEPTED).removesuffix(".json")
            sha256 = references.get(path)
            if sha256 is None or sha256 not in stored or f"{sha256}.json" not in raw_timed:
                return True
            return self.deep or keys.identity_hash(path) + ".json" not in timed

        for some in portions(self._keys(keys.ACCEPTED), AT_ONCE):
            result.accepted += len(some)
            self._repair([key for key in some if suspect(key)], result)

    def _repair(self, suspects: list[str], result: Audited) -> None:
        found = []
        for key, reply in bodies(self.store, self.env, self.asking, suspects):
            try:
                manifest = Manifest.read(reply.body, key)
                if manifest.key != key:
                    raise Damaged(f"{key} holds the manifest of {manifest.identity}")
                found.append(manifest)
            except (Damaged, IdentityError) as wrong:
                result.damaged.append(str(wrong))
        result.repaired += derive(self.store, self.env, self.asking, self.safeguards.reconcile(found))
        result.missing += without_data(self.store, self.env, self.asking, found, deep=self.deep)

    def _quarantined(self, result: Audited) -> None:
        references = {_tail(key) for key in self._keys(keys.QUARANTINE_BY_BLOB)}
        for some in portions(self._keys(keys.QUARANTINE), AT_ONCE):
            result.quarantined += len(some)
            unknown = [key for key in some if _tail_of_conflict(key) not in references]
            puts = []
            for key, reply in bodies(self.store, self.env, self.asking, unknown):
                try:
                    record = ConflictRecord.read(reply.body, key)
                    puts.append(Put(record.by_blob_key, reply.body, ABSENT, JSON))
                except (Damaged, IdentityError) as wrong:
                    result.damaged.append(str(wrong))
            result.repaired += self.asking.ensure_all(self.store, self.env, puts)

    def _write_down(self, result: Audited) -> None:
        """Move the record forward, unless an audit that began later is done already."""
        body = write(
            {"schema": SCHEMA, "id": result.id, "began_ns": result.began_ns, "accepted": result.accepted}
        )
        for attempt in range(SWAPS_MAX):
            stands = self.asking.read(self.store, self.env, Get(LATEST))
            if stands.info is not None and _began_ns(stands.body) >= result.began_ns:
                return
            when = ABSENT if stands.info is None else Matches(stands.info.etag)
            if self.store.put(LATEST, body, when=when, content_type=JSON).outcome is Outcome.DONE:
                return
            self.asking.pause(self.env, attempt)
        raise StoreAway(
            f"could not write down the audit in {LATEST} in {SWAPS_MAX} attempts; try again later"
        )


def _reference(key: str) -> tuple[str, str]:
    """The path of the identity and the hash, of a key below accepted-by-blob."""
    _, _, sha256, path = key.removeprefix(keys.BY_BLOB).split("/", 3)
    return path.removesuffix(".json"), sha256


def _tail(key: str) -> tuple[str, str]:
    """The hash and the path of the identity, of a key below quarantine-by-blob."""
    _, _, sha256, path = key.removeprefix(keys.QUARANTINE_BY_BLOB).split("/", 3)
    return sha256, path.removesuffix(".json")


def _tail_of_conflict(key: str) -> tuple[str, str]:
    identity = Identity.of_key(key)
    return key.rsplit("/", 1)[-1].removesuffix(".json"), identity.path
