"""What people see of a check, made from its JSON result and nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fencepost.reports.quantities import amount, byte_size
from fencepost.reports.uncut import Uncut

SENTENCE = 30
"""A sentence in a narrower column than this cannot be read."""
COLOURS = {"holds": "green", "violated": "bold red", "undecided": "yellow"}


def check_text(result: Mapping[str, Any]) -> RenderableType:
    """The whole page but for the verdict: size, properties, counterexamples, coverage."""
    return Group(
        _headline(result),
        *_notes(result.get("notes", ())),
        Uncut(_properties(result["properties"]), folded=True),
        *_counterexamples(result["properties"]),
        *_coverage(result["coverage"], complete=not result.get("stopped_by")),
        *(Text(f"warning: {doubt}", "yellow") for doubt in result.get("vacuity_warnings", ())),
    )


def verdict_line(result: Mapping[str, Any], again: str) -> Text:
    """The last word: the verdict, the bound it was given within, and the command that shows it again."""
    verdict = result["verdict"]
    bound = f" ({result['stopped_by']})" if verdict == "undecided" and result.get("stopped_by") else ""
    return Text.assemble((f"{verdict}{bound}", COLOURS[verdict]), f": {again}")


def _headline(result: Mapping[str, Any]) -> Text:
    parameters = "".join(f" {name}={value}" for name, value in result["parameters"].items())
    without = "".join(f" without {name}" for name in result["without"])
    distinct = result["distinct"]
    share = f"{result['peak_bytes'] / max(1, distinct):.0f} bytes a state"
    odds = result.get("collision_odds", 0)
    hidden = f"; two states taken for one: probability {odds:.1e}" if odds else ""
    return Text(
        f"{result['model']}{parameters}{without}: {amount(distinct)} distinct states, "
        f"{amount(result['generated'])} generated, depth {result['depth']}, {result['seconds']:.2f} s, "
        f"{byte_size(result['peak_bytes'])} ({share}){hidden}"
    )


def _notes(notes: Sequence[str]) -> Iterator[Text]:
    """How it was found out, where a reader should know: a reduction, an estimate, a trip to the disk."""
    for note in notes:
        yield Text(f"note: {note}")


def _properties(properties: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("property", "kind", "verdict"):
        table.add_column(column, no_wrap=True)
    table.add_column("what it says", min_width=SENTENCE)
    for row in properties:
        reason = f" ({row['reason']})" if row.get("reason") else ""
        verdict = row["verdict"]
        table.add_row(row["name"], row["kind"], Text(verdict, COLOURS[verdict]), Text(row["doc"] + reason))
    return table


def _counterexamples(properties: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    for row in properties:
        if row["verdict"] != "violated":
            continue
        said = f"\n{row['name']} is violated: {row.get('reason') or row['doc']}"
        yield Text("\n".join([said, *(f"  {line}" for line in counterexample_lines(row["trace"]))]))


def counterexample_lines(trace: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A trace as numbered steps: the start with every field, then only what changed."""
    for step in trace:
        if step["action"] is None:
            yield "0. start  " + ", ".join(f"{name}: {shown(value)}" for name, value in step["state"].items())
        else:
            given = ", ".join(f"{name}={value}" for name, value in step["parameters"].items())
            changes = ", ".join(
                f"{name}: {shown(old)} -> {shown(new)}" for name, (old, new) in step["changes"].items()
            )
            yield f"{step['step']}. {step['action']}({given})  {changes or 'nothing changes'}"
        if "back_to" in step:
            yield f"   ... and again from step {step['back_to']}"


def shown(value: object) -> str:
    """A value as a counterexample prints it."""
    return "[" + ", ".join(map(shown, value)) + "]" if isinstance(value, list) else str(value)


def _coverage(coverage: Mapping[str, int], *, complete: bool) -> Iterator[Text]:
    if not coverage:
        return  # it was stopped before anything was counted
    counts = ", ".join(f"{action} {amount(count)}" for action, count in coverage.items())
    yield Text(f"\nactions fired: {counts}")
    for action, count in coverage.items():
        if complete and not count:
            yield Text(f"warning: {action} never fired: no reachable state enables it", "yellow")
