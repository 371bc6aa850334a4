"""Branches: created with one object whatever the number of tables, deleted by one.

A merge is a fast-forward, which adopts the tables of the other branch, or else one of rows, see `merging`.
"""

from fencepost.impl.publish import keys
from fencepost.impl.publish.chain import newest_of
from fencepost.impl.publish.commit import Committed, PlanResult, Published, Unknown, execute
from fencepost.impl.publish.context import MAIN, BranchContext, Handle, delete_sidecar
from fencepost.impl.publish.documents import (
    Action,
    Manifest,
    Merges,
    PublishPlan,
    read_manifest,
    tables_digest,
)
from fencepost.impl.publish.errors import Absent, Invalid, StaleView
from fencepost.impl.publish.publisher import AGAIN, conclude, stage
from fencepost.impl.publish.recovery import held


def create(handle: Handle, name: str, source: Manifest) -> Published | Unknown:
    """Create branch `name` from `source`, a manifest of this handle's branch."""
    handle.check_writable()
    target = handle.context.on(keys.check_name(name, "branch"))
    parent = target.newest()
    if parent is not None and not parent.deleted:
        raise Invalid(f"there is a branch {name!r} already; delete it first or choose another name")
    plan = handle.draft(
        "branch",
        branch=name,
        base=parent.id if parent else 0,
        incarnation="",
        actions=tuple(
            Action(table, ("adopt",), None, entry) for table, entry in sorted(source.tables.items())
        ),
        hold=(source.branch, source.id),
        origin={
            "branch": source.branch,
            "of": source.incarnation,
            "id": source.id,
            "digest": tables_digest(source.tables),
        },
    )
    result = _execute_with_hold(handle, target, plan, parent, parent.epoch if parent else 0)
    if isinstance(result, Unknown):
        return result
    handle.context.store.send(delete_sidecar(plan.id))
    if not isinstance(result, Published):
        raise StaleView(f"another writer created branch {name} at the same time; {AGAIN}")
    return result


def to_merge(handle: Handle, name: str) -> Manifest:
    """Return the newest manifest of branch `name`."""
    handle.check_writable()
    source = handle.context.on(keys.check_name(name, "branch")).newest()
    if source is None or source.deleted:
        raise Absent(f"there is no branch {name!r} to merge")
    return source


def is_fast_forward(target: Manifest, source: Manifest) -> bool:
    """Return True if `target` has no commits of its own since it was forked or merged last."""
    origin = source.origin.get("digest") if source.origin.get("branch") == target.branch else None
    return tables_digest(target.tables) in (origin, target.merged.get(source.incarnation))


def fast_forward(handle: Handle, target: Manifest, source: Manifest) -> Published | Unknown:
    """Give this branch, at `target`, the tables of `source`. Refused if it is not at `target` any more."""
    current = tables_digest(target.tables)
    actions = tuple(
        Action(table, ("adopt",) if table in source.tables else ("tombstone",), target.pin(table), new)
        for table in sorted({*source.tables, *target.tables})
        if (new := source.tables.get(table)) != target.tables.get(table)
    )
    if not actions:
        return Committed.of(target, target.plan)
    plan = handle.draft(
        "merge",
        actions=actions,
        hold=(source.branch, source.id),
        tables_digest=current,
        merges=Merges(source.incarnation, source.id, tables_digest(source.tables)),
        message=f"merge {source.branch}",
    )
    result = _execute_with_hold(handle, handle.context, plan, target, handle.epoch)
    return conclude(handle, plan, result)


def _execute_with_hold(
    handle: Handle, context: BranchContext, plan: PublishPlan, parent: Manifest | None, epoch: int
) -> PlanResult:
    """Hold first, read the boundary second, commit third: see `recovery` on holds."""
    stage(handle, plan, handle.latest, ())
    if not held(context, plan):
        handle.context.store.send(delete_sidecar(plan.id))
        raise Absent(f"manifest {plan.hold} was cleaned up; use a newer one")
    return execute(context, plan, parent, epoch)


def delete(handle: Handle) -> Published | Unknown:
    """Delete this handle's branch. Versions that only it pinned remain until cleanup."""
    if handle.context.branch == MAIN:
        raise Invalid(f"branch {MAIN} cannot be deleted")
    handle.check_writable()
    handle.refresh()
    plan = handle.draft("delete-branch")
    return conclude(handle, plan, execute(handle.context, plan, handle.latest, handle.epoch))


def newest(context: BranchContext) -> dict[str, Manifest | None]:
    """The newest manifest of every branch that ever existed, in a few steps whatever their number."""
    chains = {name: context.on(name).chain for name in names(context)}
    found = newest_of(list(chains.values()))
    return {
        name: None if entry is None else read_manifest(entry[1], chain.key(entry[0]))
        for (name, chain), entry in zip(chains.items(), found, strict=True)
    }


def names(context: BranchContext) -> list[str]:
    """Every branch that ever existed. A deleted branch has a last manifest that records the deletion."""
    found: list[str] = []
    for page in context.store.pages(keys.BRANCHES, delimiter="/"):
        found.extend(prefix.removeprefix(keys.BRANCHES).rstrip("/") for prefix in page.prefixes)
    return found


def boundaries(context: BranchContext) -> dict[str, int]:
    """The boundary of every branch that ever existed, in two steps whatever their number."""
    found = {name: context.on(name).chain.boundary for name in names(context)}
    replies = context.read_all([boundary.request() for boundary in found.values()])
    pairs = zip(found.items(), replies, strict=True)
    return {name: boundary.value(reply)[0] for (name, boundary), reply in pairs}
