"""The record of one step: the `Executor` returns it, and searches decide by it what else to explore."""

from typing import Any

from fencepost.sim.world.footprints import CLOCK, EVERY_STEP, EVERYTHING, Footprint

Learnt = tuple[int, Any]
"""Number of a process, and the answer that it received."""


class StepRecord:
    """Footprint, order and effects on memory of one step."""

    __slots__ = ("before", "is_barrier", "learnt", "place", "read", "touched", "written")

    def __init__(self, place: int, before: int) -> None:
        self.place = place
        """Place of the step in the run, as a bit."""
        self.before = before
        """Steps that certainly came before this one, as a bit set."""
        self.read = EVERY_STEP
        """Mask of the objects that the step read, see `footprints`."""
        self.written = 0
        """Mask of the objects that it wrote."""
        self.touched = 0
        """Mask of the locks, queues and futures that it used."""
        self.learnt: Learnt | list[Learnt] | None = None
        """Answer that a process received; a list if several processes learnt something."""
        self.is_barrier = False
        """True if every later step comes after every step up to this one."""

    def set_footprint(self, footprint: Footprint) -> None:
        self.read, self.written = footprint

    def add(self, read: int, written: int) -> None:
        """Add objects to the footprint."""
        self.read |= read
        self.written |= written

    def add_read(self, mask: int) -> None:
        self.read |= mask

    def touch(self, mask: int) -> None:
        """Record the use of a lock, a queue or a future."""
        self.touched |= mask

    def pass_time(self) -> None:
        """Record a step of the clock."""
        self.written = CLOCK

    def follow_all(self) -> None:
        """Order the step after all steps of the other actors: only their end made it possible."""
        self.written = EVERYTHING

    def come_after(self, steps: int) -> None:
        """Add steps that came before this one, as a bit set."""
        self.before |= steps

    def teach(self, learnt: Learnt | None) -> None:
        """Record the only process that learnt something in this step."""
        self.learnt = learnt

    def become_barrier(self) -> None:
        """Order all later steps after this one and all before it."""
        self.is_barrier = True

    def stop_the_world(self, learnt: list[Learnt]) -> None:
        """Record a step that reads and writes everything, as a loss of power does."""
        self.is_barrier = True
        self.read = self.written = EVERYTHING
        self.learnt = learnt or None
