"""The states of a small model as a picture, with an arrow for each step.

Graphviz places the states where its `dot` is installed. Otherwise they are placed in levels by distance from
the start, each state below its predecessors, which keeps most arrows short. Steps that lead
back are drawn as bows on the side. The numbers of the states refer to the list below the picture. The steps
of a counterexample are drawn thick, and the state that violates the property is marked.
"""

import itertools
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence

from fencepost.reports.page.elements import Markup, tag
from fencepost.results import StateGraph, TraceStep

RADIUS = 13
LEVEL_HEIGHT = 74
NODE_WIDTH = 58
MARGIN = 30
LABELLED_STEPS = 40
"""With more steps than this, names on the arrows would cover each other; they are in the list."""
SWEEPS = 4
SPREAD = 1.8
"""Of a picture with names on its arrows, against one without."""
WAYS_MAX = 1000
DOT_SECONDS = 10
DOT_INCH = 72
"""Points of Graphviz's unit of length."""

Step = tuple[int, int, str]


def levels_of(states: int, initial: Sequence[int], steps: Sequence[Step]) -> list[list[int]]:
    """States by the number of steps it takes to reach them; what cannot be reached is left out."""
    after: dict[int, list[int]] = defaultdict(list)
    for source, target, _ in steps:
        after[source].append(target)
    levels, seen, frontier = [], set(initial), list(initial)
    while frontier:
        levels.append(frontier)
        reached = dict.fromkeys(target for state in frontier for target in after[state])
        frontier = [state for state in reached if state not in seen]
        seen.update(frontier)
    assert all(0 <= state < states for level in levels for state in level)
    return levels


def _ordered(levels: list[list[int]], steps: Sequence[Step]) -> list[list[int]]:
    """Each level by the mean place of the states it is reached from, a few times over."""
    before: dict[int, list[int]] = defaultdict(list)
    for source, target, _ in steps:
        before[target].append(source)
    for _ in range(SWEEPS):
        for upper, level in itertools.pairwise(levels):
            place = {state: at / max(1, len(upper)) for at, state in enumerate(upper)}

            def weight(state: int, place: dict[int, float] = place) -> float:
                known = [place[source] for source in before[state] if source in place]
                return sum(known) / len(known) if known else 0.5

            level.sort(key=weight)
    return levels


def picture(
    states: Sequence[str],
    initial: Sequence[int],
    steps: Sequence[Step],
    *,
    title: str,
    number: str,
    path: Sequence[Step] = (),
) -> Markup:
    """The graph as SVG; `number` makes its ids unique on the page, `path` is the way to a violation."""
    levels = levels_of(len(states), initial, steps)
    named = len(steps) <= LABELLED_STEPS
    where = _by_graphviz(levels, steps) or _by_levels(_ordered(levels, steps))
    if named:
        where = {state: (x * SPREAD, y * 1.3) for state, (x, y) in where.items()}
    ends = {path[-1][1]} if path else set()
    marked = set(path)
    width = max(320, *(x + 2 * MARGIN for x, _ in where.values()))
    height = max([0.0, *(y for _, y in where.values())]) + MARGIN + 10
    about = f"{len(states)} states, {len(steps)} steps, {len(levels)} levels. The list below names them."
    return tag(
        "svg",
        tag("title", title, id=f"{number}-title"),
        tag("desc", about, id=f"{number}-about"),
        [_edge(where, step, named, step in marked) for step in steps if step[0] in where],
        [_node(state, *where[state], states[state], (state in initial, state in ends)) for state in where],
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        role="img",
        aria_labelledby=f"{number}-title {number}-about",
        class_="states",
    )


def _by_levels(levels: Sequence[Sequence[int]]) -> dict[int, tuple[float, float]]:
    width = max(320, 2 * MARGIN + NODE_WIDTH * max(map(len, levels), default=1))
    return {
        state: (width / 2 + NODE_WIDTH * (at - (len(level) - 1) / 2), MARGIN + LEVEL_HEIGHT * depth)
        for depth, level in enumerate(levels)
        for at, state in enumerate(level)
    }


