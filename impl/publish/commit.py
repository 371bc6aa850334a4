"""Executing a plan: move its heads, then create its manifest, and find out truthfully how that ended.

`execute` is the only code that moves heads and manifests; writers and recovery both call it.

**Heads**: one version object per touched table, all in parallel. A version that already occupies the place is
read and judged (`late-head`). It is our own (from a request whose reply was lost, or from another executor of
the same plan), or dead (and stepped over), or of a later epoch (which fences us), or a rival's.

**Expectations** decide whether the plan may commit on a manifest. All of them are checked for every new
parent. Each only changes for the worse, because pins, epochs, `schema_since` and sweeps rise: a plan that is
refused once is refused for ever, by every executor.

**The boundary.** A create can succeed on an id that a cleanup has deleted. The writer of a plan excludes that
before its create: beside the heads, after its sidecar was written, it reads the boundary. If that is below
the next id, every cleanup that could delete that id lists our sidecar first, and keeps the first ids after
the plan's base (`manifests-held-for-plans`). Where that is not certain, and for executors without a sidecar
of their own, the boundary is read after the create instead, which costs a hop.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.impl.publish import keys
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import (
    JSON,
    Action,
    Manifest,
    Placed,
    PublishPlan,
    Version,
    digest,
    next_manifest,
    read_manifest,
    read_version,
    tables_digest,
    version_document,
)
from fencepost.impl.publish.safeguards import Epoch, Head
from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Get, Outcome, Put

RETRIES_MAX = 5
"""The protocol's own limit on lost races whose winners left our expectations intact."""
CLAIMS_MAX = 100
"""The same for a claim, which has no expectations to lose."""

# The ends of a plan. `Published` and `Unknown` are results for users; the others lead to an error.


@dataclass(frozen=True, slots=True)
class Published:
    """Visible, for ever, in the manifest with this id (or, if found out late, before it)."""

    id: int
    plan: str


@dataclass(frozen=True, slots=True)
class Committed(Published):
    """Published, by whoever executed the plan."""

    manifest: Manifest

    @staticmethod
    def of(manifest: Manifest, plan: str) -> "Committed":
        return Committed(manifest.id, plan, manifest)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Published, or about to be, or never. Call `settle` later; do not publish the same again before."""

    plan: str
    why: str
    base: int = 0
    """The id of the manifest it was built on."""


class Why(enum.Enum):
    FENCED = "fenced"
    STALE = "stale"
    EXHAUSTED = "exhausted"
    """Its expectations hold, but others were first in every attempt."""


@dataclass(frozen=True, slots=True)
class Refused:
    """All heads moved, and the manifest was not created."""

    why: Why
    text: str
    parent: Manifest
    whole: bool = True
    """False if a part of the history since could not be read: it may contain the plan."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A head could not be created, because `found` occupies its place."""

    why: Why
    table: str
    found: Version
    moved: Mapping[str, Placed] = field(default_factory=dict)
    """The heads that were created."""


PlanResult = Committed | Unknown | Refused | Blocked


def execute(
    context: BranchContext, plan: PublishPlan, parent: Manifest | None, epoch: int, *, staged: bool = False
) -> PlanResult:
    """Move the heads, then the manifest. The expectations of `plan` hold on `parent`.

    `epoch` is the executor's, which may be later than the plan's. With `staged`, the executor is the plan's
    writer and has written its sidecar. That does not help a plan that only makes lineages of its own:
    recovery may retire it although it can still commit on any later manifest.
    """
    boundary = context.chain.boundary.request() if staged and plan.contested else None
    heads = place_heads(context, plan, epoch, boundary)
    if isinstance(heads, Blocked | Unknown):
        return heads
    next_id = parent.id + 1 if parent else 1
    check = context.safeguards.boundary_check_after_sidecar
    held = plan.held_ids if heads.boundary is not None and check(next_id, heads.boundary) else range(0)
    return _commit(context, plan, parent, epoch, heads.placed, held)


