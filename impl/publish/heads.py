"""Moving the heads of a plan: one version object a touched table, all in parallel.

A head that stands in the way is read and judged (`late-head`): our own, from a request whose reply was
lost or from another executor of the same plan; a dead one, which is stepped over; a later epoch's, which
fences us; or a rival's.
"""

from fencepost.impl.publish import keys
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Pin, Placed, Version, digest, read_version, version_document
from fencepost.impl.publish.endings import Blocked, Unknown, Why
from fencepost.impl.publish.plan import Action, PublishPlan
from fencepost.impl.publish.safeguards import Head
from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Put

__all__ = ["Blocked", "judge", "place"]


def place(context: BranchContext, plan: PublishPlan, epoch: int) -> dict[str, Placed] | Blocked | Unknown:
    """Create the head of every touched table; where each came to stand, or why not."""
    numbers = {action.table: action.first_number for action in plan.moving}
    placed: dict[str, Placed] = {}
    blocked: Blocked | None = None
    while True:
        waiting = [a for a in plan.moving if a.table in numbers and a.table not in placed]
        if not waiting:
            break
        puts = [_put(plan, action, numbers[action.table]) for action in waiting]
        for action, put, stands in zip(waiting, puts, context.create_all(puts), strict=True):
            table = action.table
            if stands.body is None:
                return Unknown(plan.id, f"the store did not tell whether {put.key} was created", plan.base)
            if stands.created:
                placed[table] = Placed(numbers[table], digest(put.body))
                continue
            found = read_version(stands.body, put.key)
            match judge(context, found, plan, action, epoch):
                case Head.OWN:
                    placed[table] = Placed(numbers[table], digest(stands.body))
                case Head.DEAD:
                    numbers[table] += 1
                case verdict:
                    del numbers[table]
                    why = Why.FENCED if verdict is Head.LATER else Why.STALE
                    if blocked is None or why is Why.FENCED:
                        blocked = Blocked(why, table, found)
    if blocked is not None:
        return Blocked(blocked.why, blocked.table, blocked.found, placed)
    return placed


def judge(context: BranchContext, found: Version, plan: PublishPlan, action: Action, epoch: int) -> Head:
    against = context.safeguards.epoch_check(epoch, found.epoch)
    return context.safeguards.late_head(found, plan, action.base, against)


def _put(plan: PublishPlan, action: Action, number: int) -> Put:
    assert action.entry is not None
    key = keys.version(Pin(action.entry.location, number))
    return Put(key, version_document(plan, action, number), ABSENT, "application/json")
