"""Whether what the code did is something the model allows. See docs/guides/write-a-refinement-map.md."""

from fencepost.properties.refinement.automaton import DEAD, NOTHING, OUTSIDE, START, Automaton, Letter, Move
from fencepost.properties.refinement.coverage import Driven, Gap, Share
from fencepost.properties.refinement.explain import Explanation, Refused, Unmoved, explain, refusal
from fencepost.properties.refinement.follow import Follower, Verdict, follow
from fencepost.properties.refinement.observation import COUNTED, SEEN, Keys, Observation, Order, Role
from fencepost.properties.refinement.reader import Lens, Reader
from fencepost.properties.refinement.refinement import (
    IMPOSSIBLE,
    NO_ROOM,
    SILENT,
    Meaning,
    Reading,
    Refinement,
    where,
)
from fencepost.properties.refinement.window import Slide, Window, renaming

__all__ = [
    "COUNTED",
    "DEAD",
    "IMPOSSIBLE",
    "NOTHING",
    "NO_ROOM",
    "OUTSIDE",
    "SEEN",
    "SILENT",
    "START",
    "Automaton",
    "Driven",
    "Explanation",
    "Follower",
    "Gap",
    "Keys",
    "Lens",
    "Letter",
    "Meaning",
    "Move",
    "Observation",
    "Order",
    "Reader",
    "Reading",
    "Refinement",
    "Refused",
    "Role",
    "Share",
    "Slide",
    "Unmoved",
    "Verdict",
    "Window",
    "explain",
    "follow",
    "refusal",
    "renaming",
    "where",
]