# Heads.


@dataclass(frozen=True, slots=True)
class Heads:
    placed: Mapping[str, Placed]
    boundary: int | None
    """As read beside them; None if it was not read."""


def place_heads(
    context: BranchContext, plan: PublishPlan, epoch: int, read_boundary: Get | None = None
) -> Heads | Blocked | Unknown:
    """Create the head of every touched table; returns the place of each, or why one has none.

    `read_boundary` is sent beside the first creates.
    """
    boundary = None
    numbers = {action.table: action.first_number for action in plan.moving}
    placed: dict[str, Placed] = {}
    blocked: Blocked | None = None
    while True:
        waiting = [a for a in plan.moving if a.table in numbers and a.table not in placed]
        if not waiting:
            break
        puts = []
        for action in waiting:
            number = numbers[action.table]
            body = version_document(plan, action, number)
            puts.append(Put(keys.version(action.pin_at(number)), body, ABSENT, JSON))
        beside = [read_boundary] if read_boundary is not None else []
        read_boundary = None
        *replies, last = [*context.store.send_all([*puts, *beside]), None][: len(puts) + 1]
        if last is not None and last.outcome in (Outcome.DONE, Outcome.MISSING):
            boundary = context.chain.boundary.value(last)[0]
        for action, put, result in zip(waiting, puts, context.create_all(puts, replies=replies), strict=True):
            table = action.table
            if result.body is None:
                return Unknown(plan.id, f"it is unknown whether {put.key} was created", plan.base)
            if result.created:
                placed[table] = Placed(numbers[table], digest(put.body))
                continue
            found = read_version(result.body, put.key)
            match judge(context, found, plan, action, epoch):
                case Head.OWN:
                    placed[table] = Placed(numbers[table], digest(result.body))
                case Head.DEAD:
                    numbers[table] += 1
                case verdict:
                    del numbers[table]
                    why = Why.FENCED if verdict is Head.LATER else Why.STALE
                    if blocked is None or why is Why.FENCED:
                        blocked = Blocked(why, table, found, placed)
    return blocked or Heads(placed, boundary)


def judge(context: BranchContext, found: Version, plan: PublishPlan, action: Action, epoch: int) -> Head:
    """Judge the version `found` at the place of a head of `plan`, for an executor of `epoch`."""
    against = context.safeguards.epoch_check(epoch, found.epoch)
    return context.safeguards.late_head(found, plan, action.base, against)


# The manifest.


def _commit(
    context: BranchContext,
    plan: PublishPlan,
    parent: Manifest | None,
    epoch: int,
    placed: Mapping[str, Placed],
    held: range,
) -> PlanResult:
    """Create the manifest that `plan` makes of `parent`, or of the manifests that won before us.

    No cleanup deletes the ids in `held`.
    """
    whole = True
    tries = CLAIMS_MAX if plan.kind == "claim" else RETRIES_MAX
    for _ in range(tries + 1):
        manifest = next_manifest(parent, plan, placed)
        result = context.chain.create(
            manifest.id,
            manifest.body(),
            context.safeguards.create_only_manifest(),
            context.safeguards.read_back_on_unknown,
        )
        if result.given_up:
            return Refused(Why.STALE, "the store did not answer in time", parent or manifest)
        if result.body is None:
            return Unknown(plan.id, f"it is unknown whether manifest {manifest.id} was created", plan.base)
        found = manifest if result.created else read_manifest(result.body, context.chain.key(manifest.id))
        winners: Sequence[Manifest] = ()
        if found.plan == plan.id:
            if found.id in held or _above_boundary(context, found):
                return Committed.of(found, plan.id)
        else:
            news = context.chain.after(manifest.id - 1)
            winners, whole = context.manifests(news), whole and news.whole
            mine = next((winner for winner in winners if winner.plan == plan.id), None)
            if mine is not None and news.whole and (mine.id in held or _above_boundary(context, mine)):
                return Committed.of(mine, plan.id)
        if winners:
            newest: Manifest | None = winners[-1]
        else:
            newest, whole = context.newest(), False
        assert newest is not None, "a chain that had an entry keeps its newest"
        if _contains(newest, placed, plan):
            return Committed.of(newest, plan.id)
        refused = conflict(context, plan, newest, winners, epoch)
        if refused is not None:
            return Refused(refused.why, refused.text, newest, whole)
        parent = newest
    assert parent is not None
    text = f"{tries + 1} other commits were first, the last one plan {parent.plan}"
    return Refused(Why.EXHAUSTED, text, parent, whole)


