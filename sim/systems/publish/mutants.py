"""The mutants of publish: for each safeguard a replacement that breaks it, and a scenario that needs it."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from fencepost.impl.publish.documents import Manifest, Pin, PublishPlan, Recorded, Version
from fencepost.impl.publish.safeguards import Epoch, Head, Standing
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.requests import Condition, Put
from fencepost.sim.systems.system import Mutant


def create_only_manifest() -> Condition:
    """Overwrite whatever manifest exists."""
    return ANYTHING


def sidecar_before_heads(fragments: Sequence[Put], _: Put) -> Sequence[Put]:
    """Write no sidecar before the heads move."""
    return fragments


def whole_plan_in_sidecar(plan: PublishPlan) -> PublishPlan:
    """Store only the plan's first table in the sidecar."""
    return dataclasses.replace(plan, actions=plan.actions[:1])


def epoch_check(_mine: int, _theirs: int) -> Epoch:
    """Treat every epoch as the writer's own."""
    return Epoch.SAME


def grace_window(*_: int) -> Standing:
    """Treat every sidecar as a dead writer's."""
    return Standing.FENCED


def shared_head(plan: PublishPlan, winners: Sequence[Manifest]) -> bool:
    """Keep one row per table: writers of other tables do not conflict."""
    return any(winner.pin(action.table) != action.base for winner in winners for action in plan.actions)


def pins_re_evaluated_on_retry(_plan: PublishPlan, _parent: Manifest) -> str | None:
    """Assume that what the plan read is unchanged."""
    return None


def reads_checked_within_group(_read: Sequence[str], _changed: Collection[str]) -> str | None:
    """Plan the drafts of a group one after another, whatever they have read."""
    return None


def requests_recorded(_requests: Sequence[Recorded]) -> Sequence[Recorded]:
    """Publish requests without a record of them."""
    return ()


def requests_searched(_ids: range) -> Sequence[int]:
    """Search a request in the newest manifest only, which every writer reads anyway."""
    return ()


def inbound_check_on_removal(_removed: Sequence[object], _pointed_at: Mapping[object, str]) -> object | None:
    """Skip the search for edges that point at a removed node."""
    return None


def boundary_check_after_sidecar(_next_id: int, _boundary: int) -> bool:
    """Rely on cleanup, also where it may have run before the sidecar was written."""
    return True


def manifests_held_for_plans(_plan: PublishPlan, _id: int) -> bool:
    """Delete every manifest up to the boundary, whatever staged plans still need."""
    return False


def retired_plans_recorded(_record: Put) -> Sequence[Put]:
    """Retire a plan without a record of the ids that its writer may create."""
    return ()


def boundary_check_after_create(_created: int, _boundary: int) -> bool:
    """Trust a successful create."""
    return True


def read_back_on_unknown(_: Put) -> bool:
    """Treat a missing reply as a failure."""
    return False


def late_head(found: Version, plan: PublishPlan, _base: Pin | None, _against: Epoch) -> Head:
    """Treat every foreign head as a rival's, also that of a fenced writer."""
    return Head.OWN if found.plan == plan.id else Head.RIVAL


NO_LOSS = {"reply_lost": 0, "request_lost": 0}
MUTANTS = {
    "create-only-manifest": Mutant(create_only_manifest, "skew"),
    "sidecar-before-heads": Mutant(sidecar_before_heads, "gone"),
    "whole-plan-in-sidecar": Mutant(whole_plan_in_sidecar, "two-tables"),
    "epoch-check": Mutant(epoch_check, "takeover"),
    "grace-window": Mutant(grace_window, "joiner"),
    "shared-head": Mutant(shared_head, "skew"),
    "pins-re-evaluated-on-retry": Mutant(pins_re_evaluated_on_retry, "skew"),
    "reads-checked-within-group": Mutant(reads_checked_within_group, "group"),
    "requests-recorded": Mutant(requests_recorded, "served"),
    "requests-searched": Mutant(requests_searched, "served"),
    "inbound-check-on-removal": Mutant(inbound_check_on_removal, "alone"),
    # Two context switches at the right places and no fault suffice; with faults the search takes minutes.
    "boundary-check-after-sidecar": Mutant(boundary_check_after_sidecar, "cleaner", {"crash": 0, **NO_LOSS}),
    "manifests-held-for-plans": Mutant(manifests_held_for_plans, "housekeeper", {"crash": 0, **NO_LOSS}),
    "retired-plans-recorded": Mutant(retired_plans_recorded, "cleaner", {"crash": 0, **NO_LOSS}),
    "boundary-check-after-create": Mutant(boundary_check_after_create, "cleaner", {"crash": 0, **NO_LOSS}),
    "read-back-on-unknown": Mutant(read_back_on_unknown, "takeover"),
    "late-head": Mutant(late_head, "takeover"),
}
