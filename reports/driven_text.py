"""What an audit's runs cost at most, and how much of the model they drove, as lines of text.

Made from the keys `cost` and `model` of an audit's result, where a system gives them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fencepost.reports.quantities import amount

WIDTH = 104


def cost_lines(result: Mapping[str, Any]) -> list[str]:
    """What operations cost: a line for each, with a column for each number of faults; and what was measured.

    Nothing where a property broke: the search ended there, and the most may be more.
    """
    cost: Mapping[str, Mapping[str, Any]] = {} if result.get("violations") else result.get("cost", {})
    measured = {verb: row for verb, row in cost.items() if "faults" not in row}
    return [*_by_faults({verb: row for verb, row in cost.items() if verb not in measured}), *_most(measured)]


def cost_summary(result: Mapping[str, Any]) -> str:
    """The same in a few words: requests and serial hops, at most; empty where nothing was counted."""
    rows = {} if result.get("violations") else result.get("cost", {})
    said = []
    for name, row in rows.items():
        levels = row.get("faults", ())
        most = [f"{level['requests']}/{level['hops']}" for level in levels]
        if not levels:
            continue
        tail = f", {most[-1]} with any" if most[-1] != most[0] else ""
        said.append(f"{name} {most[0]} {_faults(levels[0]['faults'])}{tail}")
    return "; ".join(said)


def _most(cost: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The largest numbers of all runs, a line a verb."""
    label = "cost, at most"
    return [
        f"  {label if not number else '':<13}  {verb}: "
        + ", ".join(f"{amount(count)} {what}" for what, count in sorted(counts.items()))
        for number, (verb, counts) in enumerate(cost.items())
    ]


def _by_faults(cost: Mapping[str, Mapping[str, Any]]) -> list[str]:
    levels = sorted({level["faults"] for row in cost.values() for level in row["faults"]})
    if not levels:
        return []
    head = ["requests/hops at most (median)", *(_faults(level) for level in levels), "may take"]
    rows = [
        [
            name,
            *(
                next((_level(found) for found in row["faults"] if found["faults"] == level), "")
                for level in levels
            ),
            _bound(row),
        ]
        for name, row in cost.items()
    ]
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        for row in [head, *rows]
    ]
    if not any(row[-1] for row in rows):
        lines[0] = lines[0].removesuffix("may take")
    return [f"  {'cost' if not at else '':<12}{line}".rstrip() for at, line in enumerate(lines)]


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))


def _level(row: Mapping[str, Any]) -> str:
    """`3/3 (2/2)`: the most, and the median."""
    most, median = f"{row['requests']}/{row['hops']}", f"{row['requests_median']}/{row['hops_median']}"
    return f"{most} ({median})"


def _bound(row: Mapping[str, Any]) -> str:
    """Bounds, for any run or by faults."""
    said = [_promised(row, "")]
    said += [
        _promised(level, f" {_faults(level['faults'])}")
        for level in row["faults"]
        if _promised(level, "") != _promised(row, "")
    ]
    return ", ".join(part for part in said if part)


def _promised(row: Mapping[str, Any], where: str) -> str:
    if "requests_max" not in row and "hops_max" not in row:
        return ""
    return "/".join(str(row.get(f"{unit}_max", "any")) for unit in ("requests", "hops")) + where


def _faults(count: int) -> str:
    return "without faults" if not count else f"with {count} fault{'' if count == 1 else 's'}"


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
