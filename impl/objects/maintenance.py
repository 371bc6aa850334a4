"""Background work of a server process: collect garbage and reconcile after the start, then, at an interval,
repeat failed records of the index, write the change log, and reconcile again if the index is suspected.

A failure is logged and tried again; it ends no request.
"""

import logging
from collections.abc import Callable, Iterator

from fencepost.impl.http.periodic import Periodic
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.store.errors import StoreError

INTERVAL_S = 1.0
UPLOAD_AGE_S = 24 * 3600.0
"""The time in seconds after which an idle upload is garbage. Temporary files of dead writers are removed
after a time of their own (`FileStore`)."""


def collect_garbage(buckets: Buckets, upload_age_s: float = UPLOAD_AGE_S) -> Iterator[tuple[str, int]]:
    """Remove what was left behind, and report how many uploads of which bucket."""
    for name, _ in buckets.all():
        removed = buckets.store(name).collect_garbage(buckets.safeguards.upload_age(upload_age_s))
        if removed:
            yield name, removed


class Maintenance:
    """A thread from its making until `close`."""

    def __init__(
        self,
        buckets: Buckets,
        *,
        interval_s: float = INTERVAL_S,
        refresh: Callable[[], None] = lambda: None,
        upload_age_s: float = UPLOAD_AGE_S,
    ) -> None:
        self._buckets = buckets
        self._upload_age_s = upload_age_s
        self._refresh = refresh
        self._began_ns = buckets.env.now_ns()
        self._reconciled = self._collected = self._suspected = False
        self._held_by = ""
        self._log = logging.getLogger("fencepost.objects")
        buckets.index.announce()
        self._thread = Periodic("maintenance", self._run, interval_s, first_s=0.0)

    def close(self) -> None:
        self._thread.close()
        self._do_all()

    def _run(self, _stopping: Callable[[], bool]) -> None:
        if not self._collected:
            self._collected = self._try("collect garbage", self._collect_garbage)
        if not self._reconciled:
            self._reconciled = self._try("reconcile the listing index", self._reconcile)
        elif self._try("look at the listing index", self._look) and self._suspected:
            self._try("reconcile the listing index", self._reconcile_again)
        self._do_all()

    def _do_all(self) -> None:
        buckets = self._buckets
        self._refresh()
        self._try("record changes", buckets.index.retry_owed)
        self._try("write the change log", lambda: buckets.log.flush(buckets.index))
        self._try("remove old days of the change log", self._prune)

    def _collect_garbage(self) -> None:
        age_s = self._upload_age_s
        for name, removed in collect_garbage(self._buckets, age_s):
            self._log.warning("removed %d uploads of %s that were left for %g s", removed, name, age_s)

    def _prune(self) -> None:
        pruned = self._buckets.log.prune_old()
        if pruned is None or (pruned.days, pruned.held_by) == (0, self._held_by):
            return
        self._held_by = pruned.held_by
        held = f"; more are kept for the reader {pruned.held_by}" if pruned.held_by else ""
        self._log.warning(
            "removed %d days of the change log, which begins with %s now%s", pruned.days, pruned.begins, held
        )

    def _look(self) -> None:
        self._suspected = not self._buckets.index.is_trusted()

    def _reconcile(self) -> None:
        self._compare(self._began_ns)

    def _reconcile_again(self) -> None:
        # Another process may have begun to compare already, before or after what raised the suspicion.
        with self._buckets.index.exclusively("reconciling"):
            pass
        self._look()
        if self._suspected:
            self._compare(self._buckets.env.now_ns())

    def _compare(self, unless_since_ns: int) -> None:
        found = reconcile(self._buckets, unless_since_ns=unless_since_ns)
        if found is not None and found.differences:
            self._log.warning("the listing index differed at %d keys; corrected", found.differences)

    def _try(self, what: str, act: Callable[[], object]) -> bool:
        try:
            act()
        except (StoreError, OSError) as error:
            self._log.error("cannot %s: %s", what, error)
            return False
        return True