def _by_graphviz(levels: Sequence[Sequence[int]], steps: Sequence[Step]) -> dict[int, tuple[float, float]]:
    """The places that `dot` gives the states; empty without it, or when it fails."""
    dot = shutil.which("dot")
    states = sorted(itertools.chain.from_iterable(levels))
    if dot is None or not states:
        return {}
    edges = {(source, target) for source, target, _ in steps if source in states and target in states}
    lines = [*map(str, states), *(f"{source} -> {target}" for source, target in sorted(edges))]
    text = f"digraph {{ node [shape=circle fixedsize=true width=0.4] {'; '.join(lines)} }}"
    try:
        ran = subprocess.run(  # noqa: S603 - the user's own Graphviz, with a graph of numbers
            [dot, "-Tplain"], input=text, capture_output=True, text=True, timeout=DOT_SECONDS, check=True
        )
        rows = [line.split() for line in ran.stdout.splitlines()]
        height = next(float(row[3]) for row in rows if row[0] == "graph")
        places = {
            int(row[1]): (MARGIN + DOT_INCH * float(row[2]), MARGIN + DOT_INCH * (height - float(row[3])))
            for row in rows
            if row[0] == "node"
        }
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, StopIteration):
        return {}
    return places if set(places) == set(states) else {}


def error_path(graph: StateGraph, trace: Sequence[TraceStep]) -> list[Step]:
    """The steps of a counterexample in the graph, found by their labels; empty when one is missing."""
    labels = [
        f"{step.action}({', '.join(f'{name}={value}' for name, value in step.parameters.items())})"
        for step in trace
        if step.action is not None
    ]
    after: dict[tuple[int, str], list[int]] = defaultdict(list)
    for source, target, label in graph.steps:
        after[source, _plain(str(label))].append(target)
    ways: list[tuple[list[Step], int]] = [([], at) for at, state in enumerate(graph.states) if state.initial]
    for label in labels:
        ways = [
            ([*way, (at, target, label)], target) for way, at in ways for target in after[at, _plain(label)]
        ][:WAYS_MAX]
    named = {(source, target, _plain(str(label))): str(label) for source, target, label in graph.steps}
    return [(s, t, named[s, t, _plain(label)]) for s, t, label in ways[0][0]] if ways and labels else []


def _plain(label: str) -> str:
    """A label without what its writers differ in: empty parentheses, names of parameters, spaces."""
    return re.sub(r"\w+=|[\s()]", "", label)


def _node(state: int, x: float, y: float, text: str, kinds: tuple[bool, bool]) -> Markup:
    initial, violated = kinds
    kind = f"state{' initial' if initial else ''}{' violated' if violated else ''}"
    return tag(
        "g",
        tag("title", f"state {state}: {text}{' (violates the property)' if violated else ''}"),
        tag("circle", cx=x, cy=y, r=RADIUS, class_=kind),
        tag("text", state, x=x, y=y + 4, text_anchor="middle"),
    )


def _edge(where: Mapping[int, tuple[float, float]], step: Step, named: bool, marked: bool) -> Markup:
    source, target, label = step
    (x1, y1), (x2, y2) = where[source], where[target]
    if source == target:
        path = f"M{x1 + 10:g} {y1 - 8:g} q22 -14 20 4 q0 14 -16 8"
        middle = (x1 + 24, y1 - 14)
    else:
        bow = 0.0 if y2 > y1 else 40.0
        length = max(1.0, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        sx, sy, ex, ey = x1 + ux * RADIUS, y1 + uy * RADIUS, x2 - ux * (RADIUS + 5), y2 - uy * (RADIUS + 5)
        middle = ((sx + ex) / 2 + bow * uy, (sy + ey) / 2 - bow * ux)
        path = f"M{sx:g} {sy:g} Q{middle[0]:g} {middle[1]:g} {ex:g} {ey:g}"
    kind = "step error" if marked else "step"
    name = tag("text", label, x=middle[0] + 4, y=middle[1], class_=kind) if named or marked else None
    return tag("g", tag("title", label), tag("path", d=path, class_=kind, marker_end="url(#tip)"), name)
