"""Unattended maintenance of a bucket: indexes, rollups, and the search for batches that no index shows.

    maintenance = Maintenance(store, env, "collector-1")
    while running:
        env.sleep(maintenance.every_s)
        result = maintenance.run_once(stop)      # None: another process holds the lease

Every collector has one, and one of them at a time holds the lease. So every accepted batch reaches every
index and one rollup as long as one collector runs: a batch that was indexed halfway in the next round, a
batch in no index by the end of the next search. It does not do what deletes or what costs as much as the
whole history: `audit`, which proves something to garbage collection, and `gc`.

The search. A collector that dies between the create of a manifest and the first index object leaves a batch
that no cursor finds. The full audit does, at a cost that an operator must decide on. The search costs little:

    a search   lists accepted/ once, page by page, in as many steps and processes as it takes
    a step     continues where the last one stopped, until `stop`; its state is in the bucket
    a check    of those manifests alone that were stored since the last search began, and that have no place
               in time, or one that was written late: next to none. All others are the reconciler's

A search covers every manifest that existed when it began, by the store's clock, from a margin before the last
search. A full audit covers the same, so the first search after one checks little. A batch is checked when all
its index objects exist and its hour is queued for the rollups. A step that dies in between leaves places that
were written late, so the next step, which begins at the last saved position, checks these batches again.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

from fencepost.impl.cursor import CursorError
from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.audit import LATEST, proof_began_ns
from fencepost.impl.ingest.context import (
    AT_ONCE,
    Findings,
    IngestContext,
    Stop,
    lease_of,
    never,
    portions,
)
from fencepost.impl.ingest.errors import Damaged, IngestError, StoreUnavailable
from fencepost.impl.ingest.indexes import derive, incomplete, without_data
from fencepost.impl.ingest.reconcile import Reconciler, time_of
from fencepost.impl.ingest.rollups import Rollups, hour_of, mark_hour
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.record import Record
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import ObjectInfo

LEASE = f"{keys.CURSORS}maintenance-turn.json"
STATE = f"{keys.CURSORS}search.json"
SEARCH_SCHEMA = "fencepost.ingest_search.v1"
EVERY_S = 60.0
SEARCH_EVERY_S = 6 * 3600.0
LASTS = 3
"""Intervals after which another process takes the lease of one that is gone."""
SHARE = 0.6
"""The part of an interval after which each of the three tasks stops, so that the lease is renewed in time."""
IN_TIME_MAX = 500_000
"""Places in time that are kept in memory, some 50 MB; batches beyond them are checked, which costs more."""
SETTLED_NS = 60 * 10**9
"""Nanoseconds that a collector has for the indexes of an accepted batch before the search checks it."""
STAMP_NS = 10**9
"""Precision of the times that stores show, in nanoseconds."""
T = TypeVar("T")


@dataclass
class Maintained(Findings):
    seen: int = 0
    """Batches that the reconciler checked."""
    found: int = 0
    """Batches that the search found and that lacked something."""
    rolled_up: int = 0
    """Batches it rolled up."""
    failed: list[str] = field(default_factory=list)
    """Tasks that failed, with the reason; the next round tries again."""


class Maintenance(IngestContext):
    """The maintenance of one process; `holder` is the unique name of the process."""

    def __init__(
        self,
        store: Store,
        env: Environment,
        holder: str,
        settings: Settings = STANDARD_SETTINGS,
        *,
        safeguards: Safeguards = STANDARD,
        every_s: float = EVERY_S,
        search_every_s: float = SEARCH_EVERY_S,
    ) -> None:
        super().__init__(store, env, settings, safeguards)
        self.every_s = every_s
        self._lease = lease_of(self, LEASE, holder, LASTS * every_s)
        self._reconciler = Reconciler(store, env, settings, safeguards)
        self._search = Search(store, env, settings, safeguards, every_s=search_every_s)
        self._rollups = Rollups(store, env, settings, safeguards, owner=holder)

    def run_once(self, stop: Stop = never) -> Maintained | None:
        """One round, if this process has or gets the lease; raises what prevents it from acquiring it."""
        if not self._lease.acquire():
            return None
        result = Maintained()
        if reconciled := self._try(self._reconciler.once, stop, result):
            result.seen = reconciled.seen
            result.add(reconciled)
        if searched := self._try(self._search.step, stop, result):
            result.found = searched.found
            result.add(searched)
        if rolled := self._try(self._rollups.once, stop, result):
            result.rolled_up = rolled.batches
            # A batch that cannot be counted appears twice if its hour is queued as well.
            result.damaged += [what for what in dict.fromkeys(rolled.missing) if what not in result.damaged]
        return result

    def release(self) -> None:
        """Release the lease, so that another process need not wait for its end."""
        self._lease.release()

    def _try(self, task: Callable[[Stop], T], stop: Stop, result: Maintained) -> T | None:
        """One of the tasks; a failing or long one does not keep the others from running."""
        deadline_ns = self.env.monotonic_ns() + round(SHARE * self.every_s * 1e9)
        try:
            return task(lambda: stop() or self.env.monotonic_ns() >= deadline_ns)
        except (IngestError, StoreError, CursorError) as error:
            result.failed.append(str(error))
            return None


@dataclass
class Searched(Findings):
    listed: int = 0
    found: int = 0
    """Accepted batches that lacked something."""
    ended: bool = False
    """True if the search got to its end in this step."""


@dataclass(frozen=True, slots=True)
class _State:
    wanted_ns: int = 0
    """When some process lost notifications; 0 if a search has begun since."""
    running: bool = False
    position: str = ""
    began_ns: int = 0
    """When the search began, by the store's clock; 0 until the record was read back."""
    covered_ns: int = 0
    """When the last search began that got to its end."""


