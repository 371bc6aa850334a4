"""Declarations by which a map lets long runs be renamed into its model.

A run of thousands of plans names thousands of numbers, but at any time only a few of them still matter: those
that a later event names, and the newest. So a run that is too long for the model is read through a *window*,
which moves along with it (`long_runs`). The map declares which of its values are plans and which are numbers
that rise. Between the events, *renaming labels* are inserted: labels of the model's machine that no process
performs and that only rename its state. Each must be possible in every state that the model may be in, or the
run is undecided from there on. The map must show that a renaming changes nothing else.

A renaming label is a symbol like any other, with the observation that `renaming` makes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.properties.refinement.observation import Observation

PHASE = "window"
"""The phase of an observation that is a renaming."""


@dataclass(frozen=True)
class Slide:
    """Numbers that only rise, and the label that reduces all of them by one. None that an event names becomes
    smaller than 1.
    """

    action: str
    values: tuple[str, ...]
    """The values of observations that name such a number and are compared with the state."""
    reached: str
    """The value whose largest, among the successful writes of `commit`, is the newest number."""
    capacity: int
    """The largest number within the model's bounds."""
    room: int
    """An event that names a number further than this behind the newest is too old to wait for."""
    parameters: tuple[tuple[str, str], ...] = ()
    looked: tuple[tuple[str, str], ...] = ()
    """Values that move along but keep nothing in the window; each only where a second value, if named, is
    0.
    """
    made: str = ""
    """The kind of keys by which a plan makes the number `reached`: the plan matters until that is the
    newest.
    """
    base: str = ""
    """The value of a plan's own document that must be passed before the plan is settled."""
    moved: tuple[str, str] = ("", "")
    """A trace field, which is a list with commas, and the word in it without which `base` does not count."""


@dataclass(frozen=True)
class Window:
    """The plans that end and the numbers that rise, by the names of a map."""

    slides: tuple[Slide, ...]
    value: str
    """The value that names plans: they begin, hold a slot of the model, and end."""
    slots: int
    commit: str
    document: str
    """The kind of keys that a plan begins with, and whose deletion means nothing once the plan is settled."""
    swept: tuple[str, ...]
    """The kinds of keys that cleanup deletes: commits, and what they pin."""
    boundary: str
    """The value that names the boundary: commits up to it may be deleted."""
    id: str
    """The value that names the number of a commit."""
    forget: str = "forget"
    leave: str = "leave"
    parameter: str = "w"


NEEDED = Observation(PHASE, "delete", "what is still needed", "", "done", (), ())
"""A deletion of what may still be needed."""


def renaming(action: str, ranks: Mapping[str, int], parameters: tuple[tuple[str, str], ...]) -> Observation:
    """A renaming label as an observation."""
    return Observation(PHASE, "rename", action, "", "", tuple(ranks.items()), parameters)
