"""Conway's game of life on a small board, from every position."""

from fencepost.model import *


class Life(Machine):
    """Cells outside the board are dead."""

    side = Size(3, least=2, most=6)
    alive = Each(side, Each(side, Bool()))

    @initial
    def begin(s) -> None:
        s.alive = anything()

    @action
    def tick(s) -> None:
        s.alive = [[s.lives_on(x, y) for y in range(s.side)] for x in range(s.side)]

    def lives_on(s, x: int, y: int) -> Truth:
        around = [(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy]
        there = [s.alive[i][j] for i, j in around if 0 <= i < s.side and 0 <= j < s.side]
        neighbours = count_of(there)
        return (neighbours == 3) | (s.alive[x][y] & (neighbours == 2))

    blinks = reachable("A row turns into a column.")(
        lambda s: s.alive[1].all(True) & s.alive[0].all(False) & s.alive[2].all(False)
    )
