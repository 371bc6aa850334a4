"""Properties with memory: what holds between two neighbouring states, and folds over the events of a run.

A *step property* is a check of two views, before and after a step. It needs no memory, since the search goes
through every step. It must hold where nothing changes, because steps that change nothing it reads are left
out.

A *monitor* has a state: `step(state, event)` returns the next one. The state is part of what makes two states
of a run equal, so runs with different states are not merged; it is computed anew in every run, also while the
beginning of a run is repeated. All events that a monitor sees conflict with each other (see `footprints`), so
every order of them is explored. The request alone decides which monitors see an
event, never the reply. So a monitor of few events, by `notes` and `keys`, is much cheaper than one of all.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.requests import Outcome
from fencepost.sim.world import check_state


@dataclass(frozen=True, slots=True)
class MonitorEvent:
    """A note, or a write that reached the store."""

    kind: str
    """`note`, or the kind of the request: `put`, `delete`, ..."""
    process: str
    incarnation: int
    """Number of crashes of the process before."""
    key: str
    """Of the object; of a note its topic."""
    value: Any
    """The body, or what was noted; None where there is neither."""
    outcome: Outcome | None
    """Outcome of the request; None for a note."""


@dataclass(frozen=True, slots=True)
class Violated:
    """Result of a monitor, in place of a state, for an event that must not happen."""

    reason: str


Step = Callable[[Any, MonitorEvent], Any]


class Fold:
    """One monitor in one run."""

    def __init__(
        self, name: str, initial: Any, step: Step, notes: Sequence[str] | None, keys: Sequence[str] | None
    ) -> None:
        for given, what in ((notes, "notes"), (keys, "keys")):
            if isinstance(given, str):
                raise Misuse(f"monitor {name!r}: {what} is a list of names, not one text")
        self.name = name
        self.step = step
        self.state = copy.deepcopy(initial)
        self.bit = 0
        """The state as an object of footprints."""
        self.kept = check_state.CheckState(step)
        everything = notes is None and keys is None
        self._notes = None if everything else frozenset(notes or ())
        self._keys = ("",) if everything else tuple(keys or ())

    def watch(self, bit: int) -> None:
        """Take part in footprints under this bit."""
        self.bit = bit

    def sees_note(self, topic: str) -> bool:
        return self._notes is None or topic in self._notes

    def sees_write(self, key: str) -> bool:
        return key.startswith(self._keys)

    def take(self, event: MonitorEvent) -> str | None:
        """Go on to the next state; the reason when the event is a violation."""
        state = self.step(self.state, event)
        if isinstance(state, Violated):
            return state.reason
        if state is None and self.state is not None:
            raise Misuse(f"monitor {self.name!r} returned None; return the next state, or Violated(reason)")
        self.state = state
        return None
