"""The search for batches that were accepted and show nowhere, in steps that cost little.

A collector that dies between the create of a manifest and the first index leaves a batch that no cursor
finds. The full audit does, at a cost that somebody must decide on. This is what runs without anybody:

    a search   lists accepted/ once, page by page, over as many steps and processes as it takes
    a step     goes on where the last one stopped, until it is told to stop; its state is in the bucket
    a look     at those manifests alone that were stored since the last search began, and that have no place
               in time: next to none. What has a place in time is the reconciler's

What a search covers is what stood when it began, by the store's clock, and a margin before. A full audit
covers the same, so the first search after one looks at little. Looked at means: everything derived stands
and its hour is marked for the rollups. The state says which are being looked at, so that a crash between
the two is made up for by the next step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.audit import last_audit_began_ns
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.derived import derive, incomplete
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.errors import Damaged, IdentityError
from fencepost.impl.ingest.listing import AT_ONCE, Stop, bodies, never, pages, portions
from fencepost.impl.ingest.record import Record
from fencepost.impl.ingest.rollups import hour_of, mark_hour
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.ingest.verifying import without_data
from fencepost.impl.store.interface import Store

STATE = f"{keys.CURSORS}search.json"
SCHEMA = "fencepost.ingest_search.v1"
EVERY_S = 6 * 3600.0
IN_TIME_MAX = 500_000
"""Places in time that are kept in memory, some 50 MB; what is beyond them is looked at, which costs more."""

SETTLED_NS = 60 * 10**9
"""So long a collector may take over the indexes of what it accepted, before somebody looks."""


@dataclass
class Searched:
    """What one step found and did."""

    listed: int = 0
    found: int = 0
    """Accepted batches that lacked something."""
    repaired: int = 0
    """Derived objects that were missing."""
    missing: list[str] = field(default_factory=list)
    """Accepted manifests without a blob."""
    damaged: list[str] = field(default_factory=list)
    ended: bool = False
    """Whether the search got to its end in this step."""


@dataclass(frozen=True, slots=True)
class _State:
    running: bool = False
    position: str = ""
    began_ns: int = 0
    """0 until it was read back when the store says that the search began."""
    covered_ns: int = 0
    """When the last search began that got to its end."""
    pending: tuple[str, ...] = ()
    """Manifests that are being looked at."""


@dataclass(slots=True)
class _Places:
    """The digests of the batches that have a place in time, as far as they were read."""

    since_ns: int
    after: str
    digests: set[bytes] = field(default_factory=set)


class Search(IngestContext):
    """One process's hand on the search. Two at once only do the same twice."""

    def __init__(
        self,
        store: Store,
        env: Environment,
        settings: Settings = STANDARD_SETTINGS,
        *,
        safeguards: Safeguards = STANDARD,
        every_s: float = EVERY_S,
    ) -> None:
        super().__init__(store, env, settings, safeguards)
        self._every_ns = round(every_s * 1e9)
        self._record = Record(self, STATE, SCHEMA)
        self._places: _Places | None = None

    def step(self, stop: Stop = never) -> Searched:
        """Go on with the search, or begin one when it is time to, until its end or until `stop`."""
        result = Searched()
        state = self._read()
        if state.pending:
            self._look(state.pending, result)
        if not state.running:
            if self.env.now_ns() < state.covered_ns + self._every_ns:
                return result
            if not self._record.write(_said(_State(running=True, covered_ns=state.covered_ns))):
                return result  # another process began it
            state = self._read()
        self._go_on(state, stop, result)
        return result

    def _go_on(self, state: _State, stop: Stop, result: Searched) -> None:
        state = replace(state, began_ns=state.began_ns or self._record.modified_ns, pending=())
        since_ns, until_ns = self._window(state)
        if not self._read_places(since_ns, stop):
            return
        for page in pages(self.store, self.env, self.retry, keys.ACCEPTED, state.position):
            result.listed += len(page)
            fresh = (info.key for info in page if since_ns <= info.modified_ns < until_ns)
            for some in portions((key for key in fresh if not self._in_time(key)), AT_ONCE):
                if not self._record.write(_said(replace(state, pending=tuple(some)))):
                    return  # another process is at it
                self._look(some, result)
            if not page:
                break
            state = replace(state, position=page[-1].key)
            if stop():
                self._record.write(_said(state))
                return
        self._places = None
        result.ended = self._record.write(_said(_State(covered_ns=state.began_ns)))

    def _window(self, state: _State) -> tuple[int, int]:
        """When what is looked at was stored, by the store's clock.

        What was stored before is covered, by a search or by an audit. What is of the last moments has its
        collector busy with it perhaps, and is the next search's, whose window begins a margin earlier.
        """
        audited_ns = last_audit_began_ns(self.store, self.env, self.settings) or 0
        covered_ns = max(state.covered_ns, audited_ns)
        settled_ns = min(SETTLED_NS, self.settings.margin_ns)
        return max(0, covered_ns - self.settings.margin_ns), state.began_ns - settled_ns

    def _read_places(self, since_ns: int, stop: Stop) -> bool:
        """Read which batches have a place in time, of those since then; False when it is not done yet."""
        if self._places is None or self._places.since_ns != since_ns:
            self._places = _Places(since_ns, keys.by_time_from(since_ns))
        places = self._places
        for page in pages(self.store, self.env, self.retry, keys.BY_TIME, places.after):
            found = [keys.identity_of_place(info.key) for info in page]
            places.digests.update(digest for digest in found if digest is not None)
            if not page or len(places.digests) >= IN_TIME_MAX:
                break
            places.after = page[-1].key
            if stop():
                return False
        return True

    def _in_time(self, accepted_key: str) -> bool:
        path = accepted_key.removeprefix(keys.ACCEPTED).removesuffix(".json")
        return self._places is not None and keys.identity_digest(path) in self._places.digests

    def _look(self, some: Sequence[str], result: Searched) -> None:
        found = self.safeguards.reconcile(self._manifests(some, result))
        lacking = incomplete(self.store, self.env, self.retry, found)
        result.found += len(lacking)
        result.repaired += derive(self.store, self.env, self.retry, lacking)
        result.missing += without_data(self.store, self.env, self.retry, found, deep=False)
        # Of all, not of those that lacked something: before a crash they may have.
        for hour in sorted({hour_of(one.by_time_key) for one in found}):
            mark_hour(self.store, self.env, self.retry, hour)

    def _manifests(self, some: Sequence[str], result: Searched) -> list[Manifest]:
        found = []
        for key, reply in bodies(self.store, self.env, self.retry, some):
            if reply.info is None:
                continue
            try:
                found.append(Manifest.read(reply.body, key))
            except (Damaged, IdentityError) as error:
                result.damaged.append(str(error))
        return found

    def _read(self) -> _State:
        said = self._record.read()
        try:
            return _State(
                running=bool(said.get("running", False)),
                position=str(said.get("position", "")),
                began_ns=int(said.get("began_ns", 0)),
                covered_ns=int(said.get("covered_ns", 0)),
                pending=tuple(map(str, said.get("pending", ()))),
            )
        except (TypeError, ValueError) as error:
            raise Damaged(f"{STATE} is no state of a search ({error}); delete it") from None


def _said(state: _State) -> dict[str, Any]:
    return {
        "running": state.running,
        "position": state.position,
        "began_ns": state.began_ns,
        "covered_ns": state.covered_ns,
        "pending": list(state.pending),
    }
