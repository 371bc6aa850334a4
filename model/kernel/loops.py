"""The shortest fair loop through one state of a small component, searched exactly."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.model.kernel.fairness import Demand
from fencepost.model.kernel.model import Label

_EACH = 20_000
"""Pairs of a state and the demands met so far that one search may look at."""

Move = tuple[int, int, Label]
"""From a node to a node by a label."""


@dataclass
class Loops:
    """The moves inside a component, and for each node the demands it meets by enabling none of them.

    Sets of demands are bits of a number. `spent` counts the work, `exact` says whether the last
    search looked everywhere.
    """

    moves: Mapping[int, Sequence[Move]]
    idle: Mapping[int, int]
    demands: tuple[Demand, ...]
    spent: int = 0
    exact: bool = True
    _met_by: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for bit, demand in enumerate(self.demands):
            for label in demand.labels:
                self._met_by[label] = self._met_by.get(label, 0) | 1 << bit

    def through(self, node: int, below: int | None) -> list[Move] | None:
        """The shortest fair loop from `node` with fewer than `below` moves, if it is found."""
        everything = (1 << len(self.demands)) - 1
        begin = (node, self.idle[node])
        came: dict[tuple[int, int], tuple[tuple[int, int], Move]] = {}
        waiting = deque([(begin, 0)])
        self.exact = True
        while waiting:
            pair, steps = waiting.popleft()
            if below is not None and steps + 1 >= below:
                return None
            for move in self.moves[pair[0]]:
                met = pair[1] | self._met_by.get(move[2].number, 0) | self.idle[move[1]]
                reached = (move[1], met)
                if reached in came:
                    continue
                came[reached] = (pair, move)
                if reached == (node, everything):
                    return _followed(came, reached, steps + 1)
                waiting.append((reached, steps + 1))
                self.spent += 1
            if len(came) > _EACH:
                self.exact = False
                return None
        return None


def _followed(
    came: Mapping[tuple[int, int], tuple[tuple[int, int], Move]], end: tuple[int, int], steps: int
) -> list[Move]:
    moves: list[Move] = []
    for _ in range(steps):
        end, move = came[end]
        moves.append(move)
    return moves[::-1]