@dataclass(slots=True)
class _Places:
    """The digests of the batches that have a place in time, as far as they were read."""

    since_ns: int
    after: str
    digests: set[bytes] = field(default_factory=set)


@dataclass(eq=False)
class Search(IngestContext):
    """The search of one process. Two processes at once only do the same work twice."""

    every_s: float = field(default=SEARCH_EVERY_S, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._record = Record(self, STATE, SEARCH_SCHEMA, Damaged)
        self._places: _Places | None = None

    def step(self, stop: Stop = never) -> Searched:
        """Continue the search, or begin one when it is due, until its end or until `stop`."""
        result = Searched()
        state = self._read_state()
        if not state.running:
            if not self._is_due(state):
                return result
            if not self._write_state(_State(running=True, covered_ns=state.covered_ns)):
                return result  # another process began it
            state = self._read_state()
        self._continue(state, stop, result)
        return result

    def want(self) -> None:
        """Have a search begin soon, durably: batches may exist whose notifications are lost."""
        for attempt in range(self.retry.attempts):
            if self._write_state(replace(self._read_state(), wanted_ns=self.env.now_ns())):
                return
            self.back_off(attempt)
        raise StoreUnavailable(f"{STATE} could not be written; try again later")

    def _is_due(self, state: _State) -> bool:
        now_ns = self.env.now_ns()
        # A search leaves the batches of the last moments to the next one.
        is_wanted = state.wanted_ns > 0 and now_ns >= state.wanted_ns + self._settled_ns
        return is_wanted or now_ns >= state.covered_ns + round(self.every_s * 1e9)

    @property
    def _settled_ns(self) -> int:
        return min(SETTLED_NS, self.settings.margin_ns)

    def _continue(self, state: _State, stop: Stop, result: Searched) -> None:
        state = replace(state, began_ns=state.began_ns or self._record.modified_ns)
        since_ns, until_ns = self._window(state)
        if not self._read_places(since_ns, stop):
            return
        for page in self.list_pages(keys.ACCEPTED, state.position):
            result.listed += len(page)
            fresh = (info.key for info in page if since_ns <= info.modified_ns < until_ns)
            digests = self._places.digests if self._places is not None else set()
            for some in portions((key for key in fresh if keys.accepted_digest(key) not in digests), AT_ONCE):
                self._check(some, result)
            if not page:
                break
            state = replace(state, position=page[-1].key)
            if stop():
                self._write_state(state)
                return
        self._places = None
        result.ended = self._write_state(_State(wanted_ns=state.wanted_ns, covered_ns=state.began_ns))

    def _window(self, state: _State) -> tuple[int, int]:
        """When the manifests to check were stored, by the store's clock.

        A search or an audit covers those stored before. Those of the last moments may still be in the hands
        of their collector; they are left to the next search, whose window begins a margin earlier.
        """
        covered_ns = max(state.covered_ns, proof_began_ns(self, LATEST) or 0)
        return max(0, covered_ns - self.settings.margin_ns), state.began_ns - self._settled_ns

    def _read_places(self, since_ns: int, stop: Stop) -> bool:
        """Read which batches since then have a place in time; False when it is stopped before the end."""
        if self._places is None or self._places.since_ns != since_ns:
            self._places = _Places(since_ns, keys.by_time_from(since_ns))
        places = self._places
        for page in self.list_pages(keys.BY_TIME, places.after):
            for info in page:
                digest = keys.identity_of_place(info.key)
                if digest is not None and self._is_in_time(info):
                    places.digests.add(digest)
            if not page or len(places.digests) >= IN_TIME_MAX:
                break
            places.after = page[-1].key
            if stop():
                return False
        return True

    def _is_in_time(self, place: ObjectInfo) -> bool:
        """Return True unless the rollups may have gone by before the place was written."""
        placed_ns = place.modified_ns + STAMP_NS
        return self.safeguards.search_late_places(time_of(place.key), placed_ns, self.settings.late_ns)

    def _check(self, some: Sequence[str], result: Searched) -> None:
        manifests = list(self.read_manifests(some, result.damaged).values())
        found = self.safeguards.reconcile(manifests)
        lacking = incomplete(self, found)
        result.found += len(lacking)
        result.repaired += derive(self, lacking)
        result.missing += without_data(self, found, deep=False)
        # Mark the hours of all batches, complete ones too: a crash may have come between repair and mark.
        for hour in sorted({hour_of(one.by_time_key) for one in found}):
            mark_hour(self, hour)

    def _read_state(self) -> _State:
        fields = self._record.read()
        try:
            return _State(
                wanted_ns=int(fields.get("wanted_ns", 0)),
                running=bool(fields.get("running", False)),
                position=str(fields.get("position", "")),
                began_ns=int(fields.get("began_ns", 0)),
                covered_ns=int(fields.get("covered_ns", 0)),
            )
        except (TypeError, ValueError) as error:
            raise Damaged(f"{STATE} is not the state of a search ({error}); delete it") from None

    def _write_state(self, state: _State) -> bool:
        return self._record.write(asdict(state))
