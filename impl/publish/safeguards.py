"""The protective steps of the protocol, each a small function with the safeguard's name, in one table.

The code calls `context.safeguards.<name>(...)` where the step acts. An audit opens a catalog with a table in
which one of them is replaced by a mutant, and must then find the failure that the safeguard prevents:

    mutant = dataclasses.replace(STANDARD, grace_window=lambda *_: Standing.FENCED)
    Catalog.open(store, safeguards=mutant)

docs/decisions/0010-publish-protocol.md has the counterexample of each.
"""

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields

from fencepost.impl.publish.documents import Manifest, Pin, PublishPlan, Recorded, Version
from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Condition, Put


class Epoch(enum.Enum):
    """Another writer's epoch compared with mine."""

    SAME = "same"
    LATER = "later"
    EARLIER = "earlier"


class Standing(enum.Enum):
    """The states in which the owner of a sidecar can still be."""

    LIVE = "live"
    EXPIRED = "expired"
    FENCED = "fenced"


class Head(enum.Enum):
    """The kinds of version object that occupy the place of one's own head."""

    OWN = "own"
    DEAD = "dead"
    LATER = "later"
    RIVAL = "rival"


def create_only_manifest() -> Condition:
    """A manifest id is written once: the create decides between rivals."""
    return ABSENT


def sidecar_before_heads(fragments: Sequence[Put], sidecar: Put) -> Sequence[Put]:
    """Return the writes of the stage step: the sidecar exists before any head moves."""
    return [*fragments, sidecar]


def whole_plan_in_sidecar(plan: PublishPlan) -> PublishPlan:
    """Return the content of the sidecar: the whole plan, so that recovery never executes a part of it."""
    return plan


def epoch_check(mine: int, theirs: int) -> Epoch:
    """Judge an epoch found in a manifest or in a version object."""
    if theirs == mine:
        return Epoch.SAME
    return Epoch.LATER if theirs > mine else Epoch.EARLIER


def grace_window(plan_epoch: int, chain_epoch: int, age_ns: int, grace_ns: int) -> Standing:
    """Return True if a sidecar may belong to a live writer. A clock decides only between live and expired."""
    if plan_epoch < chain_epoch:
        return Standing.FENCED
    return Standing.LIVE if age_ns < grace_ns else Standing.EXPIRED


def shared_head(plan: PublishPlan, winners: Sequence[Manifest]) -> bool:  # noqa: ARG001 - all winners alike
    """Return True if losing to `winners` is a conflict: always, whichever tables they touched."""
    return True


def pins_re_evaluated_on_retry(plan: PublishPlan, parent: Manifest) -> str | None:
    """A table that the plan read and that has changed since, or None."""
    return next((table for table, pin in plan.reads.items() if parent.pin(table) != pin), None)


def requests_recorded(requests: Sequence[Recorded]) -> Sequence[Recorded]:
    """Return the requests that a plan records, and its manifest shows: all that it carries out."""
    return requests


def requests_searched(ids: range) -> Sequence[int]:
    """Return the manifests in which a request is searched before it is planned: all that may have it."""
    return ids


def reads_checked_within_group(read: Sequence[str], changed: Collection[str]) -> str | None:
    """Return a table that a draft has read and an earlier draft of its group changed, or None."""
    return next((table for table in read if table in changed), None)


def inbound_check_on_removal(removed: Sequence[object], pointed_at: Mapping[object, str]) -> object | None:
    """A removed key that an edge still points at, or None. `pointed_at`: key to the edge's description."""
    return next((key for key in removed if key in pointed_at), None)


def boundary_check_after_sidecar(next_id: int, boundary: int) -> bool:
    """Return True if every cleanup that could delete `next_id` lists the sidecars after ours was written."""
    return next_id > boundary


def manifests_held_for_plans(plan: PublishPlan, id_: int) -> bool:
    """Return True if cleanup must keep manifest `id_`: the writer of a staged plan may still create it."""
    return id_ in plan.held_ids


def retired_plans_recorded(record: Put) -> Sequence[Put]:
    """Return what recovery writes before it retires a plan: the ids that its writer may still create."""
    return [record]


def boundary_check_after_create(created: int, boundary: int) -> bool:
    """Return True if a create that succeeded was a success: ids up to the boundary may have been deleted."""
    return created > boundary


def read_back_on_unknown(put: Put) -> bool:  # noqa: ARG001 - no create may be left unclear
    """Return True to read the key and look for one's own plan when the reply to a create was lost."""
    return True


def late_head(found: Version, plan: PublishPlan, base: Pin | None, against: Epoch) -> Head:
    """Judge the version at the place of a head of `plan`; `against` is its epoch compared with ours."""
    if found.plan == plan.id:
        return Head.OWN
    if against is Epoch.LATER:
        return Head.LATER
    if against is Epoch.EARLIER or (plan.undoes and found.plan == plan.undoes):
        return Head.DEAD
    # Pins only rise: a plan built on a pin below ours waits for a pin that never returns.
    if (found.base.version if found.base else 0) < (base.version if base else 0):
        return Head.DEAD
    return Head.RIVAL


@dataclass(frozen=True)
class Safeguards:
    """The table. Field names are the safeguards' names with underscores for dashes."""

    create_only_manifest: Callable[[], Condition] = create_only_manifest
    sidecar_before_heads: Callable[[Sequence[Put], Put], Sequence[Put]] = sidecar_before_heads
    whole_plan_in_sidecar: Callable[[PublishPlan], PublishPlan] = whole_plan_in_sidecar
    epoch_check: Callable[[int, int], Epoch] = epoch_check
    grace_window: Callable[[int, int, int, int], Standing] = grace_window
    shared_head: Callable[[PublishPlan, Sequence[Manifest]], bool] = shared_head
    pins_re_evaluated_on_retry: Callable[[PublishPlan, Manifest], str | None] = pins_re_evaluated_on_retry
    reads_checked_within_group: Callable[[Sequence[str], Collection[str]], str | None] = (
        reads_checked_within_group
    )
    requests_recorded: Callable[[Sequence[Recorded]], Sequence[Recorded]] = requests_recorded
    requests_searched: Callable[[range], Sequence[int]] = requests_searched
    inbound_check_on_removal: Callable[[Sequence[object], Mapping[object, str]], object | None] = (
        inbound_check_on_removal
    )
    boundary_check_after_sidecar: Callable[[int, int], bool] = boundary_check_after_sidecar
    manifests_held_for_plans: Callable[[PublishPlan, int], bool] = manifests_held_for_plans
    retired_plans_recorded: Callable[[Put], Sequence[Put]] = retired_plans_recorded
    boundary_check_after_create: Callable[[int, int], bool] = boundary_check_after_create
    read_back_on_unknown: Callable[[Put], bool] = read_back_on_unknown
    late_head: Callable[[Version, PublishPlan, Pin | None, Epoch], Head] = late_head


STANDARD = Safeguards()
SAFEGUARDS = tuple(field.name.replace("_", "-") for field in fields(Safeguards))
"""Their names as the documents spell them."""
