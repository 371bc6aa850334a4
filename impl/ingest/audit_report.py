"""The full audit by an inventory report: what a listing of everything would cost, a report has paid already.

    report = report_at(Path("inventory/metrics/daily"))
    report.check(bucket="metrics", now_ns=env.now_ns())
    print(audit_by_report(store, env, settings, report=report, prefix="prod/").repaired)

A report is old and no snapshot: it may lack what stood and name what is gone. So it only says where to look:

    what it says is missing     is asked for by its name before anything is written
    what it says stands         is believed until the next report; by `deep`, it is asked for too
    what came since             is listed by its place in time, from the scan on or from where the reconciler
                                stands; what has none yet is the next report's
    quarantine                  is listed, being small: conflicts are of now

What that proves is written down too, apart from the proof of an audit that listed: `audits/v1/reported.json`
says when the scan began. It is a weaker thing. A listing of accepted/ shows whatever stood when it began; a
report promises nothing, and a manifest that it lacks may have no reverse reference. So where garbage
collection has nothing but a report it looks itself whether anything refers to a blob (`orphans`), and that
look needs no report to be true. The audit by report only decides which blobs are worth it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.audit import Audit, Audited, recorded_ns
from fencepost.impl.ingest.derived import incomplete
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.errors import InventoryError
from fencepost.impl.ingest.indexes import Indexes
from fencepost.impl.ingest.inventory import Report
from fencepost.impl.ingest.reconcile import Reconciler
from fencepost.impl.ingest.rollups import Unrolled
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import List

REPORTED = f"{keys.AUDITS}reported.json"


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
    """Audit what the report names, below `prefix` in its bucket, and what came since."""
    report.check(bucket=None, now_ns=env.now_ns())
    return ReportAudit(store, env, settings, safeguards, deep=deep, report=report, prefix=prefix).run()


def last_report_began_ns(
    store: Store, env: Environment, settings: Settings = STANDARD_SETTINGS
) -> int | None:
    """When the scan began of the last report that was audited to its end; None when there was none."""
    return recorded_ns(store, env, settings, REPORTED)


@dataclass(eq=False, kw_only=True)
class ReportAudit(Audit):
    """One audit by report."""

    report: Report
    prefix: str
    unrolled: Unrolled = field(init=False)

    def run(self) -> Audited:
        result = Audited(self.env.new_id(), self.report.began_ns, report=self.report.name)
        self.unrolled = Unrolled(self.store, self.env, self.settings, self.safeguards)
        # To its end before anything is done: only then it is known to be whole.
        indexes, named = self._said()
        self._sighted(named)
        found = (key for key in self.report.stood(self.prefix) if key.startswith(keys.ACCEPTED))
        self.accepted(found, indexes, result)
        self._since(result)
        self.quarantined(result)
        result.hours_marked = self.unrolled.mark()
        if result.complete:
            self.write_down(REPORTED, result)
        return result

    def _said(self) -> tuple[Indexes, int]:
        """What the report says of the indexes, and how many accepted batches it names."""
        indexes, named = Indexes(), 0
        for key in self.report.stood(self.prefix):
            indexes.take(key)
            if key.startswith(keys.BY_TIME):
                self.unrolled.take(key)
            named += key.startswith(keys.ACCEPTED)
        return indexes, named

    def _sighted(self, named: int) -> None:
        """Refuse a report that is filtered, or of something else: it would find everything in order."""
        if named:
            return
        stands = self.retry.read(self.store, self.env, List(keys.ACCEPTED, limit=1)).objects
        if stands:
            below = f"{self.prefix}{keys.ACCEPTED.split('/')[0]}/"
            raise InventoryError(
                f"the report {self.report.name} names nothing below {below}, and the store has "
                f"{stands[0].key}: is the report filtered, of another prefix, or older than the first batch?"
            )

    def _since(self, result: Audited) -> None:
        reconciler = Reconciler(
            self.store, self.env, self.settings, safeguards=self.safeguards, deep=self.deep
        )
        found = reconciler.since(self.report.began_ns - self.settings.overlap_ns)
        result.since = found.seen
        result.repaired += found.repaired
        result.missing += [key for key in found.missing if key not in result.missing]
        result.damaged += found.damaged

    def not_there(self, key: str, result: Audited) -> None:
        result.gone.append(key)

    def derive(self, found: Sequence[Manifest]) -> int:
        """The report is old: what it lacks may have come since, and a look is cheaper than a create."""
        for one in found:
            self.unrolled.take(one.by_time_key)
        lacking: Sequence[Any] = incomplete(self.store, self.env, self.retry, found)
        return super().derive(lacking)
