"""A search as data: saved in a file to continue later, or cut into pieces for several operating-system
processes.

The data is the path: at every node what was tried, what is left to try and what sleeps, and the counts so
far. Everything that running the path again gives is left out, so the file is small and holds no code. The
states kept for merging are left out too: a search that continues meets them again.

A checkpoint is trusted as the code of the program is: the search that continues tries only the choices that
it lists. Its digest shows damage and editing by hand, not forgery.

Pieces are the choices at the first few steps, each with what sleeps there because a neighbour piece covers
it. At those steps everything is tried, so races that lead back into them need no answer, and the pieces are
independent. Merging works within a piece only, so the pieces together take some runs more than one search
would.
"""

import dataclasses
import hashlib
import json
import multiprocessing
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import fencepost
from fencepost.sim.explore.identity import digest_of, source_digest, sources
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.reduction import Node
from fencepost.sim.explore.runs import Costs, Coverage, Failure, Setting
from fencepost.sim.explore.tokens import Target, name_choices
from fencepost.sim.explore.watchdog import watching
from fencepost.sim.whole_files import read_text, write_whole
from fencepost.sim.world import Footprints, Violation
from fencepost.sim.world.located import AuditError, CodeLine, users_lines_of
from fencepost.sim.world.process import Diverged, Stuck
from fencepost.sim.world.stamps import STAMPED, UNTIMED

VERSION = 8
PIECES_EACH = 8
"""Pieces for each process: some are small, and no process should wait for long."""
REPORT_RUNS = 500
"""Runs between two looks at the clock and the pipe."""

Stop = Callable[[Any], bool]


class BadCheckpoint(ValueError):
    """The file does not belong to this search."""


def save(search: ReducedSearch, path: str | Path) -> None:
    """Write `search` to a file, whole or not at all."""
    data = packed(search) | {"of": identity(search), "tool": fencepost.__version__, "sources": sources()}
    data = json.loads(json.dumps(data))  # its keys are texts, as they will be read
    write_whole(Path(path), json.dumps(data | {"digest": digest_of_checkpoint(data)}).encode())


