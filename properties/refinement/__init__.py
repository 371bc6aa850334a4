"""Whether what the code did is something the model allows. See docs/guides/write-a-refinement-map.md."""

from holdfast.properties.refinement.automaton import DEAD, NOTHING, OUTSIDE, START, Automaton, Letter, Move
from holdfast.properties.refinement.coverage import Driven, Gap, Share
from holdfast.properties.refinement.explain import Explanation, Refused, Unmoved, explain, refusal
from holdfast.properties.refinement.follow import Follower, Verdict, follow
from holdfast.properties.refinement.reader import Lens, Reader
from holdfast.properties.refinement.refinement import (
    IMPOSSIBLE,
    NO_ROOM,
    SILENT,
    Meaning,
    Reading,
    Refinement,
    where,
)
from holdfast.properties.refinement.sighting import COUNTED, SEEN, Keys, Order, Role, Sighting
from holdfast.properties.refinement.window import Slide, Window, renaming

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
    "Order",
    "Reader",
    "Reading",
    "Refinement",
    "Refused",
    "Role",
    "Share",
    "Sighting",
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
