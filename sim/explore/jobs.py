"""One search by several operating-system processes.

The top of the tree is cut into pieces: every choice at the first few steps, each with what sleeps there
because a neighbour piece covers it. At those steps everything is tried, so races that lead back into
them need no answer, and the pieces are independent. Merging works within a piece only, so the pieces
together take some runs more than one search would.
"""

import dataclasses
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from fencepost.sim.explore import checkpoint
from fencepost.sim.explore.races import Node
from fencepost.sim.explore.reduced import Reduced
from fencepost.sim.explore.runs import Failure, Setting
from fencepost.sim.explore.tokens import Target, name_choices
from fencepost.sim.world import Violation

PIECES_EACH = 8
"""Pieces for each process: some are small, and nobody should wait for long."""
REPORT_RUNS = 500
"""Runs between two looks at the clock and the pipe."""

Stop = Callable[[Any], bool]


class Together:
    """The search as one: counts, coverage and failures of all pieces."""

    def __init__(self, setting: Setting, jobs: int) -> None:
        self.setting = setting
        self.jobs = jobs
        self.whole = Reduced(setting)
        self.whole.exhausted = False
        self.waiting = 0

    def explore(self, stop: Stop) -> Reduced:
        """Explore to the end, the first failure, or until `stop` says so; the sum of all pieces."""
        timed = self.whole.timed
        while True:
            self.whole = whole = Reduced(self.setting, timed=timed)
            pieces = split(whole, self.jobs * PIECES_EACH)
            if not self._share_out(pieces, stop):
                return whole
            timed = True

    def _share_out(self, pieces: list[dict[str, Any]], stop: Stop) -> bool:
        """Hand out pieces until none is left. True when all must start over because time matters."""
        context = multiprocessing.get_context("fork")
        workers: dict[Connection, Any] = {}
        self.waiting = len(pieces)
        try:
            for _ in range(min(self.jobs, len(pieces))):
                ours, theirs = context.Pipe()
                worker = context.Process(target=_work, args=(self.setting, theirs), daemon=True)
                worker.start()
                theirs.close()
                workers[ours] = worker
            return self._serve(workers, pieces, stop)
        finally:
            for pipe, worker in workers.items():
                pipe.close()
                worker.terminate()
                worker.join()

    def _serve(self, workers: dict[Connection, Any], pieces: list[dict[str, Any]], stop: Stop) -> bool:
        busy = set()
        for pipe in workers:
            if pieces:
                pipe.send(pieces.pop())
                busy.add(pipe)
        while busy:
            for ready in wait(list(busy), timeout=0.2):
                assert isinstance(ready, Connection)
                report = ready.recv()
                if report["timed"]:
                    return True
                self._add(report)
                if report["done"]:
                    self.waiting -= 1
                    busy.discard(ready)
                    if pieces:
                        ready.send(pieces.pop())
                        busy.add(ready)
            if self.whole.failures or stop(self.whole):
                return False
        self.whole.exhausted = not self.waiting
        return False

    def _add(self, report: dict[str, Any]) -> None:
        whole = self.whole
        schedules, pruned, merged, cut, steps = report["counts"]
        whole.schedules += schedules
        whole.pruned += pruned
        whole.merged += merged
        whole.cut += cut
        whole.steps += steps
        whole.coverage.add(checkpoint.unpack_coverage(report["coverage"]))
        whole.findings += [finding for finding in report["findings"] if finding not in whole.findings]
        for name, reason, rows in report["failures"]:
            steps = [Target(*row) for row in rows]
            whole.failures.append(Failure(Violation(name, reason), (), timed=True, steps=steps))


def split(search: Reduced, count: int) -> list[dict[str, Any]]:
    """The tree in at least `count` pieces if it is that wide; together they are the whole of it."""
    whole: list[list[Node]] = [[]]
    ended: list[list[Node]] = []
    while whole and len(whole) + len(ended) < count:
        shortest = min(whole, key=len)
        whole.remove(shortest)
        children = search.children(shortest)
        if children:
            whole += children
        else:
            ended.append(shortest)
    return [_piece(search, stack) for stack in [*ended, *whole]]


def _piece(search: Reduced, stack: list[Node]) -> dict[str, Any]:
    piece = checkpoint.packed(search)
    piece["stack"] = [checkpoint.pack_node(node) for node in stack]
    piece["base"] = len(stack)
    return piece


def _work(setting: Setting, pipe: Connection) -> None:
    """A worker's life: take a piece, explore it, say what came of it."""
    while True:
        try:
            piece = pipe.recv()
        except EOFError:
            return
        search = Reduced(setting)
        checkpoint.unpack(search, piece)
        started = search.timed
        while not search.exhausted and not search.failures and search.timed == started:
            limit = search.runs + REPORT_RUNS

            def reports(at: Reduced, limit: int = limit, started: bool = started) -> bool:
                return at.runs >= limit or at.timed != started

            search.explore(reports)
            _report(pipe, search, started)


def _report(pipe: Connection, search: Reduced, started: bool) -> None:
    """Send what was found since the last report, and forget it."""
    failures = []
    for failure in search.failures:
        steps = name_choices(search.setting, failure.choices, search.footprints, timed=failure.timed)
        rows = [dataclasses.astuple(step) for step in steps]
        failures.append((failure.violation.name, failure.violation.reason, rows))
    pipe.send(
        {
            "timed": search.timed != started,
            "done": search.exhausted or bool(failures),
            "counts": [search.schedules, search.pruned, search.merged, search.cut, search.steps],
            "coverage": checkpoint.pack_coverage(search.coverage),
            "findings": search.findings,
            "failures": failures,
        }
    )
    search.forget_counts()
