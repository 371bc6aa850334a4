"""Recovery: on opening, and when a rival's head blocks a write; never on a steady write.

Each sidecar is classified against the newest manifest and the version objects. The evidence can only get
worse for its plan:

    live                 young, and its epoch is not fenced: a live write; left alone, with a notice, unless
                         it is stuck: a writer in whose way it is has watched it for long enough
    settled              every touched pin has moved on: published, or superseded for ever
    complete             all heads are the plan's and its expectations hold: rolled forward by `execute`
    no movement          no head is the plan's
    partial              some are
    unexpected           the number after the pin is another plan's
    unexpected-beyond    a later number is

All but the first three are rolled back. For a fenced plan, recovery restores only the heads it moved, because
late ones will be stepped over by their epoch; for an expired plan, every table it might still move.

**Undo** gives the touched tables of a plan their pinned content again, as new versions, in one commit. The
undo is a plan like any other, run by the same `execute`, with an id derived from the undone plan: two
processes that undo the same plan write the same objects and meet each other as `own`. It needs no sidecar:
that of the undone plan exists until the undo is committed.

**Holds.** A merge or a new branch points at versions that only some older manifest pins. The plan's sidecar
*holds* that manifest: cleanup moves the boundary first and looks for holds afterwards; the holder writes the
sidecar first and reads the boundary afterwards. In any order, one of them sees the other.
"""

import enum
from collections.abc import Collection, Sequence
from dataclasses import replace

from fencepost.impl.publish import keys
from fencepost.impl.publish.commit import (
    Blocked,
    Committed,
    PlanResult,
    Refused,
    Unknown,
    Why,
    execute,
    judge,
    refusal,
)
from fencepost.impl.publish.context import BranchContext, Handle, Notice, delete_sidecar
from fencepost.impl.publish.documents import (
    FORMAT,
    JSON,
    Action,
    Manifest,
    PublishPlan,
    Version,
    encode,
    read_version,
)
from fencepost.impl.publish.errors import StoreUnavailable
from fencepost.impl.publish.safeguards import Head, Standing
from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Get, Outcome, Put

ATTEMPTS_MAX = 5
"""Attempts to classify a plan while others move."""
SUPERSEDED = "others were first; recovery will look again"


class Slot(enum.Enum):
    """The kinds of version at the place of a plan's head."""

    EMPTY = "empty"
    MINE = "mine"
    UNDOING = "undoing"
    RIVAL = "rival"
    RIVAL_BEYOND = "rival-beyond"


def recover(handle: Handle, plans: Sequence[PublishPlan] | None = None) -> list[Notice]:
    """Settle every sidecar of this handle's branch; `plans` are all sidecars, if already read."""
    notices = []
    for plan in handle.context.sidecars() if plans is None else plans:
        branch = plan.hold[0] if plan.kind == "branch" and plan.hold else plan.branch
        if branch == handle.context.branch:
            notices.append(recover_plan(handle, plan))
    return notices


def recover_plan(handle: Handle, plan: PublishPlan, *, stuck: bool = False) -> Notice:
    """Settle one plan, unless it may be alive. One that is `stuck` in our way is ended in any case.

    That is safe with a writer that is alive: the plan is completed, or undone by a commit in the slot for
    which its writer competes. It is never just retired, as a fenced one may be.
    """
    context = handle.context
    age_ns = context.env.now_ns() - plan.time_ns
    grace_ns = round(context.grace_s * 1e9)
    standing = context.safeguards.grace_window(plan.epoch, handle.latest.epoch, age_ns, grace_ns)
    if standing is Standing.LIVE and stuck:
        standing = Standing.EXPIRED
    if standing is Standing.LIVE:
        text = f"begun {age_ns / 1e9:.1f} s ago by {plan.author}, left alone for {context.grace_s:g} s"
        return _notice(plan, "live", "left", text)
    if plan.hold is not None and not plan.moving:
        return _recover_hold(handle, plan)
    return _recover_heads(handle, plan, standing)