def digest_of_checkpoint(data: dict[str, Any]) -> str:
    """Return the digest of everything else in a checkpoint."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def load(search: ReducedSearch, path: str | Path) -> None:
    """Bring a fresh `search` to the state of the one in the file."""
    try:
        data = json.loads(read_text(Path(path)))
        version, digest = data["version"], data.pop("digest", "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadCheckpoint(f"{path} is no checkpoint ({error}); start without it") from error
    if version != VERSION:
        raise BadCheckpoint(f"{path} is of version {version}, this is {VERSION}; start without it")
    if digest != digest_of_checkpoint(data):
        raise BadCheckpoint(f"{path} is damaged or was edited: its digest does not fit; start without it")
    if data["tool"] != fencepost.__version__:
        raise BadCheckpoint(f"{path} was written by fencepost {data['tool']}; start without it")
    if data["of"] != identity(search):
        raise BadCheckpoint(
            f"{path} belongs to {data['of']}, not to {identity(search)}; "
            "give the same program, mutant, faults and seed, or another file"
        )
    changed = [file for file, digest in data["sources"].items() if source_digest(file) != digest]
    if changed:
        raise BadCheckpoint(
            f"{path} belongs to other code: {', '.join(changed[:3])} changed since; "
            "give another file to start anew"
        )
    expected = json.loads(json.dumps(packed(search)))
    try:
        mistyped = [name for name, value in expected.items() if type(data[name]) is not type(value)]
        if mistyped:
            raise TypeError(f"{mistyped[0]} is a {type(data[mistyped[0]]).__name__}")
        unpack(search, data)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadCheckpoint(f"{path} does not fit the search ({reason}); start without it") from error


def identity(search: ReducedSearch) -> str:
    """Return the values that must be equal for a checkpoint to fit."""
    setting = search.setting
    name = getattr(setting.program, "__qualname__", "a program")
    return (
        f"{name} ({digest_of(setting.program)}), {setting.budget}, seed {setting.seed}, "
        f"{setting.steps_max} steps, {setting.wait_rounds} rounds"
    )


def packed(search: ReducedSearch) -> dict[str, Any]:
    """Return the search as plain data."""
    return {
        "version": VERSION,
        "timed": search.timed,
        "deadlines": search.setting.deadlines.packed(),
        "sharing": search.setting.sharing.packed(),
        "loops": search.setting.loops.packed(),
        "base": search.base,
        "exhausted": search.exhausted,
        "footprints": search.footprints.packed(),
        "counts": [search.schedules, search.pruned, search.merged, search.cut, search.steps],
        "findings": search.findings,
        "coverage": _pack_coverage(search.coverage),
        "stack": [_pack_node(node) for node in search.stack],
    }


def unpack(search: ReducedSearch, data: dict[str, Any]) -> None:
    """The inverse of `packed`; runs the path once to compute what the data leaves out."""
    search.timed = data["timed"]
    search.setting.deadlines.add(data["deadlines"])
    search.setting.deadlines.adopt()
    search.setting.sharing.add(data.get("sharing", {}))
    search.setting.sharing.adopt()
    search.setting.loops.add(data["loops"])
    search.setting.loops.adopt()
    search.clear()
    search.base = data["base"]
    search.reset(Footprints.unpacked(data["footprints"]))
    search.schedules, search.pruned, search.merged, search.cut, search.steps = data["counts"]
    search.findings = list(data["findings"])
    search.coverage = _unpack_coverage(data["coverage"])
    search.stack[:] = [_unpack_node(node) for node in data["stack"]]
    search.exhausted = data["exhausted"]
    search.relive()


def _pack_node(node: Node) -> dict[str, Any]:
    return {
        "alternatives": list(node.alternatives.items()),
        "sleep": [[*choice, *mark] for choice, mark in node.sleep.items()],
        "done": [[*choice, *mark] for choice, mark in node.done.items()],
        "backtrack": sorted(node.backtrack),
        "tried": sorted(node.tried),
        "todo": node.todo,
        "step": [node.actor, node.alternative],
    }


def _unpack_node(data: dict[str, Any]) -> Node:
    alternatives = {actor: tuple(offered) for actor, offered in data["alternatives"]}
    node = Node(alternatives, _marks(data["sleep"]), (), ())
    node.done = _marks(data["done"])
    node.backtrack = set(data["backtrack"])
    node.tried = set(data["tried"])
    node.todo = list(data["todo"])
    node.actor, node.alternative = data["step"]
    return node


def _marks(rows: list[list[Any]]) -> dict[tuple[int, str], tuple[int, int]]:
    return {(actor, alternative): (r, w) for actor, alternative, r, w in rows}


def _pack_coverage(coverage: Coverage) -> dict[str, Any]:
    return {
        "outcomes": [[*what, count] for what, count in coverage.outcomes.items()],
        "faults": dict(coverage.faults),
        "steps": dict(coverage.steps),
        "conflicts": coverage.conflicts,
        "met": sorted(coverage.met),
        "wanted": sorted(coverage.wanted),
        "limits": sorted(coverage.limits),
        "pauses": sorted(coverage.pauses),
        "skews": sorted(coverage.skews),
        "met_by_faults": sorted(coverage.met_by_faults),
        "measured": dict(coverage.measured),
        "processes": coverage.processes,
        "threaded": coverage.threaded,
        "cut": dict(coverage.cut),
        "tested": dict(coverage.tested),
        "unjudged": sorted(coverage.unjudged),
        "costs": coverage.costs.packed(),
    }


def _unpack_coverage(data: dict[str, Any]) -> Coverage:
    return Coverage(
        outcomes=Counter({(kind, outcome): count for kind, outcome, count in data["outcomes"]}),
        faults=Counter(data["faults"]),
        steps=Counter(data["steps"]),
        conflicts=data["conflicts"],
        met=set(data["met"]),
        wanted=set(data["wanted"]),
        limits=set(data["limits"]),
        pauses=set(data["pauses"]),
        skews=set(data["skews"]),
        met_by_faults=set(data["met_by_faults"]),
        measured=dict(data["measured"]),
        processes=data["processes"],
        threaded=data["threaded"],
        cut=Counter(data["cut"]),
        tested=Counter(data["tested"]),
        unjudged=set(data["unjudged"]),
        costs=Costs.unpacked(data["costs"]),
    )


class Together:
    """The search as one: counts, coverage and failures of all pieces."""

    def __init__(self, setting: Setting, jobs: int, timed: int = UNTIMED) -> None:
        self.setting = setting
        self.jobs = jobs
        self.whole = ReducedSearch(setting, timed=timed)
        self.waiting = 0

    def explore(self, stop: Stop) -> ReducedSearch:
        """Explore to the end, the first failure, or until `stop` says so; the sum of all pieces."""
        timed: int | None = self.whole.timed
        while timed is not None:
            self.setting.deadlines.adopt()
            self.setting.sharing.adopt()
            self.setting.loops.adopt()
            self.whole = ReducedSearch(self.setting, timed=timed)
            pieces = split(self.whole, self.jobs * PIECES_EACH)
            timed = self._share_out(pieces, stop)
        return self.whole

    def _share_out(self, pieces: list[dict[str, Any]], stop: Stop) -> int | None:
        """Hand out pieces until none is left. A number (`timed`) when all must start over."""
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

    def _serve(self, workers: dict[Connection, Any], pieces: list[dict[str, Any]], stop: Stop) -> int | None:
        busy = set()
        for pipe in workers:
            if pieces:
                pipe.send(pieces.pop())
                busy.add(pipe)
        while busy:
            for ready in wait(list(busy), timeout=0.2):
                assert isinstance(ready, Connection)
                report = _received(ready, workers[ready])
                self.setting.sharing.add(report["sharing"])
                if report["stale"]:
                    self.setting.deadlines.add(report["deadlines"])
                    self.setting.loops.add(report["loops"])
                    return int(report["timed"])
                self._add(report)
                if report["done"]:
                    self.waiting -= 1
                    busy.discard(ready)
                    if pieces:
                        ready.send(pieces.pop())
                        busy.add(ready)
            if self.whole.failures or stop(self.whole):
                return None
        self.whole.exhausted = not self.waiting
        return None

    def _add(self, report: dict[str, Any]) -> None:
        whole = self.whole
        schedules, pruned, merged, cut, steps = report["counts"]
        whole.schedules += schedules
        whole.pruned += pruned
        whole.merged += merged
        whole.cut += cut
        whole.steps += steps
        whole.coverage.add(_unpack_coverage(report["coverage"]))
        whole.findings += [finding for finding in report["findings"] if finding not in whole.findings]
        for name, reason, rows in report["failures"]:
            steps = [Target(*row) for row in rows]
            whole.failures.append(Failure(Violation(name, reason), (), timed=STAMPED, steps=steps))


def split(search: ReducedSearch, count: int) -> list[dict[str, Any]]:
    """Return the tree in at least `count` pieces if it is that wide; together they are the whole of it."""
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


def _piece(search: ReducedSearch, stack: list[Node]) -> dict[str, Any]:
    search.widen(stack)
    piece = packed(search)
    piece["stack"] = [_pack_node(node) for node in stack]
    piece["base"] = len(stack)
    piece["coverage"] = _pack_coverage(Coverage())  # what was counted when splitting belongs to no piece
    return piece


def _received(pipe: Connection, worker: Any) -> dict[str, Any]:
    """Return a report of a worker; its error is raised here."""
    try:
        report: dict[str, Any] = pipe.recv()
    except EOFError:
        worker.join()
        raise AuditError(
            f"a worker ended without a result (exit code {worker.exitcode}); perhaps memory ran out: "
            "use fewer --jobs"
        ) from None
    if "error" not in report:
        return report
    kind, text, lines, too_long = report["error"]
    at = tuple(CodeLine(*line) for line in lines)
    if kind == "Stuck":
        raise Stuck(text, at, too_long=too_long)
    if kind == "Diverged":
        raise Diverged(text)
    error = AuditError(text if kind == "AuditError" else f"{kind}: {text}")
    error.at = at
    raise error


def _work(setting: Setting, pipe: Connection) -> None:
    """A worker: receive a piece, explore it, send the results; or the error that ends it."""
    try:
        with watching():
            _work_on(setting, pipe)
    except (Exception, Stuck) as error:  # noqa: BLE001 - the audit reports it
        at = getattr(error, "at", None) or users_lines_of(error)
        lines = [tuple(line) for line in at]
        pipe.send({"error": (type(error).__name__, str(error), lines, getattr(error, "too_long", True))})


def _work_on(setting: Setting, pipe: Connection) -> None:
    while True:
        try:
            piece = pipe.recv()
        except EOFError:
            return
        search = ReducedSearch(setting)
        unpack(search, piece)
        while not search.exhausted and not search.failures and not search.stale:
            limit = search.runs + REPORT_RUNS

            def reports(at: ReducedSearch, limit: int = limit) -> bool:
                return at.runs >= limit

            search.explore(reports)
            _report(pipe, search)


def _report(pipe: Connection, search: ReducedSearch) -> None:
    """Send the results since the last report, and reset the counts."""
    failures = []
    for failure in search.failures:
        steps = name_choices(search.setting, failure.choices, search.footprints, timed=failure.timed)
        rows = [dataclasses.astuple(step) for step in steps]
        failures.append((failure.violation.name, failure.violation.reason, rows))
    pipe.send(
        {
            "stale": search.stale,
            "timed": search.timed,
            "deadlines": search.setting.deadlines.packed(),
            "sharing": search.setting.sharing.packed(),
            "loops": search.setting.loops.packed(),
            "done": search.exhausted or bool(failures),
            "counts": [search.schedules, search.pruned, search.merged, search.cut, search.steps],
            "coverage": _pack_coverage(search.coverage),
            "findings": search.findings,
            "failures": failures,
        }
    )
    search.forget_counts()
