"""The reconciler: finds accepted batches and repairs their index objects; any number of runs is harmless.

There are four ways to find a batch, because each can miss one, or be late:

    hot      a notification names a manifest that was created,         may be lost
             see `notified`
    steady   the listing of accepted-by-time from a durable cursor     misses batches without a by-time object
    cold     the full audit of accepted/, by listing or by an          sees all, and takes long
             inventory report, see `audit`
    behind   the search of accepted/ in small steps, see               sees all, in hours
             `maintenance`

The steady reader starts an overlap before its cursor, because a slow clock may have stamped a batch, or its
collector may have written it late. A batch whose stamp is later than the beginning of the pass does not move
the cursor. While a long pass follows new batches, late ones appear behind it, and the cursor would move on
from them by more than the overlap.

    print(reconcile_once(store, env).repaired)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fencepost.impl.cursor import Cursor, Pace
from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import AT_ONCE, Findings, IngestContext, Stop, never, portions
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.indexes import derive, incomplete, without_data
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.store.interface import Store


@dataclass
class Reconciled(Findings):
    seen: int = 0
    """Accepted batches it checked."""
    position: str = ""
    """The position of the cursor."""


def reconcile_once(
    store: Store,
    env: Environment,
    settings: Settings = STANDARD_SETTINGS,
    *,
    safeguards: Safeguards = STANDARD,
    name: str = "reconcile",
    deep: bool = False,
) -> Reconciled:
    """One steady pass, from the cursor to the last batch. `deep` reads and hashes every blob."""
    return Reconciler(store, env, settings, safeguards, name=name, deep=deep).once()


@dataclass(eq=False)
class Reconciler(IngestContext):
    """Remembers the batches of the overlap, so that repeated passes cost only the new ones."""

    name: str = field(default="reconcile", kw_only=True)
    deep: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cursor = by_time_cursor(self, self.name)
        self._seen: set[str] = set()

    def once(self, stop: Stop = never) -> Reconciled:
        """One pass from the cursor to the last batch, or until `stop`; the next pass continues."""
        result = Reconciled()
        before = self.cursor.position
        began_ns = self.env.now_ns()
        start = self.cursor.start()
        if self.cursor.position < before:
            self._seen.clear()  # an operator set it back to repeat the work
        self._seen = {key for key in self._seen if key > start}
        for some in portions(self.list_keys(keys.BY_TIME, start), AT_ONCE):
            self._check([key for key in some if key not in self._seen], began_ns, result)
            if stop():
                break
        self.cursor.save()
        result.position = self.cursor.position
        return result

    def since(self, unix_ns: int) -> Reconciled:
        """All batches accepted since then that are not behind the cursor, which stays where it is."""
        start = max(keys.by_time_from(unix_ns), self.cursor.start())
        result = Reconciled(position=self.cursor.position)
        for some in portions(self.list_keys(keys.BY_TIME, start), AT_ONCE):
            self._repair(list(self.read_manifests(some, result.damaged).values()), result)
        return result

    def _check(self, fresh: Sequence[str], began_ns: int, result: Reconciled) -> None:
        tracked = [key for key in fresh if time_of(key) <= began_ns]
        for key in tracked:
            self.cursor.take(key)
        found = self.read_manifests(fresh, result.damaged)
        lost = self._repair(list(found.values()), result)
        for key in fresh:
            # A batch that lost its blob is reported, and checked again as long as the overlap lasts.
            if key in found and found[key].key not in lost:
                self._seen.add(key)
        for key in tracked:
            self.cursor.done(key)

    def _repair(self, found: Sequence[Manifest], result: Reconciled) -> set[str]:
        """Write missing index objects and check the blobs; returns the batches without a blob."""
        found = self.safeguards.reconcile(found)
        result.seen += len(found)
        result.repaired += derive(self, incomplete(self, found))
        lost = list(without_data(self, found, deep=self.deep))
        result.missing += lost
        return set(lost)


def by_time_cursor(context: IngestContext, name: str) -> Cursor:
    """A cursor along accepted-by-time, with the overlap of the settings."""
    settings, safeguards = context.settings, context.safeguards

    def back(position: str) -> str:
        return keys.by_time_from(safeguards.cursor_overlap(time_of(position), settings.overlap_ns))

    return Cursor(
        context,
        f"{keys.CURSORS}{name}.json",
        pace=Pace(settings.checkpoint_items, settings.checkpoint_s),
        back=back,
    )


def time_of(by_time_key: str) -> int:
    """When the batch at this key was accepted."""
    return int(by_time_key.rsplit("/", 1)[-1][:20])
