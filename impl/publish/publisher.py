"""The publish machine: every verb's plan goes through `publish` or, for branches, through its parts.

stage      the probe of the next manifest, the fragments, the sidecar, old sidecars to retire   one step
execute    heads and the boundary, then the manifest; recovery calls it as well                 two steps
           another look at the boundary, where the first one does not suffice                   one step
conclude   the result of a plan that was not published. `StaleView` and `Fenced` mean invisible
           for ever. Where that is not certain, the result is `Unknown`.
"""

from collections.abc import Sequence

from fencepost.impl.publish.commit import (
    Blocked,
    Committed,
    PlanResult,
    Refused,
    Unknown,
    Why,
    conflict,
    execute,
    refusal,
)
from fencepost.impl.publish.context import Handle, delete_sidecar, put_sidecar
from fencepost.impl.publish.documents import Manifest, PublishPlan
from fencepost.impl.publish.errors import Fenced, HeadAhead, PublishError, StaleView, StoreUnavailable
from fencepost.impl.publish.recovery import finish_undo, recover_plan, undo_own
from fencepost.impl.store.requests import Outcome, Put

AGAIN = "nothing was published; begin again from a fresh snapshot"


def publish(
    handle: Handle, plan: PublishPlan, parent: Manifest, fragments: Sequence[Put] = ()
) -> Committed | Unknown:
    """Make `plan`, built on `parent`, visible; or raise why that failed.

    The parent is never taken from the handle: another thread may have refreshed that, and the expectations
    of `plan` were not compared with what it found.
    """
    handle.check_writable()
    handle.obstacle = None
    if plan.recoverable:
        parent = stage(handle, plan, parent, fragments)
    result = execute(handle.context, plan, parent, handle.epoch, staged=plan.recoverable)
    return conclude(handle, plan, result)


def claim(handle: Handle) -> None:
    """Claim the next epoch: a manifest, created like any other, that fences all earlier writers."""
    result = execute(handle.context, handle.draft("claim"), handle.latest, handle.latest.epoch)
    if not isinstance(result, Committed):
        why = result.why if isinstance(result, Unknown) else "others claimed it again and again"
        raise StaleView(f"could not claim branch {handle.context.branch}: {why}; open the catalog again")
    handle.learn([result.manifest])
    handle.epoch = result.manifest.epoch
    handle.fenced = ""


def stage(handle: Handle, plan: PublishPlan, parent: Manifest, fragments: Sequence[Put]) -> Manifest:
    """Write what the plan needs before it moves anything; none of it is visible.

    Returns the newest manifest on which the expectations of `plan` are known to hold; `parent` is one.
    """
    context = handle.context
    whole = context.safeguards.whole_plan_in_sidecar(plan)
    writes = context.safeguards.sidecar_before_heads(list(fragments), put_sidecar(whole))
    # A plan that creates another branch need not know the news of this one.
    probes = [context.chain.probe(plan.base + 1)] if plan.branch == context.branch else []
    retiring = list(handle.retiring)
    replies = context.store.send_all([*writes, *map(delete_sidecar, retiring), *probes])
    for name, reply in zip(retiring, replies[len(writes) : len(writes) + len(retiring)], strict=True):
        if reply.outcome in (Outcome.DONE, Outcome.MISSING):
            handle.retiring.remove(name)
    results = context.create_all(writes, replies=replies[: len(writes)])
    for put, result in zip(writes, results, strict=True):
        if result.body is None:
            raise StoreUnavailable(f"it is unknown whether {put.key} was written; {AGAIN}")
    if probes and replies[-1].outcome is Outcome.DONE:
        return _check_news(handle, plan, parent, replies[-1])
    return parent


def _check_news(handle: Handle, plan: PublishPlan, parent: Manifest, probed: object) -> Manifest:
    """Another commit came since the capture. If it refuses the plan, no head need move."""
    winners = handle.context.manifests(handle.context.chain.after(plan.base, probed))
    handle.learn(winners)
    newest = winners[-1] if winners else parent
    refused = conflict(handle.context, plan, newest, winners, handle.epoch)
    if refused is not None:
        handle.retiring.append(plan.id)
        raise _error(handle, refused.why, refused.text)
    return newest


