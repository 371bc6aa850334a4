"""Branches: made with one object whatever the number of tables, merged by fast-forward, deleted by one."""

from fencepost.impl.publish import keys, sidecar
from fencepost.impl.publish.chain import newest_of
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Manifest, read_manifest, tables_digest
from fencepost.impl.publish.endings import Ended, Published, Unknown
from fencepost.impl.publish.errors import Absent, Invalid, StaleView
from fencepost.impl.publish.handle import Handle
from fencepost.impl.publish.holds import held
from fencepost.impl.publish.machine import AGAIN, conclude, stage
from fencepost.impl.publish.plan import Action, PublishPlan

MAIN = "main"


def create(handle: Handle, name: str, source: Manifest) -> Published | Unknown:
    """Make branch `name` of `source`, a manifest of this handle's branch."""
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
        origin={"branch": source.branch, "id": source.id, "digest": tables_digest(source.tables)},
    )
    ended = _held(handle, target, plan, parent, parent.epoch if parent else 0)
    if isinstance(ended, Unknown):
        return ended
    handle.context.store.send(sidecar.delete(plan.id))
    if not isinstance(ended, Published):
        raise StaleView(f"branch {name} was made by somebody else at the same time; {AGAIN}")
    return ended


def merge(handle: Handle, name: str) -> Published | Unknown:
    """Make this branch what branch `name` is, provided that it has not moved since."""
    handle.check_writable()
    target = handle.refresh()
    source = handle.context.on(name).newest()
    if source is None or source.deleted:
        raise Absent(f"there is no branch {name!r} to merge")
    stands = tables_digest(target.tables)
    origin = source.origin.get("digest") if source.origin.get("branch") == target.branch else None
    if stands not in (origin, target.merged.get(source.incarnation)):
        raise Invalid(
            f"branch {target.branch} has commits that {name} does not build on: only a fast-forward can be "
            f"merged; repeat the changes of {name} on a new branch of {target.branch}"
        )
    actions = tuple(
        Action(table, ("adopt",) if table in source.tables else ("tombstone",), target.pin(table), new)
        for table in sorted({*source.tables, *target.tables})
        if (new := source.tables.get(table)) != target.tables.get(table)
    )
    if not actions:
        return Published(target, target.plan)
    plan = handle.draft(
        "merge",
        actions=actions,
        hold=(source.branch, source.id),
        tables_digest=stands,
        merges=source.incarnation,
        message=f"merge {name}",
    )
    return conclude(handle, plan, _held(handle, handle.context, plan, target, handle.epoch))


def _held(
    handle: Handle, context: BranchContext, plan: PublishPlan, parent: Manifest | None, epoch: int
) -> Ended:
    """Hold first, look at the boundary second, commit third: see `holds`."""
    stage(handle, plan, ())
    if not held(context, plan):
        handle.context.store.send(sidecar.delete(plan.id))
        raise Absent(f"manifest {plan.hold} was cleaned up; use a newer one")
    return plan.apply(context, parent, epoch)


def delete(handle: Handle) -> Published | Unknown:
    """Delete this handle's branch. What it alone pinned stays until cleanup."""
    if handle.context.branch == MAIN:
        raise Invalid(f"branch {MAIN} cannot be deleted")
    handle.check_writable()
    handle.refresh()
    plan = handle.draft("delete-branch")
    return conclude(handle, plan, plan.apply(handle.context, handle.latest, handle.epoch))


def newest(context: BranchContext) -> dict[str, Manifest | None]:
    """The newest manifest of every branch that ever was, in a few steps however many there are."""
    chains = {name: context.on(name).chain for name in names(context)}
    found = newest_of(list(chains.values()))
    return {
        name: None if entry is None else read_manifest(entry[1], chain.key(entry[0]))
        for (name, chain), entry in zip(chains.items(), found, strict=True)
    }


def names(context: BranchContext) -> list[str]:
    """Every branch that ever was, deleted ones included: those have a last manifest that says so."""
    found: list[str] = []
    for page in context.store.pages(keys.BRANCHES, delimiter="/"):
        found.extend(prefix.removeprefix(keys.BRANCHES).rstrip("/") for prefix in page.prefixes)
    return found