def _recover_heads(handle: Handle, plan: PublishPlan, standing: Standing) -> Notice:
    classified = "no movement"
    before = None
    undone = False
    for _ in range(ATTEMPTS_MAX):
        parent = handle.latest
        if all(parent.pin(action.table) != action.base for action in plan.actions):
            ended = (classified, "rolled-back") if undone else ("settled", "retired")
            return _retire(handle, plan, *ended)
        slots = _slots(handle.context, plan, handle.epoch)
        classified = _classify(slots)
        if classified == "complete" and refusal(handle.context, plan, parent, (), handle.epoch) is None:
            result, done = execute(handle.context, plan, parent, handle.epoch), "rolled-forward"
        else:
            wanted = {Slot.MINE, Slot.UNDOING} | ({Slot.EMPTY} if standing is Standing.EXPIRED else set())
            tables = [a.table for a in _restorable(plan, parent) if slots[a.table] in wanted]
            if not tables:
                return _retire(handle, plan, classified, "rolled-back" if undone else "retired")
            result, done = _undo(handle, plan, parent, tables), "rolled-back"
        if isinstance(result, Committed):
            handle.learn([result.manifest])
            undone = done == "rolled-back"
            if undone and any(
                handle.latest.pin(a.table) == a.base for a in plan.actions if a.table in tables
            ):
                continue  # the plan's own writer has committed an undo of fewer tables
            return _retire(handle, plan, classified, done)
        seen = (parent.id, slots)
        if not _may_look_again(handle, result) or seen == before:
            break
        before = seen
    return _notice(plan, classified, "left", SUPERSEDED)


def _may_look_again(handle: Handle, result: PlanResult) -> bool:
    """Return True if another look, at a newer manifest, may help."""
    if isinstance(result, Unknown):
        return False
    if isinstance(result, Refused):
        handle.learn([result.parent])
    elif isinstance(result, Blocked):
        handle.refresh()
    handle.check_writable()
    return True


def _retire(handle: Handle, plan: PublishPlan, classified: str, done: str) -> Notice:
    """Record the plan, and delete its sidecar. The notice says `done` only when the delete is certain: while
    the sidecar exists, the next recovery may roll forward a plan that had not moved when we looked.

    The writer may be alive, and has perhaps still to create a manifest, on a parent that it met before the
    plan was refused for ever. The record holds the ids that this can be, as the sidecar has: else the create
    could succeed where a manifest was deleted.
    """
    newest = min(handle.latest.id, plan.held_ids[-1])
    body = encode({"format": FORMAT, "plan": plan.id, "base": plan.base, "newest": newest})
    name = keys.record(plan.branch, plan.base, newest, plan.id)
    records = handle.context.safeguards.retired_plans_recorded(Put(name, body, ABSENT, JSON))
    if plan.contested and any(result.body is None for result in handle.context.create_all(records)):
        return _notice(plan, classified, "left", f"{classified}, and perhaps {name} was not written")
    try:
        handle.context.read(delete_sidecar(plan.id))  # unconditional, so that it may be sent again
    except StoreUnavailable as error:
        return _notice(plan, classified, "left", f"{classified}, and {error}")
    return _notice(plan, classified, done, f"{classified}, {done} by {handle.author}")


def _notice(plan: PublishPlan, classified: str, done: str, text: str) -> Notice:
    return Notice(plan.id, plan.branch, classified, done, text, plan.epoch)


def _classify(slots: dict[str, Slot]) -> str:
    found = set(slots.values())
    if found == {Slot.MINE}:
        return "complete"
    if Slot.RIVAL in found:
        return "unexpected"
    if Slot.RIVAL_BEYOND in found:
        return "unexpected-beyond"
    return "partial" if found & {Slot.MINE, Slot.UNDOING} else "no movement"


def _slots(context: BranchContext, plan: PublishPlan, epoch: int) -> dict[str, Slot]:
    """For every touched table, what occupies the first number that no dead version has."""
    numbers = {action.table: action.first_number for action in plan.moving}
    slots: dict[str, Slot] = {}
    while len(slots) < len(numbers):
        actions = [action for action in plan.moving if action.table not in slots]
        gets = [Get(keys.version(action.pin_at(numbers[action.table]))) for action in actions]
        for action, get, reply in zip(actions, gets, context.read_all(gets), strict=True):
            if reply.outcome is not Outcome.DONE:
                slots[action.table] = Slot.EMPTY
                continue
            found = read_version(reply.body, get.key)
            first = numbers[action.table] == action.first_number
            verdict = judge(context, found, plan, action, epoch)
            if verdict is Head.OWN:
                slots[action.table] = Slot.MINE
            elif found.plan == undo_id(plan.id):
                slots[action.table] = Slot.UNDOING
            elif verdict is Head.DEAD:
                numbers[action.table] += 1
            else:
                slots[action.table] = Slot.RIVAL if first else Slot.RIVAL_BEYOND
    return slots


