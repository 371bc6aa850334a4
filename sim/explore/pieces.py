"""A search in pieces, which several workers explore: processes of this machine, or executors of a cluster.

A piece is a path of which the first nodes do not vary (`base`), each with what sleeps there because another
piece covers it. At those nodes everything is tried, so races that lead back into them need no answer, and the
pieces are independent. Merging works within a piece only, so the pieces together take some runs more than one
search would.

A piece that is not done after its limit of runs is cut: its first node that varies is fixed, and every other
way to go on from there is a piece of its own. So long pieces become many, and no worker is idle while another
has work for hours. The limit is a number of runs and doubles with every cut: a small program is not cut to
bits, and a large one soon has pieces for all workers.

The result of a piece is a function of the piece alone. It depends neither on the worker nor on time, nor on
what else was explored. So a piece that is lost with its worker is explored again, and a search that was
stopped continues with the pieces that are left. Pieces have an order, that of the search: when a property
breaks, the pieces before are explored to their end, and the failure of the first one counts. Any number of
workers finds the same failure.
"""

import heapq
import multiprocessing
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from itertools import count
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from fencepost.sim.explore.checkpoint import (
    load,
    pack_coverage,
    pack_node,
    packed,
    save,
    unpack,
    unpack_coverage,
)
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.reduction import Node
from fencepost.sim.explore.runs import Coverage, Failure, Setting
from fencepost.sim.explore.tokens import Target, name_choices
from fencepost.sim.explore.watchdog import watching
from fencepost.sim.world import Violation
from fencepost.sim.world.located import AuditError, CodeLine, users_lines_of
from fencepost.sim.world.process import Diverged, Stuck
from fencepost.sim.world.stamps import STAMPED, UNTIMED

PIECES_FIRST = 16
"""Pieces at the beginning. Fixed, so that pieces do not depend on the number of workers."""
RUNS_FIRST, RUNS_MAX = 250, 2_000
"""Runs after which a piece is cut: one of the beginning, and any."""
RESTARTS_MAX = 50
"""Times that all pieces start over, at most, because a worker learnt something."""
SAVE_S = 30.0
"""Seconds between two saves of a search that has a checkpoint."""

Stop = Callable[[Any], bool]
Report = dict[str, Any]
"""Findings of a piece, as plain data."""


@dataclass(frozen=True, order=True)
class Piece:
    """A part of a search."""

    order: tuple[int, ...]
    """Its place among all pieces: parts of a piece come where it came."""
    share: float = field(compare=False)
    """Its part of the tree, when every branch counts alike."""
    data: dict[str, Any] = field(compare=False)

    @property
    def runs_max(self) -> int:
        return int(min(RUNS_MAX, RUNS_FIRST << len(self.order) - 1))

    def parts(self, data: list[dict[str, Any]]) -> list["Piece"]:
        """Return the pieces that are left of this one."""
        return [Piece((*self.order, at), self.share / len(data), one) for at, one in enumerate(data)]


class Workers(Protocol):
    """Explore the pieces of one search; `Pool` makes them."""

    size: int
    """Number of pieces that are handed out at a time."""

    def give(self, piece: Piece) -> None:
        """Have a worker explore this piece."""

    def take(self, timeout_s: float) -> list[tuple[tuple[int, ...], Report]]:
        """Return the reports that came, with the places of their pieces; none after a while."""

    def close(self) -> None:
        """Stop, whatever the workers do."""


Pool = Callable[[Setting, "Knowledge"], Workers]
"""Begins workers that explore pieces of a search with this setting and this knowledge."""
Knowledge = Mapping[str, Any]
"""Findings of earlier runs, as plain data: deadlines, loops, sharing of threads, variables."""


def knowledge_of(setting: Setting) -> dict[str, Any]:
    """Return what the runs so far showed."""
    return {
        "deadlines": setting.deadlines.packed(),
        "sharing": setting.sharing.packed(),
        "loops": setting.loops.packed(),
        "variables": setting.variables.packed(),
    }


