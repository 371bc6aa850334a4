"""The commit: create the next manifest, and find out truthfully how that ended."""

from collections.abc import Mapping, Sequence

from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Manifest, Placed, next_manifest, read_manifest
from fencepost.impl.publish.endings import Ended, Published, Refused, Unknown, Why
from fencepost.impl.publish.expectations import conflict
from fencepost.impl.publish.plan import PublishPlan

__all__ = ["Ended", "commit"]

RETRIES_MAX = 5
"""The protocol's own limit on lost races whose winners left our expectations alone."""
CLAIMS_MAX = 100
"""A claim has no expectations to lose, so only this many rivals in a row stop it."""


def commit(
    context: BranchContext,
    plan: PublishPlan,
    parent: Manifest | None,
    epoch: int,
    placed: Mapping[str, Placed],
) -> Ended:
    """Create the manifest that `plan` makes of `parent`, or of whoever won before us."""
    whole = True
    tries = CLAIMS_MAX if plan.kind == "claim" else RETRIES_MAX
    for _ in range(tries + 1):
        manifest = next_manifest(parent, plan, placed)
        stands = context.chain.create(
            manifest.id,
            manifest.body(),
            context.safeguards.create_only_manifest(),
            context.safeguards.read_back_on_unknown,
        )
        if stands.given_up:
            return Refused(Why.STALE, "the store did not answer in time", parent or manifest)
        if stands.body is None:
            return Unknown(
                plan.id, f"the store did not tell whether manifest {manifest.id} was created", plan.base
            )
        stood = manifest if stands.created else read_manifest(stands.body, context.chain.key(manifest.id))
        winners: Sequence[Manifest] = ()
        if stood.plan == plan.id:
            if _success(context, stood):
                return Published(stood, plan.id)
        else:
            news = context.chain.after(manifest.id - 1)
            winners, whole = context.manifests(news), whole and news.whole
            mine = next((winner for winner in winners if winner.plan == plan.id), None)
            if mine is not None and news.whole and _success(context, mine):
                return Published(mine, plan.id)
        newest, whole = (winners[-1], whole) if winners else (_resolved(context), False)
        if _adopted(newest, placed, plan):
            return Published(newest, plan.id)
        refused = conflict(context.safeguards, plan, newest, winners, epoch)
        if refused is not None:
            return Refused(refused.why, refused.text, newest, whole)
        parent = newest
    assert parent is not None
    text = f"{tries + 1} other commits were quicker, the last one plan {parent.plan}"
    return Refused(Why.EXHAUSTED, text, parent, whole)


def _resolved(context: BranchContext) -> Manifest:
    newest = context.newest()
    assert newest is not None, "a chain that had an entry keeps its newest"
    return newest


def _success(context: BranchContext, created: Manifest) -> bool:
    """Whether an id that holds our plan was above the boundary when it was created."""
    boundary = context.chain.boundary.read()
    return context.safeguards.boundary_check_after_create(created.id, boundary)


def _adopted(newest: Manifest, placed: Mapping[str, Placed], plan: PublishPlan) -> bool:
    """Whether `newest` shows a head of ours: then the plan was published, perhaps behind the boundary."""
    return any(
        (entry := newest.tables.get(action.table)) is not None
        and action.entry is not None
        and (entry.location, entry.version, entry.digest) == (action.entry.location, *placed[action.table])
        for action in plan.moving
    )
