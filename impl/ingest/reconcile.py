"""The reconciler: finds what is accepted and repairs what is derived from it, as often as one likes.

Four ways to find, because each can miss, or be late:

    hot      a notification names a manifest that was created          may be lost
    steady   the listing of accepted-by-time from a durable cursor     misses what has no by-time entry
    cold     the full audit of accepted/, see `audit`, or by an        sees everything, and takes long
             inventory report, see `audit_report`
    behind   the search of accepted/ in small steps, see `search`      sees everything, in hours

The steady reader begins an overlap before its cursor, for what was stamped by a slow clock or written
late. What is stamped by a clock that is ahead does not move the cursor beyond now.

    print(reconcile_once(store, env).repaired)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fencepost.impl.context import Context
from fencepost.impl.cursor import Cursor, Pace
from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.derived import derive, incomplete
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.errors import Damaged, IdentityError
from fencepost.impl.ingest.listing import AT_ONCE, Stop, bodies, everything, never, portions
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.ingest.verifying import without_data
from fencepost.impl.store.interface import Store


@dataclass
class Reconciled:
    """What one pass found and did."""

    seen: int = 0
    """Accepted batches looked after."""
    repaired: int = 0
    """Derived objects that were missing."""
    missing: list[str] = field(default_factory=list)
    """Keys of accepted manifests whose blob is not there: an alarm, unless the agent's retry is under way."""
    damaged: list[str] = field(default_factory=list)
    """What could not be read, and why."""
    position: str = ""
    """Where the cursor stands."""


def reconcile_once(
    store: Store,
    env: Environment,
    settings: Settings = STANDARD_SETTINGS,
    *,
    safeguards: Safeguards = STANDARD,
    name: str = "reconcile",
    deep: bool = False,
) -> Reconciled:
    """One steady pass, from the cursor to the end of what is there. `deep` reads and hashes every blob."""
    return Reconciler(store, env, settings, safeguards=safeguards, name=name, deep=deep).once()


class Reconciler(IngestContext):
    """Keeps in memory what it saw in the overlap, so that pass after pass costs only what is new."""

    def __init__(
        self,
        store: Store,
        env: Environment,
        settings: Settings = STANDARD_SETTINGS,
        *,
        safeguards: Safeguards = STANDARD,
        name: str = "reconcile",
        deep: bool = False,
    ) -> None:
        super().__init__(store, env, settings, safeguards)
        self.deep = deep
        self.cursor = by_time_cursor(store, env, settings, safeguards, name)
        self._seen: set[str] = set()

    def once(self, stop: Stop = never) -> Reconciled:
        """From the cursor to the end of what is there, or until `stop`: the next pass goes on."""
        result = Reconciled()
        before = self.cursor.position
        start = self.cursor.start()
        if self.cursor.position < before:
            self._seen.clear()  # somebody set it back, to have it all done again
        self._seen = {key for key in self._seen if key > start}
        found = (info.key for info in everything(self.store, self.env, self.retry, keys.BY_TIME, start))
        for some in portions(found, AT_ONCE):
            self._look_after([key for key in some if key not in self._seen], result)
            if stop():
                break
        self.cursor.save()
        result.position = self.cursor.position
        return result

    def since(self, unix_ns: int) -> Reconciled:
        """Everything that was accepted since then and is not behind the cursor, which is left alone."""
        result = Reconciled(position=self.cursor.position)
        start = max(keys.by_time_from(unix_ns), self.cursor.start())
        found = (info.key for info in everything(self.store, self.env, self.retry, keys.BY_TIME, start))
        for some in portions(found, AT_ONCE):
            self._repair(list(self._read(some, result).values()), result)
        return result

    def notified(self, accepted_keys: Iterable[str]) -> Reconciled:
        """The hot path: these manifests are said to have been created."""
        result = Reconciled(position=self.cursor.position)
        self._repair(list(self._read(accepted_keys, result).values()), result)
        return result

    def _look_after(self, fresh: Sequence[str], result: Reconciled) -> None:
        now_ns = self.env.now_ns()
        tracked = [key for key in fresh if time_of(key) <= now_ns]
        for key in tracked:
            self.cursor.take(key)
        found = self._read(fresh, result)
        lost = self._repair(list(found.values()), result)
        for key in fresh:
            # What has lost its blob is reported, and looked at again as long as the overlap lasts.
            if key in found and found[key].key not in lost:
                self._seen.add(key)
        for key in tracked:
            self.cursor.done(key)

    def _read(self, wanted: Iterable[str], result: Reconciled) -> dict[str, Manifest]:
        found = {}
        for key, reply in bodies(self.store, self.env, self.retry, wanted):
            if reply.info is None:
                continue
            try:
                found[key] = Manifest.read(reply.body, key)
            except (Damaged, IdentityError) as error:
                result.damaged.append(str(error))
        return found

    def _repair(self, found: Sequence[Manifest], result: Reconciled) -> set[str]:
        """Have everything derived stand, and see that the blobs do; returns whose blob does not."""
        found = self.safeguards.reconcile(found)
        result.seen += len(found)
        lacking = incomplete(self.store, self.env, self.retry, found)
        result.repaired += derive(self.store, self.env, self.retry, lacking)
        lost = list(without_data(self.store, self.env, self.retry, found, deep=self.deep))
        result.missing += lost
        return set(lost)


def by_time_cursor(
    store: Store, env: Environment, settings: Settings, safeguards: Safeguards, name: str
) -> Cursor:
    """A cursor along accepted-by-time, with the overlap of the settings."""

    def back(position: str) -> str:
        return keys.by_time_from(safeguards.cursor_overlap(time_of(position), settings.overlap_ns))

    return Cursor(
        Context(store, env, retry=settings.retry_policy),
        f"{keys.CURSORS}{name}.json",
        pace=Pace(settings.checkpoint_items, settings.checkpoint_s),
        back=back,
    )


def time_of(by_time_key: str) -> int:
    """When the batch at this key was accepted."""
    return int(by_time_key.rsplit("/", 1)[-1][:20])
