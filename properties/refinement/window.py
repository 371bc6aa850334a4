"""How a run that is longer than a bounded model may be read in a window that moves along with it.

A run of thousands of plans names thousands of numbers, but at any time only a few of them still matter: those
that some later event names, and the newest. What a map says here lets whoever has the whole run before him
(`sim.replay.windows`) work out which those are, and put *renaming labels* between the events: labels of the
model's machine that nobody does, that only rename its state. Each must be possible in every state that the
model may be in; else the run is undecided from there on. That a renaming changes nothing is the machine's
to argue, see `properties.publish.followed`.

A renaming label is a letter like any other, of the observation that `renaming` makes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.properties.refinement.observation import Observation

PHASE = "window"
"""The phase of a observation that is a renaming."""


@dataclass(frozen=True)
class Slide:
    """Numbers that only rise, and the label by which all of them become smaller by one. None that an event
    names becomes smaller than 1.
    """

    action: str
    values: tuple[str, ...]
    """The values of observations that name such a number, and that the state is compared with."""
    reached: str
    """The value whose largest, among those of things done to what `commit` names, is the newest number."""
    capacity: int
    """The largest number for which the model has room."""
    room: int
    """What names a number that is further than this behind the newest is too old to wait for."""
    parameters: tuple[tuple[str, str], ...] = ()
    looked: tuple[tuple[str, str], ...] = ()
    """Values that move along but keep nothing in the window; each only where a second one is 0, if named."""
    made: str = ""
    """The kind of keys of which a plan makes the number `reached`: it may matter until that is the newest."""
    base: str = ""
    """The value of a plan's own document that must be passed before the plan is settled, ..."""
    moved: tuple[str, str] = ("", "")
    """... where this fact, a list with commas, has this word."""


@dataclass(frozen=True)
class Window:
    """What ends and what rises. The names are those of a map: of a value, of kinds of keys, of labels."""

    slides: tuple[Slide, ...]
    value: str
    """Whose values are the plans: they begin, have a slot of the model, and end."""
    slots: int
    commit: str
    document: str
    """The kind of keys that a plan begins with, and whose deletion says nothing of a settled plan."""
    swept: tuple[str, ...]
    """The kinds of keys that are deleted when nobody needs them any more: what commits, and what it pins."""
    boundary: str
    """The value that says up to which number ..."""
    id: str
    """... of what commits, it may be deleted."""
    forget: str = "forget"
    leave: str = "leave"
    parameter: str = "w"


NEEDED = Observation(PHASE, "delete", "what is still needed", "", "done", (), ())
"""What is swept although somebody may need it."""


def renaming(action: str, ranks: Mapping[str, int], parameters: tuple[tuple[str, str], ...]) -> Observation:
    """A renaming label as a observation."""
    return Observation(PHASE, "rename", action, "", "", tuple(ranks.items()), parameters)