def adopt(setting: Setting, knowledge: Knowledge) -> None:
    """Have the runs that begin now know what others showed."""
    setting.deadlines.add(knowledge["deadlines"])
    setting.sharing.add(knowledge["sharing"])
    setting.loops.add(knowledge["loops"])
    setting.variables.add(knowledge["variables"])
    setting.deadlines.adopt()
    setting.sharing.adopt()
    setting.loops.adopt()


class Together:
    """The search as one: counts, coverage and failures of all pieces."""

    def __init__(
        self,
        setting: Setting,
        jobs: int,
        timed: int = UNTIMED,
        *,
        pool: Pool | None = None,
        checkpoint: str | None = None,
    ) -> None:
        self.setting = setting
        self.whole = ReducedSearch(setting, timed=timed)
        self._pool = pool or (lambda setting, _: Processes(setting, jobs))
        self._checkpoint = checkpoint
        self._saved_at = time.perf_counter()
        self._waiting: list[Piece] = []
        """A heap: the first in order comes first."""
        self._busy: dict[tuple[int, ...], Piece] = {}
        self._failed: tuple[tuple[int, ...], Report] | None = None
        """First in order of the pieces that failed so far."""
        self._seen: list[tuple[tuple[int, ...], Report]] = []
        """Counts, coverage and findings of each piece that was explored."""

    @property
    def schedules(self) -> int:
        return self.whole.schedules

    @property
    def coverage(self) -> Coverage:
        return self.whole.coverage

    def load(self, path: str) -> None:
        """Continue the search of a checkpoint."""
        load(self.whole, path, in_pieces=True)
        if not self.whole.left and self.whole.stack and not self.whole.is_behind:
            self.whole.left = [[[at], 1.0, one] for at, one in enumerate(cut(self.whole))]
            self.whole.stack.clear()

    def explore(self, stop: Stop) -> ReducedSearch:
        """Explore to the end, the first failure, or until `stop` says so; the sum of all pieces.

        Workers with other code may report again and again what this process cannot take up. Where all pieces
        would start over with nothing new, or too often, this process explores everything alone.
        """
        timed = self.whole.timed
        if self.whole.exhausted:
            return self.whole
        before: Any = None
        for restarts in count():
            adopt(self.setting, knowledge_of(self.setting))
            known = timed, knowledge_of(self.setting)
            if known == before or restarts > RESTARTS_MAX:
                self.whole = ReducedSearch(self.setting, timed=timed)
                self.whole.explore(stop)
                return self.whole
            pieces = [Piece(tuple(order), share, data) for order, share, data in self.whole.left]
            if not pieces:
                before = known
                self.whole = ReducedSearch(self.setting, timed=timed)
                found = split(self.whole, PIECES_FIRST)
                pieces = [Piece((at,), 1 / len(found), data) for at, data in enumerate(found)]
            self._begin(pieces)
            workers = self._pool(self.setting, knowledge_of(self.setting))
            try:
                again = self._explore(workers, stop)
            finally:
                workers.close()
            self.whole.left = []
            if again is None:
                break
            timed = again
        self._end()
        return self.whole

    def _begin(self, pieces: list[Piece]) -> None:
        self._waiting, self._busy, self._failed = [*pieces], {}, None
        heapq.heapify(self._waiting)
        self._seen = [((), _findings(self.whole))]

    def _explore(self, workers: Workers, stop: Stop) -> int | None:
        """Hand out pieces until none is left. A number (`timed`) when all must start over."""
        while True:
            while self._waiting and len(self._busy) < workers.size and self._counts_yet(self._waiting[0]):
                piece = heapq.heappop(self._waiting)
                self._busy[piece.order] = piece
                workers.give(piece)
            if not any(map(self._counts_yet, self._busy.values())):
                self.whole.exhausted = not self._waiting and not self._busy and self._failed is None
                return None
            for order, report in workers.take(0.2):
                piece = self._busy.pop(order)
                raised(report)
                if report["stale"]:
                    adopt(self.setting, report["knowledge"])
                    self.whole.left = []
                    return int(report["timed"])
                self.setting.sharing.add(report["knowledge"]["sharing"])
                self._add(piece, report)
            if stop(self.whole):
                return None
            self._save_now_and_then()

    def _counts_yet(self, piece: Piece) -> bool:
        """Return True if the piece comes before the failure that is known, or none is."""
        return self._failed is None or piece.order < self._failed[0]

    def _add(self, piece: Piece, report: Report) -> None:
        self._seen.append((piece.order, {name: report[name] for name in _SUMMED}))
        self._sum(report)
        left = piece.parts(report["left"])
        self.whole.part += piece.share - sum(part.share for part in left)
        if report["failures"]:
            if self._counts_yet(piece):
                self._failed = (piece.order, report)
            return
        for part in left:
            heapq.heappush(self._waiting, part)

    def _sum(self, report: Report) -> None:
        whole = self.whole
        schedules, pruned, merged, cut_, steps = report["counts"]
        whole.schedules += schedules
        whole.pruned += pruned
        whole.merged += merged
        whole.cut += cut_
        whole.steps += steps
        whole.coverage.add(unpack_coverage(report["coverage"]))
        whole.findings += [finding for finding in report["findings"] if finding not in whole.findings]

    def _end(self) -> None:
        """Sum up in the order of pieces, and leave the first failure; or the pieces that are left."""
        whole = self.whole
        whole.forget_counts()
        whole.findings = []
        for place, seen in sorted(self._seen, key=lambda one: one[0]):
            if self._failed is None or place <= self._failed[0]:
                self._sum(seen)
        if self._failed is None:
            whole.left = self._left()
            return
        for name, reason, rows in self._failed[1]["failures"]:
            steps = [Target(*row) for row in rows]
            whole.failures.append(Failure(Violation(name, reason), (), timed=STAMPED, steps=steps))

    def _left(self) -> list[Any]:
        pieces = sorted([*self._waiting, *self._busy.values()])
        return [[list(piece.order), piece.share, piece.data] for piece in pieces]

    def _save_now_and_then(self) -> None:
        if self._checkpoint is not None and time.perf_counter() - self._saved_at > SAVE_S:
            self.whole.left = self._left()
            save(self.whole, self._checkpoint)
            self._saved_at = time.perf_counter()


