"""Recovery: on open and when a rival's head stands in the way, never on a steady write.

Each sidecar is classified against the newest manifest and the version objects, by facts that only get
worse for its plan:

    live                 young, and its epoch is not fenced: somebody's write; left alone, with a notice
    settled              every touched pin has moved on: published, or overtaken for ever
    complete             all heads are the plan's and its expectations hold: rolled forward by `apply`
    no movement          no head is the plan's
    partial              some are
    unexpected           the number after the pin is another plan's
    unexpected-beyond    a later number is

All but the first three are rolled back. Of a fenced plan only the heads it moved are restored, since late
ones will be stepped over by their epoch; of an expired one every table it might still move.
"""

import enum
from dataclasses import dataclass

from fencepost.impl.publish import keys, sidecar
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Manifest, Pin, read_version
from fencepost.impl.publish.endings import Blocked, Ended, Published, Refused, Unknown
from fencepost.impl.publish.errors import StoreUnavailable
from fencepost.impl.publish.expectations import refusal
from fencepost.impl.publish.handle import Handle
from fencepost.impl.publish.heads import judge
from fencepost.impl.publish.holds import held, occupy
from fencepost.impl.publish.plan import Action, PublishPlan
from fencepost.impl.publish.safeguards import Head, Standing
from fencepost.impl.publish.undo import restorable, undo, undo_id
from fencepost.impl.store.requests import Get, Outcome

ATTEMPTS_MAX = 5
"""How often a plan is classified anew because others moved meanwhile."""
OVERTAKEN = "others were quicker; recovery will look again"


class Slot(enum.Enum):
    """What stands where a plan would put a head."""

    EMPTY = "empty"
    MINE = "mine"
    UNDOING = "undoing"
    RIVAL = "rival"
    RIVAL_BEYOND = "rival-beyond"


@dataclass(frozen=True, slots=True)
class Notice:
    """What became of one sidecar."""

    plan: str
    branch: str
    classified: str
    done: str
    """left, retired, rolled-forward, rolled-back. Rolled back is for ever. Retired unsettled says that it is
    in nobody's way: it may yet come if it is of an earlier epoch (its owner stages it once more, and is
    rolled forward), or if it only makes tables.
    """
    text: str
    epoch: int
    """In which the plan was begun."""


def recover(handle: Handle) -> list[Notice]:
    """Settle every sidecar that belongs to this handle's branch."""
    plans = handle.context.sidecars.all()
    return [recover_plan(handle, plan) for plan in plans if _ours(handle.context.branch, plan)]


def _ours(branch: str, plan: PublishPlan) -> bool:
    return branch == (plan.hold[0] if plan.kind == "branch" and plan.hold else plan.branch)


def recover_plan(handle: Handle, plan: PublishPlan) -> Notice:
    """Settle one plan, unless it may be alive."""
    context = handle.context
    age_ns = context.env.now_ns() - plan.time_ns
    grace_ns = round(context.grace_s * 1e9)
    standing = context.safeguards.grace_window(plan.epoch, handle.latest.epoch, age_ns, grace_ns)
    if standing is Standing.LIVE:
        text = f"begun {age_ns / 1e9:.1f} s ago by {plan.author}, left alone for {context.grace_s:g} s"
        return _notice(plan, "live", "left", text)
    if plan.hold is not None and not plan.moving:
        return _recover_hold(handle, plan)
    return _recover_heads(handle, plan, standing)


def _recover_heads(handle: Handle, plan: PublishPlan, standing: Standing) -> Notice:
    classified = "no movement"
    before = None
    for _ in range(ATTEMPTS_MAX):
        parent = handle.latest
        if all(parent.pin(action.table) != action.base for action in plan.actions):
            return _retired(handle, plan, "settled", "retired")
        slots = _slots(handle.context, plan, handle.epoch)
        classified = _classify(slots)
        if classified == "complete" and _may(handle, plan, parent):
            ended, done = plan.apply(handle.context, parent, handle.epoch), "rolled-forward"
        else:
            tables = _to_restore(plan, parent, slots, standing)
            if not tables:
                return _retired(handle, plan, classified, "retired")
            ended = undo(handle.context, handle.library, plan, parent, handle.epoch, tables)
            done = "rolled-back"
        if isinstance(ended, Published):
            handle.learn([ended.manifest])
            return _retired(handle, plan, classified, done)
        seen = (parent.id, slots)
        if not _again(handle, ended) or seen == before:
            break
        before = seen
    return _notice(plan, classified, "left", OVERTAKEN)


def _again(handle: Handle, ended: Ended) -> bool:
    """Whether another look may help, at a newer manifest."""
    if isinstance(ended, Unknown):
        return False
    if isinstance(ended, Refused):
        handle.learn([ended.parent])
    elif isinstance(ended, Blocked):
        handle.refresh()
    handle.check_writable()
    return True


def _may(handle: Handle, plan: PublishPlan, parent: Manifest) -> bool:
    return refusal(handle.context.safeguards, plan, parent, (), handle.epoch) is None


def _retired(handle: Handle, plan: PublishPlan, classified: str, done: str) -> Notice:
    """Its sidecar goes, and only when that is certain it is said to be gone: while it stands, the next
    recovery may yet roll forward what had not moved when we looked.
    """
    gone = sidecar.delete(plan.id)  # blind, so that it may be asked again
    try:
        handle.context.read(gone)
    except StoreUnavailable as error:
        return _notice(plan, classified, "left", f"{classified}, and {error}")
    return _notice(plan, classified, done, f"{classified}, {done} by {handle.author}")


def _notice(plan: PublishPlan, classified: str, done: str, text: str) -> Notice:
    return Notice(plan.id, plan.branch, classified, done, text, plan.epoch)


def _to_restore(plan: PublishPlan, parent: Manifest, slots: dict[str, Slot], standing: Standing) -> list[str]:
    wanted = {Slot.MINE, Slot.UNDOING} | ({Slot.EMPTY} if standing is Standing.EXPIRED else set())
    return [action.table for action in restorable(plan, parent) if slots[action.table] in wanted]


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
    """For every touched table, what stands at the first number that no dead version takes."""
    numbers = {action.table: action.first_number for action in plan.moving}
    slots: dict[str, Slot] = {}
    while len(slots) < len(numbers):
        actions = [action for action in plan.moving if action.table not in slots]
        gets = [Get(_key(action, numbers[action.table])) for action in actions]
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


def _key(action: Action, number: int) -> str:
    assert action.entry is not None
    return keys.version(Pin(action.entry.location, number))


def _recover_hold(handle: Handle, plan: PublishPlan) -> Notice:
    """A merge or the making of a branch: one manifest, no heads. Do it, or take its place."""
    context = handle.context.on(plan.branch)
    parent = context.newest()
    if parent is not None and (
        (plan.kind == "branch" and parent.id != plan.base)
        or refusal(context.safeguards, plan, parent, (), parent.epoch) is not None
    ):
        return _retired(handle, plan, "settled", "retired")
    epoch = parent.epoch if parent else 0
    if held(context, plan):
        ended, done = plan.apply(context, parent, epoch), "rolled-forward"
    else:
        ended, done = occupy(plan, parent).apply(context, parent, epoch), "rolled-back"
    if plan.branch == handle.context.branch:
        handle.refresh()
    if isinstance(ended, Published):
        return _retired(handle, plan, "complete", done)
    return _notice(plan, "complete", "left", OVERTAKEN)
