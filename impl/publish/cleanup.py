"""Cleanup: deletes what no retained manifest needs. First the boundary, then the sweep, then the deletes.

Nothing here trusts a clock. Old manifests go because the boundary was moved before, and everybody who
finds or creates an id looks at the boundary afterwards. Fragments and lineages of plans that were never
published go because a *sweep* manifest on every branch has first made such plans void: a plan whose id
sorts before the sweep's horizon and whose base is before the sweep can never commit. The clock only chooses
a polite horizon. The order of the steps carries the proof: see docs/decisions/0010-publish-protocol.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fencepost.impl.publish import branches, keys
from fencepost.impl.publish.contents import Library
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Manifest, Pin, read_manifest, read_version
from fencepost.impl.publish.endings import Published
from fencepost.impl.publish.errors import Invalid, StaleView
from fencepost.impl.publish.handle import Handle, Mode
from fencepost.impl.publish.machine import publish
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.requests import Delete, Get, List, Outcome

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ATTEMPTS_MAX = 5
"""How often everything is noted anew because another cleanup moves on: our own limit."""
BATCH = 100
"""Deletes in one parallel step."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was deleted, by kind, and what was looked at."""

    manifests: int
    versions: int
    fragments: int
    swept: str
    """The horizon of the sweep; empty when none was needed."""


@dataclass(frozen=True, slots=True)
class _Retained:
    pins: frozenset[Pin]
    fragments: frozenset[str]
    held: frozenset[tuple[str, int]]
    boundaries: Mapping[str, int]

    def highest(self) -> dict[str, int]:
        highest: dict[str, int] = {}
        for pin in self.pins:
            highest[pin.location] = max(pin.version, highest.get(pin.location, 0))
        return highest


def cleanup(context: BranchContext, *, keep: int, author: str) -> Cleaned:
    """Retain the newest `keep` manifests of every branch and what they need."""
    if keep < 1:
        raise Invalid(f"keep is {keep}; the newest manifest is always retained, so keep at least 1")
    for name, newest in branches.newest(context).items():
        if newest is not None and newest.id > keep:
            context.on(name).chain.boundary.advance(newest.id - keep)
    # The candidates are listed before the sweep: what is written after it is not among them.
    versions = list(_listed(context, keys.TABLES))
    fragments = list(_listed(context, keys.DATA))
    horizon = _horizon(context)
    retained = _retained(context)
    orphans = _orphans(retained, versions, fragments, horizon)
    if orphans:
        _sweep(context, horizon, author)
        retained = _retained(context)
        orphans = _orphans(retained, versions, fragments, horizon)
    old = _old_manifests(context, retained)
    superseded = _superseded(retained, versions)
    unpinned = [*superseded, *(key for key in orphans if key.startswith(keys.TABLES))]
    unmentioned = [key for key in orphans if key.startswith(keys.DATA)]
    for gone in (old, unpinned, unmentioned):
        _delete(context, gone)
    return Cleaned(len(old), len(unpinned), len(unmentioned), horizon if orphans else "")


def _listed(context: BranchContext, prefix: str) -> Iterable[str]:
    for page in context.pages(lambda token: List(prefix, token=token)):
        yield from (info.key for info in page.objects)


