"""What processes know, as numbers: equal when they were told the same things in the same order.

Deterministic code that was told the same is in the same state, so the history of replies stands for a
process's memory. Histories are kept once and numbered; no hash is trusted.
"""

from typing import Any

from fencepost.sim.world import World

Memories = tuple[Any, ...]
"""By the number of the process; 0 is the program that sets up."""


class Memory:
    """The histories met so far."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def start(self, world: World) -> Memories:
        """What is known before the first step."""
        return self._fill(world, (0,))

    def remember(self, world: World, memories: Memories) -> Memories:
        """What is known after the step that was just taken."""
        told = world.learnt
        if told is not None:
            index, answer = told
            if type(answer) is list:
                answer = tuple(answer)
            number = self._number((memories[index], answer))
            memories = (*memories[:index], number, *memories[index + 1 :])
        return self._fill(world, memories)

    def _fill(self, world: World, memories: Memories) -> Memories:
        if len(memories) > len(world.processes):
            return memories
        # The program has just been set up; what it picked decides what the processes start with.
        return (memories[0],) + (memories[0],) * len(world.processes)

    def _number(self, history: Any) -> int:
        try:
            return self._numbers.setdefault(history, len(self._numbers) + 1)
        except TypeError:
            # An answer that cannot be compared: like no other.
            number = self._numbers[object()] = len(self._numbers) + 1
            return number
