"""A search put down in a file, to be taken up later, or handed to another process.

What is written is the path: at every node what was tried, what is left to try and what sleeps, and the
counts so far. What can be had by running the path again is left out, so the file is small and holds no
code. The states kept for merging are left out too: a search that is taken up meets them again.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from fencepost.sim.explore.costs import Costs
from fencepost.sim.explore.races import Node
from fencepost.sim.explore.reduced import Reduced
from fencepost.sim.explore.runs import Coverage
from fencepost.sim.whole_files import write_whole
from fencepost.sim.world import Footprints

VERSION = 2


class BadCheckpoint(ValueError):
    """The file does not belong to this search."""


def save(search: Reduced, path: str | Path) -> None:
    """Write `search` to a file, whole or not at all."""
    write_whole(Path(path), json.dumps(packed(search)).encode())


def load(search: Reduced, path: str | Path) -> None:
    """Bring a fresh `search` to where the one in the file was."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        version = data["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadCheckpoint(f"{path} is no checkpoint ({error}); start without it") from error
    if version != VERSION:
        raise BadCheckpoint(f"{path} is of version {version}, this is {VERSION}; start without it")
    if data["of"] != identity(search):
        raise BadCheckpoint(
            f"{path} belongs to {data['of']}, not to {identity(search)}; "
            "give the same program, budget and seed, or another file"
        )
    unpack(search, data)


def identity(search: Reduced) -> str:
    """What must be the same for a checkpoint to make sense."""
    setting = search.setting
    name = getattr(setting.program, "__qualname__", "a program")
    return f"{name}, {setting.budget}, seed {setting.seed}, {setting.steps_max} steps"


def packed(search: Reduced) -> dict[str, Any]:
    """The search as plain data."""
    return {
        "version": VERSION,
        "of": identity(search),
        "timed": search.timed,
        "base": search.base,
        "exhausted": search.exhausted,
        "objects": search.footprints.packed(),
        "counts": [search.schedules, search.pruned, search.merged, search.cut, search.steps],
        "findings": search.findings,
        "coverage": pack_coverage(search.coverage),
        "stack": [pack_node(node) for node in search.stack],
    }


def unpack(search: Reduced, data: dict[str, Any]) -> None:
    """Take up what `packed` put down; runs the path once to remember what it leaves out."""
    search.timed = data["timed"]
    search.clear()
    search.base = data["base"]
    search.footprints = Footprints.unpacked(data["objects"])
    search.schedules, search.pruned, search.merged, search.cut, search.steps = data["counts"]
    search.findings = list(data["findings"])
    search.coverage = unpack_coverage(data["coverage"])
    search.stack = [unpack_node(node) for node in data["stack"]]
    search.exhausted = data["exhausted"]
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


def unpack_node(data: dict[str, Any]) -> Node:
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
        "measured": dict(coverage.measured),
        "costs": coverage.costs.packed(),
    }


def unpack_coverage(data: dict[str, Any]) -> Coverage:
    return Coverage(
        outcomes=Counter({(kind, outcome): count for kind, outcome, count in data["outcomes"]}),
        faults=Counter(data["faults"]),
        steps=Counter(data["steps"]),
        conflicts=data["conflicts"],
        met=set(data["met"]),
        wanted=set(data["wanted"]),
        limits=set(data.get("limits", ())),
        measured=dict(data.get("measured", {})),
        costs=Costs.unpacked(data["costs"]),
    )
