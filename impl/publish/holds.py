"""Holds: what a plan adopts from another branch stays there until the plan has ended.

A merge or a new branch points at versions that only some older manifest pins. The plan's sidecar *holds*
that manifest: cleanup moves the boundary first and looks for holds afterwards; the holder writes the
sidecar first and looks at the boundary afterwards. Whatever the order, one of them sees the other.
"""

from dataclasses import replace

from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Manifest
from fencepost.impl.publish.plan import PublishPlan
from fencepost.impl.publish.undo import undo_id


def held(context: BranchContext, plan: PublishPlan) -> bool:
    """Whether the manifest that `plan` holds is still retained. Ask after the sidecar stands."""
    assert plan.hold is not None
    branch, id_ = plan.hold
    return context.on(branch).chain.boundary.read() < id_


def occupy(plan: PublishPlan, parent: Manifest | None) -> PublishPlan:
    """A plan that takes the place that `plan` wanted, so that its create, if still on its way, loses."""
    return replace(
        plan,
        id=undo_id(plan.id),
        kind="delete-branch" if plan.kind == "branch" else "undo",
        undoes=plan.id,
        incarnation=parent.incarnation if parent else "",
        actions=(),
        origin={},
        merges="",
        hold=None,
        tables_digest="",
    )
