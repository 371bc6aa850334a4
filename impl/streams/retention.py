"""Retention: expired and deleted streams disappear from the object store, through any crash.

    step  action                                              after a crash here
    1     publish a tombstone, unless there is one            the row survives: repeat
    2     delete the data of the incarnation                  the rest is behind a tombstone: repeat

    3     delete the manifest by if-match, strictly last      the listing is empty: repeat, harmless
    4     list the prefix, and delete late uploads            the row survives: repeat
    5     local commit: cache, records, row                   done

A flagged row is the one reapable state; `delete` flags, and so do expiry, `restore` and the scan. The scan is
the durable driver: it finds tombstones without a row, and data that no manifest can ever list.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace

from fencepost.impl.store.requests import Anything, Delete, Get, GetReply, Head, List, Outcome
from fencepost.impl.streams.context import StreamContext
from fencepost.impl.streams.errors import Damaged, RetentionError, StoreUnavailable, StreamError, Trouble
from fencepost.impl.streams.manifest import ROOT, Manifest, Place, Segment, manifest_key, parse_key, prefix_of
from fencepost.impl.streams.stream import Stream

BACKOFF_S = 1.0
BACKOFF_MAX_S = 300.0
SCAN_WIDTH = 64
"""Manifests that a scan reads at once."""


@dataclass
class Counters:
    """Counts of all sweeps since the start."""

    streams_reaped: int = 0
    objects_deleted: int = 0
    list_passes: int = 0
    reap_failures: int = 0
    scans: int = 0
    scan_restored: int = 0
    scan_orphans: int = 0
    segments_deleted: int = 0
    indexes_deleted: int = 0
    manifests_deleted: int = 0


class Times:
    """The durations of the work of all sweeps, in seconds; a server shows them as histograms."""

    def reap(self, seconds: float) -> None:
        """Of a reap that ended, or that waits for its tombstone to grow old."""

    def scan(self, seconds: float) -> None:
        """Of a scan of the whole prefix."""

    def delete(self, seconds: float) -> None:
        """Of the deletion of one object, or of the few that are deleted at once."""


@dataclass(frozen=True)
class _Failures:
    """When a stream may be reaped again after failures in a row."""

    count: int = 0
    until_ns: int = 0


_NEVER_FAILED = _Failures()


@dataclass(eq=False)
class Reaper:
    node: StreamContext
    counters: Counters = field(default_factory=Counters)
    times: Times = field(default_factory=Times)
    stopped: Callable[[], bool] = lambda: False
    is_behind: bool = field(default=False, init=False)
    """True if more streams were due in the last sweep than its limit."""
    _failures: dict[str, _Failures] = field(default_factory=dict)
    _scanned_ns: int | None = None
    _due: deque[tuple[str, str]] = field(default_factory=deque, init=False)
    """The flagged streams of the last look that were not reaped yet."""
    _looked_ns: int = 0

    # One reap.

    def reap(self, name: str, incarnation: str) -> None:
        """All five steps. Raises `RetentionError`; the row stays, and the next run resumes."""
        node = self.node
        with node.exclusively(name, RetentionError(Trouble.BUSY, f"this node works on {name!r} just now")):
            if not node.safeguards.row_until_empty():
                node.state.drop(name, incarnation)
            self._reap(node.stream(name), incarnation)

    def _reap(self, stream: Stream, incarnation: str) -> None:
        node, safeguards = self.node, self.node.safeguards
        known = node.fetch(stream)
        manifest = known.manifest
        if manifest is not None and manifest.incarnation == incarnation:
            if not self._bury(stream, incarnation):
                node.state.drop(stream.name, incarnation)  # not doomed any more: a flag of another time
                return
            known = stream.known
            manifest = known.manifest
        if manifest is not None and manifest.incarnation == incarnation:
            self._check_age(manifest)  # before anything is listed that would have to be listed again
            self._leave_source(manifest)
            data = self._listed(stream.name, incarnation)
            self._delete_data(stream.name, safeguards.data_before_manifest(data), incarnation)
            self._delete_manifest(manifest, known.etag)
            manifest = None
        if manifest is None:
            self._verify_empty(stream)
        # Otherwise it is a later incarnation's: what is left of this one is the scan's work.
        node.drop_cached(prefix_of(stream.name))
        node.state.drop(stream.name, incarnation)
        node.forget(stream.name)
        self.counters.streams_reaped += 1

    def clear(self, stream: Stream, incarnation: str) -> None:
        """Steps 1 and 2, for a creation that then replaces the tombstone. The caller holds `busy`."""
        if not self._bury(stream, incarnation, recreate=True):
            raise RetentionError(Trouble.TOMBSTONE, f"{stream.name!r} is not expired by every clock yet")
        manifest = stream.manifest
        if manifest is None or manifest.incarnation != incarnation:
            return
        self._leave_source(manifest)
        self._delete_data(stream.name, self._listed(stream.name, incarnation), incarnation)
        self.node.drop_cached(prefix_of(stream.name))

    def _bury(self, stream: Stream, incarnation: str, *, recreate: bool = False) -> bool:
        """Make the manifest terminal; whether it is."""
        node = self.node
        flagged = node.state.is_flagged(stream.name, incarnation)

        def bury(found: Manifest | None) -> Manifest | None:
            if found is None or found.incarnation != incarnation:
                return None
            if node.safeguards.terminal_before_data(found.is_tombstone):
                return None
            deleted = flagged and found.deadline_ns is None and not found.hidden
            if self.is_doomed(found) or deleted or (recreate and found.pending):
                return replace(found, tombstone_ns=node.now_ns())
            return None  # a read or an append has moved the deadline

        try:
            after = node.update(stream, bury)
        except StoreUnavailable as error:
            raise RetentionError(Trouble.TOMBSTONE, str(error)) from None
        if after is None or after.incarnation != incarnation:
            return True  # gone, or replaced
        return node.safeguards.terminal_before_data(after.is_tombstone)

    def is_doomed(self, manifest: Manifest) -> bool:
        """Terminal by every clock."""
        if manifest.is_tombstone:
            return True
        if manifest.hidden:
            return not manifest.forks
        now_ns, settings = self.node.now_ns(), self.node.settings
        if manifest.pending:
            return now_ns >= manifest.created_ns + settings.landing_bound_ns
        if manifest.deadline_ns is None:
            return False
        slack_ns = (manifest.ttl_s or 0) * 10**8  # reads that were not published
        deadline_ns = manifest.deadline_ns + slack_ns
        return now_ns >= self.node.safeguards.expiry_skew_margin(deadline_ns, settings.skew_bound_ns)

    def _leave_source(self, manifest: Manifest) -> None:
        """Take this fork off its source's list; a hidden source without forks is doomed."""
        if manifest.forked_from is None:
            return
        source = self.node.stream(manifest.forked_from[0])

        def leave(found: Manifest | None) -> Manifest | None:
            if found is None or manifest.name not in found.forks:
                return None
            forks = tuple(name for name in found.forks if name != manifest.name)
            buried = self.node.now_ns() if found.hidden and not forks else found.tombstone_ns
            return replace(found, forks=forks, tombstone_ns=buried)

        self.node.load(source)
        after = self.node.update(source, leave)
        if after is not None and after.is_tombstone:
            self.node.state.flag(after.name, after.incarnation)
            self._leave_source(after)

    def _listed(self, name: str, incarnation: str) -> list[str]:
        """The data of this incarnation; all data where a reap does not tell incarnations apart."""
        everything = isinstance(self.node.safeguards.two_node_reap(""), Anything)
        return [
            key
            for key in self._keys(prefix_of(name))
            if (place := parse_key(key)) is None
            or (place.incarnation and (everything or place.incarnation == incarnation))
        ]

    def _keys(self, prefix: str) -> list[str]:
        self.counters.list_passes += 1
        try:
            pages = self.node.pages(lambda token: List(prefix, token=token))
            return [found.key for page in pages for found in page.objects]
        except StoreUnavailable as error:
            raise RetentionError(Trouble.LIST, str(error)) from None

    def _delete_data(self, name: str, data: Sequence[str], incarnation: str) -> None:
        for _ in range(self.node.settings.list_passes):
            if not data:
                return
            self._delete(data)
            data = self._listed(name, incarnation)
        if data:
            raise RetentionError(Trouble.PREFIX, f"data of {name!r} appears again and again")

    def _delete(self, keys: Sequence[str]) -> None:
        width = self.node.settings.delete_concurrency
        for at in range(0, len(keys), width):
            if self.stopped():
                raise RetentionError(Trouble.STOPPED, "this node is about to stop")
            part = keys[at : at + width]
            try:
                with self._timed(self.times.delete):
                    self.node.ensure_deleted(part)
            except StoreUnavailable as error:
                raise RetentionError(Trouble.DELETE, str(error)) from None
            self._count_deleted(part)

    def _count_deleted(self, keys: Sequence[str]) -> None:
        counters = self.counters
        counters.objects_deleted += len(keys)
        counters.segments_deleted += sum(key.endswith(".seg") for key in keys)
        counters.indexes_deleted += sum(key.endswith(".idx") for key in keys)
        counters.manifests_deleted += sum(key.endswith("/manifest.json") for key in keys)

    @contextmanager
    def _timed(self, note: Callable[[float], None]) -> Iterator[None]:
        began_ns = self.node.env.monotonic_ns()
        try:
            yield
        finally:
            note((self.node.env.monotonic_ns() - began_ns) / 1e9)

    def _check_age(self, manifest: Manifest) -> None:
        """Raise while a create may land that would find no tombstone."""
        if manifest.tombstone_ns is None:
            return
        age_ns = self.node.now_ns() - manifest.tombstone_ns
        wait_ns = self.node.settings.landing_bound_ns - age_ns
        if wait_ns > 0:
            text = f"a create of {manifest.name!r} may still be in flight"
            raise RetentionError(Trouble.YOUNG, text, wait_ns=wait_ns)

    def _delete_manifest(self, manifest: Manifest, etag: str) -> None:
        """The manifest that was read, and no other."""
        node = self.node
        self._check_age(manifest)
        for attempt in range(node.retry.attempts):
            condition = node.safeguards.two_node_reap(etag)
            with self._timed(self.times.delete):
                reply = node.store.send(Delete(manifest.key, condition))
            if reply.outcome in (Outcome.DONE, Outcome.MISSING):
                self._count_deleted([manifest.key])
                return
            if reply.outcome is Outcome.CHANGED:
                raise RetentionError(Trouble.PREFIX, f"another node works on {manifest.name!r}")
            node.back_off(attempt)
        raise RetentionError(Trouble.DELETE, f"the store did not delete the manifest of {manifest.name!r}")

    def _verify_empty(self, stream: Stream) -> None:
        """The manifest is gone: whatever a listing before that shows is garbage."""
        for _ in range(self.node.settings.list_passes):
            left = self.node.safeguards.verify_empty(self._keys(prefix_of(stream.name)))
            left = [key for key in left if key != manifest_key(stream.name)]
            if not left:
                return
            if self.node.load(stream) is not None:
                return  # created anew since: the scan tells the incarnations apart
            self._delete(left)
        raise RetentionError(Trouble.PREFIX, f"the prefix of {stream.name!r} does not become empty")

    # Finding work.

    def restore(self, manifest: Manifest, present: Collection[str] = ()) -> bool:
        """Flag a doomed manifest; whether it was. A live one is served when it is requested.

        `present`: keys that a listing has shown, which need no look."""
        doomed = self.is_doomed(manifest)
        if not self.node.safeguards.tombstone_short_circuit(doomed):
            for segment in manifest.segments:
                key = manifest.key_of(segment)
                if key not in present and self.node.read(Head(key)).outcome is Outcome.MISSING:
                    raise Damaged(f"{key} is listed by its manifest and is missing")
        if doomed:
            self.node.state.flag(manifest.name, manifest.incarnation)
        return doomed

    def scan(self) -> None:
        """List everything; flag what is doomed and delete data that no manifest can ever list."""
        self.counters.scans += 1
        groups: dict[str, list[str]] = {}
        for key in self.node.safeguards.scan(self._keys(ROOT)):
            place = parse_key(key)
            if place is not None:
                groups.setdefault(key[: len(ROOT) + len(place.hash) + 1], []).append(key)
        damaged: list[Damaged] = []
        prefixes = list(groups)
        for at in range(0, len(prefixes), SCAN_WIDTH):
            part = prefixes[at : at + SCAN_WIDTH]
            # After the listing: see docs/decisions/0020-streams.md, (b).
            replies = self.node.read_all([Get(f"{prefix}manifest.json") for prefix in part])
            for prefix, reply in zip(part, replies, strict=True):
                try:
                    self._scan_one(f"{prefix}manifest.json", groups[prefix], reply)
                except Damaged as error:
                    damaged.append(error)
        if damaged:
            raise damaged[0]

    def _scan_one(self, key: str, keys: Sequence[str], reply: GetReply) -> None:
        manifest = Manifest.read(reply.body, key) if reply.outcome is Outcome.DONE else None
        if manifest is not None and self.restore(manifest, frozenset(keys)):
            self.counters.scan_restored += 1
            return
        orphans = [one for one in keys if one != key and self._is_garbage(one, manifest)]
        self.counters.scan_orphans += len(orphans)
        self._delete(orphans)

    def _is_garbage(self, key: str, manifest: Manifest | None) -> bool:
        """Return True if the manifest, which was read after this key was listed, can never list it."""
        place = parse_key(key)
        if place is None:
            return False
        if manifest is None or place.incarnation != manifest.incarnation:
            return True
        return place.owner < manifest.owner and not self._is_listed(manifest, manifest.segments, place)

    def _is_listed(self, manifest: Manifest, entries: Sequence[Segment], place: Place) -> bool:
        """By one of the entries, or by an index among them. An index that is missing was reaped meanwhile."""
        for entry in entries:
            if entry.start <= place.start < entry.end:
                if (entry.owner, entry.start, entry.count) == (place.owner, place.start, place.count):
                    return True
                try:
                    return entry.count > 1 and self._is_listed(
                        manifest, self.node.parts(manifest, entry), place
                    )
                except Damaged:
                    return True
        return False

    def flag_expired(self) -> None:
        for stream in self.node.known():
            manifest = stream.manifest
            if manifest is not None and not manifest.is_tombstone and self.is_doomed(manifest):
                self.node.state.flag(stream.name, manifest.incarnation)

    # The sweeper.

    def sweep(self) -> Iterator[tuple[str, StreamError]]:
        """One tick: flag, reap, scan when it is due. Yields the failures.

        If more streams are due than one tick reaps, the next ticks go on with them, and look for others as
        often as the sweeper would: a look costs as much as there are streams.
        """
        now_ns, settings = self.node.env.monotonic_ns(), self.node.settings
        due_ns = settings.scan_s * 1e9
        if settings.scan_s and (self._scanned_ns is None or now_ns - self._scanned_ns >= due_ns):
            try:
                with self._timed(self.times.scan):
                    self.scan()
                self._scanned_ns = now_ns
            except StreamError as error:
                if isinstance(error, Damaged):  # everything else was scanned
                    self._scanned_ns = now_ns
                yield ROOT, error
        if not self._due or now_ns - self._looked_ns >= settings.sweep_s * 1e9:
            self._look(now_ns)
        due = [self._due.popleft() for _ in range(min(settings.reap_limit, len(self._due)))]
        self.is_behind = bool(self._due)
        for name, failed in self._reaped(due):
            if failed is None:
                self._failures.pop(name, None)
            elif isinstance(failed, RetentionError) and failed.kind is Trouble.YOUNG:
                # It takes no slot, and asks nothing of the store, until it can succeed.
                failures = self._failures.get(name, _NEVER_FAILED)
                until_ns = self.node.env.monotonic_ns() + failed.wait_ns
                self._failures[name] = _Failures(failures.count, until_ns)
            else:
                failures = self._failures.get(name, _NEVER_FAILED)
                pause_s = min(BACKOFF_S * 2.0**failures.count, BACKOFF_MAX_S)
                self._failures[name] = _Failures(failures.count + 1, now_ns + round(pause_s * 1e9))
                self.counters.reap_failures += 1
                yield name, failed

    def _look(self, now_ns: int) -> None:
        """Find the streams that can be reaped now."""
        self.flag_expired()
        flagged = self.node.state.flagged().items()
        self._due = deque(
            one for one in flagged if now_ns >= self._failures.get(one[0], _NEVER_FAILED).until_ns
        )
        self._looked_ns = now_ns

    def _reaped(self, due: Sequence[tuple[str, str]]) -> Iterator[tuple[str, StreamError | None]]:
        """Reap these streams, several at once where that is set; yield how each ended."""
        width = min(self.node.settings.reap_concurrency, len(due))
        if width <= 1:
            for name, incarnation in due:
                if self.stopped():
                    return
                yield name, _try(self, name, incarnation)
            return
        parts = [Reaper(self.node, times=self.times, stopped=self.stopped) for _ in due]
        with ThreadPoolExecutor(width, thread_name_prefix="reap") as pool:
            names, incarnations = zip(*due, strict=True)
            for name, part, error in zip(
                names, parts, pool.map(_try, parts, names, incarnations), strict=True
            ):
                for counter in fields(Counters):
                    before = getattr(self.counters, counter.name)
                    setattr(self.counters, counter.name, before + getattr(part.counters, counter.name))
                yield name, error


def _try(reaper: Reaper, name: str, incarnation: str) -> StreamError | None:
    try:
        with reaper._timed(reaper.times.reap):  # noqa: SLF001  of this module
            reaper.reap(name, incarnation)
    except StreamError as error:
        return error
    return None
