"""Pictures of the state graphs of small models."""

from fencepost.reports.page.elements import Markup, join, tag
from fencepost.reports.page.found import Findings, Result
from fencepost.reports.page.graph import picture
from fencepost.reports.page.sections.pieces import anchor, folded, scrolling, table


def section(found: Findings) -> Markup | None:
    """Each model that was small enough to be drawn."""
    drawn = [_drawn(result) for result in found.of("check") if result.data.get("graph")]
    return join(*drawn) if drawn else None


def _drawn(result: Result) -> Markup:
    graph = result.data["graph"]
    states = [state["text"] for state in graph["states"]]
    initial = [at for at, state in enumerate(graph["states"]) if state["initial"]]
    steps = [(int(source), int(target), str(label)) for source, target, label in graph["steps"]]
    name = f"All states of {result.data['model']}"
    said = [
        (str(at), text, "; ".join(f"{label} → {target}" for source, target, label in steps if source == at))
        for at, text in enumerate(states)
    ]
    return tag(
        "article",
        tag("h3", name),
        scrolling(picture(states, initial, steps, title=name, number=f"{anchor(result)}-graph"), name),
        folded(
            "What each state holds, and where it leads",
            table(f"{name}, as a list", ("state", "holds", "leads to"), said),
        ),
    )