def _horizon(context: BranchContext) -> str:
    """The smallest plan id of the moment that is one grace window ago."""
    ms = max(0, (context.env.now_ns() - round(context.grace_s * 1e9)) // 1_000_000)
    return "".join(_CROCKFORD[ms >> shift & 31] for shift in range(45, -1, -5)) + "0" * 16


def _retained(context: BranchContext) -> _Retained:
    """What a manifest behind a boundary, or a held one, needs.

    Boundaries, then holds, then manifests: who writes a hold after we looked meets the boundary that we
    noted, or holds a manifest that we go on to read. So the noted boundary counts, and when a manifest
    behind it is gone, because another cleanup moved on, everything is noted anew.
    """
    for _ in range(ATTEMPTS_MAX):
        names = branches.names(context)
        boundaries = _boundaries(context, names)
        held = frozenset(plan.hold for plan in context.sidecars.all() if plan.hold is not None)
        manifests = _manifests(context, boundaries)
        if manifests is not None:
            return _needed(context, [*manifests, *_held_manifests(context, held)], boundaries, held)
    raise StaleView("another cleanup is at work; try again when it has ended")


def _boundaries(context: BranchContext, names: Sequence[str]) -> dict[str, int]:
    stand = [context.on(name).chain.boundary for name in names]
    replies = context.read_all([boundary.request() for boundary in stand])
    values = [boundary.value(reply)[0] for boundary, reply in zip(stand, replies, strict=True)]
    return dict(zip(names, values, strict=True))


def _manifests(context: BranchContext, boundaries: Mapping[str, int]) -> list[Manifest] | None:
    """Every manifest behind the boundaries, of branches made since too; None when one of them is gone."""
    gets = []
    for name in branches.names(context):
        chain, boundary = context.on(name).chain, boundaries.get(name, 0)
        ids = chain.ids(boundary)
        gets += [chain.probe(id_) for id_ in range(boundary + 1, (ids[-1] if ids else boundary) + 1)]
    replies = context.read_all(gets)
    if any(reply.outcome is not Outcome.DONE for reply in replies):
        return None
    return [read_manifest(reply.body, get.key) for get, reply in zip(gets, replies, strict=True)]


def _held_manifests(context: BranchContext, held: frozenset[tuple[str, int]]) -> list[Manifest]:
    """Those that stand. One that does not was cleaned up before its holder looked, and it will be refused."""
    gets = [context.on(branch).chain.probe(id_) for branch, id_ in sorted(held)]
    replies = context.read_all(gets)
    return [read_manifest(reply.body) for reply in replies if reply.outcome is Outcome.DONE]


def _needed(
    context: BranchContext,
    manifests: Sequence[Manifest],
    boundaries: Mapping[str, int],
    held: frozenset[tuple[str, int]],
) -> _Retained:
    pins = sorted({entry.pin for manifest in manifests for entry in manifest.tables.values()})
    replies = context.read_all([Get(keys.version(pin)) for pin in pins])
    found = [read_version(reply.body) for reply in replies if reply.outcome is Outcome.DONE]
    mentioned = frozenset(path for document in found for path in document.fragments)
    return _Retained(frozenset(pins), mentioned, held, boundaries)


def _orphans(
    retained: _Retained, versions: Iterable[str], fragments: Iterable[str], horizon: str
) -> list[str]:
    """Fragments nobody retained mentions and lineages nobody retained pins, of plans before the horizon."""
    lineages = {pin.location for pin in retained.pins}
    return [
        *(
            key
            for key in versions
            if (location := _pin(key).location) not in lineages and keys.plan_of_lineage(location) < horizon
        ),
        *(key for key in fragments if key not in retained.fragments and keys.plan_of_fragment(key) < horizon),
    ]


def _superseded(retained: _Retained, versions: Iterable[str]) -> list[str]:
    """Versions that no retained manifest pins, below one that some does."""
    highest = retained.highest()
    return [
        key
        for key in versions
        if (pin := _pin(key)) not in retained.pins and pin.version < highest.get(pin.location, 0)
    ]


def _pin(key: str) -> Pin:
    location, _, name = key.removeprefix(keys.TABLES).split("/")
    return Pin(location, int(name.removesuffix(".json")))


def _old_manifests(context: BranchContext, retained: _Retained) -> list[str]:
    found = []
    for name, boundary in retained.boundaries.items():
        chain = context.on(name).chain
        found += [chain.key(i) for i in chain.ids(0) if i <= boundary and (name, i) not in retained.held]
    return found


def _sweep(context: BranchContext, horizon: str, author: str) -> None:
    """Make every unpublished plan before the horizon void, on every branch that can still be written."""
    for name in branches.names(context):
        on = context.on(name)
        newest = on.newest()
        if newest is None or newest.deleted:
            continue
        handle = Handle(on, Library(on), author, Mode.JOIN)
        handle.learn([newest])
        handle.join()
        ended = publish(handle, handle.draft("sweep", horizon=horizon))
        if not isinstance(ended, Published):
            raise StaleView(f"could not sweep branch {name}: {ended.why}; run cleanup again")


def _delete(context: BranchContext, names: Sequence[str]) -> None:
    """Blind, and that is sound: none of these names can be needed again."""
    for start in range(0, len(names), BATCH):
        context.store.send_all([Delete(name, ANYTHING) for name in names[start : start + BATCH]])
