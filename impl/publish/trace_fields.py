"""Trace fields of publish's objects: enough to follow the protocol, and nothing of what tables contain.

    store = Traced(open_store(url), sink, process="writer-1", trace_fields=trace_fields)

The fields, as far as the document has them:

    plan kind epoch              the plan it belongs to; for an undo the plan that it undoes, and `undo=yes`
    base parent before           the manifest that a plan is built on, or that a manifest follows; the epoch
                                 before a claim
    moves reads                  of a plan: the sorts of the tables whose heads it moves, or that it reads
    fragments                    of a plan: how many fragments it stages
    nodes edges                  the lineage of the one table without columns that point at others, and with
    nodes_number edges_number    the version of it that a manifest pins, or that the document is
    nodes_base edges_base        the version of it that a plan, or the plan of a version, is built on
    wide=yes                     more than one table of a sort exists, so the fields above are incomplete

`boundary` is the number in a boundary object.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fencepost.impl.publish import keys

Fields = dict[str, Any]


def trace_fields(key: str, body: bytes) -> str:
    """See the top of this module. Empty for objects that are no documents of publish."""
    extract = _extractor(key)
    if extract is None:
        return ""
    try:
        fields = extract(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""  # damaged: the reader of the object reports it
    return " ".join(f"{name}={value}" for name, value in sorted(fields.items()) if value not in ("", None))


def _extractor(key: str) -> Callable[[Mapping[str, Any]], Fields] | None:
    if not key.endswith(".json"):
        return None
    if key.startswith(keys.RECOVERY):
        return _of_plan
    if key.startswith(keys.TABLES):
        return _of_version
    if key.startswith(keys.BRANCHES):
        if key.endswith("/boundary.json"):
            return lambda found: {"boundary": found["boundary"]}
        return _of_manifest
    return None


def _of_manifest(found: Mapping[str, Any]) -> Fields:
    undoes = found["lineage"]["undoes"]
    claim = found["kind"] == "claim"
    fields: Fields = {
        "plan": "" if claim else undoes or found["plan"],
        "undo": "yes" if undoes else "",
        "kind": found["kind"],
        "parent": found["parent"],
        "before": found["writer_epoch"] - 1 if claim else "",
        "epoch": found["writer_epoch"],
    }
    for entry in found["tables"].values():
        _add(fields, _sort(entry["edges"]), entry["location"], number=entry["version"])
    return fields


def _of_version(found: Mapping[str, Any]) -> Fields:
    fields: Fields = {
        "plan": found["undoes"] or found["plan"],
        "undo": "yes" if found["undoes"] else "",
        "epoch": found["epoch"],
    }
    base = found["base"][1] if found["base"] and found["base"][0] == found["location"] else 0
    _add(fields, _sort(found["edges"]), found["location"], base=base, number=found["version"])
    return fields


def _of_plan(found: Mapping[str, Any]) -> Fields:
    fields: Fields = {
        "plan": found["id"],
        "kind": found["kind"],
        "epoch": found["epoch"],
        "base": found["base"],
        "fragments": sum(
            keys.plan_of_fragment(run["path"]) == found["id"]
            for action in found["actions"]
            for run in action["runs"]
            if "path" in run
        ),
    }
    pointed_at: set[str] = set()
    moves = []
    for action in found["actions"]:
        entry = action["entry"]
        if entry is None or "adopt" in action["verbs"]:
            fields["wide"] = "yes"
            continue
        pointed_at.update(entry["edges"].values())
        moves.append(_sort(entry["edges"]))
        base = action["base"]
        same_lineage = base is not None and base[0] == entry["location"]
        _add(fields, moves[-1], entry["location"], base=base[1] if same_lineage else 0)
    reads = [("nodes" if table in pointed_at else "edges", pin) for table, pin in found["reads"].items()]
    for sort, (location, version) in reads:
        _add(fields, sort, location, base=version)
    return {**fields, "moves": _list(moves), "reads": _list(sort for sort, _ in reads)}


def _sort(edges: object) -> str:
    return "edges" if edges else "nodes"


def _list(sorts: Iterable[str]) -> str:
    return ",".join(sorted(set(sorts)))


def _add(fields: Fields, sort: str, location: str, **numbers: int) -> None:
    if fields.setdefault(sort, location) != location:
        fields["wide"] = "yes"
        return
    fields.update({f"{sort}_{name}": number for name, number in numbers.items()})