def conclude(handle: Handle, plan: PublishPlan, result: PlanResult) -> Committed | Unknown:
    """Clean up behind `plan`, and return or raise its result."""
    if isinstance(result, Committed):
        handle.learn([result.manifest])
        _retire(handle, plan)
    elif isinstance(result, Blocked):
        raise _blocked(handle, plan, result)
    elif isinstance(result, Refused):
        handle.learn([result.parent])
        unknown = _refused(handle, plan, result)
        if unknown is None:
            raise _error(handle, result.why, result.text)
        return unknown
    return result


def _retire(handle: Handle, plan: PublishPlan) -> None:
    if plan.recoverable:
        handle.retiring.append(plan.id)


def _refused(handle: Handle, plan: PublishPlan, result: Refused) -> Unknown | None:
    """All heads moved, and the manifest was not created. None: it is invisible for ever."""
    fenced = result.why is Why.FENCED
    if fenced:
        handle.fenced = result.text
    if not result.whole and plan.recoverable:
        return Unknown(plan.id, "the part of the history that would show it was cleaned up", plan.base)
    if fenced and plan.recoverable:
        # Complete, with a sidecar: the writer that fenced us may roll it forward at any time.
        return Unknown(plan.id, f"fenced after all heads had moved ({result.text})", plan.base)
    if not fenced and not _take_back(handle, plan, result.why, result.parent, None):
        return Unknown(plan.id, "refused, and its heads could not be taken back", plan.base)
    return None


def _blocked(handle: Handle, plan: PublishPlan, result: Blocked) -> PublishError:
    """Return the error of a plan of which some head could not be created, so that no process completes it."""
    if result.why is Why.FENCED:
        if not result.moved:
            _retire(handle, plan)
        text = (
            f"table {result.table} was written in epoch {result.found.epoch}, this writer has {handle.epoch}"
        )
        return _error(handle, Why.FENCED, text)
    _take_back(handle, plan, result.why, handle.latest, set(result.moved))
    return _rival(handle, plan, result)


def _take_back(handle: Handle, plan: PublishPlan, why: Why, parent: Manifest, moved: set[str] | None) -> bool:
    """Undo our own heads (`moved`; None for all). True if the plan can never be committed."""
    tables = {action.table for action in plan.actions if action.contested} if moved is None else moved
    newest = undo_own(handle, plan, parent, tables)
    if newest is not None:
        handle.learn([newest])
        if why is Why.EXHAUSTED and newest.id == parent.id:
            return not plan.recoverable
        _retire(handle, plan)
    return newest is not None or why is Why.STALE


def _rival(handle: Handle, plan: PublishPlan, result: Blocked) -> PublishError:
    """A version of our epoch on our pin: a live write, a dead one to recover, or one without an explanation.

    Taking back our own heads has moved their pins, so most of our expectations fail by now. The first
    question is whether the rival still blocks the table; unanswered, every writer would meet it for ever.
    """
    table, found = result.table, result.found
    for _ in range(2):
        refused = refusal(handle.context, plan, handle.refresh(), (), handle.epoch)
        if refused is not None and (refused.why is Why.FENCED or handle.latest.pin(table) != found.base):
            return _error(handle, refused.why, refused.text)
        rival = handle.context.sidecar(found.undoes or found.plan)
        if rival is not None:
            notice = recover_plan(handle, rival, stuck=handle.is_stuck(rival.id))
            handle.obstacle = notice
            return _error(handle, Why.STALE, f"plan {rival.id} is writing table {table}: {notice.text}")
        if found.undoes and finish_undo(handle, found):
            return _error(handle, Why.STALE, f"table {table} had an unfinished undo of plan {found.undoes}")
    return HeadAhead(
        f"table {table}: version {found.number} by plan {found.plan} is ahead of the manifest, recovery "
        "required: its sidecar is gone; run repair"
    )


def _error(handle: Handle, why: Why, text: str) -> PublishError:
    if why is Why.FENCED:
        handle.fenced = text
        return Fenced(f"this writer is fenced: {text}; open the catalog again to take over")
    return StaleView(f"{text}; {AGAIN}")
