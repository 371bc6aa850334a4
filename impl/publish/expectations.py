"""Whether a plan may commit on a manifest: all of its expectations, every time the parent is a new one.

Each of them only ever gets worse - pins, epochs, `schema_since` and sweeps rise - so a plan that is
refused here is refused for ever, by whoever executes it.
"""

from collections.abc import Sequence

from fencepost.impl.publish.documents import Manifest, tables_digest
from fencepost.impl.publish.endings import Refused, Why
from fencepost.impl.publish.plan import PublishPlan
from fencepost.impl.publish.safeguards import Epoch, Safeguards


def conflict(
    safeguards: Safeguards, plan: PublishPlan, parent: Manifest, winners: Sequence[Manifest], epoch: int
) -> Refused | None:
    """Why `plan`, having lost to `winners`, may not be tried again on `parent`; None when it may."""
    if not safeguards.shared_head(plan, winners):
        return None
    return refusal(safeguards, plan, parent, winners, epoch)


def refusal(
    safeguards: Safeguards, plan: PublishPlan, parent: Manifest, winners: Sequence[Manifest], epoch: int
) -> Refused | None:
    """The first expectation of `plan` that `parent` does not meet."""
    if plan.kind == "branch":
        return None if parent.deleted else _stale(parent, f"branch {plan.branch} exists already")
    if plan.kind == "init":
        return _stale(parent, "the catalog exists already")
    if parent.deleted or (plan.incarnation and plan.incarnation != parent.incarnation):
        return _stale(parent, f"branch {plan.branch} was deleted")
    if plan.kind == "claim":
        return None
    if safeguards.epoch_check(epoch, parent.epoch) is Epoch.LATER:
        text = f"epoch {parent.epoch} was claimed on branch {plan.branch}, this writer has {epoch}"
        return Refused(Why.FENCED, text, parent)
    moved = _moved(safeguards, plan, parent, winners)
    return _stale(parent, moved) if moved else None


def _moved(
    safeguards: Safeguards, plan: PublishPlan, parent: Manifest, winners: Sequence[Manifest]
) -> str | None:
    """What moved under the plan, in words."""
    touched = next((a.table for a in plan.actions if parent.pin(a.table) != a.base), None)
    if touched is not None and plan.kind != "merge":
        return f"table {touched} was written by plan {parent.plan} or one before it"
    read = safeguards.pins_re_evaluated_on_retry(plan, parent)
    if read is not None:
        return f"table {read}, which this write relied on, was changed"
    if plan.schema_since is not None and plan.schema_since != parent.schema_since:
        return f"keys, edges or columns were changed in manifest {parent.schema_since}"
    if plan.tables_digest and plan.tables_digest != tables_digest(parent.tables):
        return f"branch {plan.branch} has commits of its own since: no fast-forward"
    if plan.id < parent.swept_horizon and plan.base < parent.swept_id and not plan.undoes:
        return f"it was begun before the cleanup in manifest {parent.swept_id}"
    if any(winner.undoes == plan.id for winner in winners):
        return "recovery took it for a dead writer's and undid it"
    return None


def _stale(parent: Manifest, text: str) -> Refused:
    return Refused(Why.STALE, text, parent)
