"""What an audit's runs cost at most, and how much of the model they drove, as lines of text.

Made from the keys `cost` and `model` of an audit's result, where a system gives them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.reports.quantities import amount

WIDTH = 104


def cost_lines(result: Mapping[str, Any]) -> list[str]:
    """The largest numbers of all runs, a line a verb."""
    cost: Mapping[str, Mapping[str, int]] = result.get("cost", {})
    label = "cost, at most"
    return [
        f"  {label if not number else '':<13}  {verb}: "
        + ", ".join(f"{amount(count)} {what}" for what, count in sorted(counts.items()))
        for number, (verb, counts) in enumerate(cost.items())
    ]


def model_lines(result: Mapping[str, Any], *, gaps: bool = False) -> list[str]:
    """The share of the model's transitions that were driven, by action, and what never was."""
    model: Mapping[str, Any] | None = result.get("model")
    if model is None:
        return []
    sizes = " ".join(f"{name}={value}" for name, value in model["parameters"].items())
    driven = f"{model['driven']:,} of {model['transitions']:,} transitions ({model['share']:.2%})"
    beyond = f"{model['runs_beyond_the_bound']:,} of them left that bound"
    lines = [
        f"  model         {driven} of {model['model']} {sizes}",
        f"                could have been driven, by {model['runs']:,} different runs; {beyond}",
        *_wrapped(
            f"{name} {counts['driven'] / counts['transitions']:.1%}"
            for name, counts in model["actions"].items()
        ),
    ]
    never = model["gaps"]
    if not never:
        return [*lines, "                every label was driven"]
    lines.append(
        f"                {len(never)} labels were never driven"
        + ("" if gaps else "; --gaps shows the model's way to each")
    )
    if gaps:
        for gap in never:
            lines.append(f"    {gap['label']} ({amount(gap['transitions'])} transitions)")
            lines += [f"      {number:>2} {step}" for number, step in enumerate(gap["path"], 1)]
    return lines


def _wrapped(parts: Iterator[str]) -> Iterator[str]:
    line = ""
    for part in parts:
        if line and len(line) + len(part) + 18 > WIDTH:
            yield " " * 16 + line
            line = ""
        line += f", {part}" if line else part
    if line:
        yield " " * 16 + line