def _above_boundary(context: BranchContext, created: Manifest) -> bool:
    """Return True if an id that contains our plan was above the boundary when it was created."""
    boundary = context.chain.boundary.read()
    return context.safeguards.boundary_check_after_create(created.id, boundary)


def _contains(newest: Manifest, placed: Mapping[str, Placed], plan: PublishPlan) -> bool:
    """Return True if `newest` pins a head of ours: the plan was published, perhaps before the boundary."""
    return any(
        (entry := newest.tables.get(action.table)) is not None
        and action.entry is not None
        and (entry.location, entry.version, entry.digest) == (action.entry.location, *placed[action.table])
        for action in plan.moving
    )


# Expectations.


def conflict(
    context: BranchContext, plan: PublishPlan, parent: Manifest, winners: Sequence[Manifest], epoch: int
) -> Refused | None:
    """Why `plan`, having lost to `winners`, may not be tried again on `parent`; None if it may."""
    if not context.safeguards.shared_head(plan, winners):
        return None
    return refusal(context, plan, parent, winners, epoch)


def refusal(
    context: BranchContext, plan: PublishPlan, parent: Manifest, winners: Sequence[Manifest], epoch: int
) -> Refused | None:
    """The first expectation of `plan` that does not hold on `parent`."""
    if plan.kind == "branch":
        return None if parent.deleted else _stale(parent, f"branch {plan.branch} exists already")
    if plan.kind == "init":
        return _stale(parent, "the catalog exists already")
    if parent.deleted or (plan.incarnation and plan.incarnation != parent.incarnation):
        return _stale(parent, f"branch {plan.branch} was deleted")
    if plan.kind == "claim":
        return None
    if context.safeguards.epoch_check(epoch, parent.epoch) is Epoch.LATER:
        text = f"epoch {parent.epoch} was claimed on branch {plan.branch}, this writer has {epoch}"
        return Refused(Why.FENCED, text, parent)
    changed = _changed(context, plan, parent, winners)
    return _stale(parent, changed) if changed else None


def _changed(
    context: BranchContext, plan: PublishPlan, parent: Manifest, winners: Sequence[Manifest]
) -> str | None:
    """Return the first change since the plan was made that it depends on, in words."""
    touched = next((a.table for a in plan.actions if parent.pin(a.table) != a.base), None)
    if touched is not None and plan.kind != "merge":
        return f"table {touched} was written by plan {parent.plan} or one before it"
    read = context.safeguards.pins_re_evaluated_on_retry(plan, parent)
    if read is not None:
        return f"table {read}, which this write relied on, was changed"
    if plan.schema_since is not None and plan.schema_since != parent.schema_since:
        return f"keys, edges or columns were changed in manifest {parent.schema_since}"
    if plan.tables_digest and plan.tables_digest != tables_digest(parent.tables):
        return f"branch {plan.branch} has commits of its own since: no fast-forward"
    if plan.id < parent.swept_horizon and plan.base < parent.swept_id and not plan.undoes:
        return f"it was begun before the cleanup in manifest {parent.swept_id}"
    if any(winner.undoes == plan.id for winner in winners):
        return "recovery took its writer for dead and undid it"
    return None


def _stale(parent: Manifest, text: str) -> Refused:
    return Refused(Why.STALE, text, parent)
