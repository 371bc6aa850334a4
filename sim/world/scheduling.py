"""The interface of one run that a search drives.

Three worlds implement it: `World` under full control, `HttpWorld` with real processes, and `RealWorld`, whose
threads the operating system schedules in one step.
"""

from collections.abc import Callable
from typing import Any, Protocol

from fencepost.sim.world.record import StepRecord
from fencepost.sim.world.run import Violation


class Scheduling(Protocol):
    """One run: call `start`, then `step` while actors are enabled, then `complete` and `close`."""

    @property
    def violation(self) -> Violation | None:
        """The violation found so far."""

    def start(self, program: Callable[..., Any]) -> None:
        """Set the world up and run every process to its first step."""

    def enabled(self) -> list[int]:
        """Return the actors that may step; none when the run is complete."""

    def alternatives(self, actor: int) -> tuple[str, ...]:
        """Return the alternatives of the actor's next step, the harmless one first."""

    def step(self, actor: int, alternative: str) -> StepRecord:
        """Let `actor` take its next step, with this alternative, and judge it."""

    def complete(self) -> None:
        """Judge what must hold in the end: no actor can step any more."""

    def close(self) -> None:
        """End the run and clean up after it."""
