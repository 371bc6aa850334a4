"""What an event may tell of a document of ours: enough to follow the protocol, nothing of what tables hold.

    store = Traced(open_store(url), sink, process="writer-1", trace_fields=trace_fields)

The words, as far as the document says them:

    plan kind epoch              whose it is; of an undo the plan that it undoes, and `undo=yes`
    base parent before           the manifest that a plan stands on, that a manifest follows; the epoch
                                 before a claim
    moves reads                  of a plan: the sorts of the tables whose heads it moves, that it only read
    nodes edges                  the lineage of the one table without columns that point at others, and with
    nodes_number edges_number    the version of it that a manifest pins, or that the document is
    nodes_base edges_base        the version of it that a plan, or the plan of a version, stands on
    wide=yes                     there is more than one table of a sort, so the words above do not tell all

`boundary` is the number in a boundary object.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fencepost.impl.publish import keys


def trace_fields(key: str, body: bytes) -> str:
    """See the top of this module. Empty for what is none of our documents."""
    tell = _telling(key)
    if tell is None:
        return ""
    try:
        told = tell(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""  # not what it should be: whoever reads it will say so
    return " ".join(f"{name}={value}" for name, value in sorted(told.items()) if value not in ("", None))


def _telling(key: str) -> Any:
    if not key.endswith(".json"):
        return None
    if key.startswith(keys.RECOVERY):
        return _of_plan
    if key.startswith(keys.TABLES):
        return _of_version
    if key.startswith(keys.BRANCHES):
        return _of_boundary if key.endswith("/boundary.json") else _of_manifest
    return None


def _of_boundary(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"boundary": found["boundary"]}


def _sort(edges: object) -> str:
    return "edges" if edges else "nodes"


def _of_manifest(found: Mapping[str, Any]) -> dict[str, Any]:
    undoes = found["lineage"]["undoes"]
    told: dict[str, Any] = {
        "plan": "" if found["kind"] == "claim" else undoes or found["plan"],
        "undo": "yes" if undoes else "",
        "kind": found["kind"],
        "parent": found["parent"],
        "before": found["writer_epoch"] - 1 if found["kind"] == "claim" else "",
        "epoch": found["writer_epoch"],
    }
    for entry in found["tables"].values():
        _add(told, _sort(entry["edges"]), entry["location"], number=entry["version"])
    return told


def _of_version(found: Mapping[str, Any]) -> dict[str, Any]:
    told = {
        "plan": found["undoes"] or found["plan"],
        "undo": "yes" if found["undoes"] else "",
        "epoch": found["epoch"],
    }
    base = found["base"][1] if found["base"] and found["base"][0] == found["location"] else 0
    _add(told, _sort(found["edges"]), found["location"], base=base, number=found["version"])
    return told


def _of_plan(found: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "plan": found["id"],
        "kind": found["kind"],
        "epoch": found["epoch"],
        "base": found["base"],
    }
    pointed_at: set[str] = set()
    moves = []
    for action in found["actions"]:
        entry = action["entry"]
        if entry is None or "adopt" in action["verbs"]:
            told["wide"] = "yes"
            continue
        pointed_at.update(entry["edges"].values())
        moves.append(_sort(entry["edges"]))
        base = action["base"]
        at_home = base is not None and base[0] == entry["location"]
        _add(told, moves[-1], entry["location"], base=base[1] if at_home else 0)
    reads = [("nodes" if table in pointed_at else "edges", pin) for table, pin in found["reads"].items()]
    for sort, (location, version) in reads:
        _add(told, sort, location, base=version)
    return {**told, "moves": _list(moves), "reads": _list(sort for sort, _ in reads)}


def _list(sorts: Iterable[str]) -> str:
    return ",".join(sorted(set(sorts)))


def _add(told: dict[str, Any], sort: str, location: str, **numbers: int) -> None:
    if told.setdefault(sort, location) != location:
        told["wide"] = "yes"
        return
    told.update({f"{sort}_{name}": number for name, number in numbers.items()})
