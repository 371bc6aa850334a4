"""Each safeguard broken, the scenario that shows it needed, and what the code then does."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.impl.publish import STANDARD, Safeguards
from fencepost.impl.publish.documents import Manifest, Pin, PublishPlan, Version
from fencepost.impl.publish.safeguards import Epoch, Head, Standing
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.requests import Condition, Put


def create_only_manifest() -> Condition:
    """The manifest is written over whatever stands there."""
    return ANYTHING


def sidecar_before_heads(fragments: Sequence[Put], _: Put) -> Sequence[Put]:
    """Nothing is written down before the heads move."""
    return fragments


def whole_plan_in_sidecar(plan: PublishPlan) -> PublishPlan:
    """The sidecar holds the plan's first table."""
    return dataclasses.replace(plan, actions=plan.actions[:1])


def epoch_check(_mine: int, _theirs: int) -> Epoch:
    """Every epoch is as good as mine."""
    return Epoch.SAME


def grace_window(*_: int) -> Standing:
    """Every sidecar is a dead writer's."""
    return Standing.FENCED


def shared_head(plan: PublishPlan, winners: Sequence[Manifest]) -> bool:
    """A row per table: whoever wrote other rows is no rival."""
    return any(winner.pin(action.table) != action.base for winner in winners for action in plan.actions)


def pins_re_evaluated_on_retry(_plan: PublishPlan, _parent: Manifest) -> str | None:
    """What was read is taken to be as it was."""
    return None


def inbound_check_on_removal(_removed: Sequence[object], _pointed_at: Mapping[object, str]) -> object | None:
    """Nobody looks who points here."""
    return None


def boundary_check_after_create(_created: int, _boundary: int) -> bool:
    """Created is created."""
    return True


def read_back_on_unknown(_: Put) -> bool:
    """No answer is taken for a no."""
    return False


def late_head(found: Version, plan: PublishPlan, _base: Pin | None, _against: Epoch) -> Head:
    """Whoever stands in the way is a rival, also the dead."""
    return Head.OWN if found.plan == plan.id else Head.RIVAL


BROKEN: Mapping[str, Any] = {
    function.__name__: function
    for function in (
        create_only_manifest,
        sidecar_before_heads,
        whole_plan_in_sidecar,
        epoch_check,
        grace_window,
        shared_head,
        pins_re_evaluated_on_retry,
        inbound_check_on_removal,
        boundary_check_after_create,
        read_back_on_unknown,
        late_head,
    )
}


def without(safeguard: str) -> Safeguards:
    """The table of safeguards with one of them broken. Made once: a run is judged by which table it had."""
    return _TABLES[safeguard]


_TABLES = {name: dataclasses.replace(STANDARD, **{name: broken}) for name, broken in BROKEN.items()}
