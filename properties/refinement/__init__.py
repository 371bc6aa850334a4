"""Decide whether a run of real code is a behaviour of a model. See docs/guides/write-a-refinement-map.md."""

from fencepost.properties.driven_share import Gap, Share
from fencepost.properties.refinement.automaton import (
    DEAD,
    NOTHING,
    OUTSIDE,
    START,
    Automaton,
    Symbol,
    SymbolKind,
)
from fencepost.properties.refinement.comparing import Compared
from fencepost.properties.refinement.coverage import Driven
from fencepost.properties.refinement.explain import Explanation, Refused, Unmoved, explain, refusal
from fencepost.properties.refinement.follow import Follower, Reader, Verdict, follow
from fencepost.properties.refinement.grouping import LinkedRuns, RunNames
from fencepost.properties.refinement.observation import COUNTED, SEEN, Keys, Observation, Order, Role
from fencepost.properties.refinement.refinement import (
    IMPOSSIBLE,
    OUT_OF_BOUNDS,
    STUTTER,
    Action,
    Actions,
    Refinement,
    where,
)
from fencepost.properties.refinement.renaming import Slide, Window, renaming
from fencepost.properties.refinement.request_rules import Confirmed, Freed, RequestRules, Staged, not_judged
from fencepost.properties.refinement.rules import EventRow

__all__ = [
    "COUNTED",
    "DEAD",
    "IMPOSSIBLE",
    "NOTHING",
    "OUTSIDE",
    "OUT_OF_BOUNDS",
    "SEEN",
    "START",
    "STUTTER",
    "Action",
    "Actions",
    "Automaton",
    "Compared",
    "Confirmed",
    "Driven",
    "EventRow",
    "Explanation",
    "Follower",
    "Freed",
    "Gap",
    "Keys",
    "LinkedRuns",
    "Observation",
    "Order",
    "Reader",
    "Refinement",
    "Refused",
    "RequestRules",
    "Role",
    "RunNames",
    "Share",
    "Slide",
    "Staged",
    "Symbol",
    "SymbolKind",
    "Unmoved",
    "Verdict",
    "Window",
    "explain",
    "follow",
    "not_judged",
    "refusal",
    "renaming",
    "where",
]
