"""A search as data: saved in a file to continue later, or sent to another process, see `pieces`.

The data is the path: at every node what was tried, what is left to try and what sleeps, and the counts so
far. Everything that running the path again gives is left out, so the file is small and holds no code. The
states kept for merging are left out too: a search that continues meets them again.

A checkpoint is trusted as the code of the program is: the search that continues tries only the choices that
it lists. Its digest shows damage and editing by hand, not forgery.
"""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import fencepost
from fencepost.sim.explore.identity import digest_of, source_digest, sources
from fencepost.sim.explore.outcome_coverage import OutcomeCoverage
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.reduction import Node
from fencepost.sim.explore.runs import Costs, Coverage
from fencepost.sim.whole_files import read_text, write_whole
from fencepost.sim.world import Footprints

VERSION = 10


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


def load(search: ReducedSearch, path: str | Path, *, in_pieces: bool = False) -> None:
    """Bring a fresh `search` to the state of the one in the file. `in_pieces`: it may consist of pieces."""
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
    if data["pieces"] and not in_pieces:
        raise BadCheckpoint(f"{path} holds a search in pieces; give --jobs 2, or --engine spark, as before")
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
        "rests_on": search.rests_on,
        "base": search.base,
        "exhausted": search.exhausted,
        "footprints": search.footprints.packed(),
        "counts": [search.schedules, search.pruned, search.merged, search.cut, search.steps],
        "findings": search.findings,
        "coverage": pack_coverage(search.coverage),
        "stack": [pack_node(node) for node in search.stack],
        "pieces": search.left,
        "part": search.part,
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
    search.rests_on = data["rests_on"]
    search.base = data["base"]
    search.reset(Footprints.unpacked(data["footprints"]))
    search.schedules, search.pruned, search.merged, search.cut, search.steps = data["counts"]
    search.findings = list(data["findings"])
    search.coverage = unpack_coverage(data["coverage"])
    search.stack[:] = [_unpack_node(node) for node in data["stack"]]
    search.exhausted = data["exhausted"]
    search.left, search.part = data["pieces"], data["part"]
    if not search.left and not search.is_behind:
        search.relive()


def pack_node(node: Node) -> dict[str, Any]:
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


def pack_coverage(coverage: Coverage) -> dict[str, Any]:
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
        "by_line": coverage.by_line.packed(),
    }


def unpack_coverage(data: dict[str, Any]) -> Coverage:
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
        by_line=OutcomeCoverage.unpacked(data["by_line"]),
    )
