"""The publish machine: every verb's plan goes through `publish`, and nothing else does.

    stage     the probe of the next manifest, the fragments, the sidecar, old sidecars to retire   one step
    apply     heads, then the manifest: `PublishPlan.apply`, which recovery calls as well          two steps
              and the boundary check                                                               one step

What follows decides what may be said truthfully about a plan that was not published: `StaleView` and
`Fenced` mean invisible for ever; where that cannot be vouched for the result is `Unknown`.
"""

from collections.abc import Sequence

from fencepost.impl.publish import sidecar
from fencepost.impl.publish.documents import Manifest
from fencepost.impl.publish.endings import Blocked, Ended, Published, Refused, Unknown, Why
from fencepost.impl.publish.errors import Fenced, HeadAhead, PublishError, StaleView, StoreUnavailable
from fencepost.impl.publish.expectations import conflict, refusal
from fencepost.impl.publish.handle import Handle
from fencepost.impl.publish.plan import PublishPlan
from fencepost.impl.publish.recovery import recover_plan
from fencepost.impl.publish.undo import undo_left, undo_own
from fencepost.impl.store.requests import Outcome, Put

AGAIN = "nothing was published; begin again from a fresh snapshot"


def publish(handle: Handle, plan: PublishPlan, fragments: Sequence[Put] = ()) -> Published | Unknown:
    """Make `plan`, built on the manifest that `handle` knows, visible; or raise why not."""
    handle.check_writable()
    if plan.recoverable:
        stage(handle, plan, fragments)
    return conclude(handle, plan, plan.apply(handle.context, handle.latest, handle.epoch))


def stage(handle: Handle, plan: PublishPlan, fragments: Sequence[Put]) -> None:
    """Write what the plan needs before it moves anything; nothing here is visible."""
    context = handle.context
    whole = context.safeguards.whole_plan_in_sidecar(plan)
    writes = context.safeguards.sidecar_before_heads(list(fragments), sidecar.put(whole))
    # A plan for another branch (making it) has nothing to learn from this one's news.
    probes = [context.chain.probe(plan.base + 1)] if plan.branch == context.branch else []
    owed = list(handle.retiring)
    replies = context.store.send_all([*writes, *(sidecar.delete(name) for name in owed), *probes])
    for name, reply in zip(owed, replies[len(writes) : len(writes) + len(owed)], strict=True):
        if reply.outcome in (Outcome.DONE, Outcome.MISSING):
            handle.retiring.remove(name)
    stood = context.create_all(writes, replies=replies[: len(writes)])
    for put, stands in zip(writes, stood, strict=True):
        if stands.body is None:
            raise StoreUnavailable(f"the store did not tell whether {put.key} was written; {AGAIN}")
    if probes and replies[-1].outcome is Outcome.DONE:
        _look(handle, plan, replies[-1])


def _look(handle: Handle, plan: PublishPlan, probed: object) -> None:
    """Somebody committed since the capture: better to know before a head moves."""
    context = handle.context
    winners = context.manifests(context.chain.after(plan.base, probed))
    handle.learn(winners)
    refused = conflict(context.safeguards, plan, handle.latest, winners, handle.epoch)
    if refused is not None:
        handle.retiring.append(plan.id)
        raise _error(handle, refused.why, refused.text)


def conclude(handle: Handle, plan: PublishPlan, ended: Ended) -> Published | Unknown:
    """What may be said about how `plan` ended, after cleaning up behind it."""
    if isinstance(ended, Published):
        handle.learn([ended.manifest])
        _retire(handle, plan)
    elif isinstance(ended, Blocked):
        raise _blocked(handle, plan, ended)
    elif isinstance(ended, Refused):
        handle.learn([ended.parent])
        unknown = _refused(handle, plan, ended)
        if unknown is None:
            raise _error(handle, ended.why, ended.text)
        return unknown
    return ended


def _retire(handle: Handle, plan: PublishPlan) -> None:
    if plan.recoverable:
        handle.retiring.append(plan.id)


def _refused(handle: Handle, plan: PublishPlan, ended: Refused) -> Unknown | None:
    """All heads moved, and the manifest was not created. None: it is invisible for ever."""
    if ended.why is Why.FENCED:
        handle.fenced = ended.text
    if not ended.whole and plan.recoverable:
        return Unknown(plan.id, "the part of the history that would tell was cleaned up", plan.base)
    if ended.why is Why.FENCED and plan.recoverable:
        # Complete, with a sidecar: whoever fenced us may roll it forward at any time.
        return Unknown(plan.id, f"fenced after all heads had moved ({ended.text})", plan.base)
    if ended.why is not Why.FENCED and not _taken_back(handle, plan, ended.why, ended.parent, None):
        return Unknown(plan.id, "refused, and its heads could not be taken back", plan.base)
    return None


def _blocked(handle: Handle, plan: PublishPlan, ended: Blocked) -> PublishError:
    """Some head could not be created, so nobody can complete the plan."""
    if ended.why is Why.FENCED:
        if not ended.moved:
            _retire(handle, plan)
        text = f"table {ended.table} was written in epoch {ended.found.epoch}, this writer has {handle.epoch}"
        return _error(handle, Why.FENCED, text)
    _taken_back(handle, plan, ended.why, handle.latest, set(ended.moved))
    return _rival(handle, plan, ended)


def _taken_back(
    handle: Handle, plan: PublishPlan, why: Why, parent: Manifest, moved: set[str] | None
) -> bool:
    """Undo our own heads (`moved`; None for all). Whether the plan is dead for ever, whoever executes it."""
    tables = {action.table for action in plan.actions if action.contested} if moved is None else moved
    newest = undo_own(handle.context, handle.library, plan, parent, handle.epoch, tables)
    if newest is not None:
        handle.learn([newest])
        if why is Why.EXHAUSTED and newest.id == parent.id:
            return not plan.recoverable
        _retire(handle, plan)
    return newest is not None or why is Why.STALE


def _rival(handle: Handle, plan: PublishPlan, ended: Blocked) -> PublishError:
    """A version of our epoch on our pin: a live write, a dead one to recover, or one nobody can explain.

    Taking back our own heads has moved their pins, so most expectations of ours fail by now. What must be
    asked first is whether the rival is still in the way: else everybody would meet it again, for ever.
    """
    table, found = ended.table, ended.found
    for _ in range(2):
        refused = refusal(handle.context.safeguards, plan, handle.refresh(), (), handle.epoch)
        if refused is not None and (refused.why is Why.FENCED or handle.latest.pin(table) != found.base):
            return _error(handle, refused.why, refused.text)
        rival = handle.context.sidecars.one(found.undoes or found.plan)
        if rival is not None:
            notice = recover_plan(handle, rival)
            text = f"table {table} is in the hands of plan {rival.id}: {notice.text}"
            return _error(handle, Why.STALE, text)
        if found.undoes and undo_left(handle.context, handle.library, found, handle.latest, handle.epoch):
            return _error(handle, Why.STALE, f"table {table} was left by whoever undid plan {found.undoes}")
    return HeadAhead(
        f"table {table}: version {found.number} by plan {found.plan} stands ahead of the manifest, recovery "
        "required: its sidecar is gone; run repair"
    )


def _error(handle: Handle, why: Why, text: str) -> PublishError:
    if why is Why.FENCED:
        handle.fenced = text
        return Fenced(f"this writer is fenced: {text}; open the catalog again to take over")
    return StaleView(f"{text}; {AGAIN}")