def split(search: ReducedSearch, count: int) -> list[dict[str, Any]]:
    """Return the tree in at least `count` pieces if it is that wide; together they are the whole of it."""
    paths: list[list[Node]] = [[]]
    ended: set[int] = set()
    while len(paths) < count and len(ended) < len(paths):
        at = min(
            (at for at, path in enumerate(paths) if id(path) not in ended), key=lambda at: len(paths[at])
        )
        is_cut = len(paths[at]) >= search.setting.steps_max
        children = [] if is_cut else search.children(paths[at])
        if children:
            paths[at : at + 1] = children
        else:
            ended.add(id(paths[at]))
    return [_piece(search, path) for path in paths]


def cut(search: ReducedSearch) -> list[dict[str, Any]]:
    """Return what is left of a search that is not exhausted as pieces, in the order of the search."""
    at = search.base
    path, node = search.stack[:at], search.stack[at]
    node.widen(search.footprints.widen)
    going_on = []
    if len(search.stack) > at + 1:
        going_on.append(_piece(search, [*search.stack], at + 1))
        node.done[node.actor, node.alternative] = (node.r, node.w)
    return going_on + [_piece(search, other) for other in search.children(path, since=node)]


def _piece(search: ReducedSearch, stack: list[Node], base: int | None = None) -> dict[str, Any]:
    search.widen(stack)
    piece = packed(search)
    piece["stack"] = [pack_node(node) for node in stack]
    piece["base"] = len(stack) if base is None else base
    piece["counts"] = [0, 0, 0, 0, 0]
    piece["findings"] = []
    piece["coverage"] = pack_coverage(Coverage())  # what was counted before belongs to no piece
    return piece


