"""What the JSON of a check says besides what the search answers: stopped, taken strictly, and drawn."""

from typing import Any

from fencepost.model import Model, ModelError, Progress, reachable_graph

DRAWN_STATES = 60
"""More than this, and a picture of the states is a ball of wool."""


def stopped_result(model: Model, at: Progress, keep_going: bool) -> dict[str, Any]:
    """What is known of an exploration that was stopped: its extent, and that nothing was violated there,
    for the search ends at the first violation, unless it is to keep going."""
    reason = "interrupted" if keep_going else f"interrupted; not violated up to depth {max(0, at.depth - 1)}"
    return {
        "model": model.name,
        "parameters": dict(model.sizes),
        "without": sorted(model.without),
        "verdict": "undecided",
        "distinct": at.distinct,
        "generated": at.generated,
        "depth": at.depth,
        "seconds": at.seconds,
        "peak_bytes": at.held_bytes,
        "properties": [
            {
                "name": wanted.name,
                "kind": wanted.kind,
                "verdict": "undecided",
                "trace": [],
                "doc": wanted.doc,
                "reason": reason if wanted.kind in ("invariant", "step") else "interrupted",
            }
            for wanted in model.properties
        ],
        "coverage": {},
        "stopped_by": "an interruption",
        "notes": [],
    }


def strictly(found: dict[str, Any]) -> dict[str, Any]:
    """The result under --strict: an action that never fired is a violated property of its own."""
    never = [action for action, count in found["coverage"].items() if count == 0]
    rows = [
        {
            "name": f"{action}-fires",
            "kind": "coverage",
            "verdict": "violated",
            "trace": [],
            "doc": "Under --strict, every action must fire somewhere.",
            "reason": "no reachable state enables it",
        }
        for action in never
    ]
    return {**found, "verdict": "violated", "properties": [*found["properties"], *rows]}


def drawn(model: Model, distinct: int) -> dict[str, Any]:
    """The whole state graph of a small model, for a picture of it."""
    if distinct > DRAWN_STATES:
        return {}
    try:
        graph = reachable_graph(model, max_states=DRAWN_STATES).to_networkx()
    except ModelError:
        return {}  # it was not explored to the end, and is not small after all
    return {
        "graph": {
            "states": [
                {"text": text, "initial": graph.nodes[node]["initial"]}
                for node, text in graph.nodes(data="text")
            ],
            "steps": [[source, target, label] for source, target, label in graph.edges(data="label")],
        }
    }
