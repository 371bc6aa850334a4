"""Teaching concurrency: each process writes its own cell, then reads its neighbour's."""

from fencepost.model import *


class Teaching(Machine):
    """When all are done, somebody has seen a one."""

    processes = Size(4)

    process = Process(p=processes)
    x, y = Each(processes, Int(0, 1)), Each(processes, Int(0, 1))

    @process.step
    def write(s, p: int) -> None:
        s.x[p] = 1

    @process.step
    def read(s, p: int) -> None:
        s.y[p] = s.x[p - 1 if p else s.processes - 1]

    @invariant
    def one_is_seen(s) -> Truth:
        """After the last step some y is 1."""
        return implies(s.process.all("done"), s.y.any(1))

    over = may_end(lambda s: s.process.all("done"))