def explored(setting: Setting, piece: dict[str, Any], runs_max: int) -> Report:
    """Explore a piece, and return what it found and what is left of it; or the error that ended it."""
    try:
        with watching():
            search = ReducedSearch(setting)
            unpack(search, piece)
            search.explore(lambda at: at.runs >= runs_max)
            return _report(search)
    except (Exception, Stuck) as error:  # noqa: BLE001 - the audit reports it
        at = getattr(error, "at", None) or users_lines_of(error)
        lines = [tuple(line) for line in at]
        return {"error": (type(error).__name__, str(error), lines, getattr(error, "too_long", True))}


def _report(search: ReducedSearch) -> Report:
    failures = []
    for failure in search.failures:
        steps = name_choices(search.setting, failure.choices, search.footprints, timed=failure.timed)
        failures.append((failure.violation.name, failure.violation.reason, [astuple(step) for step in steps]))
    variables = search.setting.variables
    shared = variables.has_learnt or variables.suspects()
    if shared:
        variables.restore()
    stale = search.stale or shared
    report = {
        **_findings(search),
        "stale": stale,
        "timed": search.timed,
        "failures": failures,
        "knowledge": knowledge_of(search.setting),
    }
    going_on = not (stale or failures or search.exhausted)
    return {**report, "left": cut(search) if going_on else []}


_SUMMED = ("counts", "coverage", "findings")


def _findings(search: ReducedSearch) -> Report:
    """Return the parts of a report that are summed over pieces."""
    return {
        "counts": [search.schedules, search.pruned, search.merged, search.cut, search.steps],
        "coverage": pack_coverage(search.coverage),
        "findings": [*search.findings],
    }


def raised(report: Report) -> None:
    """Raise the error of a worker again."""
    if "error" not in report:
        return
    kind, text, lines, too_long = report["error"]
    at = tuple(CodeLine(*line) for line in lines)
    if kind == "Stuck":
        raise Stuck(text, at, too_long=too_long)
    if kind == "Diverged":
        raise Diverged(text)
    error = AuditError(text if kind == "AuditError" else f"{kind}: {text}")
    error.at = at
    raise error


class Processes:
    """Workers on this machine: processes that are forked from this one, with its memory."""

    def __init__(self, setting: Setting, size: int) -> None:
        self.size = size
        self._setting = setting
        self._workers: dict[Connection, Any] = {}
        self._idle: list[Connection] = []

    def give(self, piece: Piece) -> None:
        if not self._idle:
            self._idle.append(self._begin())
        self._idle.pop().send((piece.order, piece.data, piece.runs_max))

    def _begin(self) -> Connection:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        worker = context.Process(target=_work, args=(self._setting, theirs), daemon=True)
        worker.start()
        theirs.close()
        self._workers[ours] = worker
        return ours

    def take(self, timeout_s: float) -> list[tuple[tuple[int, ...], Report]]:
        found = []
        for pipe in wait([pipe for pipe in self._workers if pipe not in self._idle], timeout=timeout_s):
            assert isinstance(pipe, Connection)
            try:
                found.append(pipe.recv())
            except EOFError:
                self._workers[pipe].join()
                raise AuditError(
                    f"a worker ended without a result (exit code {self._workers[pipe].exitcode}); perhaps "
                    "memory ran out: use fewer --jobs"
                ) from None
            self._idle.append(pipe)
        return found

    def close(self) -> None:
        for pipe, worker in self._workers.items():
            pipe.close()
            worker.terminate()
            worker.join()


def _work(setting: Setting, pipe: Connection) -> None:
    # The inherited handlers only take note of a signal, so that `terminate` would have no effect. Ctrl-C
    # reaches the whole group of processes, and the parent ends its workers.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            order, piece, runs_max = pipe.recv()
        except EOFError:
            return
        pipe.send((order, explored(setting, piece, runs_max)))
