"""Cleanup: deletes what no retained manifest needs. First the boundary, then the sweep, then the deletes.

Nothing here trusts a clock. Old manifests may be deleted because the boundary moved before, and everybody who
finds or creates an id reads the boundary afterwards. The exception is a writer whose sidecar was there before
the boundary moved: the first ids after its plan's base are kept while the sidecar exists, and those that a
record names for good. Fragments and lineages of unpublished plans may be
deleted because a *sweep* manifest on every branch has first made such plans void. A plan whose id sorts
before the sweep's horizon and whose base is before the sweep can never commit. The clock only chooses a
polite horizon. The order of the steps carries the proof: see docs/decisions/0010-publish-protocol.md.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fencepost.impl.environment import ulid_prefix
from fencepost.impl.publish import branches, keys
from fencepost.impl.publish.cache import TableReader
from fencepost.impl.publish.commit import Published
from fencepost.impl.publish.context import BranchContext, Handle, Mode
from fencepost.impl.publish.documents import Manifest, Pin, PublishPlan, read_manifest
from fencepost.impl.publish.errors import Invalid, StaleView
from fencepost.impl.publish.publisher import publish
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.requests import Delete, Outcome

ATTEMPTS_MAX = 5
"""Attempts to read everything while other cleanups move on: our own limit."""
BATCH = 100
"""Deletes in one parallel step."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Deleted objects by kind."""

    manifests: int
    versions: int
    fragments: int
    swept: str
    """The horizon of the sweep; empty if none was needed."""
    left: int = 0
    """Objects that the limits left to the next cleanup."""

    @property
    def objects(self) -> int:
        return self.manifests + self.versions + self.fragments

    def after(self, earlier: "Cleaned") -> "Cleaned":
        """Both cleanups together."""
        return Cleaned(
            self.manifests + earlier.manifests,
            self.versions + earlier.versions,
            self.fragments + earlier.fragments,
            self.swept or earlier.swept,
            self.left,
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one cleanup deletes. What is left is found again by the next."""

    deletes: int
    stop: Callable[[], bool]
    """Returns True once it should end; asked before each batch."""


UNLIMITED = Limits(sys.maxsize, lambda: False)


@dataclass(frozen=True, slots=True)
class _Retained:
    pins: frozenset[Pin]
    fragments: frozenset[str]
    held: frozenset[tuple[str, int]]
    boundaries: Mapping[str, int]
    staged: tuple[PublishPlan, ...]
    """The plans that have a sidecar."""
    recorded: frozenset[tuple[str, int]]
    """The manifests that writers of retired plans may still create."""


def cleanup(context: BranchContext, *, keep: int, author: str, limits: Limits = UNLIMITED) -> Cleaned:
    """Retain the newest `keep` manifests of every branch and what they need."""
    if keep < 1:
        raise Invalid(f"keep is {keep}; the newest manifest is always retained, so keep at least 1")
    for name, newest in branches.newest(context).items():
        if newest is not None and newest.id > keep:
            context.on(name).chain.boundary.advance(newest.id - keep)
    # The candidates are listed before the sweep, so that they contain nothing written after it.
    versions = context.list_keys(keys.TABLES)
    fragments = context.list_keys(keys.DATA)
    # The smallest plan id of the moment that is one grace window ago.
    horizon = ulid_prefix(max(0, context.env.now_ns() - round(context.grace_s * 1e9))) + "0" * 16
    retained = _retained(context)
    orphans = _orphans(retained, versions, fragments, horizon)
    if orphans:
        _sweep(context, horizon, author)
        retained = _retained(context)
        orphans = _orphans(retained, versions, fragments, horizon)
    old = _old_manifests(context, retained)
    unpinned = [*_superseded(retained, versions), *(k for k in orphans if k.startswith(keys.TABLES))]
    unmentioned = [key for key in orphans if key.startswith(keys.DATA)]
    left, counts = limits.deletes, list[int]()
    for gone in (old, unpinned, unmentioned):
        allowed = gone[:left]
        deleted = 0
        # Unconditional, which is sound: none of these names can be needed again.
        for start in range(0, len(allowed), BATCH):
            if limits.stop():
                break
            batch = allowed[start : start + BATCH]
            context.store.send_all([Delete(name, ANYTHING) for name in batch])
            deleted += len(batch)
        left -= deleted
        counts.append(deleted)
    found = len(old) + len(unpinned) + len(unmentioned)
    manifests, versions_, fragments_ = counts
    return Cleaned(manifests, versions_, fragments_, horizon if orphans else "", found - sum(counts))


def _retained(context: BranchContext) -> _Retained:
    """Collect what the manifests after a boundary, and the held ones, need.

    Boundaries, then holds, then manifests: a writer whose hold comes after our read meets the boundary that
    we noted, or holds a manifest that we read afterwards. So the noted boundary counts, and if a manifest
    after it is gone, because another cleanup moved on, everything is read again.
    """
    for _ in range(ATTEMPTS_MAX):
        boundaries = branches.boundaries(context)
        staged = tuple(context.sidecars())
        # After the sidecars: a plan has its record before it loses its sidecar.
        recorded = _recorded(context)
        held = frozenset(plan.hold for plan in staged if plan.hold is not None)
        manifests = _manifests(context, boundaries)
        if manifests is not None:
            # A missing one was cleaned up before its holder looked, and the holder is refused.
            gets = [context.on(branch).chain.probe(id_) for branch, id_ in sorted(held)]
            replies = context.read_all(gets)
            manifests += [read_manifest(r.body) for r in replies if r.outcome is Outcome.DONE]
            pins = {entry.pin for manifest in manifests for entry in manifest.tables.values()}
            documents = context.versions([keys.version(pin) for pin in sorted(pins)])
            mentioned = frozenset(path for document in documents for path in document.fragments)
            return _Retained(frozenset(pins), mentioned, held, boundaries, staged, recorded)
    raise StaleView("another cleanup is at work; try again when it has ended")


def _recorded(context: BranchContext) -> frozenset[tuple[str, int]]:
    names = context.list_keys(keys.RETIRED)
    return frozenset((name.split("/")[1], id_) for name in names for id_ in keys.ids_of_record(name))


def _manifests(context: BranchContext, boundaries: Mapping[str, int]) -> list[Manifest] | None:
    """Every manifest after the boundaries, also of branches created since; None if one of them is gone."""
    gets = []
    for name in branches.names(context):
        chain, boundary = context.on(name).chain, boundaries.get(name, 0)
        ids = chain.ids(boundary)
        gets += [chain.probe(id_) for id_ in range(boundary + 1, (ids[-1] if ids else boundary) + 1)]
    replies = context.read_all(gets)
    if any(reply.outcome is not Outcome.DONE for reply in replies):
        return None
    return [read_manifest(reply.body, get.key) for get, reply in zip(gets, replies, strict=True)]


def _orphans(
    retained: _Retained, versions: Iterable[str], fragments: Iterable[str], horizon: str
) -> list[str]:
    """Of plans before the horizon: lineages that no retained manifest pins, fragments that none mentions."""
    pinned = {pin.location for pin in retained.pins}
    lineages = ((key, keys.pin_of_version(key).location) for key in versions)
    return [
        *(key for key, at in lineages if at not in pinned and keys.plan_of_lineage(at) < horizon),
        *(key for key in fragments if key not in retained.fragments and keys.plan_of_fragment(key) < horizon),
    ]


def _superseded(retained: _Retained, versions: Iterable[str]) -> list[str]:
    """Versions that no retained manifest pins, below one that some retained manifest does."""
    highest = dict(sorted(retained.pins))
    return [
        key
        for key in versions
        if (pin := keys.pin_of_version(key)) not in retained.pins
        and pin.version < highest.get(pin.location, 0)
    ]


def _old_manifests(context: BranchContext, retained: _Retained) -> list[str]:
    found = []
    for name, boundary in retained.boundaries.items():
        chain = context.on(name).chain
        held_for = context.safeguards.manifests_held_for_plans
        staged = [plan for plan in retained.staged if plan.branch == name]
        found += [
            chain.key(id_)
            for id_ in chain.ids(0)
            if id_ <= boundary
            and (name, id_) not in retained.held | retained.recorded
            and not any(held_for(plan, id_) for plan in staged)
        ]
    return found


def _sweep(context: BranchContext, horizon: str, author: str) -> None:
    """Make every unpublished plan before the horizon void, on every branch that can still be written."""
    for name in branches.names(context):
        branch = context.on(name)
        newest = branch.newest()
        if newest is None or newest.deleted:
            continue
        handle = Handle(branch, TableReader(branch), author, Mode.JOIN)
        handle.learn([newest])
        handle.join()
        result = publish(handle, handle.draft("sweep", horizon=horizon), handle.latest)
        if not isinstance(result, Published):
            raise StaleView(f"could not sweep branch {name}: {result.why}; run cleanup again")
