"""Undoing a plan: its touched tables get their pinned content again, as new versions, in one commit.

The undo is a plan like any other, executed by the same `apply`, with an id derived from what it undoes:
two who undo the same plan write the same objects and meet each other as `own`. It needs no sidecar: that of
the undone plan stands until the undo is committed.
"""

from collections.abc import Collection

from fencepost.impl.publish.contents import Library
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Manifest, Version
from fencepost.impl.publish.endings import Blocked, Ended, Published, Refused, Why
from fencepost.impl.publish.plan import Action, PublishPlan


def undo_id(plan: str) -> str:
    return f"{plan}-undo"


def restorable(plan: PublishPlan, parent: Manifest) -> list[Action]:
    """The tables where a head of `plan` could be in somebody's way: shared lineage, pin still its base."""
    return [a for a in plan.actions if a.contested and parent.pin(a.table) == a.base]


def undo_plan(
    plan: PublishPlan, parent: Manifest, epoch: int, library: Library, tables: Collection[str]
) -> PublishPlan:
    """The plan that restores `tables` as `parent` pins them."""
    entries = {table: parent.tables[table] for table in sorted(tables)}
    documents = library.documents(entries)
    return PublishPlan(
        id=undo_id(plan.id),
        branch=plan.branch,
        kind="undo",
        author=plan.author,
        time_ns=plan.time_ns,
        epoch=epoch,
        base=parent.id,
        incarnation=parent.incarnation,
        undoes=plan.id,
        actions=tuple(
            Action(table, ("restore",), entry.pin, entry, documents[table].columns, documents[table].runs)
            for table, entry in entries.items()
        ),
    )


def undo(
    context: BranchContext,
    library: Library,
    plan: PublishPlan,
    parent: Manifest,
    epoch: int,
    tables: Collection[str],
) -> Ended:
    """Restore `tables`. One whose slot a rival occupies needs no restoring while another one is: the pin
    that moves there kills the plan. With a rival in every slot nothing was undone, and nothing is said to be.
    """
    left = set(tables)
    while True:
        ended = undo_plan(plan, parent, epoch, library, left).apply(context, parent, epoch)
        if not (isinstance(ended, Blocked) and ended.why is Why.STALE):
            return ended
        left.discard(ended.table)
        if not left:
            return ended


def undo_own(
    context: BranchContext,
    library: Library,
    plan: PublishPlan,
    parent: Manifest,
    epoch: int,
    moved: Collection[str],
) -> Manifest | None:
    """Take back one's own heads; the newest manifest known then, or None when that could not be done."""
    for _ in range(5):
        tables = {action.table for action in restorable(plan, parent)} & set(moved)
        if not tables:
            return parent
        ended = undo(context, library, plan, parent, epoch, tables)
        if isinstance(ended, Published):
            return ended.manifest
        if not isinstance(ended, Refused) or ended.why is not Why.STALE:
            return None
        parent = ended.parent
    return None


def undo_left(context: BranchContext, library: Library, found: Version, parent: Manifest, epoch: int) -> bool:
    """Commit the undo that `found` is a head of: its executor died, and the undone plan's owner, who knew
    nothing of it, retired the sidecar. Whoever meets it may, for it shows what is pinned already.
    """
    undone = PublishPlan(
        id=found.undoes,
        branch=context.branch,
        kind="publish",
        author="",
        time_ns=0,
        epoch=found.epoch,
        base=parent.id,
    )
    return isinstance(undo(context, library, undone, parent, epoch, {found.table}), Published)
