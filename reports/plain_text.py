"""What people see of a plain run (`fencepost audit --store`), made from its JSON result and nothing else."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from fencepost.reports.audit_text import COLOURS, finding_lines, met_lines
from fencepost.reports.quantities import amount


def plain_text(result: Mapping[str, Any], *, quiet: bool = False) -> RenderableType:
    """Size, what was met, findings, the counterexample, and the verdict as the last word."""
    counterexample = result["violations"][0]["counterexample"] if result["violations"] else []
    told = (
        ["The last round, in the order in which replies came back:", *counterexample]
        if counterexample
        else []
    )
    return Group(
        *map(Text, [] if quiet else [_size(result), *met_lines(result["coverage"])]),
        *(Text(line, "yellow") for line in finding_lines(result)),
        *map(Text, told),
        Text.assemble((result["verdict"], COLOURS[result["verdict"]]), f": {result['bound']}"),
    )


def _size(result: Mapping[str, Any]) -> str:
    parameters = "".join(f" {name}={value}" for name, value in result["parameters"].items())
    return (
        f"{result['system']}{parameters} (for real): {amount(result['schedules'])} rounds of "
        f"{result['threads']} threads, {amount(result['requests'])} requests, up to "
        f"{result['at_once']} at once, {amount(result['looks'])} looks of the checks, "
        f"{result['seconds']:.2f} s"
    )