# Undo.


def undo_id(plan: str) -> str:
    return f"{plan}-undo"


def _restorable(plan: PublishPlan, parent: Manifest) -> list[Action]:
    """The tables where a head of `plan` could block others: shared lineage, and the pin is still its base."""
    return [a for a in plan.actions if a.contested and parent.pin(a.table) == a.base]


def _undo_plan(handle: Handle, plan: PublishPlan, parent: Manifest, tables: Collection[str]) -> PublishPlan:
    """The plan that restores `tables` as `parent` pins them."""
    entries = {table: parent.tables[table] for table in sorted(tables)}
    documents = handle.reader.documents(entries)
    return PublishPlan(
        id=undo_id(plan.id),
        branch=plan.branch,
        kind="undo",
        author=plan.author,
        time_ns=plan.time_ns,
        epoch=handle.epoch,
        base=parent.id,
        incarnation=parent.incarnation,
        undoes=plan.id,
        actions=tuple(
            Action(table, ("restore",), entry.pin, entry, documents[table].columns, documents[table].runs)
            for table, entry in entries.items()
        ),
    )


def _undo(handle: Handle, plan: PublishPlan, parent: Manifest, tables: Collection[str]) -> PlanResult:
    """Restore `tables`. A table whose place a rival occupies needs no restoring while another one does: the
    pin that moves there kills the plan. With a rival in every place nothing is undone (`Blocked`).
    """
    left = set(tables)
    while True:
        undoing = _undo_plan(handle, plan, parent, left)
        result = execute(handle.context, undoing, parent, handle.epoch)
        if not (isinstance(result, Blocked) and result.why is Why.STALE):
            return result
        left.discard(result.table)
        if not left:
            return result


def undo_own(handle: Handle, plan: PublishPlan, parent: Manifest, moved: Collection[str]) -> Manifest | None:
    """Undo one's own heads; returns the newest manifest then known, or None if that was not possible."""
    for _ in range(5):
        tables = {action.table for action in _restorable(plan, parent)} & set(moved)
        if not tables:
            return parent
        result = _undo(handle, plan, parent, tables)
        if isinstance(result, Committed):
            return result.manifest
        if not isinstance(result, Refused) or result.why is not Why.STALE:
            return None
        parent = result.parent
    return None


def finish_undo(handle: Handle, found: Version) -> bool:
    """Commit the undo that `found` is a head of. Its executor died, and the owner of the undone plan, who did
    not know of the undo, retired the sidecar. Any process may commit it, because it changes no visible row.
    """
    parent = handle.latest
    undone = PublishPlan(found.undoes, handle.context.branch, "publish", "", 0, found.epoch, parent.id)
    return isinstance(_undo(handle, undone, parent, {found.table}), Committed)


# Holds.


def held(context: BranchContext, plan: PublishPlan) -> bool:
    """Return True if the manifest that `plan` holds is retained. Call it after writing the sidecar."""
    assert plan.hold is not None
    branch, id_ = plan.hold
    return context.on(branch).chain.boundary.read() < id_


def _recover_hold(handle: Handle, plan: PublishPlan) -> Notice:
    """Settle a merge or the creation of a branch (one manifest, no heads): execute it, or take its place."""
    context = handle.context.on(plan.branch)
    parent = context.newest()
    if parent is not None and (
        (plan.kind == "branch" and parent.id != plan.base)
        or refusal(context, plan, parent, (), parent.epoch) is not None
    ):
        return _retire(handle, plan, "settled", "retired")
    epoch = parent.epoch if parent else 0
    if held(context, plan):
        result, done = execute(context, plan, parent, epoch), "rolled-forward"
    else:
        result, done = execute(context, _occupying_plan(plan, parent), parent, epoch), "rolled-back"
    if plan.branch == handle.context.branch:
        handle.refresh()
    if isinstance(result, Committed):
        return _retire(handle, plan, "complete", done)
    return _notice(plan, "complete", "left", SUPERSEDED)


def _occupying_plan(plan: PublishPlan, parent: Manifest | None) -> PublishPlan:
    """A plan that takes the manifest id of `plan`, so that its create, if still on its way, loses."""
    return replace(
        plan,
        id=undo_id(plan.id),
        kind="delete-branch" if plan.kind == "branch" else "undo",
        undoes=plan.id,
        incarnation=parent.incarnation if parent else "",
        actions=(),
        origin={},
        merges=None,
        hold=None,
        tables_digest="",
    )
